"""Deleting: at once, with grace, behind finalizers, and whole collections."""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from packages.cluster.tests.objects import (
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    Clock,
    config_map,
    make_store,
    pod,
)


def bound_pod(store, name="web", **spec):
    store.create(PODS, "default", pod(name, **spec))
    store.bind("default", name, {"target": {"name": "node-1"}})


def test_a_plain_object_goes_at_once():
    store = make_store()
    store.create(CONFIG_MAPS, "default", config_map())
    store.delete(CONFIG_MAPS, "default", "settings")
    assert store.find(CONFIG_MAPS, "default", "settings") is None


def test_a_pod_without_a_node_goes_at_once():
    store = make_store()
    store.create(PODS, "default", pod())
    store.delete(PODS, "default", "web")
    assert store.find(PODS, "default", "web") is None


def test_a_pod_on_a_node_gets_its_grace_period():
    store = make_store(Clock())
    bound_pod(store, terminationGracePeriodSeconds=20)
    going = store.delete(PODS, "default", "web")
    assert going["metadata"]["deletionTimestamp"] == "2025-03-01T12:00:20Z"
    assert going["metadata"]["deletionGracePeriodSeconds"] == 20
    # The kubelet says that it is done.
    store.delete(PODS, "default", "web", {"gracePeriodSeconds": 0})
    assert store.find(PODS, "default", "web") is None


def test_a_grace_period_can_be_shortened_but_not_lengthened():
    clock = Clock()
    store = make_store(clock)
    bound_pod(store)
    store.delete(PODS, "default", "web", {"gracePeriodSeconds": 30})
    longer = store.delete(PODS, "default", "web", {"gracePeriodSeconds": 60})
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 30
    clock.advance(3)
    shorter = store.delete(PODS, "default", "web", {"gracePeriodSeconds": 5})
    assert shorter["metadata"]["deletionTimestamp"] == "2025-03-01T12:00:05Z"  # from the first request on
    assert shorter["metadata"]["generation"] == longer["metadata"]["generation"] == 2


def test_a_pod_that_has_ended_goes_at_once():
    store = make_store()
    bound_pod(store)
    store.update(PODS, "default", "web", {"metadata": {"name": "web"}, "status": {"phase": "Succeeded"}}, "status")
    store.delete(PODS, "default", "web")
    assert store.find(PODS, "default", "web") is None


def test_finalizers_hold_an_object():
    store = make_store()
    held = config_map()
    held["metadata"]["finalizers"] = ["example.com/hold"]
    store.create(CONFIG_MAPS, "default", held)
    going = store.delete(CONFIG_MAPS, "default", "settings")
    assert going["metadata"]["deletionTimestamp"] and going["metadata"]["deletionGracePeriodSeconds"] == 0
    released = {**going, "metadata": {**going["metadata"], "finalizers": []}}
    watch = store.watch(CONFIG_MAPS, resource_version=str(store.revision))
    store.update(CONFIG_MAPS, "default", "settings", released)
    assert store.find(CONFIG_MAPS, "default", "settings") is None
    assert [event.type for event in watch.events()] == ["DELETED"]


@pytest.mark.parametrize(
    ("options", "finalizers"),
    [
        ({"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ({"propagationPolicy": "Orphan"}, ["orphan"]),
        ({"orphanDependents": True}, ["orphan"]),
    ],
)
def test_propagation_leaves_work_for_the_garbage_collector(options, finalizers):
    store = make_store()
    store.create(CONFIG_MAPS, "default", config_map())
    going = store.delete(CONFIG_MAPS, "default", "settings", options)
    assert going["metadata"]["finalizers"] == finalizers
    assert store.find(CONFIG_MAPS, "default", "settings") is not None


def test_an_unknown_propagation_policy_is_refused():
    store = make_store()
    store.create(CONFIG_MAPS, "default", config_map())
    with pytest.raises(StoreError, match='propagationPolicy: Unsupported value: "Sideways"'):
        store.delete(CONFIG_MAPS, "default", "settings", {"propagationPolicy": "Sideways"})


@pytest.mark.parametrize(
    ("field", "label", "cause"),
    [("uid", "UID", "deleted and then recreated"), ("resourceVersion", "ResourceVersion", "modified")],
)
def test_preconditions_protect_against_deleting_another_object(field, label, cause):
    store = make_store()
    made = store.create(CONFIG_MAPS, "default", config_map())
    with pytest.raises(StoreError) as caught:
        store.delete(CONFIG_MAPS, "default", "settings", {"preconditions": {field: "12345"}})
    assert (caught.value.status_code, caught.value.reason) == (409, "Conflict")
    assert caught.value.message == (
        f'Operation cannot be fulfilled on ConfigMap "settings": the {label} in the precondition (12345) does not '
        f"match the {label} in record ({made['metadata'][field]}). The object might have been {cause}"
    )
    store.delete(CONFIG_MAPS, "default", "settings", {"preconditions": {field: made["metadata"][field]}})
    assert store.find(CONFIG_MAPS, "default", "settings") is None


def test_a_namespace_waits_until_it_is_finalized():
    store = make_store()
    store.create(NAMESPACES, "", {"metadata": {"name": "team"}})
    going = store.delete(NAMESPACES, "", "team")
    assert going["status"]["phase"] == "Terminating"
    store.update(NAMESPACES, "", "team", {**going, "spec": {"finalizers": []}}, "finalize")
    assert store.find(NAMESPACES, "", "team") is None


def test_some_namespaces_stay():
    with pytest.raises(StoreError, match='namespaces "default" is forbidden: this namespace may not be deleted'):
        make_store().delete(NAMESPACES, "", "default")


@pytest.mark.parametrize("name", ["system-node-critical", "system-cluster-critical"])
def test_the_systems_priority_classes_stay(name):
    """pkg/registry/scheduling/priorityclass/storage."""
    store = make_store()
    with pytest.raises(StoreError, match="this is a system priority class and cannot be deleted"):
        store.delete(PRIORITY_CLASSES, "", name)
    assert store.find(PRIORITY_CLASSES, "", name) is not None
