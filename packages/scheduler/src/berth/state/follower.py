"""Keeps data derived from a node table's rows up to date.

The owner of derived data holds a `RowFollower`, and asks it before each use which rows to look at again. The data may
depend only on the rows' current contents. Under that rule it always equals freshly derived data, no matter how often
the rows changed or the follower was asked in between.
"""

from collections.abc import Hashable, Iterable, Sequence, Set
from typing import Generic, TypeVar

from berth.state.change_log import ChangeLog
from berth.state.table import NodeTable

K = TypeVar("K", bound=Hashable)


class RowFollower:
    """How far its owner has read a table's change logs.

    `nodes`: rows count as changed when the node object does; `pods`: when a pod comes to the row or leaves it.
    """

    __slots__ = ("_capacity", "_node_log", "_node_position", "_pod_log", "_pod_position", "_table", "node_changed")

    def __init__(self, table: NodeTable, *, nodes: bool = False, pods: bool = False) -> None:
        self._table = table
        # An empty log stands in for one that is not followed: its position never moves.
        self._node_log: ChangeLog[int] = table.node_log if nodes else ChangeLog()
        self._pod_log: ChangeLog[int] = table.pod_log if pods else ChangeLog()
        self._capacity = self._node_position = self._pod_position = -1
        self.node_changed = True
        """Whether the last call of `changed_rows` covered a change of a node object; True before the first call."""

    def changed_rows(self) -> Sequence[int] | None:
        """Return the rows that have changed since the last call, each once, ascending.

        None stands for every row: at the first call, when the table has grown, and if more has changed than the log
        still covers. Rows that no longer hold anything are included.
        """
        capacity, node_position, pod_position = self._table.capacity, self._node_log.position, self._pod_log.position
        rows: list[int] | None = None
        self.node_changed = node_changed = node_position != self._node_position
        if self._capacity == capacity:
            if node_changed:
                rows = rows_since(self._node_log, self._node_position, self._pod_log, self._pod_position)
            elif pod_position == self._pod_position:
                return ()
            else:  # by far the most frequent: a pod was placed
                rows = self._pod_log.since(self._pod_position)
        self._capacity, self._node_position, self._pod_position = capacity, node_position, pod_position
        return rows

    def rows_to_look_at(self) -> Iterable[int]:
        """Return the rows of `changed_rows`, with None replaced by every row of the table."""
        rows = self.changed_rows()
        return range(self._table.capacity) if rows is None else rows


def rows_since(
    node_log: ChangeLog[int], node_position: int, pod_log: ChangeLog[int], pod_position: int
) -> list[int] | None:
    """Return the rows in either log after a position in each, as `ChangeLog.since` does."""
    by_nodes, by_pods = node_log.since(node_position), pod_log.since(pod_position)
    if by_nodes is None or by_pods is None:
        return None
    if not by_nodes:
        return by_pods
    return sorted({*by_nodes, *by_pods}) if by_pods else by_nodes


class RowsByKey(Generic[K]):
    """Rows by the keys found on them; sparse, for keys that few rows have."""

    __slots__ = ("_keys_of", "_rows")

    def __init__(self) -> None:
        self._keys_of: dict[int, frozenset[K]] = {}
        self._rows: dict[K, set[int]] = {}

    def put(self, row: int, keys: frozenset[K]) -> None:
        """Set all keys that are now on a row."""
        nothing: frozenset[K] = frozenset()
        before = self._keys_of.get(row, nothing)
        for key in before - keys:
            rows = self._rows[key]
            # No key stays without rows, so what nodes once had takes up no space.
            rows.discard(row)
            if not rows:
                del self._rows[key]
        for key in keys - before:
            self._rows.setdefault(key, set()).add(row)
        if keys:
            self._keys_of[row] = keys
        else:
            self._keys_of.pop(row, None)

    def of(self, key: K) -> Set[int]:
        """Return the rows that have this key; not to be changed."""
        return self._rows.get(key, _NO_ROWS)


_NO_ROWS: frozenset[int] = frozenset()
