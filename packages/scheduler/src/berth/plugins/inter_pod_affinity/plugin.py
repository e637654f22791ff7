"""The InterPodAffinity plugin; see the package's docstring."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

import msgspec

from berth.api.recent import Recent
from berth.api.selectors import SelectorError
from berth.config.errors import invalid
from berth.framework.cycle_state import CycleState
from berth.framework.events import ClusterEventWithHint
from berth.framework.handle import Handle
from berth.framework.interface import (
    ColumnFilterPlugin,
    ColumnScorePlugin,
    DomainCodes,
    DomainFilterPlugin,
    DomainScorePlugin,
    EventsPlugin,
    FeasibleNodes,
    FilterColumn,
    FilterPlugin,
    NormalizeScorePlugin,
    OverDomains,
    PodWhatIfPlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Rows,
    ScorePlugin,
    Scores,
    SignaturePlugin,
    VersionedPreFilterPlugin,
    VersionedPreScorePlugin,
    same_for_all,
)
from berth.framework.promises import Dependencies, Dependency, Promises
from berth.framework.status import SKIP, Status, error, unresolvable
from berth.plugins.inter_pod_affinity.domains import ByKey, Weighted, summed
from berth.plugins.inter_pod_affinity.hints import AffinityHints
from berth.plugins.inter_pod_affinity.preferred_terms import AffinityScoreState, normalized
from berth.plugins.inter_pod_affinity.required_terms import STATUS_BY_CODE, AffinityFilterState, CountsByDomain, Demands
from berth.state.node_view import NodeView
from berth.state.pod_index import (
    PREFERRED_AFFINITY,
    PREFERRED_ANTI_AFFINITY,
    REQUIRED_AFFINITY,
    REQUIRED_ANTI_AFFINITY,
    TermGroup,
    TermKind,
)
from berth.state.pod_info import REQUESTS, PodInfo
from berth.state.table import NodeTable
from berth.state.topology import Topologies

MAX_HARD_WEIGHT = 100


class InterPodAffinityArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How much running pods' terms count in scoring.

    `hard_pod_affinity_weight` is what a running pod's required term adds where it matches the incoming pod;
    `ignore_preferred_terms_of_existing_pods` leaves scoring out for pods without preferred terms of their own.
    """

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def validate(self, path: str) -> Iterable[str]:
        """Name a weight out of range."""
        if not 0 <= self.hard_pod_affinity_weight <= MAX_HARD_WEIGHT:
            where = f"{path}.hardPodAffinityWeight"
            yield invalid(where, self.hard_pod_affinity_weight, f"not in valid range [0, {MAX_HARD_WEIGHT}]")


NOT_PREPARED = 'failed to read "PreScoreInterPodAffinity" from cycleState: not found'
"""Score's error in a profile that enables the plugin there and not at PreScore."""
UNFILTERED = 'reading "PreFilterInterPodAffinity" from cycleState: not found'
"""Filter's error in a profile that enables the plugin there and not at PreFilter."""


class CarriedBy(NamedTuple):
    """The terms of running pods that select the pods of one set of labels.

    They are those of one `terms_version`: with another, terms may have come or gone, while the weights by row that each
    holds follow the pods that carry it.
    """

    forbidding: tuple[Weighted, ...]
    """Required anti-affinity."""
    weighing: tuple[Weighted, ...]
    """What counts in scores."""
    speaking: bool
    """Whether any term counts in scores, or would with another weight of required ones."""


MAX_CARRIED = 1024
"""For how many kinds of pods the terms that select them are remembered."""

_TERMS_AND_DOMAINS: Dependencies = frozenset({Dependency.NODE, Dependency.PODS_ANYWHERE, Dependency.ALL_NODES})


class InterPodAffinity(
    PreFilterPlugin,
    VersionedPreFilterPlugin,
    PreFilterExtensions,
    FilterPlugin,
    ColumnFilterPlugin,
    DomainFilterPlugin,
    PodWhatIfPlugin,
    PreScorePlugin,
    VersionedPreScorePlugin,
    ScorePlugin,
    ColumnScorePlugin,
    DomainScorePlugin,
    NormalizeScorePlugin,
    SignaturePlugin,
    EventsPlugin,
):
    """PreFilter (with AddPod, RemovePod), Filter, PreScore, Score, NormalizeScore."""

    name: ClassVar[str] = "InterPodAffinity"
    args_type: ClassVar[type[msgspec.Struct]] = InterPodAffinityArgs
    promises: ClassVar[Promises] = Promises(
        filter_depends_on=_TERMS_AND_DOMAINS,
        score_depends_on=_TERMS_AND_DOMAINS,
        filters_by_affecting_pods=True,
        filters_by_domain=True,
        scores_by_domain=True,
        ignores=frozenset({REQUESTS}),
        pre_filter_has_version=True,
        pre_score_has_version=True,
        hints_by_shape=True,
    )

    status_by_code: ClassVar[Mapping[int, Status]] = STATUS_BY_CODE

    _FILTER_KEY: ClassVar[str] = "InterPodAffinity/filter"
    _SCORE_KEY: ClassVar[str] = "InterPodAffinity/score"

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        self._index = handle.cache.index
        self._topologies = Topologies.shared(handle.cache.table)
        self._hard_weight = args.hard_pod_affinity_weight
        self._ignores_existing = args.ignore_preferred_terms_of_existing_pods
        self._carried: Recent[Hashable, CarriedBy] = Recent(MAX_CARRIED)
        """By what selectors see of a pod; all as of `_carried_version`."""
        self._carried_version = -1

    def signature(self, pod: PodInfo) -> Hashable | None:
        """Labels, which running pods' terms look at, and the pod's own terms."""
        if not pod.has_pod_affinity:
            return pod.label_key
        found = pod.fragments.get(self)
        if found is None:
            found = pod.fragments[self] = _signature(pod)
        return found

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult | Status | None:
        """Sum the pods that matter by domain. Skip if the pod has no required terms and no running pod's match it."""
        forbidding = self._carried_for(pod).forbidding
        existing = summed(self._topologies, forbidding) if forbidding else {}
        if not pod.has_pod_affinity:
            if not existing:
                return SKIP
            demands = Demands(pod, self._index.namespaces, TermGroup(()), ())
        else:
            try:
                affinity, anti_affinity = pod.required_affinity_terms, pod.required_anti_affinity_terms
            except SelectorError as unreadable:
                return unresolvable(f"parsing pod: {unreadable}")
            if not (existing or affinity or anti_affinity):
                return SKIP
            demands = Demands(pod, self._index.namespaces, TermGroup(affinity), anti_affinity)
        wanted, unwanted = self._wanted(demands), self._unwanted(demands)
        state.write(
            self._FILTER_KEY,
            AffinityFilterState(
                demands, self._topologies, CountsByDomain(wanted), CountsByDomain(unwanted), CountsByDomain(existing)
            ),
        )
        return None

    def pre_filter_version(self, pod: PodInfo) -> int | None:
        """Skip pods that require nothing and that no running pod's term forbids, until running pods' terms change."""
        try:
            requires = pod.has_pod_affinity and (pod.required_affinity_terms or pod.required_anti_affinity_terms)
        except SelectorError:
            return None
        silent = not requires and not self._carried_for(pod).forbidding
        return self._index.terms_version if silent else None

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeView) -> Status | None:
        """Count a pod in a what-if."""
        return self._change(state, added, node, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeView) -> Status | None:
        """Take a pod off in a what-if."""
        return self._change(state, removed, node, -1)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Reject a node outside the domains that the pod needs, or inside one that anti-affinity of a side excludes."""
        prepared: AffinityFilterState | None = state.get(self._FILTER_KEY)
        if prepared is None:
            return error(UNFILTERED)
        code = prepared.code(node)
        return self.status_by_code[code] if code else None

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Return int32 codes of shape (len(rows),): 1 running pods forbid it, 2 anti-affinity, 3 affinity."""
        prepared: AffinityFilterState | None = state.get(self._FILTER_KEY)
        if prepared is None:
            return same_for_all(error(UNFILTERED), table, rows)
        return FilterColumn(prepared.codes(rows), self.status_by_code.__getitem__)

    def filter_domains(self, state: CycleState, pod: PodInfo) -> DomainCodes | None:
        """Return the same by domain, where all terms name one key with a few domains."""
        prepared: AffinityFilterState | None = state.get(self._FILTER_KEY)
        found = None if prepared is None else prepared.domains()
        return None if found is None else DomainCodes(found, self.status_by_code.__getitem__)

    def is_affected_by(self, state: CycleState, pod: PodInfo, other: PodInfo) -> bool:
        """Say whether the required terms of either pod match the other."""
        prepared: AffinityFilterState | None = state.get(self._FILTER_KEY)
        try:
            return prepared is not None and prepared.speaks_of(other)
        except SelectorError:
            return True

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> Status | None:
        """Sum the weights by domain; skip where no term contributes."""
        try:
            own = list(self._own_preferences(pod)) if pod.has_pod_affinity else []
        except SelectorError as unreadable:
            return error(f"parsing pod: {unreadable}")
        if not own and self._ignores_existing:
            return SKIP
        weighted = [*own, *self._carried_for(pod).weighing]
        weights = summed(self._topologies, weighted) if weighted else None
        if not weights:
            return SKIP
        state.write(self._SCORE_KEY, AffinityScoreState(weights))
        return None

    def pre_score_version(self, pod: PodInfo) -> int | None:
        """Skip pods that prefer nothing and that no term which counts in scores matches, until running pods' terms
        change."""
        try:
            prefers = pod.has_pod_affinity and (pod.preferred_affinity_terms or pod.preferred_anti_affinity_terms)
        except SelectorError:
            return None
        silent = not prefers and not self._carried_for(pod).speaking
        return self._index.terms_version if silent else None

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Return the sum of the weights in the node's domains; may be negative."""
        return self._score_state(state).of_node(node)

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores | Status:
        """Return int64 of shape (len(rows),): the weights in the node's domains, summed; an error without PreScore."""
        prepared: AffinityScoreState | None = state.get(self._SCORE_KEY)
        return error(NOT_PREPARED) if prepared is None else prepared.column(rows)

    def score_domains(self, state: CycleState, pod: PodInfo) -> OverDomains | None:
        """Return the same by domain, where all terms name one key with a few domains."""
        prepared: AffinityScoreState | None = state.get(self._SCORE_KEY)
        return None if prepared is None else prepared.domains()

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """Give 0 to the worst and 100 to the best node."""
        return normalized(scores)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register changes of pods and namespaces that terms may match, and of nodes and their labels."""
        return AffinityHints(self._index).events()

    def _wanted(self, demands: Demands) -> ByKey:
        if not demands.affinity.terms:
            return {}
        pods = self._index.group(demands.affinity)
        return summed(self._topologies, [Weighted(key, pods) for key in demands.affinity_keys])

    def _unwanted(self, demands: Demands) -> ByKey:
        terms = demands.anti_affinity
        return summed(
            self._topologies, [Weighted(term.topology_key, self._index.group(TermGroup((term,)))) for term in terms]
        )

    def _carried_for(self, pod: PodInfo) -> "CarriedBy":
        """Return the terms of running pods that select `pod`; the next pod alike is answered from memory."""
        version = self._index.terms_version
        if self._carried_version != version:
            self._carried.clear()
            self._carried_version = version
        found = self._carried.get(pod.label_key)
        if found is None:
            found = self._find_carried(pod)
            if not pod.shape.is_large:
                self._carried.put(pod.label_key, found, pod.shape.size)
        return found

    def _find_carried(self, pod: PodInfo) -> "CarriedBy":
        required = self._matching(REQUIRED_AFFINITY, pod, self._hard_weight)
        preferred = self._matching(PREFERRED_AFFINITY, pod, 1) + self._matching(PREFERRED_ANTI_AFFINITY, pod, -1)
        return CarriedBy(
            forbidding=tuple(self._matching(REQUIRED_ANTI_AFFINITY, pod, 1)),
            weighing=(*(required if self._hard_weight else ()), *preferred),
            speaking=bool(required or preferred),
        )

    def _matching(self, kind: TermKind, pod: PodInfo, weight: int) -> list[Weighted]:
        carried = self._index.matching_terms(kind, pod)
        return [Weighted(found.term.topology_key, found, weight) for found in carried]

    def _own_preferences(self, pod: PodInfo) -> Iterator[Weighted]:
        """Yield the pods that preferred terms match, weighted. Raises `SelectorError`."""
        for terms, sign in ((pod.preferred_affinity_terms, 1), (pod.preferred_anti_affinity_terms, -1)):
            for term, weight in terms:
                yield Weighted(term.topology_key, self._index.group(TermGroup((term,))), sign * weight)

    def _change(self, state: CycleState, other: PodInfo, node: NodeView, amount: int) -> Status | None:
        try:
            self._filter_state(state).change(other, node, amount)
        except SelectorError as unreadable:
            return error(f"parsing pod {other.key}: {unreadable}")
        return None

    def _filter_state(self, state: CycleState) -> AffinityFilterState:
        found: AffinityFilterState = state.read(self._FILTER_KEY)
        return found

    def _score_state(self, state: CycleState) -> AffinityScoreState:
        found: AffinityScoreState = state.read(self._SCORE_KEY)
        return found


def _signature(pod: PodInfo) -> Hashable | None:
    try:
        return (
            pod.label_key,
            pod.required_affinity_terms,
            pod.required_anti_affinity_terms,
            pod.preferred_affinity_terms,
            pod.preferred_anti_affinity_terms,
        )
    except SelectorError:
        return None
