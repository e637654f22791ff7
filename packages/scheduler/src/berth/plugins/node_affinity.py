"""NodeAffinity: a pod's nodeSelector and node affinity, and the affinity that the profile adds to every pod.

Upstream plugin `NodeAffinity`, v1.36. Where every required term names nodes by `metadata.name`, PreFilter narrows the
search to those. A required term that cannot be read matches no node; a preferred one fails the pod's scoring.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import ClassVar, cast

import msgspec
import numpy as np

from berth.api.node import Node
from berth.api.node_selector import NAME_FIELD, NodeSelectorRequirement, NodeSelectorTerm
from berth.api.pod import NodeAffinity
from berth.api.selectors import OPERATORS, SelectorError, is_label_key
from berth.config.errors import invalid
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint
from berth.framework.handle import Handle
from berth.framework.interface import (
    Codes,
    ColumnFilterPlugin,
    ColumnScorePlugin,
    EventsPlugin,
    FeasibleNodes,
    FilterColumn,
    FilterPlugin,
    NormalizeScorePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Rows,
    ScorePlugin,
    Scores,
    SignaturePlugin,
)
from berth.framework.promises import Dependency, Promises
from berth.framework.status import SKIP, Status, error, unresolvable
from berth.plugins.node_selection import (
    NodePreference,
    RequiredNodeAffinity,
    compile_preferences,
    compile_term,
    compile_terms,
    node_affinity_of,
    required_affinity,
    weight_of,
    weights,
)
from berth.plugins.normalize import default_normalize
from berth.state.node_view import NodeView
from berth.state.pod_info import LABELS, REQUESTS, PodInfo
from berth.state.table import NodeTable

REASON_POD = "node(s) didn't match Pod's node affinity/selector"
REASON_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"

ENFORCED_CODE, POD_CODE = 1, 2
_BY_CODE = {ENFORCED_CODE: unresolvable(REASON_ENFORCED), POD_CODE: unresolvable(REASON_POD)}
_NO_DEMAND = RequiredNodeAffinity(None, None)


class NodeAffinityArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """`added_affinity` must hold for every pod of the profile, beside the pod's own."""

    added_affinity: NodeAffinity | None = None

    def validate(self, path: str) -> Iterable[str]:
        """Name the terms that cannot be read."""
        if self.added_affinity is None:
            return
        here = f"{path}.addedAffinity"
        selector = self.added_affinity.required
        if selector is not None:
            where = f"{here}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
            for index, term in enumerate(selector.node_selector_terms):
                yield from _faults(term, f"{where}[{index}]")
        for index, preference in enumerate(self.added_affinity.preferred):
            where = f"{here}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
            yield from _faults(preference.preference, where)  # upstream leaves out `.preference` here


def _faults(term: NodeSelectorTerm, path: str) -> Iterable[str]:
    """Name the requirements of a term that cannot be read, and which part of them."""
    alone = [(f"matchExpressions[{i}]", r, NodeSelectorTerm((r,))) for i, r in enumerate(term.match_expressions)]
    alone += [(f"matchFields[{i}]", r, NodeSelectorTerm((), (r,))) for i, r in enumerate(term.match_fields)]
    for where, requirement, single in alone:
        try:
            compile_term(single)
        except SelectorError as unreadable:
            part = _unreadable_part(requirement, is_field=bool(single.match_fields))
            yield invalid(f"{path}.{where}.{part}", msgspec.structs.asdict(requirement)[part], str(unreadable))


def _unreadable_part(requirement: NodeSelectorRequirement, *, is_field: bool) -> str:
    """Return the field of a requirement that makes it unreadable."""
    if requirement.operator not in (("In", "NotIn") if is_field else OPERATORS):
        return "operator"
    if requirement.key != NAME_FIELD if is_field else not is_label_key(requirement.key):
        return "key"
    return "values"


def named_nodes(terms: Iterable[NodeSelectorTerm]) -> frozenset[str] | None:
    """Return the only nodes that the terms allow by `metadata.name`, or None where some term allows any name."""
    names: frozenset[str] | None = None
    for term in terms:
        named = [frozenset(r.values) for r in term.match_fields if r.key == NAME_FIELD and r.operator == "In"]
        if not named:
            return None
        names = frozenset.intersection(*named) | (names or frozenset())
    return names


class NodeAffinityPlugin(
    PreFilterPlugin,
    FilterPlugin,
    ColumnFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ColumnScorePlugin,
    NormalizeScorePlugin,
    SignaturePlugin,
    EventsPlugin,
):
    """PreFilter, Filter, PreScore, Score, NormalizeScore."""

    name: ClassVar[str] = "NodeAffinity"
    args_type: ClassVar[type[msgspec.Struct]] = NodeAffinityArgs
    promises: ClassVar[Promises] = Promises(
        filter_depends_on=frozenset({Dependency.NODE}),
        score_depends_on=frozenset({Dependency.NODE}),
        ignores=frozenset({LABELS, REQUESTS}),
        pre_filter_is_pure=True,
        pre_score_is_pure=True,
        hints_by_shape=True,
    )

    status_by_code: ClassVar[Mapping[int, Status]] = _BY_CODE

    def __init__(self, args: NodeAffinityArgs, handle: Handle) -> None:
        added = args.added_affinity or NodeAffinity()
        self._enforced = (
            _NO_DEMAND if added.required is None else RequiredNodeAffinity(None, compile_terms(added.required))
        )
        self._added_preferences = compile_preferences(added.preferred)
        self._always_scores = bool(added.preferred)

    def signature(self, pod: PodInfo) -> Hashable:
        """Return the nodeSelector and node affinity, which are all that is read of the pod."""
        found = pod.fragments.get(self.name)
        if found is None:
            found = (frozenset(pod.spec.node_selector.items()), node_affinity_of(pod.pod))
            pod.fragments[self.name] = found
        return found

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult | Status | None:
        """Skip pods that make no demand; narrow the search where nodes are named."""
        affinity = node_affinity_of(pod.pod)
        selector = affinity.required if affinity is not None else None
        if selector is None:
            return SKIP if not pod.spec.node_selector and self._enforced.is_empty else None
        names = named_nodes(selector.node_selector_terms)
        if names is None:
            return None
        return PreFilterResult(names) if names else unresolvable(REASON_CONFLICT)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Reject a node that the profile or the pod does not allow."""
        if not self._enforced.matches(node.labels, node.name):
            return self.status_by_code[ENFORCED_CODE]
        return None if required_of(pod).matches(node.labels, node.name) else self.status_by_code[POD_CODE]

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Return int32 codes of shape (len(rows),): 1 where the profile, 2 where the pod does not allow the node."""
        codes: Codes = (~required_of(pod).mask(table, rows)).astype(np.int32)
        codes *= POD_CODE
        if not self._enforced.is_empty:
            codes[~self._enforced.mask(table, rows)] = ENFORCED_CODE
        return FilterColumn(codes, self.status_by_code.__getitem__)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> Status | None:
        """Skip pods without preferences; fail those whose preferences cannot be read."""
        affinity = node_affinity_of(pod.pod)
        if affinity is None or not affinity.preferred:
            return None if self._always_scores else SKIP
        try:
            preferences_of(pod)
        except SelectorError as unreadable:
            return error(f"preferredDuringSchedulingIgnoredDuringExecution of pod {pod.key}: {unreadable}")
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Return the sum of the weights of the preferences that the node meets."""
        return weight_of(self._preferences(pod), node.labels, node.name)

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Return int64 of shape (len(rows),): the sum of the weights of the preferences that the node meets."""
        return weights(self._preferences(pod), table, rows)

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """Give 100 to the best node."""
        return default_normalize(scores)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register nodes that come or change their labels."""
        event = ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_LABEL)
        return (ClusterEventWithHint(event, self.after_node_change),)

    def after_node_change(self, pod: PodInfo, old: Node | None, new: Node | None) -> QueueingHint:
        """Queue where the node is allowed now and was not before."""
        if new is None or not self._allows(pod, new):
            return QueueingHint.SKIP
        return QueueingHint.QUEUE if old is None or not self._allows(pod, old) else QueueingHint.SKIP

    def _allows(self, pod: PodInfo, node: Node) -> bool:
        return self._enforced.matches_node(node) and required_of(pod).matches_node(node)

    def _preferences(self, pod: PodInfo) -> tuple[NodePreference, ...]:
        return self._added_preferences + preferences_of(pod)


def required_of(pod: PodInfo) -> RequiredNodeAffinity:
    """Return the pod's compiled demands; compiled once for each pod."""
    found = pod.fragments.get("NodeAffinity/required")
    if found is None:
        found = pod.fragments["NodeAffinity/required"] = required_affinity(pod.pod)
    return cast("RequiredNodeAffinity", found)


def preferences_of(pod: PodInfo) -> tuple[NodePreference, ...]:
    """Return the pod's compiled preferences; compiled once for each pod. Raises `SelectorError`."""
    found = pod.fragments.get("NodeAffinity/preferred")
    if found is None:
        affinity = node_affinity_of(pod.pod)
        found = compile_preferences(affinity.preferred if affinity is not None else ())
        pod.fragments["NodeAffinity/preferred"] = found
    return cast("tuple[NodePreference, ...]", found)
