"""What nodes have and what is left of it, as float64 arrays ready for arithmetic.

Scoring divides by what is allocatable, for all nodes at once; converting the table's integers each time would cost as
much as the division. So float copies are kept beside the table and brought up to date row by row as nodes and pods
change. Percentages are taken with float64 division, whose floor is that of the integers as long as amounts stay below
`EXACT_BELOW`. Called by the resource plugins only.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from berth.framework.interface import Rows
from berth.state.follower import RowFollower
from berth.state.table import NodeTable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

Number = TypeVar("Number", np.int32, np.int64)

EXACT_BELOW = 2.0**46

GATHER_UNDER = 8
"""Below one row in this many, rows are picked out of the columns before anything is computed."""

REBUILD_UNDER = 8
"""From one changed row in this many on, kept arrays are made anew."""


MAX_COLUMNS = 64
"""How many resources' columns are kept; each costs about 40 bytes a node, and a little with every row that changes."""

MAX_PARTS = 4
"""Of how many sets of rows it is kept what was read."""

RESOURCES_WITH_DEFAULTS = 2


class ResourceColumn(NamedTuple):
    """One resource on each row."""

    amounts: Floats
    """Allocatable."""
    divisors: Floats
    """The same with infinity where a row has none, so that dividing gives 0 there."""
    asked: Floats
    """What pods on the node request."""
    free: Floats
    """`amounts` less `asked`; negative where a node holds more than it has."""
    present: Mask | None
    """Which rows have any; None where every node does."""
    exact: bool

    def at(self, rows: Rows) -> "ResourceColumn":
        """Return the same for some rows."""
        if isinstance(rows, slice) and rows == slice(None):
            return self
        amounts, divisors, asked, free, present, exact = self
        has = None if present is None else present[rows]
        return ResourceColumn(amounts[rows], divisors[rows], asked[rows], free[rows], has, exact)


class ResourceColumns:
    """The columns of the resources that were asked for. `with_defaults`: CPU and memory as scoring counts them."""

    __slots__ = ("_follower", "_kept", "_parts", "_used", "_with_defaults")

    def __init__(self, table: NodeTable, *, with_defaults: bool) -> None:
        self._with_defaults = with_defaults
        self._follower = RowFollower(table, nodes=True, pods=True)
        self._kept: dict[str, ResourceColumn] = {}
        self._used = slice(0, 0)
        # Several plugins read the same rows of the same resources, one after the other: what was read is kept under the
        # identity of the rows, which are kept, too, so that nothing else has it, until a column changes.
        self._parts: dict[int, tuple[Rows, dict[str, ResourceColumn]]] = {}

    @classmethod
    def shared(cls, table: NodeTable, *, with_defaults: bool) -> "ResourceColumns":
        """Return the columns of a table, up to date; all plugins use the same."""
        key = (cls, with_defaults)
        found: ResourceColumns | None = table.derived.get(key)
        if found is None:
            found = table.derived[key] = cls(table, with_defaults=with_defaults)
        found.catch_up(table)
        return found

    def catch_up(self, table: NodeTable) -> None:
        """Bring all columns up to date; to be called before the other methods."""
        rows = self._follower.changed_rows()
        if rows is not None and not rows:
            return
        node_changed = self._follower.node_changed
        self._parts.clear()
        if rows is None or len(rows) * REBUILD_UNDER > table.capacity:
            self._kept.clear()
        else:
            changed = np.array(rows, dtype=np.intp)
            for resource, column in self._kept.items():
                self._kept[resource] = self._updated(table, resource, column, changed, node_changed)
        if rows is None or node_changed:
            self._used = slice(0, table.capacity - int(table.valid[::-1].argmax()))

    def worth_computing(self, rows: Rows, table: NodeTable) -> Rows:
        """Return the rows to compute where `rows` are meant; `picked` makes the answer of it.

        Tables grow ahead of need, so that up to half of the rows may be unused behind the last node. And where many
        rows are meant, picking them out of several columns costs more than also computing those in between.
        """
        if isinstance(rows, slice):
            return self._used if rows == slice(None) else rows
        return rows if len(rows) * GATHER_UNDER < table.capacity else self._used

    def of(self, table: NodeTable, resource: str, rows: Rows) -> ResourceColumn:
        """Return a resource's columns, float64 (rows,), as of the last `catch_up`; do not write to them."""
        parts = self._parts.get(id(rows))
        if parts is None:
            if len(self._parts) >= MAX_PARTS:
                self._parts.clear()
            parts = self._parts[id(rows)] = rows, {}
        part = parts[1].get(resource)
        if part is None:
            found = self._kept.get(resource)
            if found is None:
                if len(self._kept) >= MAX_COLUMNS:
                    self._kept.clear()
                    self._parts = {id(rows): (parts := (rows, {}))}  # where nothing changes, nothing else ends these
                found = self._kept[resource] = self._made(table, resource)
            part = parts[1][resource] = found.at(rows)
        return part

    def _amounts(self, table: NodeTable, resource: str, rows: Rows) -> tuple[Floats, Floats]:
        """Return what rows have of a resource, and what their pods ask of it."""
        index = table.resource_index.get(resource)
        if index is None:
            nothing = np.zeros(row_count(table, rows))
            return nothing, nothing.copy()
        # CPU and memory come first, and have defaults.
        defaults = self._with_defaults and index < RESOURCES_WITH_DEFAULTS
        given = (table.scoring_requested if defaults else table.requested)[index]
        return table.allocatable[index][rows].astype(np.float64), given[rows].astype(np.float64)

    def _made(self, table: NodeTable, resource: str) -> ResourceColumn:
        amounts, asked = self._amounts(table, resource, slice(None))
        divisors = np.where(amounts != 0, amounts, np.inf)
        return _described(table, ResourceColumn(amounts, divisors, asked, amounts - asked, None, exact=True))

    def _updated(
        self, table: NodeTable, resource: str, column: ResourceColumn, rows: NDArray[np.intp], node_changed: bool
    ) -> ResourceColumn:
        amounts, asked = self._amounts(table, resource, rows)
        if node_changed:
            column.amounts[rows], column.divisors[rows] = amounts, np.where(amounts != 0, amounts, np.inf)
        column.asked[rows], column.free[rows] = asked, amounts - asked
        return _described(table, column) if node_changed else column


def _described(table: NodeTable, column: ResourceColumn) -> ResourceColumn:
    """Return the column with what holds of all rows filled in."""
    has = column.amounts != 0
    everywhere = bool((has | ~table.valid).all())
    exact = bool(column.amounts.max(initial=0) < EXACT_BELOW)
    return column._replace(present=None if everywhere else has, exact=exact)


class KeptColumn:
    """A column that the caller defines, kept up to date in the same way."""

    __slots__ = ("_column", "_follower")

    def __init__(self, table: NodeTable) -> None:
        self._follower = RowFollower(table, nodes=True, pods=True)
        self._column: Floats | None = None

    def of(self, make: Callable[[Rows], Floats]) -> Floats:
        """Return the column over all rows; do not write to it. `make` returns it over some, as a new array."""
        rows = self._follower.changed_rows()
        column = self._column
        if column is None or rows is None or len(rows) * REBUILD_UNDER > len(column):
            column = self._column = make(slice(None))
        elif rows:
            changed = np.array(rows, dtype=np.intp)
            column[changed] = make(changed)
        return column


class Scratch:
    """Arrays for column functions to work in, kept from call to call."""

    __slots__ = ("_floats", "_ones", "_zeros")

    def __init__(self) -> None:
        self._floats: list[Floats] = []
        self._zeros = self._ones = np.empty(0)

    def floats(self, count: int, size: int) -> list[Floats]:
        """Return `count` uninitialised float64 arrays (size,)."""
        kept = self._floats
        if len(kept) < count or len(kept[0]) < size:
            kept = self._floats = [np.empty(size) for _ in range(max(count, len(kept)))]
        return [array[:size] for array in kept[:count]]

    def zeros(self, size: int) -> Floats:
        """Return zeros (size,), not to be written to: a bound to compare with, far faster than a scalar."""
        if len(self._zeros) < size:
            self._zeros = np.zeros(size)
        return self._zeros[:size]

    def ones(self, size: int) -> Floats:
        """Return ones of shape (size,), which are shared and not to be written to."""
        if len(self._ones) < size:
            self._ones = np.ones(size)
        return self._ones[:size]


def row_amounts(table: NodeTable, resource: str, row: int, *, with_defaults: bool) -> tuple[int, int]:
    """Return what one row has of a resource, and what its pods ask of it."""
    index = table.resource_index.get(resource)
    if index is None:
        return 0, 0
    # As `ResourceColumns` has it, without its arrays: this is asked six times for each pod that is placed.
    given = table.scoring_requested if with_defaults and index < RESOURCES_WITH_DEFAULTS else table.requested
    return table.allocatable.item(index, row), given.item(index, row)


def row_count(table: NodeTable, rows: Rows) -> int:
    """Return how many rows are meant."""
    if not isinstance(rows, slice):
        return len(rows)
    if rows.start == 0 and rows.stop is not None and rows.step is None:  # as `worth_computing` has it
        return int(rows.stop)
    return len(range(*rows.indices(table.capacity)))


def any_true(mask: Mask) -> bool:
    """Say whether any row is marked; several times as fast as `mask.any()`."""
    return len(mask) > 0 and bool(mask.item(mask.argmax()))


def room(computed: Rows, rows: Rows, table: NodeTable, kind: type[Number]) -> tuple[NDArray[Number], NDArray[Number]]:
    """Make room for the values of the rows that are worth computing, where `rows` are meant.

    Returns an array with one value for each computed row, and the one that it is a part of, for `picked`: where all
    rows are computed that have nodes, that is as long as the table, with 0 behind them.
    """
    size = row_count(table, computed)
    if computed is rows or size == table.capacity:
        values = np.empty(size, dtype=kind)
        return values, values
    column = np.zeros(table.capacity, dtype=kind)
    return column[:size], column


def picked(column: NDArray[Number], computed: Rows, rows: Rows) -> NDArray[Number]:
    """Return the values of `rows` from the second array of `room`."""
    return column if computed is rows or isinstance(rows, slice) else column[rows]
