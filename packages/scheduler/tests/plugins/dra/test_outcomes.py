"""What is kept of earlier searches never changes a decision: the same random work with it and without it."""

import random

import pytest

from berth.core.builders import make_node
from berth.framework.cycle_state import CycleState
from berth.plugins.dra.outcomes import KeptOutcomes, NodeAllocation, NodeOutcome
from packages.scheduler.tests.plugins.dra.support import (
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


class ByColumns(World):
    """Asks about all nodes at once, as the engine does."""

    def look(self, pod):
        self.state = CycleState()
        status = self.plugin.pre_filter(self.state, pod)
        if status is not None:
            return status
        table = self.handle.cache.table
        column = self.plugin.filter_columns(self.state, pod, table, slice(None))
        codes = ((row, int(column.codes[row])) for row in table.rows().tolist())
        return {table.names[row]: column.describe(code) if code else None for row, code in codes}


def slices(rng):
    own = [
        resource_slice(f"s-{name}", *(device(f"d{k}", {"slot": k}) for k in range(rng.randint(1, 4))), node=name)
        for name in NODES
    ]
    net = [device(f"n{k}", {"slot": k}) for k in range(3)]
    return [*own, resource_slice("net", *net, node=None, pool="net", driver="net.example.com", allNodes=True)]


def worlds(rng):
    """The same world three times: as it is, one that searches every time, and one that is asked for columns."""
    published = slices(rng)
    classes = (
        device_class("gpu", f'device.driver == "{DRIVER}"', extendedResourceName=GPU),
        device_class("net", 'device.driver == "net.example.com"'),
    )
    return [kind(*classes, *published, nodes=NODES) for kind in (World, Forgetful, ByColumns)]


def pods(rng, alike, number):
    """A new pod, with claims of one of a few shapes or with extended resources."""
    name = f"p{number}"
    if rng.random() < 0.2:
        containers = [{"name": "c0", "resources": {"requests": {GPU: str(rng.randint(1, 2))}}}]
        return pod_with(name=name, containers=containers)
    wanted = claim(f"c{number}", *rng.choice(SHAPES))
    for world in alike:
        world.put(wanted)
    return pod_with(f"c{number}", name=name)


@pytest.mark.parametrize("seed", range(12))
def test_decisions_are_the_same(seed):
    rng = random.Random(seed)
    alike = worlds(rng)
    reserved = []
    for number in range(40):
        pod = pods(rng, alike, number)
        looked = [world.messages(pod) for world in alike]
        assert looked[0] == looked[1] == looked[2]
        feasible = [name for name, message in looked[0].items() if message is None]
        found = [world.state.read("DynamicResources") for world in alike]
        assert _taken(found[0]) == _taken(found[1]) == _taken(found[2])
        if feasible and rng.random() < 0.8:
            node = rng.choice(feasible)
            assert [world.plugin.reserve(world.state, pod, node) for world in alike] == [None, None, None]
            reserved.append((pod, node, [world.state for world in alike]))
        _disturb(rng, alike, reserved)


def _taken(pod_state):
    return {
        node: [[(taken.ask.full_name, str(taken.device.id)) for taken in found.taken] for found in allocation.found]
        for node, allocation in pod_state.by_node.items()
    }


def _disturb(rng, alike, reserved):
    what = rng.random()
    if reserved and what < 0.3:
        pod, node, states = reserved.pop(rng.randrange(len(reserved)))
        for world, state in zip(alike, states, strict=True):
            world.plugin.unreserve(state, pod, node)
    elif what < 0.4:
        changed = rng.choice(slices(rng))
        for world in alike:
            world.put(changed)
    elif what < 0.5:
        extra = {GPU: "4"} if rng.random() < 0.5 else {}
        node = make_node(rng.choice(NODES)).capacity(cpu="8", pods=110, **extra).build()
        for world in alike:
            world.handle.cache.put_node(node)
    elif what < 0.55:
        name = rng.choice(NODES)
        for world in alike:
            if name in world.handle.cache.table.row_of:
                world.handle.cache.remove_node(name)
            else:
                world.handle.cache.put_node(make_node(name).capacity(cpu="8", pods=110).build())


def test_a_row_is_asked_again_when_it_may_have_changed_or_nothing_is_kept_of_it():
    world = World(nodes=NODES)
    table, kept, asked = world.handle.cache.table, KeptOutcomes(0), []

    def search(row):
        asked.append(table.names[row])
        if table.names[row] != "c":  # of that node nothing can be kept
            kept.by_node[table.names[row]] = NodeOutcome(table.node(row), ())
        return NodeAllocation((), None), None

    def asked_now():
        del asked[:]
        _, _, found = kept.column(table, search)
        assert sorted(found) == sorted(table.names[row] for row in table.rows().tolist())
        return asked

    assert asked_now() == ["a", "b", "c"]
    assert asked_now() == ["c"]
    kept.drop({"a"})
    assert asked_now() == ["a", "c"]
    world.handle.cache.put_node(make_node("b").capacity(cpu="9", pods=110).build())
    assert asked_now() == ["b", "c"]
    world.handle.cache.remove_node("a")
    assert asked_now() == ["c"]
    kept.drop(None)
    assert asked_now() == ["b", "c"]
