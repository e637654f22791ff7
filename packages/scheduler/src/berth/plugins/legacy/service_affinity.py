"""ServiceAffinity of v1.20: pods of one service share, or avoid sharing, the values of node labels.

The policy arguments serviceAffinity (Filter) and serviceAntiAffinity (Score) configure it. Filter: labels that the
pod's nodeSelector does not fix are taken from the node of the first running pod with all labels of this one, in the
order of nodes and then of arrival, if a service selects the pod. Score: the fewer of the service's pods in a label's
domain, the better. Where several services select a pod, Score uses the one that came first.
Deviation: pods that are only nominated are passed over; upstream's attempt ended in an error there.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, final

import msgspec
import numpy as np

from berth.api.node import Service
from berth.api.selectors import Requirement, Selector, selector_from_map
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint
from berth.framework.handle import Handle
from berth.framework.interface import (
    MAX_NODE_SCORE,
    ColumnFilterPlugin,
    ColumnScorePlugin,
    EventsPlugin,
    FilterColumn,
    FilterPlugin,
    NormalizeScorePlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    Rows,
    ScorePlugin,
    Scores,
)
from berth.framework.promises import Dependency, Promises
from berth.framework.status import SKIP, Status, unschedulable
from berth.plugins.legacy.pods_of_owners import services_of
from berth.plugins.node_selection import requirement_mask
from berth.plugins.resources.columns import row_count
from berth.state.label_index import ABSENT
from berth.state.node_view import NodeView
from berth.state.pod_index import SelectorGroup
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

REASON = "node(s) didn't match service affinity"

_REJECTED = unschedulable(REASON)

Labels = Mapping[str, str]


class ServiceAffinityArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Node labels: shared by all pods of a service, and preferred to differ among them."""

    affinity_labels: tuple[str, ...] = ()
    anti_affinity_labels_preference: tuple[str, ...] = ()


class _Prepared:
    """What Filter needs of the pod; `removed` are pods that a what-if has taken away."""

    __slots__ = ("has_service", "removed")

    def __init__(self, has_service: bool, removed: frozenset[str] = frozenset()) -> None:
        self.has_service = has_service
        self.removed = removed

    def clone(self) -> "_Prepared":
        """Return a copy for a what-if."""
        return _Prepared(self.has_service, self.removed)


@final
class ServiceAffinity(
    PreFilterPlugin,
    PreFilterExtensions,
    FilterPlugin,
    ColumnFilterPlugin,
    ScorePlugin,
    ColumnScorePlugin,
    NormalizeScorePlugin,
    EventsPlugin,
):
    """PreFilter (with AddPod, RemovePod), Filter, Score, NormalizeScore."""

    name: ClassVar[str] = "ServiceAffinity"
    args_type: ClassVar[type[msgspec.Struct]] = ServiceAffinityArgs
    promises: ClassVar[Promises] = Promises(
        score_depends_on=frozenset({Dependency.FEASIBLE_SET}),
    )

    def __init__(self, args: ServiceAffinityArgs, handle: Handle) -> None:
        self._affinity = args.affinity_labels
        self._anti_affinity = args.anti_affinity_labels_preference
        self._objects = handle.objects
        self._index = handle.cache.index
        self._table = handle.cache.table

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Find out whether a service selects the pod; skip where no label is to be shared."""
        if not self._affinity:
            return SKIP
        state.write(self.name, _Prepared(any(True for _ in services_of(self._objects, pod))))
        return None

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeView) -> Status | None:
        """Count a pod again that the what-if had taken away."""
        prepared: _Prepared = state.read(self.name)
        prepared.removed -= {added.uid}
        return None

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeView) -> Status | None:
        """Leave a pod out in a what-if."""
        prepared: _Prepared = state.read(self.name)
        prepared.removed |= {removed.uid}
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Reject a node whose labels differ."""
        wanted = self._wanted(state, pod)
        return None if all(node.labels.get(key) == value for key, value in wanted.items()) else _REJECTED

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Return int32 codes of shape (len(rows),): 1 where a label differs."""
        codes = np.zeros(row_count(table, rows), dtype=np.int32)
        for key, value in self._wanted(state, pod).items():
            codes[~requirement_mask(table.label(key), Requirement(key, "In", (value,)), rows)] = 1
        return FilterColumn(codes, lambda _code: _REJECTED)

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Count the pods of the service on the node; those being deleted do not count."""
        selector = self._selector(pod)
        if selector is None:
            return 0
        return sum(
            other.namespace == pod.namespace and not other.is_terminating and selector.matches(other.labels)
            for other in node.pods.values()
        )

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Return int64 of shape (len(rows),): the number of pods of the service. Notes the rows for normalising."""
        state.write(f"{self.name}/rows", rows)
        selector = self._selector(pod)
        if selector is None:
            return np.zeros(row_count(table, rows), dtype=np.int64)
        group = SelectorGroup(frozenset((pod.namespace,)), (selector,), terminating=False)
        return self._index.group(group).counts[rows]

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """Give each node the mean, over the labels, of the share of the service's pods outside its domain."""
        rows: Rows = state.read(f"{self.name}/rows")
        domains = [self._table.label(label).ids[rows] for label in self._anti_affinity]
        return anti_affinity_scores(scores, domains)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        """Register pods that come, go or change, and nodes and services that come or change."""
        return (
            ClusterEventWithHint(ClusterEvent("Pod", Action.ALL)),
            ClusterEventWithHint(ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_LABEL)),
            ClusterEventWithHint(ClusterEvent("Service", Action.ALL)),
        )

    def _selector(self, pod: PodInfo) -> Selector | None:
        service: Service | None = next(services_of(self._objects, pod), None)
        return None if service is None else selector_from_map(service.spec.selector)

    def _wanted(self, state: CycleState, pod: PodInfo) -> Labels:
        """Return the labels that a node must have."""
        wanted = {key: pod.spec.node_selector[key] for key in self._affinity if key in pod.spec.node_selector}
        prepared: _Prepared | None = state.get(self.name)
        if prepared is None or not prepared.has_service or len(wanted) == len(self._affinity):
            return wanted
        labels = next(self._labels_of_peers(pod, prepared.removed), {})
        return {key: labels[key] for key in self._affinity if key in labels} | wanted

    def _labels_of_peers(self, pod: PodInfo, removed: frozenset[str]) -> Iterator[Labels]:
        """Yield the node's labels of each running pod with all labels of this one."""
        table = self._table
        selector = selector_from_map(pod.labels)
        counts = self._index.group(SelectorGroup(frozenset((pod.namespace,)), (selector,))).counts
        for row in table.tree.order():
            node = table.nodes[row]
            if node is not None and counts[row]:
                peers = (o for o in table.pods[row].values() if o.namespace == pod.namespace and o.uid not in removed)
                yield from (node.metadata.labels for peer in peers if selector.matches(peer.labels))


def anti_affinity_scores(counts: Scores, domains: Sequence[np.ndarray[tuple[int], np.dtype[np.int32]]]) -> Scores:
    """Turn pod counts, int64 (n,), and each label's domains, int32 (n,), into scores from 0 to 100."""
    total = int(counts.sum())
    scores = np.zeros(len(counts))
    for ids in domains:
        labelled = ids != ABSENT
        share = np.full(len(counts), float(MAX_NODE_SCORE))
        if total > 0 and labelled.any():
            by_domain = np.bincount(ids[labelled], weights=counts[labelled])
            share[labelled] = float(MAX_NODE_SCORE) * ((total - by_domain[ids[labelled]]) / float(total))
        scores[labelled] += share[labelled] / float(len(domains))
    return scores.astype(np.int64)
