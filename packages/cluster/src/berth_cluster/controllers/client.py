"""The store as controllers use it: objects are named by kind, and there is one method for each verb.

Controllers hand in whole objects (copies of what the index holds, with fields replaced) and get the stored ones back.
Refusals are the store's own `StoreError`. Shared by all controllers and by the hollow kubelet.
"""

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.meta import Object, uid_of
from berth_cluster.apimachinery.resource_types import ResourceType, resource_of
from berth_cluster.controllers.events import StoreEventRecorder
from berth_cluster.controllers.index import ObjectIndex
from berth_cluster.storage.store import Store


class Client:
    """What a controller works with: the store, the index that follows it, and the event recorder."""

    __slots__ = ("events", "index", "store")

    def __init__(self, store: Store, index: ObjectIndex) -> None:
        self.store = store
        self.index = index
        self.events = StoreEventRecorder(store)

    def create(self, kind: str, obj: Object) -> Object:
        """Create an object in the namespace its metadata names."""
        return self.store.create(self._resource(kind), _namespace(obj), obj)

    def update(self, kind: str, obj: Object, part: str = "") -> Object:
        """Write an object, or one part of it, back; refused when somebody changed it since it was read."""
        return self.store.update(self._resource(kind), _namespace(obj), _name(obj), obj, part)

    def set_status(self, obj: Object, status: Object) -> Object:
        """Write an object's status if it is another one than before; returns the object as it is then."""
        if status == obj.get("status"):
            return obj
        return self.update(obj["kind"], {**obj, "status": status}, "status")

    def delete(self, kind: str, obj: Object, *, grace_s: int | None = None, policy: str = "Background") -> None:
        """Delete exactly this object (by uid); nothing happens if it is gone already."""
        options: Object = {"preconditions": {"uid": uid_of(obj)}, "propagationPolicy": policy}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        try:
            self.store.delete(self._resource(kind), _namespace(obj), _name(obj), options)
        except StoreError as error:
            if error.status_code not in (404, 409):
                raise

    def _resource(self, kind: str) -> ResourceType:
        """The resource of a kind; those of custom resources are called `Kind.group`."""
        return self.store.custom.of_kind(kind) if "." in kind else resource_of(kind)

    def pod_removed(self, pod: Object) -> None:
        """Confirm that a pod's containers have ended, so that its object may go too."""
        self.delete("Pod", pod, grace_s=0)


def _namespace(obj: Object) -> str:
    return obj["metadata"].get("namespace") or ""


def _name(obj: Object) -> str:
    return str(obj["metadata"].get("name", ""))
