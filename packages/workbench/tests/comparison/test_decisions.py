"""Decisions compared one by one, checked against the library's own scheduler run alone with each configuration."""

import msgspec
import pytest

from berth import Scheduler
from berth.core.builders import make_node, make_pod
from berth.decisions.side_by_side import ONE_PROFILE
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.comparison.decisions import GATED, NOT_OURS, decide
from berth_workbench.comparison.loads import ClusterLoad
from packages.workbench.tests.comparison.clusters import document, random_load, random_settings, source, with_plugin
from packages.workbench.tests.comparison.stateful import Heard, Steered

SEEDS = 12


def best(settings, standing, pod):
    """The best nodes for a pod as `berth.Scheduler` finds them in a cluster of its own."""
    scheduler = Scheduler(document(settings))
    scheduler.add(*standing)
    result = scheduler.schedule(pod)
    if not result.totals:
        return {result.node} - {None}
    return {node for node, total in result.totals.items() if total == max(result.totals.values())}


def on(pod, node):
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_changes_and_causes_are_those_of_the_engine_run_alone(seed):
    load, a, b = random_load(seed), random_settings(seed), random_settings(seed + 1000)
    found = decide(load, source(a).load(), source(b).load(), memos=bool(seed % 2))
    assert found.decided == len(load.pods)
    changes = {change.pod: change for change in found.changes}
    standing = list(load.standing)
    for pod in load.pods:
        of_a, of_b = best(a, standing, pod), best(b, standing, pod)
        change = changes.pop(pod.key, None)
        chosen = min(of_a, default=None)
        if change is None:
            assert chosen in of_b or not (of_a or of_b)
        else:
            assert (change.a, change.b) == (chosen, min(of_b, default=None))
            assert chosen not in of_b
            check_causes(change, a, b, of_a, of_b, standing, pod)
        if chosen is not None:
            standing.append(on(pod, chosen))
    assert not changes


def check_causes(change, a, b, of_a, of_b, standing, pod):
    """Put a plugin's settings of B into A, for every plugin, and see whether that explains the difference."""
    explains = set()
    for plugin in a:
        exchanged = best({**a, plugin: b[plugin]}, standing, pod)
        if not of_a or not of_b:
            accounts = bool(exchanged) == bool(of_b)
        else:
            accounts = change.a not in exchanged and bool(exchanged & of_b)
        if accounts:
            explains.add(plugin)
    if change.alone:
        assert set(change.plugins) == explains
    else:
        assert not explains
        # All of them together, since the other plugins' settings make no difference to any node's score or verdict.
        together = best(a | {plugin: b[plugin] for plugin in change.plugins}, standing, pod)
        assert bool(together) == bool(of_b) and (not of_b or not together.isdisjoint(of_b))


def test_the_random_clusters_have_every_kind_of_change():
    kinds, alone = set(), set()
    for seed in range(SEEDS):
        found = decide(
            random_load(seed), source(random_settings(seed)).load(), source(random_settings(seed + 1000)).load()
        )
        kinds |= {change.kind for change in found.changes}
        alone |= {change.alone for change in found.changes}
    assert (kinds, alone) == ({"elsewhere", "fitsNoMore", "fitsNow"}, {True, False})


def test_equal_configurations_decide_alike():
    settings = random_settings(1)
    assert decide(random_load(3), source(settings).load(), source(settings).load()).changes == ()


def test_the_first_ones_choice_stands_in_both():
    """The second pod is compared as if the first stood where A has put it; on its own, B would decide it otherwise."""
    nodes = [make_node(name).capacity(cpu="4", memory="8Gi", pods="1").build() for name in ("a", "b")]
    nodes[1] = make_node("b").capacity(cpu="8", memory="8Gi", pods="1").build()
    pods = tuple(make_pod(name).request(cpu="1").build() for name in ("p", "q"))
    found = decide(ClusterLoad(tuple(nodes), pods), strategy("LeastAllocated").load(), strategy("MostAllocated").load())
    assert [(change.pod, change.a, change.b) for change in found.changes] == [("default/p", "b", "a")]


def strategy(kind):
    settings = {"NodeResourcesFit": (1, {"scoringStrategy": {"type": kind, "resources": [{"name": "cpu"}]}})}
    return source(settings)


def test_pods_come_by_priority_and_those_that_nobody_decides_are_told():
    nodes = (make_node("a").capacity(cpu="2", pods="9").build(),)
    pods = (
        make_pod("late").request(cpu="2").priority(1).build(),
        make_pod("first").request(cpu="2").priority(9).build(),
        make_pod("gated").gate("wait").build(),
        make_pod("other").scheduler("theirs").build(),
    )
    without_fit = {**random_settings(0), "NodeResourcesFit": None}
    with_fit = {**without_fit, "NodeResourcesFit": (1, None)}
    found = decide(ClusterLoad(nodes, pods), source(with_fit).load(), source(without_fit).load())
    assert [(change.pod, change.kind, change.plugins) for change in found.changes] == [
        ("default/late", "fitsNow", ("NodeResourcesFit",))
    ]
    assert (found.decided, found.left_out) == (2, {GATED: 1, NOT_OURS: 1})


def test_a_pod_that_only_one_configuration_schedules():
    two = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": "batch"}],
    }
    load = ClusterLoad(
        (make_node("a").capacity(cpu="2", pods="9").build(),), (make_pod("p").scheduler("batch").build(),)
    )
    found = decide(load, ConfigurationSource.of_document("two", two).load(), ConfigurationSource("default").load())
    (change,) = found.changes
    assert (change.a, change.b, change.kind, change.note) == ("a", None, "fitsNoMore", ONE_PROFILE)


def test_generations_are_compared_with_plugins_under_todays_names():
    old = {"apiVersion": "kubescheduler.config.k8s.io/v1beta1", "kind": "KubeSchedulerConfiguration"}
    node = make_node("a").capacity(cpu="1", memory="4Gi", pods="9").build()
    hog = make_pod("hog").request(cpu="2").node("a").build()
    load = ClusterLoad((node, hog), (make_pod("p").request(memory="1Gi").build(),))
    found = decide(load, ConfigurationSource.of_document("old", old).load(), ConfigurationSource("default").load())
    assert [(change.kind, change.plugins, change.alone) for change in found.changes] == [
        ("fitsNow", ("NodeResourcesFit",), True)
    ]


def test_a_plugin_that_counts_pods_knows_those_that_stand():
    """Three pods go onto the first node; then B has closed it, and A, which does not count them, has not."""
    nodes = tuple(make_node(name).capacity(cpu=cpu, pods="9").build() for name, cpu in (("a", "64"), ("b", "8")))
    pods = tuple(make_pod(f"p{number}").request(cpu="1").build() for number in range(5))
    found = decide(ClusterLoad(nodes, pods), with_plugin(Heard), with_plugin(Steered))
    assert [(change.pod, change.a, change.b, change.plugins) for change in found.changes] == [
        ("default/p3", "a", "b", ("Steered",)),
        ("default/p4", "a", "b", ("Steered",)),
    ]


def test_plugins_of_both_sides_are_told_of_the_same_pods():
    both = []

    class Told(Heard):
        def __init__(self, args, handle):
            super().__init__(args, handle)
            both.append(self)

    node = make_node("a").capacity(cpu="2", pods="9").build()
    running = make_pod("running").request(cpu="1").node("a").build()
    load = ClusterLoad((node, running), tuple(make_pod(name).request(cpu="1").build() for name in ("p", "q")))
    decide(load, with_plugin(Told), with_plugin(Told))
    assert both[0].story == both[1].story
    told = [(what, uid.rpartition("/")[2], node) for what, uid, node in both[0].story]
    assert told == [
        ("added", "running", "a"),
        ("added", "p", ""),
        ("added", "q", ""),
        ("reserved", "p", "a"),
        ("bound", "p", "a"),
        ("postBound", "p", "a"),
    ]
