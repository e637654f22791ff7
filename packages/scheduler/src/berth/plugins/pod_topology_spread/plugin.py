"""The PodTopologySpread plugin; see the package's docstring."""

from collections.abc import Hashable, Sequence
from typing import ClassVar, cast

import msgspec

from berth.api.selectors import Selector, SelectorError
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
from berth.framework.promises import Dependency, Objects, Promises
from berth.framework.status import SKIP, Status, error
from berth.plugins.pod_topology_spread.args import (
    DO_NOT_SCHEDULE,
    HOSTNAME_KEY,
    SCHEDULE_ANYWAY,
    SYSTEM,
    PodTopologySpreadArgs,
)
from berth.plugins.pod_topology_spread.constraints import (
    Counted,
    Inclusions,
    SpreadConstraint,
    compile_constraints,
    counted,
    topology_of,
)
from berth.plugins.pod_topology_spread.defaults import KINDS, DefaultSelectors, controller_of
from berth.plugins.pod_topology_spread.hard_constraints import STATUS_BY_CODE, Spread, SpreadFilterState
from berth.plugins.pod_topology_spread.hints import SpreadHints
from berth.plugins.pod_topology_spread.soft_constraints import (
    HALF_UP,
    Preference,
    SpreadScoreState,
    candidate_domains,
    domain_weight,
    missing_labels,
    normalized,
)
from berth.state.node_view import NodeView
from berth.state.pod_info import REQUESTS, PodInfo
from berth.state.table import NodeTable
from berth.state.topology import Ids, Topologies, Topology

NOT_PREPARED = 'error reading "PreScorePodTopologySpread" from cycleState: not found'
"""Score's error in a profile that enables the plugin there and not at PreScore."""
UNFILTERED = 'reading "PreFilterPodTopologySpread" from cycleState: not found'
"""Filter's error in a profile that enables the plugin there and not at PreFilter."""

DEFAULTING = "defaulting"
"""Part of the keys under which a pod keeps the default constraints chosen for it."""
COUNTED = "counted"
"""Part of the keys under which it keeps what its constraints count."""


class PodTopologySpread(
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

    name: ClassVar[str] = "PodTopologySpread"
    args_type: ClassVar[type[msgspec.Struct]] = PodTopologySpreadArgs
    promises: ClassVar[Promises] = Promises(
        filter_depends_on=frozenset({Dependency.NODE, Dependency.PODS_ANYWHERE, Dependency.ALL_NODES, Objects(KINDS)}),
        score_depends_on=frozenset({Dependency.FEASIBLE_SET}),
        filters_by_affecting_pods=True,
        filters_by_domain=True,
        scores_by_domain=True,
        ignores=frozenset({REQUESTS}),
        pre_filter_has_version=True,
        pre_score_has_version=True,
        hints_by_shape=True,
    )

    rounding: ClassVar[float] = HALF_UP

    _FILTER_KEY: ClassVar[str] = "PodTopologySpread/filter"
    _SCORE_KEY: ClassVar[str] = "PodTopologySpread/score"

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        self._index = handle.cache.index
        self._topologies = Topologies.shared(handle.cache.table)
        self._selectors = DefaultSelectors(handle.objects)
        self._defaults = args.constraints()
        self._actions = frozenset(constraint.when_unsatisfiable for constraint in self._defaults)
        self._system_defaults = args.defaulting_type == SYSTEM
        self._match_label_keys = handle.features.enabled("MatchLabelKeysInPodTopologySpread")
        self._compare_numbers = handle.features.enabled("TaintTolerationComparisonOperators")

    def signature(self, pod: PodInfo) -> Hashable:
        """Return what hard constraints depend on: the pod's own, or what the default ones are chosen by."""
        found = pod.fragments.get(self)
        if found is None:
            found = pod.fragments[self] = self._signature(pod)
        return found

    def _signature(self, pod: PodInfo) -> Hashable:
        if not pod.spec.topology_spread_constraints and not self._has_defaults(DO_NOT_SCHEDULE):
            return ()
        affinity = pod.spec.affinity
        nodes = (frozenset(pod.spec.node_selector.items()), affinity and affinity.node_affinity, pod.spec.tolerations)
        if not pod.spec.topology_spread_constraints:
            return (pod.label_key, controller_of(pod), nodes)
        try:
            constraints = self._constraints(pod, DO_NOT_SCHEDULE)
        except SelectorError:
            return None
        return (pod.namespace, constraints, tuple(c.selector.matches(pod.labels) for c in constraints), nodes)

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult | Status | None:
        """Count the matching pods by domain; skip pods without hard constraints."""
        try:
            constraints = self._constraints(pod, DO_NOT_SCHEDULE)
        except SelectorError as unreadable:
            return error(f"get constraints from pod: {unreadable}")
        if not constraints:
            return SKIP
        counted = self._counted(pod, constraints, DO_NOT_SCHEDULE, requires_all=True)
        state.write(self._FILTER_KEY, SpreadFilterState(tuple([self._spread(each) for each in counted])))
        return None

    def pre_filter_version(self, pod: PodInfo) -> int:
        """Skip pods without hard constraints, until a Service or an owner brings the default ones."""
        return self._version(pod, DO_NOT_SCHEDULE)

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeView) -> Status | None:
        """Count a pod in a what-if."""
        self._filter_state(state).change(pod, added, node, 1)
        return None

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeView) -> Status | None:
        """Take a pod off in a what-if."""
        self._filter_state(state).change(pod, removed, node, -1)
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Reject a node whose domain would have too many matching pods, or that is in no domain."""
        prepared: SpreadFilterState | None = state.get(self._FILTER_KEY)
        return error(UNFILTERED) if prepared is None else prepared.status(node)

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Return int32 codes of shape (len(rows),): 1 too many pods in the domain, 2 no label."""
        prepared: SpreadFilterState | None = state.get(self._FILTER_KEY)
        if prepared is None:
            return same_for_all(error(UNFILTERED), table, rows)
        return FilterColumn(prepared.codes(rows), STATUS_BY_CODE.__getitem__)

    def filter_domains(self, state: CycleState, pod: PodInfo) -> DomainCodes | None:
        """Return the same by domain, where there is one constraint over a few domains."""
        prepared: SpreadFilterState | None = state.get(self._FILTER_KEY)
        found = None if prepared is None else prepared.domains()
        return None if found is None else DomainCodes(found, STATUS_BY_CODE.__getitem__)

    def is_affected_by(self, state: CycleState, pod: PodInfo, other: PodInfo) -> bool:
        """Say whether `other` is one of the pods that are spread."""
        prepared: SpreadFilterState | None = state.get(self._FILTER_KEY)
        return prepared is not None and prepared.counts(pod, other)

    def taking_domains(self, state: CycleState) -> Ids | None:
        """Return by row the domain that it counts for, -1 for none, where Filter never keeps a pod from the emptiest.

        None where it may, and where the pod has no hard constraints.
        """
        prepared: SpreadFilterState | None = state.get(self._FILTER_KEY)
        return None if prepared is None else prepared.taking_domains()

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> Status | None:
        """Count the matching pods by domain; skip pods without soft constraints."""
        try:
            constraints = self._constraints(pod, SCHEDULE_ANYWAY)
        except SelectorError as unreadable:
            return error(f"calculating preScoreState: obtaining pod's soft topology spread constraints: {unreadable}")
        if not constraints or not len(nodes.table):
            return SKIP
        state.write(self._SCORE_KEY, self._score_state(pod, constraints, self._requires_all_labels(pod), nodes))
        return None

    def pre_score_version(self, pod: PodInfo) -> int:
        """Skip pods without soft constraints for as long as the default constraints stay as they are."""
        return self._version(pod, SCHEDULE_ANYWAY)

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Return the weighted count of matching pods in the node's domains; less is better."""
        return self._score_state_of(state).of_node(pod, node)

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores | Status:
        """Return int64 of shape (len(rows),): the weighted count of matching pods; an error where PreScore is off."""
        prepared: SpreadScoreState | None = state.get(self._SCORE_KEY)
        return error(NOT_PREPARED) if prepared is None else prepared.column(rows)

    def score_domains(self, state: CycleState, pod: PodInfo) -> OverDomains | None:
        """Return the same by domain, where there is one constraint over a few domains."""
        prepared: SpreadScoreState | None = state.get(self._SCORE_KEY)
        return None if prepared is None else prepared.domains()

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """Reverse the scale, so that fewer pods score higher; nodes that lack a label get 0."""
        return normalized(scores, self._score_state_of(state).ignored)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register matching pods that come, go or change, and nodes that enter, leave or move between domains."""
        return SpreadHints(self._hard_constraints, self._has_defaults(DO_NOT_SCHEDULE), self._compare_numbers).events()

    def _requires_all_labels(self, pod: PodInfo) -> bool:
        """Say whether nodes that lack a label are left out; the built-in constraints still spread them by host."""
        return bool(pod.spec.topology_spread_constraints) or not self._system_defaults

    def _hard_constraints(self, pod: PodInfo) -> tuple[SpreadConstraint, ...]:
        return self._constraints(pod, DO_NOT_SCHEDULE)

    def _has_defaults(self, action: str) -> bool:
        return action in self._actions

    def _version(self, pod: PodInfo, action: str) -> int:
        if pod.spec.topology_spread_constraints or not self._has_defaults(action):
            return 0
        return self._selectors.version(pod)

    def _constraints(self, pod: PodInfo, action: str) -> tuple[SpreadConstraint, ...]:
        """Return the pod's own constraints of a kind, or the default ones. Raises `SelectorError`."""
        own = pod.spec.topology_spread_constraints
        if own:
            return self._compiled(pod, action)
        if not self._has_defaults(action):
            return ()
        selector = self._selectors.selector_of(pod)
        if selector is None:
            return ()
        key = (self, DEFAULTING, action)
        known = cast("tuple[Selector, tuple[SpreadConstraint, ...]] | None", pod.fragments.get(key))
        if known is None or known[0] is not selector:
            defaults = compile_constraints(self._defaults, action, pod.labels, match_label_keys=False)
            known = selector, tuple([constraint._replace(selector=selector) for constraint in defaults])
            pod.fragments[key] = known
        return known[1]

    def _compiled(self, pod: PodInfo, action: str) -> tuple[SpreadConstraint, ...]:
        known = pod.fragments.get((self, action))
        if known is None:
            own = pod.spec.topology_spread_constraints
            known = compile_constraints(own, action, pod.labels, self._match_label_keys)
            pod.fragments[self, action] = known
        return cast("tuple[SpreadConstraint, ...]", known)

    def _counted(
        self, pod: PodInfo, constraints: tuple[SpreadConstraint, ...], action: str, *, requires_all: bool
    ) -> tuple[Counted, ...]:
        """Return which pods on which nodes the constraints of a pod count: the same for all pods of its shape."""
        key = (self, COUNTED, action)
        known = cast("tuple[tuple[SpreadConstraint, ...], tuple[Counted, ...]] | None", pod.fragments.get(key))
        if known is None or known[0] != constraints:
            keys = (constraint.topology_key for constraint in constraints) if requires_all else ()
            inclusions = Inclusions(keys, pod, self._compare_numbers)
            known = constraints, tuple([counted(constraint, inclusions, pod) for constraint in constraints])
            pod.fragments[key] = known
        return known[1]

    def _spread(self, counted: Counted) -> Spread:
        constraint, included, group, matches_itself = counted
        topology = topology_of(self._topologies, constraint.topology_key, included)
        return Spread(
            constraint, included, topology, self._index.group(group).by_domain(topology).values, matches_itself
        )

    def _score_state(
        self, pod: PodInfo, constraints: tuple[SpreadConstraint, ...], requires_all: bool, nodes: FeasibleNodes
    ) -> SpreadScoreState:
        labelled = [self._topologies.get(constraint.topology_key) for constraint in constraints]
        # Which rows are left is worked out only where it matters.
        some_lack = requires_all and not all([topology.complete for topology in labelled])  # noqa: C419 (faster)
        ignored = missing_labels(labelled, nodes.rows) if some_lack else None
        counting = list(
            zip(self._counted(pod, constraints, SCHEDULE_ANYWAY, requires_all=requires_all), labelled, strict=True)
        )
        if not requires_all:  # a label that no node has adds nothing to any of them
            counting = [each for each in counting if not each[1].is_empty] or counting
        preferences = [
            self._preference(counted, over_all, domain_weight(candidate_domains(over_all, nodes, ignored)))
            for counted, over_all in counting
        ]
        return SpreadScoreState(tuple(preferences), requires_all, ignored, self.rounding)

    def _preference(self, counted: Counted, labelled: Topology, weight: float) -> Preference:
        constraint, included, group, _ = counted
        pods = self._index.group(group)
        if constraint.topology_key == HOSTNAME_KEY:
            return Preference(constraint, labelled, pods.counts, weight)
        topology = topology_of(self._topologies, constraint.topology_key, included)
        return Preference(constraint, labelled, pods.by_domain(topology).values, weight)

    def _filter_state(self, state: CycleState) -> SpreadFilterState:
        found: SpreadFilterState = state.read(self._FILTER_KEY)
        return found

    def _score_state_of(self, state: CycleState) -> SpreadScoreState:
        found: SpreadScoreState = state.read(self._SCORE_KEY)
        return found
