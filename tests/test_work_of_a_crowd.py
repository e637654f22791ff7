"""What a crowd of pods that fit nowhere costs grows with what has changed, and not with nodes or pods.

Work is counted in rows that a plugin is asked about, and in bytecode instructions, which are the same on every machine.
"""

import numpy as np
import pytest

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint
from berth.framework.interface import FilterColumn
from berth.framework.promises import Dependency, Promises
from berth.framework.status import unschedulable
from tests.test_work_of_one_attempt import instructions

FULL = unschedulable("full")


class Full:
    """Rejects every node, and counts the rows that it is asked about, in whichever form."""

    name = "Full"
    promises = Promises(
        filter_depends_on=frozenset({Dependency.NODE, Dependency.PODS_ON_NODE}),
        filters_by_row=True,
        hints_by_shape=True,
    )
    asked = 0

    def __init__(self, args, handle):
        Full.asked = 0

    def signature(self, pod):
        return ()

    def events_to_register(self):
        deleted, relabelled = ClusterEvent("Pod", Action.DELETE), ClusterEvent("Node", Action.UPDATE_NODE_LABEL)
        return ClusterEventWithHint(deleted), ClusterEventWithHint(relabelled, lambda *_: QueueingHint.SKIP)

    def _ask(self, rows):
        Full.asked += rows
        return FULL

    def filter(self, state, pod, node):
        return self._ask(1)

    def filter_columns(self, state, pod, table, rows):
        codes = np.ones(len(table.valid[rows]), dtype=np.int32)
        self._ask(len(codes))
        return FilterColumn(codes, lambda code: FULL)

    def filter_row(self, state, pod, table, row):
        self._ask(1)
        return 1


def crowded(*, nodes, waiting, priority):
    """A cluster whose crowd, of one shape, has been tried a few times; each node runs two pods of priority 0."""
    cluster = VirtualCluster(plugins=[Full], check_promises=0)  # the check asks again
    for index in range(nodes):
        cluster.put(make_node(f"n{index}").capacity(cpu="4", pods="10"))
        for which in "ab":
            cluster.put(make_pod(f"{which}-{index}").node(f"n{index}").request(cpu="1"))
    for index in range(waiting):
        cluster.put(make_pod(f"w{index}").priority(priority).request(cpu="1"))
    cluster.run()
    for index in range(3):
        end_one(cluster, f"a-{index}")
    return cluster


def end_one(cluster, name):
    """Let a running pod end, which wakes the crowd, and have all of it tried."""
    cycles = cluster.core.queue.scheduling_cycle
    cluster.advance(20.0)
    cluster.delete("Pod", f"default/{name}")
    cluster.run()
    return cluster.core.queue.scheduling_cycle - cycles


@pytest.mark.parametrize("priority", [0, 10])
def test_only_changed_rows_are_asked_about(priority):
    """Filter looks at the row once for the whole crowd; so does preemption, with and without the pod it would evict."""
    for nodes, waiting in ((20, 5), (80, 5), (20, 50)):
        cluster = crowded(nodes=nodes, waiting=waiting, priority=priority)
        before = Full.asked
        assert end_one(cluster, "b-7") == waiting
        assert Full.asked - before <= 3, (nodes, waiting)


@pytest.mark.parametrize("priority", [0, 10])
def test_a_rejection_costs_the_same_whatever_the_number_of_nodes(priority):
    def per_attempt(nodes):
        cluster = crowded(nodes=nodes, waiting=20, priority=priority)
        return instructions(lambda: end_one(cluster, "b-7")) / 20

    few, many = per_attempt(20), per_attempt(160)
    assert many <= 1.1 * few, (few, many)
    assert few < 12_000, "as much as a rejection may cost at all"


class Naming(Full):
    """Names each node in its reasons, so that no two of them share a code."""

    promises = Full.promises
    described = 0

    def filter(self, state, pod, node):
        return unschedulable(f"{node.name} is full", in_general=("node(s) are full",))

    def filter_columns(self, state, pod, table, rows):
        return FilterColumn(np.arange(1, table.capacity + 1, dtype=np.int32)[rows], self._describe)

    def filter_row(self, state, pod, table, row):
        return row + 1

    def _describe(self, code):
        Naming.described += 1
        return unschedulable(f"n{code - 1} is full", in_general=("node(s) are full",))


def test_a_plugin_that_names_nodes_is_asked_for_words_when_nodes_change():
    cluster = VirtualCluster(plugins=[Naming], check_promises=0)
    for index in range(400):
        cluster.put(make_node(f"n{index}").capacity(cpu="4", pods="10"))
    for index in range(5):
        cluster.put(make_pod(f"w{index}").request(cpu="1"))
        cluster.run()
    before = Naming.described
    cluster.put(make_pod("another").request(cpu="1"))
    assert "400 node(s) are full." in cluster.run().events("FailedScheduling")[-1]
    assert Naming.described - before <= 1


def test_an_event_that_helps_nobody_costs_the_same_whatever_the_number_of_pods():
    def of_event(waiting):
        cluster = crowded(nodes=10, waiting=waiting, priority=0)
        cluster.advance(20.0)
        relabelled = make_node("n1").capacity(cpu="4", pods="10").label("rack", "2")
        return instructions(lambda: cluster.put(relabelled))

    few, many = of_event(10), of_event(200)
    assert many <= 1.1 * few, (few, many)
