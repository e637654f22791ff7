"""Preemption by a plugin's own rules: the search is DefaultPreemption's, who may go is what the plugin says.

Expectations follow from the contract in `berth.framework.preemption`.
"""

from typing import ClassVar

import pytest

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.interface import PostFilterPlugin
from berth.framework.preemption import VictimRules, VictimSets
from berth.framework.status import error, unschedulable

SPARED = "example.com/spared"


class Sparing(PostFilterPlugin, VictimRules):
    """Preempts pods of any priority that have no label which spares them, and leaves at least two pods on a node."""

    name: ClassVar[str] = "Sparing"
    fewest: ClassVar[int] = 0
    broken: ClassVar[bool] = False

    def __init__(self, args, handle):
        self._preemption = handle.preemption(self)

    def post_filter(self, state, pod, diagnosis):
        return self._preemption.post_filter(state, pod, diagnosis)

    def ineligibility(self, pod, nominated):
        return "it is too modest" if pod.labels.get("modest") else None

    def potential_victims(self, state, pod, node):
        if self.broken:
            return error(f"nobody knows {node.name}")
        found = [other for other in node.pods.values() if SPARED not in other.labels]
        return found or unschedulable("all are spared")

    def refusal(self, state, pod, node):
        return unschedulable("too few would stay") if len(node.pods) < self.fewest else None


def cluster(*pods, plugin=Sparing):
    enabled = [{"name": name} for name in ("Sparing", "PrioritySort", "DefaultBinder", "NodeResourcesFit")]
    plugins = {"multiPoint": {"enabled": enabled, "disabled": [{"name": "*"}]}}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = {**kind, "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}]}
    node = make_node("n1").capacity(cpu="4", memory="8Gi")
    return VirtualCluster(node, *pods, plugins={"Sparing": plugin}, config=config).run()


def running(name, cpu="2", **labels):
    return make_pod(name).request(cpu=cpu).labels(labels).node("n1")


def test_victims_are_those_the_rules_name_whatever_their_priority():
    found = cluster(running("a").priority(1000), running("b", **{SPARED: "yes"}), make_pod("new").request(cpu="2"))
    assert found.nodes_of() == {"b": "n1", "new": "n1"}


def test_a_pod_that_may_stay_is_put_back():
    found = cluster(running("a", "1"), running("b", "3"), make_pod("new").request(cpu="2"))
    assert sorted(found.nodes_of()) == ["a", "new"]


@pytest.mark.parametrize(
    ("attributes", "labels", "words"),
    [
        ({"fewest": 1}, {}, "1 too few would stay"),
        ({"broken": True}, {}, "nobody knows n1"),
        ({}, {"modest": "yes"}, "it is too modest"),
    ],
)
def test_why_nobody_goes_is_told_in_the_plugins_words_alone(attributes, labels, words):
    plugin = type("Sparing", (Sparing,), attributes)
    found = cluster(running("a", "4"), make_pod("new").request(cpu="4").labels(labels), plugin=plugin)
    assert found.nodes_of() == {"a": "n1", "new": ""}
    (note,) = set(found.events("FailedScheduling"))
    assert words in note and "preemption:" not in note


def test_spared_pods_make_a_node_of_no_use():
    found = cluster(running("a", "4", **{SPARED: "yes"}), make_pod("new").request(cpu="4"))
    assert "1 all are spared" in found.events("FailedScheduling")[0]


class OneOfTwo(Sparing):
    """May preempt `a` or `b`, never both."""

    tried: ClassVar[list[str]] = []

    def potential_victims(self, state, pod, node):
        self.tried.clear()

        def sets():
            for other in node.pods.values():
                self.tried.append(other.name)
                yield [other]

        return VictimSets(sets())


def test_sets_of_victims_are_tried_until_the_pod_fits_without_one():
    found = cluster(running("a", "1"), running("b", "3"), make_pod("new").request(cpu="3"), plugin=OneOfTwo)
    assert sorted(found.nodes_of()) == ["a", "new"]
    found = cluster(running("a", "3"), running("b", "1"), make_pod("new").request(cpu="3"), plugin=OneOfTwo)
    assert sorted(found.nodes_of()) == ["b", "new"] and OneOfTwo.tried == ["a"]
    found = cluster(running("a"), running("b"), make_pod("new").request(cpu="3"), plugin=OneOfTwo)
    assert sorted(found.nodes_of()) == ["a", "b", "new"]


class Costly(Sparing):
    """Frees the node whose name is the last."""

    def __init__(self, args, handle):
        self._preemption = handle.preemption(self, cost=self.cost)

    def cost(self, state, pod, node, victims):
        assert [other.name for other in victims] == [f"on-{node.name}"]
        return -float(node.name[1:])


def test_rules_may_say_what_it_costs_to_free_a_node():
    enabled = [{"name": name} for name in ("Sparing", "PrioritySort", "DefaultBinder", "NodeResourcesFit")]
    plugins = {"multiPoint": {"enabled": enabled, "disabled": [{"name": "*"}]}}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = {**kind, "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}]}
    nodes = [make_node(f"n{number}").capacity(cpu="4", memory="8Gi") for number in range(4)]
    # By DefaultPreemption's criteria the least important victim goes, that on n0.
    pods = [make_pod(f"on-n{number}").request(cpu="4").priority(number).node(f"n{number}") for number in range(4)]
    found = VirtualCluster(*nodes, *pods, plugins={"Sparing": Costly}, config=config)
    found.put(make_pod("new").request(cpu="1").priority(9))
    assert found.run().nodes_of()["new"] == "n3"


def crowded(nodes, plugin):
    """A cluster in which nobody can be evicted anywhere for a pod that is there three times."""
    found = cluster(plugin=plugin)
    for number in range(2, nodes + 1):
        found.put(make_node(f"n{number}").capacity(cpu="4", memory="8Gi"))
    for number in range(1, nodes + 1):
        found.put(make_pod(f"a-{number}").request(cpu="4").labels({SPARED: "yes"}).node(f"n{number}"))
    for name in ("first", "second", "third"):
        found.put(make_pod(name).request(cpu="4"))
    return found.run()


class Naming(Sparing):
    """Names each node of which it says something, and may say on what that depends."""

    basis: ClassVar[object] = None

    def __init__(self, args, handle):
        self._preemption = handle.preemption(self, basis=(lambda state, pod: self.basis) if self.basis else None)

    def potential_victims(self, state, pod, node):
        found = super().potential_victims(state, pod, node)
        words = f"all on {node.name} are spared by {pod.name}"
        return found if isinstance(found, list) else unschedulable(words, in_general=(f"all are spared by {pod.name}",))


@pytest.mark.parametrize("nodes", [3, 16, 17, 40])
def test_what_is_remembered_of_nodes_is_told_in_the_same_words(nodes):
    told = [
        crowded(nodes, type("Sparing", (Naming,), {"basis": basis})).events("FailedScheduling")
        for basis in (None, ("always", "the same"))
    ]
    assert told[0] == told[1]
    assert ("1 all on n1 are spared by third" in told[1][-1]) == (nodes <= 16)
    assert (f"{nodes} all are spared by third." in told[1][-1]) == (nodes > 16)


def test_errors_on_many_nodes_are_told_for_the_first_of_them():
    lengths = [
        len(crowded(nodes, type("Sparing", (Sparing,), {"broken": True})).events("FailedScheduling")[-1])
        for nodes in (60, 600)
    ]
    assert lengths[1] - lengths[0] <= 20 and lengths[0] < 600
