"""The controllers of PodGroups and ElasticQuotas, which write their status as upstream's do.

`berth-plugins controller` runs them against a cluster, and `berth up` beside its own. The rules are in
`pod_group_status` and `capacity/quota_status`; here is which pods are whose, and how a status is read and written.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from berth.controller import CustomObject, CustomResource, Pod
from berth_plugins.capacity.elastic_quotas import ELASTIC_QUOTAS, ElasticQuotaSpec
from berth_plugins.capacity.quota_status import used_of
from berth_plugins.coscheduling import GROUPS, LABEL, PodGroupSpec
from berth_plugins.pod_group_status import PodGroupStatus, next_status


class PodGroupController:
    """The phase of a PodGroup, who occupies it, and how many of its pods are how."""

    name = "podgroup-controller"
    resource: CustomResource = msgspec.structs.replace(GROUPS, struct=None)

    def group_of(self, obj: CustomObject) -> str:
        """Return namespace and name."""
        return f"{obj.metadata.namespace}/{obj.metadata.name}"

    def group_of_pod(self, pod: Pod) -> str | None:
        """Return the group that a pod's label names."""
        name = pod.metadata.labels.get(LABEL)
        return f"{pod.metadata.namespace}/{name}" if name else None

    def reconcile(self, obj: CustomObject, pods: Sequence[Pod]) -> Mapping[str, Any]:
        """Go one phase further, and count; zeros are left out, as upstream leaves them."""
        spec = msgspec.convert(obj.get("spec") or {}, PodGroupSpec)
        status = next_status(msgspec.convert(obj.get("status") or {}, PodGroupStatus), spec.min_member, pods)
        wanted = msgspec.to_builtins(status)
        return {name: wanted.get(name) for name in PodGroupStatus.__struct_encode_fields__}


class ElasticQuotaController:
    """What is used of an ElasticQuota."""

    name = "elasticquota-controller"
    resource: CustomResource = msgspec.structs.replace(ELASTIC_QUOTAS, struct=None)

    def group_of(self, obj: CustomObject) -> str:
        """Return the namespace."""
        return obj.metadata.namespace

    def group_of_pod(self, pod: Pod) -> str | None:
        """Return the namespace."""
        return pod.metadata.namespace

    def reconcile(self, obj: CustomObject, pods: Sequence[Pod]) -> Mapping[str, Any]:
        """Count what runs."""
        spec = msgspec.convert(obj.get("spec") or {}, ElasticQuotaSpec)
        return {"used": used_of(spec.min, spec.max, pods)}
