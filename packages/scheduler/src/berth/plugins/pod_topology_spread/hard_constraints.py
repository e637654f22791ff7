"""DoNotSchedule constraints: no domain may exceed the emptiest by more than maxSkew.

The state of one cycle holds, for each constraint, the matching pods by domain. These counts are the pod index's own and
are never written to, so clones share them. A what-if keeps its changes beside them, by label value.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.framework.interface import Codes, OverDomains, Rows
from berth.framework.status import Status, unresolvable, unschedulable
from berth.plugins.pod_topology_spread.constraints import Inclusion, SpreadConstraint
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo
from berth.state.topology import Ids, Int64, Topology

REASON_SKEW = "node(s) didn't match pod topology spread constraints"
REASON_LABEL = f"{REASON_SKEW} (missing required label)"

SKEW_CODE, LABEL_CODE = 1, 2
STATUS_BY_CODE = {SKEW_CODE: unschedulable(REASON_SKEW), LABEL_CODE: unresolvable(REASON_LABEL)}

Changes = dict[str, int]
"""Pods added less pods removed in a what-if, by label value."""


class Spread(NamedTuple):
    """One constraint of a cycle: its domains, and the matching pods in them."""

    constraint: SpreadConstraint
    included: Inclusion
    topology: Topology
    pods: Int64
    matches_itself: bool

    def room(self, pods: Int64) -> int:
        """Return how many matching pods a domain may hold before the new one comes."""
        return self.constraint.max_skew + self.fewest(pods) - self.matches_itself

    def fewest(self, pods: Int64) -> int:
        """Return the matching pods in the emptiest domain; 0 while there are fewer domains than minDomains."""
        topology = self.topology
        if topology.domain_count < self.constraint.min_domains or not topology.domain_count:
            return 0
        by_domain = pods[:-1] if topology.all_exist else pods[:-1][topology.exists]
        return by_domain.item(by_domain.argmin())  # faster than min()

    def with_changes(self, changes: Changes) -> Int64:
        """Return the matching pods by domain, a what-if's changes counted in."""
        pods = self.pods.copy()
        for value, change in changes.items():
            pods[self.topology.id_of(value)] += change
        return pods

    def over_domains(self, changes: Changes) -> NDArray[np.int8]:
        """Return int8 codes by domain, the last for nodes without the label."""
        pods = self.with_changes(changes) if changes else self.pods
        by_domain = (pods > self.room(pods)).view(np.int8)  # False and True are 0 and SKEW_CODE
        by_domain[-1] = LABEL_CODE
        return by_domain

    def code(self, changes: Changes, node: NodeView) -> int:
        """Return the code of one node."""
        value = node.labels.get(self.constraint.topology_key)
        if value is None:
            return LABEL_CODE
        pods = self.with_changes(changes) if changes else self.pods
        domain = self.topology.id_of(value)
        return SKEW_CODE if domain >= 0 and pods[domain] > self.room(pods) else 0


class SpreadFilterState:
    """The constraints of a cycle, and a what-if's changes to them."""

    __slots__ = ("_changes", "_spreads")

    def __init__(self, spreads: tuple[Spread, ...], changes: tuple[Changes, ...] | None = None) -> None:
        self._spreads = spreads
        self._changes = changes if changes is not None else tuple({} for _ in spreads)

    def clone(self) -> "SpreadFilterState":
        """Return a copy for a what-if."""
        return SpreadFilterState(self._spreads, tuple(dict(changes) for changes in self._changes))

    def counts(self, pod: PodInfo, other: PodInfo) -> bool:
        """Say whether `other` matches a constraint, so that it counts on some nodes."""
        if other.namespace != pod.namespace:
            return False
        return any(spread.constraint.selector.matches(other.labels) for spread in self._spreads)

    def change(self, pod: PodInfo, other: PodInfo, node: NodeView, amount: int) -> None:
        """Count `other` on a node, or take it off. Pods being deleted change the counts too, as they do upstream."""
        if other.namespace != pod.namespace:
            return
        includes: dict[Inclusion, bool] = {}  # a handful: constraints share them
        for spread, changes in zip(self._spreads, self._changes, strict=True):
            if not spread.constraint.selector.matches(other.labels):
                continue
            if spread.included not in includes:
                includes[spread.included] = spread.included.includes(node.node)
            if includes[spread.included]:
                value = node.labels[spread.constraint.topology_key]
                changes[value] = changes.get(value, 0) + amount

    def codes(self, rows: Rows) -> Codes:
        """Return int32 codes of shape (len(rows),): that of the first constraint that a node fails."""
        found: Codes | None = None
        for spread, changes in zip(self._spreads, self._changes, strict=True):
            codes = spread.topology.gather_codes(spread.over_domains(changes), rows)
            found = codes if found is None else np.where(found, found, codes)
        assert found is not None, "a filter without constraints is skipped"
        return found

    def domains(self) -> OverDomains | None:
        """Return the codes by domain, where one constraint over a few domains is all there is; else None."""
        if len(self._spreads) != 1 or not self._spreads[0].topology.is_coarse:
            return None
        return OverDomains.of(self._spreads[0].topology, self._spreads[0].over_domains(self._changes[0]))

    def taking_domains(self) -> Ids | None:
        """Return by row the domain that it counts for, -1 for none, where the emptiest of them takes any pod.

        It does where one constraint is all there is: the emptiest domain does not exceed itself, and maxSkew is 1 at
        least. With minDomains the emptiest may count as if it were emptier still. None where it may not.
        """
        if len(self._spreads) != 1 or self._spreads[0].constraint.min_domains > 1:
            return None
        return self._spreads[0].topology.counted

    def status(self, node: NodeView) -> Status | None:
        """Return what the first constraint that a node fails says of it."""
        for spread, changes in zip(self._spreads, self._changes, strict=True):
            code = spread.code(changes, node)
            if code:
                return STATUS_BY_CODE[code]
        return None
