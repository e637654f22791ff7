"""The namespace controller: deletes everything in a namespace that is being deleted, then releases the namespace.

Driven by changes of namespaces, and by deletions in those that are being emptied. Upstream:
pkg/controller/namespace.
"""

from berth_cluster.apimachinery.meta import Object, format_time, is_being_deleted, set_condition
from berth_cluster.apimachinery.resource_types import NEW_EVENTS, ResourceType
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.storage.custom_kinds import all_types

COMPONENT = "namespace-controller"
KIND = "Namespace"
FINALIZER = "kubernetes"


class NamespaceController(KeyedController):
    """Deletes what is in namespaces that are being deleted."""

    __slots__ = ("_client", "_terminating")

    name = COMPONENT

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self._terminating: set[str] = set()

    def handle(self, change: ObjectChange) -> None:
        """Look at namespaces that are being deleted, and again whenever an object in them is gone."""
        if change.kind == KIND:
            name = change.obj["metadata"]["name"]
            if change.type == "DELETED":
                self._terminating.discard(name)
            elif is_being_deleted(change.obj):
                self._terminating.add(name)
                self.queue.add(name)
        elif change.type == "DELETED" and self._terminating:
            namespace = change.obj["metadata"].get("namespace")
            if namespace in self._terminating:
                self.queue.add(namespace)

    def sync(self, key: str, now_s: float) -> None:
        """Delete all contents; when none are left, finalize the namespace."""
        namespace = self._client.index.get(KIND, key)
        if namespace is None or not is_being_deleted(namespace):
            return
        contents = [resource for resource in all_types(self._client.store) if _is_content(resource)]
        left = [resource for resource in contents if self._empty(resource, key)]
        if left:
            self._tell(namespace, left, now_s)
            return
        finalizers = [name for name in namespace["spec"].get("finalizers") or [] if name != FINALIZER]
        self._client.finalize({**namespace, "spec": {**namespace["spec"], "finalizers": finalizers}})

    def _empty(self, resource: ResourceType, namespace: str) -> bool:
        """Delete what there is of a resource; True while something of it is left."""
        store = self._client.store
        for obj in store.objects(resource, namespace):
            if not is_being_deleted(obj):
                self._client.delete(resource.unique_kind, obj)
        return bool(store.objects(resource, namespace))

    def _tell(self, namespace: Object, left: list[ResourceType], now_s: float) -> None:
        """Write into the namespace's status what it still waits for."""
        names = ", ".join(resource.plural for resource in left)
        condition = {
            "type": "NamespaceContentRemaining",
            "status": "True",
            "lastTransitionTime": format_time(now_s),
            "reason": "SomeResourcesRemain",
            "message": f"Some resources are remaining: {names}",
        }
        status = namespace.get("status") or {}
        conditions = set_condition(status.get("conditions") or [], condition)
        if conditions != status.get("conditions"):
            self._client.update_status(KIND, {**namespace, "status": {**status, "conditions": conditions}})


def _is_content(resource: ResourceType) -> bool:
    return resource.namespaced and resource is not NEW_EVENTS and "delete" in resource.verbs
