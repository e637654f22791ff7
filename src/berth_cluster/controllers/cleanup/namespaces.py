"""The namespace controller: deletes everything in a namespace that is being deleted, then releases the namespace.

Driven by changes of namespaces, and by deletions in those that are being emptied. Upstream:
pkg/controller/namespace.
"""

from berth_cluster.apimachinery.meta import Object, is_being_deleted, new_condition, with_condition
from berth_cluster.apimachinery.resource_types import NEW_EVENTS, ResourceType
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.storage.custom_kinds import all_types

KIND = "Namespace"
FINALIZER = "kubernetes"


class NamespaceController(KeyedController):
    """Deletes what is in namespaces that are being deleted."""

    __slots__ = ("_terminating",)

    name = "namespace-controller"

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._terminating: set[str] = set()

    def handle(self, change: ObjectChange) -> None:
        """Look at namespaces that are being deleted, and again whenever an object in them is gone."""
        if change.kind == KIND:
            name = change.obj["metadata"]["name"]
            if change.type == "DELETED":
                self._terminating.discard(name)
            elif is_being_deleted(change.obj):
                self._terminating.add(name)
                self.look_at(change.obj)
        elif change.type == "DELETED" and self._terminating:
            namespace = change.obj["metadata"].get("namespace")
            if namespace in self._terminating:
                self.look_up(KIND, namespace)

    def sync(self, obj: Object, now_s: float) -> None:
        """Delete all contents; when none are left, finalize the namespace."""
        if not is_being_deleted(obj):
            return
        contents = [resource for resource in all_types(self.client.store) if _is_content(resource)]
        left = [resource.plural for resource in contents if self._empty(resource, obj["metadata"]["name"])]
        if left:
            message = f"Some resources are remaining: {', '.join(left)}"
            said = new_condition("NamespaceContentRemaining", True, "SomeResourcesRemain", message, now_s)
            self.client.set_status(obj, with_condition(obj.get("status"), said))
            return
        finalizers = [name for name in obj["spec"].get("finalizers") or [] if name != FINALIZER]
        self.client.update(KIND, {**obj, "spec": {**obj["spec"], "finalizers": finalizers}}, "finalize")

    def _empty(self, resource: ResourceType, namespace: str) -> bool:
        """Delete what there is of a resource; True while something of it is left."""
        store = self.client.store
        for obj in store.objects(resource, namespace):
            if not is_being_deleted(obj):
                self.client.delete(resource.unique_kind, obj)
        return bool(store.objects(resource, namespace))


def _is_content(resource: ResourceType) -> bool:
    return resource.namespaced and resource is not NEW_EVENTS and "delete" in resource.verbs
