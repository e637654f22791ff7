"""Answers that a plugin makes of what it has noted itself are asked for again where it says that a node has changed."""

from typing import ClassVar

import numpy as np

from berth.plugin import CustomResource, Dependency, FilterColumn, Promises, unschedulable
from berth.testing import VirtualCluster, make_node, make_pod

CLOSED = unschedulable("node(s) were closed")


class Closing:
    """Keeps pods off nodes that it has been told to close."""

    name = "Closing"
    promises: ClassVar[Promises] = Promises(
        filter_depends_on=frozenset({Dependency.NODE, Dependency.PODS_ON_NODE}), filters_by_row=True
    )

    def __init__(self, args, handle):
        self.handle, self.closed, self.asked = handle, set(), []

    def signature(self, pod):
        return ()

    def filter(self, state, pod, node):
        return CLOSED if node.name in self.closed else None

    def filter_row(self, state, pod, table, row):
        self.asked.append(table.names[row])
        return int(table.names[row] in self.closed)

    def filter_columns(self, state, pod, table, rows):
        names = np.array(table.names)[rows].tolist()
        return FilterColumn(np.array([name in self.closed for name in names], dtype=np.int32), lambda _: CLOSED)


def test_only_the_row_that_has_changed_is_asked_about_again():
    nodes = [make_node(f"n{number}").capacity(cpu="100", memory="8Gi") for number in range(40)]
    pods = [make_pod(f"p{number}") for number in range(3)]
    found = VirtualCluster(*nodes, *pods, plugins=[Closing], check_promises=0).run()
    (plugin,) = [each.plugin for each in found.core.profiles["default-scheduler"].plugins if each.name == "Closing"]
    free = sorted({node.metadata["name"] for node in nodes} - set(found.nodes_of().values()))
    told, untold = free[:2]
    plugin.closed.update((told, untold))
    plugin.asked.clear()
    plugin.handle.node_changed(told)
    plugin.handle.node_changed("unknown")
    found.put(make_pod("p3"))
    found.run()
    assert told in plugin.asked
    assert untold not in plugin.asked, "nothing was said of it"
    assert len(plugin.asked) < 5


THINGS = CustomResource("example.com", "v1", "things", "Thing")


class ByThings:
    """Keeps pods off nodes of which a thing says that they are closed."""

    name = "ByThings"
    promises: ClassVar[Promises] = Promises(filter_depends_on=frozenset({Dependency.PODS_ON_NODE}))

    def __init__(self, args, handle):
        self.things, self.asked = handle.follow(THINGS, node_of=lambda thing: thing["node"]), []
        self.things.add_index("node", lambda thing: [thing["node"]])

    def signature(self, pod):
        return ()

    def filter(self, state, pod, node):
        self.asked.append(node.name)
        return CLOSED if [*self.things.by_index("node", node.name)] else None


def test_an_object_that_tells_of_a_node_makes_that_node_stale_and_no_other():
    nodes = [make_node(f"n{number}").capacity(cpu="100", memory="8Gi") for number in range(40)]
    found = VirtualCluster(*nodes, make_pod("p0"), plugins=[ByThings], check_promises=0).run()
    (plugin,) = [each.plugin for each in found.core.profiles["default-scheduler"].plugins if each.name == "ByThings"]
    before = found.nodes_of()["p0"]

    def asked_for(pod):
        plugin.asked.clear()
        found.put(make_pod(pod))
        found.run()
        return set(plugin.asked)

    thing = {"metadata": {"name": "t", "namespace": "a"}, "apiVersion": "example.com/v1", "kind": "Thing"}
    found.put(THINGS.read({**thing, "node": "n7"}))
    assert asked_for("p1") == {before, "n7"}
    found.put(THINGS.read({**thing, "node": "n8"}))
    assert asked_for("p2") == {found.nodes_of()["p1"], "n7", "n8"}
    found.delete(THINGS.name, "a/t")
    assert asked_for("p3") == {found.nodes_of()["p2"], "n8"}
    assert not {"n7", "n8"} & set(list(found.nodes_of().values())[:2])


def test_what_tells_of_nodes_is_covered_by_the_promise_for_their_pods():
    cluster = VirtualCluster(make_node("n1").capacity(cpu="1", memory="8Gi"), make_pod("p0"), plugins=[ByThings])
    assert cluster.run().nodes_of() == {"p0": "n1"}
