"""Cluster events and queueing hints: which changes may make a rejected pod schedulable.

A plugin registers the events that may lift its rejections, each with an optional hint that looks at the pod and at the
object before and after, and says Queue or Skip. Names are upstream's.
"""

from collections.abc import Callable
from enum import Enum, IntFlag
from types import MappingProxyType
from typing import Any, NamedTuple

from berth.state.pod_info import PodInfo


class Action(IntFlag):
    """What happened to an object. A plugin may register for several combined."""

    ADD = 1
    DELETE = 2
    UPDATE_NODE_ALLOCATABLE = 4
    UPDATE_NODE_LABEL = 8
    UPDATE_NODE_TAINT = 16
    UPDATE_NODE_CONDITION = 32
    UPDATE_NODE_ANNOTATION = 64
    UPDATE_NODE_DECLARED_FEATURE = 128
    UPDATE_POD_LABEL = 256
    UPDATE_POD_SCALE_DOWN = 512
    UPDATE_POD_TOLERATION = 1024
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 2048
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 4096
    UPDATE_OTHER = 8192
    UPDATE = (
        UPDATE_NODE_ALLOCATABLE
        | UPDATE_NODE_LABEL
        | UPDATE_NODE_TAINT
        | UPDATE_NODE_CONDITION
        | UPDATE_NODE_ANNOTATION
        | UPDATE_NODE_DECLARED_FEATURE
        | UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        | UPDATE_POD_GENERATED_RESOURCE_CLAIM
        | UPDATE_OTHER
    )
    ALL = ADD | DELETE | UPDATE


WILDCARD = "*"


_GROUPS = MappingProxyType(
    {
        "CSIDriver": "storage.k8s.io/",
        "CSINode": "storage.k8s.io/",
        "CSIStorageCapacity": "storage.k8s.io/",
        "StorageClass": "storage.k8s.io/",
        "VolumeAttachment": "storage.k8s.io/",
        "DeviceClass": "resource.k8s.io/",
        "ResourceClaim": "resource.k8s.io/",
        "ResourceSlice": "resource.k8s.io/",
    }
)
"""The API groups with which upstream's names of resources begin; those of nodes, pods and volumes have none."""


def label_of(resource: str, action: Action) -> str:
    """Return upstream's name of an event in metrics: the resource and the action, as in `NodeUpdateNodeLabel`.

    Source: staging/src/k8s.io/kube-scheduler/framework/types.go, ClusterEvent.Label and ActionType.String.
    """
    word = "Update" if action in (Action.UPDATE, Action.UPDATE_OTHER) else (action.name or "").title().replace("_", "")
    return f"{_GROUPS.get(resource, '')}{resource}{word}"


class ClusterEvent(NamedTuple):
    """Something that happened: the kind of object, the action, and the name in metrics and traces."""

    resource: str
    action: Action
    label: str = ""

    def matches(self, happened: "ClusterEvent") -> bool:
        """Say whether this registration covers an event."""
        same_resource = self.resource in (WILDCARD, happened.resource) or happened.resource == WILDCARD
        return same_resource and bool(self.action & happened.action)


class QueueingHint(Enum):
    """What a hint answers."""

    SKIP = "QueueSkip"
    QUEUE = "Queue"


def queue_if(may_help: bool) -> QueueingHint:
    """Return Queue where a change may help, else Skip."""
    return QueueingHint.QUEUE if may_help else QueueingHint.SKIP


HintFunction = Callable[[PodInfo, Any, Any], QueueingHint]
"""`hint(pod, old, new)`: pods are `PodInfo`, other objects their structs; None if there is no old or new object."""


class ClusterEventWithHint(NamedTuple):
    """An event that a plugin registers for; without a hint, every such event wakes the pod."""

    event: ClusterEvent
    hint: HintFunction | None = None


UNSCHEDULABLE_TIMEOUT = ClusterEvent(WILDCARD, Action.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE = ClusterEvent(WILDCARD, Action.ALL, "ForceActivate")
RETRY = ClusterEvent(WILDCARD, Action.ALL, "Retry")
ASSIGNED_POD_ADD = ClusterEvent("Pod", Action.ADD, "AssignedPodAdd")
ASSIGNED_POD_DELETE = ClusterEvent("Pod", Action.DELETE, "AssignedPodDelete")
UNSCHEDULED_POD_ADD = ClusterEvent("UnscheduledPod", Action.ADD, "UnschedulablePodAdd")
"""A member of a pod group without a node has come: of interest only to the others of its group."""
UNSCHEDULED_POD_DELETE = ClusterEvent("UnscheduledPod", Action.DELETE, "UnschedulablePodDelete")
"""A member of a pod group without a node has gone."""
NODE_ADD = ClusterEvent("Node", Action.ADD, "NodeAdd")
NODE_DELETE = ClusterEvent("Node", Action.DELETE, "NodeDelete")
