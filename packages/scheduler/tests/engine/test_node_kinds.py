"""Nodes that a plugin cannot tell apart are of one kind, whatever has happened to them since."""

import numpy as np
import pytest

from berth.core.builders import make_node, make_pod
from berth.engine.node_kinds import FEW_ROWS, NodeKinds
from berth.state.cache import Cache

NODES = FEW_ROWS + 4


class ByMode:
    """Tells nodes apart by a label, and by how many pods run there; breaks where it is told to."""

    def __init__(self):
        self.looked_at = []
        self.breaks_on = ""

    def node_signature(self, node):
        self.looked_at.append(node.name)
        if node.name == self.breaks_on:
            raise ValueError("a bug of the plugin's")
        return node.labels.get("mode"), len(node.pods)


class Kinds:
    """A table of nodes in three modes, and their kinds."""

    def __init__(self, capacity=32):
        self.cache, self.plugin = Cache(capacity=capacity), ByMode()
        for number in range(NODES):
            self.put(number, "abc"[number % 3])
        self.kinds = NodeKinds(self.plugin)

    def put(self, number, mode):
        self.cache.put_node(make_node(f"n{number}").capacity(cpu="8").label("mode", mode).build())

    def among(self, cache=None):
        """Ask about all nodes, see that each stands for those like it; return who was looked at."""
        table = (self.cache if cache is None else cache).table
        self.plugin.looked_at.clear()
        rows = table.rows()
        asked, which = self.kinds.among(table, rows)
        looked_at, says = self.plugin.looked_at[:], ByMode().node_signature
        assert asked.tolist() == sorted(asked.tolist())
        assert [says(table.view(row)) for row in asked[which].tolist()] == [
            says(table.view(row)) for row in rows.tolist()
        ]
        assert len(asked) == len({says(table.view(row)) for row in rows.tolist()})
        return looked_at


def test_nodes_are_looked_at_once_and_again_when_they_have_changed():
    found = Kinds()
    assert len(found.among()) == NODES
    assert found.among() == []
    found.put(4, "z")
    assert found.among() == ["n4"]
    found.cache.add_pod(make_pod("a").node("n7").info())
    assert found.among() == ["n7"]
    found.cache.remove_node("n5")
    assert found.among() == []


def test_of_few_nodes_all_are_asked_about_and_none_is_looked_at():
    found = Kinds()
    rows = found.cache.table.rows()[:FEW_ROWS]
    assert found.kinds.among(found.cache.table, rows) == (rows, slice(None)) and found.plugin.looked_at == []


def test_a_table_that_grows_and_another_one_are_looked_at_as_a_whole():
    found, other = Kinds(), Kinds()
    found.among()
    for number in range(NODES, 40):
        found.put(number, "a")
    assert len(found.among()) == 40
    other.put(0, "z")
    assert len(found.among(other.cache)) == NODES
    assert len(found.among()) == 40


def test_what_a_bug_has_left_unfinished_is_worked_out_anew():
    found = Kinds()
    found.among()
    for number in (3, 9):
        found.put(number, "z")
    found.plugin.breaks_on = "n9"
    with pytest.raises(ValueError, match="a bug"):
        found.among()
    found.plugin.breaks_on = ""
    assert len(found.among()) == NODES


def test_kinds_that_no_node_is_of_any_more_are_forgotten():
    found = Kinds()
    found.among()
    for life in range(300):
        found.put(life % NODES, f"mode-{life}")
        assert len(found.among()) in (1, NODES)
    assert len(found.kinds._kind_of) <= 2 * found.cache.table.capacity + NODES
    assert np.unique(found.kinds._kinds[found.cache.table.rows()]).size == NODES
