"""The resize subresource: what it takes from a write, and what it refuses (e2e/node/pod_resize of v1.36)."""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.patches import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from packages.cluster.tests.objects import PODS, make_store, pod

SIZED = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}}


@pytest.fixture
def store():
    store = make_store()
    made = pod()
    made["spec"]["containers"] = [
        {"name": "main", "image": "nginx:1.27", "resources": SIZED},
        {"name": "side", "image": "nginx:1.27"},
    ]
    made["spec"]["initContainers"] = [{"name": "first", "image": "nginx:1.27"}]
    store.create(PODS, "default", made)
    return store


def resize(store, patch, content_type=STRATEGIC_MERGE_PATCH):
    return store.patch(PODS, "default", "web", patch, content_type, "resize")


def one(resources, name="main", **fields):
    return {"spec": {"containers": [{"name": name, "resources": resources, **fields}]}}


def test_only_resources_are_taken(store):
    before = store.get(PODS, "default", "web")
    patch = one({"requests": {"cpu": "500m"}}, image="other")
    patch["metadata"] = {"labels": {"new": "label"}}
    patch["spec"]["schedulerName"] = "other"
    after = resize(store, patch)
    main = after["spec"]["containers"][0]
    assert main["resources"] == {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "2"}}
    assert main["image"] == "nginx:1.27"
    assert after["spec"]["schedulerName"] == "default-scheduler"
    assert after["metadata"].get("labels") == before["metadata"].get("labels")
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        (
            one({"requests": {"memory": None}}),
            "containers[0].resources.requests: Forbidden: resource requests cannot be",
        ),
        (one({"limits": {"cpu": None}}), "containers[0].resources.limits: Forbidden: resource limits cannot be"),
        (one({"requests": {"example.com/x": "1"}}), "spec: Forbidden: only cpu and memory resources are mutable"),
        (one({"requests": {"cpu": "3"}}), "must be less than or equal to cpu limit of 2"),
        (one({"requests": {"cpu": "lots"}}), "quantities must match"),
        (one({"requests": {"cpu": "1"}}, name="new"), "containers may not be renamed or reordered on resize"),
        (
            {"spec": {"initContainers": [{"name": "first", "resources": {"limits": {"cpu": "1"}}}]}},
            "resources for non-sidecar init containers are immutable",
        ),
    ],
)
def test_what_is_refused(store, patch, why):
    with pytest.raises(StoreError) as refused:
        resize(store, patch)
    assert why in refused.value.message


def test_the_qos_class_stays():
    store = make_store()
    store.create(PODS, "default", pod())
    (name,) = (container["name"] for container in store.get(PODS, "default", "web")["spec"]["containers"])
    with pytest.raises(StoreError, match="Pod QOS Class may not change as a result of resizing"):
        resize(store, one({"requests": {"memory": "40Mi"}}, name))


def test_json_and_merge_patches_do_too(store):
    path = "/spec/containers/0/resources/requests/cpu"
    after = resize(store, [{"op": "replace", "path": path, "value": "2"}], JSON_PATCH)
    assert after["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "2"
    with pytest.raises(StoreError, match="renamed or reordered"):
        resize(store, one(SIZED), MERGE_PATCH)
    with pytest.raises(StoreError, match="pod updates may not change fields"):
        store.patch(PODS, "default", "web", one({"requests": {"cpu": "1"}}), STRATEGIC_MERGE_PATCH)
