"""All nodes as columns, copied off the node table."""

import pytest

from berth.core.builders import make_node, make_pod
from berth.decisions.node_columns import MAX_RESOURCES, copy_columns
from berth_workbench.simulation.cluster import SimulatedCluster

ZONE = "topology.kubernetes.io/zone"


def columns_of(*builders, max_nodes=100):
    table = SimulatedCluster([each.build() for each in builders]).core.cache.table
    return copy_columns(table, max_nodes).columns()


def node(name, **capacity):
    return make_node(name).capacity(**{"cpu": "4", "memory": "8Gi", "pods": "10", **capacity})


def test_every_column_is_in_the_order_of_the_names():
    found = columns_of(
        node("b", cpu="2").label(ZONE, "z2"),
        node("a").label(ZONE, "z1").label("karpenter.sh/nodepool", "fast"),
        make_pod("p").request(cpu="500m", memory="1Gi").node("b"),
    )
    cpu, memory = found.resources
    assert found.names == ["a", "b"]
    assert (cpu.name, cpu.allocatable, cpu.requested) == ("cpu", [4000, 2000], [0, 500])
    assert (memory.name, memory.requested) == ("memory", [0, 2**30])
    assert (found.zones.names, found.zones.of) == (("z1", "z2"), [0, 1])
    assert (found.pools.names, found.pools.of) == (("", "fast"), [1, 0])
    assert (found.pods, found.total) == ([0, 1], 2)


def test_the_kind_of_machine_is_the_pool_where_no_label_names_one():
    found = columns_of(
        node("a").label("node.kubernetes.io/instance-type", "m5"),
        node("b").label("node.kubernetes.io/instance-type", "m5").label("cloud.google.com/gke-nodepool", "x"),
    )
    assert [found.pools.names[index] for index in found.pools.of] == ["m5", "x"]


def test_a_row_that_was_given_back_is_not_told_of():
    cluster = SimulatedCluster([node(name).build() for name in "abc"])
    cluster.delete("Node", "b")
    assert copy_columns(cluster.core.cache.table).columns().names == ["a", "c"]


def test_a_copy_does_not_change_with_the_table():
    cluster = SimulatedCluster([node("a").build()])
    copied = copy_columns(cluster.core.cache.table)
    cluster.put(make_pod("p").request(cpu="1").node("a").build())
    cluster.put(node("b").build())
    assert copied.columns().resources[0].requested == [0] and copied.columns().names == ["a"]


def test_nodes_and_resources_are_bounded():
    many = {f"example.com/r{i}": "1" for i in range(40)}
    found = columns_of(*(node(f"n{i}") for i in range(5)), node("odd", **many), max_nodes=3)
    assert (found.names, found.total) == (["n0", "n1", "n2"], 6)
    everything = columns_of(node("odd", **many))
    assert len(everything.resources) == MAX_RESOURCES
    assert [each.name for each in everything.resources[:2]] == ["cpu", "memory"]


@pytest.mark.parametrize(
    ("effect", "key", "is_tainted"),
    [("NoSchedule", "x", True), ("NoExecute", "x", True), ("PreferNoSchedule", "x", False),
     ("NoSchedule", "node.kubernetes.io/unschedulable", False)],
)  # fmt: skip
def test_taints_that_keep_pods_away_are_told(effect, key, is_tainted):
    found = columns_of(node("a").taint(key, "v", effect))
    assert found.tainted == [is_tainted] and found.unschedulable == [False]


def test_the_scarcest_resource_of_a_pool_is_that_of_which_most_is_requested_there():
    gpu = {"nvidia.com/gpu": "4"}
    found = columns_of(
        node("g1", **gpu).label("pool", "gpu"),
        node("g2", **gpu).label("pool", "gpu"),
        node("m1").label("pool", "memory"),
        node("idle").label("pool", "idle"),
        make_pod("p").request(**{"cpu": "2", "nvidia.com/gpu": "3"}).node("g1"),
        make_pod("q").request(cpu="1", memory="6Gi").node("m1"),
    )
    assert found.scarcest_by_pool == {"gpu": "nvidia.com/gpu", "idle": "cpu", "memory": "memory"}
    assert dict(zip(found.names, found.levels(found.scarcest_by_pool), strict=True)) == {
        "g1": 0.75, "g2": 0.0, "m1": 0.75, "idle": 0.0,
    }  # fmt: skip
