"""ElasticQuotas: what a namespace has for sure, and how much it may use at most.

Kind ElasticQuota of scheduling.x-k8s.io, v1alpha1. A namespace has one; of several the oldest counts.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from berth.plugin import CustomResource, ObjectMeta, Quantity
from berth_plugins.capacity.amounts import Amounts, amounts_of


class ElasticQuotaSpec(msgspec.Struct, frozen=True):
    """The bounds; no `max` is no limit."""

    min: dict[str, Quantity] | None = None
    max: dict[str, Quantity] | None = None


class ElasticQuota(msgspec.Struct, frozen=True):
    """An ElasticQuota of scheduling.x-k8s.io."""

    metadata: ObjectMeta
    spec: ElasticQuotaSpec = ElasticQuotaSpec()


ELASTIC_QUOTAS = CustomResource("scheduling.x-k8s.io", "v1alpha1", "elasticquotas", "ElasticQuota", struct=ElasticQuota)


class QuotaBounds(NamedTuple):
    """A quota's bounds, as they are counted."""

    name: str
    least: Amounts
    most: Amounts | None


def bounds_by_namespace(quotas: Iterable[ElasticQuota]) -> dict[str, QuotaBounds]:
    """Return the bounds of each namespace that has a quota."""
    found: dict[str, QuotaBounds] = {}
    for quota in sorted(quotas, key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name)):
        most = None if quota.spec.max is None else amounts_of(quota.spec.max)
        bounds = QuotaBounds(quota.metadata.name, amounts_of(quota.spec.min or {}), most)
        found.setdefault(quota.metadata.namespace, bounds)
    return found
