"""Changes of manifests that an API server does not take, since the fields cannot change once an object is there.

Source: validation of updates in Kubernetes v1.36 (`ValidateDeploymentUpdate` and the like), as far as decisions depend
on the fields.
"""

from collections.abc import Mapping
from typing import Any, Final

from berth_workbench.snapshot.documents import Document

IMMUTABLE: Final = "field is immutable"
_OF_STATEFUL_SETS: Final = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip
"""What of a StatefulSet can change."""
_FIXED: Final[Mapping[str, tuple[str, ...]]] = {
    "Deployment": ("selector",),
    "ReplicaSet": ("selector",),
    "DaemonSet": ("selector",),
    "Job": ("template", "selector", "completionMode"),
}
_OF_PODS: Final = ("image", "activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations")


def why_unchangeable(before: Document, after: Document) -> str:
    """Say why an API server refuses to make one manifest the other, of the same object; empty where it does not."""
    kind = after.kind
    was, now = (_mapping(each.manifest.get("spec")) for each in (before, after))
    for field in _FIXED.get(kind, ()):
        if was.get(field) != now.get(field) and not (kind == "Job" and was.get("suspend") and field == "template"):
            return f"spec.{field}: {IMMUTABLE}"
    if kind == "StatefulSet" and _without(was, _OF_STATEFUL_SETS) != _without(now, _OF_STATEFUL_SETS):
        fields = ", ".join(f"'{each}'" for each in _OF_STATEFUL_SETS[:-1])
        forbidden = f"updates to statefulset spec for fields other than {fields} and '{_OF_STATEFUL_SETS[-1]}'"
        return f"spec: Forbidden: {forbidden} are forbidden"
    if kind == "Pod" and _of_pod(was) != _of_pod(now):
        return "spec: Forbidden: pod updates may not change fields other than images, deadline and tolerations"
    if kind == "PriorityClass" and before.manifest.get("value") != after.manifest.get("value"):
        return "value: Forbidden: may not be changed in an update."
    return ""


def _of_pod(spec: Mapping[str, Any]) -> dict[str, Any]:
    found = _without(spec, _OF_PODS)
    for field in ("containers", "initContainers"):
        found[field] = [_without(_mapping(each), _OF_PODS) for each in spec.get(field) or ()]
    return found


def _without(spec: Mapping[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    return {name: each for name, each in spec.items() if name not in fields}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
