"""TopologyPlacementGenerator: a group with a topology constraint goes to nodes that share the label's value.

Upstream plugin `TopologyPlacementGenerator` (topologyaware), v1.36 (KEP-5732); in the default profile while the gate
TopologyAwareWorkloadScheduling is on. Each value of the label is a placement; once members have nodes, only theirs is.

Deviations: placements come in the order of their values, upstream's in that of a map; upstream registers no events.
"""

from collections.abc import Sequence
from typing import ClassVar, final

import numpy as np

from berth.api.node import Node
from berth.api.scheduling import PodGroup
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint, queue_if
from berth.framework.handle import Handle
from berth.framework.interface import EventsPlugin, Placement, PlacementGeneratePlugin, PodGroupInfo
from berth.framework.status import Status, error
from berth.state.pod_groups import POD_GROUP, GroupKey, group_of
from berth.state.pod_info import PodInfo

NO_DOMAIN = "cannot determine domain for already scheduled pods: "
UNLABELLED = NO_DOMAIN + "no topology domain found for pod {}"
TWO_DOMAINS = NO_DOMAIN + "more than 1 domain found for pod group: {}, {}"
GROUP_GONE = 'podgroups.scheduling.k8s.io "{}" not found'


def topology_key(group: PodGroup) -> str:
    """Return the label that the group's nodes must share, or "" where there is no such constraint."""
    constraints = group.spec.scheduling_constraints
    return constraints.topology[0].key if constraints is not None and constraints.topology else ""


@final
class TopologyPlacementGenerator(PlacementGeneratePlugin, EventsPlugin):
    """PlacementGenerate."""

    name: ClassVar[str] = "TopologyPlacementGenerator"

    def __init__(self, args: None, handle: Handle) -> None:
        self._table = handle.cache.table
        self._cache = handle.cache
        self._groups = handle.pod_groups
        self._objects = handle.objects

    def placement_generate(self, group: PodGroupInfo, parent: Placement) -> Sequence[Placement] | Status:
        """Divide the parent's nodes by the label's value; without a constraint leave them together."""
        found = self._find(group.key)
        if found is None:
            return error(GROUP_GONE.format(group.key.name))
        key = topology_key(found)
        if not key:
            return [parent]
        needed = self._domain_in_use(group.key, key)
        if isinstance(needed, Status):
            return needed
        rows_of: dict[str, list[int]] = {}
        for row in parent.rows.tolist():
            domain = self._table.node(row).metadata.labels.get(key)
            if domain is not None and needed in (None, domain):
                rows_of.setdefault(domain, []).append(row)
        return [Placement(domain, np.array(rows_of[domain], dtype=np.intp)) for domain in sorted(rows_of)]

    def _domain_in_use(self, group: GroupKey, key: str) -> str | Status | None:
        """Return the value that the nodes of placed members share, None where none is placed, or what is wrong."""
        in_use: str | None = None
        for pod in self._groups.placed(group):
            domain = self._domain_of(pod, key)
            if domain is None:
                return error(UNLABELLED.format(pod.key))
            if in_use not in (None, domain):
                return error(TWO_DOMAINS.format(in_use, domain))
            in_use = domain
        return in_use

    def _domain_of(self, pod: PodInfo, key: str) -> str | None:
        state = self._cache.state_of(pod.uid)
        node = self._table.nodes[state.row] if state is not None else None
        return None if node is None else node.metadata.labels.get(key)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register nodes that have or get the label, and the end of a member that tied the group to a domain."""
        nodes = ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_LABEL)
        return (
            ClusterEventWithHint(nodes, self.after_node_change),
            ClusterEventWithHint(ClusterEvent("Pod", Action.DELETE), after_member_gone),
        )

    def after_node_change(self, pod: PodInfo, old: Node | None, new: Node | None) -> QueueingHint:
        """Queue the pod where the node belongs to another domain of its group's label than before."""
        key = group_of(pod)
        group = self._find(key) if key is not None else None
        if group is None or new is None:
            return QueueingHint.SKIP
        label = topology_key(group)
        before = None if old is None else old.metadata.labels.get(label)
        return queue_if(bool(label) and new.metadata.labels.get(label) not in (None, before))

    def _find(self, key: GroupKey) -> PodGroup | None:
        found: PodGroup | None = self._objects.get(POD_GROUP, key.name, key.namespace)
        return found


def after_member_gone(pod: PodInfo, old: PodInfo | None, _new: PodInfo | None) -> QueueingHint:
    """Queue the pod where the one that left was of its group."""
    key = group_of(pod)
    return queue_if(key is not None and old is not None and group_of(old) == key)
