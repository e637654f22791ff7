"""Pods that come back and are evicted again and again: every simulation ends, and says that it had to.

The circle: two pods that keep apart over a zone of two nodes. The preemptor's nomination keeps only its own node free
(a nominated pod is counted on its node and nowhere else, as in kube-scheduler's RunFilterPluginsWithNominatedPods), so
its victim comes back to the other node, where it is in the way as before.
"""

import json

import pytest
import yaml
from click.testing import CliRunner

from berth.api.codec import decode
from berth.cli import main
from berth.config.feature_gates import feature_gates
from berth.config.load import load_config
from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.interface import PostFilterResult
from berth.framework.promises import Promises
from berth.framework.registry import Registry
from berth.framework.status import unschedulable
from berth.plugins.registry import full_registry
from berth_workbench.simulation.cluster import SimulatedCluster, StuckError, pending_again
from berth_workbench.simulation.comebacks import TIMES
from berth_workbench.simulation.node_changes import drain_node, set_unschedulable
from berth_workbench.simulation.site import Site
from berth_workbench.traces.run import TraceRun
from berth_workbench.traces.trace import JobStarts, NodeComes, PodShapeGiven, ServiceScales, TimedWorkload, TraceHeader
from packages.scheduler.tests.support import with_profiles

KIND = "KubeSchedulerConfiguration"


def nodes(count=2):
    return [make_node(f"n{i + 1}").label("zone", "a").capacity(cpu="8", memory="32Gi", pods="9") for i in range(count)]


def apart(name, priority=0):
    return make_pod(name).label("app", "w").request(cpu="1").priority(priority).pod_anti_affinity("zone", {"app": "w"})


def low(name="low"):
    return apart(name).owned_by("ReplicaSet", "w")


def high():
    return make_pod("high").label("app", "w").request(cpu="1").priority(1000)


def circle():
    """The objects of it, the victim running."""
    return [*nodes(), low().node("n1"), high()]


def built(made):
    return [each.build() for each in made]


def test_a_pod_that_would_be_evicted_for_ever_waits_until_its_preemptor_has_a_node():
    cluster = SimulatedCluster(built(circle()))
    cluster.settle()
    assert cluster.placements["default/high"] in ("n1", "n2")
    assert cluster.placements["default/low"] == ""
    assert len(cluster.evictions) == TIMES
    assert cluster.circles == [("default/low", "default/high")]
    # It is pending like any other now: the scheduler has tried it, and will again when the zone is free.
    assert "anti-affinity" in cluster.messages["default/low"]
    cluster.delete("Pod", "default/high")
    cluster.settle()
    assert cluster.placements["default/low"]


def test_it_ends_where_the_preemptor_backs_off_first():
    """An idle queue of v1.20 does not pop from backoff: the victim is back before the preemptor is tried again."""
    config = load_config(
        {"apiVersion": "kubescheduler.config.k8s.io/v1beta1", "kind": KIND}, "a test", feature_gates({})
    )
    cluster = SimulatedCluster(built(circle()), config=config)
    cluster.settle()
    assert cluster.now > 0
    assert cluster.placements["default/high"]
    assert cluster.placements["default/low"] == ""
    assert len(cluster.evictions) == TIMES


def test_one_eviction_after_which_everything_has_a_place_is_no_circle():
    cluster = SimulatedCluster(
        built([*nodes(1), make_pod("low").request(cpu="8").owned_by("ReplicaSet", "w").node("n1")])
    )
    cluster.put(make_pod("high").request(cpu="8").priority(9).build())
    cluster.settle()
    assert len(cluster.evictions) == 1
    assert not cluster.circles


def test_many_that_are_in_the_way_of_many_come_to_an_end():
    pods = [low(f"low-{number}").spread("zone", {"app": "w"}) for number in range(4)]
    cluster = SimulatedCluster(built([*nodes(6), *pods, *(apart(f"high-{n}", 10 + n) for n in range(4))]))
    cluster.settle()
    placed = [key for key, node in cluster.placements.items() if node]
    assert placed == ["default/high-3"]


def test_a_pod_that_stays_away_can_be_deleted_and_put_again():
    cluster = SimulatedCluster(built(circle()))
    while not cluster.circles:
        cluster.step()
        cluster._return()
    assert cluster.placements == {"default/low": "", "default/high": ""}
    assert "would come back and be evicted again and again by default/high" in cluster.messages["default/low"]
    cluster.delete("Pod", "default/low")
    assert "default/low" not in cluster.placements
    cluster.put(low().build())
    cluster.settle()
    assert cluster.placements["default/high"]
    assert cluster.placements["default/low"] == ""


def test_a_preemptor_that_is_deleted_lets_its_victims_come_back():
    cluster = SimulatedCluster(built(circle()))
    while not cluster.circles:
        cluster.step()
        cluster._return()
    cluster.delete("Pod", "default/high")
    cluster.settle()
    assert cluster.placements["default/low"]


class Greedy:
    """Has a pod that fits nowhere evict whatever is on n1, and has the losers tried again whenever a pod is bound."""

    name = "Greedy"
    promises = Promises()

    def __init__(self, args, handle):
        self.handle = handle
        self.losers = set()

    def events_to_register(self):
        return ()

    def post_filter(self, state, pod, diagnosis):
        self.losers.add(pod.uid)
        table = self.handle.cache.table
        victims = tuple(table.pods[table.row_of["n1"]].values())
        return (PostFilterResult("n1", victims), None) if victims else (None, unschedulable("nobody to evict"))

    def post_bind(self, state, pod, node_name):
        for uid in self.losers - {pod.uid}:
            self.handle.activate(uid)


def test_plugins_that_have_pods_evict_each_other_end_in_an_error_that_names_them():
    """Nothing shows that this ends by itself: the one that was evicted evicts, whatever the priorities are."""
    enabled = [{"name": "Greedy"}]
    plugins = {"postFilter": {"disabled": [{"name": "*"}], "enabled": enabled}, "postBind": {"enabled": enabled}}
    registry = full_registry().merge(Registry({"Greedy": Greedy}, "a test"))
    config = load_config(with_profiles({"plugins": plugins}), "a test", feature_gates({}))
    pods = [make_pod(name).request(cpu="8").owned_by("ReplicaSet", "w") for name in ("one", "two")]
    cluster = SimulatedCluster(built([*nodes(1), *pods]), config=config, registry=registry)
    with pytest.raises(StuckError, match=r"default/(one|two) was evicted \d+ times by default/(one|two)"):
        cluster.settle()


def test_a_drain_leaves_alone_what_comes_back_to_the_node():
    """`kubectl drain` lists a node's pods once; one that tolerates the cordon comes back, and stays."""
    stubborn = make_pod("stubborn").owned_by("ReplicaSet", "w").tolerate(operator="Exists").node("n1")
    guarded = make_pod("guarded").label("app", "g").owned_by("ReplicaSet", "g").node("n1")
    budget = {
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "g"}}},
    }
    cluster = SimulatedCluster([*built([*nodes(1), stubborn, guarded]), decode("PodDisruptionBudget", budget)])
    site = Site(cluster)
    set_unschedulable(site, "n1", unschedulable=True)
    assert not drain_node(site, "n1", "drain of n1")
    assert [each.pod for each in site.departures] == ["default/stubborn"]
    assert cluster.placements == {"default/stubborn": "n1", "default/guarded": "n1"}
    assert [each.name for each in site.broken] == ["default/g"]


# -- where time runs -------------------------------------------------------------------------------------------------


def test_a_day_with_a_circle_goes_on_and_tells_it():
    apart = {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "w"}}}
                ]
            }
        }
    }
    records = (
        *(NodeComes(at=0.0, name=f"n{n}", cpu=8000, memory=2**35, labels={"zone": "a"}) for n in (1, 2)),
        ServiceScales(at=1.0, name="low", replicas=1, shape=PodShapeGiven(cpu=1000, labels={"app": "w"}, spec=apart)),
        JobStarts(at=10.0, name="high", runs=(100.0,), shape=PodShapeGiven(cpu=1000, labels={"app": "w"}, priority=9)),
    )
    run = TraceRun(TimedWorkload(TraceHeader(seconds=1000.0), records))
    result = run.live()
    assert result.evicted_again_and_again == 1
    assert (result.preempted, result.finished, result.waiting) == (TIMES, 1, 0)
    # The service's pod has come back when the job's was done, at 110.
    assert max(sample.longest_wait for sample in result.samples) <= 100.0
    assert run.cluster.placements["default/low-0"]


class _Quick(VirtualCluster):
    """A cluster whose controllers replace an evicted pod before anything else happens."""

    evictions = 0

    def evicted(self, pod, eviction):
        self.evictions += 1
        self.put(pending_again(pod))


def test_the_scheduler_itself_evicts_once_for_each_time_that_the_pod_comes_back():
    """In a real cluster the controller keeps the circle going: what it makes anew, the scheduler places or evicts.

    Stock kube-scheduler goes round the same way, and so do we; no step and no run of steps does so by itself.
    """
    cluster = _Quick(*circle())
    for _ in range(50):
        before = cluster.evictions
        cluster.step()
        assert cluster.evictions - before <= 1
    assert cluster.evictions > 10


# -- what people are told --------------------------------------------------------------------------------------------


@pytest.fixture
def cluster_file(tmp_path):
    path = tmp_path / "circle.yaml"
    made = circle()
    made[0].unschedulable()
    path.write_text(yaml.safe_dump_all([each.document for each in made]))
    return str(path)


def test_what_if_tells_it_as_broken(cluster_file):
    result = CliRunner().invoke(main, ["whatif", "--cluster", cluster_file, "--uncordon", "n1", "-o", "json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    (told,) = [each for each in found["broken"] if each["reason"] == "EvictedAgainAndAgain"]
    assert told["name"] == "default/low"
    assert told["message"].startswith("would come back and be evicted again and again by default/high")
    assert found["after"]["evictedAgainAndAgain"] == 1
    table = CliRunner().invoke(main, ["whatif", "--cluster", cluster_file, "--uncordon", "n1"]).output
    assert "would come back and be evicted again and again by default/high" in " ".join(table.split())


def test_compare_has_a_measure_of_it(tmp_path):
    path = tmp_path / "circle.yaml"
    path.write_text(yaml.safe_dump_all([each.document for each in circle()]))
    result = CliRunner().invoke(main, ["compare", "default", "default", "--cluster", str(path), "-o", "json"])
    assert result.exit_code == 0, result.output
    measures = {each["name"]: each["a"] for each in json.loads(result.output)["measures"]}
    assert measures["evictedAgainAndAgain"] == 1


def test_capacity_after_a_circle_notes_it(cluster_file, tmp_path):
    manifest = tmp_path / "more.yaml"
    manifest.write_text(yaml.safe_dump(make_pod("more").request(cpu="1").document))
    args = ["capacity", "--cluster", cluster_file, "-f", str(manifest), "--uncordon", "n1", "-o", "json"]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["notes"] == [
        "default/low would come back and be evicted again and again by default/high"
    ]
