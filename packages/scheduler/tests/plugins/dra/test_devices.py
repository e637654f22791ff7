"""Pools and generations, and the order of the search: pools by driver and name, slices by name (v1.36).

Expectations: upstream's lexicographical allocator tests, and the API's description of ResourceSlice pools.
"""

import pytest

from berth.core.builders import make_node
from berth.plugins.dra.devices import Inventory
from packages.scheduler.tests.plugins.dra.support import DRIVER, device, resource_slice

NODE = make_node("a").label("zone", "z1").build()
OTHER = make_node("b").label("zone", "z2").build()
CONDITIONS = {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Failed"]}
Z1 = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}]}


def pools(*slices, node=NODE, partitionable=True):
    inventory = Inventory(partitionable)
    inventory.update(slices)
    return inventory.pools(node)


def devices(*slices, **options):
    return [str(device.id) for pool in pools(*slices, **options) if pool.is_usable for device in pool.devices]


def test_pools_come_by_driver_and_name_whatever_their_order():
    slices = [
        resource_slice("s1", device("d"), pool="p3"),
        resource_slice("s2", device("d"), pool="p1"),
        resource_slice("s3", device("d"), pool="p9", driver="a.example.com"),
    ]
    assert devices(*slices) == ["a.example.com/p9/d", f"{DRIVER}/p1/d", f"{DRIVER}/p3/d"]
    assert devices(*reversed(slices)) == devices(*slices)


def test_pools_with_binding_conditions_come_last():
    with_conditions = resource_slice("s1", device("d", **CONDITIONS), pool="p1")
    assert devices(with_conditions, resource_slice("s2", device("d"), pool="p2")) == [
        f"{DRIVER}/p2/d",
        f"{DRIVER}/p1/d",
    ]


def test_slices_of_a_pool_come_by_name_devices_as_published():
    slices = [
        resource_slice("s3", device("z"), device("y"), count=3),
        resource_slice("s2", device("b"), count=3),
        resource_slice("s1", device("c", **CONDITIONS), count=3),
    ]
    assert devices(*slices) == [f"{DRIVER}/a/{name}" for name in ("c", "b", "z", "y")]


def test_only_the_newest_generation_counts():
    old, new = resource_slice("old", device("d1")), resource_slice("new", device("d2"), generation=2)
    assert devices(old, new) == devices(new, old) == [f"{DRIVER}/a/d2"]


def test_a_pool_whose_newer_generation_is_elsewhere_is_left_out():
    old = resource_slice("old", device("d1"), count=2)
    new = resource_slice("new", device("d2"), node="b", pool="a", generation=2, count=2)
    assert pools(old, new) == ()


def test_a_pool_that_lacks_slices_is_incomplete():
    (pool,) = pools(resource_slice("s", device("d"), count=2))
    assert pool.is_incomplete
    assert devices(resource_slice("s", device("d"), count=2)) == []


def test_slices_for_other_nodes_complete_a_pool():
    ours = resource_slice("s1", device("d1"), pool="net", count=2)
    theirs = resource_slice("s2", device("d2"), node="b", pool="net", count=2)
    assert devices(ours, theirs) == [f"{DRIVER}/net/d1"]
    assert devices(ours, theirs, node=OTHER) == [f"{DRIVER}/net/d2"]


@pytest.mark.parametrize(
    ("where", "seen"),
    [
        ({"allNodes": True}, True),
        ({"nodeSelector": Z1}, True),
        ({}, False),
    ],
)
def test_which_nodes_a_slice_is_for(where, seen):
    published = resource_slice("s", device("d"), node=None, pool="net", **where)
    assert devices(published) == ([f"{DRIVER}/net/d"] if seen else [])
    assert devices(published, node=OTHER) == ([f"{DRIVER}/net/d"] if "allNodes" in where else [])


def test_devices_may_each_say_which_nodes_they_are_for():
    published = resource_slice(
        "s",
        device("d1", nodeName="b"),
        device("d2", nodeSelector=Z1),
        node=None,
        pool="net",
        perDeviceNodeSelection=True,
    )
    (pool,) = pools(published)
    assert [one.is_reachable(NODE) for one in pool.devices] == [False, True]
    assert devices(published, partitionable=False) == []


def counters(name="counters", **sets):
    shared = [{"name": key, "counters": {"memory": {"value": amount}}} for key, amount in sets.items()]
    return resource_slice(name, count=2, sharedCounters=shared)


def consuming(name, counter_set, counter="memory", amount="1Gi"):
    return device(name, consumesCounters=[{"counterSet": counter_set, "counters": {counter: {"value": amount}}}])


@pytest.mark.parametrize(
    ("slices", "fault"),
    [
        ([resource_slice("s", device("d"), device("d"))], "duplicate device name d"),
        ([counters("c1", card="1Gi"), counters("c2", card="1Gi")], "duplicate counter set name card"),
        ([counters(card="1Gi"), resource_slice("s", consuming("d", "none"), count=2)], "counter set none not found"),
        (
            [counters(card="1Gi"), resource_slice("s", consuming("d", "card", "cores"), count=2)],
            "counter cores not found in counter set card",
        ),
    ],
)
def test_what_makes_a_pool_invalid(slices, fault):
    (pool,) = pools(*slices)
    assert pool.fault == fault
    assert not pool.is_usable


def test_what_is_known_of_an_unchanged_slice_is_kept():
    inventory, slices = Inventory(True), [resource_slice("s", device("d"))]
    inventory.update(slices)
    (before,) = inventory.pools(NODE)
    inventory.update([*slices, resource_slice("t", device("e"), pool="z")])
    after = inventory.pools(NODE)
    assert after[0].devices[0] is before.devices[0]
    assert len(after) == 2


def test_nodes_without_devices_of_their_own_share_what_they_see():
    inventory = Inventory(True)
    inventory.update([resource_slice("s", device("d"), node=None, pool="net", allNodes=True)])
    assert inventory.pools(NODE) is inventory.pools(OTHER)
    inventory.update([resource_slice("s", device("d"), node=None, pool="net", nodeSelector=Z1)])
    assert inventory.pools(NODE) != inventory.pools(OTHER)
