"""What is kept of earlier searches never changes a decision: the same random work with it and without it."""

import random

import pytest

from berth.core.builders import make_node
from tests.plugins.dra.support import (
    DRIVER,
    World,
    alternatives,
    claim,
    device,
    device_class,
    pod_with,
    request,
    resource_slice,
)

OWN = f'device.attributes["{DRIVER}"]'
NODES = ("a", "b", "c")
GPU = "example.com/gpu"
SHAPES = (
    (request(),),
    (request(count=2),),
    (request("r0", "gpu", f"{OWN}.slot > 0"), request("r1")),
    (request("r0", "gpu", f"{OWN}.slot < 2", allocationMode="All"),),
    (alternatives("r0", request("x", "gpu", f"{OWN}.slot == 3"), request("y", "gpu", f"{OWN}.slot == 1")),),
    (request("r0", "net"), request("r1")),
)


class Forgetful(World):
    """Searches every time."""

    def look(self, pod):
        self.plugin._outcomes._kept.clear()
        return super().look(pod)


def slices(rng):
    own = [
        resource_slice(f"s-{name}", *(device(f"d{k}", {"slot": k}) for k in range(rng.randint(1, 4))), node=name)
        for name in NODES
    ]
    net = [device(f"n{k}", {"slot": k}) for k in range(3)]
    return [*own, resource_slice("net", *net, node=None, pool="net", driver="net.example.com", allNodes=True)]


def worlds(rng):
    published = slices(rng)
    classes = (
        device_class("gpu", f'device.driver == "{DRIVER}"', extendedResourceName=GPU),
        device_class("net", 'device.driver == "net.example.com"'),
    )
    return [kind(*classes, *published, nodes=NODES) for kind in (World, Forgetful)]


def pods(rng, both, number):
    """A new pod, with claims of one of a few shapes or with extended resources."""
    name = f"p{number}"
    if rng.random() < 0.2:
        containers = [{"name": "c0", "resources": {"requests": {GPU: str(rng.randint(1, 2))}}}]
        return pod_with(name=name, containers=containers)
    wanted = claim(f"c{number}", *rng.choice(SHAPES))
    for world in both:
        world.put(wanted)
    return pod_with(f"c{number}", name=name)


@pytest.mark.parametrize("seed", range(12))
def test_decisions_are_the_same(seed):
    rng = random.Random(seed)
    both = worlds(rng)
    reserved = []
    for number in range(40):
        pod = pods(rng, both, number)
        looked = [world.messages(pod) for world in both]
        assert looked[0] == looked[1]
        feasible = [name for name, message in looked[0].items() if message is None]
        found = [world.state.read("DynamicResources") for world in both]
        assert _taken(found[0]) == _taken(found[1])
        if feasible and rng.random() < 0.8:
            node = rng.choice(feasible)
            assert [world.plugin.reserve(world.state, pod, node) for world in both] == [None, None]
            reserved.append((pod, node, [world.state for world in both]))
        _disturb(rng, both, reserved)


def _taken(pod_state):
    return {
        node: [[(taken.ask.full_name, str(taken.device.id)) for taken in found.taken] for found in allocation.found]
        for node, allocation in pod_state.by_node.items()
    }


def _disturb(rng, both, reserved):
    what = rng.random()
    if reserved and what < 0.3:
        pod, node, states = reserved.pop(rng.randrange(len(reserved)))
        for world, state in zip(both, states, strict=True):
            world.plugin.unreserve(state, pod, node)
    elif what < 0.4:
        changed = rng.choice(slices(rng))
        for world in both:
            world.put(changed)
    elif what < 0.5:
        extra = {GPU: "4"} if rng.random() < 0.5 else {}
        node = make_node(rng.choice(NODES)).capacity(cpu="8", pods=110, **extra).build()
        for world in both:
            world.handle.cache.put_node(node)
