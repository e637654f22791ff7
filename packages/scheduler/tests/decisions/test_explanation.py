"""Decisions in words."""

import random

import msgspec
import pytest

from berth.config.load import default_config
from berth.core.assembly import build_core
from berth.core.builders import expression, make_node, make_pod
from berth.core.intake import ObjectEvent
from berth.core.options import CoreOptions
from berth.core.virtual_cluster import VirtualCluster
from berth.cycle.instrument import Instrument
from berth.decisions.explanation import Rejected, event_in_words, explain, waits_for
from berth.decisions.waits import pending_pod
from berth.framework.events import Action, ClusterEvent
from berth.framework.status import unschedulable
from berth.plugins.registry import in_tree_registry
from packages.scheduler.tests.support import plugin


def node(name, cpu="4", *, zone="a", taint=False):
    builder = make_node(name).capacity(cpu=cpu, memory="8Gi", pods="110").label("zone", zone)
    return (builder.taint("gpu", "yes") if taint else builder).build()


def decided(pod, *nodes):
    """The decision that the core makes about a pod, and the core."""
    core = build_core(default_config(), in_tree_registry(), CoreOptions(rng=random.Random(1)))
    for one in nodes:
        core.handle(ObjectEvent("ADDED", "Node", one), 0.0)
    core.handle(ObjectEvent("ADDED", "Pod", pod.build()), 0.0)
    core.step(1.0)
    return core.trace[f"default/{pod.build().metadata.name}"], core


class ReadingAtOnce(Instrument):
    """Reads each decision while it is made, as the decision log does, and keeps it to be read again."""

    def __init__(self):
        self.read = []

    def decided(self, decision, seconds):
        assert decision.fresh is not None
        self.read.append((decision, explain(decision, top=3, names_shown=3)))


def workload(rng):
    """Nodes of several sizes and zones, and pods with all sorts of wishes, a third of them alike."""
    nodes = [
        make_node(f"n{number}").capacity(cpu=str(rng.choice([2, 4, 8])), memory="32Gi", pods="20")
        .label("kubernetes.io/hostname", f"n{number}").label("topology.kubernetes.io/zone", f"z{number % 3}")
        for number in range(rng.randint(1, 25))
    ]  # fmt: skip
    if rng.random() < 0.5:
        nodes[0].taint("gpu", "yes")
    pods = []
    for number in range(40):
        pod = make_pod(f"p{number}").label("app", rng.choice("ab")).request(cpu=f"{rng.choice([1, 100, 700, 2500])}m")
        wish = rng.randrange(6)
        if wish == 0:
            pod.pod_anti_affinity("kubernetes.io/hostname", {"app": "a"})
        elif wish == 1:
            pod.prefer_pod_affinity(5, "topology.kubernetes.io/zone", {"app": "b"})
        elif wish == 2:
            pod.spread("topology.kubernetes.io/zone", {"app": "a"}, when="ScheduleAnyway")
        elif wish == 3:
            pod.spread("topology.kubernetes.io/zone", {"app": "b"}, max_skew=2)
        pods.append(pod)
    return nodes, pods


@pytest.mark.parametrize("seed", range(25))
def test_read_at_once_a_decision_says_what_it_says_ever_after(seed):
    """`_Fresh` and `_Scored` are two ways to the same words."""
    rng = random.Random(seed)
    reading = ReadingAtOnce()
    nodes, pods = workload(rng)
    found = VirtualCluster(*nodes, instrument=reading)
    for pod in pods:
        found.put(pod)
        if rng.random() < 0.3:
            found.run()
    found.run()
    assert sum(decision.chosen is not None for decision, _ in reading.read) >= 3
    for decision, at_once in reading.read:
        assert explain(decision, top=3, names_shown=3) == at_once


def test_the_best_node_is_named_with_its_scores():
    decision, _ = decided(make_pod("web").request(cpu="1"), node("small", "2"), node("large", "8"))
    found = explain(decision)
    assert (found.outcome, found.node, found.feasible_count, found.node_count) == ("scheduled", "large", 2, 2)
    assert found.summary.startswith("default/web goes to large: 2 of 2 nodes fit, and it has the highest score, ")
    assert [scored.node for scored in found.best] == ["large", "small"]
    for scored in found.best:
        assert sum(scored.scores.values()) == scored.total
    assert found.weights["TaintToleration"] == 3
    assert found.rejected == ()


def test_among_equals_the_chosen_one_comes_first_and_chance_is_admitted():
    decision, _ = decided(make_pod("web").request(cpu="1"), *(node(f"n{i}") for i in range(5)))
    found = explain(decision, top=2)
    assert len(found.best) == 2
    assert found.best[0].node == found.node
    assert "one of 5 with the highest score" in found.summary
    assert found.summary.endswith("chosen at random")


def test_the_only_node_is_not_one_of_several():
    decision, _ = decided(make_pod("web").request(cpu="1"), node("large", "8"))
    assert explain(decision).summary == "default/web goes to large: it is the only node, and the pod fits there"


def test_a_single_node_needs_no_score():
    decision, _ = decided(make_pod("web").request(cpu="3"), node("small", "2"), node("large", "8"))
    found = explain(decision)
    assert found.summary == "default/web goes to large: it is the only one of 2 nodes that fits"
    assert found.best[0].total is None
    # More than the node has at all: no eviction there would help.
    code = "UnschedulableAndUnresolvable"
    assert found.rejected == (Rejected("NodeResourcesFit", code, ("Insufficient cpu",), 1, ("small",)),)


def test_the_others_are_grouped_by_the_first_plugin_that_said_no():
    nodes = [node("tainted", "2", taint=True), node("small-1", "2"), node("small-2", "2")]
    decision, _ = decided(make_pod("web").request(cpu="3"), *nodes)
    found = explain(decision, names_shown=1)
    assert (found.outcome, found.node, found.best) == ("unschedulable", None, ())
    assert [(group.plugin, group.count, group.nodes) for group in found.rejected] == [
        ("NodeResourcesFit", 2, ("small-1",)),
        ("TaintToleration", 1, ("tainted",)),
    ]
    assert found.summary == f"default/web could not be scheduled: {found.message}"
    assert found.message.startswith("0/3 nodes are available: ")
    assert found.post_filter is not None and found.post_filter.code == "Unschedulable"


def test_nodes_that_a_plugin_names_one_by_one_are_one_group_where_they_are_many():
    named = plugin("Naming", filter=lambda state, pod, node: unschedulable(f"{node.name} is no", in_general=("no",)))

    def groups(nodes):
        cluster = VirtualCluster(*(node(f"n{i}") for i in range(nodes)), make_pod("web"), plugins=[named]).run()
        return [(group.reasons, group.count) for group in explain(cluster.core.trace["default/web"]).rejected]

    assert sorted(groups(2)) == [(("n0 is no",), 1), (("n1 is no",), 1)]
    assert groups(30) == [(("no",), 30)]


def test_one_node_is_shown_with_every_plugin_that_said_no():
    decision, _ = decided(
        make_pod("web").request(cpu="3"), node("both", "2", taint=True), node("fine", "8"), node("ok")
    )
    both, fine, unknown = explain(decision, nodes=("both", "fine", "nowhere")).nodes
    assert both.fits is False
    assert [said.plugin for said in both.rejections] == ["TaintToleration", "NodeResourcesFit"]
    assert fine.fits is True
    assert fine.total == sum(fine.scores.values())
    assert (unknown.fits, unknown.rejections) == (None, ())


def test_nodes_that_were_never_looked_at_are_counted():
    pod = make_pod("web").require_node(fields=[expression("metadata.name", "In", "n1")])
    decision, _ = decided(pod, node("n1"), node("n2"), node("n3"))
    found = explain(decision, nodes=("n2",))
    assert found.node == "n1"
    assert [(group.plugin, group.count) for group in found.rejected] == [("NodeAffinity", 2)]
    assert found.nodes[0].fits is None


def test_it_becomes_json():
    decision, _ = decided(make_pod("web").request(cpu="3"), node("small", "2"), node("large", "8"))
    shown = msgspec.json.decode(msgspec.json.encode(explain(decision, time="2026-01-01T00:00:00Z")))
    assert shown["node"] == "large"
    assert shown["nodeCount"] == 2
    assert shown["rejected"][0]["reasons"] == ["Insufficient cpu"]


def test_what_a_pending_pod_waits_for_comes_from_the_plugins_that_rejected_it():
    _, core = decided(make_pod("web").request(cpu="30"), node("n1"))
    profile = core.profiles["default-scheduler"]
    (queued,) = core.queue.unschedulable.values()
    found = waits_for(profile, queued.rejectors)
    assert list(found) == ["NodeResourcesFit"]
    assert any(words.startswith("Node: added") for words in found["NodeResourcesFit"])
    assert pending_pod(core, queued, "unschedulable", str).wakes_at is None
    core.queue.wake_at(queued.pod.uid, 30.0)
    assert pending_pod(core, queued, "unschedulable", str).wakes_at == "30.0"


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_LABEL), "Node: added, label changed"),
        (ClusterEvent("Pod", Action.DELETE), "Pod: deleted"),
        (ClusterEvent("CSINode", Action.ADD | Action.UPDATE), "CSINode: added, changed"),
        (ClusterEvent("Service", Action.ALL), "Service: any change"),
        (ClusterEvent("*", Action.ALL), "any change in the cluster"),
    ],
)
def test_events_in_words(event, words):
    assert event_in_words(event) == words
