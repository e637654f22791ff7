"""Two configurations decide about one pod: what differs, and because of which plugin.

Each decision is divided by plugin: the nodes that a plugin rejects, and what it adds to a node's score. A plugin is
named if A's decision, with that plugin's part taken from B, is B's; if no plugin does that alone, all whose parts
differ are named. Both decisions are about the same cluster: rows and names must be the same in both.

What counts as the same decision is said by a `Sameness`. The caller brings the pods, the two sides and their
cluster: `berth impact` those of a case, `berth compare` those of a cluster or of a workload over time, `berth replay`
those of a recording.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, Protocol

import msgspec
import numpy as np
from msgspec.structs import force_setattr
from numpy.typing import NDArray

from berth.api.pod import Pod
from berth.core.core import Core
from berth.core.intake import ObjectEvent
from berth.core.questions import attempt_for
from berth.cycle.binding_cycle import reserve_and_permit
from berth.engine.profile import Profile, searched_rows
from berth.framework.blame import ask
from berth.framework.cycle_state import CycleState
from berth.framework.interface import FeasibleNodes, PreFilterResult
from berth.framework.status import Code, Status, is_success
from berth.state.cache import on_node
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

Mask = NDArray[np.bool_]
Scores = NDArray[np.int64]
Nodes = tuple[str, ...]
"""The nodes that a decision may end on, sorted by name: lots decide among several. None where the pod fits nowhere."""

SUCCESSORS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "NodeResourcesLeastAllocated": "NodeResourcesFit",
        "NodeResourcesMostAllocated": "NodeResourcesFit",
        "RequestedToCapacityRatio": "NodeResourcesFit",
        "EBSLimits": "NodeVolumeLimits",
        "GCEPDLimits": "NodeVolumeLimits",
        "AzureDiskLimits": "NodeVolumeLimits",
        "CinderLimits": "NodeVolumeLimits",
        "SelectorSpread": "PodTopologySpread",
    }
)
"""Today's plugin that does what one of v1.20 did, where the names differ."""
ONE_PROFILE: Final = "only one of the configurations has a profile that schedules it"

ChangeKind = Literal["same", "elsewhere", "fitsNoMore", "fitsNow", "preemptsElsewhere"]


class ComparedDecision(msgspec.Struct, frozen=True, rename="camel"):
    """What two configurations decide about a pod; None where it fits on no node."""

    pod: str
    a: str | None
    b: str | None
    kind: ChangeKind
    """What becomes of the pod with the second configuration."""
    plugins: tuple[str, ...] = ()
    """The plugins that cause the difference; empty where it cannot be told plugin by plugin."""
    alone: bool = False
    """Whether each of them alone accounts for the difference, or only all of them together."""
    note: str = ""
    """What causes it where no plugin does."""


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


def _explains_recorded(exchanged: Nodes, a: Nodes, b: Nodes) -> bool:
    return b[0] in exchanged and not set(a) & set(exchanged) if b else not exchanged


FIRST_BY_NAME: Final = Sameness(_same_first, _explains_first)
"""Ties go to the first node by name on both sides, so that is the decision."""
AMONG_EQUALS: Final = Sameness(_may_be_drawn, _explains_draw)
"""Lots decide ties: the same is what B may draw, and A's node counts as changed only where B would never draw it."""
RECORDED_NODE: Final = Sameness(_same_first, _explains_recorded)
"""Both have decided already, on one node each: B's is to be among the best, and the recorded one no longer."""


class Side(NamedTuple):
    """One of two configurations, over a cluster that both have alike."""

    core: Core
    profiles: Mapping[str, Profile]
    info: Callable[[Pod], PodInfo]
    """Returns a pod that is not on a node as this side's plugins are to see it."""
    is_for_all: bool = False
    """Whether pods whose scheduler name has no profile here are the first profile's; otherwise they go nowhere."""

    @classmethod
    def of(cls, core: Core, info: Callable[[Pod], PodInfo] | None = None, *, is_for_all: bool = False) -> "Side":
        """Return a core's own configuration."""
        return cls(core, core.profiles, info or core.intake.info, is_for_all)

    def schedules(self, pod: Pod) -> bool:
        """Say whether a profile schedules the pod."""
        return self.is_for_all or pod.spec.scheduler_name in self.profiles

    def divided(self, pod: Pod, successors: Mapping[str, str]) -> "DividedDecision":
        """Decide about a pod; the first profile stands in where none schedules it. Raises `PluginBrokenError`."""
        info = self.info(pod)
        profile = self.profiles.get(info.profile_name) or next(iter(self.profiles.values()))
        return DividedDecision(self.core, profile, info, successors)


class DividedDecision:
    """One core's decision about one pod, divided by plugin: the nodes it rejects, and what it adds to a node's score.

    Every node is looked at, whatever share of them the profile asks for; extenders and PostFilter are not asked. A
    plugin that is among `successors` counts as the one that took its work over. Raises `PluginBrokenError`.
    """

    def __init__(self, core: Core, profile: Profile, pod: PodInfo, successors: Mapping[str, str]) -> None:
        """Ask about a pod that is not in the core's cluster, by a profile over that cluster."""
        self.table: NodeTable = core.cache.table
        self.rejects: dict[str, Mask] = {}
        """By plugin, the rows that it rejects."""
        self.narrowing = frozenset(successors.get(plugin.name, plugin.name) for plugin in profile.narrowing)
        """The plugins that keep some of the feasible rows (`narrow`)."""
        self._core, self._profile, self._pod, self._successors = core, profile, pod, successors
        self._state = CycleState()
        self._ask_filters()

    def _ask_filters(self) -> None:
        table = self.table
        for plugin in self._profile.pre_filter:
            answer = ask("PreFilter", plugin, plugin.pre_filter, self._state, self._pod)
            if isinstance(answer, PreFilterResult):
                self._note(plugin.name, ~searched_rows(table, answer.node_names))
            elif answer is not None and answer.code is Code.SKIP:
                force_setattr(self._state, "skip_filter", self._state.skip_filter | {plugin.name})
            elif not is_success(answer):
                force_setattr(self._state, "skip_filter", self._state.skip_filter | {plugin.name})
                self._note(plugin.name, table.valid)
        verdicts = self._profile.run_filter(self._state, self._pod, table, table.valid)
        for verdict in verdicts.by_plugin:
            self._note(verdict.plugin, verdict.codes != 0)
        for status, rows in verdicts.overlay:
            blocked = np.zeros(table.capacity, dtype=np.bool_)
            blocked[rows] = True
            self._note(status.plugin, blocked)

    def _note(self, plugin: str, rejected: Mask) -> None:
        part = self._successors.get(plugin, plugin)
        rejected = rejected & self.table.valid
        self.rejects[part] = rejected | self.rejects[part] if part in self.rejects else rejected

    def narrowed(self, mask: Mask, parts: frozenset[str]) -> Mask:
        """Return which of these rows these plugins leave if they are the feasible ones."""
        asked = frozenset(p.name for p in self._profile.narrowing if self._successors.get(p.name, p.name) in parts)
        return self._profile.run_narrow(self._state, self._pod, mask, asked)[0]

    def scores(self, mask: Mask) -> dict[str, Scores] | None:
        """Return by plugin the weighted scores of these rows as if they were the feasible ones; None after an error."""
        force_setattr(self._state, "skip_score", frozenset())
        nodes = FeasibleNodes(self.table, mask)
        if self._profile.run_pre_score(self._state, self._pod, nodes) is not None:
            return None
        scored = self._profile.run_score(self._state, self._pod, nodes)
        if isinstance(scored, Status):
            return None
        found: dict[str, Scores] = {}
        for each in scored.by_plugin(nodes.row_array()):
            part = self._successors.get(each.plugin, each.plugin)
            found[part] = found.get(part, np.zeros(nodes.count, dtype=np.int64)) + each.weighted
        return found

    def bind(self, node_name: str) -> None:
        """Count the pod as bound to a node, even where Reserve fails there; plugins hear of it as from a watch."""
        core, pod = self._core, self._pod
        reserve_and_permit(core.cache, attempt_for(core, pod, profile=self._profile, state=self._state), node_name)
        core.handle(ObjectEvent("MODIFIED", "Pod", on_node(pod, node_name).pod), core.now)
        for plugin in self._profile.post_bind:
            ask("PostBind", plugin, plugin.post_bind, self._state, pod, node_name)


class Divided(Protocol):
    """What the functions below read of a divided decision."""

    table: NodeTable
    rejects: dict[str, Mask]
    narrowing: frozenset[str]

    def narrowed(self, mask: Mask, parts: frozenset[str]) -> Mask:
        """Return which of these rows these plugins leave if they are the feasible ones."""

    def scores(self, mask: Mask) -> dict[str, Scores] | None:
        """Return by plugin the weighted scores of these rows as if they were the feasible ones; None after an error."""


def best_nodes(side: Divided, *, exchange: str = "", other: Divided | None = None) -> Nodes:
    """Return the nodes with the highest score, by name, with one plugin's part taken from the other; none if none fits.

    Where there are several, lots would decide.
    """
    rejects = {part: rejected for part, rejected in side.rejects.items() if part != exchange}
    if other is not None and exchange in other.rejects:
        rejects[exchange] = other.rejects[exchange]
    mask = side.table.valid & ~_any(rejects.values(), side.table.capacity)
    if not mask.any():
        return ()
    mask = side.narrowed(mask, side.narrowing - {exchange})
    if other is not None:
        mask = other.narrowed(mask, other.narrowing & {exchange})
    scores = side.scores(mask)
    if scores is None:
        return ()
    scores.pop(exchange, None)
    if other is not None:
        others = other.scores(mask) or {}
        if exchange in others:
            scores[exchange] = others[exchange]
    rows = np.flatnonzero(mask)
    total = sum(scores.values(), start=np.zeros(len(rows), dtype=np.int64))
    best: list[int] = rows[total == total.max()].tolist()
    return tuple(sorted(side.table.names[row] for row in best))


def one_node(name: str | None) -> Nodes:
    """Return a decision that ended on a node, or on none."""
    return () if name is None else (name,)


def kind_of(a: Nodes, b: Nodes, sameness: Sameness) -> ChangeKind:
    """Return what becomes of a pod for which A has decided on the first nodes, and B on the second."""
    if sameness.same(a, b):
        return "same"
    if not a:
        return "fitsNow"
    return "elsewhere" if b else "fitsNoMore"


def compared(
    pod: str, a: Divided, b: Divided, sameness: Sameness, nodes: tuple[Nodes, Nodes] | None = None
) -> ComparedDecision:
    """Return what two decisions about a pod are, and which plugins cause the difference if there is one.

    `nodes` are those that both have decided on, where that is known.
    """
    of_a, of_b = nodes or (best_nodes(a), best_nodes(b))
    kind = kind_of(of_a, of_b, sameness)
    plugins, alone = _causes(a, b, lambda best: sameness.explained(best, of_a, of_b)) if kind != "same" else ((), False)
    return ComparedDecision(pod, _first(of_a), _first(of_b), kind, plugins, alone)


def _first(nodes: Nodes) -> str | None:
    return next(iter(nodes), None)


def _causes(a: Divided, b: Divided, explains: Callable[[Nodes], bool]) -> tuple[tuple[str, ...], bool]:
    """Return the plugins that make the two decide differently, and whether each of them does so alone."""
    parts = _differing(a, b)
    alone = tuple(part for part in parts if explains(best_nodes(a, exchange=part, other=b)))
    return (alone, True) if alone else (parts, False)


def _differing(old: Divided, new: Divided) -> tuple[str, ...]:
    """Return the plugins whose rejections differ, or what they say of the nodes that either side finds feasible."""
    nothing = np.zeros(old.table.capacity, dtype=np.bool_)
    found = {
        part
        for part in old.rejects.keys() | new.rejects.keys()
        if (old.rejects.get(part, nothing) != new.rejects.get(part, nothing)).any()
    }
    mask = old.table.valid & ~(
        _any(old.rejects.values(), old.table.capacity) & _any(new.rejects.values(), new.table.capacity)
    )
    if mask.any():
        for part in old.narrowing | new.narrowing:
            if (old.narrowed(mask, frozenset({part})) != new.narrowed(mask, frozenset({part}))).any():
                found.add(part)
        before, after = old.scores(mask) or {}, new.scores(mask) or {}
        found |= {part for part in before.keys() | after.keys() if _moves(before.get(part), after.get(part))}
    return tuple(sorted(found))


def _moves(before: Scores | None, after: Scores | None) -> bool:
    """Say whether two scores prefer different nodes: a difference that is the same for all nodes decides nothing."""
    if before is None and after is None:
        return False
    size = len(before) if before is not None else len(after) if after is not None else 0
    nothing = np.zeros(size, dtype=np.int64)
    difference = (nothing if after is None else after) - (nothing if before is None else before)
    return bool((difference != difference[0]).any())


def _any(masks: Iterable[Mask], size: int) -> Mask:
    found: Mask = np.zeros(size, dtype=np.bool_)
    for mask in masks:
        found |= mask
    return found


class DecisionComparer:
    """Asks two configurations about one pod after the other."""

    __slots__ = ("_a", "_b", "_sameness", "_successors")

    def __init__(self, a: Side, b: Side, sameness: Sameness, successors: Mapping[str, str]) -> None:
        """A plugin that is among `successors` counts as the one that took its work over."""
        self._a, self._b = a, b
        self._sameness, self._successors = sameness, successors

    def schedules(self, pod: Pod) -> bool:
        """Say whether either configuration schedules a pod."""
        return self._a.schedules(pod) or self._b.schedules(pod)

    def compare(self, pod: Pod, *, stands: bool = False) -> ComparedDecision:
        """Return what both decide about a pod that one of them schedules. Raises `PluginBrokenError`.

        If it `stands`, the pod is bound in both afterwards to the node that A has chosen, so that one difference does
        not lead to the next.
        """
        a, b = self._divided(pod)
        if self._a.schedules(pod) and self._b.schedules(pod):
            found = compared(pod.key, a, b, self._sameness)
        else:
            found = self._compared_alone(pod, a, b)
        if stands and found.a is not None:
            for side in (a, b):
                side.bind(found.a)
        return found

    def explain(self, pod: Pod, a: str | None, b: str | None) -> ComparedDecision:
        """Compare what the two have decided about a pod already. Raises `PluginBrokenError`."""
        return compared(pod.key, *self._divided(pod), self._sameness, (one_node(a), one_node(b)))

    def _divided(self, pod: Pod) -> tuple[DividedDecision, DividedDecision]:
        return self._a.divided(pod, self._successors), self._b.divided(pod, self._successors)

    def _compared_alone(self, pod: Pod, a: Divided, b: Divided) -> ComparedDecision:
        """Return what becomes of a pod that only one of the two schedules."""
        of_a = best_nodes(a) if self._a.schedules(pod) else ()
        of_b = best_nodes(b) if self._b.schedules(pod) else ()
        kind = kind_of(of_a, of_b, self._sameness)
        note = ONE_PROFILE if kind != "same" else ""
        return ComparedDecision(pod.key, _first(of_a), _first(of_b), kind, note=note)
