"""What people are told of devices that no node has enough of, against a search on every node."""

import random

import pytest

from berth.framework.work_budget import WorkBudget
from packages.scheduler.tests.plugins.dra.support import (
    World,
    claim,
    device,
    device_class,
    pod_with,
    request,
    resource_slice,
)

NODES = ("a", "b", "c", "d")
MODEL = "device.attributes['gpu.example.com'].model == 'large'"
SAME = {"requests": ["r0"], "matchAttribute": "gpu.example.com/numa"}


def slice_of(rng, node):
    """A node's devices: some large, some beside one another, and some that take from the same memory."""
    devices = [
        device(
            f"d{number}",
            {"gpu.example.com/numa": rng.randrange(2), "gpu.example.com/model": rng.choice(["large", "small"])},
            consumesCounters=[{"counterSet": "m", "counters": {"memory": {"value": "10Gi"}}}] if number % 2 else [],
        )
        for number in range(rng.randrange(6))
    ]
    counters = [{"name": "m", "counters": {"memory": {"value": f"{rng.choice((10, 20))}Gi"}}}]
    return [
        resource_slice(f"{node}-counters", node=node, sharedCounters=counters, count=2),
        resource_slice(f"{node}-devices", *devices, node=node, count=2),
    ]


def nodes_of(world):
    return [world.handle.cache.table.node(row) for row in world.handle.cache.table.rows().tolist()]


def most_on(node, devices, asked, constraints):
    """How many such devices a claim gets on one node, by asking for fewer and fewer of them."""
    for count in range(asked["exactly"]["count"], 0, -1):
        fewer = {**asked, "exactly": {**asked["exactly"], "count": count}}
        world = World(device_class(), *devices, claim("c", fewer, constraints=constraints), nodes=(node,))
        if world.look(pod_with("c"))[node] is None:
            return count
    return 0


@pytest.mark.parametrize("seed", range(40))
def test_the_node_that_is_named_has_as_many_devices_as_told_and_none_has_more(seed):
    rng = random.Random(seed)
    devices = {node: slice_of(rng, node) for node in NODES}
    asked = request("r0", "gpu", *([MODEL] if rng.random() < 0.5 else []), count=rng.randrange(1, 6))
    constraints = [SAME] if rng.random() < 0.5 else []
    everything = [each for of_node in devices.values() for each in of_node]
    world = World(device_class(), *everything, claim("c", asked, constraints=constraints), nodes=NODES)
    pod = pod_with("c")
    told = world.plugin.shortages(pod, nodes_of(world), WorkBudget())
    most = {node: most_on(node, devices[node], asked, constraints) for node in NODES}
    if max(most.values()) == asked["exactly"]["count"]:
        assert told == []
        return
    (shortage,) = told
    assert (shortage.needed, shortage.room.free) == (asked["exactly"]["count"], max(most.values()))
    assert most[shortage.node] == shortage.room.free


def test_cut_short_nothing_is_told():
    devices = resource_slice("s", device("d0"))
    world = World(device_class(), devices, claim("c", request(count=2)))
    pod, nodes = pod_with("c"), nodes_of(world)
    (shortage,) = world.plugin.shortages(pod, nodes, WorkBudget())
    assert (shortage.node, shortage.room) == ("a", (1, 1))
    assert world.plugin.shortages(pod, nodes, WorkBudget(10)) == []
