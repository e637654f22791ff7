"""Which strategy each resource has."""

from types import MappingProxyType

from berth_cluster.resource_types import ResourceKey, ResourceType
from berth_cluster.strategies import others, pod_groups, workloads
from berth_cluster.strategies.base import Strategy
from berth_cluster.strategies.pods import PodStrategy

_DEFAULT = Strategy()
_STRATEGIES: MappingProxyType[ResourceKey, Strategy] = MappingProxyType(
    {
        ("", "pods"): PodStrategy(),
        ("", "namespaces"): others.NamespaceStrategy(),
        ("", "nodes"): others.NodeStrategy(),
        ("", "services"): others.ServiceStrategy(),
        ("", "secrets"): others.SecretStrategy(),
        ("", "replicationcontrollers"): workloads.ReplicationControllerStrategy(),
        ("", "persistentvolumes"): others.DefaultsStrategy(
            {}, {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"}, {"phase": "Pending"}
        ),
        ("", "persistentvolumeclaims"): others.ClaimStrategy(),
        ("apps", "deployments"): workloads.DeploymentStrategy(),
        ("apps", "replicasets"): workloads.WorkloadStrategy(),
        ("apps", "statefulsets"): workloads.StatefulSetStrategy(),
        ("apps", "daemonsets"): workloads.DaemonSetStrategy(),
        ("batch", "jobs"): workloads.JobStrategy(),
        ("batch", "cronjobs"): workloads.CronJobStrategy(),
        ("policy", "poddisruptionbudgets"): others.DisruptionBudgetStrategy(),
        ("resource.k8s.io", "resourceclaimtemplates"): others.RequiredFieldsStrategy("spec.spec"),
        ("resource.k8s.io", "resourceslices"): others.DeviceTaintStrategy("spec.driver", "spec.pool.name"),
        ("resource.k8s.io", "devicetaintrules"): others.DeviceTaintStrategy("spec.taint.key", "spec.taint.effect"),
        ("scheduling.k8s.io", "podgroups"): pod_groups.PodGroupStrategy(),
        ("scheduling.k8s.io", "priorityclasses"): others.PriorityClassStrategy(),
        ("scheduling.k8s.io", "workloads"): pod_groups.WorkloadStrategy(),
        ("storage.k8s.io", "storageclasses"): others.DefaultsStrategy(
            {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}, {}, None
        ),
        ("storage.k8s.io", "csidrivers"): others.DefaultsStrategy(
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


def strategy_of(kind: ResourceType) -> Strategy:
    """What is special about a resource."""
    return _STRATEGIES.get(kind.key, _DEFAULT)
