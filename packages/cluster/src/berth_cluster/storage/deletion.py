"""Deleting: preconditions, grace periods of pods, finalizers, namespaces that empty themselves first.

An object goes at once if nothing holds it. Otherwise it gets a deletionTimestamp and stays until its finalizers are
gone and, for a pod on a node, until the kubelet deletes it with a grace period of 0: only the kubelet knows that the
containers have ended, and until then a pod of the same name must not be started elsewhere. Pure functions; the store
writes.
"""

from datetime import datetime, timedelta
from typing import Any

from berth_cluster.apimachinery.errors import bad_request, forbidden
from berth_cluster.apimachinery.meta import FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Object, timestamp
from berth_cluster.apimachinery.resource_types import DEFINITIONS, NAMESPACES, PODS, PRIORITY_CLASSES, ResourceType
from berth_cluster.storage import metadata

DEFAULT_GRACE_S = 30
# A longer period would only overflow the date at which the pod is to be gone.
MAX_GRACE_S = 100 * 365 * 24 * 3600
CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
# The namespaces that upstream refuses to delete, too.
IMMORTAL_NAMESPACES = ("default", "kube-system", "kube-public")
SYSTEM_PRIORITY_CLASSES = ("system-cluster-critical", "system-node-critical")
_ANOTHER = (
    "the {label} in the precondition ({wanted}) does not match the {label} in record ({found}). "
    "The object might have been {cause}"
)
_CAUSES = ("deleted and then recreated", "modified")
_POLICIES = ("Background", "Foreground", "Orphan")


def deleted(kind: ResourceType, old: Object, options: Object, now: datetime) -> tuple[Object, bool]:
    """The object after a request to delete it, and whether it is gone.

    One that is not gone yet waits for its finalizers or its grace period. It may equal `old`, when an earlier request
    asked for the same.
    """
    wanted = options.get("preconditions") or {}
    metadata.check_preconditions(kind.kind, kind.group, old["metadata"], wanted, _ANOTHER, _CAUSES)
    if kind is NAMESPACES and old["metadata"]["name"] in IMMORTAL_NAMESPACES:
        raise forbidden("namespaces", "", old["metadata"]["name"], "this namespace may not be deleted")
    if kind is PRIORITY_CLASSES and old["metadata"]["name"] in SYSTEM_PRIORITY_CLASSES:
        why = "this is a system priority class and cannot be deleted"
        raise forbidden(kind.plural, kind.group, old["metadata"]["name"], why)
    meta = dict(old["metadata"])
    new: Object = {**old, "metadata": meta}
    _set_finalizers(meta, options)
    if kind is DEFINITIONS and not meta.get("deletionTimestamp"):
        meta |= {
            "deletionTimestamp": timestamp(now),
            "finalizers": [*(meta.get("finalizers") or []), CLEANUP_FINALIZER],
        }
    grace_s = _grace_s(kind, old, options)
    is_gone = not grace_s and not meta.get("finalizers") and not _holds_contents(kind, new)
    if not is_gone or kind is PODS:  # a pod says so even when it goes at once
        _mark(kind, new, grace_s, now)
    return new, is_gone


def is_finished(kind: ResourceType, obj: Object) -> bool:
    """Whether an object that is being deleted has nothing left to wait for."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    return not meta.get("deletionGracePeriodSeconds") and not _holds_contents(kind, obj)


def _holds_contents(kind: ResourceType, obj: Object) -> bool:
    return kind is NAMESPACES and bool((obj.get("spec") or {}).get("finalizers"))


def _mark(kind: ResourceType, new: Object, grace_s: int, now: datetime) -> None:
    """Set the time by which the object is to be gone; a second deletion may bring it forward but not put it off."""
    meta = new["metadata"]
    known = meta.get("deletionGracePeriodSeconds")
    was_marked = "deletionTimestamp" in meta
    if was_marked and (known or 0) <= grace_s:
        return
    if was_marked:  # by an earlier request, from whose moment on the shorter period counts
        now = datetime.fromisoformat(meta["deletionTimestamp"]) - timedelta(seconds=known or 0)
    elif kind.has_generation:
        meta["generation"] = meta.get("generation", 0) + 1
    meta["deletionTimestamp"] = timestamp(now + timedelta(seconds=grace_s))
    meta["deletionGracePeriodSeconds"] = grace_s
    if kind is NAMESPACES:
        new["status"] = {**(new.get("status") or {}), "phase": "Terminating"}


def _set_finalizers(meta: Object, options: Object) -> None:
    """Note the propagation policy as a finalizer: Foreground and Orphan are carried out by the garbage collector.

    Background needs none, since the collector looks for objects whose owners are gone in any case. A later deletion
    with another policy replaces the finalizer of the earlier one.
    """
    policy = _policy(options)
    if policy is None:
        return
    kept = [name for name in meta.get("finalizers") or [] if name not in (FOREGROUND_FINALIZER, ORPHAN_FINALIZER)]
    if policy == "Foreground":
        kept.append(FOREGROUND_FINALIZER)
    elif policy == "Orphan":
        kept.append(ORPHAN_FINALIZER)
    if kept:
        meta["finalizers"] = kept
    else:
        meta.pop("finalizers", None)


def _policy(options: Object) -> str | None:
    policy = options.get("propagationPolicy")
    if policy is not None and policy not in _POLICIES:
        names = ", ".join(f'"{name}"' for name in (*_POLICIES, "nil"))
        raise bad_request(
            f'DeleteOptions is invalid: propagationPolicy: Unsupported value: "{policy}": supported values: {names}'
        )
    orphan = options.get("orphanDependents")
    if policy is None and orphan is not None:
        return "Orphan" if orphan else "Background"
    return policy


def _grace_s(kind: ResourceType, obj: Object, options: Object) -> int:
    """The grace period, in seconds: 0 for everything but a pod that may be running on a node."""
    if kind is not PODS:
        return 0
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    asked: Any = options.get("gracePeriodSeconds")
    if asked is None:
        asked = spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE_S)
    if not isinstance(asked, int):
        raise bad_request("DeleteOptions: gracePeriodSeconds must be a whole number of seconds")
    # A negative period stands for the shortest one that still lets the kubelet stop the pod: one second, as upstream.
    return min(asked, MAX_GRACE_S) if asked >= 0 else 1
