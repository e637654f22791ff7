"""What the API server fills in when an object is created, as far as decisions depend on it.

Manifests come without it, objects of a cluster have it already and are left as they are. Sources: the admission
plugins Priority and DefaultTolerationSeconds, and the defaults of `core/v1` (a request that is not given is the limit).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from berth.api.codec import KINDS, ObjectError, decode
from berth.api.meta import Struct
from berth.api.node import PriorityClass
from berth.api.pod import Pod
from berth.api.resources import RESOURCES
from berth.api.user_error import UserError

Json = dict[str, Any]

_TOLERATED_S = 300
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


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


def completed_pod_spec(spec: Mapping[str, Any]) -> Json:
    """Return a pod's spec with requests where only limits are given, and the tolerations that every pod gets."""
    found: Json = dict(spec)
    for part in ("containers", "initContainers"):
        if isinstance(spec.get(part), list):
            found[part] = [_completed_container(each) for each in spec[part]]
    tolerations = spec.get("tolerations")
    if tolerations is None or isinstance(tolerations, list):
        found["tolerations"] = [*(tolerations or ()), *_missing_tolerations(tolerations or ())]
    return found


def _completed_container(container: Any) -> Any:
    resources = container.get("resources") if isinstance(container, Mapping) else None
    limits = resources.get("limits") if isinstance(resources, Mapping) else None
    if not isinstance(limits, Mapping):
        return container
    assert isinstance(resources, Mapping)
    return {**container, "resources": {**resources, "requests": {**limits, **(resources.get("requests") or {})}}}


def _missing_tolerations(tolerations: Any) -> list[Json]:
    keys = {each.get("key") for each in tolerations if isinstance(each, Mapping)}
    tolerates_all = any(
        isinstance(each, Mapping) and not each.get("key") and each.get("operator") == "Exists" for each in tolerations
    )
    return [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATED_S}
        for key in _TOLERATED
        if key not in keys and not tolerates_all
    ]


BUILT_IN_PRIORITIES: Mapping[str, int] = MappingProxyType(
    {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
)
"""The classes that every cluster has."""


class UnknownPriorityClassError(UserError, ValueError):
    """A pod names a class that the cluster does not have."""


def with_priority(pod: Pod, classes: Mapping[str, PriorityClass]) -> Pod:
    """Return a pod with the priority of its class, or of the cluster's default class, where it has none.

    Raises `UnknownPriorityClassError` for a class that the cluster does not have, as the API server refuses such a pod.
    """
    if pod.spec.priority is not None:
        return pod
    name = pod.spec.priority_class_name
    if name in BUILT_IN_PRIORITIES and name not in classes:
        return _prioritised(pod, BUILT_IN_PRIORITIES[name], None)
    if name and name not in classes:
        raise UnknownPriorityClassError(f"pod {pod.key}: no PriorityClass with name {name} was found")
    defaults = (each for each in classes.values() if each.global_default)
    found = classes.get(name) or min(defaults, key=lambda each: each.value, default=None)
    return _prioritised(pod, 0, None) if found is None else _prioritised(pod, found.value, found.preemption_policy)


def _prioritised(pod: Pod, priority: int, policy: str | None) -> Pod:
    replaced = msgspec.structs.replace(
        pod.spec, priority=priority, preemption_policy=pod.spec.preemption_policy or policy or None
    )
    return msgspec.structs.replace(pod, spec=replaced)
