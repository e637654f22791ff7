"""What a ResourceQuota counts: which of its scopes a pod is in, and what exceeds it.

Source: pkg/quota/v1 and apiserver/pkg/admission/plugin/resourcequota, v1.36.
"""

from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

from berth_workloads.amounts import Amount, Amounts, listed, total

COMPUTING = ("cpu", "memory")
MUST_BE_GIVEN = frozenset({*COMPUTING, *(f"{part}.{name}" for part in ("requests", "limits") for name in COMPUTING)})
"""A quota for one of these has every container say how much of it it wants."""
_ZERO = Amount(Fraction(0))


class ScopedPod(NamedTuple):
    """What the scopes of quotas read of a pod."""

    has_deadline: bool
    is_best_effort: bool
    priority_class: str
    crosses_namespaces: bool


class ScopeRequirement(NamedTuple):
    """One requirement of a quota's scopes; those in `spec.scopes` have the operator Exists."""

    scope: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


_SCOPES: Mapping[str, Callable[[ScopedPod], bool]] = MappingProxyType(
    {
        "Terminating": lambda pod: pod.has_deadline,
        "NotTerminating": lambda pod: not pod.has_deadline,
        "BestEffort": lambda pod: pod.is_best_effort,
        "NotBestEffort": lambda pod: not pod.is_best_effort,
        "CrossNamespacePodAffinity": lambda pod: pod.crosses_namespaces,
        "PriorityClass": lambda pod: bool(pod.priority_class),
    }
)


def in_scope(pod: ScopedPod, requirements: Collection[ScopeRequirement]) -> bool:
    """Say whether a quota counts a pod: all of its requirements hold."""
    return all(_holds(pod, each) for each in requirements)


def _holds(pod: ScopedPod, required: ScopeRequirement) -> bool:
    if required.operator in ("In", "NotIn"):
        return (pod.priority_class in required.values) is (required.operator == "In")
    exists = required.scope in _SCOPES and _SCOPES[required.scope](pod)
    return exists is (required.operator == "Exists")


def excess(name: str, requested: Amounts, used: Amounts, hard: Amounts) -> str | None:
    """Return in which way a request exceeds the quota of that name, or None."""
    together = total([used, requested])
    over = {each for each in requested if each in hard and together[each].value > hard[each].value}
    if not over:
        return None
    wanted, known, limited = ({each: part.get(each, _ZERO) for each in over} for part in (requested, used, hard))
    return f"exceeded quota: {name}, requested: {listed(wanted)}, used: {listed(known)}, limited: {listed(limited)}"
