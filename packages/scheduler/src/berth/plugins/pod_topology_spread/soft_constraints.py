"""ScheduleAnyway constraints: the fewer matching pods in a node's domains, the better.

A domain's pods weigh more the more domains there are (`log(domains + 2)`), so that counts by zone do not outweigh those
by host. Pods on a host are counted on each node directly, whether or not the node counts for other keys.
"""

from math import floor, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.framework.interface import MAX_NODE_SCORE, FeasibleNodes, OverDomains, Rows, Scores
from berth.plugins.normalize import mapped
from berth.plugins.pod_topology_spread.args import HOSTNAME_KEY
from berth.plugins.pod_topology_spread.constraints import Mask, SpreadConstraint, counting_selector
from berth.state.label_index import ABSENT
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo
from berth.state.topology import Int64, Topology

Float64 = NDArray[np.float64]


def domain_weight(domain_count: int) -> float:
    """Return how much one pod in a domain weighs, given the number of domains."""
    return log(domain_count + 2)


def score_of_count(count: int, max_skew: int, weight: float) -> float:
    """Return what a domain with `count` matching pods adds to a node's raw score; less is better."""
    return count * weight + (max_skew - 1)


HALF_UP = 0.5
"""Added before the fraction is cut off, which rounds non-negative numbers as Go's math.Round does."""


def rounded(scores: Float64, rounding: float) -> Scores:
    """Round an array of non-negative numbers, overwriting it; return int64 of the same shape."""
    if rounding:
        scores += rounding
    return scores.astype(np.int64)


def normalized(scores: Scores, ignored: Mask | None) -> Scores:
    """Reverse raw int64 scores of shape (n,) to the scale of 0 to 100; ignored nodes get 0."""
    counted = scores if ignored is None else scores[~ignored]
    if not len(counted):
        return np.zeros(len(scores), dtype=np.int64)
    least, most = counted.item(counted.argmin()), counted.item(counted.argmax())  # faster than min() and max()
    if most == 0:
        found: Scores = np.full(len(scores), MAX_NODE_SCORE, dtype=np.int64)
    else:
        found = mapped(scores, least, most, lambda raw: turned(raw, least, most))
    if ignored is not None:
        found[ignored] = 0
    return found


def turned(raw: Scores, least: int, most: int) -> Scores:
    """Return `100 * (most + least - raw) / most` truncated, which float64 gets right below 2**53."""
    return (float(MAX_NODE_SCORE) * (float(most + least) - raw) / float(most)).astype(np.int64)


class Preference(NamedTuple):
    """One constraint of a cycle: its domains over all nodes, the matching pods, and a pod's weight."""

    constraint: SpreadConstraint
    labelled: Topology
    pods: Int64
    """By domain; by row where each node's own pods are counted."""
    weight: float

    @property
    def by_host(self) -> bool:
        """Say whether each node's own pods are counted."""
        return self.constraint.topology_key == HOSTNAME_KEY

    def by_domain(self) -> Float64:
        """Return float64 by domain, what it adds to the score; 0 for nodes without the label."""
        scores: Float64 = np.multiply(self.pods, self.weight, dtype=np.float64)
        scores += float(self.constraint.max_skew - 1)
        scores[-1] = 0.0
        return scores

    def column(self, rows: Rows) -> Float64:
        """Return float64 of shape (len(rows),)."""
        if not self.by_host:
            return self.labelled.gather(self.by_domain(), rows)
        scores: Float64 = np.multiply(self.pods[rows], self.weight, dtype=np.float64)
        scores += float(self.constraint.max_skew - 1)
        if not self.labelled.complete:
            scores[self.labelled.ids[rows] == ABSENT] = 0.0
        return scores

    def of_node(self, pod: PodInfo, node: NodeView) -> float:
        """Return what the constraint adds to the score of one node."""
        value = node.labels.get(self.constraint.topology_key)
        if value is None:
            return 0.0
        if self.by_host:
            count = _matching_pods(self.constraint, pod, node)
        else:
            domain = self.labelled.id_of(value)
            count = int(self.pods[domain]) if domain != ABSENT else 0
        return score_of_count(count, self.constraint.max_skew, self.weight)


def _matching_pods(constraint: SpreadConstraint, pod: PodInfo, node: NodeView) -> int:
    selector = counting_selector(constraint)
    return sum(
        other.namespace == pod.namespace and not other.is_terminating and selector.matches(other.labels)
        for other in node.pods.values()
    )


class SpreadScoreState:
    """The soft constraints of a cycle, and which feasible nodes they ignore."""

    __slots__ = ("_preferences", "_requires_all", "_rounding", "ignored")

    def __init__(
        self,
        preferences: tuple[Preference, ...],
        requires_all: bool,
        ignored: Mask | None,
        rounding: float = HALF_UP,
    ) -> None:
        self._rounding = rounding
        self._preferences = preferences
        self._requires_all = requires_all
        self.ignored = ignored
        """By feasible row, whether the node lacks a label; None where none does."""

    def column(self, rows: Rows) -> Scores:
        """Return raw scores, int64 of shape (len(rows),)."""
        if len(self._preferences) == 1 and not self._preferences[0].by_host:
            only = self._preferences[0]
            return only.labelled.gather(rounded(only.by_domain(), self._rounding), rows)
        total = self._preferences[0].column(rows)
        for preference in self._preferences[1:]:
            total += preference.column(rows)
        scores = rounded(total, self._rounding)
        ignored = missing_labels([p.labelled for p in self._preferences], rows) if self._requires_all else None
        if ignored is not None:
            scores[ignored] = 0
        return scores

    def domains(self) -> OverDomains | None:
        """Return the raw scores by domain, where one constraint over a few domains is all there is; else None."""
        only = self._preferences[0]
        if len(self._preferences) != 1 or only.by_host or not only.labelled.is_coarse:
            return None
        return OverDomains.of(only.labelled, rounded(only.by_domain(), self._rounding))

    def of_node(self, pod: PodInfo, node: NodeView) -> int:
        """Return the raw score of one node."""
        if self._requires_all and any(p.constraint.topology_key not in node.labels for p in self._preferences):
            return 0
        return floor(sum((p.of_node(pod, node) for p in self._preferences), 0.0) + self._rounding)


def missing_labels(labelled: list[Topology], rows: Rows) -> Mask | None:
    """Return by row, bool of shape (len(rows),), whether a node lacks any of the labels; None where none can."""
    found: Mask | None = None
    for topology in labelled:
        if not topology.complete:
            missing: Mask = topology.ids[rows] == ABSENT
            found = missing if found is None else found | missing
    return found if found is not None and found.any() else None


def candidate_domains(labelled: Topology, nodes: FeasibleNodes, ignored: Mask | None) -> int:
    """Return how many domains the feasible nodes that are not ignored are in.

    Nodes without the label count as one domain too, if they are not ignored.
    """
    if labelled.key == HOSTNAME_KEY:
        return nodes.count - (int(np.count_nonzero(ignored)) if ignored is not None else 0)
    if ignored is None and nodes.count == len(nodes.table) and labelled.complete:
        return labelled.domain_count
    ids = labelled.ids[nodes.rows]
    present = np.zeros(labelled.size, dtype=np.bool_)
    present[ids if ignored is None else ids[~ignored]] = True
    return int(np.count_nonzero(present))
