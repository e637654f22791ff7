"""Answers that a plugin makes of what it has noted itself are asked for again where it says that a node has changed."""

from typing import ClassVar

import numpy as np

from berth.plugin import Dependency, FilterColumn, Promises, unschedulable
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
