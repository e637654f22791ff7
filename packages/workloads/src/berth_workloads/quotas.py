"""What ResourceQuotas count, and what exceeds them.

An object is charged to the quotas of its namespace whose scopes it is in, or refused. The embedded API server does so
when an object is written, the workbench before it promises a place to a pod.
Source: pkg/quota/v1, with its evaluators of core objects, and apiserver/pkg/admission/plugin/resourcequota, v1.36.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

from berth_workloads.amounts import ONE, Amount, Amounts, amounts, listed, total
from berth_workloads.pods import Json, containers_of, objects_in, pod_total, qos_class

Kind = tuple[str, str]
"""The group and the plural of a kind."""
PODS: Kind = ("", "pods")
SERVICES: Kind = ("", "services")
CLAIMS: Kind = ("", "persistentvolumeclaims")
DEVICE_CLAIMS: Kind = ("resource.k8s.io", "resourceclaims")
NAMED = frozenset({"configmaps", "secrets", "replicationcontrollers", "resourcequotas", "services", "pods"})
"""Core kinds that quotas count by their plurals alone."""
NATIVE = ("cpu", "memory", "ephemeral-storage")
COMPUTING = ("cpu", "memory")
MUST_BE_GIVEN = frozenset({*COMPUTING, *(f"{part}.{name}" for part in ("requests", "limits") for name in COMPUTING)})
"""A quota for one of these has every container say how much of it it wants."""
ZERO = Amount(Fraction(0))
_OF_CLASS = ".storageclass.storage.k8s.io/"
_OF_DEVICES = ".deviceclass.resource.k8s.io/devices"


# --- what an object uses ---------------------------------------------------------------------------------------------


def usage_of(kind: Kind, obj: Json) -> dict[str, Amount]:
    """Return how much of each resource an object uses; each resource once, by the name that quotas have for it."""
    group, plural = kind
    found = {f"count/{plural}.{group}" if group else f"count/{plural}": ONE}
    spec: Json = obj.get("spec") or {}
    if kind == PODS:
        has_ended = (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        return found if has_ended else found | _of_pod(spec)
    if not group and plural in NAMED:
        found[plural] = ONE
    if kind == SERVICES:
        has_ports = spec.get("type") == "NodePort" or (
            spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True)
        )
        found["services.nodeports"] = Amount(Fraction(len(spec.get("ports") or ()) if has_ports else 0))
        found["services.loadbalancers"] = ONE if spec.get("type") == "LoadBalancer" else ZERO
    elif kind == CLAIMS:
        storage = amounts((spec.get("resources") or {}).get("requests")).get("storage", ZERO)
        found |= {"persistentvolumeclaims": ONE, "requests.storage": storage}
        if spec.get("storageClassName"):
            prefix = f"{spec['storageClassName']}{_OF_CLASS}"
            found |= {f"{prefix}persistentvolumeclaims": ONE, f"{prefix}requests.storage": storage}
    elif kind == DEVICE_CLAIMS:
        for request in objects_in(spec.get("devices") or {}, "requests"):
            wanted = request.get("exactly") or {}
            name = f"{wanted.get('deviceClassName')}{_OF_DEVICES}"
            found = total([found, {name: Amount(Fraction(wanted.get("count") or 1))}])
    return found


def _of_pod(spec: Json) -> dict[str, Amount]:
    found = {"pods": ONE}
    for name, each in pod_total(spec, "requests").items():
        found[f"requests.{name}"] = each
        if name in NATIVE or name.startswith("hugepages-"):
            found[name] = each
    limits = pod_total(spec, "limits")
    return found | {f"limits.{name}": each for name, each in limits.items() if name in NATIVE}


def counted_kind(resource: str) -> Kind | None:
    """Return the kind of objects that a quota for this resource counts; None for a resource of nothing known."""
    if resource.startswith("count/"):
        plural, _, group = resource.removeprefix("count/").partition(".")
        return group, plural
    if resource.startswith("services"):
        return SERVICES
    if resource in ("persistentvolumeclaims", "requests.storage") or _OF_CLASS in resource:
        return CLAIMS
    if resource.endswith(_OF_DEVICES):
        return DEVICE_CLAIMS
    if resource in NAMED:
        return "", resource
    is_computing = resource in NATIVE or resource.startswith(("requests.", "limits.", "hugepages-"))
    return PODS if is_computing else None


# --- scopes ----------------------------------------------------------------------------------------------------------


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


def counts(quota: Json, kind: Kind, obj: Json) -> bool:
    """Say whether the scopes of a quota let it count an object."""
    spec = quota.get("spec") or {}
    selected = objects_in(spec.get("scopeSelector") or {}, "matchExpressions")
    required = [
        *(ScopeRequirement(scope) for scope in spec.get("scopes") or []),
        *(
            ScopeRequirement(one.get("scopeName", ""), one.get("operator", ""), tuple(one.get("values") or ()))
            for one in selected
        ),
    ]
    if kind != PODS or not required:
        return not required
    pod = obj["spec"]
    affinity = pod.get("affinity") or {}
    terms = [term for part in ("podAffinity", "podAntiAffinity") for term in _terms(affinity.get(part) or {})]
    facts = ScopedPod(
        has_deadline=pod.get("activeDeadlineSeconds") is not None,
        is_best_effort=qos_class(pod) == "BestEffort",
        priority_class=pod.get("priorityClassName") or "",
        crosses_namespaces=any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms),
    )
    return in_scope(facts, required)


def _terms(affinity: Json) -> Iterator[Json]:
    yield from objects_in(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
    for each in objects_in(affinity, "preferredDuringSchedulingIgnoredDuringExecution"):
        yield each.get("podAffinityTerm") or {}


def counted_usage(quota: Json, kind: Kind, obj: Json) -> dict[str, Amount]:
    """Return what of its resources a quota counts as used by an object that is there."""
    if not counts(quota, kind, obj):
        return {}
    hard = (quota.get("spec") or {}).get("hard") or {}
    return {name: each for name, each in usage_of(kind, obj).items() if name in hard}


# --- charging --------------------------------------------------------------------------------------------------------


class Charge(NamedTuple):
    """What an object costs one quota from now on."""

    quota: str
    hard: Amounts
    more: Amounts
    """What of the quota's resources it takes, or takes more than before."""

    def excess(self, used: Amounts) -> str:
        """Say in which way the quota would be exceeded, of which so much is used; nothing where it would not be."""
        together = total([used, self.more])
        over = {each for each in self.more if together[each].value > self.hard[each].value}
        if not over:
            return ""
        parts = ({each: part.get(each, ZERO) for each in over} for part in (self.more, used, self.hard))
        wanted, known, limited = map(listed, parts)
        return f"exceeded quota: {self.quota}, requested: {wanted}, used: {known}, limited: {limited}"


def charge_for(quota: Json, kind: Kind, new: Json, old: Json | None = None) -> Charge | str:
    """Return what a new object, or one that changes, costs a quota; or why it is refused whatever is used.

    A pod that is given a deadline comes into other scopes, and is to the quotas of these as if it were new.
    """
    name, hard = quota["metadata"]["name"], amounts((quota.get("spec") or {}).get("hard"))
    if not counts(quota, kind, new):
        return Charge(name, hard, {})
    wanted = usage_of(kind, new)
    if old is None or not counts(quota, kind, old):
        why = _unsaid(new, name, hard) if kind == PODS else ""
        if why:
            return why
    else:
        before = usage_of(kind, old)
        wanted = {
            name: Amount(each.value - before.get(name, ZERO).value, each.is_binary) for name, each in wanted.items()
        }
    return Charge(name, hard, {each: wanted[each] for each in wanted if each in hard and wanted[each].value > 0})


def _unsaid(pod: Json, quota: str, hard: Amounts) -> str:
    """Say which containers of a pod do not say how much they want of what the quota limits."""
    lacking: dict[str, list[str]] = {}
    for name in sorted(MUST_BE_GIVEN & set(hard)):
        part, _, resource = name.rpartition(".")
        part = part or "requests"
        if resource in ((pod["spec"].get("resources") or {}).get(part) or {}):
            continue
        for container in containers_of(pod["spec"]):
            if resource not in ((container.get("resources") or {}).get(part) or {}):
                lacking.setdefault(name, []).append(str(container.get("name")))
    said = "; ".join(f"{name} for: {','.join(found)}" for name, found in lacking.items())
    return f"failed quota: {quota}: must specify {said}" if said else ""
