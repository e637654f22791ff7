"""What the API server fills in when an object is created, as far as decisions depend on it.

Manifests come without it, objects of a cluster have it already and are left as they are. Sources: the admission
plugins Priority and DefaultTolerationSeconds, and the defaults of `core/v1` (a request that is not given is the limit).
"""

from collections.abc import Mapping
from shlex import quote
from typing import Any

import msgspec

from berth.api.codec import KINDS, ObjectError, decode
from berth.api.meta import Struct
from berth.api.near_names import nearest
from berth.api.node import PriorityClass
from berth.api.pod import Pod
from berth.api.pod_defaults import BUILT_IN_PRIORITIES, completed_pod_spec
from berth.api.resources import RESOURCES
from berth.api.user_error import UserError

Json = dict[str, Any]


def admitted(manifest: Mapping[str, Any], namespace: str = "default") -> Struct:
    """Return a manifest of a kind that the scheduler reads as it would be stored, but for a pod's priority.

    Raises `ObjectError`, also for a kind that decisions do not depend on.
    """
    kind = str(manifest.get("kind") or "")
    if kind not in KINDS:
        raise ObjectError(kind or "object", "", f"decisions do not depend on objects of kind {kind!r}")
    found: Struct = decode(kind, completed(kind, manifest, namespace))
    return found


def completed(kind: str, manifest: Mapping[str, Any], namespace: str = "default") -> Json:
    """Return a manifest with namespace, uid, and what defaults say of a node or a pod."""
    given = manifest.get("metadata")
    metadata = dict(given) if isinstance(given, Mapping) else {}
    if RESOURCES[kind].namespaced:
        metadata.setdefault("namespace", namespace)
    key = "/".join(str(metadata[part]) for part in ("namespace", "name") if metadata.get(part))
    if not metadata.get("uid"):
        metadata["uid"] = f"{kind}/{key}"  # the cache needs one
    found: Json = {**manifest, "metadata": metadata}
    status = manifest.get("status")
    if kind == "Node" and isinstance(status, Mapping) and "capacity" in status and "allocatable" not in status:
        found["status"] = {**status, "allocatable": status["capacity"]}
    if kind == "Pod" and isinstance(manifest.get("spec"), Mapping):
        found["spec"] = completed_pod_spec(manifest["spec"])
    return found


class UnknownPriorityClassError(UserError, ValueError):
    """A pod names a class that the cluster does not have."""


def with_priority(pod: Pod, classes: Mapping[str, PriorityClass], *, is_stored: bool = False) -> Pod:
    """Return a pod with the priority of its class, or of the cluster's default class, where it has none.

    Raises `UnknownPriorityClassError` for a class that the cluster does not have, as the API server refuses such a pod.
    One that `is_stored` nobody refuses any more: without a priority it has 0, as the scheduler reads it.
    """
    if pod.spec.priority is not None:
        return pod
    name = pod.spec.priority_class_name
    if name in BUILT_IN_PRIORITIES and name not in classes:
        return _prioritised(pod, BUILT_IN_PRIORITIES[name], None)
    if name and name not in classes:
        if is_stored:
            return _prioritised(pod, 0, None)
        make = f"kubectl create priorityclass {quote(name)} --value=1000"
        hint = nearest(name, classes) or f"; {make} makes one, with the value that is wanted"
        raise UnknownPriorityClassError(f"pod {pod.key}: no PriorityClass with name {name} was found{hint}")
    defaults = (each for each in classes.values() if each.global_default)
    found = classes.get(name) or min(defaults, key=lambda each: each.value, default=None)
    return _prioritised(pod, 0, None) if found is None else _prioritised(pod, found.value, found.preemption_policy)


def _prioritised(pod: Pod, priority: int, policy: str | None) -> Pod:
    replaced = msgspec.structs.replace(
        pod.spec, priority=priority, preemption_policy=pod.spec.preemption_policy or policy or None
    )
    return msgspec.structs.replace(pod, spec=replaced)
