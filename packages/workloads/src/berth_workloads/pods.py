"""What a pod asks for all in all, and its class of service, read from its JSON.

Sources: k8s.io/component-helpers/resource, and pkg/apis/core/v1/helper/qos, v1.36.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from berth.api.quantity import QuantityError, parse
from berth_workloads.amounts import Amounts, amounts, largest, total

Json = dict[str, Any]
HUGE_PAGES = "hugepages-"
_OF_CONTAINERS = frozenset({"cpu", "memory", "ephemeral-storage"})
_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


def containers_of(spec: Json) -> Iterator[Json]:
    """All containers of a pod spec, of whatever sort."""
    for name in _CONTAINER_LISTS:
        yield from objects_in(spec, name)


def objects_in(parent: Mapping[str, Any], field: str) -> Iterator[Json]:
    """The entries of a list field that are objects; what is not is left to validation."""
    entries: Any = parent.get(field)
    if isinstance(entries, list):
        yield from (entry for entry in entries if isinstance(entry, dict))


def pod_total(spec: Json, part: str) -> Amounts:
    """What a pod requests, or what limits it, all in all; `part` says which.

    Init containers run one after the other beside the sidecars that came before them. What the pod itself says counts
    more, and its overhead comes on top: of limits, where there is one.
    """
    running = [amounts((one.get("resources") or {}).get(part)) for one in objects_in(spec, "containers")]
    sidecars: list[Amounts] = []
    peak: Amounts = {}
    for one in objects_in(spec, "initContainers"):
        own = amounts((one.get("resources") or {}).get(part))
        peak = largest(peak, total([*sidecars, own]))
        if one.get("restartPolicy") == "Always":
            sidecars.append(own)
    found = {**largest(total([*running, *sidecars]), peak), **amounts((spec.get("resources") or {}).get(part))}
    overhead = amounts(spec.get("overhead"))
    return total([found, {name: more for name, more in overhead.items() if part == "requests" or name in found}])


# --- requests and limits ---------------------------------------------------------------------------------------------


def contradiction(name: str, amount: Any, limits: Mapping[str, Any]) -> tuple[str, str]:
    """Say which of a container's `requests` and `limits` is wrong about a resource that it requests, and why.

    Both are empty where nothing is. Source: ValidateContainerResourceRequirements in pkg/apis/core/validation, v1.36.
    """
    may_exceed = name in _OF_CONTAINERS or (("/" not in name or "kubernetes.io/" in name) and HUGE_PAGES not in name)
    if name not in limits:
        return ("", "") if may_exceed else ("limits", "Limit must be set for non overcommitable resources")
    if may_exceed and parse(amount) > parse(limits[name]):
        return "requests", f"must be less than or equal to {name} limit of {limits[name]}"
    if not may_exceed and parse(amount) != parse(limits[name]):
        return "requests", f"must be equal to {name} limit of {limits[name]}"
    return "", ""


def contradictions(spec: Json) -> Iterator[str]:
    """Yield what the API server says of requests that contradict limits, also of those that admission has filled in."""
    for section in ("containers", "initContainers"):
        for number, container in enumerate(objects_in(spec, section)):
            resources = container.get("resources") or {}
            for name, amount in (resources.get("requests") or {}).items():
                part, why = contradiction(name, amount, resources.get("limits") or {})
                if part:
                    kind = "Required value" if part == "limits" else f'Invalid value: "{amount}"'
                    yield f"spec.{section}[{number}].resources.{part}: {kind}: {why}"


def qos_class(spec: Json) -> str:
    """How the kubelet ranks the pod when memory runs out."""
    if isinstance(spec.get("resources"), dict) and spec["resources"]:
        return _qos_of([spec["resources"]])
    containers = [*objects_in(spec, "containers"), *objects_in(spec, "initContainers")]
    return _qos_of([container.get("resources") or {} for container in containers])


def _qos_of(resources: list[Json]) -> str:
    wanted = False
    guaranteed = bool(resources)
    for resource in resources:
        requests, limits = _computing(resource.get("requests")), _computing(resource.get("limits"))
        wanted = wanted or bool(requests or limits)
        guaranteed = guaranteed and set(limits) == {"cpu", "memory"} and requests == limits
    if not wanted:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _computing(quantities: Any) -> dict[str, Any]:
    """The cpu and memory that are more than zero, exactly."""
    found = {}
    for name in ("cpu", "memory"):
        if isinstance(quantities, dict) and name in quantities:
            try:
                found[name] = parse(quantities[name])
            except QuantityError:
                continue  # validation names it
    return {name: value for name, value in found.items() if value > 0}
