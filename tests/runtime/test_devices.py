"""Pods with devices on a live scheduler: claims are allocated, written and released at the API server."""

from berth.api.resources import RESOURCES
from tests.runtime.world import World, scheduling
from tests.waiting import until

CLAIM, SLICE, CLASS, POD = (RESOURCES[k] for k in ("ResourceClaim", "ResourceSlice", "DeviceClass", "Pod"))
DRIVER = "gpu.example.com"
GPU = "example.com/gpu"


class Cluster(World):
    """Two nodes, the first of which has two devices."""

    def __init__(self):
        super().__init__(cpu="8")
        first = sorted(node["metadata"]["name"] for node in self.store.objects(RESOURCES["Node"]))[0]
        self.first = first
        selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
        spec = {"selectors": [selector], "extendedResourceName": GPU}
        self.create(CLASS, "gpu", spec)
        pool = {"name": first, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": "d0"}, {"name": "d1"}]
        self.create(SLICE, "s", {"driver": DRIVER, "pool": pool, "nodeName": first, "devices": devices})

    def create(self, resource, name, spec):
        meta = {"name": name, **({"namespace": "default"} if resource.namespaced else {})}
        document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, "spec": spec}
        return self.store.create(resource, "default" if resource.namespaced else "", document)

    def add_claim(self, name, **exactly):
        wanted = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, **exactly}
        return self.create(CLAIM, name, {"devices": {"requests": [{"name": "r0", "exactly": wanted}]}})

    def claim(self, name):
        return next((c for c in self.store.objects(CLAIM) if c["metadata"]["name"].startswith(name)), None)

    def add_user(self, name, claim):
        return self.add_pod(name, resourceClaims=[{"name": "r", "resourceClaimName": claim}])

    def devices(self, name):
        status = (self.claim(name) or {}).get("status", {})
        return [result["device"] for result in status.get("allocation", {}).get("devices", {}).get("results", [])]


async def test_claims_are_allocated_and_reserved_before_the_pod_is_bound():
    world = Cluster()
    world.add_claim("c0")
    async with scheduling(world):
        world.add_user("p0", "c0")
        await until(lambda: world.node_of("p0"))
        assert world.node_of("p0") == world.first
        assert world.devices("c0") == ["d0"]
        claim = world.claim("c0")
        assert [consumer["name"] for consumer in claim["status"]["reservedFor"]] == ["p0"]
        assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        world.add_user("p1", "c0")  # shares the claim
        await until(lambda: world.node_of("p1"))
        assert len(world.claim("c0")["status"]["reservedFor"]) == 2


async def test_a_pod_waits_for_its_claim_and_for_devices():
    world = Cluster()
    world.add_claim("all", count=2)
    async with scheduling(world):
        world.add_user("p0", "all")
        await until(lambda: world.node_of("p0"))
        world.add_user("p1", "late")
        world.add_claim("late")
        await until(lambda: world.condition("p1"))
        assert "cannot allocate all claims" in world.condition("p1")["message"]
        claim = world.claim("all")
        world.store.update(CLAIM, "default", "all", {**claim, "status": {}}, "status")
        await until(lambda: world.node_of("p1"))
        assert world.devices("late") == ["d0"]


async def test_extended_resources_are_backed_by_a_claim_that_the_scheduler_makes():
    world = Cluster()
    async with scheduling(world):
        container = {"name": "c", "image": "x", "resources": {"requests": {GPU: "2"}, "limits": {GPU: "2"}}}
        world.add_pod("p0", containers=[container])
        await until(lambda: world.node_of("p0"))
        assert sorted(world.devices("p0-extended-resources-")) == ["d0", "d1"]
        told = world.pod("p0")["status"]["extendedResourceClaimStatus"]
        assert told["resourceClaimName"] == world.claim("p0-extended-resources-")["metadata"]["name"]
        assert told["requestMappings"] == [
            {"containerName": "c", "resourceName": GPU, "requestName": "container-0-request-0"}
        ]
