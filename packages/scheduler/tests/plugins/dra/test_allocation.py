"""Which devices a pod gets, and what is left for the next.

Expectations: the API's description of ResourceClaim (resource.k8s.io/v1), KEP-4381 (structured parameters), 4816
(prioritized list), 4815 (partitionable devices), 5055 (taints), 5075 (consumable capacity), 5018 (admin access).
"""

import pytest

from berth.api.codec import decode
from berth.framework.status import Code
from berth.plugins.dra.plugin import DynamicResourcesArgs
from packages.scheduler.tests.plugins.dra.support import (
    DRIVER,
    World,
    allocation,
    alternatives,
    claim,
    device,
    device_class,
    pod_with,
    request,
    resource_slice,
)

OWN = f'device.attributes["{DRIVER}"]'
FOUR = [device(f"d{n}", {"model": "h100" if n % 2 else "a100", "slot": n}) for n in range(4)]
CANNOT = "cannot allocate all claims"


def world(*objects, devices=FOUR, **options):
    return World(device_class(), resource_slice("s", *devices), *objects, **options)


def test_the_first_devices_that_match_are_taken_and_the_rest_is_left():
    w = world(claim("c1", request(count=2)), claim("c2", request("r0", "gpu", f'{OWN}.model == "h100"')), claim("c3"))
    assert w.take(pod_with("c1", name="p1")) == [("r0", "a", "d0"), ("r0", "a", "d1")]
    assert w.take(pod_with("c2", name="p2")) == [("r0", "a", "d3")]
    assert w.take(pod_with("c3", name="p3")) == [("r0", "a", "d2")]


def test_the_search_goes_back_where_an_early_choice_spoils_a_later_one():
    picky = request("r1", "gpu", f"{OWN}.slot == 0")
    w = world(claim("c", request("r0"), picky))
    assert w.take(pod_with("c")) == [("r0", "a", "d1"), ("r1", "a", "d0")]


def test_it_goes_back_across_claims_too():
    w = world(claim("c1"), claim("c2", request("r0", "gpu", f"{OWN}.slot == 0")))
    assert w.take(pod_with("c1", "c2")) == [("r0", "a", "d1"), ("r0", "a", "d0")]


def test_devices_that_are_allocated_are_taken():
    held = claim("held", status={"allocation": allocation("d0", "d1", node="a")})
    assert world(claim("c"), held).take(pod_with("c")) == [("r0", "a", "d2")]


def test_more_than_there_are_cannot_be_had():
    assert world(claim("c", request(count=5))).messages(pod_with("c")) == {"a": CANNOT}


def test_all_means_every_device_that_matches():
    w = world(claim("c", request("r0", "gpu", f'{OWN}.model == "h100"', allocationMode="All")))
    assert w.take(pod_with("c")) == [("r0", "a", "d1"), ("r0", "a", "d3")]


@pytest.mark.parametrize("expression", ["false", "true"])
def test_all_needs_at_least_one_and_all_of_them(expression):
    held = claim("held", status={"allocation": allocation("d3", node="a")})
    w = world(claim("c", request("r0", "gpu", expression, allocationMode="All")), held)
    assert w.messages(pod_with("c")) == {"a": CANNOT}


def test_all_of_a_pool_that_is_being_updated():
    w = World(device_class(), resource_slice("s", device("d"), count=2), claim("c", request(allocationMode="All")))
    status = w.look(pod_with("c"))["a"]
    assert status.code is Code.ERROR
    assert status.message == (
        f"claim default/c, request r0: asks for all devices, but resource pool {DRIVER}/a is currently being updated"
    )


def test_an_invalid_pool_is_named_where_nothing_else_will_do():
    w = World(device_class(), resource_slice("s", device("d"), device("d")), claim("c"))
    status = w.look(pod_with("c"))["a"]
    assert (status.code, status.message) == (
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        "invalid resource pools were encountered",
    )


def test_match_attribute_keeps_devices_alike():
    same = {"matchAttribute": f"{DRIVER}/model"}
    w = world(claim("c", request("r0", "gpu", f"{OWN}.slot > 0", count=2), constraints=[same]))
    assert w.take(pod_with("c")) == [("r0", "a", "d1"), ("r0", "a", "d3")]


def test_a_constraint_may_be_for_some_requests_only():
    same = {"matchAttribute": f"{DRIVER}/model", "requests": ["r0", "r2"]}
    w = world(claim("c", request("r0"), request("r1"), request("r2"), constraints=[same]))
    assert w.take(pod_with("c")) == [("r0", "a", "d0"), ("r1", "a", "d1"), ("r2", "a", "d2")]


def test_devices_without_the_attribute_break_a_constraint():
    w = world(claim("c", constraints=[{"matchAttribute": f"{DRIVER}/nothing"}]))
    assert w.messages(pod_with("c")) == {"a": CANNOT}


def test_distinct_attribute_keeps_devices_apart():
    """The API: all devices must have the attribute, and its values must all differ."""
    apart = {"distinctAttribute": f"{DRIVER}/model"}
    w = world(claim("c", request("r0", count=2), constraints=[apart]))
    assert w.take(pod_with("c")) == [("r0", "a", "d0"), ("r0", "a", "d1")]
    w = world(claim("c", request("r0", "gpu", f"{OWN}.slot != 1"), request("r1"), constraints=[apart]))
    assert w.take(pod_with("c")) == [("r0", "a", "d0"), ("r1", "a", "d1")]
    assert world(claim("c", request(count=3), constraints=[apart])).messages(pod_with("c")) == {"a": CANNOT}


def test_all_devices_under_a_constraint_that_they_break_is_an_error():
    same = {"matchAttribute": f"{DRIVER}/model"}
    status = world(claim("c", request(allocationMode="All"), constraints=[same])).look(pod_with("c"))["a"]
    assert (status.code, status.message) == (
        Code.ERROR,
        (
            f"claim default/c, request r0: cannot add device {DRIVER}/a/d1 because a claim constraint would not be "
            "satisfied"
        ),
    )


def lists(*wanted):
    return alternatives("r0", *(request(name, "gpu", expression) for name, expression in wanted))


def test_the_first_alternative_that_can_be_had_is_taken():
    w = world(claim("c", lists(("big", f"{OWN}.slot > 9"), ("small", f"{OWN}.slot == 2"), ("any", "true"))))
    assert w.take(pod_with("c")) == [("r0/small", "a", "d2")]


def test_nodes_with_early_alternatives_are_preferred():
    w = World(
        device_class(),
        resource_slice("s1", device("d", {"slot": 1}), node="a"),
        resource_slice("s2", device("d", {"slot": 2}), node="b"),
        claim("c", lists(("best", f"{OWN}.slot == 2"), ("next", "true"))),
        nodes=("a", "b"),
    )
    pod = pod_with("c")
    assert w.messages(pod) == {"a": None, "b": None}
    table = w.handle.cache.table
    scores = {name: w.plugin.score(w.state, pod, table.view(table.row_of[name])) for name in "ab"}
    assert scores == {"a": 7, "b": 8}  # eight for the first of a list, one less for each that follows
    column = w.plugin.score_columns(w.state, pod, table, table.rows())
    assert column.tolist() == [7, 8]
    assert w.plugin.normalize_score(w.state, pod, column).tolist() == [87, 100]


def test_admin_access_shares_what_others_hold_and_takes_nothing():
    held = claim("held", status={"allocation": allocation("d0", "d1", "d2", "d3", node="a")})
    w = world(claim("admin", request(adminAccess=True)), claim("more", request(adminAccess=True)), held)
    assert w.take(pod_with("admin", name="p1")) == [("r0", "a", "d0")]
    assert w.take(pod_with("more", name="p2")) == [("r0", "a", "d0")]


@pytest.mark.parametrize(
    ("taint", "toleration", "fits"),
    [
        ({"effect": "NoSchedule"}, None, False),
        ({"effect": "NoExecute"}, None, False),
        ({"effect": "None"}, None, True),
        ({"effect": "NoSchedule"}, {"key": "k", "operator": "Exists"}, True),
        ({"effect": "NoSchedule"}, {"key": "k", "operator": "Equal", "value": "v"}, True),
        ({"effect": "NoSchedule"}, {"key": "k", "operator": "Equal", "value": "w"}, False),
        ({"effect": "NoExecute"}, {"operator": "Exists", "effect": "NoSchedule"}, False),
        ({"effect": "NoExecute"}, {"operator": "Exists"}, True),
    ],
)
def test_taints_and_tolerations(taint, toleration, fits):
    tainted = device("d", taints=[{"key": "k", "value": "v", **taint}])
    wanted = request(tolerations=[toleration] if toleration else [])
    w = world(claim("c", wanted), devices=[tainted])
    assert w.messages(pod_with("c")) == {"a": None if fits else CANNOT}
    ungated = world(claim("c", wanted), devices=[tainted], gates={"DRADeviceTaints": False})
    assert ungated.messages(pod_with("c")) == {"a": None}


def taint_rule(effect="NoSchedule", **selector):
    taint = {"key": "k", "value": "v", "effect": effect}
    spec = {"deviceSelector": selector or None, "taint": taint}
    return decode("DeviceTaintRule", {"metadata": {"name": "rule"}, "spec": spec})


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        (taint_rule(), True),  # KEP-5055: without a selector a rule is for no device
        (taint_rule(driver=DRIVER), False),
        (taint_rule(driver="other.example.com"), True),
        (taint_rule(pool="a"), False),
        (taint_rule(pool="b"), True),
        (taint_rule(device="d"), False),
        (taint_rule(driver=DRIVER, pool="a", device="e"), True),
        (taint_rule(effect="None", device="d"), True),
    ],
)
def test_rules_taint_devices_where_their_gate_is_on(rule, fits):  # dynamic-resource-allocation/resourceslice/tracker
    wanted = claim("c", request())
    gates = {"DRADeviceTaintRules": True}
    assert world(wanted, rule, devices=[device("d")], gates=gates).messages(pod_with("c")) == {
        "a": None if fits else CANNOT
    }
    assert world(wanted, rule, devices=[device("d")]).messages(pod_with("c")) == {"a": None}
    without_taints = {"DRADeviceTaints": False}  # nor could the rules be on
    assert world(wanted, rule, devices=[device("d")], gates=without_taints).messages(pod_with("c")) == {"a": None}


def test_a_rule_that_comes_and_goes():
    w = world(claim("c", request()), devices=[device("d")], gates={"DRADeviceTaintRules": True})
    assert w.messages(pod_with("c")) == {"a": None}
    rule = taint_rule(device="d")
    w.put(rule)
    assert w.messages(pod_with("c")) == {"a": CANNOT}
    w.objects.remove("DeviceTaintRule", rule)
    assert w.messages(pod_with("c")) == {"a": None}


def partition(name, amount):
    return device(name, consumesCounters=[{"counterSet": "card", "counters": {"memory": {"value": amount}}}])


def card(*partitions, **options):
    shared = [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]
    return World(
        device_class(),
        resource_slice("devices", *partitions, count=2),
        resource_slice("counters", count=2, sharedCounters=shared),
        *(claim(f"c{n}") for n in range(3)),
        **options,
    )


def test_partitions_of_a_device_share_its_counters():
    w = card(partition("whole", "40Gi"), partition("half-0", "20Gi"), partition("half-1", "20Gi"))
    assert w.take(pod_with("c0", name="p0")) == [("r0", "a", "whole")]
    assert w.messages(pod_with("c1", name="p1")) == {"a": CANNOT}
    w = card(partition("half-0", "20Gi"), partition("whole", "40Gi"), partition("half-1", "20Gi"))
    assert w.take(pod_with("c0", "c1", name="p0")) == [("r0", "a", "half-0"), ("r0", "a", "half-1")]
    assert w.messages(pod_with("c2", name="p1")) == {"a": CANNOT}


def published_twice(*devices, **where):
    """A pool of two slices, devices in one and a card's counters in the other."""
    shared = [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]
    return resource_slice("d", *devices, count=2), resource_slice("c", count=2, sharedCounters=shared, **where)


def whole_card(name, slot, **fields):
    consumes = [{"counterSet": "card", "counters": {"memory": {"value": "40Gi"}}}]
    return device(name, {"slot": slot}, consumesCounters=consumes, **fields)


@pytest.mark.parametrize(("shared", "expected"), [(False, None), (True, CANNOT)])
def test_a_shared_device_that_is_given_back_keeps_its_counters(shared, expected):
    """structured/internal/incubating, allocateDevice: what gives a shared device back leaves counters alone."""
    pair = request("pair", "gpu", f"{OWN}.slot == 0", count=2)  # finds one, and gives it back
    other = request("other", "gpu", f"{OWN}.slot == 1")
    slices = published_twice(whole_card("d0", 0, allowMultipleAllocations=shared), whole_card("d1", 1))
    w = World(device_class(), *slices, claim("c", alternatives("r0", pair, other)))
    assert w.messages(pod_with("c")) == {"a": expected}


def test_a_device_without_the_capacity_left_still_counts_for_constraints():
    """structured/internal/incubating, allocateDevice: constraints are asked before capacity, and not told."""
    shared = device("d0", {"model": "a100"}, {"memory": "40Gi"}, allowMultipleAllocations=True)
    other = device("d1", {"model": "h100"}, {"memory": "40Gi"})
    some = request("r0", "gpu", capacity={"requests": {"memory": "12Gi"}})
    every = request("r1", "gpu", "device.allowMultipleAllocations", allocationMode="All")
    same = {"matchAttribute": f"{DRIVER}/model"}
    w = world(claim("c", some, every, constraints=[same]), devices=[shared, other])
    assert w.messages(pod_with("c")) == {"a": CANNOT}  # of an h100, "all" would be an error


def test_counters_make_their_pool_known_on_every_node():
    """structured/internal/incubating, GatherPools: slices with shared counters count whatever nodes they name."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]
    counters = published_twice(node=None, pool="a", nodeSelector={"nodeSelectorTerms": terms})[1]
    w = World(device_class(), counters, claim("c", request(allocationMode="All")), nodes=("a", "b"))
    wrong = (
        f"claim default/c, request r0: asks for all devices, but resource pool {DRIVER}/a is currently being updated"
    )
    assert w.messages(pod_with("c")) == {"a": wrong, "b": wrong}


def test_partitions_are_not_looked_at_where_the_feature_is_off():
    w = card(partition("whole", "40Gi"), gates={"DRAPartitionableDevices": False})
    assert w.messages(pod_with("c0")) == {"a": CANNOT}


SHARED = device("d", capacity={"memory": {"value": "40Gi", "requestPolicy": {"default": "10Gi"}}},
                allowMultipleAllocations=True)  # fmt: skip


def test_a_device_is_shared_until_its_capacity_is_used_up():
    wanted = request(capacity={"requests": {"memory": "30Gi"}})
    w = world(claim("c0", wanted), claim("c1"), claim("c2"), devices=[SHARED])
    pod = pod_with("c0", name="p0")
    w.take(pod)
    result = w.state.read("DynamicResources").allocations[0].devices.results[0]
    assert result.consumed_capacity == {"memory": "30Gi"}
    assert result.share_id
    w.take(pod_with("c1", name="p1"))
    assert w.messages(pod_with("c2", name="p2")) == {"a": CANNOT}
    w.plugin.unreserve(w.state, pod, "a")  # of p2's attempt: nothing was taken
    assert w.messages(pod_with("c2", name="p2")) == {"a": CANNOT}


def test_capacity_that_claims_hold_counts():
    status = {"allocation": allocation("d", node="a", shareID="x", consumedCapacity={"memory": "35Gi"})}
    assert world(claim("c"), claim("held", status=status), devices=[SHARED]).messages(pod_with("c")) == {"a": CANNOT}


def test_capacity_requests_need_the_feature():
    wanted = request(capacity={"requests": {"memory": "1Gi"}})
    status = world(claim("c", wanted), devices=[SHARED], gates={"DRAConsumableCapacity": False}).look(pod_with("c"))[
        "a"
    ]
    assert (status.code, status.message) == (
        Code.ERROR,
        "claim default/c, request r0: has capacity requests, but the DRAConsumableCapacity feature is disabled",
    )


def test_devices_with_binding_conditions_need_the_feature():
    bound = device("d", bindingConditions=["Ready"], bindingFailureConditions=["Failed"])
    assert world(claim("c"), devices=[bound]).messages(pod_with("c")) == {"a": None}
    ungated = world(claim("c"), devices=[bound], gates={"DRADeviceBindingConditions": False})
    assert ungated.messages(pod_with("c")) == {"a": CANNOT}


def test_a_selector_that_fails_is_an_error():
    status = world(claim("c", request("r0", "gpu", f"{OWN}.nothing"))).look(pod_with("c"))["a"]
    assert status.code is Code.ERROR
    assert status.message.startswith(
        f"claim default/c: selector #0 on device {DRIVER}/a/d0: CEL runtime error: no such key: nothing"
    )
    status = World(device_class("gpu", "?!"), resource_slice("s", device("d")), claim("c")).look(pod_with("c"))["a"]
    assert status.message.startswith("class gpu: selector #0: CEL compile error: compilation failed: ")


def test_a_claim_has_room_for_32_devices():
    many = [device(f"d{n:02}") for n in range(40)]
    assert len(world(claim("c", request(count=32)), devices=many).take(pod_with("c"))) == 32
    status = world(claim("c", request(count=33)), devices=many).look(pod_with("c"))["a"]
    assert (status.code, status.message) == (
        Code.ERROR,
        "claim default/c: number of requested devices 33 exceeds the claim limit of 32",
    )


def test_the_search_on_a_node_is_ended_after_the_filter_timeout():
    """The time is counted in steps, a million of them a second, so that a replay ends a search at the same place."""
    w = world(claim("c", request(count=4)), args=DynamicResourcesArgs(filter_timeout=0.000_001))
    status = w.look(pod_with("c"))["a"]
    assert (status.code, status.message) == (
        Code.ERROR,
        "node a: timed out trying to allocate devices",
    )
    for options in ({"args": DynamicResourcesArgs(filter_timeout=0)}, {"gates": {"DRASchedulerFilterTimeout": False}}):
        w = world(claim("c", request(count=4)), **options)
        assert w.messages(pod_with("c")) == {"a": None}
