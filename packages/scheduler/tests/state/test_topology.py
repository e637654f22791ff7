"""Topology domains follow the node table, and sums over them follow both nodes and pods."""

import weakref
from typing import NamedTuple

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from berth.core.builders import make_node
from berth.state.cache import Cache
from berth.state.topology import EligibleRows, RowCounts, Topologies, Topology
from tests.effort import examples


def zoned(name, zone, unschedulable=False):
    node = make_node(name) if zone is None else make_node(name).zone(zone)
    return (node.unschedulable() if unschedulable else node).build()


ZONE = "topology.kubernetes.io/zone"


def table_of(*nodes):
    cache = Cache(capacity=2)
    for node in nodes:
        cache.put_node(node)
    return cache.table


def test_every_row_has_a_domain_and_those_without_the_label_the_last():
    table = table_of(zoned("n0", "a"), zoned("n1", "b"), zoned("n2", None), zoned("n3", "a"))
    topology = Topology(table, ZONE)
    assert topology.domain_count == 2
    assert not topology.complete
    assert topology.gather(np.array([10, 20, -1]), slice(0, 4)).tolist() == [10, 20, -1, 10]
    assert topology.gather(np.array([10, 20, -1]), np.array([3, 2])).tolist() == [10, -1]
    assert topology.id_of("nowhere") == topology.id_of(None) == -1
    assert topology._column.values[topology.id_of("b")] == "b"


def test_a_heartbeat_changes_nothing_and_a_new_zone_does():
    table = table_of(zoned("n0", "a"), zoned("n1", "b"))
    topology = Topology(table, ZONE)
    version = topology.version
    table.put_node(zoned("n0", "a"))
    topology.sync()
    assert topology.version == version
    table.put_node(zoned("n0", "c"))
    topology.sync()
    assert topology.version > version
    assert topology.domain_count == 2
    assert not topology.all_exist  # zone a has no node any more


def test_rows_that_do_not_count_lie_in_their_domain_but_add_nothing_to_it():
    table = table_of(zoned("n0", "a"), zoned("n1", "a", unschedulable=True), zoned("n2", "b", unschedulable=True))
    topology = Topology(table, ZONE, EligibleRows(table, lambda of, rows: ~of.unschedulable[rows]))
    counts = RowCounts(table.capacity)
    for row in range(3):
        counts.add(row, 1)
    sums = counts.by_domain(topology)
    assert (sums.values[topology.id_of("a")], sums.values[topology.id_of("b")], sums.total) == (1, 0, 1)
    assert topology.exists.tolist() == [True, False]
    table.put_node(zoned("n2", "b"))
    topology.sync()
    assert counts.by_domain(topology).total == 2


def test_a_row_beyond_the_known_ones_can_be_counted_before_the_topology_has_seen_it():
    table = table_of(zoned("n0", "a"), zoned("n1", "b"))
    topology, counts = Topology(table, ZONE), RowCounts(table.capacity)
    assert counts.by_domain(topology).total == 0
    row = table.put_node(zoned("n2", "b"))
    counts.grow(table.capacity)
    counts.add(row, 2)
    topology.sync()
    assert counts.by_domain(topology).values.tolist() == [0, 2, 0]


def test_codes_are_gathered_by_row_even_where_all_are_zero():
    topology = Topology(table_of(zoned("n0", "a"), zoned("n1", "b")), ZONE)
    assert topology.gather_codes(np.array([0, 3, 9], dtype=np.int8), slice(0, 2)).tolist() == [0, 3]
    assert topology.gather_codes(np.array([0, 0, 9], dtype=np.int8), slice(0, 2)).tolist() == [0, 0]
    assert topology.gather_codes(np.array([0, 0, 9], dtype=np.int8), np.array([1])).dtype == np.int32


class SomeRows(NamedTuple):
    """The name of a set of rows."""

    text: str = "some"

    def size(self):
        return len(self.text)


def test_topologies_that_are_forgotten_are_kept_by_no_column():
    table = table_of(zoned("n0", "a"))
    topologies, counts = Topologies(table), RowCounts(table.capacity)
    topologies._known.bytes_at_most = 100
    known = topologies.get(ZONE, SomeRows("first"), lambda of, rows: of.valid[rows])
    counts.add(0, 2)
    assert counts.by_domain(known).total == 2
    gone = weakref.ref(known)
    del known
    topologies.get(ZONE, SomeRows("x" * 100), lambda of, rows: of.valid[rows])
    assert gone() is None
    counts.add(0, 1)
    again = topologies.get(ZONE, SomeRows("first"), lambda of, rows: of.valid[rows])
    assert counts.by_domain(again).total == 3


def test_topologies_are_made_once_for_each_set_of_rows():
    topologies = Topologies(table_of(zoned("n0", "a")))
    assert topologies.get(ZONE) is topologies.get(ZONE)
    assert topologies.get(ZONE) is not topologies.get(ZONE, SomeRows(), lambda of, rows: of.valid[rows])


class Sums(RuleBasedStateMachine):
    """Nodes come, move and go, pods come and go; sums must be what a recount gives."""

    def __init__(self):
        super().__init__()
        self.table = Cache(capacity=2).table
        self.topologies = Topologies(self.table)
        self.counts = RowCounts(self.table.capacity)

    @rule(name=st.sampled_from("nmopq"), zone=st.sampled_from(["a", "b", "c", None]), unschedulable=st.booleans())
    def put_node(self, name, zone, unschedulable):
        self.table.put_node(zoned(name, zone, unschedulable))
        self.match_capacity()

    @rule(name=st.sampled_from("nmopq"))
    def remove_node(self, name):
        if name in self.table.row_of:
            self.counts.counts[self.table.row_of[name]] = 0
            self.table.remove_node(name)

    @rule(name=st.sampled_from("nmopq"), amount=st.integers(1, 3))
    def add(self, name, amount):
        if name in self.table.row_of:
            self.counts.add(self.table.row_of[name], amount)

    def match_capacity(self):
        if len(self.counts.counts) != self.table.capacity:
            self.counts.grow(self.table.capacity)

    @invariant()
    def sums_are_right(self):
        for which, eligible in ((None, None), (SomeRows(), lambda of, rows: ~of.unschedulable[rows])):
            topology = self.topologies.get(ZONE, which, eligible)
            expected = {}
            for row in self.table.rows().tolist():
                node = self.table.node(row)
                zone = node.metadata.labels.get(ZONE)
                if zone is not None and not (which and node.spec.unschedulable):
                    expected[zone] = expected.get(zone, 0) + int(self.counts.counts[row])
            sums = self.counts.by_domain(topology)
            assert {zone: int(sums.values[topology.id_of(zone)]) for zone in expected} == expected
            assert sums.total == sum(expected.values())
            assert topology.domain_count == len(expected)


TestSums = Sums.TestCase
TestSums.settings = settings(max_examples=examples(40), stateful_step_count=25, deadline=None)
