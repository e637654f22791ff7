"""Reuses one decision for the next pod, where pods of a workload follow one another in the queue.

Pods are alike if they have one shape, or if their shapes differ only in labels. A pod tried right after one like it
meets the same cluster except for the rows that have changed since: usually the one on which that pod was placed. Only
plugins that depend on changed rows are run again, for these rows, besides those that depend on more than single rows
(the pods of a zone, say) and, where labels differ, those that read labels. Then the rows are ranked again.

The invariant: `AlikeRun.best_rows` returns what a whole attempt would find, or None if it cannot know. It stores
answers where an attempt would store them, so the next pod finds them whichever way it takes.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.config.types import ExtensionPoint as Point
from berth.engine.memo import FEW_ROWS, RowForm, Slot, SlotSet
from berth.engine.memo_entry import DomainEntry, MemoEntry
from berth.engine.profile import Profile
from berth.engine.scores import Scored, ScoreSource
from berth.engine.sums import UNRANKED, BestRows, Int64, Mask, Ranking
from berth.engine.verdicts import Verdicts
from berth.framework.blame import contained
from berth.framework.cycle_state import CycleState
from berth.framework.interface import FeasibleNodes, PreFilterPlugin, PreFilterResult, PreScorePlugin
from berth.framework.status import Code, Status
from berth.state.pod_info import PodInfo


class AlikeRun:
    """A run of alike pods that begins once a whole attempt has placed the first; made by `run_after`."""

    __slots__ = (
        "_codes",
        "_held_at_start",
        "_memos",
        "_moving",
        "_pod",
        "_profile",
        "_ranking",
        "_seen",
        "_shares",
        "_slots",
        "_state",
    )  # fmt: skip

    def __init__(
        self,
        profile: Profile,
        pod: PodInfo,
        state: CycleState,
        ranking: "Ranking | RunTotals",
        codes: list[MemoEntry],
        shares: list[tuple[MemoEntry, int]],
        moving: list[tuple[Any, RowForm, MemoEntry]],
        slots: list[Slot] | None,
    ) -> None:
        """`codes` and `shares` are the kept columns that say which rows fit and what they score. `moving` are those of
        them that depend on the pods of a row, each with what computes a row. `slots` hold these columns; None for a run
        of a single shape.
        """
        self._pod = pod
        self._slots = slots
        self._state = state
        self._profile = profile
        self._memos = profile.memos
        self._ranking = ranking
        self._codes = codes
        self._shares = shares
        self._moving = moving
        self._held_at_start = self._conditions()
        self._seen = self._memos.table.pod_log.position

    def _conditions(self) -> tuple[object, ...]:
        """What must not change while the run lasts, apart from the rows on which pods have come or gone."""
        memos = self._memos
        table = memos.table
        return (
            table.node_log.position, table.capacity,
            memos.drops, memos.epochs, memos.version_beside_rows, memos.enabled,
            len(self._profile.nominator),
        )  # fmt: skip

    def takes(self, pod: PodInfo) -> bool:
        """Say whether a pod is like those of the run. Its labels may differ if no kept answer was made from labels."""
        first, name, slots = self._pod, self._profile.name, self._slots
        if pod.profile_name != first.profile_name or slots is None or not pod.shape.is_like(first.shape):
            return pod.shape is first.shape and pod.profile_name == first.profile_name
        return all([slot.runner.slots.of(name, pod) is slot for slot in slots])  # noqa: C419 (a list is faster)

    def best_rows(self, pod: PodInfo) -> BestRows | None:
        """Return the best rows for one more pod that the run takes; None if only a whole attempt can tell."""
        if self._held_at_start != self._conditions() or pod.status.nominated_node_name:
            return None
        table = self._memos.table
        rows = table.pod_log.since(self._seen)
        if rows is None or len(rows) > FEW_ROWS or not self._ask_about(rows, pod):
            return None
        valid, ranking = table.valid, self._ranking
        for row in rows:
            fits = valid.item(row) and not any([entry.column.item(row) for entry in self._codes])  # noqa: C419
            total = sum([entry.column.item(row) * weight for entry, weight in self._shares]) if fits else UNRANKED
            ranking.put(row, total)
        self._seen = table.pod_log.position
        if isinstance(ranking, RunTotals):
            return ranking.best_rows(pod)
        best = ranking.best_rows()
        return None if ranking.highest() == UNRANKED else best

    def _ask_about(self, rows: list[int], pod: PodInfo) -> bool:
        """Bring the answers about some rows up to date; False if one of them cannot be relied on."""
        state, table = self._state, self._memos.table
        for runner, form, entry in self._moving:
            for row in rows:
                try:
                    value = form(state, pod, table, row)
                except BaseException as raised:  # the attempt will meet it, too, and says whose bug it is
                    contained(raised)
                    return False
                if entry.column.item(row) != value:
                    entry.repair_row(row, value)
                    runner.note(entry.extra, value)
        return not any([entry.extra.any_out_of_range for entry, _ in self._shares])  # noqa: C419 (a list is faster)


class PerPodPlugins(NamedTuple):
    """The plugins that are asked about every pod of a run, since their answers depend on more than single rows."""

    pre_filters: Sequence[PreFilterPlugin]
    filters: Sequence[Slot]
    pre_scores: Sequence[PreScorePlugin]
    scores: Sequence[ScoreSource]
    seldom: Sequence[ScoreSource]
    """Those whose scores need normalizing again only if other nodes have become feasible."""


class RunTotals:
    """The totals of a run in which some plugins are asked about every pod.

    `_lasting` has, by row, the sum of the columns that the run keeps up to date, `UNRANKED` where one of them rejects
    the pod. The invariant: while `_nodes` is set, its rows are those that `_lasting` ranks and that the filters asked
    for each pod let pass, and `_subtotals` has for these rows `_lasting` plus the shares of the plugins in `seldom`.
    """

    __slots__ = ("_asked", "_lasting", "_nodes", "_profile", "_rows", "_state", "_subtotals")

    def __init__(self, profile: Profile, state: CycleState, asked: PerPodPlugins, lasting: Int64) -> None:
        self._profile = profile
        self._state = state
        self._asked = asked
        self._lasting = lasting
        self._nodes: FeasibleNodes | None = None
        self._rows: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        self._subtotals: Int64 = lasting

    def put(self, row: int, total: int) -> None:
        """Set what the columns that are kept up to date give a row."""
        before, nodes = self._lasting.item(row), self._nodes
        self._lasting[row] = total
        if (before == UNRANKED) != (total == UNRANKED):
            self._nodes = None
        elif nodes is not None and nodes.mask.item(row):
            self._subtotals[self._rows.searchsorted(row)] += total - before

    def best_rows(self, pod: PodInfo) -> BestRows | None:
        """Ask about a pod; return the best rows for it, ascending, or None if only a whole attempt can tell."""
        try:
            return self._found(pod)
        except BaseException as raised:  # the attempt will meet it, too, and says whose bug it is
            contained(raised)
            return None

    def _found(self, pod: PodInfo) -> BestRows | None:
        state, asked = self._state, self._asked
        nodes = self._feasible(pod)
        # A single feasible node is taken without scores, and the absence of any has to be reported.
        if nodes is None or nodes.count < 2:
            return None
        for plugin in asked.pre_scores:
            if not _is_as_before(plugin.pre_score(state, pod, nodes), plugin.name in state.skip_score):
                return None
        if nodes is not self._nodes:
            self._rows = nodes.row_array()
            subtotals = _with_shares(self._lasting[self._rows], asked.seldom, state, pod, nodes)
            if subtotals is None:
                return None
            self._nodes, self._subtotals = nodes, subtotals
        totals = _with_shares(self._subtotals, asked.scores, state, pod, nodes)
        if totals is None:
            return None
        highest = totals.item(totals.argmax())  # faster than max()
        best: BestRows = self._rows[(totals == highest).nonzero()[0]]
        return best

    def _feasible(self, pod: PodInfo) -> FeasibleNodes | None:
        """Return the nodes that pass all filters: the same object as for the last pod, if they are the same nodes."""
        state, memos, nodes = self._state, self._profile.memos, self._nodes
        for plugin in self._asked.pre_filters:
            if not _is_as_before(plugin.pre_filter(state, pod), plugin.name in state.skip_filter):
                return None
        if nodes is not None and not self._asked.filters:
            return nodes
        mask: Mask = self._lasting != UNRANKED
        if self._asked.filters:
            for entry in memos.refresh(self._asked.filters, state, pod):
                mask &= entry.fits() if isinstance(entry, DomainEntry) else entry.column == 0
        return nodes if nodes is not None and np.array_equal(nodes.mask, mask) else FeasibleNodes(memos.table, mask)


def _is_as_before(answer: PreFilterResult | Status | None, skipped: bool) -> bool:
    """Say whether a plugin has passed or skipped a pod just as it did the one before; if not, the plan changes."""
    return answer is None if not skipped else isinstance(answer, Status) and answer.code is Code.SKIP


def _with_shares(
    totals: Int64,
    sources: Sequence[ScoreSource],
    state: CycleState,
    pod: PodInfo,
    nodes: FeasibleNodes,
) -> Int64 | None:
    """Return the totals over the feasible rows plus the scores of these plugins; None if one of them fails."""
    for runner, entry in sources:
        part = runner.share(entry, state, pod, nodes)
        if isinstance(part, Status):
            return None
        totals = totals + part.weighted
    return totals


def run_after(
    profile: Profile,
    pod: PodInfo,
    following: PodInfo,
    state: CycleState,
    verdicts: Verdicts | None,
    scored: Scored | None,
) -> AlikeRun | None:
    """Return the run that begins with a pod just placed; None if `following`, the next pod, may be decided differently
    although it is like it.

    That is so where anything besides plugins takes part, and where a plugin has to be asked node by node for each pod.
    """
    kept_mask = None if verdicts is None else verdicts.kept_mask
    if scored is None or kept_mask is None or state.taken_out or len(profile.nominator) or not profile.memos.enabled:
        return None
    if profile.extenders or profile.narrowing or profile.percentage_of_nodes_to_score is not None:
        return None
    others = following.shape is not pod.shape
    pre_filters = profile.to_ask(Point.PRE_FILTER, pod, whatever_labels=others)
    pre_scores = profile.to_ask(Point.PRE_SCORE, pod, whatever_labels=others)
    plans = profile.kept_plans(state, pod)
    if plans is None or pre_filters is None or pre_scores is None:
        return None
    filter_plan, score_plan = plans
    shares = scored.total_parts(score_plan)
    moving = _moving(filter_plan.set, score_plan.lasting)
    filters = [slot for slot in filter_plan.slots if slot.key is None]
    if shares is None or moving is None or not all(slot.runner.answers_by_column for slot in filters):
        return None
    # What they prepare would be stale by the time rows are asked about.
    preparing = {plugin.name for plugin in (*pre_filters, *pre_scores)}
    if any(runner.name in preparing for runner, _, _ in moving):
        return None
    ranking: Ranking | RunTotals | None = scored.kept_ranking
    # Normalizing may look at the pod, which the key of a kept column does not cover.
    always, seldom = ([*shares.asked, *shares.seldom], []) if others else (shares.asked, shares.seldom)
    asked = PerPodPlugins(pre_filters, filters, pre_scores, always, seldom)
    if any(asked):
        ranking = RunTotals(profile, state, asked, shares.total(kept_mask))
    codes = [entry for slot, entry in zip(filter_plan.slots, filter_plan.set.entries, strict=True) if slot.key]
    # A filter's column may have been dropped in the same attempt to make room for a score's; it is no longer kept up to
    # date. What is dropped from here on ends the run.
    if ranking is None or not all(entry.is_kept for entry in (*codes, *(each for each, _ in shares.lasting))):
        return None
    kept = [slot for slot in (*filter_plan.slots, *score_plan.slots) if slot.key] if others else None
    return AlikeRun(profile, pod, state, ranking, codes, shares.lasting, moving, kept)


def _moving(*sets: SlotSet) -> list[tuple[Any, RowForm, MemoEntry]] | None:
    """Return what computes single rows whose pods have changed; None if a plugin cannot be asked about single rows."""
    found: list[tuple[Any, RowForm, MemoEntry]] = []
    for slots in sets:
        for place, slot in slots.moving:
            entry, needs, form = slots.entries[place], slot.dependencies, slot.runner.row_form
            if slot.key is None:  # it is asked about each pod
                continue
            if not entry.is_kept or needs.reservations or needs.pods_anywhere:
                return None
            # What depends on nodes or objects alone has not changed, or the run would be over.
            if needs.pods_on_node and (form is None or needs.all_nodes):
                return None
            if needs.pods_on_node:
                found.append((slot.runner, form, entry))
    return found
