"""Objects of custom resources are collected as all others, and are never taken for a built-in kind of the same name."""

import pytest

from berth_cluster.apimachinery.resource_types import DEFINITIONS
from packages.cluster.tests.controllers.world import World

ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.fixture
def world():
    return World(nodes=1)


def define(world, kind, plural):
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": ANY}}
    spec = {"group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind}}
    body = {"metadata": {"name": f"{plural}.example.com"}, "spec": {**spec, "versions": [version]}}
    world.store.create(DEFINITIONS, "", body)
    return next(each for each in world.store.custom.stored() if each.plural == plural)


def owned_by(owner, **metadata):
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        **{key: owner["metadata"][key] for key in ("name", "uid")},
    }
    return {"metadata": {"ownerReferences": [reference], **metadata}}


def test_what_depends_on_a_custom_object_goes_with_it_and_the_other_way_round(world):
    kind = define(world, "Widget", "widgets")
    owner = world.store.create(kind, "default", {"metadata": {"name": "a"}})
    config = {**owned_by(owner, name="c", namespace="default"), "kind": "ConfigMap"}
    config = world.create(config)
    world.store.create(kind, "default", owned_by(config, name="b"))
    world.run()
    assert world.get("ConfigMap", "c")
    world.store.delete(kind, "default", "a")
    world.run()
    assert world.store.objects(kind) == []


def test_a_namespace_takes_its_custom_objects_along(world):
    kind = define(world, "Widget", "widgets")
    world.create({"kind": "Namespace", "metadata": {"name": "own"}})
    world.store.create(kind, "own", {"metadata": {"name": "a", "finalizers": ["example.com/wait"]}})
    world.delete("Namespace", "own", "")
    world.run()
    [left] = world.store.objects(kind)
    assert left["metadata"]["deletionTimestamp"]
    world.store.patch(kind, "own", "a", {"metadata": {"finalizers": None}}, "application/merge-patch+json")
    world.run()
    assert world.get("Namespace", "own", "") is None


def test_a_job_of_another_group_is_no_job(world):
    kind = define(world, "Job", "jobs")
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    world.store.create(kind, "default", {"metadata": {"name": "j"}, "spec": {"template": template}})
    world.run()
    assert world.pods() == []
