"""NodeDeclaredFeatures: pods that need a feature of the kubelet go to nodes that declare it.

Upstream plugin `NodeDeclaredFeatures`, v1.36 (KEP-5328). What a pod needs is inferred from its spec; of the features
that nodes of that version declare, the others matter to updates of running pods only. Deviation: only nodes that
declare everything a pod needs wake it.
"""

from collections.abc import Sequence
from typing import ClassVar, final

import numpy as np

from berth.api.node import Node
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint, queue_if
from berth.framework.handle import Handle
from berth.framework.interface import (
    ColumnFilterPlugin,
    EventsPlugin,
    FilterColumn,
    FilterPlugin,
    PreFilterPlugin,
    Rows,
    SignaturePlugin,
)
from berth.framework.promises import Dependency, Promises
from berth.framework.status import SKIP, Status, unresolvable
from berth.state.node_view import NodeView
from berth.state.pod_info import LABELS, REQUESTS, PodInfo
from berth.state.table import NodeTable

REASON = "node(s) didn't match Pod's required features"

RESTART_ALL = "RestartAllContainersOnContainerExits"
USER_NAMESPACES = "UserNamespacesHostNetworkSupport"

_REJECTED = unresolvable(REASON)


def required_features(pod: PodInfo) -> frozenset[str]:
    """Return the features without which a node could not run the pod."""
    spec = pod.spec
    rules = (rule for c in (*spec.containers, *spec.init_containers) for rule in c.restart_policy_rules)
    needed = {
        RESTART_ALL: any(rule.action == "RestartAllContainers" for rule in rules),
        USER_NAMESPACES: spec.host_network and spec.host_users is False,
    }
    return frozenset(feature for feature, is_needed in needed.items() if is_needed)


@final
class NodeDeclaredFeatures(PreFilterPlugin, FilterPlugin, ColumnFilterPlugin, SignaturePlugin, EventsPlugin):
    """PreFilter, Filter."""

    name: ClassVar[str] = "NodeDeclaredFeatures"
    promises: ClassVar[Promises] = Promises(
        filter_depends_on=frozenset({Dependency.NODE}),
        ignores=frozenset({LABELS, REQUESTS}),
        pre_filter_is_pure=True,
        hints_by_shape=True,
    )

    def __init__(self, args: None, handle: Handle) -> None:
        self._is_on = handle.features.enabled("NodeDeclaredFeatures")

    def signature(self, pod: PodInfo) -> frozenset[str]:
        """Return the features that the pod needs, which are all that is read of it."""
        return self._needed(pod)

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Skip pods that need no feature; all of them with the gate off."""
        return None if self._needed(pod) else SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Reject a node that does not declare all that the pod needs."""
        return None if declares(node.node, self._needed(pod)) else _REJECTED

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Return int32 codes of shape (len(rows),): 1 where a feature is missing; kept, so it is rarely asked."""
        needed = self._needed(pod)
        nodes = (table.nodes[row] for row in np.arange(table.capacity)[rows].tolist())
        lacking = [node is not None and not declares(node, needed) for node in nodes]
        return FilterColumn(np.array(lacking, dtype=np.int32), lambda _: _REJECTED)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register nodes that declare what is needed, and pods that need less; nothing with the gate off."""
        if not self._is_on:
            return ()
        node = ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE)
        return (
            ClusterEventWithHint(node, after_node_change),
            ClusterEventWithHint(ClusterEvent("Pod", Action.UPDATE), after_pod_change),
        )

    def _needed(self, pod: PodInfo) -> frozenset[str]:
        return required_features(pod) if self._is_on else frozenset()


def declares(node: Node, needed: frozenset[str]) -> bool:
    """Say whether a node declares all these features."""
    return needed.issubset(node.status.declared_features)


def after_node_change(pod: PodInfo, old: Node | None, new: Node | None) -> QueueingHint:
    """Queue where the node declares all the pod needs, and did not before."""
    needed = required_features(pod)
    return queue_if(new is not None and declares(new, needed) and (old is None or not declares(old, needed)))


def after_pod_change(pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> QueueingHint:
    """Queue the pod itself where it needs other features than before."""
    if old is None or new is None or new.uid != pod.uid:
        return QueueingHint.SKIP
    return queue_if(required_features(old) != required_features(new))
