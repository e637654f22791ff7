"""LimitRanges: what they give to containers, and what they refuse, in the words of kubernetes.io "Limit Ranges"."""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.resource_types import BY_KEY
from tests.cluster.objects import PODS, make_store, pod

LIMIT_RANGES = BY_KEY["", "limitranges"]
CLAIMS = BY_KEY["", "persistentvolumeclaims"]


def limited(*limits):
    store = make_store()
    store.create(LIMIT_RANGES, "default", {"metadata": {"name": "limits"}, "spec": {"limits": list(limits)}})
    return store


def asking(requests=None, limits=None):
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
    return pod(containers=[{"name": "main", "image": "nginx:1.27", "resources": resources}])


def claim(amount):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": amount}}}
    return {"metadata": {"name": "data"}, "spec": spec}


def test_containers_get_what_they_leave_open():
    store = limited({"type": "Container", "default": {"cpu": "700m"}, "defaultRequest": {"cpu": "500m"}})
    made = store.create(PODS, "default", asking())
    assert made["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "500m"}, "limits": {"cpu": "700m"}}
    said = made["metadata"]["annotations"]["kubernetes.io/limit-ranger"]
    assert said == "LimitRanger plugin set: cpu request for container main; cpu limit for container main"


@pytest.mark.parametrize(
    ("limit", "obj", "why"),
    [
        (
            {"type": "Container", "max": {"memory": "1Gi"}},
            asking(limits={"memory": "1.5Gi"}),
            "maximum memory usage per Container is 1Gi, but limit is 1536Mi",
        ),
        (
            {"type": "Container", "min": {"memory": "500Mi"}},
            asking(requests={"memory": "100Mi"}),
            "minimum memory usage per Container is 500Mi, but request is 100Mi",
        ),
        (
            {"type": "Pod", "max": {"cpu": "1"}},
            asking(),
            "maximum cpu usage per Pod is 1.  No limit is specified",
        ),
    ],
)
def test_pods_that_are_refused(limit, obj, why):
    with pytest.raises(StoreError) as caught:
        limited(limit).create(PODS, "default", obj)
    assert (caught.value.status_code, caught.value.message) == (403, f'pods "web" is forbidden: {why}')


def test_claims_are_held_to_both_bounds():
    store = limited({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}})
    with pytest.raises(
        StoreError, match="minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 500Mi"
    ):
        store.create(CLAIMS, "default", claim("500Mi"))
    with pytest.raises(StoreError, match="maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 5Gi"):
        store.create(CLAIMS, "default", claim("5Gi"))
    assert store.create(CLAIMS, "default", claim("2Gi"))["metadata"]["name"] == "data"
