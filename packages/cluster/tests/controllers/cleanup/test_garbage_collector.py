"""Deleting owners: what goes with them, what stays, and in which order."""

import pytest

from packages.cluster.tests.controllers.world import World, condition, deployment, meta, pod


def config_map(name, *owners):
    references = [{"apiVersion": "v1", "kind": "ConfigMap", **named(owner)} for owner in owners]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(name, ownerReferences=references)}


def named(owner):
    return {name: owner["metadata"][name] for name in ("name", "uid")}


def up():
    world = World()
    world.create(deployment("web", 3))
    world.run()
    return world


def test_background_deletion_takes_everything_below():
    world = up()
    world.delete("Deployment", "web", propagationPolicy="Background")
    assert world.get("Deployment", "web") is None
    world.run(5)
    assert (world.all("ReplicaSet"), world.pods()) == ([], [])


def test_foreground_deletion_keeps_the_owner_until_all_are_gone():
    world = up()
    world.delete("Deployment", "web", propagationPolicy="Foreground")
    world.run()
    waiting = world.get("Deployment", "web")
    assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert all("deletionTimestamp" in one["metadata"] for one in world.pods())
    world.run(5)
    assert world.get("Deployment", "web") is None
    assert (world.all("ReplicaSet"), world.pods()) == ([], [])


def test_orphaning_leaves_the_dependents():
    world = up()
    world.delete("Deployment", "web", propagationPolicy="Orphan")
    world.run(5)
    assert world.get("Deployment", "web") is None
    (left,) = world.all("ReplicaSet")
    assert not left["metadata"].get("ownerReferences")
    assert len(world.pods()) == 3


def test_a_replacement_adopts_the_orphans():
    world = up()
    before = {one["metadata"]["uid"] for one in world.pods()}
    world.delete("Deployment", "web", propagationPolicy="Orphan")
    world.run()
    world.create(deployment("web", 3))
    world.run(5)
    assert {one["metadata"]["uid"] for one in world.pods()} == before


def test_of_several_owners_the_last_takes_the_object_along():
    world = World()
    one, two = world.create(config_map("one")), world.create(config_map("two"))
    world.create(config_map("both", one, two))
    world.delete("ConfigMap", "one")
    world.run()
    (left,) = world.get("ConfigMap", "both")["metadata"]["ownerReferences"]
    assert left["name"] == "two"
    world.delete("ConfigMap", "two")
    world.run()
    assert world.get("ConfigMap", "both") is None


@pytest.mark.parametrize("kind", ["absent", "other namespace"])
def test_an_owner_that_cannot_be_found_is_no_owner(kind):
    world = World()
    owner = {"metadata": {"name": "ghost", "uid": "no-such-uid"}}
    if kind == "other namespace":
        world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
        elsewhere = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm", "namespace": "other"}}
        owner = world.create(elsewhere)
    world.create(config_map("left", owner))
    world.run()
    assert world.get("ConfigMap", "left") is None


def test_a_namespace_goes_with_all_it_holds():
    world = World()
    world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    for one in (deployment("web", 2), pod("bare"), config_map("settings")):
        one["metadata"]["namespace"] = "team"
        world.create(one)
    world.create(pod("elsewhere"))
    world.run()
    world.delete("Namespace", "team", namespace="")
    world.run()
    waiting = world.get("Namespace", "team", "")
    assert waiting["status"]["phase"] == "Terminating"
    assert condition(waiting, "NamespaceContentRemaining")[2].endswith("pods. has 3 resource instances")
    world.run(5)
    assert world.get("Namespace", "team", "") is None
    assert [one["metadata"]["name"] for one in world.pods()] == ["elsewhere"]
    assert world.all("Deployment") == world.all("ConfigMap", "team") == []


def test_what_another_owner_keeps_is_released_and_not_deleted():
    """Upstream's spec "should not delete dependents that have both valid owner and owner that's waiting …"."""
    world = World()
    first, second = world.create(config_map("first")), world.create(config_map("second"))
    for name, owners in (("shared", (first, second)), ("own", (first,))):
        world.create(config_map(name, *owners))
    world.run()
    world.delete("ConfigMap", "first", propagationPolicy="Foreground")
    world.run()
    assert world.get("ConfigMap", "first") is world.get("ConfigMap", "own") is None
    (left,) = world.get("ConfigMap", "shared")["metadata"]["ownerReferences"]
    assert left["name"] == "second"


def test_a_circle_of_owners_goes_with_any_of_them():
    # As upstream: what would wait for one that waits for it no longer blocks its owner (attemptToDeleteItem).
    world = World()
    maps = [world.create(config_map(name)) for name in "abc"]
    for number, one in enumerate(maps):
        (reference,) = config_map("", maps[number - 1])["metadata"]["ownerReferences"]
        references = [reference | {"controller": True, "blockOwnerDeletion": True}]
        world.patch("ConfigMap", one["metadata"]["name"], {"metadata": {"ownerReferences": references}})
    world.delete("ConfigMap", "b", propagationPolicy="Foreground")
    world.run(5)
    assert world.all("ConfigMap", "default") == []
