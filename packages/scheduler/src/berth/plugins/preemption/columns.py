"""The dry run over many rows at once: the same what-if as `dry_run.py`, for the pods at the same place in all rows
together.

The load that pods of lower priority put on the rows is taken off. Where the pod then fits, their load is put back, the
most important pod of every row at once, then the second, and so on, on those rows where the pod still fits with it.

A row is tried this way only if filters look at nothing of the pods there but their load. Then the load alone decides,
rows are independent of one another, and the pods of one place can be put back on all rows in one step. Rows where some
filter looks at a single pod that would leave, or at a nominated pod, are left to the plain dry run.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.framework.interface import RowLoad
from berth.framework.profile_view import ColumnWhatIf, FiltersOverRows, ProfileView
from berth.framework.status import Status
from berth.plugins.preemption.budgets import Budget
from berth.plugins.preemption.choice import NOT_STARTED, PRIORITY_SHIFT, cost
from berth.plugins.preemption.dry_run import NO_VICTIMS_FOUND, PLUGIN, DryRun
from berth.plugins.preemption.ranked_pods import PotentialVictims, RankedPods
from berth.state.pod_info import PodInfo
from berth.state.table import Int64, NodeTable

RowArray = NDArray[np.intp]
Mask = NDArray[np.bool_]
"""bool of shape (rows,), or (places, rows)."""

STEPS_PER_PLACE, ROWS_PER_STEP = 40, 32
"""What each place of pods counts in the budget of work, whatever the number of rows, and for how many rows one more."""

LOWEST_PRIORITY = -(2**31)


class Costs(NamedTuple):
    """What freeing each row costs: the fields of `choice.Cost` as arrays of shape (rows,). The least is best."""

    violations: Int64
    by_rules: NDArray[np.float64]
    highest_priority: Int64
    priority_sum: Int64
    victims: Int64
    running_since: NDArray[np.float64]

    def cheapest(self, positions: RowArray) -> int:
        """Return which of some positions costs least, the first of equals; there must be at least one."""
        for column in self:
            if len(positions) == 1:
                break
            values = column[positions]
            positions = positions[values == values.min()]
        return int(positions[0])

    def of(self, rows: RowArray) -> "Costs":
        """Return a copy of some rows."""
        return Costs(
            self.violations[rows],
            self.by_rules[rows],
            self.highest_priority[rows],
            self.priority_sum[rows],
            self.victims[rows],
            self.running_since[rows],
        )

    def at(self, position: int) -> tuple[float, ...]:
        """Return what freeing one row costs."""
        return tuple([column.item(position) for column in self])


class Tried(NamedTuple):
    """The result for some rows: which can be freed and at what cost, and why the others cannot."""

    rows: RowArray
    freed: Mask
    costs: Costs
    refusals_by_plain: list[tuple[Status, RowArray]]
    refusals_by_column: Callable[[], Iterator[tuple[Status, RowArray]]]
    """Called only where no row at all can be freed."""

    def refusals(self) -> Iterable[tuple[Status, RowArray]]:
        """Return why rows cannot be freed."""
        return (*self.refusals_by_plain, *self.refusals_by_column())


class ColumnDryRun:
    """What-ifs about one pod, many rows at a time."""

    __slots__ = (
        "_budgets",
        "_plain",
        "_pod",
        "_profile",
        "_ranked_pods",
        "_rivals",
        "_table",
        "_what_if",
        "is_possible",
    )

    def __init__(
        self,
        profile: ProfileView,
        what_if: ColumnWhatIf,
        ranked_pods: RankedPods,
        pod: PodInfo,
        budgets: Sequence[Budget],
        plain: DryRun,
    ) -> None:
        self._profile = profile
        self._table: NodeTable = profile.table
        self._what_if = what_if
        self._ranked_pods = ranked_pods
        self._pod = pod
        self._budgets = budgets
        self._plain = plain
        self._rivals = profile.rivals(pod)
        self.is_possible = what_if.is_possible

    def on(self, rows: RowArray) -> Tried:
        """Try these rows."""
        potential = PotentialVictims(self._ranked_pods, rows, self._pod.priority)
        self._spend_on(potential)
        load, by_plain = self._load_without(potential)
        filters = self._what_if.on(rows)
        is_lower: Mask = np.logical_or.reduce(potential.lower, axis=0)
        fits = filters.passing(load) & is_lower & ~by_plain
        why_not = partial(self._refusals, filters, load, is_lower, is_lower & ~fits & ~by_plain, rows)
        if not fits.any() and not by_plain.any():  # by far the most frequent where a crowd fits nowhere
            return Tried(rows, fits, no_costs(len(rows)), [], why_not)
        violating = potential.violating(self._budgets)
        victims = reprieve(filters, potential, load, fits, violating)
        needless = fits & ~victims.any(axis=0)
        tried = Tried(rows, fits & ~needless, costs_of(potential, victims, violating), [], why_not)
        for position in np.flatnonzero((by_plain & is_lower) | needless).tolist():
            self._try_plainly(tried, position)
        return tried

    def _spend_on(self, potential: PotentialVictims) -> None:
        """Spend the steps for removing the pods of all places and putting them back, and for checking the budgets."""
        places, rows = potential.lower.shape
        steps = places * (STEPS_PER_PLACE + rows // ROWS_PER_STEP) + potential.steps_to_violate(self._budgets)
        self._plain.work.spend(PLUGIN, steps, lambda: f"which looks for pods to evict on {rows} nodes")

    def _refusals(
        self, filters: FiltersOverRows, load: RowLoad, is_lower: Mask, refused: Mask, rows: RowArray
    ) -> Iterator[tuple[Status, RowArray]]:
        if not is_lower.all():
            yield NO_VICTIMS_FOUND, rows[~is_lower]
        for status, found in filters.refusals(load, refused):
            yield status, rows[found]

    def _load_without(self, potential: PotentialVictims) -> tuple[RowLoad, Mask]:
        """Return the load of the rows without pods of lower priority, and which rows to leave to the plain dry run.

        Pods nominated there with at least the pod's own priority are counted in. A pod must fit with them and without;
        if only the load counts, whatever fits with them also fits without.
        """
        what_if, rows, rivals = self._what_if, potential.rows, self._rivals
        load = what_if.load(rows, rivals)
        load.pods[:] -= np.count_nonzero(potential.lower, axis=0)
        for resource, amounts in load.requested.items():
            amounts -= (potential.requests(resource) * potential.lower).sum(axis=0)
        by_plain: Mask = np.zeros(len(rows), dtype=np.bool_)
        if what_if.looks_at_single_pods:
            by_plain = potential.holding(what_if.is_affected_by)
            for position in np.flatnonzero(rivals.pods[rows]).tolist() if rivals is not None else ():
                there = self._profile.rivals_on(self._table.names[rows[position]], self._pod)
                by_plain[position] |= any(map(what_if.is_affected_by, there))
        return load, by_plain

    def _try_plainly(self, tried: Tried, position: int) -> None:
        row = tried.rows[position : position + 1]
        found = self._plain.on(self._table.view(int(row[0])))
        if isinstance(found, Status):
            tried.refusals_by_plain.append((found, row))
            return
        tried.freed[position] = True
        for column, value in zip(tried.costs, cost(found), strict=True):
            column[position] = value


def reprieve(filters: FiltersOverRows, potential: PotentialVictims, load: RowLoad, fits: Mask, violating: Mask) -> Mask:
    """Put pods back where the new one still fits; return bool of shape (places, rows): those that must go.

    `load` is that of the rows without any of them; `fits` are the rows to work on. Pods whose eviction breaks a budget
    are put back before all others, as in `dry_run.py`.
    """
    victims: Mask = np.zeros_like(potential.lower)
    for wave in (violating, potential.lower & ~violating) if violating.any() else (potential.lower,):
        for place in range(len(wave)):
            # `load` is always that of the rows with the pods spared so far, and the pod fits under it on all of `fits`.
            asked = wave[place] & fits
            if asked.any():
                stays = asked & filters.passing(potential.loaded(load, place, asked))
                victims[place] |= asked & ~stays
                load = potential.loaded(load, place, stays)
    return victims


def no_costs(rows: int) -> Costs:
    """Return uninitialized arrays for the cost of freeing rows."""
    violations, highest_priority, priority_sum, victims = np.zeros((4, rows), dtype=np.int64)
    return Costs(violations, np.zeros(rows), highest_priority, priority_sum, victims, np.zeros(rows))


def costs_of(potential: PotentialVictims, victims: Mask, violating: Mask) -> Costs:
    """Return what it costs to free each row of these victims. For rows without victims the values mean nothing."""
    priorities = potential.priorities
    highest = np.where(victims, priorities, LOWEST_PRIORITY).max(axis=0)
    started = np.where(victims & (priorities == highest), potential.started, NOT_STARTED)
    return Costs(
        violations=np.count_nonzero(victims & violating, axis=0),
        by_rules=np.zeros(victims.shape[1]),
        highest_priority=highest,
        priority_sum=np.where(victims, priorities + PRIORITY_SHIFT, 0).sum(axis=0),
        victims=np.count_nonzero(victims, axis=0),
        running_since=-started.min(axis=0),
    )
