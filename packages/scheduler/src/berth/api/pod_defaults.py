"""What the API server fills into a pod's spec when it is created, as far as decisions depend on it.

Sources: the admission plugins Priority and DefaultTolerationSeconds, and the defaults of `core/v1` (a request that is
not given is the limit). For manifests, which come without it.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

Json = dict[str, Any]

TOLERATED_S = 300
TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def completed_pod_spec(spec: Mapping[str, Any]) -> Json:
    """Return a pod's spec with requests where only limits are given, and the tolerations that every pod gets."""
    found: Json = dict(spec)
    for part in ("containers", "initContainers"):
        if isinstance(spec.get(part), list):
            found[part] = [_completed_container(each) for each in spec[part]]
    tolerations = spec.get("tolerations")
    if tolerations is None or isinstance(tolerations, list):
        found["tolerations"] = [*(tolerations or ()), *missing_tolerations(tolerations or ())]
    return found


def _completed_container(container: Any) -> Any:
    resources = container.get("resources") if isinstance(container, Mapping) else None
    limits = resources.get("limits") if isinstance(resources, Mapping) else None
    if not isinstance(limits, Mapping):
        return container
    assert isinstance(resources, Mapping)
    return {**container, "resources": {**resources, "requests": {**limits, **(resources.get("requests") or {})}}}


def missing_tolerations(tolerations: Iterable[Any]) -> list[Json]:
    """Return what lets a pod stay on a node that is not ready or unreachable for five minutes, unless it has it."""
    given = [each for each in tolerations if isinstance(each, Mapping)]
    return [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_S}
        for key in TOLERATED
        if not any(_covers(each, key) for each in given)
    ]


def _covers(toleration: Mapping[str, Any], key: str) -> bool:
    return toleration.get("key", "") in (key, "") and toleration.get("effect", "") in ("NoExecute", "")


BUILT_IN_PRIORITIES: Mapping[str, int] = MappingProxyType(
    {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
)
"""The classes that every cluster has."""
