"""The resource scores of v1.20 against the tables of its own tests, and both their forms against each other.

Tables: release-1.20, pkg/scheduler/framework/plugins/noderesources/{least_allocated,most_allocated,
balanced_allocation,requested_to_capacity_ratio}_test.go.
"""

import pytest
from hypothesis import given

from berth.config.feature_gates import feature_gates
from berth.core.builders import make_node, make_pod
from berth.plugins.legacy.balanced_allocation import LegacyBalancedAllocation, balance_of_three
from berth.plugins.legacy.cloud_limits import AttachRoom
from berth.plugins.legacy.node_resources_allocated import (
    AllocatedArgs,
    NodeResourcesLeastAllocated,
    NodeResourcesMostAllocated,
    RatioArgs,
    RequestedToCapacityRatio,
)
from berth.plugins.legacy.resource_limits import NodeResourceLimits
from berth.plugins.legacy.resource_uses import asked_of
from berth.plugins.resources.args import ResourceSpec, ShapePoint
from packages.scheduler.tests.plugins.resource_support import apply, changes, pods, subsets
from packages.scheduler.tests.plugins.support import handle_of, raw_scores

THREE = AllocatedArgs((ResourceSpec("cpu", 2), ResourceSpec("memory", 1), ResourceSpec("example.com/gpu", 3)))
SHAPE = (ShapePoint(0, 10), ShapePoint(70, 0), ShapePoint(100, 3))


def plugins(handle):
    """One of each, with args that use all that they can do."""
    handle.features = feature_gates({}, "v1.20")
    return (
        NodeResourcesLeastAllocated(THREE, handle),
        NodeResourcesMostAllocated(THREE, handle),
        RequestedToCapacityRatio(RatioArgs(SHAPE, THREE.resources), handle),
        LegacyBalancedAllocation(None, handle),
        NodeResourceLimits(None, handle),
    )


def two_machines():
    nodes = (
        make_node("m1").capacity(cpu="4000m", memory="10000").build(),
        make_node("m2").capacity(cpu="6000m", memory="10000").build(),
    )
    return handle_of(*nodes)


@pytest.mark.parametrize(
    ("index", "expected"),
    [(0, {"m1": 37, "m2": 50}), (1, {"m1": 62, "m2": 50}), (3, {"m1": 75, "m2": 100})],
    ids=["least", "most", "balanced"],
)
def test_nothing_scheduled_resources_requested_differently_sized_machines(index, expected):
    handle = two_machines()
    pod = make_pod().request(cpu="1000m", memory="2000").request(cpu="2000m", memory="3000").info()
    made = (
        NodeResourcesLeastAllocated(AllocatedArgs(), handle),
        NodeResourcesMostAllocated(AllocatedArgs(), handle),
        None,
        LegacyBalancedAllocation(None, _of_v1_20(handle)),
    )
    assert raw_scores(made[index], pod, handle) == expected


@pytest.mark.parametrize(
    ("cpu", "memory", "score"), [(10, 20, 90), (20, 10, 90), (20, 40, 80), (20, 50, 70), (100, 20, 0), (30, 30, 100)]
)
def test_balance_is_a_hundred_less_the_difference_of_the_percentages(cpu, memory, score):
    """The first four are the examples of one of the pages, the others balancedResourceScorer's two ends."""
    handle = _of_v1_20(handle_of(make_node("m1").capacity(cpu="100", memory="100").build()))
    pod = make_pod().request(cpu=str(cpu), memory=str(memory)).info()
    assert raw_scores(LegacyBalancedAllocation(None, handle), pod, handle) == {"m1": score}


def _of_v1_20(handle):
    handle.features = feature_gates({}, "v1.20")
    return handle


@pytest.mark.parametrize(
    ("used", "wanted", "expected"),
    [
        # "nothing scheduled, nothing requested", "… resources requested …", "no resources requested, pods scheduled …".
        (("0", "0"), ("0", "0"), {"m1": 100, "m2": 100}),
        (("0", "0"), ("3000m", "5000"), {"m1": 38, "m2": 50}),
        (("3000m", "5000"), ("0", "0"), {"m1": 38, "m2": 50}),
    ],
)
def test_ratio_with_the_default_shape(used, wanted, expected):
    handle = handle_of(
        make_node("m1").capacity(cpu="4000m", memory="10000").build(),
        make_node("m2").capacity(cpu="6000m", memory="10000").build(),
        *(make_pod(f"on-{n}").request(cpu=used[0], memory=used[1]).node(n).build() for n in ("m1", "m2")),
    )
    args = RatioArgs((ShapePoint(0, 10), ShapePoint(100, 0))).defaulted()
    pod = make_pod().request(cpu=wanted[0], memory=wanted[1]).info()
    assert raw_scores(RequestedToCapacityRatio(args, handle), pod, handle) == expected


def test_a_node_that_is_overcommitted_counts_as_full_for_most_and_ratio_and_as_nothing_for_least():
    handle = handle_of(make_node("n").capacity(cpu="1", memory="1000").build())
    pod = make_pod().request(cpu="2", memory="500").info()
    rising = RatioArgs((ShapePoint(0, 0), ShapePoint(100, 10))).defaulted()
    assert raw_scores(NodeResourcesLeastAllocated(AllocatedArgs(), handle), pod, handle) == {"n": 25}
    assert raw_scores(NodeResourcesMostAllocated(AllocatedArgs(), handle), pod, handle) == {"n": 75}
    assert raw_scores(RequestedToCapacityRatio(rising, handle), pod, handle) == {"n": 75}
    assert raw_scores(LegacyBalancedAllocation(None, _of_v1_20(handle)), pod, handle) == {"n": 0}


def test_a_resource_that_a_node_lacks_weighs_in_the_mean():
    handle = handle_of(make_node("n").capacity(cpu="4", memory="1000").build())
    pod = make_pod().request(cpu="2", memory="500").info()
    # 2 * 50 of cpu, 1 * 50 of memory, 3 * 0 of what it has not.
    assert raw_scores(NodeResourcesLeastAllocated(THREE, handle), pod, handle) == {"n": 25}


@pytest.mark.parametrize(("cores", "added"), [("250m", 1), ("1", 1), ("2500m", 3)])
def test_of_cpu_overhead_whole_cores_count_as_milli_units(cores, added):
    pod = make_pod().request(cpu="100m", memory="1").overhead(cpu=cores).info()
    assert asked_of(pod, "cpu") == 100 + added


@pytest.mark.parametrize(
    ("room", "expected"),
    [
        (AttachRoom(0, 0), 75),
        (AttachRoom(4, 4), 0),
        # Variance of 0.75, 0.5 and 0.25: 0.0417.
        (AttachRoom(4, 1), 95),
    ],
)
def test_volumes_are_a_third_fraction(room, expected):
    assert balance_of_three(0.75, 0.5, room) == expected


def test_limits_count_by_either_resource():
    handle = handle_of(
        make_node("big").capacity(cpu="4", memory="4000").build(),
        make_node("cpu-only").capacity(cpu="4", memory="10").build(),
        make_node("small").capacity(cpu="1", memory="10").build(),
    )
    plugin = NodeResourceLimits(None, handle)
    pod = make_pod().container(limits={"cpu": "2", "memory": "2000"}).info()
    assert raw_scores(plugin, pod, handle) == {"big": 1, "cpu-only": 1, "small": 0}
    assert set(raw_scores(plugin, make_pod().container().info(), handle).values()) == {0}


@given(changes(), pods())
def test_both_forms_agree_whatever_happens_to_the_cluster(happening, pod):
    handle = handle_of()
    made = plugins(handle)
    for number, change in enumerate(happening):
        apply(handle.cache, number, change)
        table = handle.cache.table
        by_node = {row: table.view(row) for row in table.rows().tolist()}
        for plugin in made:
            for subset in subsets(table):
                scores = plugin.score_columns(None, pod, table, subset)
                asked = list(range(table.capacity))[subset] if isinstance(subset, slice) else subset.tolist()
                for row, score in zip(asked, scores.tolist(), strict=True):
                    if row in by_node:
                        assert score == plugin.score(None, pod, by_node[row]), plugin.name
