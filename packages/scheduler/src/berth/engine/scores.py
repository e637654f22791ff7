"""Runs Score plugins over the feasible nodes: raw scores, normalised, weighted, summed.

Columns that count as they are, without normalising, are summed and ranked as views (`sums.py`); other scores are
computed for the feasible rows of this pod. `Scored.by_plugin` gives the scores of each plugin.
"""

from collections.abc import Sequence, Set
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.engine.columns import (
    Asking,
    ColumnSnapshot,
    DependencySet,
    Journal,
    PluginColumn,
    RowForm,
    Values,
    column_of,
    signature_of,
)
from berth.engine.node_kinds import NodeKinds
from berth.engine.sums import (
    UNRANKED,
    BestRows,
    Blocks,
    InDomains,
    MaskSource,
    Ranked,
    Ranking,
    Total,
    ranked,
    ranked_by_domain,
    total,
)
from berth.framework.blame import PluginBrokenError, ask, contained, described
from berth.framework.cycle_state import CycleState
from berth.framework.interface import MAX_NODE_SCORE, MIN_NODE_SCORE, FeasibleNodes, OverDomains, RowArray, Rows, Scores
from berth.framework.loaded import LoadedPlugin
from berth.framework.status import Status, error
from berth.framework.work_budget import STEPS_PER_NODE, OutOfBudgetError
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable
from berth.state.views import ChangedRows, Memory, View

MAX_SMALL_WEIGHT = np.iinfo(np.int16).max // MAX_NODE_SCORE
"""With a weight up to this a weighted score fits into two bytes."""


UNASKED = np.iinfo(np.int64).min
"""Stands for a score that a plain plugin has not given yet, in a column of its answers."""


class ScoreFacts:
    """Facts about all rows of a raw column. Repairs only widen them, so they may be too cautious, but never wrong."""

    __slots__ = ("any_nonzero", "any_out_of_range", "zeros")

    def __init__(self) -> None:
        self.any_nonzero = False
        self.any_out_of_range = False
        self.zeros: _Part | None = None
        """The share of a column of zeros, where scores are normalised; None until it has been asked for."""

    def note(self, raw: Scores) -> "ScoreFacts":
        """Take newly computed values into account."""
        if len(raw):
            self.note_largest(_largest_unsigned(raw))
        return self

    def note_largest(self, value: int) -> None:
        """Take a single value into account, or the largest of several, read as unsigned."""
        if value:
            self.any_nonzero = True
            if not MIN_NODE_SCORE <= value <= MAX_NODE_SCORE:
                self.any_out_of_range = True


def _largest_unsigned(scores: Scores) -> int:
    """Return the largest score, read as unsigned."""
    # Read as unsigned, a negative score exceeds 100, so checking the largest covers both ends of the range.
    unsigned = scores.view(np.uint64)
    return unsigned.item(unsigned.argmax())  # faster than max()


class PluginScores(NamedTuple):
    """One plugin's scores of the feasible nodes, normalised and weighted; a single number if all get the same."""

    plugin: str
    weight: int
    weighted: Scores | int


class _Part(NamedTuple):
    """One plugin's share of the total: a kept column over all rows, or scores computed for the feasible rows."""

    plugin: str
    weight: int
    column: ColumnSnapshot | None
    weighted: Scores | int
    over: OverDomains | None = None
    """The weighted scores by domain, if the plugin scored whole domains; for domains with feasible rows."""

    def scores(self, rows: Rows) -> PluginScores:
        if self.over is not None:
            return PluginScores(self.plugin, self.weight, self.over.values.take(self.over.ids[rows], mode="wrap"))
        if self.column is None:
            return PluginScores(self.plugin, self.weight, self.weighted)
        return PluginScores(self.plugin, self.weight, self.column.values()[rows] * self.weight)


class Leader(NamedTuple):
    """A node among the best: its total, and each plugin's weighted share."""

    row: int
    total: int
    shares: dict[str, int]


class Leaders(NamedTuple):
    """The best of the feasible nodes: the highest total, how many have it, and the first of them."""

    highest: int
    equals: int
    rows: list[Leader]


class ScoreParts:
    """All plugins' scores of the feasible nodes, to be read later: what a decision keeps of `Scored`.

    The only arrays over all nodes that it holds are those computed for this pod alone.
    """

    __slots__ = ("_parts", "_without_parts")

    def __init__(self, parts: list[_Part], without_parts: int) -> None:
        self._parts = parts
        self._without_parts = without_parts

    def by_plugin(self, rows: NDArray[np.intp]) -> list[PluginScores]:
        """Return each plugin's weighted scores over `rows`, the feasible ones, in the profile's order."""
        return [part.scores(rows) for part in self._parts]

    def total(self, rows: NDArray[np.intp]) -> Scores:
        """Return the sum over `rows`, the feasible ones."""
        total: Scores = np.zeros(len(rows), dtype=np.int64)
        for part in self._parts:
            total += part.scores(rows).weighted
        return total if self._parts else total + self._without_parts


class Scored(ScoreParts):
    """All plugins' scores of the feasible nodes, and their sum."""

    __slots__ = ("_best", "_kept_total", "_nodes", "_ranking", "view")

    def __init__(
        self,
        nodes: FeasibleNodes,
        parts: list[_Part],
        kept_total: NDArray[np.int64] | None,
        ranking: Ranking | InDomains | None = None,
        *,
        without_parts: int = 0,
        view: Ranked | None = None,
    ) -> None:
        # Not by `super().__init__`, a call that every pod would pay.
        self._parts = parts
        self._without_parts = without_parts
        self._nodes = nodes
        self._kept_total = kept_total
        self._ranking = ranking
        self._best: BestRows | None = None
        self.view = view
        """Where the ranking comes from, if no node differs by anything else."""

    def leaders(self, count: int, chosen: int) -> "Leaders":
        """Return the rows with the highest totals, by total, `chosen` first among equals, then ascending.

        To be called before the columns change: only the shares of these rows are computed.
        """
        best, first = self.best_rows(), self._leader(chosen)
        if len(best) >= count and first.total == self._leader(int(best[0])).total:
            # Among thousands of nodes many are often equally good, and then no others need to be searched for.
            others = [int(row) for row in best[:count] if row != chosen]
            return Leaders(first.total, len(best), [first, *map(self._leader, others)][:count])
        order = _first(self._all_totals(), min(count, self._nodes.count), chosen)
        rows = [self._leader(row) for row in order]
        return Leaders(rows[0].total, len(best), rows)

    def shares(self, row: int) -> dict[str, int]:
        """Return what each plugin gives one of the feasible rows. To be called before the columns change."""
        return {part.plugin: self._share(part, row) for part in self._parts}

    def _leader(self, row: int) -> Leader:
        shares = self.shares(row)
        return Leader(row, sum(shares.values()) if shares else self._without_parts, shares)

    def _all_totals(self) -> NDArray[np.int64]:
        """Return the totals of all rows, without shares that are the same for all; not to be written to."""
        if self._ranking is not None:
            return self._ranking.totals
        worked_out = [p.weighted for p in self._parts if p.column is None and not isinstance(p.weighted, int)]
        kept, nodes = self._kept_total, self._nodes
        if not worked_out:
            return np.where(nodes.mask, 0 if kept is None else kept, UNRANKED)
        totals = np.full(len(nodes.mask), UNRANKED, dtype=np.int64)
        rows = nodes.rows
        totals[rows] = sum(worked_out, start=np.zeros(nodes.count, dtype=np.int64) if kept is None else kept[rows])
        return totals

    def _share(self, part: _Part, row: int) -> int:
        """Return what a plugin gives one of the feasible rows."""
        if part.over is not None:
            return part.over.values.item(part.over.ids.item(row))
        if part.column is not None:
            return int(part.column.values()[row]) * part.weight
        if isinstance(part.weighted, int):
            return part.weighted
        rows = self._nodes.rows
        place = row - rows.start if isinstance(rows, slice) else int(rows.searchsorted(row))
        return int(part.weighted[place])

    @property
    def weights(self) -> dict[str, int]:
        """The plugins that scored, with their weights."""
        return {part.plugin: part.weight for part in self._parts}

    @property
    def is_by_row(self) -> bool:
        """Whether nodes differ only by kept columns, which depend on a node and its pods alone."""
        return all(
            part.over is None and (part.column is not None or isinstance(part.weighted, int)) for part in self._parts
        )

    def to_be_read(self) -> ScoreParts:
        """Return what it takes to say later which plugin scored what."""
        return ScoreParts(self._parts, self._without_parts)

    def with_more(self, more: Sequence[PluginScores]) -> "Scored":
        """Return the same with scores from elsewhere added; those are over the feasible rows and already weighted."""
        parts = [_Part(scores.plugin, scores.weight, None, scores.weighted) for scores in more]
        kept = self._kept_total if self._ranking is None else self._ranking.totals  # the same over the feasible rows
        return Scored(self._nodes, self._parts + parts, kept) if parts else self

    def best_rows(self) -> BestRows:
        """Return the rows with the highest total, ascending. To be called before the columns change."""
        if self._best is None:
            self._best = self._ranking.best_rows() if self._ranking is not None else self._search_best()
        return self._best

    def _search_best(self) -> BestRows:
        worked_out = [p.weighted for p in self._parts if p.column is None and not isinstance(p.weighted, int)]
        kept = self._kept_total
        # The remaining shares are the same for all nodes and make none of them better, so neither here nor below need
        # they be added.
        if kept is None and not worked_out:
            return self._nodes.row_array()
        if not worked_out and kept is not None:
            return Ranking(np.where(self._nodes.mask, kept, UNRANKED)).best_rows()
        total = np.zeros(self._nodes.count, dtype=np.int64) if kept is None else kept[self._nodes.rows]
        # `sum` makes new arrays; `+=` would write to the kept total, of which a slice of rows is only a view.
        total = sum(worked_out, start=total)
        best = np.flatnonzero(total == total.max())
        rows = self._nodes.rows
        return best + rows.start if isinstance(rows, slice) else rows[best]


def _first(totals: NDArray[np.int64], count: int, chosen: int) -> list[int]:
    """Return the rows of the highest totals, `chosen` first among equals, then ascending."""
    # A few searches for the maximum cost less than one sort, and find equals in ascending order. Only these rows and
    # the chosen one can be among the first, whichever of its equals comes before the others.
    found, left = {chosen: int(totals[chosen])}, totals.copy()
    for _ in range(count):
        row = int(left.argmax())
        found[row] = int(totals[row])
        left[row] = UNRANKED
    return sorted(found, key=lambda row: (-found[row], row != chosen, row))[:count]


class ScoreRunner:
    """A Score plugin in column form, whichever form it was written in."""

    __slots__ = (
        "_columns",
        "_kinds",
        "_normalize",
        "_plain",
        "domain_form",
        "name",
        "needs",
        "node_calls",
        "plugin",
        "row_form",
        "signature",
        "weight",
        "when_skipped",
    )

    def __init__(self, plugin: LoadedPlugin, weight: int) -> None:
        self.plugin = plugin
        self.name = plugin.name
        self.weight = weight
        self.when_skipped = plugin.promises.score_when_skipped
        self.node_calls = 0
        """How often the plain form was asked about a node."""
        self._plain = plugin.score
        self._columns = plugin.score_columns
        assert self._plain is not None or self._columns is not None, f"{plugin.name} is not run at Score"
        self._normalize = None if plugin.normalize_score is None else plugin.normalize_score.normalize_score
        self.row_form: RowForm | None = None if plugin.score_row is None else plugin.score_row.score_row
        self.domain_form = None if plugin.score_domains is None else plugin.score_domains.score_domains
        self._kinds = None if plugin.node_signature is None else NodeKinds(plugin.node_signature)
        self.needs = DependencySet(plugin.promises.score_depends_on, self.name)
        self.signature = signature_of(plugin, self.needs)

    def ask(
        self, extra: ScoreFacts | None, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows
    ) -> tuple[Scores, ScoreFacts]:
        """Ask the plugin about some rows, for raw scores, and facts about all of them."""
        facts = extra or ScoreFacts()
        if self._columns is None:
            return self._plain_column(facts, state, pod, table, rows)
        try:
            raw = self._columns.score_columns(state, pod, table, rows)
            if isinstance(raw, Status):
                raise TypeError(f"{raw!r} where the promise score_depends_on says that scores can be kept")
        except BaseException as raised:
            bug = contained(raised)
            raise self.broke(bug) from bug
        return raw, facts.note(raw)

    def _plain_column(
        self, facts: ScoreFacts, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows
    ) -> tuple[Scores, ScoreFacts]:
        """Return the scores of rows that have changed; scores of a whole column are not asked for before they are
        needed.
        """
        if isinstance(rows, slice):
            raw = np.where(table.valid[rows], UNASKED, 0)
            return raw, ScoreFacts().note(raw)
        raw = self._asked_quietly(state, pod, table, rows)
        return raw, facts.note(raw)

    def _asked_quietly(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: NDArray[np.intp]) -> Scores:
        """Return the plain scores of rows that may not be feasible: `UNASKED` if the plugin gave none, 0 for a row
        without a node.
        """
        asked = rows[table.valid[rows]]
        scores = np.zeros(len(rows), dtype=np.int64)
        said, which = self._said_by_kind(state, pod, table, asked)
        given = [UNASKED if isinstance(score, Status) else score for score in said]
        scores[table.valid[rows]] = np.array(given, dtype=np.int64)[which]
        return scores

    def _said_by_kind(
        self, state: CycleState, pod: PodInfo, table: NodeTable, rows: RowArray, *, ends: bool = False
    ) -> tuple[list[int | Status], RowArray | slice]:
        """Ask about one node of each kind; return the answers, up to the first error if that `ends` it, and for each
        row the index of its answer.
        """
        which: RowArray | slice = slice(None)
        if self._kinds is not None:
            rows, which = self._kinds.among(table, rows)
        state.work.spend(self.name, STEPS_PER_NODE * len(rows), lambda: "which scores node by node")
        said: list[int | Status] = []
        for row in rows.tolist():
            said.append(self._plain_score(state, pod, table.view(row)))
            if ends and isinstance(said[-1], Status):
                break
        return said, which

    def _plain_score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int | Status:
        """Ask the plugin about one node; if it raises, the status is an error that names the node."""
        assert self._plain is not None
        self.node_calls += 1
        try:
            return self._plain.score(state, pod, node)
        except OutOfBudgetError:
            raise
        except BaseException as raised:  # a third-party plugin's bug must not stop the scheduler
            broken = contained(raised)
            return error(f"node {node.name!r}: {described(broken)}")

    def lasts(self, extra: ScoreFacts) -> bool:
        """Always true: scores that a plugin did not give are asked for again."""
        return True

    def note(self, extra: ScoreFacts, value: int) -> None:
        """Take the new score of a single row into account."""
        extra.note_largest(value)

    def snapshot(self, column: Values, journal: Journal, repairs: int, extra: ScoreFacts) -> "_Part":
        """Return the plugin's share of the total where it counts as it is."""
        return _Part(self.name, self.weight, ColumnSnapshot(column, journal, repairs), 0)

    def broke(self, bug: Exception) -> PluginBrokenError:
        """Return the error that names the plugin as the origin of a bug."""
        return PluginBrokenError("Score", self.name, bug)

    def lasting_share(self, column: PluginColumn, state: CycleState, pod: PodInfo) -> "_Part | None":
        """Return the share if it is the same whichever nodes are feasible; None if it is not."""
        facts: ScoreFacts = column.extra
        if facts.any_out_of_range:
            return None
        if self._normalize is None:
            part: _Part = column.taken or column.snapshot()
            return part
        # Normalizing looks at the scores of all feasible nodes together, so its result outlives this pod only if all
        # scores are zero.
        if facts.zeros is None and not facts.any_nonzero:
            zero = self._normalized(state, pod, np.zeros(1, dtype=np.int64))
            if isinstance(zero, Status):
                return None
            facts.zeros = _Part(self.name, self.weight, None, int(zero.weighted[0]))  # type: ignore[index]
        return None if facts.any_nonzero else facts.zeros

    def share(
        self, column: PluginColumn | None, state: CycleState, pod: PodInfo, nodes: FeasibleNodes, memory: Memory
    ) -> "_Part | Status":
        """Return the plugin's share of the total over the feasible nodes, or its error."""
        # A column has rows that are not feasible for this pod. kube-scheduler scores feasible nodes only, so only their
        # scores are checked for being out of range.
        if column is not None and self._columns is None and column.extra.any_out_of_range:
            failure = self._fill(column, state, pod, nodes, memory)
            if failure is not None:
                return self._failed("running Score plugins", failure)
        raw = self._raw(state, pod, nodes) if column is None else column.column[nodes.rows]
        if isinstance(raw, Status):
            return self._failed("running Score plugins", raw)
        return self._normalized(state, pod, raw)

    def _normalized(self, state: CycleState, pod: PodInfo, raw: Scores) -> _Part | Status:
        normalize = self._normalize
        scores = raw if normalize is None else ask("NormalizeScore", self.plugin, normalize, state, pod, raw)
        if isinstance(scores, Status):
            return self._failed("running Normalize on Score plugins", scores)
        wrong = self._out_of_range(scores)
        if wrong is not None:
            return wrong
        # A thousand decisions may be kept for reading, each with columns of its own: two bytes per node instead of
        # eight.
        dtype = np.int16 if self.weight <= MAX_SMALL_WEIGHT else np.int64
        return _Part(self.name, self.weight, None, np.multiply(scores, self.weight, dtype=dtype, casting="unsafe"))

    def _raw(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> Scores | Status:
        if self._columns is not None:
            return ask("Score", self._columns, self._columns.score_columns, state, pod, nodes.table, nodes.rows)
        return self._plain_scores(state, pod, nodes.table, nodes.row_array())

    def _plain_scores(
        self, state: CycleState, pod: PodInfo, table: NodeTable, rows: NDArray[np.intp]
    ) -> Scores | Status:
        """Return the plain scores of feasible rows, or the first error."""
        said, which = self._said_by_kind(state, pod, table, rows, ends=True)
        if said and isinstance(said[-1], Status):
            return said[-1]
        return np.array(said, dtype=np.int64)[which]

    def _fill(
        self, entry: PluginColumn, state: CycleState, pod: PodInfo, nodes: FeasibleNodes, memory: Memory
    ) -> Status | None:
        """Ask for the scores of feasible rows that a column of plain answers lacks; return an error, if any.

        A column that lacks any score counts as out of range, so no sum includes it. If few other scores are missing,
        these are asked for as well, so that it can be summed from now on.
        """
        column, table = entry.column, nodes.table
        lacking = nodes.row_array()
        lacking = lacking[column[lacking] == UNASKED]
        if not len(lacking):
            return None
        scores = self._plain_scores(state, pod, table, lacking)
        if isinstance(scores, Status):
            return scores
        column = column.copy()
        column[lacking] = scores
        if self.needs.asks_ahead:
            others = np.flatnonzero(column == UNASKED)
            if len(others) <= len(lacking):
                column[others] = self._asked_quietly(state, pod, table, others)
        entry.set(column, ScoreFacts().note(column))
        entry.changed_as_a_whole(memory)
        return None

    def over_domains(self, state: CycleState, pod: PodInfo) -> OverDomains | None:
        """Return the plugin's raw scores of whole domains; None if it does not answer by domain."""
        if self.domain_form is None:
            return None
        return ask("Score", self.plugin, self.domain_form, state, pod)

    def domain_share(
        self, state: CycleState, pod: PodInfo, raw: OverDomains, domains: Sequence[int]
    ) -> _Part | Status | None:
        """Return the share of a plugin that scored whole domains; these are the domains with feasible rows.

        None if a score is out of range: the error has to name a node, so that is left to the other form.
        """
        scores = raw.values[domains].astype(np.int64, copy=False)
        if self._normalize is not None:
            normalized = ask("NormalizeScore", self.plugin, self._normalize, state, pod, scores)
            if isinstance(normalized, Status):
                return self._failed("running Normalize on Score plugins", normalized)
            scores = normalized
        if any([not MIN_NODE_SCORE <= score <= MAX_NODE_SCORE for score in scores.tolist()]):  # noqa: C419 (faster)
            return None
        weighted = np.zeros(len(raw.values), dtype=np.int64)
        weighted[domains] = scores * self.weight
        return _Part(self.name, self.weight, None, 0, raw._replace(values=weighted))

    def _failed(self, doing: str, status: Status) -> Status:
        return error(f'{doing}: plugin "{self.name}" failed with: {status.message}').by(self.name)

    def _out_of_range(self, scores: Scores) -> Status | None:
        # One pass over the scores unless one is out of range; the view as unsigned needs integers of eight bytes.
        if not len(scores) or (scores.dtype == np.int64 and _largest_unsigned(scores) <= MAX_NODE_SCORE):
            return None
        if scores.min() >= MIN_NODE_SCORE and scores.max() <= MAX_NODE_SCORE:
            return None
        wrong = int(np.flatnonzero((scores < MIN_NODE_SCORE) | (scores > MAX_NODE_SCORE))[0])
        # Upstream's words, which do not name the node.
        return error(
            f'applying score defaultWeights on Score plugins: plugin "{self.name}" '
            f"returns an invalid score {int(scores[wrong])}, "
            f"it should in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
        ).by(self.name)


class Shares(View):
    """What plugins add to the totals of pods of one kind, as far as that is the same whichever nodes are feasible."""

    __slots__ = ("_columns", "_summed", "parts", "total")

    parts: "list[_Part | None]"
    """The share of each plugin; None where it takes the feasible nodes to say."""
    _summed: tuple[tuple[PluginColumn, int], ...]
    total: Total | None
    """The view of the sum of the columns that count as they are; None if there are none."""

    def __init__(self, memory: Memory, runners: Sequence[ScoreRunner], columns: Sequence[PluginColumn | None]) -> None:
        self._columns = [(runner, column) for runner, column in zip(runners, columns, strict=True)]
        self.release()
        super().__init__([column for column in columns if column is not None])

    def compute_all(self, memory: Memory, asking: Asking) -> None:
        """Look at all columns."""
        self.parts = [None if c is None else runner.lasting_share(c, *asking) for runner, c in self._columns]
        both = zip(self.parts, self._columns, strict=True)
        summed = tuple(
            [(c, r.weight) for part, (r, c) in both if c is not None and part is not None and part is c.taken]
        )
        if summed != self._summed:
            self._summed = summed
            self.total = total(memory, summed) if summed else None

    def compute_rows(self, memory: Memory, asking: Asking, rows: ChangedRows) -> bool:
        """Look at the columns that have changed: they have other snapshots."""
        parts = self.parts
        for place, (runner, column) in enumerate(self._columns):
            before = parts[place]
            if column is None or before is column.taken:
                continue
            parts[place] = after = runner.lasting_share(column, *asking)
            if before is None or after is None or (before.column is None) != (after.column is None):
                return before is after
        return True

    def release(self) -> None:
        """Let go of the snapshots."""
        self.parts, self.total = [], None
        self._summed = ()

    def nbytes(self) -> int:
        """Nothing but what columns hold."""
        return 0


class ScorePlan:
    """Which plugins score pods of one shape, and the views of their raw scores."""

    __slots__ = ("columns", "constant", "runners", "shares", "without_parts")

    def __init__(self, memory: Memory, runners: Sequence[ScoreRunner], skipped: Set[str], pod: PodInfo) -> None:
        """Make the plan for pods of this pod's shape where these plugins skip."""
        self.without_parts = 0 if runners else 1
        """The total if no plugin scores: upstream's `prioritizeNodes` gives 1 only if none is configured."""
        self.runners = scoring = [runner for runner in runners if runner.name not in skipped]
        self.columns = columns = [column_of(memory, runner, pod) for runner in self.runners]
        """Their columns; None where a plugin is asked about each pod."""
        self.shares = memory.view((Shares, *columns), lambda: Shares(memory, scoring, columns))
        """What they add to the totals."""
        self.constant = [
            _Part(runner.name, runner.weight, None, runner.weight * runner.when_skipped)
            for runner in runners
            if runner.name in skipped and runner.when_skipped is not None
        ]
        """The shares of plugins that skip but still give every node the same score (`score_when_skipped`)."""


class _DomainScores:
    """The scores that plugins give whole domains of one topology, the same for all of them, while a pod is scored.

    The best rows are then found among the best of each domain, without looking at rows that have not changed.
    """

    __slots__ = ("asked", "mask_source", "over")

    def __init__(self, mask_source: MaskSource | None) -> None:
        """Without a `mask_source` nothing can be found by domain."""
        self.mask_source = mask_source
        self.over = None if mask_source is None else mask_source.domains
        """Values over the domains, which identify the topology; None until there are any."""
        self.asked: list[tuple[int, ScoreRunner, OverDomains]] = []
        """The indices of the plugins' parts, and their raw scores."""

    def take(self, runner: ScoreRunner, state: CycleState, pod: PodInfo, place: int) -> bool:
        """Ask a plugin for the scores of whole domains; say whether it gave them, for the same topology."""
        raw = None if self.mask_source is None else runner.over_domains(state, pod)
        if raw is None or (self.over is not None and raw.token is not self.over.token):
            return False
        self.over = raw
        self.asked.append((place, runner, raw))
        return True

    def fill(
        self,
        parts: list[_Part],
        blocks: Blocks | None,
        state: CycleState,
        pod: PodInfo,
        nodes: FeasibleNodes,
        memory: Memory,
    ) -> InDomains | Status | None:
        """Fill in the parts of the plugins that were asked; return the best rows, or None if finding them takes all
        rows.
        """
        if blocks is not None and self.mask_source is not None:
            codes = self.mask_source.domains
            domains = [domain for domain, count in enumerate(blocks.counts) if count]
            if codes is not None:
                domains = [domain for domain in domains if not codes.values.item(domain)]
            found = self._by_domain(parts, domains, state, pod)
            if found is not None:
                return found if isinstance(found, Status) else InDomains(blocks, domains, found)
        for place, runner, _ in self.asked:
            part = runner.share(None, state, pod, nodes, memory)
            if isinstance(part, Status):
                return part
            parts[place] = part
        return None

    def _by_domain(
        self, parts: list[_Part], domains: list[int], state: CycleState, pod: PodInfo
    ) -> list[int] | Status | None:
        """Fill in the parts by domain; return their sum for each domain."""
        total = [0] * len(domains)
        for place, runner, raw in self.asked:
            part = runner.domain_share(state, pod, raw, domains)
            if part is None or isinstance(part, Status):
                return part
            assert part.over is not None, "it was scored by domain"
            parts[place] = part
            total = [before + share for before, share in zip(total, part.over.values[domains].tolist(), strict=True)]
        return total


def run_score(
    plan: ScorePlan,
    memory: Memory,
    state: CycleState,
    pod: PodInfo,
    nodes: FeasibleNodes,
    source: MaskSource | None,
) -> Scored | Status:
    """Score the feasible nodes with every plugin of the plan.

    Every node gets 1 if the profile has no Score plugin, 0 if all of them skip the pod.

    `source` says which view the feasible nodes come from, if they come from one.
    """
    shares = memory.bring(plan.shares, (state, pod))
    parts: list[_Part] = [*plan.constant, *shares.parts]  # type: ignore[list-item]
    is_worked_out, before, summed = False, len(plan.constant), shares.total
    in_domains = _DomainScores(source)
    for place, part in enumerate(shares.parts):
        if part is None:
            runner, column = plan.runners[place], plan.columns[place]
            if column is None and in_domains.take(runner, state, pod, before + place):
                continue
            share = runner.share(column, state, pod, nodes, memory)
            if isinstance(share, Status):
                return share
            parts[before + place], is_worked_out = share, True
    if in_domains.over is not None:
        blocks = None
        if source is not None and summed is not None and not is_worked_out:
            by_domain = ranked_by_domain(memory, source.passing, summed, in_domains.over)
            by_domain.bring_up_to_date(memory, (state, pod))
            blocks = by_domain.ranking
        ranking = in_domains.fill(parts, blocks, state, pod, nodes, memory)
        if isinstance(ranking, Status):
            return ranking
        if ranking is not None:
            return Scored(nodes, parts, None, ranking)
        is_worked_out = is_worked_out or bool(in_domains.asked)
    if summed is None:
        return Scored(nodes, parts, None, without_parts=plan.without_parts)
    # The feasible nodes are those of a view, and every share is a column or a single number. So the ranking is a view
    # as well, and a replica costs only the rows that have changed.
    if source is not None and source.domains is None and not is_worked_out:
        view = ranked(memory, source.passing, summed)
        view.bring_up_to_date(memory, (state, pod))
        return Scored(nodes, parts, None, view.ranking, view=view)
    summed.bring_up_to_date(memory, (state, pod))
    if is_worked_out:
        return Scored(nodes, parts, summed.total)
    return Scored(nodes, parts, None, Ranking(np.where(nodes.mask, summed.total, UNRANKED)))
