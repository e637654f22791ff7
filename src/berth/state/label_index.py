"""Label values of nodes as columns of small integers.

A key gets a column the first time it is asked for, and the column is kept up to date from then on. The invariant: a
value keeps its id for ever, even when no node has it any more. So what was computed by id (`accepted`, topology
domains) stays right, and only new values have to be looked at.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from berth.api.selectors import Requirement

ABSENT = -1

Ids = NDArray[np.int32]
Mask = NDArray[np.bool_]


class LabelColumn:
    """One label key: the interned value of each row, and the values by id."""

    __slots__ = ("_id_of", "ids", "values")

    def __init__(self, capacity: int) -> None:
        self.ids: Ids = np.full(capacity, ABSENT, dtype=np.int32)
        self.values: list[str] = []
        self._id_of: dict[str, int] = {}

    def set(self, row: int, value: str | None) -> None:
        """Note that `row` now has this value, or none."""
        self.ids[row] = ABSENT if value is None else self.intern(value)

    def intern(self, value: str) -> int:
        """Return the id of `value`, a new one where it is new."""
        found = self._id_of.get(value)
        if found is None:
            found = self._id_of[value] = len(self.values)
            self.values.append(value)
        return found

    def id_of(self, value: str) -> int:
        """Return the id of `value`, or `ABSENT` where no node has ever had it."""
        return self._id_of.get(value, ABSENT)

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        longer = np.full(capacity, ABSENT, dtype=np.int32)
        longer[: len(self.ids)] = self.ids
        self.ids = longer

    def accepted(self, requirement: Requirement) -> Mask:
        """Return, by id with the absent value last, what `requirement` says of each value."""
        verdicts = [requirement.accepts(value) for value in self.values]
        return np.array([*verdicts, requirement.accepts(None)], dtype=np.bool_)


class LabelIndex:
    """Columns of the label keys that were asked for."""

    __slots__ = ("_columns", "_labels_of_rows")

    def __init__(self, labels_of_rows: Callable[[], Sequence[Mapping[str, str] | None]]) -> None:
        self._columns: dict[str, LabelColumn] = {}
        self._labels_of_rows = labels_of_rows

    def column(self, key: str, capacity: int) -> LabelColumn:
        """Return the column of `key`, built from all rows if it is new."""
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = LabelColumn(capacity)
            for row, labels in enumerate(self._labels_of_rows()):
                if labels is not None and key in labels:
                    column.set(row, labels[key])
        return column

    def update(self, row: int, labels: Mapping[str, str]) -> None:
        """Note the labels of a row that has changed; an empty map for one that is free."""
        for key, column in self._columns.items():
            column.set(row, labels.get(key))

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        for column in self._columns.values():
            column.grow(capacity)
