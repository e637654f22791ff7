"""What objects count as in ResourceQuotas, and how much of a quota is used.

The store charges what comes (`storage.quotas`), and a controller counts again when something goes
(`controllers.quotas`). The rules are those of `berth_workloads.quotas`. Upstream: pkg/quota/v1/evaluator/core.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction

from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import BY_KEY, PODS, ResourceType
from berth_cluster.strategies.limit_ranges import pod_total
from berth_cluster.strategies.pod_admission import qos_class
from berth_cluster.strategies.pod_defaults import objects_in
from berth_workloads.amounts import ONE, Amount, Amounts, amounts, total
from berth_workloads.quotas import ScopedPod, ScopeRequirement, in_scope

SERVICES = BY_KEY["", "services"]
CLAIMS = BY_KEY["", "persistentvolumeclaims"]
DEVICE_CLAIMS = BY_KEY["resource.k8s.io", "resourceclaims"]
NAMED = frozenset({"configmaps", "secrets", "replicationcontrollers", "resourcequotas", "services", "pods"})
NATIVE = ("cpu", "memory", "ephemeral-storage")
_OF_CLASS = ".storageclass.storage.k8s.io/"
ZERO = Amount(Fraction(0))


def usage_of(kind: ResourceType, obj: Object) -> dict[str, Amount]:
    """How much of each resource an object uses; each resource once, by the name that quotas have for it."""
    found = {f"count/{kind.plural}.{kind.group}" if kind.group else f"count/{kind.plural}": ONE}
    spec: Object = obj.get("spec") or {}
    if kind is PODS:
        return found | (_of_pod(spec) if _is_counted(obj) else {})
    if not kind.group and kind.plural in NAMED:
        found[kind.plural] = ONE
    if kind is SERVICES:
        has_ports = spec.get("type") == "NodePort" or (
            spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True)
        )
        found["services.nodeports"] = Amount(Fraction(len(spec.get("ports") or ()) if has_ports else 0))
        found["services.loadbalancers"] = ONE if spec.get("type") == "LoadBalancer" else ZERO
    elif kind is CLAIMS:
        storage = amounts((spec.get("resources") or {}).get("requests")).get("storage", ZERO)
        found |= {"persistentvolumeclaims": ONE, "requests.storage": storage}
        if spec.get("storageClassName"):
            prefix = f"{spec['storageClassName']}{_OF_CLASS}"
            found |= {f"{prefix}persistentvolumeclaims": ONE, f"{prefix}requests.storage": storage}
    elif kind is DEVICE_CLAIMS:
        for request in objects_in(spec.get("devices") or {}, "requests"):
            wanted = request.get("exactly") or {}
            name = f"{wanted.get('deviceClassName')}.deviceclass.resource.k8s.io/devices"
            found = total([found, {name: Amount(Fraction(wanted.get("count") or 1))}])
    return found


def _of_pod(spec: Object) -> dict[str, Amount]:
    found = {"pods": ONE}
    requests, limits = pod_total(spec, "requests"), pod_total(spec, "limits")
    for name, each in requests.items():
        found[f"requests.{name}"] = each
        if name in NATIVE or name.startswith("hugepages-"):
            found[name] = each
    return found | {f"limits.{name}": each for name, each in limits.items() if name in NATIVE}


def _is_counted(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def counts(quota: Object, kind: ResourceType, obj: Object) -> bool:
    """Whether the scopes of a quota let it count an object."""
    spec = quota.get("spec") or {}
    selected = objects_in(spec.get("scopeSelector") or {}, "matchExpressions")
    required = [
        *(ScopeRequirement(scope) for scope in spec.get("scopes") or []),
        *(
            ScopeRequirement(one.get("scopeName", ""), one.get("operator", ""), tuple(one.get("values") or ()))
            for one in selected
        ),
    ]
    if kind is not PODS or not required:
        return not required
    pod = obj["spec"]
    affinity = pod.get("affinity") or {}
    terms = [term for part in ("podAffinity", "podAntiAffinity") for term in _terms(affinity.get(part) or {})]
    facts = ScopedPod(
        has_deadline=pod.get("activeDeadlineSeconds") is not None,
        is_best_effort=qos_class(pod) == "BestEffort",
        priority_class=pod.get("priorityClassName") or "",
        crosses_namespaces=any(term.get("namespaces") or "namespaceSelector" in term for term in terms),
    )
    return in_scope(facts, required)


def _terms(affinity: Object) -> Iterator[Object]:
    yield from objects_in(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
    for each in objects_in(affinity, "preferredDuringSchedulingIgnoredDuringExecution"):
        yield each.get("podAffinityTerm") or {}


def used_of(quota: Object, custom: Sequence[ResourceType], objects: Callable[[ResourceType], list[Object]]) -> Object:
    """The status of a quota: what of its resources is used; `objects` gives those of a kind in its namespace."""
    hard = (quota.get("spec") or {}).get("hard") or {}
    kinds = {name: kind for name in hard if (kind := kind_of_resource(name, custom)) is not None}
    used = dict.fromkeys(kinds, ZERO)
    for kind in {kind.key: kind for kind in kinds.values()}.values():
        of_kind = total(usage_of(kind, obj) for obj in objects(kind) if counts(quota, kind, obj))
        used |= {name: each for name, each in of_kind.items() if kinds.get(name) is kind}
    return {"hard": hard, "used": written(used)}


def written(used: Amounts) -> Object:
    """Amounts as a status has them."""
    return {name: str(used[name]) for name in sorted(used)}


def kind_of_resource(name: str, custom: Iterable[ResourceType] = ()) -> ResourceType | None:
    """The kind of objects that a quota for this resource counts."""
    if name.startswith("count/"):
        plural, _, group = name.removeprefix("count/").partition(".")
        return next((kind for kind in custom if kind.key == (group, plural)), BY_KEY.get((group, plural)))
    if name.startswith("services"):
        return SERVICES
    if name in ("persistentvolumeclaims", "requests.storage") or _OF_CLASS in name:
        return CLAIMS
    if name.endswith(".deviceclass.resource.k8s.io/devices"):
        return DEVICE_CLAIMS
    if name in NAMED:
        return BY_KEY["", name]
    is_computing = name in NATIVE or name.startswith(("requests.", "limits.", "hugepages-"))
    return PODS if is_computing else None
