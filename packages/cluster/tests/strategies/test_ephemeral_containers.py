"""Ephemeral containers: they come through their subresource alone, and stay (pkg/apis/core/validation, v1.36)."""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.patches import JSON_PATCH, STRATEGIC_MERGE_PATCH
from packages.cluster.tests.controllers.world import World
from packages.cluster.tests.controllers.world import pod as made_pod
from packages.cluster.tests.objects import PODS, make_store, pod


@pytest.fixture
def store():
    store = make_store()
    store.create(PODS, "default", pod())
    return store


def debugger(name="debugger", **fields):
    return {"name": name, "image": "busybox", **fields}


def added(store, *containers):
    patch = {"spec": {"ephemeralContainers": list(containers)}}
    return store.patch(PODS, "default", "web", patch, STRATEGIC_MERGE_PATCH, "ephemeralcontainers")


def test_one_is_added_with_its_defaults_and_nothing_else_changes(store):
    before = store.get(PODS, "default", "web")
    patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"hostname": "h", "ephemeralContainers": [debugger()]}}
    after = store.patch(PODS, "default", "web", patch, STRATEGIC_MERGE_PATCH, "ephemeralcontainers")
    rest = {name: value for name, value in after["spec"].items() if name != "ephemeralContainers"}
    (container,) = after["spec"]["ephemeralContainers"]
    assert container == {
        **debugger(), "imagePullPolicy": "Always", "resources": {}, "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }  # fmt: skip
    assert rest == before["spec"] and after["metadata"].get("labels") == before["metadata"].get("labels")
    added(store, debugger("second", targetContainerName=before["spec"]["containers"][0]["name"]))
    names = [one["name"] for one in store.get(PODS, "default", "web")["spec"]["ephemeralContainers"]]
    assert sorted(names) == ["debugger", "second"]


@pytest.mark.parametrize(
    ("container", "why"),
    [
        (debugger(""), "spec.ephemeralContainers[0].name: Required value"),
        (debugger(image=""), "spec.ephemeralContainers[0].image: Required value"),
        (
            debugger(targetContainerName="nobody"),
            'spec.ephemeralContainers[0].targetContainerName: Not found: "nobody"',
        ),
        (debugger(ports=[{"containerPort": 1}]), "ports: Forbidden: cannot be set for an Eph"),
        (
            debugger(resources={"limits": {"cpu": "1"}}),
            "resources: Forbidden: cannot be set for an Eph",
        ),
    ],
)
def test_what_is_refused(store, container, why):
    with pytest.raises(StoreError, match="is invalid") as refused:
        added(store, container)
    assert refused.value.status_code == 422 and why in refused.value.message


def test_those_that_are_there_stay(store):
    added(store, debugger())
    with pytest.raises(StoreError, match='existing ephemeral containers "debugger" may not be changed'):
        added(store, debugger(image="other"))
    gone = [{"op": "remove", "path": "/spec/ephemeralContainers"}]
    with pytest.raises(StoreError, match='existing ephemeral containers "debugger" may not be removed'):
        store.patch(PODS, "default", "web", gone, JSON_PATCH, "ephemeralcontainers")


def test_they_come_by_no_other_way(store):
    new = pod("other")
    new["spec"]["ephemeralContainers"] = [debugger()]
    with pytest.raises(StoreError, match=r"spec\.ephemeralContainers: Forbidden: cannot be set on create"):
        store.create(PODS, "default", new)
    with pytest.raises(StoreError, match="pod updates may not change fields other than"):
        store.patch(PODS, "default", "web", {"spec": {"ephemeralContainers": [debugger()]}}, STRATEGIC_MERGE_PATCH)


def test_a_hollow_node_says_that_they_run():
    world = World(nodes=1)
    world.create(made_pod("web"))
    world.run()
    added(world.store, debugger())
    world.run()
    (status,) = world.status("Pod", "web")["ephemeralContainerStatuses"]
    assert status["name"] == "debugger" and "running" in status["state"]
    world.delete("Pod", "web")
    world.run(5)
    assert world.get("Pod", "web") is None
