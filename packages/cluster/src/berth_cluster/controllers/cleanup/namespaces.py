"""The namespace controller: deletes everything in a namespace that is being deleted, then releases the namespace.

Pods go first, so that what guards them, such as network policies, outlives them (KEP-5080).

Driven by changes of namespaces, and by deletions in those that are being emptied. Upstream:
pkg/controller/namespace.
"""

from collections import Counter
from collections.abc import Iterable
from types import MappingProxyType

from berth_cluster.apimachinery.meta import Object, is_being_deleted, new_condition, with_condition
from berth_cluster.apimachinery.resource_types import NEW_EVENTS, PODS, ResourceType
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange

KIND = "Namespace"
FINALIZER = "kubernetes"
_FINE = MappingProxyType(
    {
        "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
        "NamespaceDeletionGroupVersionParsingFailure": (
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        "NamespaceDeletionContentFailure": (
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
        "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
    }
)


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
        """Delete all pods, and when they are gone all other contents; when none are left, finalize the namespace."""
        if not is_being_deleted(obj):
            return
        contents = [resource for resource in self.client.store.custom.all_types() if _is_content(resource)]
        left = self._emptied([PODS], obj) or self._emptied(contents, obj)
        if left:
            self.client.set_status(obj, _told(obj.get("status"), left, now_s))
            return
        finalizers = [name for name in obj["spec"].get("finalizers") or [] if name != FINALIZER]
        self.client.update(KIND, {**obj, "spec": {**obj["spec"], "finalizers": finalizers}}, "finalize")

    def _emptied(self, resources: Iterable[ResourceType], namespace: Object) -> list[tuple[ResourceType, Object]]:
        """Delete what there is of some resources; what of it is left."""
        store, name = self.client.store, namespace["metadata"]["name"]
        for resource in resources:
            for obj in store.objects(resource, name):
                if not is_being_deleted(obj):
                    self.client.delete(resource.unique_kind, obj)
        return [(resource, obj) for resource in resources for obj in store.objects(resource, name)]


def _told(status: Object | None, left: Iterable[tuple[ResourceType, Object]], now_s: float) -> Object:
    """The status with the conditions that say what holds the namespace up; those about what went well say so, too."""
    resources = Counter(f"{resource.plural}.{resource.group}" for resource, _ in left)
    finalizers = Counter(name for _, obj in left for name in obj["metadata"].get("finalizers") or ())
    remaining = ", ".join(f"{name} has {number} resource instances" for name, number in sorted(resources.items()))
    held = ", ".join(f"{name} in {number} resource instances" for name, number in sorted(finalizers.items()))
    failures = {"NamespaceContentRemaining": ("SomeResourcesRemain", f"Some resources are remaining: {remaining}")}
    if held:
        why = f"Some content in the namespace has finalizers remaining: {held}"
        failures["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", why)
    for name, is_fine in _FINE.items():
        said = new_condition(name, name in failures, *failures.get(name, is_fine), now_s)
        status = with_condition(status, said)
    return status or {}


def _is_content(resource: ResourceType) -> bool:
    return resource.namespaced and resource is not NEW_EVENTS and "delete" in resource.verbs
