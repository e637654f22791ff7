"""Node and the cluster-wide objects beside it, as far as the scheduler reads them."""

from collections.abc import Mapping

from msgspec import field

from berth.api.meta import Condition, Int32, LabelSelector, ObjectMeta, Struct
from berth.api.quantity import Quantity
from berth.api.read_only import EMPTY
from berth.api.taints import Taint


class NodeSpec(Struct, frozen=True):
    """spec of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = field(default="", name="providerID")


class ContainerImage(Struct, frozen=True):
    """status.images[]: an image present on the node, under all its names."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(Struct, frozen=True):
    """status of a node."""

    allocatable: Mapping[str, Quantity] = EMPTY
    capacity: Mapping[str, Quantity] = EMPTY
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(Struct, frozen=True):
    """A node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(Struct, frozen=True):
    """A namespace; scheduling reads its labels."""

    metadata: ObjectMeta = ObjectMeta()


class ServiceSpec(Struct, frozen=True):
    """spec of a service."""

    selector: Mapping[str, str] = EMPTY


class Service(Struct, frozen=True):
    """A service, for default topology spreading."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Struct, frozen=True):
    """spec of a replication controller: its selector is a plain map."""

    replicas: int | None = None
    selector: Mapping[str, str] = EMPTY


class ReplicationController(Struct, frozen=True):
    """A replication controller."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class ReplicaSetSpec(Struct, frozen=True):
    """spec of a replica set, as far as scheduling looks at it."""

    replicas: int | None = None
    selector: LabelSelector | None = None


class ReplicaSet(Struct, frozen=True):
    """A replica set."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()


class StatefulSetSpec(Struct, frozen=True):
    """spec of a stateful set, as far as scheduling looks at it."""

    replicas: int | None = None
    selector: LabelSelector | None = None


class StatefulSet(Struct, frozen=True):
    """A stateful set."""

    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()


class PriorityClass(Struct, frozen=True):
    """A priority class."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class PodDisruptionBudgetSpec(Struct, frozen=True):
    """spec of a disruption budget."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Struct, frozen=True):
    """status of a disruption budget; disrupted_pods maps pod names to eviction times."""

    observed_generation: int = 0
    disruptions_allowed: Int32 = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: Mapping[str, str | None] = EMPTY


class PodDisruptionBudget(Struct, frozen=True):
    """A disruption budget."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class LeaseSpec(Struct, frozen=True):
    """spec of a lease."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Struct, frozen=True):
    """A lease, for leader election."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


class ConfigMap(Struct, frozen=True):
    """A config map, which may carry a scheduling policy."""

    metadata: ObjectMeta = ObjectMeta()
    data: Mapping[str, str] = EMPTY
