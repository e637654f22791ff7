"""Which strategy each resource has."""

from types import MappingProxyType

from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import ResourceKey, ResourceType
from berth_cluster.custom.version import CustomType
from berth_cluster.strategies import (
    core,
    limit_ranges,
    policy,
    quotas,
    rbac,
    resource,
    scheduling,
    volumes,
    workloads,
)
from berth_cluster.strategies.admission import expressions_are_cel
from berth_cluster.strategies.base import RESTStrategy
from berth_cluster.strategies.custom_objects import CustomObjectStrategy
from berth_cluster.strategies.definitions import DefinitionStrategy
from berth_cluster.strategies.pods import PodStrategy


def _is_idle(obj: Object) -> list[str]:
    return [f"{obj['kind']} is stored, and nothing in this cluster acts on it"]


_PLAIN = RESTStrategy()
_IDLE = RESTStrategy(told=_is_idle)
_STRATEGIES: MappingProxyType[ResourceKey, RESTStrategy] = MappingProxyType(
    {
        ("", "pods"): PodStrategy(),
        **dict.fromkeys(
            (
                ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
                ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
                ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
                ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
            ),
            RESTStrategy(check=expressions_are_cel, told=_is_idle),
        ),
        ("", "namespaces"): core.NAMESPACE,
        ("", "nodes"): core.NodeStrategy(),
        ("", "services"): core.SERVICE,
        ("", "secrets"): core.SECRET,
        ("", "replicationcontrollers"): workloads.REPLICATION_CONTROLLER,
        ("", "resourcequotas"): quotas.RESOURCE_QUOTA,
        ("", "limitranges"): limit_ranges.LIMIT_RANGE,
        ("coordination.k8s.io", "leases"): core.LEASE,
        ("node.k8s.io", "runtimeclasses"): core.RUNTIME_CLASS,
        ("", "persistentvolumes"): volumes.PERSISTENT_VOLUME,
        ("", "persistentvolumeclaims"): volumes.PERSISTENT_VOLUME_CLAIM,
        ("apiextensions.k8s.io", "customresourcedefinitions"): DefinitionStrategy(),
        ("apps", "deployments"): workloads.DEPLOYMENT,
        ("apps", "replicasets"): workloads.REPLICA_SET,
        ("apps", "statefulsets"): workloads.STATEFUL_SET,
        ("apps", "daemonsets"): workloads.DAEMON_SET,
        ("autoscaling", "horizontalpodautoscalers"): workloads.AUTOSCALER,
        ("batch", "jobs"): workloads.JOB,
        ("batch", "cronjobs"): workloads.CRON_JOB,
        ("policy", "poddisruptionbudgets"): policy.POD_DISRUPTION_BUDGET,
        ("rbac.authorization.k8s.io", "clusterrolebindings"): rbac.CLUSTER_ROLE_BINDING,
        ("rbac.authorization.k8s.io", "clusterroles"): rbac.CLUSTER_ROLE,
        ("rbac.authorization.k8s.io", "rolebindings"): rbac.ROLE_BINDING,
        ("rbac.authorization.k8s.io", "roles"): rbac.ROLE,
        ("resource.k8s.io", "deviceclasses"): resource.DEVICE_CLASS,
        ("resource.k8s.io", "resourceclaims"): resource.device_claim("spec"),
        ("resource.k8s.io", "resourceclaimtemplates"): resource.device_claim("spec.spec"),
        ("resource.k8s.io", "resourceslices"): resource.device_taints("spec.driver", "spec.pool.name"),
        ("resource.k8s.io", "devicetaintrules"): resource.device_taints("spec.taint.key", "spec.taint.effect"),
        ("scheduling.k8s.io", "podgroups"): scheduling.POD_GROUP,
        ("scheduling.k8s.io", "priorityclasses"): scheduling.PRIORITY_CLASS,
        ("scheduling.k8s.io", "workloads"): scheduling.WORKLOAD,
        ("storage.k8s.io", "storageclasses"): volumes.STORAGE_CLASS,
    }
)


def strategy_of(kind: ResourceType) -> RESTStrategy:
    """What is special about a resource."""
    if isinstance(kind, CustomType):
        return CustomObjectStrategy(kind)
    return _STRATEGIES.get(kind.key, _IDLE if kind.is_idle else _PLAIN)
