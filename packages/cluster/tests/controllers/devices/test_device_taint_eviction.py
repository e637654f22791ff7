"""Device taint eviction: which pods go, when, and what a rule says of it.

Rules: KEP-5055 and Kubernetes' page "Dynamic Resource Allocation", section "Device taints and tolerations"; names and
sentences: pkg/controller/devicetainteviction/device_taint_eviction.go, v1.36.
"""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from packages.cluster.tests.controllers.devices.test_resource_claims import claim
from packages.cluster.tests.controllers.world import World, condition, pod

NO_EXECUTE = {"key": "broken", "value": "yes", "effect": "NoExecute"}


def toleration(seconds=None, **fields):
    more = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"key": "broken", "operator": "Exists", "effect": "NoExecute", **more, **fields}


def rule(name="rule", selector=None, effect="NoExecute"):
    spec = {"deviceSelector": selector, "taint": {**NO_EXECUTE, "effect": effect}}
    metadata = {"name": name}
    return {"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule", "metadata": metadata, "spec": spec}


def user(world, name, device, *tolerations):
    """A running pod with a device of node-0."""
    entry = {"name": "dev", "resourceClaimName": name}
    world.create(claim(name))
    world.create(pod(name, resourceClaims=[entry]))
    made = world.get("Pod", name)
    result = {"request": "gpu", "driver": "gpu.berth.dev", "pool": "node-0", "device": device}
    if tolerations:
        result["tolerations"] = list(tolerations)
    users = [{"resource": "pods", "name": name, "uid": made["metadata"]["uid"]}]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}
    world.patch("ResourceClaim", name, {"status": status}, subresource="status")
    world.bind(made, "node-0")
    world.run()


def taint(world, device, *taints):
    """What the driver publishes of a device of node-0."""
    (found,) = [one for one in world.all("ResourceSlice") if one["spec"]["nodeName"] == "node-0"]
    devices = [{**one, "taints": list(taints)} if one["name"] == device else one for one in found["spec"]["devices"]]
    world.patch("ResourceSlice", found["metadata"]["name"], {"spec": {"devices": devices}}, namespace="")
    world.run()


def staying(world):
    return {one["metadata"]["name"] for one in world.pods() if "deletionTimestamp" not in one["metadata"]}


def world_with(*users):
    world = World(nodes=1, devices=4, binds=False)
    for name, device, *tolerations in users:
        user(world, name, device, *tolerations)
    return world


def told(world, name="rule"):
    return condition(world.get("DeviceTaintRule", name, ""), "EvictionInProgress")


def test_only_who_uses_the_tainted_device_goes():
    world = world_with(("a", "gpu-0"), ("b", "gpu-1"))
    taint(world, "gpu-0", NO_EXECUTE)
    assert staying(world) == {"b"}
    said = "Device Taint manager: deleting due to NoExecute taint"
    assert condition(world.get("Pod", "a"), "DisruptionTarget") == ("True", "DeletionByDeviceTaintManager", said)
    assert world.events("Pod", "DeviceTaintManagerEviction") == ["Marking for deletion"]
    world.run(2)
    assert {one["metadata"]["name"] for one in world.pods()} == {"b"}


@pytest.mark.parametrize("effect", ["NoSchedule", "None"])
def test_other_effects_end_nobody(effect):
    world = world_with(("a", "gpu-0"))
    taint(world, "gpu-0", {**NO_EXECUTE, "effect": effect})
    world.run(100)
    assert staying(world) == {"a"}


@pytest.mark.parametrize(
    ("tolerations", "lasts_s"),
    [
        ([toleration()], None),
        ([toleration(operator="Equal", value="yes")], None),
        ([toleration(operator="Equal", value="no")], 0),
        ([toleration(key="")], None),  # every key
        ([toleration(key="other")], 0),
        ([toleration(effect="")], 0),  # says nothing of NoExecute
        ([toleration(effect="NoSchedule")], 0),
        ([toleration(60)], 60),
        ([toleration(60), toleration(20)], 20),  # the shortest counts
        ([toleration(60), toleration()], None),  # unless one lasts for ever
        ([toleration(-5)], 0),
    ],
)
def test_tolerations(tolerations, lasts_s):
    world = world_with(("a", "gpu-0", *tolerations))
    taint(world, "gpu-0", NO_EXECUTE)
    if lasts_s:
        world.run(lasts_s - 1)
        assert staying(world) == {"a"}
        world.run(2)
    assert staying(world) == (set() if lasts_s is not None else {"a"})
    world.run(1000)
    assert staying(world) == (set() if lasts_s is not None else {"a"})


def test_a_taint_that_goes_in_time_ends_nobody():
    world = world_with(("a", "gpu-0", toleration(60)))
    taint(world, "gpu-0", NO_EXECUTE)
    world.run(30)
    taint(world, "gpu-0")
    world.run(100)
    assert staying(world) == {"a"}
    assert world.events("Pod", "DeviceTaintManagerEviction") == ["Cancelling deletion"]


def test_a_pod_without_a_node_stays():
    world = world_with()
    world.create(claim("a"))
    waiting = world.create(pod("a", resourceClaims=[{"name": "dev", "resourceClaimName": "a"}]))
    result = {"request": "gpu", "driver": "gpu.berth.dev", "pool": "node-0", "device": "gpu-0"}
    users = [{"resource": "pods", "name": "a", "uid": waiting["metadata"]["uid"]}]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}
    world.patch("ResourceClaim", "a", {"status": status}, subresource="status")
    taint(world, "gpu-0", NO_EXECUTE)
    assert staying(world) == {"a"}
    world.bind(world.get("Pod", "a"), "node-0")
    world.run()
    assert staying(world) == set()


@pytest.mark.parametrize(
    ("selector", "going"),
    [
        (None, set()),  # no selector selects nothing
        ({}, {"a", "b"}),  # an empty one everything
        ({"device": "gpu-1"}, {"b"}),
        ({"driver": "gpu.berth.dev"}, {"a", "b"}),
        ({"driver": "other"}, set()),
        ({"pool": "node-0", "device": "gpu-0"}, {"a"}),
        ({"pool": "node-7"}, set()),
    ],
)
def test_rules_taint_what_they_select(selector, going):
    world = world_with(("a", "gpu-0"), ("b", "gpu-1"))
    world.create(rule(selector=selector))
    world.run()
    assert staying(world) == {"a", "b"} - going


def test_a_rule_says_how_far_it_is():
    world = world_with(("a", "gpu-0"), ("b", "gpu-1", toleration(60)), ("c", "gpu-2", toleration()))
    world.create(rule(selector={}))
    world.run()
    assert told(world) == ("True", "PodsPendingEviction", "2 pods need to be evicted in 1 namespace.")
    world.run(11)
    message = "1 pod needs to be evicted in 1 namespace. 1 pod evicted since starting the controller."
    assert told(world) == ("True", "PodsPendingEviction", message)
    world.run(70)
    assert told(world) == ("False", "Completed", "2 pods evicted since starting the controller.")
    assert staying(world) == {"c"}


def test_a_rule_that_concerns_nobody_has_not_started():
    world = world_with(("a", "gpu-0"))
    world.create(rule(selector={"device": "gpu-3"}))
    world.run()
    assert told(world) == ("False", "NotStarted", "")


def test_a_rule_without_effect_says_what_it_would_do():
    world = world_with(("a", "gpu-0"), ("b", "gpu-1"))
    world.create(rule(selector={"driver": "gpu.berth.dev"}, effect="None"))
    world.run(20)
    assert staying(world) == {"a", "b"}
    message = (
        "4 published devices selected. 2 allocated devices selected. 2 pods would be evicted in 1 namespace "
        "if the effect was NoExecute. This information will not be updated again. "
        "Recreate the DeviceTaintRule to trigger an update."
    )
    assert told(world) == ("False", "NoEffect", message)
    world.patch("DeviceTaintRule", "rule", {"spec": {"taint": {"effect": "NoExecute"}}}, namespace="")
    world.run(1)
    assert staying(world) == set()


def test_other_effects_of_rules():
    world = world_with(("a", "gpu-0"))
    world.create(rule(selector={}, effect="NoSchedule"))
    world.run()
    assert told(world) == ("False", "OtherEffect", "Eviction only happens for the NoExecute effect.")


def test_taints_say_since_when_and_keep_it():
    world = world_with()
    taint(world, "gpu-0", NO_EXECUTE)
    first = world.all("ResourceSlice")[0]["spec"]["devices"][0]["taints"][0]["timeAdded"]
    world.now_s += 50
    taint(world, "gpu-0", NO_EXECUTE, {**NO_EXECUTE, "key": "hot"})
    known, new = world.all("ResourceSlice")[0]["spec"]["devices"][0]["taints"]
    assert (known["timeAdded"], new["timeAdded"] > first) == (first, True)


@pytest.mark.parametrize("missing", ["key", "effect"])
def test_a_rule_needs_a_whole_taint(missing):
    wrong = rule(selector={})
    del wrong["spec"]["taint"][missing]
    with pytest.raises(StoreError) as caught:
        World(nodes=0).create(wrong)
    assert f"spec.taint.{missing}: Required value" in caught.value.message
