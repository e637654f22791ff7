"""ResourceQuotas: what objects count as, how much of it is used, and the refusal of what would exceed it.

The store charges each new object, and each one that grows, to the quotas of its namespace, as the last step before it
is written; a controller (`controllers.quotas`) counts again when something goes. The rules are those of
`berth_workloads.quotas`. Upstream: pkg/quota/v1/evaluator/core.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from berth_cluster.apimachinery.errors import forbidden
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import BY_KEY, PODS, ResourceType
from berth_cluster.strategies.limit_ranges import pod_total
from berth_cluster.strategies.pod_admission import qos_class
from berth_cluster.strategies.pod_defaults import containers_of, objects_in
from berth_workloads.amounts import ONE, Amount, Amounts, amounts, total
from berth_workloads.quotas import MUST_BE_GIVEN, ScopedPod, ScopeRequirement, excess, in_scope

if TYPE_CHECKING:
    from berth_cluster.storage.store import Store

QUOTAS = BY_KEY["", "resourcequotas"]
SERVICES = BY_KEY["", "services"]
CLAIMS = BY_KEY["", "persistentvolumeclaims"]
DEVICE_CLAIMS = BY_KEY["resource.k8s.io", "resourceclaims"]
_NAMED = frozenset({"configmaps", "secrets", "replicationcontrollers", "resourcequotas", "services", "pods"})
_NATIVE = ("cpu", "memory", "ephemeral-storage")
_OF_CLASS = ".storageclass.storage.k8s.io/"
_ZERO = Amount(Fraction(0))


def usage_of(kind: ResourceType, obj: Object) -> dict[str, Amount]:
    """How much of each resource an object uses; each resource once, by the name that quotas have for it."""
    found = {f"count/{kind.plural}.{kind.group}" if kind.group else f"count/{kind.plural}": ONE}
    spec: Object = obj.get("spec") or {}
    if kind is PODS:
        return found | (_of_pod(spec) if _is_counted(obj) else {})
    if not kind.group and kind.plural in _NAMED:
        found[kind.plural] = ONE
    if kind is SERVICES:
        has_ports = spec.get("type") == "NodePort" or (
            spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True)
        )
        found["services.nodeports"] = Amount(Fraction(len(spec.get("ports") or ()) if has_ports else 0))
        found["services.loadbalancers"] = ONE if spec.get("type") == "LoadBalancer" else _ZERO
    elif kind is CLAIMS:
        storage = amounts((spec.get("resources") or {}).get("requests")).get("storage", _ZERO)
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
        if name in _NATIVE or name.startswith("hugepages-"):
            found[name] = each
    return found | {f"limits.{name}": each for name, each in limits.items() if name in _NATIVE}


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


def used_of(quota: Object, store: "Store") -> Object:
    """The status of a quota: what of its resources is used in its namespace."""
    hard = (quota.get("spec") or {}).get("hard") or {}
    kinds = {name: kind for name in hard if (kind := _kind_of_resource(name, store)) is not None}
    used = dict.fromkeys(kinds, _ZERO)
    for kind in {kind.key: kind for kind in kinds.values()}.values():
        objects = store.objects(kind, quota["metadata"]["namespace"])
        of_kind = total(usage_of(kind, obj) for obj in objects if counts(quota, kind, obj))
        used |= {name: each for name, each in of_kind.items() if kinds.get(name) is kind}
    return {"hard": hard, "used": _written(used)}


def _written(used: Amounts) -> Object:
    return {name: str(used[name]) for name in sorted(used)}


def _kind_of_resource(name: str, store: "Store") -> ResourceType | None:
    """The kind of objects that a quota for this resource counts."""
    if name.startswith("count/"):
        plural, _, group = name.removeprefix("count/").partition(".")
        custom = (kind for kind in store.custom.stored() if kind.key == (group, plural))
        return BY_KEY.get((group, plural)) or next(custom, None)
    if name.startswith("services"):
        return SERVICES
    if name in ("persistentvolumeclaims", "requests.storage") or _OF_CLASS in name:
        return CLAIMS
    if name.endswith(".deviceclass.resource.k8s.io/devices"):
        return DEVICE_CLAIMS
    if name in _NAMED:
        return BY_KEY["", name]
    is_computing = name in _NATIVE or name.startswith(("requests.", "limits.", "hugepages-"))
    return PODS if is_computing else None


def charge(store: "Store", kind: ResourceType, new: Object, old: Object | None, *, dry_run: bool) -> None:
    """Note what an object uses from now on in the quotas of its namespace; refused with 403 where it exceeds one."""
    namespace = new["metadata"].get("namespace", "")
    quotas = store.objects(QUOTAS, namespace) if namespace else []
    if not quotas:
        return
    quotas.sort(key=lambda one: str(one["metadata"]["name"]))
    usage, before = usage_of(kind, new), usage_of(kind, old) if old is not None else {}
    wanted = {name: Amount(each.value - before.get(name, _ZERO).value, each.is_binary) for name, each in usage.items()}
    written = []
    for quota in quotas:
        name, hard = quota["metadata"]["name"], amounts((quota.get("spec") or {}).get("hard"))
        more = {each: wanted[each] for each in wanted if each in hard and wanted[each].value > 0}
        is_pod = kind is PODS and any(_kind_of_resource(each, store) is PODS for each in hard)
        if not (more or is_pod) or not counts(quota, kind, new):
            continue
        if is_pod and old is None:
            _refuse_unsaid(new, name, hard)
        status = quota.get("status") or {}
        if status.get("hard") != quota["spec"].get("hard"):  # nobody has counted yet
            status = used_of(quota, store)
        used = amounts(status.get("used"))
        why = excess(name, more, used, hard)
        if why is not None:
            raise forbidden(kind.plural, kind.group, new["metadata"]["name"], why)
        written.append({**quota, "status": {**status, "used": _written(total([used, more]))}})
    if not dry_run:
        for quota in written:
            store.update(QUOTAS, namespace, quota["metadata"]["name"], quota, "status")


def _refuse_unsaid(pod: Object, quota: str, hard: Mapping[str, Any]) -> None:
    """Refuse a pod of which a container does not say how much it wants of what the quota limits."""
    lacking: dict[str, list[str]] = {}
    for name in sorted(MUST_BE_GIVEN & set(hard)):
        part, _, resource = name.rpartition(".")
        part = part or "requests"
        if resource in ((pod["spec"].get("resources") or {}).get(part) or {}):
            continue
        for container in containers_of(pod["spec"]):
            if resource not in ((container.get("resources") or {}).get(part) or {}):
                lacking.setdefault(name, []).append(str(container.get("name")))
    if lacking:
        said = "; ".join(f"{name} for: {','.join(found)}" for name, found in lacking.items())
        raise forbidden("pods", "", pod["metadata"]["name"], f"failed quota: {quota}: must specify {said}")
