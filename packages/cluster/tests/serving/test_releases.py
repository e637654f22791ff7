"""The APIs of Kubernetes 1.30 to 1.37: what is there, and the same objects in the shapes of each."""

import pytest

from berth.api.resources import Resource
from berth_cluster.apimachinery.releases import NEWEST_MINOR, OLDEST_MINOR, release
from berth_cluster.apimachinery.resource_types import BY_KEY, RESOURCE_TYPES
from berth_cluster.apimachinery.schema import message_of
from berth_cluster.serving.server import ApiServer
from berth_cluster.serving.transport import StoreTransport
from packages.cluster.tests.objects import make_store
from packages.cluster.tests.serving.test_watching import Events

CLAIMS = BY_KEY["resource.k8s.io", "resourceclaims"]
SLICES = BY_KEY["resource.k8s.io", "resourceslices"]
POD_GROUPS = BY_KEY["scheduling.k8s.io", "podgroups"]
WORKLOADS = BY_KEY["scheduling.k8s.io", "workloads"]

DEVICES = ["deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"]
SERVED = {
    30: {},
    31: {"resource.k8s.io/v1alpha3": DEVICES},
    32: {"resource.k8s.io/v1beta1": DEVICES},
    33: {
        "resource.k8s.io/v1beta2": DEVICES,
        "resource.k8s.io/v1beta1": DEVICES,
        "resource.k8s.io/v1alpha3": ["devicetaintrules"],
    },
    34: {"resource.k8s.io/v1": DEVICES, "resource.k8s.io/v1alpha3": ["devicetaintrules"]},
    35: {
        "resource.k8s.io/v1": DEVICES,
        "resource.k8s.io/v1alpha3": ["devicetaintrules"],
        "scheduling.k8s.io/v1alpha1": ["workloads"],
    },
    36: {
        "resource.k8s.io/v1": DEVICES,
        "resource.k8s.io/v1beta2": ["devicetaintrules"],
        "scheduling.k8s.io/v1alpha2": ["podgroups", "workloads"],
    },
    37: {
        "resource.k8s.io/v1": sorted([*DEVICES, "devicetaintrules"]),
        "scheduling.k8s.io/v1beta1": ["podgroups", "workloads"],
    },
}


@pytest.fixture
def minor():
    return 36


@pytest.fixture
async def server(store, tmp_path, minor):
    server = ApiServer(store, tmp_path / "cluster", kubernetes_minor=minor)
    await server.start()
    yield server
    await server.stop()


def every_release(test):
    return pytest.mark.parametrize("minor", range(OLDEST_MINOR, NEWEST_MINOR + 1))(test)


def v1_claim(name="gpu"):
    selector = {"cel": {"expression": "true"}}
    exactly = {"deviceClassName": "gpu", "selectors": [selector], "allocationMode": "ExactCount", "count": 2}
    alternatives = [{"name": "a", "deviceClassName": "big", "allocationMode": "All"}]
    requests = [{"name": "one", "exactly": exactly}, {"name": "other", "firstAvailable": alternatives}]
    constraints = [{"matchAttribute": "gpu.example.com/numa"}]
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": requests, "constraints": constraints}}}


def v1beta1_claim(name="gpu"):
    made = v1_claim(name)
    one, other = made["spec"]["devices"]["requests"]
    made["spec"]["devices"]["requests"] = [{"name": "one", **one["exactly"]}, other]
    return made


def v1_slice():
    devices = [{"name": "gpu-0", "attributes": {"index": {"int": 0}}, "capacity": {"memory": {"value": "16Gi"}}}]
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": "node-1", "devices": devices}
    return {"metadata": {"name": "slice"}, "spec": spec}


def old_slice(*, bare_amounts):
    made = v1_slice()
    capacity = {"memory": "16Gi"} if bare_amounts else {"memory": {"value": "16Gi"}}
    made["spec"]["devices"] = [{"name": "gpu-0", "basic": {"attributes": {"index": {"int": 0}}, "capacity": capacity}}]
    return made


@every_release
async def test_discovery_names_what_is_served(client, minor):
    _, version = await client.get("/version")
    assert (version["minor"], version["gitVersion"]) == (str(minor), f"v1.{minor}.0")
    _, groups = await client.get("/apis")
    found = {}
    for group in groups["groups"]:
        if group["name"] not in ("resource.k8s.io", "scheduling.k8s.io"):
            continue
        for version in group["versions"]:
            _, listed = await client.get(f"/apis/{version['groupVersion']}")
            names = {entry["name"] for entry in listed["resources"] if "/" not in entry["name"]}
            names.discard("priorityclasses")
            if names:
                found[version["groupVersion"]] = sorted(names)
    assert found == SERVED[minor]


@every_release
async def test_what_is_not_served_is_not_there(client, minor):
    served = {kind.api_version + "/" + kind.plural for kind in release(minor).types}
    for known in range(OLDEST_MINOR, NEWEST_MINOR + 1):
        for kind in release(known).types:
            path = f"/api{'s' if kind.group else ''}/{kind.api_version}/{kind.plural}"
            is_there = kind.api_version + "/" + kind.plural in served
            assert (await client.get(path))[0] == (200 if is_there else 404), path


@pytest.mark.parametrize(
    ("minor", "preferred"),
    [(33, "resource.k8s.io/v1beta2"), (34, "resource.k8s.io/v1"), (36, "resource.k8s.io/v1")],
)
async def test_the_preferred_version_comes_first(client, minor, preferred):
    _, group = await client.get("/apis/resource.k8s.io")
    assert group["preferredVersion"]["groupVersion"] == group["versions"][0]["groupVersion"] == preferred


@every_release
async def test_streaming_lists_where_the_gate_was_on(client, store, minor):
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"
    async with client.session.get(f"{client.url}/api/v1/nodes?{query}") as response:
        assert response.status == (200 if minor == 32 or minor >= 34 else 422)
        if response.status == 422:
            assert "WatchList feature gate" in (await response.json())["message"]


def test_every_version_has_a_schema():
    for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1):
        for kind in release(minor).types:
            assert message_of(kind.group, kind.version, kind.kind) is not None, kind


def test_the_default_is_the_table_of_resources():
    also = [kind for kind in release().types if kind not in RESOURCE_TYPES]
    assert [(kind.kind, kind.version) for kind in also] == [("HorizontalPodAutoscaler", "v1")]
    assert [kind for kind in release().types if kind not in also] == list(RESOURCE_TYPES)
    with pytest.raises(ValueError, match="not known here"):
        release(29)


class TestShapes:
    @pytest.mark.parametrize(
        ("minor", "version", "sent"),
        [
            (31, "v1alpha3", v1beta1_claim),
            (32, "v1beta1", v1beta1_claim),
            (33, "v1beta1", v1beta1_claim),
            (33, "v1beta2", v1_claim),
            (34, "v1", v1_claim),
        ],
    )
    async def test_claims(self, client, store, minor, version, sent):
        path = f"/apis/resource.k8s.io/{version}/namespaces/default/resourceclaims"
        status, made = await client.post(f"{path}?fieldValidation=Strict", sent())
        assert status == 201, made
        assert made["apiVersion"] == f"resource.k8s.io/{version}"
        alternative = made["spec"]["devices"]["requests"][1]["firstAvailable"][0]
        assert made["spec"] == sent()["spec"] and alternative["allocationMode"] == "All"
        stored = store.get(CLAIMS, "default", "gpu")
        assert (stored["apiVersion"], stored["spec"]) == ("resource.k8s.io/v1", v1_claim()["spec"])
        _, listed = await client.get(path)
        items = [{"kind": "ResourceClaim", "apiVersion": listed["apiVersion"], **item} for item in listed["items"]]
        assert items == [made] and listed["apiVersion"] == f"resource.k8s.io/{version}"
        query = f"watch=true&resourceVersion=0&allowWatchBookmarks=true&timeoutSeconds=1&labelSelector={'a%3Db'}"
        async with client.session.get(f"{client.url}{path}?{query}") as response:
            status, patched = await client.patch(f"{path}/gpu", {"metadata": {"labels": {"a": "b"}}})
            assert status == 200, patched
            event = await Events(response).next()
        assert event == {"type": "ADDED", "object": patched} and patched["spec"] == made["spec"]
        status, written = await client.send("PUT", f"{path}/gpu", {**patched, "metadata": {**patched["metadata"]}})
        assert (status, written) == (200, patched)
        allocation = {"devices": {"results": [{"request": "one", "driver": "d", "pool": "p", "device": "x"}]}}
        status, allocated = await client.send(
            "PUT", f"{path}/gpu/status", {**patched, "status": {"allocation": allocation}}
        )
        assert (status, allocated["status"]) == (200, {"allocation": allocation})
        assert allocated["apiVersion"] == f"resource.k8s.io/{version}"
        assert store.get(CLAIMS, "default", "gpu")["spec"] == v1_claim()["spec"]

    @pytest.mark.parametrize(
        ("minor", "version", "shape"),
        [
            (31, "v1alpha3", old_slice(bare_amounts=True)),
            (32, "v1beta1", old_slice(bare_amounts=False)),
            (33, "v1beta2", v1_slice()),
        ],
    )
    async def test_slices(self, client, store, minor, version, shape):
        path = f"/apis/resource.k8s.io/{version}/resourceslices"
        status, made = await client.post(f"{path}?fieldValidation=Strict", shape)
        assert status == 201, made
        assert made["spec"] == shape["spec"]
        assert store.get(SLICES, "", "slice")["spec"] == v1_slice()["spec"]
        _, listed = await client.get(f"{path}?fieldSelector=spec.nodeName%3Dnode-1")
        assert [item["spec"] for item in listed["items"]] == [shape["spec"]]

    @pytest.mark.parametrize("minor", [37])
    async def test_pod_groups(self, client, store, minor):
        root = "/apis/scheduling.k8s.io/v1beta1/namespaces/default"
        gang = {"gang": {"minCount": 2}}
        template = {"name": "t", "schedulingPolicy": gang, "disruptionMode": {"all": {}}}
        workload = {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [template]}}
        status, made = await client.post(f"{root}/workloads?fieldValidation=Strict", workload)
        assert status == 201 and made["spec"] == workload["spec"], made
        assert store.get(WORKLOADS, "default", "w")["spec"]["podGroupTemplates"][0]["disruptionMode"] == "PodGroup"
        reference = {"workloadName": "w", "templateName": "t"}
        group = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": gang, "workloadRef": reference}}
        status, made = await client.post(f"{root}/podgroups?fieldValidation=Strict", group)
        assert status == 201, made
        assert made["spec"] == {**group["spec"], "disruptionMode": {"single": {}}, "priority": 0}
        stored = store.get(POD_GROUPS, "default", "g")["spec"]
        assert stored["podGroupTemplateRef"] == {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}
        assert stored["disruptionMode"] == "Pod"
        group["metadata"]["name"], reference["templateName"] = "h", "missing"
        assert (await client.post(f"{root}/podgroups", group))[0] == 403

    @pytest.mark.parametrize("minor", [35])
    async def test_workloads_of_1_35(self, client, store, minor):
        path = "/apis/scheduling.k8s.io/v1alpha1/namespaces/default/workloads"
        spec = {"podGroups": [{"name": "t", "policy": {"gang": {"minCount": 2}}}]}
        status, made = await client.post(f"{path}?fieldValidation=Strict", {"metadata": {"name": "w"}, "spec": spec})
        assert (status, made["spec"]) == (201, spec)
        template = {"name": "t", "schedulingPolicy": {"gang": {"minCount": 2}}}
        assert store.get(WORKLOADS, "default", "w")["spec"] == {"podGroupTemplates": [template]}

    async def test_without_sockets_too(self):
        store = make_store()
        store.create(CLAIMS, "default", v1_claim())
        old = Resource("resource.k8s.io", "v1beta1", "resourceclaims", "ResourceClaim", True)
        body = await StoreTransport(store).list(old)
        assert b'"apiVersion":"resource.k8s.io/v1beta1"' in body and b'"exactly"' not in body

    @pytest.mark.parametrize("junk", [None, 5, "x", [], {}, [5], {"devices": 5}, {"devices": {"requests": [5, {}]}}])
    async def test_objects_of_any_shape_convert_without_an_accident(self, junk):
        from berth_cluster.storage.api_versions import view_of

        for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1):
            for kind in release(minor).types:
                view = view_of(kind)
                for obj in ({"spec": junk}, {"spec": {"spec": junk, "devices": junk, "podGroupTemplates": junk}}, {}):
                    if view is not None:
                        view.from_stored(obj)
                        view.to_stored(obj)


class TestDefaults:
    def test_a_request_wants_one_device_unless_it_says_otherwise(self, store):
        toleration = {"key": "a"}
        requests = [
            {"name": "a", "exactly": {"deviceClassName": "gpu", "tolerations": [toleration]}},
            {"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "gpu"}]},
            {"name": "c", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}},
        ]
        spec = {"devices": {"requests": requests}}
        made = store.create(CLAIMS, "default", {"metadata": {"name": "c"}, "spec": spec})
        one, alternative, everything = made["spec"]["devices"]["requests"]
        assert one["exactly"] == {
            "deviceClassName": "gpu",
            "allocationMode": "ExactCount",
            "count": 1,
            "tolerations": [{"key": "a", "operator": "Equal"}],
        }
        assert alternative["firstAvailable"][0]["allocationMode"] == "ExactCount"
        assert alternative["firstAvailable"][0]["count"] == 1
        assert everything["exactly"] == {"deviceClassName": "gpu", "allocationMode": "All"}
        # What the defaults have filled in may be left out of an update.
        same = store.update(CLAIMS, "default", "c", {"metadata": made["metadata"], "spec": spec})
        assert same is store.get(CLAIMS, "default", "c")

    @pytest.mark.parametrize(
        ("devices", "why"),
        [
            ({"requests": [{"name": f"r{n}"} for n in range(33)]}, "Too many: 33: must have at most 32 items"),
            ({"requests": [{"name": "a", "firstAvailable": [{}] * 9}]}, "firstAvailable: Too many: 9"),
            ({"requests": [{"name": "a", "exactly": {"selectors": [{}] * 33}}]}, "selectors: Too many: 33"),
            (
                {"requests": [{"name": "a", "exactly": {"selectors": [{"cel": {"expression": "1" * 10_241}}]}}]},
                "expression: Too long: may not be more than 10240 bytes",
            ),
        ],
    )
    async def test_claims_that_are_too_large(self, client, devices, why):
        path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
        status, body = await client.post(path, {"metadata": {"name": "a"}, "spec": {"devices": devices}})
        assert status == 422 and why in body["message"], body
        assert len(body["message"]) < 5000
