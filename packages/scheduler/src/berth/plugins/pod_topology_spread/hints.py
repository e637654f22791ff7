"""Which changes may let a pod through that hard spread constraints rejected.

A constraint may be met once a crowded domain has one matching pod less or the emptiest has one more, or once domains
come, go or change. Called by the queue with the waiting pod and the object before and after.
"""

from collections.abc import Callable, Sequence, Set
from typing import Any

from berth.api.node import Node
from berth.api.selectors import SelectorError
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint
from berth.plugins.pod_topology_spread.constraints import Inclusion, Inclusions, SpreadConstraint
from berth.plugins.pod_topology_spread.defaults import KINDS
from berth.state.pod_info import PodInfo

ConstraintsOf = Callable[[PodInfo], tuple[SpreadConstraint, ...]]

POD_EVENT = ClusterEvent("Pod", Action.ADD | Action.UPDATE | Action.DELETE)
"""Any update, since a pod no longer counts once it is being deleted."""
NODE_EVENT = ClusterEvent("Node", Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT)
ANY_CHANGE = Action.ADD | Action.UPDATE | Action.DELETE


class SpreadHints:
    """The events of one profile's plugin."""

    __slots__ = ("_compare_numbers", "_constraints", "_has_defaults")

    def __init__(self, constraints: ConstraintsOf, has_defaults: bool, compare_numbers: bool) -> None:
        self._constraints = constraints
        self._has_defaults = has_defaults
        self._compare_numbers = compare_numbers

    def events(self) -> Sequence[ClusterEventWithHint]:
        """Return what to register; Services and workloads only where default constraints reject pods."""
        events = [
            ClusterEventWithHint(POD_EVENT, self.after_pod_change),
            ClusterEventWithHint(NODE_EVENT, self.after_node_change),
        ]
        if self._has_defaults:
            changes = (ClusterEvent(kind, ANY_CHANGE) for kind in KINDS)
            events += [ClusterEventWithHint(change, after_workload_change) for change in changes]
        return events

    def after_pod_change(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> QueueingHint:
        """Queue where a running pod of the namespace starts or stops to match a constraint."""
        changed = new or old
        if changed is None or not _is_involved(pod, changed):
            return QueueingHint.SKIP
        if changed.uid == pod.uid:
            return _hint(old is None or new is None or _asks_differently(old, new))
        try:
            constraints = self._constraints(pod)
        except SelectorError:
            return QueueingHint.QUEUE
        return _hint(any(_counts(c, old) != _counts(c, new) for c in constraints))

    def after_node_change(self, pod: PodInfo, old: Node | None, new: Node | None) -> QueueingHint:
        """Queue where a node with all topology keys comes, goes, moves, or starts or stops to count."""
        try:
            constraints = self._constraints(pod)
        except SelectorError:
            return QueueingHint.QUEUE
        inclusions = Inclusions((constraint.topology_key for constraint in constraints), pod, self._compare_numbers)
        which = {inclusions.of(constraint) for constraint in constraints}
        return _hint(_place(old, inclusions.keys, which) != _place(new, inclusions.keys, which))


def after_workload_change(pod: PodInfo, old: Any, new: Any) -> QueueingHint:
    """Queue a pod without constraints of its own when what may claim it changes."""
    changed = old if new is None else new
    same_namespace = changed is not None and changed.metadata.namespace == pod.namespace
    return _hint(same_namespace and not pod.spec.topology_spread_constraints)


def _is_involved(pod: PodInfo, other: PodInfo) -> bool:
    return other.uid == pod.uid or (bool(other.node_name) and other.namespace == pod.namespace)


def _asks_differently(old: PodInfo, new: PodInfo) -> bool:
    return old.labels != new.labels or old.spec.tolerations != new.spec.tolerations


def _counts(constraint: SpreadConstraint, other: PodInfo | None) -> bool:
    return other is not None and not other.is_terminating and constraint.selector.matches(other.labels)


def _place(node: Node | None, keys: tuple[str, ...], which: Set[Inclusion]) -> object:
    """Return the domains that a node is in and which constraints count it; None where it lacks a label."""
    if node is None or not all(key in node.metadata.labels for key in keys):
        return None
    return [node.metadata.labels[key] for key in keys], {included: included.includes(node) for included in which}


def _hint(may_help: bool) -> QueueingHint:
    return QueueingHint.QUEUE if may_help else QueueingHint.SKIP
