"""The search for candidates: rows are tried in order until there are enough, and the best is taken.

Rows are tried by column where the filters allow it, and the chosen one is confirmed by the plain dry run; otherwise
one by one. Both ways give the same node and the same victims.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from berth.framework.cycle_state import CycleState
from berth.framework.profile_view import ColumnWhatIf, ProfileView
from berth.framework.status import Status
from berth.plugins.preemption.budgets import Budget
from berth.plugins.preemption.choice import Candidate, Shortlist, cheapest, cost
from berth.plugins.preemption.columns import ColumnDryRun, Tried
from berth.plugins.preemption.dry_run import NO_VICTIMS_FOUND, PLUGIN, DryRun
from berth.plugins.preemption.eligibility import RowArray
from berth.plugins.preemption.outcomes import FEW_ROWS, DryRunOutcomes, KeptDryRun
from berth.plugins.preemption.ranked_pods import RankedPods
from berth.plugins.preemption.refused import LowestPriorities
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

MIN_STEP = 64
"""At least this many rows are tried together, since a trial's fixed cost equals that of dozens of rows."""

Refusals = Iterable[tuple[Status, RowArray]]


class RowsDryRun(Protocol):
    """Tries many rows at once."""

    def on(self, rows: RowArray) -> Tried:
        """Try these rows."""


class BestCandidate(NamedTuple):
    """What a search has found: the best candidate or, where there is none, why the rows cannot be freed."""

    best: Candidate | None
    refusals: Refusals


class CandidateSearch:
    """The search for one pod, over whichever rows are asked for."""

    __slots__ = ("_budgets", "_lowest", "_outcomes", "_pod", "_profile", "_ranked_pods", "_state", "_table")

    def __init__(
        self,
        state: CycleState,
        pod: PodInfo,
        profile: ProfileView,
        budgets: Sequence[Budget],
        ranked_pods: RankedPods,
        lowest: LowestPriorities,
        outcomes: DryRunOutcomes | None = None,
    ) -> None:
        """`outcomes`, if given, has what is known of rows for this pod's shape, and is up to date."""
        self._state = state
        self._profile = profile
        self._table: NodeTable = profile.table
        self._pod = pod
        self._budgets = budgets
        self._ranked_pods = ranked_pods
        self._lowest = lowest
        self._outcomes = outcomes

    def best(self, rows: RowArray, wanted: int) -> BestCandidate:
        """Try the rows in their order until there are enough candidates; those without anything to evict are left
        out.
        """
        if self._outcomes is not None and len(rows) > FEW_ROWS:
            known = self._best_of_known(self._outcomes, rows, wanted)
            if known is not None:
                return BestCandidate(known, ())
        has_victims = self._has_victims(rows)
        if not has_victims.any():
            return BestCandidate(None, [(NO_VICTIMS_FOUND, rows)])
        found = self._tried(rows[has_victims], wanted)
        if found.best is not None or has_victims.all():
            return found
        return BestCandidate(None, (*found.refusals, (NO_VICTIMS_FOUND, rows[~has_victims])))

    def refusals(self, rows: RowArray) -> Refusals | None:
        """Return why none of these rows can be freed; None where one can."""
        found = self.best(rows, 1)
        return found.refusals if found.best is None else None

    def _best_of_known(self, outcomes: DryRunOutcomes, rows: RowArray, wanted: int) -> Candidate | None:
        """Do what `best` does, but try only rows about which nothing is known; None if no row can be freed."""
        plain, what_if = self._plain(), self._profile.what_if(self._state, self._pod)
        if not what_if.is_possible:
            return None
        kept = KeptDryRun(outcomes, self._has_victims, lambda: self._columns(what_if, plain), plain, self._table)
        found = search_by_columns(rows, wanted, kept, plain, self._table).best
        if found is not None:
            self._state.work.spend(PLUGIN, kept.owed)
        return found

    def _tried(self, rows: RowArray, wanted: int) -> BestCandidate:
        plain = self._plain()
        if len(rows) > FEW_ROWS:
            what_if = self._profile.what_if(self._state, self._pod)
            if what_if.is_possible:
                return search_by_columns(rows, wanted, self._columns(what_if, plain), plain, self._table)
        return search_plainly(rows, wanted, plain, self._table)

    def _has_victims(self, rows: RowArray) -> NDArray[np.bool_]:
        return self._lowest.are_below(self._pod.priority, rows)

    def _plain(self) -> DryRun:
        return DryRun(self._profile, self._state, self._pod, self._budgets)

    def _columns(self, what_if: ColumnWhatIf, plain: DryRun) -> ColumnDryRun:
        return ColumnDryRun(self._profile, what_if, self._ranked_pods, self._pod, self._budgets, plain)


def search_plainly(rows: RowArray, wanted: int, dry_run: DryRun, table: NodeTable) -> BestCandidate:
    """Try the rows one by one."""
    candidates, refusals = candidates_plainly(rows, wanted, dry_run, table)
    return BestCandidate(cheapest(candidates), ()) if candidates else BestCandidate(None, refusals)


def candidates_plainly(
    rows: RowArray, wanted: int, dry_run: DryRun, table: NodeTable
) -> tuple[Sequence[Candidate], Refusals]:
    """Try the rows one by one until there are enough candidates; return them, and why the others cannot be freed."""
    shortlist = Shortlist(wanted)
    refusals: dict[Status, list[int]] = {}
    for row in rows.tolist():
        found = dry_run.on(table.view(row))
        if isinstance(found, Status):
            refusals.setdefault(found, []).append(row)
            continue
        shortlist.add(found)
        if shortlist.is_full:
            break
    refused = [(status, np.array(failing, dtype=np.intp)) for status, failing in refusals.items()]
    return shortlist.all(), refused


def search_by_columns(
    rows: RowArray, wanted: int, columns: RowsDryRun, plain: DryRun, table: NodeTable
) -> BestCandidate:
    """Try the rows in steps, each a little larger than the number of candidates that are still wanted."""
    parts: list[Tried] = []
    clean = violating = 0
    start = 0
    while start < len(rows):
        missing = wanted - clean - violating
        step = max(missing + missing // 4, MIN_STEP)
        tried = columns.on(rows[start : start + step])
        start += step
        clean, violating = _count(tried, clean, violating, wanted)
        parts.append(tried)
        if clean and clean + violating >= wanted:
            break
    if not clean and not violating:
        return BestCandidate(None, [refusal for tried in parts for refusal in tried.refusals()])
    best = _confirmed(parts, plain, table)
    return BestCandidate(best, ()) if best is not None else search_plainly(rows, wanted, plain, table)


def _count(tried: Tried, clean: int, violating: int, wanted: int) -> tuple[int, int]:
    """Leave only as many candidates as `Shortlist` would take; return how many of each kind there are now."""
    breaks = tried.costs.violations > 0
    if not violating and not breaks.any():
        return _count_clean(tried, clean, wanted), 0
    cleans = clean + np.cumsum(tried.freed & ~breaks)
    violatings = violating + np.cumsum(tried.freed & breaks)
    tried.freed[(np.where(breaks, violatings, cleans) > wanted)] = False
    cleans, violatings = np.minimum(cleans, wanted), np.minimum(violatings, wanted)
    full = np.flatnonzero((cleans > 0) & (cleans + violatings >= wanted))
    last = int(full[0]) if len(full) else len(breaks) - 1
    tried.freed[last + 1 :] = False
    return int(cleans[last]), int(violatings[last])


def _count_clean(tried: Tried, clean: int, wanted: int) -> int:
    """Do what `_count` does where no budget is broken, which is nearly always and takes one pass less."""
    found = np.flatnonzero(tried.freed)
    if clean + len(found) > wanted:
        tried.freed[found[wanted - clean] :] = False
    return min(clean + len(found), wanted)


def _confirmed(parts: list[Tried], plain: DryRun, table: NodeTable) -> Candidate | None:
    """Return the cheapest row as the plain dry run has it; None where the two disagree.

    They should not. But a victim is a running pod, so no pod is evicted because of the columns' result alone.
    """
    # The cheapest of each part first, then of these, so that the first of equals is found as if they were one.
    bests = [(tried, tried.costs.cheapest(freed)) for tried in parts if len(freed := tried.freed.nonzero()[0])]
    tried, position = min(bests, key=lambda best: best[0].costs.at(best[1]))
    found = plain.on(table.view(tried.rows.item(position)))
    return None if isinstance(found, Status) or cost(found) != tried.costs.at(position) else found
