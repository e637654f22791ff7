"""The `binding` subresource of pods: where a scheduler's decision becomes a fact.

Pure functions from a pod and a Binding to the bound pod; the store writes it. The store also keeps a `BindingRecord` of
every call, accepted or not (`Store.bindings`), by which tests and people can prove that each pod was bound once.
"""

from typing import Any

import msgspec

from berth_cluster.apimachinery.errors import FieldErrors, StoreError, conflict
from berth_cluster.apimachinery.meta import Object
from berth_cluster.storage import metadata


class BindingRecord(msgspec.Struct, frozen=True, rename="camel"):
    """One call of the binding subresource."""

    pod_uid: str  # the one that the Binding names; the pod's own where it names none
    namespace: str
    name: str
    node: str
    accepted: bool
    reason: str  # why it was refused; empty when it was not
    resource_version: int  # of the pod after the binding, or of the store when it was refused
    time: str


def target_node(body: Object) -> str:
    """The name of the node that a Binding (`body`) names; refused if it names anything but a node."""
    target: Any = body.get("target")
    target = target if isinstance(target, dict) else {}
    errors = FieldErrors()
    if target.get("kind") not in (None, "", "Node"):
        errors.unsupported("target.kind", str(target["kind"]), ("Node", "<empty>"))
    if not target.get("name"):
        errors.required("target.name")
    if errors:  # which upstream does not turn into a refusal of its own
        raise StoreError(500, "", errors.summary())
    return str(target["name"])


def bound(pod: Object, node: str, body: Object, now: str) -> Object:
    """The pod after a Binding (`body`) to `node`; a conflict where that contradicts what the pod already is."""
    name = pod["metadata"]["name"]
    meta = body.get("metadata") or {}
    metadata.check_preconditions("pods", "", pod["metadata"], meta)
    why = _refusal(pod, name)
    if why:
        raise conflict("pods/binding", "", name, why)
    return _bound(pod, node, meta, now)


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
    """The bound pod: PodScheduled true, nomination cleared, with the Binding's labels and annotations."""
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
