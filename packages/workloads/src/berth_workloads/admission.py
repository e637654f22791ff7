"""What the API server's admission makes of a new pod, and why it refuses one, in its own words.

The embedded API server asks here while it creates pods, and the workbench before it promises a pod a place. The
functions edit the JSON of the pod that they are given and return why it is refused, or nothing where it is admitted.
They stand in the order in which the API server asks its plugins; quotas are charged last (`quotas`), once everything
else is settled. Sources: pkg/kubeapiserver/options/plugins.go and plugin/pkg/admission, v1.36.
"""

from collections.abc import Iterable
from typing import Any, Protocol

from berth.api.pod_defaults import missing_tolerations
from berth_workloads.amounts import amount
from berth_workloads.limit_ranges import limit_range_refusal, set_default_amounts
from berth_workloads.pods import Json

DEFAULT_PREEMPTION_POLICY = "PreemptLowerPriority"


class AdmissionObjects(Protocol):
    """What admission looks up in a cluster."""

    def limit_ranges(self, namespace: str) -> Iterable[Json]:
        """The LimitRanges of a namespace."""
        ...

    def priority_class(self, name: str) -> Json | None:
        """A PriorityClass, or None."""
        ...

    def priority_classes(self) -> Iterable[Json]:
        """All PriorityClasses."""
        ...

    def runtime_class(self, name: str) -> Json | None:
        """A RuntimeClass, or None."""
        ...


def complete_pod(pod: Json, namespace: str, objects: AdmissionObjects) -> str:
    """Fill in what the mutating plugins do: amounts, priority, tolerations, and what a RuntimeClass demands."""
    for limit_range in objects.limit_ranges(namespace):
        set_default_amounts(pod, limit_range)
    why = set_priority(pod["spec"], objects)
    if why:
        return why
    add_default_tolerations(pod["spec"])
    return apply_runtime_class(pod["spec"], objects)


def pod_refusal(pod: Json, namespace: str, objects: AdmissionObjects) -> str:
    """Say why the validating plugins refuse a pod that is complete."""
    return limit_range_refusal("Pod", pod["spec"], objects.limit_ranges(namespace))


# --- NamespaceLifecycle ----------------------------------------------------------------------------------------------


def being_terminated(namespace: str) -> str:
    """Say why nothing new may come into a namespace that is being deleted."""
    return f"unable to create new content in namespace {namespace} because it is being terminated"


# --- Priority --------------------------------------------------------------------------------------------------------


def set_priority(spec: Json, objects: AdmissionObjects) -> str:
    """Resolve the priority class; without one the global default's priority, or 0."""
    chosen, why = resolved_class(spec, objects)
    if why:
        return why
    value = chosen.get("value", 0) if chosen else 0
    policy = (chosen or {}).get("preemptionPolicy") or DEFAULT_PREEMPTION_POLICY
    for field, computed, words in (
        ("priority", value, f"the integer value of priority ({spec.get('priority')})"),
        ("preemptionPolicy", policy, f"the string value of PreemptionPolicy ({spec.get('preemptionPolicy')})"),
    ):
        if spec.get(field) is not None and spec[field] != computed:
            return (
                f"{words} must not be provided in pod spec; priority admission controller computed {computed} "
                "from the given PriorityClass name"
            )
    spec["priority"], spec["preemptionPolicy"] = value, policy
    return ""


def resolved_class(spec: Json, objects: AdmissionObjects) -> tuple[Json | None, str]:
    """The class that a pod or a pod group names, or the global default, which it names from now on; or a refusal."""
    name = spec.get("priorityClassName")
    if name:
        chosen = objects.priority_class(name)
        return chosen, "" if chosen is not None else f"no PriorityClass with name {name} was found"
    marked = [known for known in objects.priority_classes() if known.get("globalDefault")]
    chosen = min(marked, key=lambda known: known.get("value", 0), default=None)
    if chosen is not None:
        spec["priorityClassName"] = chosen["metadata"]["name"]
    return chosen, ""


# --- DefaultTolerationSeconds ----------------------------------------------------------------------------------------


def add_default_tolerations(spec: Json) -> None:
    """Let every pod stay on a node that is not ready or unreachable for five minutes, unless it says otherwise."""
    tolerations = spec.setdefault("tolerations", [])
    if isinstance(tolerations, list):
        tolerations += missing_tolerations(tolerations)


# --- RuntimeClass ----------------------------------------------------------------------------------------------------


def apply_runtime_class(spec: Json, objects: AdmissionObjects) -> str:
    """Give the pod the overhead, the node selector and the tolerations of its RuntimeClass."""
    name = spec.get("runtimeClassName")
    if not name and not spec.get("overhead"):
        return ""
    found = objects.runtime_class(name) if name else {}
    if found is None:
        return f'pod rejected: RuntimeClass "{name}" not found'
    why = _set_overhead(spec, (found.get("overhead") or {}).get("podFixed") or {})
    if why:
        return why
    scheduling, selector = found.get("scheduling") or {}, spec.get("nodeSelector") or {}
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if selector.get(key, value) != value:
            return (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
    if scheduling.get("nodeSelector"):
        spec["nodeSelector"] = {**selector, **scheduling["nodeSelector"]}
    tolerations = spec.get("tolerations") or []
    added = [one for one in scheduling.get("tolerations") or [] if one not in tolerations]
    if added:
        spec["tolerations"] = [*tolerations, *added]
    return ""


def _set_overhead(spec: Json, overhead: dict[str, Any]) -> str:
    given = spec.get("overhead") or {}
    if given and not overhead:
        return "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    if given and _values(given) != _values(overhead):
        return "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
    if overhead:
        spec["overhead"] = dict(overhead)
    return ""


def _values(quantities: dict[str, Any]) -> dict[str, Any]:
    return {name: amount(each).value for name, each in quantities.items()}
