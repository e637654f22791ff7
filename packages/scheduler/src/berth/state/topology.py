"""Topology domains: which rows share a node label's value, and sums of row columns over them.

Plugins that ask "how many such pods run in this zone" name a label key and, if not every node counts, which rows do.
They get a `Topology`: the domain of each row. `RowCounts` is a column of the pod index that also keeps its sums over
the topologies it was asked for, pod by pod, so that a cycle needs one gather and no recount.
"""

import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from berth.api.recent import Recent
from berth.state.follower import RowFollower
from berth.state.label_index import ABSENT, Mask
from berth.state.table import NodeTable

Int64 = NDArray[np.int64]
Ids = NDArray[np.intp]
Rows = slice | NDArray[np.intp]
Eligible = Callable[[NodeTable, Rows], Mask]
"""Returns for some rows whether the nodes there, and the pods on them, count."""

T = TypeVar("T", bound=np.generic)

EVERY_ROW = slice(None)
MAX_TOPOLOGIES = 256
TOPOLOGIES_BYTES = 2 << 20
"""How large the names of the sets of rows for which topologies are kept may be together, in bytes of JSON."""
MANY_ROWS = 8
"""From this many rows on, additions are made with an array, which has a fixed cost."""
MAX_FEW = 64
"""Up to this many domains are few enough to look at one by one for each pod."""
MAX_SUMS = 32
"""How many topologies the sums of one column are kept for."""


class RowSet(Hashable, Protocol):
    """The name of a set of rows: equal sets have equal names."""

    def size(self) -> int:
        """Return the size of the name in bytes of JSON."""
        ...


class EligibleRows:
    """Which rows count, worked out once for all the topologies of one set of rows, and kept up to date.

    A pod with thousands of spread constraints has as many topologies, and which nodes count for them depends on all of
    their keys: working that out for each topology separately would cost the square of their number.
    """

    __slots__ = ("_eligible", "_follower", "_mask", "_table")

    def __init__(self, table: NodeTable, eligible: Eligible) -> None:
        self._table = table
        self._eligible = eligible
        self._follower = RowFollower(table, nodes=True)
        self._mask: Mask = np.zeros(0, dtype=np.bool_)

    def mask(self) -> Mask:
        """Return by row, bool of shape (rows of the table,), whether it counts; do not write to it."""
        rows = self._follower.changed_rows()
        if rows is None:
            self._mask = np.array(self._eligible(self._table, EVERY_ROW))
        elif rows:
            changed = np.array(rows, dtype=np.intp)
            self._mask[changed] = self._eligible(self._table, changed)
        return self._mask


class Topology:
    """The domain of each row under one label key.

    Domains are numbered as the key's values are; arrays over domains have one element more, at index `ABSENT` (-1,
    the last), for rows without the label, so that `over_domains[ids]` is right for every row.
    """

    __slots__ = (
        "__weakref__",
        "_column",
        "_eligible",
        "_follower",
        "_labelled",
        "_table",
        "all_exist",
        "counted",
        "domain_count",
        "exists",
        "ids",
        "key",
        "size",
        "token",
        "version",
    )

    def __init__(self, table: NodeTable, key: str, eligible: EligibleRows | None = None) -> None:
        self.key = key
        self.token = object()
        """Identifies the topology where sums over it are kept, which must not keep the topology itself alive."""
        self.version = 0
        """Grows when any row's domain, or whether it counts, has changed."""
        self._table = table
        self._eligible = eligible
        self._column = table.label(key)
        self._follower = RowFollower(table, nodes=True)
        self.sync()

    @property
    def complete(self) -> bool:
        """Whether every node has the label."""
        return self._labelled == len(self._table)

    @property
    def is_empty(self) -> bool:
        """Whether no node has the label."""
        return not self._labelled

    @property
    def is_coarse(self) -> bool:
        """Whether every node is in one of a few domains, as with zones."""
        return self.size <= MAX_FEW + 1 and self._labelled == len(self._table)

    def sync(self) -> None:
        """Follow the node table; costs next to nothing while no node has changed its domain."""
        rows = self._follower.changed_rows()
        if rows is None or rows:
            column, self._column = self._column, self._table.label(self.key)
            # A new column may have different numbers for the same values.
            if rows is None or column is not self._column or not self._are_as_before(rows):
                self._rebuild()

    def gather(self, over_domains: NDArray[T], rows: Rows = EVERY_ROW) -> NDArray[T]:
        """Return by row, shape (len(rows),), the element of each row's domain; the last if it has no label."""
        # "wrap" takes -1 for the last as well, and is twice as fast as checking every index.
        return over_domains.take(self.ids[rows], mode="wrap")

    def gather_codes(self, over_domains: NDArray[np.integer], rows: Rows = EVERY_ROW) -> NDArray[np.int32]:
        """Return by row, a new int32 array of shape (len(rows),), the code of each row's domain.

        Rows without a node may get any code.
        """
        if self.complete and not over_domains[:-1].any():
            return np.zeros(len(self.ids[rows]), dtype=np.int32)
        return self.gather(over_domains.astype(np.int32), rows)

    def id_of(self, value: str | None) -> int:
        """Return the number of a domain; `ABSENT` for a value that no node ever had, or for no value."""
        return ABSENT if value is None else self._column.id_of(value)

    def _are_as_before(self, rows: Sequence[int]) -> bool:
        changed = np.array(rows, dtype=np.intp)
        ids = self._column.ids[changed]
        return bool((ids == self.ids[changed]).all() and (self._counted(ids, changed) == self.counted[changed]).all())

    def _rebuild(self) -> None:
        self.ids: Ids = self._column.ids.astype(np.intp)
        self.counted: Ids = self._counted(self.ids, EVERY_ROW)
        self.size = len(self._column.values) + 1
        self._labelled = int(np.count_nonzero(self.ids != ABSENT))
        # `bincount` takes no -1: shifted by one, `ABSENT` is counted first, and left out.
        self.exists: Mask = np.bincount(self.counted + 1, minlength=self.size)[1:] > 0
        """By domain, without the absent one: whether it has any node that counts."""
        self.domain_count = int(np.count_nonzero(self.exists))
        self.all_exist = self.domain_count == self.size - 1
        self.version += 1

    def _counted(self, ids: NDArray[np.signedinteger], rows: Rows) -> Ids:
        if self._eligible is None:
            return ids
        return np.where(self._eligible.mask()[rows], ids, ABSENT).astype(np.intp, copy=False)


class Topologies:
    """The topologies that were asked for, each made once."""

    __slots__ = ("_eligible", "_known", "table")

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self._known: Recent[tuple[str, RowSet | None], Topology] = Recent(MAX_TOPOLOGIES, TOPOLOGIES_BYTES)
        self._eligible: Recent[RowSet, EligibleRows] = Recent(MAX_TOPOLOGIES, TOPOLOGIES_BYTES)

    @classmethod
    def shared(cls, table: NodeTable) -> "Topologies":
        """Return those of a table: plugins that name one label key find the same domains, under the same numbers."""
        found: Topologies | None = table.derived.get(cls)
        if found is None:
            found = table.derived[cls] = cls(table)
        return found

    def get(self, key: str, which: RowSet | None = None, eligible: Eligible | None = None) -> Topology:
        """Return a label key's topology, up to date; `which` names the set of rows that `eligible` describes."""
        found = self._known.get((key, which))
        if found is not None:
            found.sync()
            return found
        rows = None if eligible is None or which is None else self._rows(which, eligible)
        found = Topology(self.table, key, rows)
        self._known.put((key, which), found, len(key) + (0 if which is None else which.size()))
        return found

    def _rows(self, which: RowSet, eligible: Eligible) -> EligibleRows:
        found = self._eligible.get(which)
        if found is None:
            found = EligibleRows(self.table, eligible)
            self._eligible.put(which, found, which.size())
        return found


class RowCounts:
    """A number for each row, changed one row at a time, with its sums over topologies."""

    __slots__ = ("_sums", "counts")

    def __init__(self, capacity: int) -> None:
        self.counts: Int64 = np.zeros(capacity, dtype=np.int64)
        self._sums: dict[object, DomainSums] = {}
        """By the topology's token."""

    def add(self, row: int, amount: int) -> None:
        """Change the number of a row."""
        self.counts[row] += amount
        for sums in self._sums.values():
            sums.add(row, amount)

    def add_all(self, amounts: Mapping[int, int]) -> None:
        """Change the numbers of many rows."""
        if self._sums or len(amounts) < MANY_ROWS:
            for row, amount in amounts.items():
                self.add(row, amount)
        else:
            rows = np.fromiter(amounts.keys(), dtype=np.intp, count=len(amounts))
            self.counts[rows] += np.fromiter(amounts.values(), dtype=np.int64, count=len(amounts))

    def by_domain(self, topology: Topology) -> "DomainSums":
        """Return the sums by domain, up to date; do not keep them past the cycle."""
        sums = self._sums.get(topology.token)
        if sums is None:
            # All of them, since there is no telling which topologies are still in use: a forgotten one leaves its sums
            # behind.
            if len(self._sums) >= MAX_SUMS:
                self._sums.clear()
            sums = self._sums[topology.token] = DomainSums(topology)
        sums.sync(topology, self.counts)
        return sums

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self.counts = np.pad(self.counts, (0, capacity - len(self.counts)))
        self._sums.clear()


class DomainSums:
    """A column summed by domain: `values`, the absent domain last (do not write to it), and the `total` of the rest.

    The invariant: while the topology has the version of the last `sync`, `values` is the column summed by domain, since
    `add` sees every change of a row. At any other version it is stale: `add` leaves it alone, and `sync` sums it
    afresh.
    """

    __slots__ = ("_topology", "_version", "total", "values")

    def __init__(self, topology: Topology) -> None:
        # Weakly: the name of the topology may be a whole pod, so it is freed when `Topologies` forgets it, not only
        # when the last column ever summed over it does.
        self._topology = weakref.ref(topology)
        self._version = 0
        self.values: Int64 = np.zeros(0, dtype=np.int64)
        self.total = 0

    def add(self, row: int, amount: int) -> None:
        """Follow a change of one row, unless the topology has changed: then `sync` sums everything afresh."""
        topology = self._topology()
        if topology is not None and self._version == topology.version:
            domain = topology.counted[row]
            self.values[domain] += amount
            # The absent domain is -1, which the line above adds to the last element, where it belongs; it has no part
            # in the total.
            if domain >= 0:
                self.total += amount

    def sync(self, topology: Topology, counts: Int64) -> None:
        """Sum the column afresh if its topology has changed since it was last summed."""
        if self._version != topology.version:
            sums = np.bincount(topology.counted + 1, weights=counts, minlength=topology.size)
            # Shifted by one for `bincount`, and back, so that -1 finds the absent domain at the end. It sums as floats,
            # which is exact as far as 2**53.
            self.values = np.roll(sums, -1).astype(np.int64)
            self.total = int(self.values[:-1].sum())
            self._version = topology.version
