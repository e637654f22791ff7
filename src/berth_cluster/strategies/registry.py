"""Which strategy each resource has."""

from types import MappingProxyType

from berth_cluster.apimachinery.resource_types import ResourceKey, ResourceType
from berth_cluster.strategies import (
    core,
    limit_ranges,
    policy,
    quotas,
    rbac,
    resource,
    runtime_classes,
    scheduling,
    volumes,
    workloads,
)
from berth_cluster.strategies.base import DefaultsStrategy, IdleStrategy, RESTStrategy
from berth_cluster.strategies.custom_objects import CustomObjectStrategy
from berth_cluster.strategies.definitions import DefinitionStrategy
from berth_cluster.strategies.pods import PodStrategy

_DEFAULT = RESTStrategy()
_IDLE = IdleStrategy()
_STRATEGIES: MappingProxyType[ResourceKey, RESTStrategy] = MappingProxyType(
    {
        ("", "pods"): PodStrategy(),
        ("", "namespaces"): core.NamespaceStrategy(),
        ("", "nodes"): core.NodeStrategy(),
        ("", "services"): core.ServiceStrategy(),
        ("", "secrets"): core.SecretStrategy(),
        ("", "replicationcontrollers"): workloads.ReplicationControllerStrategy(),
        ("", "resourcequotas"): quotas.ResourceQuotaStrategy(),
        ("", "limitranges"): limit_ranges.LimitRangeStrategy(),
        ("node.k8s.io", "runtimeclasses"): runtime_classes.RuntimeClassStrategy(),
        ("", "persistentvolumes"): volumes.PersistentVolumeStrategy(),
        ("", "persistentvolumeclaims"): volumes.PersistentVolumeClaimStrategy(),
        ("apiextensions.k8s.io", "customresourcedefinitions"): DefinitionStrategy(),
        ("apps", "deployments"): workloads.DeploymentStrategy(),
        ("apps", "replicasets"): workloads.ReplicaSetStrategy(),
        ("apps", "statefulsets"): workloads.StatefulSetStrategy(),
        ("apps", "daemonsets"): workloads.DaemonSetStrategy(),
        ("autoscaling", "horizontalpodautoscalers"): workloads.AutoscalerStrategy(),
        ("batch", "jobs"): workloads.JobStrategy(),
        ("batch", "cronjobs"): workloads.CronJobStrategy(),
        ("policy", "poddisruptionbudgets"): policy.PodDisruptionBudgetStrategy(),
        ("rbac.authorization.k8s.io", "clusterrolebindings"): rbac.AccessStrategy(),
        ("rbac.authorization.k8s.io", "clusterroles"): rbac.AccessStrategy(),
        ("rbac.authorization.k8s.io", "rolebindings"): rbac.AccessStrategy(),
        ("rbac.authorization.k8s.io", "roles"): rbac.AccessStrategy(),
        ("resource.k8s.io", "deviceclasses"): resource.DeviceClassStrategy(),
        ("resource.k8s.io", "resourceclaims"): resource.DeviceClaimStrategy("spec"),
        ("resource.k8s.io", "resourceclaimtemplates"): resource.DeviceClaimStrategy("spec", "spec"),
        ("resource.k8s.io", "resourceslices"): resource.DeviceTaintStrategy("spec.driver", "spec.pool.name"),
        ("resource.k8s.io", "devicetaintrules"): resource.DeviceTaintStrategy("spec.taint.key", "spec.taint.effect"),
        ("scheduling.k8s.io", "podgroups"): scheduling.PodGroupStrategy(),
        ("scheduling.k8s.io", "priorityclasses"): scheduling.PriorityClassStrategy(),
        ("scheduling.k8s.io", "workloads"): scheduling.WorkloadStrategy(),
        ("storage.k8s.io", "storageclasses"): volumes.StorageClassStrategy(),
        ("storage.k8s.io", "csidrivers"): DefaultsStrategy(
            {},
            {
                "attachRequired": True,
                "podInfoOnMount": False,
                "storageCapacity": False,
                "fsGroupPolicy": "ReadWriteOnceWithFSType",
                "volumeLifecycleModes": ["Persistent"],
                "requiresRepublish": False,
                "seLinuxMount": False,
            },
            None,
        ),
    }
)


def strategy_of(kind: ResourceType) -> RESTStrategy:
    """What is special about a resource."""
    if kind.custom is not None:
        return CustomObjectStrategy(kind, kind.custom)
    return _STRATEGIES.get(kind.key, _IDLE if kind.is_idle else _DEFAULT)
