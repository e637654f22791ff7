"""Asks two configurations about one pod, so that their difference can be explained plugin by plugin.

`berth.cycle.difference` explains a difference; this module provides the two sides, each a core. The caller brings the
pods and the clusters, which are the same on both sides, row by row: `berth impact` those of a case, `berth compare`
those of a cluster or of a workload over time, `berth replay` those of a recording.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Self

import numpy as np
from msgspec.structs import force_setattr
from numpy.typing import NDArray

from berth.api.pod import Pod
from berth.core.core import Core
from berth.core.intake import ObjectEvent
from berth.core.questions import attempt_for
from berth.cycle.binding_cycle import reserve_and_permit
from berth.cycle.difference import (
    NOTHING,
    ComparedDecision,
    Differing,
    Nodes,
    Sameness,
    compared,
    first_of,
    kind_of,
    one_node,
)
from berth.engine.profile import Profile, searched_rows
from berth.engine.verdicts import Mask
from berth.framework.blame import ask
from berth.framework.cycle_state import CycleState
from berth.framework.interface import FeasibleNodes, PreFilterResult
from berth.framework.status import Code, Status, is_success
from berth.state.cache import on_node
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

Scores = NDArray[np.int64]

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
"""The plugin of today that does what one of v1.20 did, if the names differ."""
ONE_PROFILE: Final = "only one of the configurations has a profile that schedules it"


class Side(NamedTuple):
    """One of two configurations, over a cluster that is the same on both sides."""

    core: Core
    profiles: Mapping[str, Profile]
    info: Callable[[Pod], PodInfo]
    """Returns a pod that is not on a node as this side's plugins see it."""
    is_for_all: bool = False
    """Whether pods whose scheduler name has no profile here go to the first profile; otherwise they go nowhere."""

    @classmethod
    def of(cls, core: Core, info: Callable[[Pod], PodInfo] | None = None, *, is_for_all: bool = False) -> "Side":
        """Return a core's own configuration."""
        return cls(core, core.profiles, info or core.intake.info, is_for_all)

    def schedules(self, pod: Pod) -> bool:
        """Say whether a profile schedules the pod."""
        return self.is_for_all or pod.spec.scheduler_name in self.profiles

    def divided(self, pod: Pod, successors: Mapping[str, str]) -> "AskedParts":
        """Decide about a pod; the first profile stands in if none schedules it. Raises `PluginBrokenError`."""
        info = self.info(pod)
        profile = self.profiles.get(info.profile_name) or next(iter(self.profiles.values()))
        return AskedParts(self.core, profile, info, successors)


class AskedParts:
    """One core's decision about one pod, divided by plugin, which asks the plugins again for each part.

    Every node is looked at, whatever share the profile asks for; extenders and PostFilter are not asked. A plugin among
    `successors` counts as the one that took over its work. Raises `PluginBrokenError`.
    """

    def __init__(self, core: Core, profile: Profile, pod: PodInfo, successors: Mapping[str, str]) -> None:
        """Ask about a pod that is not in the core's cluster, by a profile over that cluster."""
        self.table: NodeTable = core.cache.table
        self.names: Sequence[str] = self.table.names
        self.valid = self.table.valid
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
        """Count the pod as bound to a node, even if Reserve fails there; plugins are told as by a watch."""
        core, pod = self._core, self._pod
        reserve_and_permit(core.cache, attempt_for(core, pod, profile=self._profile, state=self._state), node_name)
        core.handle(ObjectEvent("MODIFIED", "Pod", on_node(pod, node_name).pod), core.now)
        for plugin in self._profile.post_bind:
            ask("PostBind", plugin, plugin.post_bind, self._state, pod, node_name)

    def nodes(self, exchange: frozenset[str] = NOTHING, other: Self | None = None) -> Nodes:
        """Return the nodes with the highest score, with some plugins' parts taken from the other decision."""
        theirs = other or self
        rejects = {part: rejected for part, rejected in self.rejects.items() if part not in exchange}
        rejects |= {part: rejected for part, rejected in theirs.rejects.items() if part in exchange}
        mask = self.valid & ~_any(rejects.values(), len(self.valid))
        if not mask.any():
            return ()
        mask = self.narrowed(mask, self.narrowing - exchange)
        mask = theirs.narrowed(mask, theirs.narrowing & exchange)
        found = self.scores(mask)
        if found is None:
            return ()
        scores = {part: given for part, given in found.items() if part not in exchange}
        if exchange:
            scores |= {part: given for part, given in (theirs.scores(mask) or {}).items() if part in exchange}
        rows = np.flatnonzero(mask)
        total = sum(scores.values(), start=np.zeros(len(rows), dtype=np.int64))
        best: list[int] = rows[total == total.max()].tolist()
        return tuple(sorted(self.names[row] for row in best))

    def differing(self, other: Self, of_a: str | None, of_b: str | None) -> Differing:
        """Return what differs from B's decision."""
        size = len(self.valid)
        nothing = np.zeros(size, dtype=np.bool_)
        ruling = {
            part
            for part in self.rejects.keys() | other.rejects.keys()
            if (self.rejects.get(part, nothing) != other.rejects.get(part, nothing)).any()
        }
        mask = self.valid & ~(_any(self.rejects.values(), size) & _any(other.rejects.values(), size))
        if not mask.any():
            return Differing(frozenset(ruling), {})
        for part in self.narrowing | other.narrowing:
            if (self.narrowed(mask, frozenset({part})) != other.narrowed(mask, frozenset({part}))).any():
                ruling.add(part)
        before, after = self.scores(mask) or {}, other.scores(mask) or {}
        names = [self.names[row] for row in np.flatnonzero(mask).tolist()]
        zero = np.zeros(len(names), dtype=np.int64)
        ends = [names.index(name) for name in (of_a, of_b) if name in names]
        scoring: dict[str, int] = {}
        for part in (before.keys() | after.keys()) - ruling:
            moved = after.get(part, zero) - before.get(part, zero)
            if (moved != moved[0]).any():  # a difference that is the same for all nodes decides nothing
                scoring[part] = int(moved[ends[1]] - moved[ends[0]]) if len(ends) == 2 else 0
        return Differing(frozenset(ruling), scoring)


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

        If it `stands`, the pod is afterwards bound in both to the node that A chose, so that one difference does not
        lead to the next.
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
        """Compare what the two have already decided about a pod. Raises `PluginBrokenError`."""
        return compared(pod.key, *self._divided(pod), self._sameness, (one_node(a), one_node(b)))

    def _divided(self, pod: Pod) -> tuple[AskedParts, AskedParts]:
        return self._a.divided(pod, self._successors), self._b.divided(pod, self._successors)

    def _compared_alone(self, pod: Pod, a: AskedParts, b: AskedParts) -> ComparedDecision:
        """Return what becomes of a pod that only one of the two schedules."""
        of_a = a.nodes() if self._a.schedules(pod) else ()
        of_b = b.nodes() if self._b.schedules(pod) else ()
        kind = kind_of(of_a, of_b, self._sameness)
        note = ONE_PROFILE if kind != "same" else ""
        return ComparedDecision(pod.key, first_of(of_a), first_of(of_b), kind, note=note)
