"""Who owns which field, after kubernetes.io "Server-Side Apply": conflicts, force, sharing, and fields given up."""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.patches import MERGE_PATCH
from berth_cluster.apimachinery.schema import message_of
from berth_cluster.storage.field_managers import FieldManagers, Writer
from packages.cluster.tests.objects import CONFIG_MAPS, DEPLOYMENTS, config_map, deployment, make_store


def writer(name, api_version="v1", **how):
    return Writer(name, api_version, [], **how)


def applier(name, api_version="v1", *, force=False):
    return writer(name, api_version, is_apply=True, force=force)


def apply(store, manager, *, force=False, **data):
    return store.apply(CONFIG_MAPS, "default", "settings", config_map(**data), applier(manager, force=force))


@pytest.fixture
def store():
    store = make_store()
    store.create(CONFIG_MAPS, "default", config_map(color="red"), writer=applier("first"))
    return store


def test_another_owner_is_a_conflict(store):
    with pytest.raises(StoreError) as caught:
        apply(store, "second", color="blue", shape="round")
    assert caught.value.status_code == 409
    assert caught.value.message == 'Apply failed with 1 conflict: conflict with "first": .data.color'
    cause = {"reason": "FieldManagerConflict", "message": 'conflict with "first"', "field": ".data.color"}
    assert caught.value.details == {"causes": [cause]}
    assert store.get(CONFIG_MAPS, "default", "settings")["data"] == {"color": "red"}


def test_force_takes_the_field_over(store):
    assert apply(store, "second", force=True, color="blue")["data"] == {"color": "blue"}
    with pytest.raises(StoreError, match='conflict with "second"'):
        apply(store, "first", color="red")


def test_the_same_value_is_shared_and_stays_until_the_last_gives_it_up(store):
    apply(store, "second", color="red")
    assert apply(store, "first", size="big")["data"] == {"color": "red", "size": "big"}
    assert apply(store, "second", shape="round")["data"] == {"size": "big", "shape": "round"}


def test_what_is_no_longer_applied_goes(store):
    assert apply(store, "first", shape="round")["data"] == {"shape": "round"}


def test_an_update_takes_fields_over(store):
    changed = {"data": {"color": "green"}}
    store.patch(CONFIG_MAPS, "default", "settings", changed, MERGE_PATCH, writer=writer("editor"))
    with pytest.raises(StoreError, match=r'conflict with "editor" using v1: \.data\.color'):
        apply(store, "first", color="red")
    assert apply(store, "first", color="green")["data"] == {"color": "green"}


def test_several_conflicts_are_told_together():
    store = make_store()
    store.create(CONFIG_MAPS, "default", config_map(a="1", b="2"), writer=writer("editor"))
    with pytest.raises(StoreError) as caught:
        apply(store, "second", a="3", b="4")
    assert caught.value.message == (
        'Apply failed with 2 conflicts: conflicts with "editor" using v1:\n- .data.a\n- .data.b'
    )


def test_conflicts_with_several_are_told_by_manager():
    """Also where there is one with each: apimachinery's managedfields, NewConflictError."""
    store = make_store()
    store.create(CONFIG_MAPS, "default", config_map(a="1"), writer=writer("editor"))
    apply(store, "first", b="2")
    with pytest.raises(StoreError) as caught:
        apply(store, "second", a="3", b="4")
    assert caught.value.message == (
        'Apply failed with 2 conflicts: conflicts with "editor" using v1:\n- .data.a\n'
        'conflicts with "first":\n- .data.b'
    )


def test_entries_of_lists_are_told_apart_by_their_keys():
    store = make_store()
    store.create(DEPLOYMENTS, "default", deployment(), writer=writer("editor", "apps/v1"))

    def applied(image):
        spec = {
            "template": {"spec": {"containers": [{"name": "main", "image": image}, {"name": "more", "image": "x"}]}}
        }
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}

    with pytest.raises(StoreError) as caught:
        store.apply(DEPLOYMENTS, "default", "web", applied("other"), applier("second", "apps/v1"))
    assert caught.value.message.endswith('.spec.template.spec.containers[name="main"].image')
    made = store.apply(DEPLOYMENTS, "default", "web", applied("nginx:1.27"), applier("second", "apps/v1"))
    assert [one["name"] for one in made["spec"]["template"]["spec"]["containers"]] == ["main", "more"]


def test_owners_go_with_their_object(store):
    assert store.managers._owners
    store.delete(CONFIG_MAPS, "default", "settings")
    assert not store.managers._owners


def test_fields_inside_what_is_a_scalar_by_now_are_given_up():
    """A custom resource whose version has no types may have something else in a field that somebody owned parts of."""
    known = message_of("apps", "v1", "Deployment")
    managers = FieldManagers(lambda _obj: known)
    was = {"metadata": {"uid": "1"}, "spec": {"strategy": {"type": "Recreate"}, "replicas": 1}}
    managers.created(was, applier("first"), was)
    now = {**was, "spec": {"strategy": 5, "replicas": 1}}
    applied = {"metadata": {"uid": "1"}, "spec": {"replicas": 1}}
    assert managers.apply(now, applied, applier("first"))[0] == now
