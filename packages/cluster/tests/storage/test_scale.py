"""The scale subresource."""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.patches import MERGE_PATCH
from packages.cluster.tests.objects import CONFIG_MAPS, DEPLOYMENTS, config_map, deployment, make_store


def test_a_scale_shows_replicas_and_selector():
    store = make_store()
    store.create(DEPLOYMENTS, "default", deployment(replicas=3))
    scale = store.get(DEPLOYMENTS, "default", "web", "scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 3}
    assert scale["status"] == {"replicas": 0, "selector": "app=web"}


def test_scaling_changes_the_replicas_and_nothing_else():
    store = make_store()
    made = store.create(DEPLOYMENTS, "default", deployment(replicas=3))
    scale = store.get(DEPLOYMENTS, "default", "web", "scale")
    answer = store.update(DEPLOYMENTS, "default", "web", {**scale, "spec": {"replicas": 0}}, "scale")
    assert answer["spec"] == {}
    after = store.get(DEPLOYMENTS, "default", "web")
    assert after["spec"] == {**made["spec"], "replicas": 0}
    assert after["metadata"]["generation"] == 2


def test_a_scale_can_be_patched():
    store = make_store()
    store.create(DEPLOYMENTS, "default", deployment())
    store.patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": 7}}, MERGE_PATCH, "scale")
    assert store.get(DEPLOYMENTS, "default", "web")["spec"]["replicas"] == 7


def test_an_old_scale_is_refused():
    store = make_store()
    store.create(DEPLOYMENTS, "default", deployment())
    scale = store.get(DEPLOYMENTS, "default", "web", "scale")
    store.update(DEPLOYMENTS, "default", "web", {**scale, "spec": {"replicas": 2}}, "scale")
    with pytest.raises(StoreError, match="the object has been modified"):
        store.update(DEPLOYMENTS, "default", "web", {**scale, "spec": {"replicas": 3}}, "scale")


@pytest.mark.parametrize(
    ("replicas", "why"), [(-1, "must be greater than or equal to 0"), ("many", "must be a whole number")]
)
def test_replicas_that_make_no_sense(replicas, why):
    store = make_store()
    store.create(DEPLOYMENTS, "default", deployment())
    with pytest.raises(StoreError, match=why):
        store.update(DEPLOYMENTS, "default", "web", {"spec": {"replicas": replicas}}, "scale")


def test_not_everything_can_be_scaled():
    store = make_store()
    store.create(CONFIG_MAPS, "default", config_map())
    with pytest.raises(StoreError, match="configmaps/scale"):
        store.get(CONFIG_MAPS, "default", "settings", "scale")
