"""Label values of nodes as columns of small integers.

A key gets a column when it is asked for. A column is brought up to date from the table's log of changed nodes each time
it is asked for, so a key that is no longer asked for costs a changed node nothing; the least recently used columns are
dropped. A value keeps its id as long as its column lives. If nodes' values come and go, a column would accumulate ids
that no node has, so it is rebuilt, with new ids, once it has twice as many as there are rows. Code that stores
something by id therefore keeps the column with it, and starts over when `LabelIndex.column` returns a different one.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.api.selectors import Requirement
from berth.state.change_log import ChangeLog

ABSENT = -1

MAX_COLUMNS = 512
"""How many label keys have a column at a time; each costs 4 bytes a row, and its values."""
SPARE_IDS = 64
"""How many ids beyond twice the number of rows a column may have before it is rebuilt."""

Ids = NDArray[np.int32]
Mask = NDArray[np.bool_]


class LabelColumn:
    """One label key: the interned value of each row, and the values by id."""

    __slots__ = ("_id_of", "face", "ids", "position", "values")

    def __init__(self, capacity: int) -> None:
        self.ids: Ids = np.full(capacity, ABSENT, dtype=np.int32)
        self.values: list[str] = []
        self.position = 0
        """How far in the log of changed nodes the column has been brought up to date."""
        self._id_of: dict[str, int] = {}
        self.face: Any = None
        """Its face for out-of-tree plugins (`berth.framework.faces`)."""

    def set(self, row: int, value: str | None) -> None:
        """Note that `row` now has this value, or none."""
        self.ids[row] = ABSENT if value is None else self.intern(value)

    def intern(self, value: str) -> int:
        """Return the id of `value`, a new one for a new value; it is valid until the column is rebuilt."""
        found = self._id_of.get(value)
        if found is None:
            found = self._id_of[value] = len(self.values)
            self.values.append(value)
        return found

    def id_of(self, value: str) -> int:
        """Return the id of `value`, or `ABSENT` if it has none."""
        return self._id_of.get(value, ABSENT)

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        longer = np.full(capacity, ABSENT, dtype=np.int32)
        longer[: len(self.ids)] = self.ids
        self.ids = longer

    def accepted(self, requirement: Requirement) -> Mask:
        """Return, by id with the absent value last, whether each value meets `requirement`."""
        # Once per value: thousands of nodes have only a few.
        verdicts = [requirement.accepts(value) for value in self.values]
        return np.array([*verdicts, requirement.accepts(None)], dtype=np.bool_)


def values_at(column: LabelColumn, rows: NDArray[np.intp]) -> list[str]:
    """Return the values that some rows have of a label, each once."""
    return [column.values[each] for each in np.unique(column.ids[rows]).tolist() if each != ABSENT]


class LabelIndex:
    """Columns of the label keys that were asked for most recently."""

    __slots__ = ("_columns", "_labels_of_row", "_log")

    def __init__(self, labels_of_row: Callable[[int], Mapping[str, str] | None], log: ChangeLog[int]) -> None:
        """`labels_of_row` returns None for a row without a node; `log` names each row whose labels have changed."""
        self._columns: OrderedDict[str, LabelColumn] = OrderedDict()
        self._labels_of_row = labels_of_row
        self._log = log

    def __iter__(self) -> Iterator[str]:
        """Yield the keys that have a column."""
        return iter(self._columns)

    def column(self, key: str, capacity: int) -> LabelColumn:
        """Return the column of `key` for a table of `capacity` rows, up to date; a new one if ids have changed."""
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = self._made(key, capacity)
            if len(self._columns) > MAX_COLUMNS:
                self._columns.popitem(last=False)
            return column
        self._columns.move_to_end(key)
        if len(column.ids) < capacity:
            column.grow(capacity)
        if not self._is_caught_up(column, key):
            column = self._columns[key] = self._made(key, capacity)
        return column

    def _is_caught_up(self, column: LabelColumn, key: str) -> bool:
        """Update the rows that have changed; return False if it is better to rebuild the column."""
        if column.position != self._log.position:
            rows = self._log.since(column.position)
            if rows is None:
                return False
            for row in rows:
                column.set(row, self._value(row, key))
            column.position = self._log.position
        # If nodes' values come and go, a column accumulates ids that no node has any more.
        return len(column.values) <= 2 * len(column.ids) + SPARE_IDS

    def _made(self, key: str, capacity: int) -> LabelColumn:
        column = LabelColumn(capacity)  # in which every row is without the label so far
        ids, intern, labels_of_row = column.ids, column.intern, self._labels_of_row
        for row in range(capacity):  # a pod may name thousands of keys for which no column is kept
            labels = labels_of_row(row)
            if labels is not None and key in labels:
                ids[row] = intern(labels[key])
        column.position = self._log.position
        return column

    def _value(self, row: int, key: str) -> str | None:
        labels = self._labels_of_row(row)
        return None if labels is None else labels.get(key)
