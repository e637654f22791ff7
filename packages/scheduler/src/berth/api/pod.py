"""Pod, as far as the scheduler reads it."""

from collections.abc import Mapping

from msgspec import field
from msgspec.structs import force_setattr

from berth.api.meta import Int32, LabelSelector, ObjectMeta, Struct
from berth.api.node_selector import NodeSelector, NodeSelectorTerm
from berth.api.quantity import Quantity
from berth.api.read_only import EMPTY
from berth.api.storage import PersistentVolumeClaimSpec
from berth.api.taints import Toleration

ResourceList = Mapping[str, Quantity]


class ResourceClaimUse(Struct, frozen=True):
    """containers[].resources.claims[]: which of the pod's claims a container uses."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Struct, frozen=True):
    """resources of a container or of a pod."""

    requests: ResourceList = EMPTY
    limits: ResourceList = EMPTY
    claims: tuple[ResourceClaimUse, ...] = ()


class SeccompProfile(Struct, frozen=True):
    """securityContext.seccompProfile; localhost_profile is a path below the kubelet's directory of profiles."""

    type: str = ""
    localhost_profile: str | None = None


class SecurityContext(Struct, frozen=True):
    """securityContext of a pod or a container: the part that plugins place pods by."""

    seccomp_profile: SeccompProfile | None = None


class ContainerPort(Struct, frozen=True):
    """containers[].ports[]; a host_port of 0 asks for nothing on the node."""

    container_port: int = 0
    host_port: Int32 = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"


class ContainerRestartRule(Struct, frozen=True):
    """containers[].restartPolicyRules[]: what is done when the container exits."""

    action: str = ""


class Container(Struct, frozen=True):
    """A regular or init container; an init container with restart_policy Always is a sidecar."""

    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    security_context: SecurityContext = SecurityContext()


class NodeAffinityPreference(Struct, frozen=True):
    """preferredDuringSchedulingIgnoredDuringExecution[] of node affinity."""

    weight: Int32
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct, frozen=True):
    """affinity.nodeAffinity, and NodeAffinityArgs.addedAffinity."""

    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[NodeAffinityPreference, ...] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Struct, frozen=True):
    """One term of pod affinity or anti-affinity.

    `namespace_selector` absent and `namespaces` empty mean the pod's own namespace; an empty selector means all.
    """

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Struct, frozen=True):
    """A preferred term of pod affinity or anti-affinity."""

    weight: Int32
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Struct, frozen=True):
    """affinity.podAffinity and affinity.podAntiAffinity have this same shape."""

    required: tuple[PodAffinityTerm, ...] = field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[WeightedPodAffinityTerm, ...] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct, frozen=True):
    """spec.affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Struct, frozen=True):
    """spec.topologySpreadConstraints[]; the policies absent mean Honor for affinity and Ignore for taints."""

    max_skew: Int32 = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class PodSchedulingGate(Struct, frozen=True):
    """spec.schedulingGates[]."""

    name: str = ""


class PodSchedulingGroup(Struct, frozen=True):
    """spec.schedulingGroup: the PodGroup that the pod is scheduled with."""

    pod_group_name: str = ""


class PodResourceClaim(Struct, frozen=True):
    """spec.resourceClaims[]: a claim by name, or a template from which one is made for the pod."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PersistentVolumeClaimVolume(Struct, frozen=True):
    """volumes[].persistentVolumeClaim."""

    claim_name: str = ""
    read_only: bool = False


class PersistentVolumeClaimTemplate(Struct, frozen=True):
    """volumes[].ephemeral.volumeClaimTemplate."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolume(Struct, frozen=True):
    """volumes[].ephemeral: its claim is named `<pod>-<volume>`."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class GCEPersistentDisk(Struct, frozen=True):
    """volumes[].gcePersistentDisk."""

    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStore(Struct, frozen=True):
    """volumes[].awsElasticBlockStore."""

    volume_id: str = field(default="", name="volumeID")
    read_only: bool = False


class RBDVolume(Struct, frozen=True):
    """volumes[].rbd."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class ISCSIVolume(Struct, frozen=True):
    """volumes[].iscsi."""

    target_portal: str = ""
    iqn: str = ""
    lun: int = 0
    read_only: bool = False


class AzureDisk(Struct, frozen=True):
    """volumes[].azureDisk."""

    disk_name: str = ""
    disk_uri: str = field(default="", name="diskURI")


class CinderVolume(Struct, frozen=True):
    """volumes[].cinder."""

    volume_id: str = field(default="", name="volumeID")


class CSIVolume(Struct, frozen=True):
    """volumes[].csi: an inline volume."""

    driver: str = ""


class ImageVolume(Struct, frozen=True):
    """volumes[].image: an OCI image mounted as a volume."""

    reference: str = ""


class Volume(Struct, frozen=True):
    """spec.volumes[], the sources that scheduling looks at."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    rbd: RBDVolume | None = None
    iscsi: ISCSIVolume | None = None
    azure_disk: AzureDisk | None = None
    cinder: CinderVolume | None = None
    csi: CSIVolume | None = None
    image: ImageVolume | None = None


class PodSpec(Struct, frozen=True):
    """spec of a pod, with only those volumes whose source scheduling looks at.

    The others are left out because nearly every pod has some (secrets, config maps, its service account's token), and
    the token's volume has a random name, which would make equal pods look different. Scheduling does not look at the
    RuntimeClass and the deadline; admission does, in what-ifs.
    """

    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    node_selector: Mapping[str, str] = EMPTY
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: ResourceList = EMPTY
    resources: ResourceRequirements | None = None
    volumes: tuple[Volume, ...] = ()
    host_network: bool = False
    host_users: bool | None = None
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    termination_grace_period_seconds: int | None = None
    security_context: SecurityContext = SecurityContext()
    runtime_class_name: str | None = None
    active_deadline_seconds: int | None = None

    def __post_init__(self) -> None:
        if self.volumes:
            force_setattr(self, "volumes", tuple([each for each in self.volumes if each != Volume(each.name)]))


class ContainerStatus(Struct, frozen=True):
    """status.containerStatuses[]: what the kubelet has allocated and what the runtime has in force."""

    name: str = ""
    allocated_resources: ResourceList = EMPTY
    resources: ResourceRequirements | None = None


class PodResourceClaimStatus(Struct, frozen=True):
    """status.resourceClaimStatuses[]: the claim made from a template."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Struct, frozen=True):
    """status.extendedResourceClaimStatus.requestMappings[]."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class ExtendedResourceClaimStatus(Struct, frozen=True):
    """status.extendedResourceClaimStatus: the claim behind extended resources that are backed by devices."""

    resource_claim_name: str = ""
    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()


class PodCondition(Struct, frozen=True):
    """status.conditions[] of a pod: without its times, which differ from pod to pod and which nobody reads."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0


class PodStatus(Struct, frozen=True):
    """status of a pod."""

    phase: str = ""
    reason: str = ""
    conditions: tuple[PodCondition, ...] = ()
    nominated_node_name: str = ""
    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: ResourceList = EMPTY
    resources: ResourceRequirements | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None


class Pod(Struct, frozen=True):
    """A pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"
