"""A decision in words: which node and why, why not the others, and what a pending pod waits for.

Pure: a `Decision` of the core's trace goes in, an `Explanation` comes out, ready for JSON (`msgspec.to_builtins`). The
debug endpoint of the scheduler, `berth explain`, the demo and the library all use it, so that all say the same.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.cycle.decision import Decision
from berth.decisions.by_plugins import RejectionDetails, ScoreDetails, score_details
from berth.decisions.named_in_vain import NamedInVain, in_sentences
from berth.decisions.shortfall import Shortfall, shortfalls
from berth.engine.profile import Profile
from berth.engine.scores import PluginScores, Scored
from berth.framework.diagnosis import without_many_names
from berth.framework.events import WILDCARD, Action, ClusterEvent
from berth.framework.extenders import EXTENDER_NAME
from berth.framework.interface import FeasibleNodes
from berth.framework.loaded import LoadedPlugin
from berth.framework.status import Status
from berth.state.lazy import lazy
from berth.state.table import NodeTable

TOP_NODES = 10
"""How many of the best nodes are shown with their scores, unless asked otherwise."""
FEW = 8
"""For more nodes than this, sorting all is cheaper than finding the best one by one."""
SCORES_TOLD = 3
"""For how many of the best nodes plugins explain their scores."""
NAMES_SHOWN = 20
"""How many node names are listed for one reason."""


class Said(msgspec.Struct, frozen=True, rename="camel"):
    """What a plugin said: a status code by its upstream name, and why."""

    plugin: str
    code: str
    reasons: tuple[str, ...]


class ScoredNode(msgspec.Struct, frozen=True, rename="camel"):
    """A node on which the pod fits; scores are weighted, and absent if there was only one such node."""

    node: str
    total: int | None
    scores: dict[str, int]


class Rejected(msgspec.Struct, frozen=True, rename="camel"):
    """The nodes that were ruled out for one reason, by the plugin that counts for them; `nodes` are some of them.

    That is the plugin under which the pod's condition counts them; several names, joined by commas, if PreFilter
    plugins ruled them out together.
    """

    plugin: str
    code: str
    reasons: tuple[str, ...]
    count: int
    nodes: tuple[str, ...]


class NodeExplanation(msgspec.Struct, frozen=True, rename="camel"):
    """One node, plugin by plugin, the one that counts first. `fits` is None if Filter was not asked about it."""

    node: str
    fits: bool | None
    rejections: tuple[Said, ...]
    total: int | None
    scores: dict[str, int]


class ExtenderCall(msgspec.Struct, frozen=True, rename="camel"):
    """One call to an extender: what it left, or what went wrong, and whether that was ignored."""

    extender: str
    verb: str
    note: str
    problem: str
    ignored: bool


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """Everything that one attempt decided, and why."""

    pod: str
    uid: str
    profile: str
    outcome: str
    """`scheduled`, `unschedulable` or `error`."""
    node: str | None
    summary: str
    message: str
    """What the pod's condition and event say; empty when it was placed."""
    attempts: int
    node_count: int
    feasible_count: int
    weights: dict[str, int]
    best: tuple[ScoredNode, ...]
    rejected: tuple[Rejected, ...]
    pre_filter: Said | None = None
    post_filter: Said | None = None
    waits_for: dict[str, tuple[str, ...]] = {}
    """For each plugin that rejected the pod, the events after which it is tried again."""
    nodes: tuple[NodeExplanation, ...] = ()
    extenders: tuple[ExtenderCall, ...] = ()
    """In the order in which they were called."""
    time: str = ""
    shortfalls: tuple[Shortfall, ...] = ()
    """For each resource that nodes had too little of: what the pod needs, and the most that one of them has."""
    nominated_node: str = ""
    """Where room is being made for the pod."""
    details: tuple[RejectionDetails, ...] = ()
    """What plugins that rejected the pod say about it, as things are now."""
    score_details: tuple[ScoreDetails, ...] = ()
    """What plugins say about their scores of the best nodes, and of requested ones, as things are now."""


def explain(
    decision: Decision,
    *,
    top: int = TOP_NODES,
    nodes: Iterable[str] = (),
    names_shown: int = NAMES_SHOWN,
    waits_for: Mapping[str, tuple[str, ...]] | None = None,
    time: str = "",
    table: NodeTable | None = None,
    details: tuple[RejectionDetails, ...] = (),
    profile: Profile | None = None,
    missing: Iterable[NamedInVain] = (),
) -> Explanation:
    """Explain a decision; `nodes` are shown plugin by plugin, `top` and `names_shown` limit the rest.

    With the node table, whose rows must not have been reassigned, what nodes lack is given in current numbers.
    `details` are what plugins add (`rejection_details`), `missing` is what the pod names but does not exist. With the
    profile as well, its plugins are asked to explain their scores.
    """
    full = _Scored(decision)
    scored: _Fresh | _Scored = _Fresh.of(decision, top) or full
    best = tuple(scored.best(top))
    shown = tuple(_node(decision, full, name) for name in nodes)
    told: tuple[ScoreDetails, ...] = ()
    if table is not None and profile is not None and decision.chosen is not None:
        names = dict.fromkeys(each.node for each in best[:SCORES_TOLD])
        names |= dict.fromkeys(each.node for each in shown if each.fits)
        there = (table.view(table.row_of[name]) for name in names if name in table.row_of)
        told = score_details(decision.pod, profile, scored.weights, there)
    return Explanation(
        pod=decision.pod.key,
        uid=decision.pod.uid,
        profile=decision.profile,
        outcome=decision.outcome,
        node=decision.chosen,
        summary=_summary(decision, scored, missing),
        message=decision.message,
        attempts=decision.attempts,
        node_count=decision.node_count,
        feasible_count=scored.count,
        weights=scored.weights,
        best=best,
        rejected=() if scored.count == decision.node_count else tuple(rejected_nodes(decision, names_shown)),
        pre_filter=_pre_filter(decision),
        post_filter=None if decision.post_filter is None else _said(decision.post_filter),
        waits_for=dict(waits_for or {}),
        nodes=shown,
        extenders=tuple(
            ExtenderCall(asked.extender, asked.verb, asked.note, asked.problem, asked.is_ignored)
            for asked in decision.asked
        ),
        time=time,
        shortfalls=() if table is None or decision.chosen is not None else tuple(shortfalls(decision, table, profile)),
        nominated_node=decision.nominated,
        details=details,
        score_details=told,
    )


class _Fresh:
    """The best nodes of a decision just made, read off what the search found.

    Gives the same as `_Scored`, which works at any time, for a fraction of the work: the totals exist already, and only
    the nodes shown need their scores plugin by plugin.
    """

    __slots__ = ("_decision", "_leaders", "count", "highest", "weights")

    def __init__(self, decision: Decision, nodes: FeasibleNodes, scored: Scored, top: int) -> None:
        self._decision = decision
        assert decision.chosen_row is not None, "only a pod with a node has leaders"
        self._leaders = scored.leaders(top, decision.chosen_row)
        self.count = nodes.count
        self.weights = scored.weights
        self.highest = (self._leaders.highest, self._leaders.equals) if self.count > 1 else None

    @classmethod
    def of(cls, decision: Decision, top: int) -> "_Fresh | None":
        """Return it if it can be read: not for pods without a node, or for searches that were cut short."""
        found = decision.fresh
        if found is None or decision.chosen is None or found.scored is None or found.nodes is None:
            return None
        if found.sampled is not None or found.left_out or top > FEW:
            return None
        return cls(decision, found.nodes, found.scored, top)

    def best(self, _top: int) -> Iterator[ScoredNode]:
        names = self._decision.names
        return (ScoredNode(names[row], total, shares) for row, total, shares in self._leaders.rows)


class _Scored:
    """The scores of a decision, each computed once on demand: the decision's own properties compute them every time."""

    def __init__(self, decision: Decision) -> None:
        self._decision = decision

    @lazy
    def rows(self) -> NDArray[np.intp]:
        """The feasible rows, ascending."""
        return self._decision.feasible

    @lazy
    def count(self) -> int:
        """How many nodes were feasible."""
        return len(self.rows)

    @lazy
    def scores(self) -> list[PluginScores]:
        """Each plugin's weighted scores over the rows."""
        return self._decision.scores

    @lazy
    def weights(self) -> dict[str, int]:
        """The plugins that scored, with their weights."""
        return {scores.plugin: scores.weight for scores in self.scores}

    @lazy
    def total(self) -> NDArray[np.int64] | None:
        """The sum of all scores; None if nothing had to be scored."""
        if not self.scores:
            return self._decision.total
        total = np.zeros(len(self.rows), dtype=np.int64)
        for scores in self.scores:
            total += scores.weighted
        return total

    @property
    def highest(self) -> tuple[int, int] | None:
        """The highest total, and how many nodes have it; None if there was nothing to choose from."""
        if self.total is None or self.count < 2:
            return None
        best = int(self.total.max())
        return best, int((self.total == best).sum())

    def best(self, top: int) -> Iterator[ScoredNode]:
        """The feasible nodes with the highest totals, the chosen one first among equals."""
        decision, rows, total = self._decision, self.rows, self.total
        if not len(rows):
            return
        if total is None:
            order = np.arange(len(rows))[:top]
        else:
            # Only those that may be among the best need sorting: what is above the last of them, and its equals.
            least = int(np.partition(total, -top)[-top]) if len(total) > top else int(total.min())
            places = np.flatnonzero(total >= least)
            is_other = rows[places] != (-1 if decision.chosen_row is None else decision.chosen_row)
            order = places[np.lexsort((is_other, -total[places]))][:top]
        for place in order.tolist():
            yield ScoredNode(decision.names[int(rows[place])], *self.at(place))

    def at(self, place: int) -> tuple[int | None, dict[str, int]]:
        """Return the total and each plugin's share, by index among the feasible rows."""
        return None if self.total is None else int(self.total[place]), {
            scores.plugin: int(scores.weighted if isinstance(scores.weighted, int) else scores.weighted[place])
            for scores in self.scores
        }


def summary(decision: Decision) -> str:
    """Return one sentence: where the pod went and why, or that it went nowhere."""
    return _summary(decision, _Scored(decision), ())


def _summary(decision: Decision, scored: "_Fresh | _Scored", missing: Iterable[NamedInVain]) -> str:
    if decision.chosen is None:
        verb = (
            "could not be scheduled" if decision.outcome == "unschedulable" else "was not scheduled because of an error"
        )
        first = in_sentences(each.sentence for each in missing)
        said = f"{first} The scheduler says: {decision.message}" if first else decision.message
        return f"{decision.pod.key} {verb}: {said}"
    return f"{decision.pod.key} goes to {decision.chosen}: {_why_chosen(decision, scored)}"


def _why_chosen(decision: Decision, scored: "_Fresh | _Scored") -> str:
    if decision.was_promised:
        return "it was nominated to it, and fits there; other nodes were not looked at"
    if scored.highest is None:
        if decision.node_count == 1:
            return "it is the only node, and the pod fits there"
        return f"it is the only one of {decision.node_count} nodes that fits"
    fit = f"{scored.count} of {decision.node_count} nodes fit"
    best, equals = scored.highest
    if equals == 1:
        return f"{fit}, and it has the highest score, {best}"
    return f"{fit}, and it is one of {equals} with the highest score, {best}, chosen at random"


def rejected_nodes(decision: Decision, names_shown: int = NAMES_SHOWN) -> Iterator[Rejected]:
    """Return the nodes that were ruled out, as the pod's condition counts them, largest group first."""
    rows_of: dict[Status, list[NDArray[np.intp]]] = {}
    rejected = decision.rejected
    told = without_many_names((status, len(rows)) for status, rows in rejected)
    for (status, _), (_, rows) in zip(told, rejected, strict=True):
        rows_of.setdefault(status, []).append(rows)
    # Each part is in ascending order; most groups have one.
    merged = [
        (status, parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))) for status, parts in rows_of.items()
    ]
    for status, rows in sorted(merged, key=lambda group: -len(group[1])):
        names = tuple(decision.names[row] for row in rows[:names_shown].tolist())
        yield Rejected(status.plugin, status.code.label, status.reasons, len(rows), names)


def _pre_filter(decision: Decision) -> Said | None:
    pre = decision.pre_filter
    return None if pre is None or pre.status is None else _said(pre.status)


def _said(status: Status) -> Said:
    return Said(status.plugin, status.code.label, status.reasons)


def _node(decision: Decision, scored: _Scored, name: str) -> NodeExplanation:
    """Explain one node, whether the pod fits on it or not."""
    row = decision.names.index(name) if name and name in decision.names else -1
    if row < 0 or not decision.looked_at[row]:
        counts = next((status for status, rows in decision.rejected if row in rows), None)
        return NodeExplanation(name, None, (_said(counts),) if counts is not None else (), None, {})
    said = tuple(_said(status) for status in decision.statuses(row))
    places = np.flatnonzero(decision.feasible == row)
    if not len(places):
        return NodeExplanation(name, not said, said, None, {})
    return NodeExplanation(name, True, said, *scored.at(int(places[0])))


# --- what wakes a pending pod -----------------------------------------------------------------------------------------


def waits_for(profile: Profile, plugins: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """For each of these plugins, the events after which a pod that it rejected is tried again, in words."""
    by_name = {plugin.name: plugin for plugin in profile.plugins}
    found = {name: _events_of(by_name[name]) for name in sorted(set(plugins)) if name in by_name}
    return found | ({EXTENDER_NAME: ("any change in the cluster",)} if EXTENDER_NAME in plugins else {})


def _events_of(plugin: LoadedPlugin) -> tuple[str, ...]:
    if plugin.events is None:
        return ("any change in the cluster",)
    return tuple(dict.fromkeys(event_in_words(entry.event) for entry in plugin.events.events_to_register()))


def event_in_words(event: ClusterEvent) -> str:
    """`Node: added, labels changed`."""
    if event.resource == WILDCARD:
        return "any change in the cluster"
    if event.action & Action.ALL == Action.ALL:
        return f"{event.resource}: any change"
    words = ["changed"] if event.action & Action.UPDATE == Action.UPDATE else list(_updates(event.action))
    ends = [word for action, word in ((Action.ADD, "added"), (Action.DELETE, "deleted")) if event.action & action]
    return f"{event.resource}: {', '.join(ends + words)}"


def _updates(action: Action) -> Iterator[str]:
    for flag in Action:
        name = flag.name or ""
        if flag & action and name.startswith("UPDATE_"):
            what = name.removeprefix("UPDATE_").removeprefix("NODE_").removeprefix("POD_").replace("_", " ").lower()
            yield what if what.endswith(" eliminated") else f"{what} changed"
