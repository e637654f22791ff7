"""Which rows can be freed for pods of a shape, and at what cost: kept from one search to the next.

Preempting pods usually come in numbers, as replicas of one workload, and between two of them a row or two change. What
a dry run finds on a row depends on the row (its node, the pods there), on the pods nominated to it, on the budgets, and
on what the filters look at besides rows (`ProfileView.basis`). So a result holds until one of these changes, and only
rows that have changed are tried again. `refused.py` keeps why rows cannot be freed, for when none can.

`KeptDryRun` wraps the columnar dry run and gives the same answers; a victim is named only after the plain dry run has
confirmed the row, as for every row that is chosen.
"""

from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from berth.framework.readers import NominationReader
from berth.framework.status import Code, Status
from berth.plugins.preemption.budgets import Budget, Budgets
from berth.plugins.preemption.choice import Candidate, cost
from berth.plugins.preemption.columns import ColumnDryRun, Mask, Tried, no_costs
from berth.plugins.preemption.dry_run import DryRun
from berth.plugins.preemption.eligibility import RowArray
from berth.plugins.preemption.ranked_pods import RankedPods
from berth.state.table import Int64, NodeTable

UNTRIED = -1
"""The version of a row of which nothing is known; rows have versions from 0 on."""

MAX_BUDGETS = 64
"""When more budgets than this have changed, all rows are tried again."""

FEW_ROWS = 2
"""Up to this many rows are tried one by one, since columns have a fixed cost."""


class DryRunOutcomes:
    """What was found on each row for pods of one shape.

    The invariant after `catch_up`: where a row has the version that it has in the table, a dry run now would find on it
    what is in `_freed` and `_costs`. Whatever changes on a row raises its version there.
    """

    __slots__ = (
        "_basis", "_budgets", "_budgets_seen", "_costs", "_freed", "_nominations", "_nominator", "_ranked_pods",
        "_steps", "_steps_for", "_table", "_versions", "_why",
    )  # fmt: skip

    def __init__(
        self, table: NodeTable, nominator: NominationReader, ranked_pods: RankedPods, budgets: Budgets
    ) -> None:
        self._table = table
        self._nominator = nominator
        self._ranked_pods = ranked_pods
        self._budgets = budgets
        self._budgets_seen = 0
        """The position up to which changes of budgets have been followed."""
        self._basis: Hashable = None
        self._nominations = -1
        self._begin_anew()

    def catch_up(self, basis: Hashable, priority: int) -> None:
        """Forget what no longer holds, except for rows, whose version tells.

        `basis` is what the filters look at besides rows, `priority` that of the pods of this shape.
        """
        named = self._nominator.changes.since(self._nominations)
        self._nominations = self._nominator.changes.position
        self._budgets.all()
        changed = self._budgets.changed_since(self._budgets_seen)
        self._budgets_seen = self._budgets.position
        is_other = basis != self._basis or len(self._versions) != self._table.capacity
        if named is None or changed is None or len(changed) > MAX_BUDGETS or is_other:
            self._basis = basis
            self._begin_anew()
            return
        row_of = self._table.row_of
        for name in named:
            row = row_of.get(name)
            if row is not None:
                self._versions[row] = UNTRIED
        if changed:
            self._follow(changed, priority)

    def _follow(self, changed: Sequence[Budget], priority: int) -> None:
        """Forget the rows where one of these budgets, as it was or as it is now, may be broken."""
        # A budget that allows all of its pods on a row to be evicted does not matter to the row.
        known = np.flatnonzero(self._versions == self._table.version)
        self._ranked_pods.update(known)
        for budget, kinds in self._ranked_pods.selected_by(changed):
            self._versions[known[self._ranked_pods.count(kinds, known, priority) > budget.allowed]] = UNTRIED

    def unknown(self, rows: RowArray) -> RowArray:
        """Return which of these rows nothing is known about."""
        stale: Mask = self._versions[rows] != self._table.version[rows]
        return rows[stale]

    def of(self, rows: RowArray) -> Tried:
        """Return what is known about these rows, without the reasons for those that cannot be freed.

        A row about which nothing is known counts as one that cannot be freed.
        """
        return Tried(rows, self._freed[rows], self._costs.of(rows), [], lambda: iter(()))

    def steps(self, rows: int) -> int:
        """Return the steps that trying this many rows by column would cost in an attempt's work budget."""
        return self._steps * rows // self._steps_for if self._steps_for else 0

    def learn(self, tried: Tried, steps: int) -> None:
        """Note the results for some rows by column, and the steps that they cost."""
        rows = tried.rows
        self.spent(steps, len(rows))
        self._note(rows, tried.freed)
        for kept, column in zip(self._costs, tried.costs, strict=True):
            kept[rows] = column
        for status, refused in tried.refusals_by_plain:
            if status.code is Code.ERROR:
                self._versions[refused] = UNTRIED

    def spent(self, steps: int, rows: int) -> None:
        """Note the steps that trying this many rows cost."""
        self._steps += steps
        self._steps_for += rows

    def learn_row(self, row: int, found: Candidate | Status, *, lasts: bool = True) -> None:
        """Note what was found on a row; an error is not kept, nor what does not last beyond this search."""
        is_freed = isinstance(found, Candidate)
        self._freed[row] = is_freed
        is_error = isinstance(found, Status) and found.code is Code.ERROR
        self._versions[row] = UNTRIED if is_error or not lasts else self._table.version[row]
        if isinstance(found, Candidate):
            for column, value in zip(self._costs, cost(found), strict=True):
                column[row] = value
        else:
            self._why[row] = found

    def refusals(self, rows: RowArray) -> Sequence[tuple[Status, RowArray]]:
        """Return why these rows, each of which was tried on its own, cannot be freed."""
        groups: dict[Status, list[int]] = {}
        for row in rows.tolist():
            groups.setdefault(self._why[row], []).append(row)
        return [(status, np.array(failing, dtype=np.intp)) for status, failing in groups.items()]

    def refuse(self, rows: RowArray) -> None:
        """Note that rows cannot be freed."""
        self._note(rows, np.zeros(len(rows), dtype=np.bool_))

    def _note(self, rows: RowArray, freed: Mask) -> None:
        self._freed[rows] = freed
        self._versions[rows] = self._table.version[rows]

    def _begin_anew(self) -> None:
        capacity = self._table.capacity
        self._versions: Int64 = np.full(capacity, UNTRIED, dtype=np.int64)
        self._freed: Mask = np.zeros(capacity, dtype=np.bool_)
        self._costs = no_costs(capacity)
        self._steps = self._steps_for = 0
        self._why: dict[int, Status] = {}
        """Of rows that were tried by themselves and cannot be freed, why."""


class KeptDryRun:
    """Tries rows like `ColumnDryRun`, but only those about which nothing is known."""

    __slots__ = ("_columns", "_has_victims", "_outcomes", "_plain", "_table", "owed")

    def __init__(
        self,
        outcomes: DryRunOutcomes,
        has_victims: Callable[[RowArray], NDArray[np.bool_]],
        columns: Callable[[], ColumnDryRun],
        plain: DryRun,
        table: NodeTable,
    ) -> None:
        self._outcomes = outcomes
        self._has_victims = has_victims
        self._columns = columns
        self._plain = plain
        self._table = table
        self.owed = 0
        """What the rows that need not be tried would have taken of the budget of work. The caller spends it, so that
        an attempt ends as if nothing were kept, once it knows that they need not be tried after all."""

    def on(self, rows: RowArray) -> Tried:
        """Try these rows; what is returned does not say why rows cannot be freed."""
        unknown = self._outcomes.unknown(rows)
        if len(unknown):
            self._try(unknown)
        self.owed += self._outcomes.steps(len(rows) - len(unknown))
        return self._outcomes.of(rows)

    def _try(self, rows: RowArray) -> None:
        has_victims = self._has_victims(rows)
        if not has_victims.all():
            self._outcomes.refuse(rows[~has_victims])
            rows = rows[has_victims]
        if len(rows) > FEW_ROWS:
            before = self._plain.work.spent
            tried = self._columns().on(rows)
            self._outcomes.learn(tried, self._plain.work.spent - before)
            return
        for row in rows.tolist():
            self._outcomes.learn_row(row, self._plain.on(self._table.view(row)))


class KeptRowByRow:
    """Tries unknown rows one by one, since columns do not know which victims a plugin's rules allow."""

    __slots__ = ("_outcomes", "_plain", "_table", "owed")

    def __init__(self, outcomes: DryRunOutcomes, plain: DryRun, table: NodeTable) -> None:
        self._outcomes = outcomes
        self._plain = plain
        self._table = table
        self.owed = 0
        """As in `KeptDryRun`."""

    def on(self, rows: RowArray) -> Tried:
        """Try these rows; the outcomes have the reasons for those that cannot be freed."""
        unknown = self._outcomes.unknown(rows)
        self.owed += self._outcomes.steps(len(rows) - len(unknown))
        before = self._plain.work.spent
        for row in unknown.tolist():
            found = self._plain.on(self._table.view(row))
            # That no pod may go may be worded with the pod's name, and is kept elsewhere.
            is_vacant = row in self._plain.vacant[-1:]
            self._outcomes.learn_row(row, found, lasts=not is_vacant)
        self._outcomes.spent(self._plain.work.spent - before, len(unknown))
        return self._outcomes.of(rows)
