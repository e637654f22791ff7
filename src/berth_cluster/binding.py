"""The `binding` subresource of pods: where a scheduler's decision becomes a fact.

Every call is recorded, accepted or not, in `Store.bindings`: tests and people can prove by it that each pod was
bound once.
"""

from typing import TYPE_CHECKING, Any

import msgspec

from berth_cluster import metadata
from berth_cluster.errors import FieldErrors, StoreError, conflict
from berth_cluster.resource_types import PODS
from berth_cluster.watch import Object

if TYPE_CHECKING:
    from berth_cluster.store import Store


class BindingRecord(msgspec.Struct, frozen=True, rename="camel"):
    """One call of the binding subresource."""

    pod_uid: str
    namespace: str
    name: str
    node: str
    accepted: bool
    reason: str  # why it was refused; empty when it was not
    resource_version: int  # of the pod after the binding, or of the store when it was refused
    time: str


def bind(store: "Store", namespace: str, name: str, body: Object, *, dry_run: bool = False) -> None:
    """Assign a pod to the node that a Binding names, unless that contradicts what the pod already is."""
    node = _target(body, name)
    uid = _uid(store, namespace, name)
    try:
        revision = _assign(store, namespace, name, node, body, dry_run=dry_run)
    except StoreError as error:
        _record(store, BindingRecord(uid, namespace, name, node, False, error.message, store.revision, _now(store)))
        raise
    if not dry_run:
        _record(store, BindingRecord(uid, namespace, name, node, True, "", revision, _now(store)))


def _target(body: Object, name: str) -> str:
    """The node's name; a Binding can name nothing but a node."""
    target: Any = body.get("target")
    target = target if isinstance(target, dict) else {}
    errors = FieldErrors()
    if target.get("kind") not in (None, "", "Node"):
        errors.unsupported("target.kind", str(target["kind"]), ("Node", "<empty>"))
    if not target.get("name"):
        errors.required("target.name")
    errors.raise_for("Binding", "", name)
    return str(target["name"])


def _assign(store: "Store", namespace: str, name: str, node: str, body: Object, *, dry_run: bool) -> int:
    entry = store.entry(PODS, namespace, name)
    old = entry.obj
    meta = body.get("metadata") or {}
    metadata.check_preconditions(
        PODS, old["metadata"], {"uid": meta.get("uid"), "resourceVersion": meta.get("resourceVersion")}
    )
    why = _refusal(old, name)
    if why:
        raise conflict("pods/binding", "", name, why)
    new = _bound(old, node, meta, metadata.timestamp(store.clock()))
    store.commit(PODS, "MODIFIED", new, entry, dry_run=dry_run)
    return store.revision


def _refusal(pod: Object, name: str) -> str:
    spec = pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _bound(old: Object, node: str, binding_meta: Object, now: str) -> Object:
    """The pod on its node: condition PodScheduled true, nomination gone, the Binding's annotations added."""
    meta = dict(old["metadata"])
    for key in ("annotations", "labels"):
        if binding_meta.get(key):
            meta[key] = {**(meta.get(key) or {}), **binding_meta[key]}
    status = dict(old.get("status") or {})
    status.pop("nominatedNodeName", None)
    condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    others = [known for known in status.get("conditions") or [] if known.get("type") != "PodScheduled"]
    status["conditions"] = [condition, *others]
    return {**old, "metadata": meta, "spec": {**old["spec"], "nodeName": node}, "status": status}


def _uid(store: "Store", namespace: str, name: str) -> str:
    pod = store.find(PODS, namespace, name)
    return "" if pod is None else str(pod["metadata"]["uid"])


def _record(store: "Store", record: BindingRecord) -> None:
    store.bindings.append(record)


def _now(store: "Store") -> str:
    return metadata.timestamp(store.clock())
