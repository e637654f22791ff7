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
"""Labels whose values stay."""

ANNOTATIONS: Mapping[str, Role] = MappingProxyType(
    {
        "pv.kubernetes.io/bind-completed": Role.KEPT,
        "pv.kubernetes.io/bound-by-controller": Role.KEPT,
        "pv.kubernetes.io/provisioned-by": Role.KEPT,
        "pv.kubernetes.io/migrated-to": Role.KEPT,
        "volume.kubernetes.io/storage-provisioner": Role.KEPT,
        "volume.beta.kubernetes.io/storage-provisioner": Role.KEPT,
        "volume.kubernetes.io/selected-node": Role.NAME,
        "volume.beta.kubernetes.io/storage-class": Role.NAME,
        "volume.beta.kubernetes.io/mount-options": Role.DROPPED,
        "storageclass.kubernetes.io/is-default-class": Role.KEPT,
        "storageclass.beta.kubernetes.io/is-default-class": Role.KEPT,
        "storage.alpha.kubernetes.io/migrated-plugins": Role.KEPT,
        "kubernetes.io/config.mirror": Role.UID,
        "kubernetes.io/config.source": Role.KEPT,
        "resource.kubernetes.io/pod-claim-name": Role.NAME,
        "resource.kubernetes.io/extended-resource-claim": Role.KEPT,
        "deployment.kubernetes.io/revision": Role.KEPT,
        "deployment.kubernetes.io/desired-replicas": Role.KEPT,
        "deployment.kubernetes.io/max-replicas": Role.KEPT,
        "controller.kubernetes.io/pod-deletion-cost": Role.KEPT,
        "batch.kubernetes.io/job-completion-index": Role.KEPT,
        "cluster-autoscaler.kubernetes.io/safe-to-evict": Role.KEPT,
        "cluster-autoscaler.kubernetes.io/scale-down-disabled": Role.KEPT,
        "descheduler.alpha.kubernetes.io/evict": Role.KEPT,
        "descheduler.alpha.kubernetes.io/prefer-no-eviction": Role.KEPT,
        "berth.dev/run-seconds": Role.KEPT,
        "berth.dev/exit-code": Role.KEPT,
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
