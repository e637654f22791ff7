"""Which nodes are where, and how far it is from each place to another: for all nodes at once.

Nodes have few places among them, so distances are worked out place by place, and looked up for each row.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.plugin import NodeTable
from berth_plugins.network.network_topology import REGION, ZONE, NetworkCosts, Place

Int64 = NDArray[np.int64]

MATRICES = 64
"""For so many sets of places the distances to all of them are kept together."""


class DistanceColumn(NamedTuple):
    """How far it is to one place, by the number of the place that one is in: `Distance` as arrays."""

    costs: Int64
    limited: NDArray[np.float64]


class HostRows:
    """The nodes with pods of a workload by row, and how many pods each has; follows what comes, for a while."""

    __slots__ = ("_places", "_position", "by_place", "counts", "of_row", "rows")

    def __init__(self, counts: Mapping[str, int], rows: Sequence[int], places: "Places") -> None:
        self._places = places
        self._position = {name: position for position, name in enumerate(counts)}
        self.rows = np.array(rows, dtype=np.intp)
        """The rows, each once; among them may be some that have no pods any more."""
        self.counts: Int64 = np.array(list(counts.values()), dtype=np.int64)
        self.of_row = places.of_row[self.rows]
        """The numbers of their places."""
        self.by_place: Int64 = np.zeros(len(places.names), dtype=np.int64)
        """How many pods there are in each place."""
        np.add.at(self.by_place, self.of_row, self.counts)

    def change(self, node_name: str, by: int) -> bool:
        """Count pods that have come to a node, or gone; return False where it has to be made anew."""
        position = self._position.get(node_name)
        if position is None:
            row = self._places.row_of(node_name)
            if row is None or row >= len(self._places.of_row):
                return False
            position = self._position[node_name] = len(self.rows)
            self.rows = np.append(self.rows, row)
            self.counts = np.append(self.counts, 0)
            self.of_row = np.append(self.of_row, self._places.of_row[row])
        self.counts[position] += by
        self.by_place[self.of_row[position]] += by
        return True


class Hosts:
    """The nodes that pods of one workload are bound to, and how many each has."""

    __slots__ = ("_known_at", "_rows", "counts")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._rows: HostRows | None = None
        self._known_at: object = None

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> "Hosts":
        """Return those with so many pods on each node."""
        found = cls()
        found.counts.update(counts)
        return found

    def change(self, node_name: str, by: int, places: "Places") -> None:
        """Count pods that have come to a node, or gone."""
        count = self.counts.get(node_name, 0) + by
        if count:
            self.counts[node_name] = count
        else:
            self.counts.pop(node_name, None)
        # Which nodes there are may have changed meanwhile: then it is made anew when it is asked for.
        if self._rows is not None and not (self._known_at is places.token and self._rows.change(node_name, by)):
            self._rows = None

    def rows(self, places: "Places") -> HostRows | str:
        """Return the same by row, or the name of one that is no node."""
        if self._rows is None or self._known_at is not places.token:
            rows = []
            for name in self.counts:
                row = places.row_of(name)
                if row is None:
                    return name
                rows.append(row)
            self._rows, self._known_at = HostRows(self.counts, rows, places), places.token
        return self._rows


class Places:
    """The places of a table's nodes, by number; what they are made of is followed."""

    __slots__ = ("_columns", "_costs", "_matrices", "_position", "_table", "names", "of_row", "token")

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self.token = object()
        """Stands for the nodes as they are: a new one with each change."""
        self.names: list[Place] = []
        self.of_row: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        """By row of the table, the number of its place; rows without a node have any."""
        self._position: tuple[int, int] | None = None
        self._costs: NetworkCosts | None = None
        self._columns: dict[int, DistanceColumn] = {}
        self._matrices: dict[bytes, DistanceColumn] = {}

    def row_of(self, node_name: str) -> int | None:
        """Return the row of a node, or None where there is no such node."""
        row = self._table.row_of.get(node_name)
        return row if row is not None and self._table.valid[row] else None

    def follow(self, costs: NetworkCosts) -> None:
        """Bring everything up to date with the nodes, and with the costs that are in force."""
        position = self._table.node_log.position, self._table.capacity
        if position != self._position:
            self._position = position
            self.token = object()
            self._number()
        elif costs is self._costs:
            return
        self._costs = costs
        self._columns.clear()
        self._matrices.clear()

    def _number(self) -> None:
        regions, zones = self._table.label(REGION), self._table.label(ZONE)
        width = len(zones.values) + 1
        pairs = (regions.ids.astype(np.intp) + 1) * width + zones.ids + 1  # the id of an absent label is -1
        found, self.of_row = np.unique(pairs, return_inverse=True)
        of_region, of_zone = ("", *regions.values), ("", *zones.values)
        self.names = [Place(of_region[pair // width], of_zone[pair % width]) for pair in found.tolist()]

    def distances(self, numbers: NDArray[np.intp]) -> DistanceColumn:
        """Return how far it is from every place to each of some: arrays of shape (places, len(numbers))."""
        key = numbers.tobytes()
        found = self._matrices.get(key)
        if found is None:
            columns = [self._column(number) for number in numbers.tolist()]
            if len(self._matrices) >= MATRICES:
                self._matrices.clear()
            found = self._matrices[key] = DistanceColumn(
                np.stack([each.costs for each in columns], axis=1), np.stack([each.limited for each in columns], axis=1)
            )
        return found

    def _column(self, number: int) -> DistanceColumn:
        found = self._columns.get(number)
        if found is None:
            assert self._costs is not None, "follow has been called"
            there = self.names[number]
            distances = [self._costs.distance(here, there) for here in self.names]
            found = self._columns[number] = DistanceColumn(
                np.array([each.cost for each in distances], dtype=np.int64),
                np.array([each.limited for each in distances], dtype=np.float64),
            )
        return found
