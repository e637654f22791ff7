"""Groups of pods that are scheduled together (scheduling.k8s.io/v1alpha2), and events."""

from msgspec import field

from berth.api.meta import Condition, Int32, ObjectMeta, ObjectReference, Struct


class GangSchedulingPolicy(Struct, frozen=True):
    """schedulingPolicy.gang: how many pods must fit at once."""

    min_count: int = 1


class BasicSchedulingPolicy(Struct, frozen=True):
    """schedulingPolicy.basic: pods of the group are scheduled one by one."""


class PodGroupSchedulingPolicy(Struct, frozen=True):
    """schedulingPolicy: exactly one of the two."""

    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(Struct, frozen=True):
    """schedulingConstraints.topology[]: the label whose value all pods of the group must share."""

    key: str = ""


class PodGroupSchedulingConstraints(Struct, frozen=True):
    """schedulingConstraints."""

    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupTemplate(Struct, frozen=True):
    """spec.podGroupTemplates[] of a workload."""

    name: str = ""
    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None


class WorkloadSpec(Struct, frozen=True):
    """spec of a workload."""

    controller_ref: ObjectReference | None = None
    pod_group_templates: tuple[PodGroupTemplate, ...] = ()


class Workload(Struct, frozen=True):
    """A workload made of pod groups."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()


class PodGroupSpec(Struct, frozen=True):
    """spec of a pod group."""

    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    disruption_mode: str | None = None
    priority_class_name: str = ""
    priority: Int32 | None = None


class PodGroupStatus(Struct, frozen=True):
    """status of a pod group."""

    conditions: tuple[Condition, ...] = ()


class PodGroup(Struct, frozen=True):
    """Pods that are admitted together."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class Event(Struct, frozen=True):
    """An event of events.k8s.io/v1, as the scheduler writes it."""

    metadata: ObjectMeta = ObjectMeta()
    event_time: str | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    note: str = ""
    type: str = field(default="Normal", name="type")
