"""The ResourceQuota controller: counts what is used again when something goes, or when a quota changes.

What comes is charged by the store itself (`storage.quotas`). Upstream: pkg/controller/resourcequota.
"""

from functools import partial

from berth_cluster.apimachinery.meta import Object
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.pods import is_terminal
from berth_cluster.strategies.quota_usage import used_of

KIND = "ResourceQuota"


class QuotaController(KeyedController):
    """The status of ResourceQuotas."""

    __slots__ = ()

    name = "resourcequota-controller"

    def handle(self, change: ObjectChange) -> None:
        """Look at new and changed quotas, and at those of a namespace in which something is gone or has ended."""
        if change.kind == KIND and change.type != "DELETED":
            status = change.obj.get("status") or {}
            if change.old is None or status.get("hard") != (change.obj.get("spec") or {}).get("hard"):
                self.look_at(change.obj)
        elif change.type == "DELETED" or (change.kind == "Pod" and _has_ended(change)) or _may_shrink(change):
            namespace = change.obj["metadata"].get("namespace")
            for quota in self.index.in_namespace(KIND, namespace) if namespace else ():
                self.look_at(quota)

    def sync(self, obj: Object, now_s: float) -> None:
        """Count what a quota limits."""
        store = self.client.store
        objects = partial(store.objects, namespace=obj["metadata"]["namespace"])
        self.client.set_status(obj, used_of(obj, store.custom.stored(), objects))


def _has_ended(change: ObjectChange) -> bool:
    return is_terminal(change.obj) and change.old is not None and not is_terminal(change.old)


def _may_shrink(change: ObjectChange) -> bool:
    """A pod is resized or is given a deadline, or a service is of another type: an update that may free something."""
    if change.kind not in ("Pod", "Service") or change.old is None:
        return False
    before, after = change.old.get("spec") or {}, change.obj.get("spec") or {}
    fields = ("containers", "resources", "activeDeadlineSeconds") if change.kind == "Pod" else ("type", "ports")
    return any(before.get(field) != after.get(field) for field in fields)
