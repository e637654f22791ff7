"""A pod that somebody waits for stays until they are done, in whatever way it is deleted; then it is gone at once.

Source: finalizers in the API conventions; markAsDeleting and BeforeDelete in apiserver/pkg/registry.
"""

import pytest

from packages.cluster.tests.controllers.world import World, meta, pod

KEPT = "example.com/kept"
TAINT = {"key": "gone", "effect": "NoExecute"}
WAYS = {
    "evicted": lambda world: world.store.evict("default", "web"),
    "evicted at once": lambda world: world.store.evict("default", "web", {"deleteOptions": {"gracePeriodSeconds": 0}}),
    "deleted": lambda world: world.delete("Pod", "web"),
    "deleted at once": lambda world: world.delete("Pod", "web", gracePeriodSeconds=0),
    "deleted in the foreground": lambda world: world.delete("Pod", "web", propagationPolicy="Foreground"),
    "deleted with the node": lambda world: world.delete("Node", "node-0", ""),
    "deleted with the namespace": lambda world: world.delete("Namespace", "team", ""),
    "deleted with its owner": lambda world: world.delete("ConfigMap", "owner"),
    "tainted": lambda world: world.patch("Node", "node-0", {"spec": {"taints": [TAINT]}}, ""),
}


ON_A_NODE = ("deleted with the node", "tainted")


@pytest.mark.parametrize(("way", "bound"), [(way, bound) for way in WAYS for bound in {True, way in ON_A_NODE}])
def test_a_pod_with_a_finalizer_stays_until_it_goes(way, bound):
    world = World(nodes=1, binds=bound)
    world.create({"kind": "Namespace", "metadata": {"name": "team"}})
    namespace = "team" if way == "deleted with the namespace" else "default"
    owner = world.create({"kind": "ConfigMap", "metadata": meta("owner")})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    owners = [reference] if way == "deleted with its owner" else []
    made = pod("web")
    made["metadata"] |= {"finalizers": [KEPT], "ownerReferences": owners, "namespace": namespace}
    world.create(made)
    world.run(5)
    WAYS[way](world)
    world.run(600)
    waiting = world.get("Pod", "web", namespace)
    assert waiting["metadata"]["deletionTimestamp"] and waiting["metadata"]["finalizers"] == [KEPT]
    assert waiting["status"]["phase"] == ("Failed" if bound else "Pending")
    world.patch("Pod", "web", {"metadata": {"finalizers": None}}, namespace)
    assert world.get("Pod", "web", namespace) is None


def test_pods_go_before_everything_else_in_their_namespace():
    # KEP-5080, and the sentences of pkg/controller/namespace/deletion.
    world = World()
    world.create({"kind": "Namespace", "metadata": {"name": "team"}})
    held = pod("web")
    held["metadata"] |= {"finalizers": [KEPT], "namespace": "team"}
    world.create(held)
    world.create({"kind": "ConfigMap", "metadata": {"name": "guard", "namespace": "team"}})
    world.run()
    world.delete("Namespace", "team", "")
    world.run(60)
    assert world.get("ConfigMap", "guard", "team") is not None
    found = {
        one["type"]: (one["status"], one["message"])
        for one in world.get("Namespace", "team", "")["status"]["conditions"]
    }
    assert found == {
        "NamespaceDeletionDiscoveryFailure": ("False", "All resources successfully discovered"),
        "NamespaceDeletionGroupVersionParsingFailure": ("False", "All legacy kube types successfully parsed"),
        "NamespaceDeletionContentFailure": (
            "False",
            "All content successfully deleted, may be waiting on finalization",
        ),
        "NamespaceContentRemaining": ("True", "Some resources are remaining: pods. has 1 resource instances"),
        "NamespaceFinalizersRemaining": (
            "True",
            f"Some content in the namespace has finalizers remaining: {KEPT} in 1 resource instances",
        ),
    }
    world.patch("Pod", "web", {"metadata": {"finalizers": None}}, "team")
    world.run(60)
    assert world.get("ConfigMap", "guard", "team") is None
    assert world.get("Namespace", "team", "") is None
