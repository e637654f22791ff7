"""What is left out of a search for devices cannot lead to a solution, and hopeless searches end at once."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.framework.cycle_state import CycleState
from berth.framework.work_budget import OutOfBudgetError, WorkBudget
from berth.plugins.dra import allocator
from berth.plugins.dra.outlook import Demand, may_be_met
from packages.scheduler.tests.plugins.dra.support import (
    World,
    alternatives,
    claim,
    device,
    device_class,
    pod_with,
    request,
    resource_slice,
)

NEVER = "device.driver == 'other.example.com'"


def is_met(wishes, free):
    """Say whether the wishes, each a set of devices of which it needs one, can be given different devices of `free`."""
    return any(
        all(device in wish for device, wish in zip(given, wishes, strict=True))
        for given in permutations(sorted(free), len(wishes))
    )


sets = st.sets(st.integers(0, 5))


@given(st.lists(st.tuples(sets, st.integers(0, 2)), max_size=3), sets)
def test_demands_may_be_met_exactly_where_there_are_different_devices_for_all(demands, free):
    bits = [Demand(sum(1 << device for device in accepts), wanted) for accepts, wanted in demands]
    wishes = [accepts for accepts, wanted in demands for _ in range(wanted)]
    assert may_be_met(bits, sum(1 << device for device in free)) == is_met(wishes, free)


def test_devices_that_are_shared_may_serve_several():
    shared = Demand(0b1, 1, shares=0b1)
    assert may_be_met([shared, shared], 0b1)
    assert not may_be_met([Demand(0b1, 1), Demand(0b1, 1)], 0b1)


KINDS = ("a", "b", "c")
asked = st.lists(
    st.tuples(st.sets(st.sampled_from(KINDS), max_size=3), st.integers(1, 2), st.booleans(), st.booleans()),
    min_size=1,
    max_size=4,
)


@given(st.lists(st.sampled_from(KINDS), max_size=5), asked, st.sampled_from([None, "match", "distinct"]), st.booleans())
def test_a_search_finds_the_same_with_and_without_leaving_out_what_is_hopeless(kinds, wishes, constraint, two_claims):
    devices = [device(f"d{i}", {"kind": kind, "number": i % 2}) for i, kind in enumerate(kinds)]
    requests = []
    for index, (accepts, count, has_list, wants_all) in enumerate(wishes):
        expression = f"device.attributes['gpu.example.com'].kind in {sorted(accepts)!r}"
        fields = {"allocationMode": "All"} if wants_all else {"count": count}
        one = request(f"r{index}", "gpu", expression, **fields)
        requests.append(
            alternatives(f"r{index}", {**one, "name": "x"}, request("y", "gpu", NEVER)) if has_list else one
        )
    attribute = "gpu.example.com/number"
    constraints = {None: (), "match": ({"matchAttribute": attribute},), "distinct": ({"distinctAttribute": attribute},)}
    half = len(requests) // 2 if two_claims else len(requests)
    claims = [claim("c0", *requests[:half] or [request()], constraints=constraints[constraint])]
    claims += [claim("c1", *requests[half:])] if requests[half:] else []
    pod = pod_with(*(c.metadata.name for c in claims))

    def found():
        world = World(device_class(), resource_slice("s", *devices), *claims)
        said = world.messages(pod)["a"]
        return said or world.take(pod)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allocator._Search, "_got_stuck", lambda self: None)
        expected = found()
    assert found() == expected


def hopeless(requests, devices, **fields):
    """A node of many devices, and a claim of requests that any will do for and, at the end, one that none will."""
    more = [request(f"r{index}") for index in range(requests)]
    return World(
        device_class(),
        resource_slice("s", *(device(f"d{index}") for index in range(devices))),
        claim("c", *more, request("never", "gpu", NEVER)),
        **fields,
    )


@pytest.mark.parametrize("requests", [5, 10, 20])
def test_a_claim_whose_last_request_no_device_will_do_for_is_refused_in_few_steps(requests):
    world = hopeless(requests, 24)
    assert world.messages(pod_with("c")) == {"a": "cannot allocate all claims"}
    assert world.state.work.spent < 100 * (requests + 1)


def test_more_requests_than_devices_are_refused_in_few_steps():
    world = World(
        device_class(),
        resource_slice("s", *(device(f"d{index}") for index in range(12))),
        claim("c", *(request(f"r{index}") for index in range(13))),
    )
    assert world.messages(pod_with("c")) == {"a": "cannot allocate all claims"}
    assert world.state.work.spent < 2000


def test_a_solution_that_is_far_from_the_first_try_is_found_in_few_steps():
    only_first = "device.attributes['gpu.example.com'].number == 0"
    world = World(
        device_class(),
        resource_slice("s", *(device(f"d{index}", {"number": index}) for index in range(20))),
        claim("c", *(request(f"r{index}") for index in range(12)), request("last", "gpu", only_first)),
    )
    taken = world.take(pod_with("c"))
    assert [device for _, _, device in taken] == [*(f"d{index}" for index in range(1, 13)), "d0"]
    assert world.state.work.spent < 20_000


def endless(*nodes):
    """Nodes and a claim that no search can cut short, and which is never satisfied.

    Any device will do for any request, but there are fewer numbers than requests, and no two may have the same one:
    only a constraint says so, which the outlook leaves out of account.
    """
    devices = [device(f"d{index}", {"number": index // 2}) for index in range(24)]
    requests = [request(f"r{index}") for index in range(13)]
    constraint = {"distinctAttribute": "gpu.example.com/number"}
    slices = [resource_slice(f"s-{node}", *devices, node=node) for node in nodes]
    return World(device_class(), *slices, claim("c", *requests, constraints=[constraint]), nodes=nodes)


def looked(world, limit, *nodes):
    """Look at nodes with a budget; return what is said of each, and how much it cost."""
    world.state = CycleState(WorkBudget(limit))
    assert world.plugin.pre_filter(world.state, pod_with("c")) is None
    table = world.handle.cache.table
    said = [world.plugin.filter(world.state, pod_with("c"), table.view(table.row_of[node])).message for node in nodes]
    return said, world.state.work.spent


def test_a_search_that_cannot_be_cut_short_is_given_up_after_its_share_of_the_budget():
    world = endless("a", "b")
    said, spent = looked(world, 40_000, "a", "b")
    assert [message.partition(",")[0] for message in said] == [
        "node a: gave up looking for devices",
        "node b: gave up looking for devices",
    ]
    assert 20_000 <= spent <= 21_000


def test_what_was_given_up_is_not_searched_again_before_something_has_changed():
    world = endless("a")
    first, _ = looked(world, 40_000, "a")
    again, spent = looked(world, 40_000, "a")
    assert (again, spent) == (first, 0)
    more = device("more", {"number": 99})
    devices = [device(f"d{index}", {"number": index // 2}) for index in range(24)]
    world.put(resource_slice("s-a", *devices, more))
    world.state = CycleState()
    assert world.plugin.pre_filter(world.state, pod_with("c")) is None
    assert world.plugin.filter(world.state, pod_with("c"), world.handle.cache.table.view(0)) is None


def test_searches_on_many_nodes_end_with_the_budget():
    world = endless(*"abcdef")
    with pytest.raises(OutOfBudgetError, match="gave up after 40000 steps") as ended:
        looked(world, 40_000, *"abcdef")
    assert "DynamicResources, which looks for devices for default/c on node d" in str(ended.value)


def test_the_steps_of_a_search_are_spent_on_the_attempt():
    world = hopeless(3, 4)
    before = world.state.work.spent
    world.messages(pod_with("c"))
    assert world.state.work.spent > before
    assert world.state.work.by_plugin == {"DynamicResources": world.state.work.spent}
