"""Names that Kubernetes gives: they say nothing of a cluster and mean something to scheduling, and are not renamed."""

from collections.abc import Mapping
from types import MappingProxyType

from berth_workbench.snapshot.roles import Role

WORDS = frozenset(
    {
        "", "true", "false", "default", "kube-system", "kube-public", "kube-node-lease", "default-scheduler",
        "system-cluster-critical", "system-node-critical", "metadata.name", "0.0.0.0", "127.0.0.1", "::", "rbd",
    }
)  # fmt: skip
"""Texts that stay wherever they stand."""

LABEL_KEYS = frozenset(
    {
        "kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "kubernetes.io/metadata.name",
        "beta.kubernetes.io/os", "beta.kubernetes.io/arch", "beta.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
        "node.kubernetes.io/instance-type", "node.kubernetes.io/windows-build",
        "node.kubernetes.io/exclude-from-external-load-balancers", "node.kubernetes.io/exclude-disruption",
        "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "node-role.kubernetes.io/worker",
        "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/memory-pressure", "node.kubernetes.io/disk-pressure", "node.kubernetes.io/pid-pressure",
        "node.kubernetes.io/network-unavailable", "node.kubernetes.io/out-of-service",
        "node.cloudprovider.kubernetes.io/uninitialized", "node.cloudprovider.kubernetes.io/shutdown",
        "pod-template-hash", "controller-revision-hash", "pod-template-generation", "controller-uid", "job-name",
        "apps.kubernetes.io/pod-index", "statefulset.kubernetes.io/pod-name", "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index",
        "app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/version",
        "app.kubernetes.io/component", "app.kubernetes.io/part-of", "app.kubernetes.io/managed-by",
        "topology.ebs.csi.aws.com/zone", "topology.gke.io/zone", "topology.disk.csi.azure.com/zone",
        "topology.cinder.csi.openstack.org/zone",
    }
)  # fmt: skip
"""Keys of labels and taints that stay; any other is renamed, whatever its domain. The topology keys are those into
which the zones of volumes of old in-tree plugins are translated."""

ZONE_KEYS = frozenset(
    {
        "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
    }
)  # fmt: skip
"""Labels that may have several values in one on a volume."""

PLAIN_VALUES_OF = frozenset(
    {
        "kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
        "apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-completion-index", "pod-template-generation",
    }
)  # fmt: skip
"""Labels whose values stay, where they are numbers or one of `PLATFORMS`."""

PLATFORMS = frozenset({"linux", "windows", "amd64", "arm64", "arm", "386", "ppc64le", "s390x", "riscv64"})

FINALIZERS = frozenset(
    {
        "foregroundDeletion", "orphan", "kubernetes", "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection",
        "batch.kubernetes.io/job-tracking", "resource.kubernetes.io/delete-protection",
        "external-provisioner.volume.kubernetes.io/finalizer", "service.kubernetes.io/load-balancer-cleanup",
    }
)  # fmt: skip
"""Finalizers that stay; all others are left out."""

API_WORDS = frozenset(
    {
        # conditions of pods, nodes, claims, volumes, jobs and groups
        "PodScheduled", "Ready", "Initialized", "ContainersReady", "DisruptionTarget", "PodReadyToStartContainers",
        "PodResizePending", "PodResizeInProgress", "MemoryPressure", "DiskPressure", "PIDPressure",
        "NetworkUnavailable", "Resizing", "FileSystemResizePending", "ControllerResizeError", "NodeResizeError",
        "ModifyingVolume", "ModifyVolumeError", "Complete", "Failed", "Suspended", "FailureTarget",
        "SuccessCriteriaMet", "DisruptionAllowed", "PodGroupScheduled", "Scheduled",
        # why: of pods and their conditions
        "Unschedulable", "SchedulingGated", "SchedulerError", "PreemptionByScheduler", "DeletionByTaintManager",
        "EvictionByEvictionAPI", "DeletionByPodGC", "TerminationByKubelet", "Infeasible", "Deferred", "Evicted",
        "NodeLost", "NodeAffinity", "NodeShutdown", "Terminated", "Preempting", "Preempted", "DeadlineExceeded",
        "UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfephemeral-storage", "PodCompleted",
        "PodFailed", "ContainersNotReady", "ContainersNotInitialized",
        # why: of nodes, jobs and budgets
        "KubeletReady", "KubeletNotReady", "NodeStatusUnknown", "NodeStatusNeverUpdated", "BackoffLimitExceeded",
        "PodFailurePolicy", "CompletionsReached", "SuccessPolicy", "MaxFailedIndexesExceeded", "JobSuspended",
        "JobResumed", "SufficientPods", "InsufficientPods", "SyncFailed",
        # what limit ranges are about, where mirror pods come from, what nodes declare, whose claims there are
        "Pod", "Container", "PersistentVolumeClaim", "file", "http", "api", "RestartAllContainersOnContainerExits",
        "UserNamespacesHostNetworkSupport", "scheduling.k8s.io",
    }
)  # fmt: skip
"""Conditions, reasons and the like that Kubernetes has itself. Other reasons are left out, other conditions renamed."""

COUNTED = frozenset(
    {
        "pods", "services", "secrets", "configmaps", "replicationcontrollers", "resourcequotas",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers", "deployments.apps",
        "replicasets.apps", "statefulsets.apps", "jobs.batch", "cronjobs.batch", "resourceclaims.resource.k8s.io",
        "ingresses.networking.k8s.io", "devices", "requests.storage",
    }
)  # fmt: skip
"""Objects that quotas count, and what they bound of those of a class; others are renamed."""

ANNOTATIONS: Mapping[str, Role] = MappingProxyType(
    {
        "pv.kubernetes.io/bind-completed": Role.NUMBER,
        "pv.kubernetes.io/bound-by-controller": Role.NUMBER,
        "pv.kubernetes.io/provisioned-by": Role.KEPT,
        "pv.kubernetes.io/migrated-to": Role.KEPT,
        "volume.kubernetes.io/storage-provisioner": Role.KEPT,
        "volume.beta.kubernetes.io/storage-provisioner": Role.KEPT,
        "volume.kubernetes.io/selected-node": Role.NAME,
        "volume.beta.kubernetes.io/storage-class": Role.NAME,
        "volume.beta.kubernetes.io/mount-options": Role.DROPPED,
        "storageclass.kubernetes.io/is-default-class": Role.NUMBER,
        "storageclass.beta.kubernetes.io/is-default-class": Role.NUMBER,
        "storage.alpha.kubernetes.io/migrated-plugins": Role.KEPT,
        "kubernetes.io/config.mirror": Role.UID,
        "kubernetes.io/config.source": Role.WORD,
        "resource.kubernetes.io/pod-claim-name": Role.NAME,
        "resource.kubernetes.io/extended-resource-claim": Role.NUMBER,
        "deployment.kubernetes.io/revision": Role.NUMBER,
        "deployment.kubernetes.io/desired-replicas": Role.NUMBER,
        "deployment.kubernetes.io/max-replicas": Role.NUMBER,
        "controller.kubernetes.io/pod-deletion-cost": Role.NUMBER,
        "batch.kubernetes.io/job-completion-index": Role.NUMBER,
        "cluster-autoscaler.kubernetes.io/safe-to-evict": Role.NUMBER,
        "cluster-autoscaler.kubernetes.io/scale-down-disabled": Role.NUMBER,
        "descheduler.alpha.kubernetes.io/evict": Role.NUMBER,
        "descheduler.alpha.kubernetes.io/prefer-no-eviction": Role.NUMBER,
        "berth.dev/run-seconds": Role.NUMBER,
        "berth.dev/exit-code": Role.NUMBER,
        "scheduler.alpha.kubernetes.io/preferAvoidPods": Role.AVOIDED_PODS,
    }
)
"""The annotations that an anonymized snapshot has; all others are left out."""

KINDS = frozenset(
    {
        "Node", "Pod", "ReplicaSet", "ReplicationController", "Deployment", "DaemonSet", "StatefulSet", "Job",
        "CronJob", "PersistentVolume", "PersistentVolumeClaim", "ResourceClaim", "PodGroup", "Workload",
    }
)  # fmt: skip
"""Kinds that stay where objects refer to others."""
