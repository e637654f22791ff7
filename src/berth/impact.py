"""Finds what moving from v1.20 to v1.36 changes: both generations decide about the same cluster, pod by pod, and why.

A case (see `berth.cases`) goes in, one `PlacementChange` comes out for each pod that the two place differently. Both
decide about the same cluster: after each pod, v1.20's choice is what stands in both. Ties go to the smallest name.

The cause of a change is found by exchange. Each generation's decision is divided by plugin: the nodes that a plugin
rejects, and what it adds to a node's score. A plugin is named if v1.20's decision, with that plugin's part taken from
v1.36, is v1.36's; if no plugin does that alone, all whose parts differ are named. Plugins that took over the work of
others are counted with them (`SUCCESSORS`). Called by `berth impact`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.api.codec import decode
from berth.cases import case_for, check_new, core_of, documents
from berth.core import Core
from berth.cycle.attempt import Attempt
from berth.cycle.binding import reserve_and_permit
from berth.engine.profile import Profile, searched_rows
from berth.framework.cycle_state import CycleState
from berth.framework.interface import FeasibleNodes, PreFilterResult
from berth.framework.registry import Registry
from berth.framework.status import Code, Status, is_success
from berth.state.pod_info import PodInfo

OLD: Final = "v1.20"
NEW: Final = "v1.36"

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
"""Today's plugin that does what an older one did, where the names differ."""

Mask = NDArray[np.bool_]
Scores = NDArray[np.int64]


class PlacementChange(msgspec.Struct, frozen=True):
    """A pod that the two generations place differently; None where it fits on no node."""

    pod: str
    old: str | None
    new: str | None
    plugins: tuple[str, ...]
    """The plugins that caused it."""
    alone: bool
    """Whether each of them alone accounts for the difference, or only all of them together."""


class CaseImpact(msgspec.Struct, frozen=True):
    """What changes in one case."""

    name: str
    pods: int
    changes: tuple[PlacementChange, ...]


class _Side:
    """One generation's decision about one pod, divided by plugin."""

    def __init__(self, core: Core, pod: PodInfo) -> None:
        self.core = core
        self.table = core.cache.table
        self.profile: Profile = core.profiles.get(pod.spec.scheduler_name) or next(iter(core.profiles.values()))
        self.pod = pod
        self.state = CycleState()
        self.rejects: dict[str, Mask] = {}
        """By plugin, the rows that it rejects."""
        self._ask_filters()

    def _ask_filters(self) -> None:
        table = self.table
        for plugin in self.profile.pre_filter:
            answer = plugin.pre_filter(self.state, self.pod)
            if isinstance(answer, PreFilterResult):
                self._note(plugin.name, ~searched_rows(table, answer.node_names))
            elif answer is not None and answer.code is Code.SKIP:
                self.state.skip_filter.add(plugin.name)
            elif not is_success(answer):
                self.state.skip_filter.add(plugin.name)
                self._note(plugin.name, table.valid)
        verdicts = self.profile.run_filter(self.state, self.pod, table, table.valid)
        for verdict in verdicts.by_plugin:
            self._note(verdict.plugin, verdict.codes != 0)
        for status, rows in verdicts.overlay:
            blocked = np.zeros(table.capacity, dtype=np.bool_)
            blocked[rows] = True
            self._note(status.plugin, blocked)

    def _note(self, plugin: str, rejected: Mask) -> None:
        part = SUCCESSORS.get(plugin, plugin)
        rejected = rejected & self.table.valid
        self.rejects[part] = rejected | self.rejects[part] if part in self.rejects else rejected

    def scores(self, mask: Mask) -> dict[str, Scores] | None:
        """Return by plugin the weighted scores of these rows as if they were the feasible ones; None after an error."""
        self.state.skip_score.clear()
        nodes = FeasibleNodes(self.table, mask)
        if self.profile.run_pre_score(self.state, self.pod, nodes) is not None:
            return None
        scored = self.profile.run_score(self.state, self.pod, nodes)
        if isinstance(scored, Status):
            return None
        found: dict[str, Scores] = {}
        for each in scored.by_plugin(nodes.row_array()):
            part = SUCCESSORS.get(each.plugin, each.plugin)
            found[part] = found.get(part, np.zeros(nodes.count, dtype=np.int64)) + each.weighted
        return found


def decided(side: _Side, *, exchange: str = "", other: _Side | None = None) -> str | None:
    """Return the node that a generation chooses, with one plugin's part taken from the other; None for no node."""
    rejects = {part: rejected for part, rejected in side.rejects.items() if part != exchange}
    if other is not None and exchange in other.rejects:
        rejects[exchange] = other.rejects[exchange]
    mask = side.table.valid & ~_any(rejects.values(), side.table.capacity)
    if not mask.any():
        return None
    scores = side.scores(mask)
    if scores is None:
        return None
    scores.pop(exchange, None)
    if other is not None:
        others = other.scores(mask) or {}
        if exchange in others:
            scores[exchange] = others[exchange]
    rows = np.flatnonzero(mask)
    total = sum(scores.values(), start=np.zeros(len(rows), dtype=np.int64))
    best: list[int] = rows[total == total.max()].tolist()
    return min(side.table.names[row] for row in best)


def causes(old: _Side, new: _Side) -> tuple[tuple[str, ...], bool]:
    """Return the plugins that make the two decide differently, and whether each of them does so alone."""
    wanted = decided(new)
    parts = _differing(old, new)
    alone = tuple(part for part in parts if decided(old, exchange=part, other=new) == wanted)
    return (alone, True) if alone else (parts, False)


def _differing(old: _Side, new: _Side) -> tuple[str, ...]:
    """Return the plugins whose rejections differ, or whose scores do over the nodes that either finds feasible."""
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


def impact(case: Mapping[str, Any], registry: Registry) -> CaseImpact:
    """Return what changes in a case. Raises `CaseError`, `ConfigError` or `ObjectError`."""
    old, new = (core_of(case_for(case, generation), registry, memos=False) for generation in (OLD, NEW))
    changes = []
    pods = documents(case, "pods")
    for document in pods:
        before, after = (_Side(core, core.intake.info(decode("Pod", document))) for core in (old, new))
        check_new(old, before.pod)
        chosen, now = decided(before), decided(after)
        if chosen != now:
            plugins, alone = causes(before, after)
            changes.append(PlacementChange(before.pod.key, chosen, now, plugins, alone))
        if chosen is not None:
            for side in (before, after):
                _assume(side, chosen)
    return CaseImpact(str(case.get("name", "")), len(pods), tuple(changes))


def _assume(side: _Side, node_name: str) -> None:
    """Count the pod on a node, even where Reserve fails there."""
    attempt = Attempt(side.profile, side.pod, state=side.state)
    reserve_and_permit(side.core.cache, attempt, node_name)


def report(cases: Iterable[CaseImpact]) -> str:
    """Return what changed in words: every change, then the sums."""
    lines: list[str] = []
    pods = 0
    blamed: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for case in cases:
        pods += case.pods
        if case.changes:
            lines.append(f"{case.name or 'case'}:")
        for change in case.changes:
            kinds[_kind(change)] += 1
            blamed.update(change.plugins)
            lines.append(f"  {change.pod}: {_place(change.old)} → {_place(change.new)}  because of {_because(change)}")
    changed = sum(kinds.values())
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    lines.append(f"{changed} of {pods} pods decided differently by {OLD} and {NEW}" + (f": {told}" if told else ""))
    lines += [f"  {count:>5}  {plugin}" for plugin, count in blamed.most_common()]
    return "\n".join(lines)


def _place(node: str | None) -> str:
    return "no node" if node is None else node


def _kind(change: PlacementChange) -> str:
    if change.old is None:
        return "fit now"
    return "fit no more" if change.new is None else "go elsewhere"


def _because(change: PlacementChange) -> str:
    if not change.plugins:
        return "what cannot be told plugin by plugin"
    if change.alone:
        return " or ".join(change.plugins) + (", either alone" if len(change.plugins) > 1 else "")
    return " and ".join(change.plugins) + ", together"
