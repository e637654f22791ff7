"""DynamicResources around the search: which pods it rejects, reserving, giving back, args and hints.

Messages and codes: pkg/scheduler/framework/plugins/dynamicresources, v1.36.
"""

import pytest

from berth.api.codec import decode
from berth.config.errors import ConfigError
from berth.config.feature_gates import FeatureGates
from berth.config.plugin_args import decode_plugin_args
from berth.core.builders import make_node, make_pod
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, QueueingHint
from berth.framework.status import SKIP, Code, error, unresolvable, unschedulable
from berth.plugins.dra.plugin import DynamicResourcesArgs
from packages.scheduler.tests.plugins.dra.support import (
    World,
    allocation,
    alternatives,
    answered,
    claim,
    device,
    device_class,
    pod_with,
    request,
    resource_slice,
)
from packages.scheduler.tests.plugins.support import diagnosed, hint, raw_scores, registered

QUEUE, SKIPPED = QueueingHint.QUEUE, QueueingHint.SKIP
OUT_OF_REACH = unresolvable("resourceclaim not available on the node").by("DynamicResources")


def world(*objects, **options):
    return World(device_class(), resource_slice("s", device("d0"), device("d1")), *objects, **options)


def test_a_pod_without_claims_fits_everywhere_and_scores_nothing():
    w = world(nodes=("a", "b"))
    pod = make_pod().info()
    assert w.look(pod) is SKIP
    assert w.plugin.signature(pod) == ()
    assert w.plugin.pre_bind_pre_flight(w.state, pod, "a") is SKIP
    assert raw_scores(w.plugin, pod, w.handle) == {"a": 0, "b": 0}


@pytest.mark.parametrize(
    ("pod", "objects", "said"),
    [
        (pod_with("c"), [], 'could not find ResourceClaim "default/c"'),
        (pod_with("c"), [claim("c", deletionTimestamp="2026-01-01T00:00:00Z")], 'resourceclaim "c" is being deleted'),
        (pod_with(("r", "t")), [], 'pod "default/p": ResourceClaim not created yet'),
        (
            pod_with(("r", "t"), made={"r": "c"}),
            [claim("c")],
            "ResourceClaim default/c was not created for pod default/p (pod is not owner)",
        ),
    ],
)
def test_claims_that_are_missing_hold_a_pod_back(pod, objects, said):
    w = world(*objects)
    assert w.look(pod) == unresolvable(said) == w.plugin.pre_enqueue(pod)
    assert w.plugin.post_filter(w.state, pod, diagnosed(w.handle)) == (
        None,
        unschedulable("no new claims to deallocate"),
    )


def test_claims_from_templates():
    pod = pod_with(("r", "t"), made={"r": "c"})
    w = world(claim("c", owner=pod.uid))
    assert w.plugin.pre_enqueue(pod) is None
    assert w.take(pod) == [("r0", "a", "d0")]


def test_a_template_that_made_no_claim_on_purpose_is_passed_over():
    pod = pod_with(("r", "t"), made={"r": None})
    assert world().look(pod) is SKIP


@pytest.mark.parametrize(
    ("wanted", "gates", "said"),
    [
        (request("r0", "nope"), {}, unresolvable("request r0: device class nope does not exist")),
        (
            alternatives("r0", request("s0"), request("s1", "nope")),
            {},
            unresolvable("request r0/s1: device class nope does not exist"),
        ),
        (
            alternatives("r0", request("s0")),
            {"DRAPrioritizedList": False},
            unresolvable(
                "resource claim default/c, request r0: has subrequests, but the DRAPrioritizedList feature is disabled"
            ),
        ),
        ({"name": "r0"}, {}, unresolvable("resource claim default/c, request r0: unknown request type")),
        (request("r0", ""), {}, error("request r0: unsupported request type")),
    ],
)
def test_requests_that_no_node_can_satisfy(wanted, gates, said):
    assert world(claim("c", wanted), gates=gates).look(pod_with("c")) == said


def test_a_claim_that_another_pod_has_just_reserved():
    w = world(claim("c"))
    first, second = pod_with("c", name="p1"), pod_with("c", name="p2")
    w.take(first)
    reserved = w.state
    assert w.look(second) == unresolvable("resource claim default/c is in the process of being allocated")
    w.plugin.unreserve(reserved, first, "a")
    assert w.messages(second) == {"a": None}


def test_an_allocated_claim_binds_the_pod_to_where_its_devices_are():
    w = world(claim("c", status={"allocation": allocation("d0", node="a")}), nodes=("a", "b"))
    assert w.messages(pod_with("c")) == {"a": None, "b": "resourceclaim not available on the node"}
    assert w.plugin.reserve(w.state, pod_with("c"), "a") is None
    everywhere = world(claim("c", status={"allocation": allocation("d0")}), nodes=("a", "b"))
    assert everywhere.messages(pod_with("c")) == {"a": None, "b": None}


def test_what_was_not_found_cannot_be_reserved():
    w = world(claim("c"))
    pod = pod_with("c")
    w.look(pod)
    assert w.plugin.reserve(w.state, pod, "elsewhere") == error("claim allocation not found for node")


@pytest.mark.parametrize(
    ("reserved_for", "said"),
    [
        ([], unschedulable("deallocation of ResourceClaim completed")),
        ([{"resource": "pods", "name": "p", "uid": "uid-p"}], unschedulable("deallocation of ResourceClaim completed")),
        ([{"resource": "pods", "name": "q", "uid": "uid-q"}], unschedulable("still not schedulable")),
        (
            [{"resource": "pods", "name": "p", "uid": "uid-p"}, {"resource": "pods", "name": "q", "uid": "uid-q"}],
            unschedulable("still not schedulable"),
        ),
    ],
)
def test_an_allocation_that_keeps_its_only_pod_from_running_is_given_back(reserved_for, said):
    status = {"allocation": allocation("d0", node="gone"), "reservedFor": reserved_for}
    w = world(claim("c", status=status, resourceVersion="7"))
    pod = pod_with("c")
    assert w.messages(pod) == {"a": "resourceclaim not available on the node"}
    answer = w.plugin.post_filter(w.state, pod, diagnosed(w.handle, a=OUT_OF_REACH))
    if isinstance(answer, tuple):
        assert answer == (None, said)
        return
    (call,), result = answered(answer, {})
    assert result == (None, said)
    assert (call.verb, call.kind, call.namespace, call.name, call.subresource) == (
        "patch", "ResourceClaim", "default", "c", "status",
    )  # fmt: skip
    assert call.body == {
        "metadata": {"uid": "uid-c", "resourceVersion": "7"},
        "status": {"allocation": None, "reservedFor": None, "devices": None},
    }


def test_giving_back_that_fails_is_an_error():
    w = world(claim("c", status={"allocation": allocation("d0", node="gone")}))
    w.look(pod_with("c"))
    _, result = answered(w.plugin.post_filter(w.state, pod_with("c"), diagnosed(w.handle, a=OUT_OF_REACH)), "no")
    assert result == (None, error("no"))


def test_an_allocation_is_kept_that_is_not_all_that_keeps_the_pod_from_a_node():
    """Filters run in order, and this one not at all on a node that an earlier one refused."""
    w = world(claim("c", status={"allocation": allocation("d0", node="gone")}))
    w.look(pod_with("c"))
    full = unschedulable("Insufficient cpu").by("NodeResourcesFit")
    answer = w.plugin.post_filter(w.state, pod_with("c"), diagnosed(w.handle, a=full))
    assert answer == (None, unschedulable("still not schedulable"))


def test_where_another_pre_filter_came_first_nothing_is_known_of_the_pod():
    w = world()
    assert w.plugin.post_filter(CycleState(), pod_with("c"), diagnosed(w.handle)) == (None, error("not found"))


def bound(device_name="d0", **conditions):
    """The status of a claim whose device has these binding conditions (name to status)."""
    names = {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Failed"]}
    found = {**allocation(device_name, node="a", **names), "allocationTimestamp": "1970-01-01T00:00:00Z"}
    told = [{"type": key, "status": value, "reason": "Why", "message": "m"} for key, value in conditions.items()]
    devices = [{"driver": "gpu.example.com", "pool": "a", "device": device_name, "conditions": told}]
    return {"allocation": found, "devices": devices if conditions else []}


@pytest.mark.parametrize(
    ("conditions", "wall", "available"),
    [
        ({}, 599.0, True),
        ({}, 601.0, False),  # not ready after the binding timeout of 600 s
        ({"Ready": "True"}, 601.0, True),
        ({"Ready": "False"}, 599.0, True),
        ({"Ready": "False"}, 601.0, False),
        ({"Failed": "True"}, 0.0, False),
        ({"Ready": "True", "Failed": "True"}, 0.0, False),
        ({"Ready": "True", "Failed": "False"}, 0.0, True),
    ],
)
def test_devices_that_fail_to_get_ready_make_a_claim_unavailable(conditions, wall, available):
    """KEP-5007: such a claim is deallocated, so that other devices are tried."""
    w = world(claim("c", status=bound(**conditions)), wall=wall)
    assert w.messages(pod_with("c")) == {"a": None if available else "resourceclaim not available on the node"}
    ungated = world(claim("c", status=bound(**conditions)), wall=wall, gates={"DRADeviceBindingConditions": False})
    assert ungated.messages(pod_with("c")) == {"a": None}


@pytest.mark.parametrize(
    ("args", "detail"),
    [
        ({"filterTimeout": "-1s"}, 'args.filterTimeout: Invalid value: "-1s": must be zero or positive'),
        ({"bindingTimeout": "999ms"}, 'args.bindingTimeout: Invalid value: "999ms": must be at least 1 second'),
    ],
)
def test_timeouts_that_make_no_sense(args, detail):
    with pytest.raises(ConfigError) as raised:
        decode_plugin_args("DynamicResources", args, DynamicResourcesArgs, "args")
    assert raised.value.errors == (detail,)


def test_defaults_and_a_filter_without_timeout():
    decoded = decode_plugin_args("DynamicResources", {"filterTimeout": "0s"}, DynamicResourcesArgs, "args")
    assert (decoded.filter_timeout, decoded.binding_timeout) == (0.0, 600.0)
    assert decode_plugin_args("DynamicResources", None, DynamicResourcesArgs, "args").filter_timeout == 10.0


@pytest.mark.parametrize(
    ("args", "gate", "detail"),
    [
        (
            {"filterTimeout": "5s"},
            "DRASchedulerFilterTimeout",
            "args.filterTimeout: Forbidden: DRASchedulerFilterTimeout feature gate is disabled",
        ),
        (
            {"bindingTimeout": "5s"},
            "DRADeviceBindingConditions",
            (
                "args.bindingTimeout: Forbidden: DRADeviceBindingConditions or "
                "DRAResourceClaimDeviceStatus feature gate is disabled"
            ),
        ),
    ],
)
def test_a_timeout_needs_its_gate(args, gate, detail):
    """ValidateDynamicResourcesArgs: a field of a feature that is off must not be set, and has no default."""
    off = FeatureGates({gate: False})
    with pytest.raises(ConfigError) as raised:
        decode_plugin_args("DynamicResources", args, DynamicResourcesArgs, "args", off)
    assert raised.value.errors == (detail,)
    decoded = decode_plugin_args("DynamicResources", {}, DynamicResourcesArgs, "args", off)
    assert None in (decoded.filter_timeout, decoded.binding_timeout)


def test_events_are_at_least_those_of_upstream():
    found = registered(world().plugin)
    for resource, action in [
        ("Node", Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE),
        ("ResourceClaim", Action.ADD | Action.UPDATE),
        ("Pod", Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM),
        ("DeviceClass", Action.ADD | Action.UPDATE),
        ("ResourceSlice", Action.ADD | Action.UPDATE),
    ]:
        assert any(kind == resource and action & registered_for == action for kind, registered_for in found)


FREE, HELD = claim("c"), claim("c", status={"allocation": allocation("d0", node="a")})
OTHER, OTHER_HELD = claim("o"), claim("o", status={"allocation": allocation("d1", node="a")})


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (None, FREE, QUEUE),  # the pod's claim was made
        (None, OTHER, SKIPPED),  # somebody else's
        (None, OTHER_HELD, SKIPPED),
        (FREE, HELD, QUEUE),  # the pod's claim was allocated
        (FREE, claim("c", labels={"a": "b"}), SKIPPED),
        (OTHER, OTHER_HELD, SKIPPED),
        (OTHER_HELD, OTHER, QUEUE),  # a device is free again
        (OTHER_HELD, None, QUEUE),
        (OTHER, None, SKIPPED),
    ],
)  # fmt: skip
def test_after_a_claim(old, new, said):
    w = world(FREE, OTHER)
    assert hint(w.plugin, "ResourceClaim")(pod_with("c"), old, new) is said


def test_claims_do_not_help_a_pod_that_lacks_one_of_its_own():
    w = world(OTHER)
    assert hint(w.plugin, "ResourceClaim")(pod_with("c"), OTHER_HELD, OTHER) is SKIPPED


def test_after_the_pod_was_told_its_claims():
    waiting, told = pod_with(("r", "t")), pod_with(("r", "t"), made={"r": "c"})
    after = hint(world(claim("c", owner=told.uid)).plugin, "Pod")
    assert after(waiting, waiting, told) is QUEUE
    assert after(waiting, waiting, waiting) is SKIPPED
    assert after(pod_with("c", name="q"), waiting, told) is SKIPPED


def test_after_a_pod_went():
    plugin = world(FREE).plugin
    (after,) = (
        r.hint for r in plugin.events_to_register() if r.event.resource == "Pod" and r.event.action == Action.DELETE
    )
    assert after(pod_with("c"), pod_with("o", name="q"), None) is QUEUE
    assert after(pod_with("c"), make_pod("q").request(**{"example.com/gpu": "1"}).info(), None) is QUEUE
    assert after(pod_with("c"), make_pod("q").request(cpu="1").info(), None) is SKIPPED


def test_a_slice_that_changes_is_seen_by_the_next_pod():
    w = world(claim("c", request(count=3)))
    assert w.messages(pod_with("c")) == {"a": "cannot allocate all claims"}
    w.put(resource_slice("s", device("d0"), device("d1"), device("d2")))
    assert w.messages(pod_with("c")) == {"a": None}


def test_nodes_are_told_apart_by_their_labels_as_they_are_now():
    z1 = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}]}
    net = resource_slice("s", device("d"), node=None, pool="net", nodeSelector=z1)
    w = World(device_class(), net, claim("c"), nodes=(make_node("a").label("zone", "z1").build(),))
    assert w.messages(pod_with("c")) == {"a": None}
    w.handle.cache.put_node(make_node("a").label("zone", "z2").build())
    assert w.messages(pod_with("c")) == {"a": "cannot allocate all claims"}
    assert w.look(pod_with("c"))["a"].code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_rules_that_change_or_go_may_free_devices():
    document = {"metadata": {"name": "r"}, "spec": {"deviceSelector": {}, "taint": {"key": "k", "effect": "NoExecute"}}}
    rule = decode("DeviceTaintRule", document)
    told = decode("DeviceTaintRule", {**document, "metadata": {"name": "r", "resourceVersion": "2"}})
    other = decode("DeviceTaintRule", {**document, "spec": {"deviceSelector": {"device": "d"}}})
    assert ("DeviceTaintRule", Action.UPDATE | Action.DELETE) not in registered(world(claim("c")).plugin)
    plugin = world(claim("c"), gates={"DRADeviceTaintRules": True}).plugin
    assert ("DeviceTaintRule", Action.UPDATE | Action.DELETE) in registered(plugin)
    after = hint(plugin, "DeviceTaintRule")
    assert after(pod_with("c"), rule, other) is QUEUE
    assert after(pod_with("c"), rule, None) is QUEUE
    assert after(pod_with("c"), rule, told) is SKIPPED
