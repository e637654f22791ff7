"""Which nodes are where, and how far it is from each place to another: for all nodes at once.

Nodes have few places among them, so distances are worked out place by place, and looked up for each row.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.plugin import NodeTable
from berth_plugins.network.network_topology import REGION, ZONE, NetworkCosts, Place

Int64 = NDArray[np.int64]


class DistanceColumn(NamedTuple):
    """How far it is to one place, by the number of the place that one is in: `Distance` as arrays."""

    costs: Int64
    limited: NDArray[np.float64]


class Hosts:
    """The nodes that pods of one workload are bound to, and how many each has."""

    __slots__ = ("_known_at", "_rows", "counts")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._rows: HostRows | None = None
        self._known_at: object = None

    def change(self, node_name: str, by: int) -> None:
        """Count pods that have come to a node, or gone."""
        count = self.counts.get(node_name, 0) + by
        if count:
            self.counts[node_name] = count
        else:
            self.counts.pop(node_name, None)
        self._rows = None

    def missing(self, places: "Places") -> str | None:
        """Return one of them that is no node of the table, or None."""
        if self._rows is not None and self._known_at is places.token:
            return None  # there would be no rows
        table = places.table
        there = ((name, table.row_of.get(name)) for name in self.counts)
        return next((name for name, row in there if row is None or not table.valid[row]), None)

    def rows(self, places: "Places") -> "HostRows":
        """Return the same by row. All of them have to be nodes of the table (`missing`)."""
        if self._rows is None or self._known_at is not places.token:
            row_of = places.table.row_of
            rows = np.array([row_of[name] for name in self.counts], dtype=np.intp)
            counts = np.array(list(self.counts.values()), dtype=np.int64)
            of_rows = places.of_row[rows]
            by_place = np.bincount(of_rows, weights=counts).astype(np.int64)
            numbers = np.flatnonzero(by_place)
            self._rows = HostRows(rows, counts, of_rows, numbers, by_place[numbers])
            self._known_at = places.token
        return self._rows


class HostRows(NamedTuple):
    """The rows of nodes with pods of a workload, how many each has, and the places these are in."""

    rows: NDArray[np.intp]
    counts: Int64
    places: NDArray[np.intp]
    """By row of `rows`, the number of its place."""
    numbers: NDArray[np.intp]
    """The numbers of these places, each once."""
    by_place: Int64
    """How many pods each of `numbers` has."""


class Places:
    """The places of a table's nodes, by number; what they are made of is followed."""

    __slots__ = ("_columns", "_costs", "_position", "names", "of_row", "table", "token")

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.token = object()
        """Stands for the nodes as they are: a new one with each change."""
        self.names: list[Place] = []
        self.of_row: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        """By row of the table, the number of its place; rows without a node have any."""
        self._position: tuple[int, int] | None = None
        self._costs: NetworkCosts | None = None
        self._columns: dict[int, DistanceColumn] = {}

    def follow(self, costs: NetworkCosts) -> None:
        """Bring everything up to date with the nodes, and with the costs that are in force."""
        position = self.table.node_log.position, self.table.capacity
        if position != self._position:
            self._position = position
            self.token = object()
            self._number()
            self._columns.clear()
        if costs is not self._costs:
            self._costs = costs
            self._columns.clear()

    def _number(self) -> None:
        regions, zones = self.table.label(REGION), self.table.label(ZONE)
        width = len(zones.values) + 1
        pairs = (regions.ids.astype(np.intp) + 1) * width + zones.ids + 1  # the id of an absent label is -1
        found, self.of_row = np.unique(pairs, return_inverse=True)
        of_region, of_zone = ("", *regions.values), ("", *zones.values)
        self.names = [Place(of_region[pair // width], of_zone[pair % width]) for pair in found.tolist()]

    def distances(self, numbers: NDArray[np.intp]) -> DistanceColumn:
        """Return how far it is from every place to each of some: arrays of shape (places, len(numbers))."""
        columns = [self._column(number) for number in numbers.tolist()]
        return DistanceColumn(
            np.stack([each.costs for each in columns], axis=1), np.stack([each.limited for each in columns], axis=1)
        )

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
