"""`berth.Scheduler`: objects in, decisions with their reasons out, without anything running."""

import subprocess
import sys

import pytest

import berth
from berth.core.builders import make_node, make_pod
from berth.framework.status import Code, Status, unschedulable


def node(name, cpu="4", **metadata):
    return {
        "kind": "Node",
        "metadata": {"name": name, **metadata},
        "status": {"capacity": {"cpu": cpu, "memory": "8Gi", "pods": "110"}},
    }


def pod(name, cpu="1", **spec):
    container = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
    return {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}


class Fussy:
    name = "Fussy"

    def __init__(self, args, handle): ...

    def filter(self, state, pod, node):
        return None if node.name in pod.name else unschedulable("not fussy enough")

    def score(self, state, pod, node):
        return 7


def test_a_pod_is_placed_with_scores_and_totals():
    scheduler = berth.Scheduler()
    scheduler.add(node("n1"), node("n2"), pod("there", cpu="3", nodeName="n1"))
    result = scheduler.schedule(pod("web"))
    assert (result.outcome, result.node, result.message) == ("scheduled", "n2", "")
    assert result.totals["n2"] > result.totals["n1"]
    assert result.totals["n1"] == sum(result.scores["n1"].values())
    assert scheduler.placements == {"default/there": "n1", "default/web": "n2"}


def test_a_pod_that_fits_nowhere_is_told_why_node_by_node():
    scheduler = berth.Scheduler()
    scheduler.add(node("n1"), make_node("n2").capacity(cpu="8").taint("gpu"))
    result = scheduler.schedule(make_pod("web").request(cpu="5"))
    assert (result.outcome, result.node) == ("unschedulable", None)
    assert result.message.startswith("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)")
    assert [said.plugin for said in result.reasons["n1"]] == ["NodeResourcesFit"]
    assert [said.plugin for said in result.reasons["n2"]] == ["TaintToleration"]
    scheduler.add(node("n3", cpu="8"))
    assert [each.node for each in scheduler.schedule_all()] == ["n3"]
    assert scheduler.schedule_all() == []


def test_others_leave_for_a_pod_of_higher_priority():
    scheduler = berth.Scheduler()
    scheduler.add({"kind": "List", "items": [node("n1"), pod("low", cpu="3", nodeName="n1")]})
    result = scheduler.schedule(pod("high", cpu="3", priority=10))
    assert (result.node, result.victims) == ("n1", ("default/low",))
    assert "default/low" not in scheduler.placements


def test_a_gated_pod_is_told_by_whom():
    scheduler = berth.Scheduler()
    scheduler.add(node("n1"))
    result = scheduler.schedule(pod("web", schedulingGates=[{"name": "example.com/wait"}]))
    assert (result.outcome, result.node) == ("gated", None)
    assert result.message == "held back before the queue by SchedulingGates"


def test_a_pod_that_permit_holds_is_waiting():
    class Patient:
        name = "Patient"

        def __init__(self, args, handle): ...

        def permit(self, state, pod, node_name):
            return Status(Code.WAIT, ("not yet",)), 30.0

    scheduler = berth.Scheduler(plugins=[Patient])
    scheduler.add(node("n1"))
    result = scheduler.schedule(pod("web"))
    assert (result.outcome, result.node) == ("waiting", "n1")
    assert result.message == "waiting on permit of Patient"
    assert scheduler.placements == {"default/web": None}


def test_plugins_are_enabled_unless_a_configuration_says_which_are():
    scheduler = berth.Scheduler(plugins=[Fussy])
    scheduler.add(node("n1"), node("n2"))
    result = scheduler.schedule(pod("for-n2"))
    assert result.node == "n2"
    assert [(said.plugin, said.reasons) for said in result.reasons["n1"]] == [("Fussy", ("not fussy enough",))]
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    indifferent = berth.Scheduler(config, plugins=[Fussy])
    indifferent.add(node("n1"))
    assert indifferent.schedule(pod("for-n2")).node == "n1"


def test_the_same_seed_gives_the_same_choices():
    def choices(seed):
        scheduler = berth.Scheduler(seed=seed)
        scheduler.add(*[node(f"n{number}") for number in range(8)])
        return [scheduler.schedule(pod(f"p{number}")).node for number in range(6)]

    assert choices(3) == choices(3)
    assert len({tuple(choices(seed)) for seed in range(6)}) > 1


def test_removed_objects_are_gone():
    scheduler = berth.Scheduler()
    scheduler.add(node("n1"), node("n2"), pod("a", nodeName="n1"))
    scheduler.remove("Node", "n2")
    scheduler.remove("Pod", "a")
    assert scheduler.placements == {}
    assert scheduler.schedule(pod("b")).node == "n1"
    with pytest.raises(KeyError, match="there is no Node 'n2'"):
        scheduler.remove("Node", "n2")
    with pytest.raises(KeyError, match="there is no Pod 'team/a'"):
        scheduler.remove("Pod", "a", "team")


def test_what_cannot_be_used_is_told():
    class Wrong:
        name = "Wrong"

        def filter(self, state, pod): ...

    with pytest.raises(berth.ConfigError) as raised:
        berth.Scheduler(plugins=[Wrong])
    assert "Wrong has the method filter(self, state, pod), but it is called as" in str(raised.value)
    with pytest.raises(berth.ConfigError, match="cannot read the configuration file"):
        berth.Scheduler("nothing.yaml")
    scheduler = berth.Scheduler()
    with pytest.raises(ValueError, match=r"a Pod has no metadata\.name"):
        scheduler.schedule({"kind": "Pod", "spec": {}})
    with pytest.raises(ValueError, match="reads no objects of kind 'Deployment'; those it reads are Pod"):
        scheduler.add({"kind": "Deployment"})
    with pytest.raises(ValueError, match="expected a manifest"):
        scheduler.add(3)
    with pytest.raises(berth.ObjectError, match="Pod default/web: "):
        scheduler.add({"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": 3}})
    with pytest.raises(ValueError, match="expected a pod, got a Node"):
        scheduler.schedule(node("n1"))


def test_more_pods_than_the_trace_remembers():
    scheduler = berth.Scheduler()
    scheduler.add(*[node(f"n{number}", cpu="64") for number in range(4)])
    scheduler.add(*[pod(f"p{number}", cpu="100m") for number in range(300)])
    results = scheduler.schedule_all()
    assert len(results) == 300
    assert {each.outcome for each in results} == {"scheduled"}


def test_import_berth_imports_nothing_heavy_and_names_what_it_offers():
    code = (
        "import sys, berth; print('numpy' in sys.modules, 'berth.core.core' in sys.modules); print(*sorted(dir(berth)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split("\n")
    assert said[0] == "False False"
    assert set(berth.__all__) <= set(said[1].split())
    assert all(getattr(berth, name) is not None for name in berth.__all__)
    with pytest.raises(AttributeError, match="module 'berth' has no attribute 'Schedular'"):
        berth.Schedular  # noqa: B018


def test_what_is_read_of_a_result_later_is_what_was_so_when_it_was_made():
    def decided(reads_at_once):
        scheduler = berth.Scheduler(seed=3)
        for number in range(12):
            scheduler.add(node(f"n{number}", cpu=str(2 + number % 3), labels={"zone": f"z{number % 2}"}))
        results = []
        for number in range(60):
            app = {"app": f"a{number % 4}"}
            spread = {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": app},
            }
            asked = pod(f"p{number}", cpu=f"{600 + 200 * (number % 5)}m", topologySpreadConstraints=[spread])
            asked["metadata"]["labels"] = app
            results.append(scheduler.schedule(asked))
            if reads_at_once:
                results[-1].as_dict()
            if number == 30:
                scheduler.remove("Node", "n1")
                scheduler.add(node("n12", cpu="8"))
        return [each.as_dict() for each in results]

    later = decided(reads_at_once=False)
    assert later == decided(reads_at_once=True)
    assert {each["outcome"] for each in later} == {"scheduled", "unschedulable"}
