"""Charges each new object, and each one that grows, to the ResourceQuotas of its namespace, or refuses it.

Asked by the store as the last step before it writes. What an object counts as is in `strategies.quota_usage`.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from berth_cluster.apimachinery.errors import forbidden
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import BY_KEY, PODS, ResourceType
from berth_cluster.strategies.base import ClusterView
from berth_cluster.strategies.pod_defaults import containers_of
from berth_cluster.strategies.quota_usage import ZERO, counts, usage_of, used_of, written
from berth_workloads.amounts import Amount, amounts, total
from berth_workloads.quotas import MUST_BE_GIVEN, excess

QUOTAS = BY_KEY["", "resourcequotas"]


def charged(
    view: ClusterView, custom: Sequence[ResourceType], kind: ResourceType, new: Object, old: Object | None
) -> list[Object]:
    """The quotas of its namespace with what an object uses from now on; refused with 403 where it exceeds one."""
    namespace = new["metadata"].get("namespace", "")
    quotas = view.objects(QUOTAS, namespace) if namespace else []
    if not quotas:
        return []
    quotas.sort(key=lambda one: str(one["metadata"]["name"]))
    usage, before = usage_of(kind, new), usage_of(kind, old) if old is not None else {}
    growth = {name: Amount(each.value - before.get(name, ZERO).value, each.is_binary) for name, each in usage.items()}
    grown = []
    for quota in quotas:
        name, hard = quota["metadata"]["name"], amounts((quota.get("spec") or {}).get("hard"))
        if not counts(quota, kind, new):
            continue
        # A pod that is given a deadline comes into other scopes, and is to the quotas of these as if it were new.
        is_new = old is None or not counts(quota, kind, old)
        wanted = usage if is_new else growth
        if is_new and kind is PODS:
            _refuse_unsaid(new, name, hard)
        more = {each: wanted[each] for each in wanted if each in hard and wanted[each].value > 0}
        if not more:
            continue
        status = quota.get("status") or {}
        if status.get("hard") != quota["spec"].get("hard"):  # nobody has counted yet
            status = used_of(quota, custom, partial(view.objects, namespace=namespace))
        used = amounts(status.get("used"))
        why = excess(name, more, used, hard)
        if why is not None:
            raise forbidden(kind.plural, kind.group, new["metadata"]["name"], why)
        grown.append({**quota, "status": {**status, "used": written(total([used, more]))}})
    return grown


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
