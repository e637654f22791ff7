"""Two decisions about one pod: what differs, and because of which plugin.

Each decision is divided by plugin (`DecisionParts`): the nodes that a plugin rejects, and what it adds to a node's
score. A plugin is named if A's decision, with that plugin's part taken from B, is B's. If no plugin does that alone,
all are named that together do. Both decisions are about the same nodes.

What counts as the same decision is said by a `Sameness`. The caller brings the two sides. A shadow and the cycle beside
it have both searched already, and only the two nodes that they have come to are looked at (`FoundParts`); so has
another scheduler that is observed, of which only the node is known. `berth compare`, `impact` and `replay` ask two
cores about all nodes, and again for each part that is exchanged (`berth.decisions.side_by_side`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, Self, TypeVar

import msgspec

from berth.cycle.attempt import Attempt
from berth.cycle.difference_kinds import DifferenceKind
from berth.state.table import NodeTable

Nodes = tuple[str, ...]
"""The nodes that a decision may end on, sorted by name: lots decide among several. None where the pod fits nowhere."""
NOTHING: Final = frozenset[str]()


class ComparedDecision(msgspec.Struct, frozen=True, rename="camel"):
    """What two configurations decide about a pod; None where it fits on no node."""

    pod: str
    a: str | None
    b: str | None
    kind: DifferenceKind
    """What becomes of the pod with the second configuration."""
    plugins: tuple[str, ...] = ()
    """The plugins that cause the difference, those that count most first; empty where that cannot be told."""
    alone: bool = False
    """Whether each of them alone accounts for the difference, or only all of them together."""
    note: str = ""
    """What causes it where no plugin does, or how it came about."""


class Sameness(NamedTuple):
    """What counts as the same decision."""

    same: Callable[[Nodes, Nodes], bool]
    """Says whether B's decision is the same as A's."""
    explained: Callable[[Nodes, Nodes, Nodes], bool]
    """Says whether A's decision with a part of B's, the first one, is what B decides otherwise than A."""


def _same_first(a: Nodes, b: Nodes) -> bool:
    return a[:1] == b[:1]


def _explains_first(exchanged: Nodes, _a: Nodes, b: Nodes) -> bool:
    return _same_first(exchanged, b)


def _may_be_drawn(a: Nodes, b: Nodes) -> bool:
    return a[0] in b if a else not b


def _explains_draw(exchanged: Nodes, a: Nodes, b: Nodes) -> bool:
    if not a or not b:
        return bool(exchanged) == bool(b)
    return a[0] not in exchanged and not set(b).isdisjoint(exchanged)


def _explains_decided(exchanged: Nodes, a: Nodes, b: Nodes) -> bool:
    return b[0] in exchanged and not set(a) & set(exchanged) if b else not exchanged


FIRST_BY_NAME: Final = Sameness(_same_first, _explains_first)
"""Ties go to the first node by name on both sides, so that is the decision."""
AMONG_EQUALS: Final = Sameness(_may_be_drawn, _explains_draw)
"""Lots decide ties: the same is what B may draw, and A's node counts as changed only where B would never draw it."""
DECIDED_NODE: Final = Sameness(_same_first, _explains_decided)
"""Both have decided already, on one node each: B's is to be among the best, and A's no longer."""


class Differing(NamedTuple):
    """Which plugins' parts in two decisions are not the same."""

    ruling: frozenset[str]
    """Those that rule out other nodes."""
    scoring: Mapping[str, int]
    """Those that only score otherwise: by how much more each speaks for B's node over A's in B's decision; or 0."""


class DecisionParts(Protocol):
    """A decision divided by plugin, over nodes that both decisions have alike."""

    def nodes(self, exchange: frozenset[str] = NOTHING, other: Self | None = None) -> Nodes:
        """Return the nodes with the highest score, with these plugins' parts taken from the other decision, B's."""

    def differing(self, other: Self, of_a: str | None, of_b: str | None) -> Differing:
        """Return what differs from B's decision, where A has come to the first node and B to the second."""


class FoundParts:
    """A decision as an attempt found it, reduced to two nodes: its own and that of the other decision.

    No plugin is asked again and there are no arrays, since this runs alongside live cycles. A node that was not looked
    at counts as rejected by no plugin. Rows that a plugin has left out (`narrow`) count as rejected by it.
    """

    __slots__ = ("_names", "points", "rejects")

    def __init__(self, attempt: Attempt, table: NodeTable, rows: Sequence[int]) -> None:
        nodes, scored = attempt.found.nodes, attempt.found.scored
        self._names = [table.names[row] for row in rows]
        self.rejects: list[frozenset[str]] = []
        """Who rejects each node."""
        self.points: list[Mapping[str, int] | None] = []
        """What each node gets from whom; None where it was not scored."""
        for row in rows:
            is_feasible = nodes is not None and nodes.mask[row]
            self.rejects.append(NOTHING if is_feasible else frozenset(rejected_by(attempt, table, row)))
            self.points.append(scored.shares(row) if is_feasible and scored is not None else None)

    def nodes(self, exchange: frozenset[str] = NOTHING, other: Self | None = None) -> Nodes:
        """Return the better of the nodes, or both, with some plugins' parts taken from the other decision."""
        theirs = other or self
        places = [
            place
            for place in range(len(self._names))
            if not (self.rejects[place] - exchange or theirs.rejects[place] & exchange)
        ]
        totals = [
            sum(own.values()) + sum(others.get(plugin, 0) - own.get(plugin, 0) for plugin in exchange)
            for own, others in zip(self.shares(places, theirs), theirs.shares(places, self), strict=True)
        ]
        best = (self._names[place] for place, total in zip(places, totals, strict=True) if total == max(totals))
        return tuple(sorted(best))

    def shares(self, places: Sequence[int], other: Self) -> list[Mapping[str, int]]:
        """Return what these nodes get; where not all of them have scores here, what they get in the other decision."""
        for points in (self.points, other.points):
            found = [shares for place in places if (shares := points[place]) is not None]
            if len(found) == len(places):
                return found
        return [{}] * len(places)

    def differing(self, other: Self, of_a: str | None, of_b: str | None) -> Differing:
        """Return what differs from B's decision."""
        ruling = NOTHING.union(*(own ^ given for own, given in zip(self.rejects, other.rejects, strict=True)))
        if of_a is None or of_b is None:
            return Differing(ruling, {})
        (now_a, now_b), (then_a, then_b) = self.shares((0, 1), other), other.shares((0, 1), self)
        others = {plugin for plugin, _ in (now_a.items() ^ then_a.items()) | (now_b.items() ^ then_b.items())}
        gains = {
            plugin: then_b.get(plugin, 0) - then_a.get(plugin, 0) - now_b.get(plugin, 0) + now_a.get(plugin, 0)
            for plugin in others
        }
        return Differing(ruling, {plugin: gain for plugin, gain in gains.items() if gain and plugin not in ruling})


def rejected_by(attempt: Attempt, table: NodeTable, row: int) -> dict[str, tuple[str, ...]]:
    """Return which plugins ruled a node out, with the reasons; none if the node was not looked at."""
    found, pre = attempt.found, attempt.found.pre_filtered
    if pre is not None and pre.status is not None and pre.status.plugin:
        return {pre.status.plugin: pre.status.reasons}
    if pre is not None and pre.node_names is not None and table.names[row] not in pre.node_names:
        return dict.fromkeys(pre.narrowing_plugins, ())
    if found.verdicts is None:
        return {}
    said = {status.plugin: status.reasons for status in found.verdicts.findings.statuses(row)}
    return said or {status.plugin: status.reasons for status, rows in found.narrowed if row in rows}


def strongest_first(gains: Mapping[str, int]) -> tuple[str, ...]:
    """Return the plugins that gain something, the largest gain first."""
    return tuple(sorted((plugin for plugin, gain in gains.items() if gain > 0), key=lambda name: (-gains[name], name)))


Parts = TypeVar("Parts", bound=DecisionParts)


def one_node(name: str | None) -> Nodes:
    """Return a decision that ended on a node, or on none."""
    return () if name is None else (name,)


def kind_of(a: Nodes, b: Nodes, sameness: Sameness) -> DifferenceKind:
    """Return what becomes of a pod for which A has decided on the first nodes, and B on the second."""
    if sameness.same(a, b):
        return "same"
    if not a:
        return "fitsNow"
    return "elsewhere" if b else "fitsNoMore"


def compared(
    pod: str, a: Parts, b: Parts, sameness: Sameness, nodes: tuple[Nodes, Nodes] | None = None
) -> ComparedDecision:
    """Return two decisions about a pod side by side, with the plugins that cause the difference if there is one.

    `nodes` are those that both have decided on, where that is known.
    """
    of_a, of_b = nodes or (a.nodes(), b.nodes())
    kind = kind_of(of_a, of_b, sameness)
    plugins, alone = ((), False) if kind == "same" else _causes(a, b, of_a, of_b, sameness)
    return ComparedDecision(pod, first_of(of_a), first_of(of_b), kind, plugins, alone)


def first_of(nodes: Nodes) -> str | None:
    """Return the node that a decision ends on if ties are broken by name."""
    return next(iter(nodes), None)


def _causes(a: Parts, b: Parts, of_a: Nodes, of_b: Nodes, sameness: Sameness) -> tuple[tuple[str, ...], bool]:
    """Return the plugins that make the two decide differently, and whether each of them does so alone."""

    def explain(*parts: str) -> bool:
        return sameness.explained(a.nodes(frozenset(parts), b), of_a, of_b)

    ruling, scoring = a.differing(b, first_of(of_a), first_of(of_b))
    speaking = (*sorted(ruling), *strongest_first(scoring))
    parts = (*speaking, *sorted(scoring.keys() - set(speaking)))
    alone = tuple(part for part in parts if explain(part))
    if alone:
        return alone, True
    return (speaking if speaking != parts and explain(*speaking) else parts), False
