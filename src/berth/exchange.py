"""Which plugin makes two configurations decide differently about a pod, found by exchange.

Each decision is divided by plugin: the nodes that a plugin rejects, and what it adds to a node's score. A plugin is
named if the old decision, with that plugin's part taken from the new one, is the new one; if no plugin does that alone,
all whose parts differ are named. Both decisions are about the same cluster: rows and names must be the same in both.

Used by `berth impact` for two generations, and by `berth compare` for any two configurations.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from berth.core import Core
from berth.cycle.attempt import Attempt
from berth.cycle.binding import reserve_and_permit
from berth.engine.profile import Profile, searched_rows
from berth.framework.blame import ask
from berth.framework.cycle_state import CycleState
from berth.framework.interface import FeasibleNodes, PreFilterResult
from berth.framework.status import Code, Status, is_success
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

Mask = NDArray[np.bool_]
Scores = NDArray[np.int64]


class DividedDecision:
    """One core's decision about one pod, divided by plugin: the nodes it rejects, and what it adds to a node's score.

    Every node is looked at, whatever share of them the profile asks for; extenders and PostFilter are not asked. A
    plugin that is among `successors` counts as the one that took its work over. Raises `PluginBrokenError`.
    """

    def __init__(
        self,
        core: Core,
        pod: PodInfo,
        successors: Mapping[str, str] | None = None,
        profile: Profile | None = None,
    ) -> None:
        """Ask about a pod that is not in the core's cluster. `profile` is another one of the same cluster."""
        self.core = core
        self._successors = successors or {}
        self.table = core.cache.table
        own = core.profiles.get(pod.spec.scheduler_name) or next(iter(core.profiles.values()))
        self.profile: Profile = own if profile is None else profile
        self.pod = pod
        self.state = CycleState()
        self.rejects: dict[str, Mask] = {}
        """By plugin, the rows that it rejects."""
        self._ask_filters()

    def _ask_filters(self) -> None:
        table = self.table
        for plugin in self.profile.pre_filter:
            answer = ask("PreFilter", plugin, plugin.pre_filter, self.state, self.pod)
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
        part = self._successors.get(plugin, plugin)
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
            part = self._successors.get(each.plugin, each.plugin)
            found[part] = found.get(part, np.zeros(nodes.count, dtype=np.int64)) + each.weighted
        return found


class Divided(Protocol):
    """What the functions below read of a divided decision."""

    table: NodeTable
    rejects: dict[str, Mask]

    def scores(self, mask: Mask) -> dict[str, Scores] | None:
        """Return by plugin the weighted scores of these rows as if they were the feasible ones; None after an error."""


def best_nodes(side: Divided, *, exchange: str = "", other: Divided | None = None) -> tuple[str, ...]:
    """Return the nodes with the highest score, by name, with one plugin's part taken from the other; none if none fits.

    Where there are several, lots would decide.
    """
    rejects = {part: rejected for part, rejected in side.rejects.items() if part != exchange}
    if other is not None and exchange in other.rejects:
        rejects[exchange] = other.rejects[exchange]
    mask = side.table.valid & ~_any(rejects.values(), side.table.capacity)
    if not mask.any():
        return ()
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


def decided(side: Divided, *, exchange: str = "", other: Divided | None = None) -> str | None:
    """Return the first by name of these nodes; None for no node."""
    return next(iter(best_nodes(side, exchange=exchange, other=other)), None)


def causes(
    old: Divided, new: Divided, accounts_for: Callable[[tuple[str, ...]], bool] | None = None
) -> tuple[tuple[str, ...], bool]:
    """Return the plugins that make the two decide differently, and whether each of them does so alone.

    `accounts_for` is asked whether the best nodes of the old decision, with one plugin's part exchanged, are what is to
    be explained; by default, whether the first of them by name is the new decision's.
    """
    if accounts_for is None:
        wanted = decided(new)
        accounts_for = lambda best: next(iter(best), None) == wanted  # noqa: E731 - the default of the parameter
    parts = _differing(old, new)
    alone = tuple(part for part in parts if accounts_for(best_nodes(old, exchange=part, other=new)))
    return (alone, True) if alone else (parts, False)


def _differing(old: Divided, new: Divided) -> tuple[str, ...]:
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


def assume(side: DividedDecision, node_name: str) -> None:
    """Count the pod on a node, even where Reserve fails there."""
    attempt = Attempt(side.profile, side.pod, state=side.state)
    reserve_and_permit(side.core.cache, attempt, node_name)
