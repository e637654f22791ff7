"""Charges each new object, and each one that grows, to the ResourceQuotas of its namespace, or refuses it.

Asked by the store as the last step before it writes. What an object costs is in `berth_workloads.quotas`.
"""

from collections.abc import Sequence
from functools import partial

from berth_cluster.apimachinery.errors import forbidden
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import BY_KEY, ResourceType
from berth_cluster.strategies.base import ClusterView
from berth_cluster.strategies.quota_usage import used_of, written
from berth_workloads.amounts import amounts, total
from berth_workloads.quotas import charge_for

QUOTAS = BY_KEY["", "resourcequotas"]


def charged(
    view: ClusterView, custom: Sequence[ResourceType], kind: ResourceType, new: Object, old: Object | None
) -> list[Object]:
    """The quotas of its namespace with what an object uses from now on; refused with 403 where it exceeds one."""
    namespace = new["metadata"].get("namespace", "")
    quotas = view.objects(QUOTAS, namespace) if namespace else []
    grown = []
    for quota in sorted(quotas, key=lambda one: str(one["metadata"]["name"])):
        charge = charge_for(quota, kind.key, new, old)
        if isinstance(charge, str):
            raise forbidden(kind.plural, kind.group, new["metadata"]["name"], charge)
        if not charge.more:
            continue
        status = quota.get("status") or {}
        if status.get("hard") != quota["spec"].get("hard"):  # nobody has counted yet
            status = used_of(quota, custom, partial(view.objects, namespace=namespace))
        used = amounts(status.get("used"))
        why = charge.excess(used)
        if why:
            raise forbidden(kind.plural, kind.group, new["metadata"]["name"], why)
        grown.append({**quota, "status": {**status, "used": written(total([used, charge.more]))}})
    return grown
