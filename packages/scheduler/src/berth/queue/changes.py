"""What an update changed, in the terms that plugins register for.

Source of the classes: pkg/scheduler/framework/events.go.
"""

import msgspec

from berth.api.meta import ObjectMeta
from berth.api.node import Node
from berth.api.pod import PodStatus
from berth.framework.events import Action, ClusterEvent, label_of
from berth.state.pod_info import PodInfo


def node_changes(old: Node, new: Node) -> list[ClusterEvent]:
    """Return what changed in a node; nothing where no plugin could be interested."""
    changed = {
        Action.UPDATE_NODE_ALLOCATABLE: old.status.allocatable != new.status.allocatable,
        Action.UPDATE_NODE_LABEL: old.metadata.labels != new.metadata.labels,
        Action.UPDATE_NODE_TAINT: (old.spec.taints, old.spec.unschedulable)
        != (new.spec.taints, new.spec.unschedulable),
        Action.UPDATE_NODE_CONDITION: _conditions(old) != _conditions(new),
        Action.UPDATE_NODE_ANNOTATION: old.metadata.annotations != new.metadata.annotations,
        Action.UPDATE_NODE_DECLARED_FEATURE: old.status.declared_features != new.status.declared_features,
    }
    return [ClusterEvent("Node", action, label_of("Node", action)) for action, differs in changed.items() if differs]


def pod_changes(old: PodInfo, new: PodInfo) -> list[ClusterEvent]:
    """Return what changed in a pod; `UPDATE_OTHER` where the change has no name of its own."""
    changed = {
        Action.UPDATE_POD_LABEL: old.labels != new.labels,
        Action.UPDATE_POD_SCALE_DOWN: _asks_for_less(old, new),
        Action.UPDATE_POD_TOLERATION: old.spec.tolerations != new.spec.tolerations,
        Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: bool(old.spec.scheduling_gates)
        and not new.spec.scheduling_gates,
        Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM: old.status.resource_claim_statuses
        != new.status.resource_claim_statuses,
    }
    actions = [action for action, differs in changed.items() if differs] or [Action.UPDATE_OTHER]
    kind = "AssignedPod" if new.node_name else "UnschedulablePod"
    return [ClusterEvent("Pod", action, label_of(kind, action)) for action in actions]


def is_schedulers_own(old: PodInfo, new: PodInfo) -> bool:
    """Say whether only the parts of a pending pod's status differ that a scheduler itself writes.

    Such a change must not wake the pod: a plugin that any update wakes would have it tried without end.
    """
    return (
        old.spec == new.spec and _unversioned(old) == _unversioned(new) and _others_status(old) == _others_status(new)
    )


def _unversioned(pod: PodInfo) -> ObjectMeta:
    return msgspec.structs.replace(pod.metadata, resource_version="")


def _others_status(pod: PodInfo) -> PodStatus:
    conditions = tuple(condition for condition in pod.status.conditions if condition.type != "PodScheduled")
    return msgspec.structs.replace(pod.status, conditions=conditions, nominated_node_name="")


def _conditions(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


def _asks_for_less(old: PodInfo, new: PodInfo) -> bool:
    return any(new.requests.get(resource, 0) < amount for resource, amount in old.requests.items())
