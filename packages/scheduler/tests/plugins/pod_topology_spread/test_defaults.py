"""Default selectors: which Services and controllers a pod belongs to."""

import pytest

from berth.api.selectors import Requirement
from berth.core.builders import (
    make_pod,
    make_replica_set,
    make_replication_controller,
    make_service,
    make_stateful_set,
)
from berth.plugins.pod_topology_spread.defaults import DefaultSelectors
from berth.state.objects import ObjectStore


def selector_of(pod, *objects):
    store = ObjectStore()
    for obj in objects:
        store.put(type(obj).__name__, obj)
    found = DefaultSelectors(store).selector_of(pod.info())
    return None if found is None else {(r.key, r.operator, r.values) for r in found.requirements}


WEB = ("app", "In", ("web",))
POD = make_pod().labels({"app": "web", "tier": "gold"})


@pytest.mark.parametrize(
    ("pod", "objects", "expected"),
    [
        (POD, [], None),
        (POD, [make_service("s", {"app": "web"})], {WEB}),
        (POD, [make_service("s", {"app": "db"})], None),
        (POD, [make_service("s", {})], None),
        (POD, [make_service("s", {"app": "web"}, "prod")], None),
        (
            POD,
            [make_service("s", {"app": "web"}), make_service("t", {"tier": "gold"})],
            {WEB, ("tier", "In", ("gold",))},
        ),
        (POD.copy().owned_by("ReplicaSet", "rs"), [make_replica_set("rs", {"app": "web"})], {WEB}),
        (POD.copy().owned_by("StatefulSet", "ss"), [make_stateful_set("ss", {"app": "web"})], {WEB}),
        (
            POD.copy().owned_by("ReplicationController", "rc", api_version="v1"),
            [make_replication_controller("rc", {"app": "web"})],
            {WEB},
        ),
        (POD.copy().owned_by("ReplicaSet", "gone"), [make_replica_set("rs", {"app": "web"})], None),
        (POD.copy().owned_by("Job", "rs", api_version="batch/v1"), [make_replica_set("rs", {"app": "web"})], None),
        (
            POD.copy().owned_by("ReplicaSet", "rs"),
            [make_service("s", {"tier": "gold"}), make_replica_set("rs", {"app": "web"})],
            {WEB, ("tier", "In", ("gold",))},
        ),
        (
            POD.copy().owned_by("ReplicaSet", "rs"),
            [make_replica_set("rs", {"matchExpressions": [{"key": "app", "operator": "Exists"}]})],
            {("app", "Exists", ())},
        ),
    ],
)
def test_services_and_the_owning_controller_make_the_selector(pod, objects, expected):
    assert selector_of(pod, *objects) == expected


def test_services_that_come_later_are_seen():
    store = ObjectStore()
    selectors, pod = DefaultSelectors(store), POD.info()
    assert selectors.selector_of(pod) is None
    service = make_service("s", {"app": "web"})
    store.put("Service", service)
    assert selectors.selector_of(pod).requirements == (Requirement("app", "In", ("web",)),)
    store.remove("Service", service)
    assert selectors.selector_of(pod) is None


def test_a_selector_is_kept_until_the_owner_selects_otherwise():
    store = ObjectStore()
    selectors, pod = DefaultSelectors(store), POD.copy().owned_by("ReplicaSet", "rs").info()
    store.put("ReplicaSet", make_replica_set("rs", {"app": "web"}))
    first = selectors.selector_of(pod)
    store.put("ReplicaSet", make_replica_set("rs", {"app": "web"}))  # a new status, say
    assert selectors.selector_of(pod) is first
    store.put("ReplicaSet", make_replica_set("rs", {"app": "other"}))
    assert selectors.selector_of(pod).requirements == (Requirement("app", "In", ("other",)),)
