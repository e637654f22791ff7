"""The ResourceClaim controller: claims made for pods, and given back when these have ended.

Rules: KEP-4381 and pkg/controller/resourceclaim (controller.go), v1.36.
"""

import pytest

from berth_cluster.apimachinery.resource_types import BY_KEY
from packages.cluster.tests.controllers.world import World, meta, pod

CLAIMS = BY_KEY["resource.k8s.io", "resourceclaims"]
FINALIZER = "resource.kubernetes.io/delete-protection"
REQUESTS = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.berth.dev"}}]}}
ALLOCATION = {"devices": {"results": [{"request": "gpu", "driver": "d", "pool": "p", "device": "gpu-0"}]}}


def template(name="gpu"):
    metadata = {"labels": {"from": name}, "annotations": {"note": "x"}}
    spec = {"metadata": metadata, "spec": REQUESTS}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": meta(name), "spec": spec}


def claim(name, **metadata):
    metadata = meta(name, **metadata)
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": REQUESTS}


def user(name="user", **spec):
    entry = {"name": "dev", "resourceClaimTemplateName": "gpu"}
    return pod(name, **{"resourceClaims": [entry], **spec})


def allocate(world, name, *pods):
    """What the scheduler writes for pods that get a claim."""
    world.patch("ResourceClaim", name, {"metadata": {"finalizers": [FINALIZER]}})
    users = [{"resource": "pods", "name": one["metadata"]["name"], "uid": one["metadata"]["uid"]} for one in pods]
    status = {"allocation": ALLOCATION, "reservedFor": users}
    world.patch("ResourceClaim", name, {"status": status}, subresource="status")


def claim_names(world):
    return [one["metadata"]["name"] for one in world.all("ResourceClaim")]


def world_with(*objects):
    world = World(nodes=1, binds=False)
    for obj in objects:
        world.create(obj)
    world.run()
    return world


def test_a_pod_that_was_replaced_by_one_without_claims_is_let_alone():
    world = world_with(template())
    world.create(user("a"))
    world.delete("Pod", "a")
    world.create(pod("a"))
    world.run()
    assert not world.all("ResourceClaim")


def test_a_pod_gets_a_claim_of_its_own_for_each_template():
    world = world_with(template(), user("a"), user("b"))
    made = {one["metadata"]["ownerReferences"][0]["name"]: one for one in world.all("ResourceClaim")}
    assert set(made) == {"a", "b"}
    metadata = made["a"]["metadata"]
    assert metadata["name"].startswith("a-dev-")
    assert metadata["annotations"] == {"note": "x", "resource.kubernetes.io/pod-claim-name": "dev"}
    assert metadata["labels"] == {"from": "gpu"}
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", world.get("Pod", "a")["metadata"]["uid"], True)
    (asked,) = REQUESTS["devices"]["requests"]
    exactly = {**asked["exactly"], "allocationMode": "ExactCount", "count": 1}  # filled in by the API server
    assert made["a"]["spec"] == {"devices": {"requests": [{**asked, "exactly": exactly}]}}
    told = world.get("Pod", "a")["status"]["resourceClaimStatuses"]
    assert told == [{"name": "dev", "resourceClaimName": metadata["name"]}]


def test_a_claim_that_goes_is_made_again():
    world = world_with(template(), user())
    (before,) = claim_names(world)
    world.delete("ResourceClaim", before)
    world.run()
    (after,) = claim_names(world)
    assert after != before
    assert world.get("Pod", "user")["status"]["resourceClaimStatuses"][0]["resourceClaimName"] == after


def test_a_pod_waits_for_its_template():
    world = world_with(user())
    assert claim_names(world) == []
    message = (
        'PodResourceClaim dev: resource claim template "gpu": resourceclaimtemplate.resource.k8s.io "gpu" not found'
    )
    assert set(world.events("Pod", "FailedResourceClaimCreation")) == {message}
    world.create(template())
    world.run()
    assert len(claim_names(world)) == 1


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_gives_its_own_claim_back_for_good(phase):
    world = world_with(template(), user())
    (name,) = claim_names(world)
    allocate(world, name, world.get("Pod", "user"))
    world.bind(world.get("Pod", "user"), "node-0")
    world.run()
    assert world.get("ResourceClaim", name)["status"]["reservedFor"][0]["name"] == "user"
    world.patch("Pod", "user", {"status": {"phase": phase}}, subresource="status")
    world.run()
    assert (claim_names(world), world.get("Pod", "user")["status"]["phase"]) == ([], phase)


def test_a_shared_claim_is_freed_by_its_last_user():
    entry = {"name": "dev", "resourceClaimName": "shared"}
    world = world_with(claim("shared"), *(user(name, resourceClaims=[entry]) for name in ("a", "b")))
    allocate(world, "shared", world.get("Pod", "a"), world.get("Pod", "b"))
    for name in ("a", "b"):
        world.bind(world.get("Pod", name), "node-0")
    world.run()
    world.delete("Pod", "a")
    world.run(2)
    shared = world.get("ResourceClaim", "shared")
    assert [one["name"] for one in shared["status"]["reservedFor"]] == ["b"]
    assert (shared["status"]["allocation"], shared["metadata"]["finalizers"]) == (ALLOCATION, [FINALIZER])
    world.delete("Pod", "b")
    world.run(2)
    shared = world.get("ResourceClaim", "shared")
    assert {"allocation", "reservedFor"} & set(shared["status"]) == set()
    assert "finalizers" not in shared["metadata"]


def test_a_pod_that_only_goes_holds_its_claim_until_it_is_gone():
    entry = {"name": "dev", "resourceClaimName": "shared"}
    world = world_with(claim("shared"), user(resourceClaims=[entry]))
    allocate(world, "shared", world.get("Pod", "user"))
    world.bind(world.get("Pod", "user"), "node-0")
    world.run()
    world.delete("Pod", "user")
    world.run(0.5)
    assert "deletionTimestamp" in world.get("Pod", "user")["metadata"]
    assert world.get("ResourceClaim", "shared")["status"]["allocation"] == ALLOCATION


def test_an_allocation_without_users_stays():  # somebody may be about to use it
    world = world_with(claim("idle"))
    allocate(world, "idle")
    world.run()
    assert world.get("ResourceClaim", "idle")["status"]["allocation"] == ALLOCATION
    world.delete("ResourceClaim", "idle")
    world.run()
    assert claim_names(world) == []


def test_a_replaced_pod_does_not_inherit_the_reservation():
    entry = {"name": "dev", "resourceClaimName": "shared"}
    world = world_with(claim("shared"), user(resourceClaims=[entry]))
    allocate(world, "shared", {"metadata": {"name": "user", "uid": "an earlier one"}})
    world.run()
    assert "allocation" not in world.get("ResourceClaim", "shared")["status"]


def test_a_bound_pod_that_no_scheduler_saw_holds_its_claims():
    entry = {"name": "dev", "resourceClaimName": "shared"}
    world = world_with(claim("shared"))
    allocate(world, "shared")
    world.create(user(resourceClaims=[entry], nodeName="node-0"))
    world.run()
    (holder,) = world.get("ResourceClaim", "shared")["status"]["reservedFor"]
    assert holder == {"resource": "pods", "name": "user", "uid": world.get("Pod", "user")["metadata"]["uid"]}


def test_a_claim_made_for_extended_resources_goes_with_its_pod():  # KEP-5004
    world = world_with(pod("user", restartPolicy="Never"))
    maker = world.get("Pod", "user")["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "user", "uid": maker["uid"], "controller": True}
    noted = {"resource.kubernetes.io/extended-resource-claim": "true"}
    world.create(claim("user-extended-resources-1", annotations=noted, ownerReferences=[owner]))
    allocate(world, "user-extended-resources-1", world.get("Pod", "user"))
    told = {"resourceClaimName": "user-extended-resources-1", "requestMappings": []}
    world.patch("Pod", "user", {"status": {"extendedResourceClaimStatus": told}}, subresource="status")
    world.bind(world.get("Pod", "user"), "node-0")
    world.run(1)
    assert claim_names(world) == ["user-extended-resources-1"]
    world.run(3)  # hollow pods that are not restarted end after two seconds
    assert (claim_names(world), world.get("Pod", "user")["status"]["phase"]) == ([], "Succeeded")


def test_a_pod_deleted_before_it_got_a_node_holds_nothing():
    world = world_with(template(), user())
    (name,) = claim_names(world)
    allocate(world, name, world.get("Pod", "user"))
    world.patch("Pod", "user", {"metadata": {"finalizers": ["example.com/keep"]}})
    world.delete("Pod", "user")
    world.run()
    assert (claim_names(world), world.get("Pod", "user") is None) == ([], False)
