"""Running Score plugins over the feasible nodes: raw scores, normalised, weighted, summed.

Columns that a plugin's row alone decides and that need no normalising are summed once and kept (`sums.py`); the
others are worked out for the feasible rows of this pod. Who wants to see single scores asks `Scored.by_plugin`.
"""

from collections.abc import Callable, Hashable, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.framework.cycle_state import CycleState
from berth.framework.interface import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    UNKNOWN,
    Dependencies,
    FeasibleNodes,
    Rows,
    Scores,
)
from berth.framework.memo import ColumnSnapshot, DependencySet, MemoEntry, MemoKey, Memos
from berth.framework.status import Code, Status, error, is_success
from berth.framework.sums import UNRANKED, Sums
from berth.state.pod_info import PodInfo


class ScoreFacts:
    """What is known of all rows of a kept raw column; once true, it stays so."""

    __slots__ = ("any_nonzero", "any_out_of_range", "normalized_zero")

    def __init__(self) -> None:
        self.any_nonzero = False
        self.any_out_of_range = False
        self.normalized_zero: int | None = None
        """What normalising makes of a column of zeros, once that has been asked."""

    def note(self, raw: Scores) -> "ScoreFacts":
        """Take values into account that have been computed."""
        if len(raw):
            low, high = (raw.item(0), raw.item(0)) if len(raw) == 1 else (int(raw.min()), int(raw.max()))
            self.any_nonzero = self.any_nonzero or bool(low or high)
            self.any_out_of_range = self.any_out_of_range or low < MIN_NODE_SCORE or high > MAX_NODE_SCORE
        return self


class PluginScores(NamedTuple):
    """What one plugin gives each feasible node, normalised and weighted; one number where all get the same."""

    plugin: str
    weight: int
    weighted: Scores | int


class _Part(NamedTuple):
    """One plugin's share: a kept column (over all rows), or scores worked out for the feasible rows."""

    plugin: str
    weight: int
    column: ColumnSnapshot | None
    weighted: Scores | int

    def scores(self, rows: Rows) -> PluginScores:
        if self.column is None:
            return PluginScores(self.plugin, self.weight, self.weighted)
        return PluginScores(self.plugin, self.weight, self.column.values()[rows] * self.weight)


class Scored:
    """All plugins' scores of the feasible nodes, and their sum."""

    __slots__ = ("_kept_total", "_nodes", "_parts", "_ranked")

    def __init__(
        self,
        nodes: FeasibleNodes,
        parts: list[_Part],
        kept_total: NDArray[np.int64] | None,
        ranked: NDArray[np.int64] | None = None,
    ) -> None:
        self._nodes = nodes
        self._parts = parts
        self._kept_total = kept_total
        self._ranked = ranked

    def by_plugin(self, rows: NDArray[np.intp]) -> list[PluginScores]:
        """Return each plugin's weighted scores over `rows`, which are the feasible ones, in the profile's order."""
        return [part.scores(rows) for part in self._parts]

    def total(self, rows: NDArray[np.intp]) -> Scores:
        """Return the sum over `rows`, which are the feasible ones."""
        total: Scores = np.zeros(len(rows), dtype=np.int64)
        for part in self._parts:
            total += part.scores(rows).weighted
        return total if self._parts else total + 1

    def with_more(self, more: Sequence[PluginScores]) -> "Scored":
        """Return the same with scores from elsewhere added, over the feasible rows and weighted already."""
        parts = [_Part(scores.plugin, scores.weight, None, scores.weighted) for scores in more]
        return Scored(self._nodes, self._parts + parts, self._kept_total, self._ranked) if parts else self

    def best_rows(self) -> NDArray[np.intp]:
        """Return the rows with the highest total. To be called before the columns change."""
        worked_out = [p.weighted for p in self._parts if p.column is None and not isinstance(p.weighted, int)]
        kept = self._kept_total
        if kept is None and not worked_out:
            return self._nodes.row_array()
        if not worked_out and kept is not None:
            ranked = self._ranked if self._ranked is not None else np.where(self._nodes.mask, kept, UNRANKED)
            return np.flatnonzero(ranked == ranked.max())
        total = np.zeros(self._nodes.count, dtype=np.int64) if kept is None else kept[self._nodes.rows]
        total = sum(worked_out, start=total)
        best = np.flatnonzero(total == total.max())
        rows = self._nodes.rows
        return best + rows.start if isinstance(rows, slice) else rows[best]


class ScoreRunner:
    """A Score plugin in column form, whichever form it was written in."""

    __slots__ = ("_by_column", "_dependencies", "_normalize", "_signature", "name", "plugin", "weight")

    def __init__(self, plugin: Any, weight: int) -> None:
        self.plugin = plugin
        self.name: str = plugin.name
        self.weight = weight
        self._by_column = hasattr(plugin, "score_columns")
        declared: Dependencies = getattr(plugin, "score_dependencies", UNKNOWN) if self._by_column else UNKNOWN
        self._dependencies = DependencySet(declared, self.name)
        self._normalize = getattr(plugin, "normalize_score", None)
        self._signature: Callable[[PodInfo], Hashable | None] | None = getattr(plugin, "signature", None)

    def key(self, profile: str, pod: PodInfo) -> MemoKey | None:
        """Return whose raw column the answer for this pod is, or None where it is not to be kept."""
        if self._signature is None or not self._dependencies.is_lasting:
            return None
        fragment = self._signature(pod)
        return None if fragment is None else MemoKey(profile, self.name, "score", fragment)

    def entry(self, memos: Memos, key: MemoKey, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> MemoEntry:
        """Return the raw scores of all rows, kept or repaired, with their `ScoreFacts`."""
        facts = (memos.facts(key) if memos.enabled else None) or ScoreFacts()

        def compute(rows: Rows) -> tuple[Scores, ScoreFacts]:
            raw = self.plugin.score_columns(state, pod, nodes.table, rows)
            return raw, facts.note(raw)

        return memos.entry(key, self._dependencies, compute)

    def share(self, entry: MemoEntry | None, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> _Part | Status:
        """Return the plugin's share of the total, or the error that it made."""
        if entry is not None and not entry.extra.any_out_of_range:
            if self._normalize is None:
                return _Part(self.name, self.weight, entry.snapshot(), 0)
            if not entry.extra.any_nonzero:
                return self._all_zero(entry.extra, state, pod, nodes)
        raw = self._raw(state, pod, nodes) if entry is None else entry.column[nodes.rows]
        return raw.by(self.name) if isinstance(raw, Status) else self._normalized(state, pod, raw, nodes)

    def _all_zero(self, facts: ScoreFacts, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> _Part | Status:
        if facts.normalized_zero is None:
            part = self._normalized(state, pod, np.zeros(1, dtype=np.int64), nodes)
            if isinstance(part, Status):
                return part
            facts.normalized_zero = int(part.weighted[0])  # type: ignore[index]
        return _Part(self.name, self.weight, None, facts.normalized_zero)

    def _normalized(self, state: CycleState, pod: PodInfo, raw: Scores, nodes: FeasibleNodes) -> _Part | Status:
        scores = raw if self._normalize is None else self._normalize(state, pod, raw)
        if isinstance(scores, Status):
            return scores.by(self.name)
        wrong = self._out_of_range(scores, nodes)
        return wrong if wrong is not None else _Part(self.name, self.weight, None, scores * self.weight)

    def _raw(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> Scores | Status:
        if self._by_column:
            return self.plugin.score_columns(state, pod, nodes.table, nodes.rows)  # type: ignore[no-any-return]
        scores = []
        for view in nodes.views():
            try:
                score = self.plugin.score(state, pod, view)
            except Exception as broken:  # a third-party plugin's bug must not stop the scheduler
                return error(f"plugin {self.name!r} failed on node {view.name!r}: {type(broken).__name__}: {broken}")
            if isinstance(score, Status):
                return score
            scores.append(score)
        return np.array(scores, dtype=np.int64)

    def _out_of_range(self, scores: Scores, nodes: FeasibleNodes) -> Status | None:
        if not len(scores) or (scores.min() >= MIN_NODE_SCORE and scores.max() <= MAX_NODE_SCORE):
            return None
        wrong = int(np.flatnonzero((scores < MIN_NODE_SCORE) | (scores > MAX_NODE_SCORE))[0])
        node = nodes.table.names[int(nodes.row_array()[wrong])]
        return error(
            f"plugin {self.name!r} returns an invalid score {int(scores[wrong])} for node {node!r}: "
            f"it should be in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
        ).by(self.name)


def run_pre_score(plugins: Sequence[Any], state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> Status | None:
    """Run PreScore; a plugin that skips is left out of Score. Return the first error."""
    for plugin in plugins:
        status = plugin.pre_score(state, pod, nodes)
        if status is None or is_success(status):
            continue
        if status.code is not Code.SKIP:
            return status.by(plugin.name)  # type: ignore[no-any-return]
        state.skip_score.add(plugin.name)
    return None


class ScorePlan(NamedTuple):
    """Which plugins score pods of one shape, and where their raw columns are kept."""

    runners: tuple[tuple[ScoreRunner, MemoKey | None], ...]
    total_keys: dict[tuple[MemoKey, ...], MemoKey]

    def total_key(self, summed: tuple[MemoKey, ...]) -> MemoKey:
        """Return the name of the sum of these columns."""
        found = self.total_keys.get(summed)
        if found is None:
            found = self.total_keys[summed] = MemoKey("total", *summed)
        return found

    @classmethod
    def of(cls, runners: Sequence[ScoreRunner], profile: str, skipped: Set[str], pod: PodInfo) -> "ScorePlan":
        """Make the plan for pods of this pod's shape where these plugins skip."""
        wanted = tuple((runner, runner.key(profile, pod)) for runner in runners if runner.name not in skipped)
        return cls(wanted, {})


def run_score(
    plan: ScorePlan,
    memos: Memos,
    sums: Sums,
    state: CycleState,
    pod: PodInfo,
    nodes: FeasibleNodes,
    passing_key: MemoKey | None,
) -> Scored | Status:
    """Score the feasible nodes with every plugin of the plan; with none, every node gets 1.

    `passing_key` names the kept mask (`Sums.passing`) that the feasible nodes are, where they are one.
    """
    parts: list[_Part] = []
    kept: list[tuple[MemoKey, MemoEntry, int]] = []
    worked_out = False
    for runner, key in plan.runners:
        entry = None if key is None else runner.entry(memos, key, state, pod, nodes)
        part = runner.share(entry, state, pod, nodes)
        if isinstance(part, Status):
            return part
        parts.append(part)
        if key is not None and entry is not None and part.column is not None:
            kept.append((key, entry, runner.weight))
        elif not isinstance(part.weighted, int):
            worked_out = True
    if not kept:
        return Scored(nodes, parts, None)
    total_key = plan.total_key(tuple([key for key, _, _ in kept]))
    total = sums.total(total_key, [entry for _, entry, _ in kept], [weight for _, _, weight in kept])
    if passing_key is None or worked_out:
        return Scored(nodes, parts, total)
    return Scored(nodes, parts, total, sums.ranked((passing_key, total_key), nodes.mask, total))
