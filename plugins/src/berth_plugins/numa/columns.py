"""The zones of all nodes as arrays, and what `alignment` and `scores` say of many nodes at once.

`ZoneColumns` has for each resource an array (zones, rows): what is free in each zone of each row of the node table, and
`UNLISTED` where a zone does not list it, or there is no such zone. Rows are written again where a node or what is known
of its topology has changed; nothing else costs a step for each node.

In the functions here `rows` are positions in the table, and (rows,) is their number.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.plugin import MAX_NODE_SCORE, NodeTable, Rows
from berth_plugins.numa.alignment import LEAST_NUMA_NODES, VERDICT_OF_KIND, Verdict, asks_for_nothing
from berth_plugins.numa.cache import Known, TopologyCache
from berth_plugins.numa.requests import (
    APP,
    ON_EVERY_NODE,
    Amounts,
    Ask,
    is_on,
    is_scarce,
    may_be_node_wide,
)
from berth_plugins.numa.scores import (
    BALANCED,
    MOST_ALLOCATED,
    NOT_A_NUMBER,
    Distances,
    Spend,
    Strategy,
    distances_of,
    zone_sets,
)
from berth_plugins.numa.topology import POD, Topology

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Positions = NDArray[np.intp]

UNLISTED = -1
NO_SCORE = np.iinfo(np.int64).max


class ZoneColumns:
    """What is known of the zones of all nodes."""

    def __init__(self, cache: TopologyCache) -> None:
        self._cache = cache
        self._capacity = -1
        self._node_position = 0
        self._present: dict[str, Mask] = {}
        self._layouts: dict[Distances, int] = {}
        self._start(0, 1)

    def _start(self, capacity: int, zones: int) -> None:
        self._capacity = capacity
        self.zones = zones
        """How many zones the arrays have room for."""
        self.is_stale: Mask = np.zeros(capacity, dtype=np.bool_)
        self.is_known: Mask = np.zeros(capacity, dtype=np.bool_)
        """Whether there is a topology that can be relied on."""
        self.is_single: Mask = np.zeros(capacity, dtype=np.bool_)
        self.is_by_pod: Mask = np.zeros(capacity, dtype=np.bool_)
        self.is_regular: Mask = np.ones(capacity, dtype=np.bool_)
        self.max_zones: Ints = np.ones(capacity, dtype=np.int64)
        self.count: Ints = np.zeros(capacity, dtype=np.int64)
        """How many zones there are."""
        self.layout: Ints = np.zeros(capacity, dtype=np.int64)
        """Which of `distances` are those of the row's zones."""
        self.distances: list[Distances] = []
        self._layouts = {}
        self.free: dict[str, Ints] = {}

    def renew(self, table: NodeTable) -> None:
        """Write the rows that have changed."""
        rows = self._changed_rows(table)
        if not rows:
            return
        known = [(row, self._cache.known(table.names[row]) if table.valid[row] else Known(None)) for row in rows]
        most = max((len(each.topology.zones) for _, each in known if each.topology is not None), default=0)
        if most > self.zones:
            self._widen(most)
        for row, each in known:
            self._write(row, each)

    def _changed_rows(self, table: NodeTable) -> Sequence[int]:
        nodes, names = table.node_log.since(self._node_position), self._cache.take_changes()
        self._node_position = table.node_log.position
        if self._capacity != table.capacity or nodes is None or names is None:
            self._start(table.capacity, 1)
            self._present = {}
            return table.rows().tolist()  # type: ignore[no-any-return]
        found = dict.fromkeys(nodes)
        if found:
            self._note_nodes(table, found)
        for name in names:
            if (row := table.row_of.get(name)) is not None:
                found[row] = None
        return tuple(found)

    def _note_nodes(self, table: NodeTable, rows: Iterable[int]) -> None:
        for name, present in self._present.items():
            for row in rows:
                present[row] = _is_on_row(table, row, name)

    def on_nodes(self, resource: str, table: NodeTable) -> Mask | None:
        """Return the rows that can be asked for a resource, bool (rows of the table,); None for all."""
        if resource in ON_EVERY_NODE:
            return None
        found = self._present.get(resource)
        if found is None:
            if len(self._present) >= MAX_PRESENT:
                self._present.clear()
            found = self._present[resource] = np.zeros(self._capacity, dtype=np.bool_)
            for row in table.rows().tolist():
                found[row] = _is_on_row(table, row, resource)
        return found

    def _widen(self, zones: int) -> None:
        more = np.full((zones - self.zones, self._capacity), UNLISTED, dtype=np.int64)
        self.free = {name: np.concatenate([array, more]) for name, array in self.free.items()}
        self.zones = zones

    def _write(self, row: int, known: Known) -> None:
        topology = known.topology
        self.is_stale[row] = not known.is_fresh
        self.is_known[row] = is_known = known.is_fresh and topology is not None
        for array in self.free.values():
            array[:, row] = UNLISTED
        if topology is None or not is_known:
            self.is_single[row] = False
            self.count[row] = 0
            return
        alignment = topology.alignment
        self.is_single[row], self.is_by_pod[row] = alignment.is_single, alignment.scope == POD
        self.max_zones[row], self.count[row] = alignment.max_zones, len(topology.zones)
        self.is_regular[row] = topology.is_regular
        self.layout[row] = self._layout_of(topology)
        for place, zone in enumerate(topology.zones):
            for name, amount in zone.free.items():
                if name not in self.free:
                    self.free[name] = np.full((self.zones, self._capacity), UNLISTED, dtype=np.int64)
                self.free[name][place, row] = amount

    def _layout_of(self, topology: Topology) -> int:
        distances = distances_of(topology)
        known = self._layouts.get(distances)
        if known is None:
            known = self._layouts[distances] = len(self.distances)
            self.distances.append(distances)
        return known


MAX_PRESENT = 64
"""Of so many resources it is kept which nodes have them."""


def _is_on_row(table: NodeTable, row: int, resource: str) -> bool:
    node = table.nodes[row]
    return node is not None and is_on(resource, node.status.allocatable)


class ZoneRows(NamedTuple):
    """Some rows of the columns, with amounts that may be taken from."""

    rows: Positions
    free: dict[str, Ints]
    """(zones, rows), copied before they are written to."""
    is_own: set[str]
    """The resources of which the arrays are copies."""

    def taking(self, resource: str) -> Ints:
        """Return the amounts of a resource, to be written to."""
        if resource not in self.is_own:
            self.is_own.add(resource)
            self.free[resource] = self.free[resource].copy()
        return self.free[resource]


def part_of(columns: ZoneColumns, rows: Positions, names: Iterable[str]) -> ZoneRows:
    """Return some rows, with those of these resources that any zone lists."""
    found = {name: array for name in names if (array := columns.free.get(name)) is not None}
    first, last = int(rows[0]), int(rows[-1])
    # Rows without gaps need not be copied. They are in order already, but for what somebody else may ask for.
    if last - first + 1 == len(rows) and (np.diff(rows) == 1).all():
        return ZoneRows(rows, {name: array[:, first : last + 1] for name, array in found.items()}, set())
    return ZoneRows(rows, {name: array[:, rows] for name, array in found.items()}, set(found))


def names_of(all_asks: Iterable[Amounts]) -> frozenset[str]:
    """Return the resources that are asked for."""
    return frozenset(name for asks in all_asks for name, _ in asks)


# --- Filter -----------------------------------------------------------------------------------------------------------


def verdicts(columns: ZoneColumns, ask: Ask, table: NodeTable, rows: Rows, strategy: str) -> NDArray[np.int32]:
    """Return what `alignment.verdict` says of each row, and STALE where nothing can be relied on; int32 (rows,)."""
    positions = _positions(table, rows)
    found = np.zeros(len(positions), dtype=np.int32)
    if ask.is_exempt:
        return found
    found[columns.is_stale[positions]] = Verdict.STALE
    is_single, is_by_pod = columns.is_single[positions], columns.is_by_pod[positions]
    for is_whole in (True, False):
        where = np.flatnonzero(is_single & (is_by_pod == is_whole))
        if len(where):
            part = part_of(
                columns, positions[where], names_of((ask.whole,) if is_whole else (p.asks for p in ask.parts))
            )
            found[where] = _whole_pod(columns, ask, table, part) if is_whole else _parts(columns, ask, table, part)
    if ask.is_guaranteed:
        _refuse_scoring(columns, ask, positions, strategy, found)
    return found


def _positions(table: NodeTable, rows: Rows) -> Positions:
    return np.arange(table.capacity)[rows] if isinstance(rows, slice) else rows


def _whole_pod(columns: ZoneColumns, ask: Ask, table: NodeTable, part: ZoneRows) -> NDArray[np.int32]:
    fits, _ = lowest_zones(columns, ask, ask.whole, table, part)
    return np.where(fits, Verdict.FITS, Verdict.POD).astype(np.int32)


def _parts(columns: ZoneColumns, ask: Ask, table: NodeTable, part: ZoneRows) -> NDArray[np.int32]:
    found = np.zeros(len(part.rows), dtype=np.int32)
    last = len(ask.parts) - 1
    for number, each in enumerate(ask.parts):
        fits, zone = lowest_zones(columns, ask, each.asks, table, part)
        found[(found == Verdict.FITS) & ~fits] = VERDICT_OF_KIND[each.kind]
        if each.kind == APP and number < last:
            where = np.flatnonzero(fits)
            for name, amount in each.asks:
                if amount and name in part.free and is_scarce(ask, name):
                    free = part.taking(name)
                    taken = free[zone[where], where]
                    free[zone[where], where] = np.where(taken == UNLISTED, UNLISTED, taken - amount)
    return found


def lowest_zones(
    columns: ZoneColumns, ask: Ask, asks: Amounts, table: NodeTable, part: ZoneRows
) -> tuple[Mask, Positions]:
    """Return where any zone has all of some amounts, bool (rows,), and the first such zone, intp (rows,)."""
    possible = np.ones(len(part.rows), dtype=np.bool_)
    zones: Mask | None = None
    for name, amount in asks:
        if not amount:
            continue
        present = columns.on_nodes(name, table)
        if present is not None:
            possible &= present[part.rows]
        free = part.free.get(name)
        if free is None:  # no zone of any node lists it
            if not may_be_node_wide(name):
                possible[:] = False
            continue
        suits = free >= (amount if is_scarce(ask, name) else 0)
        if may_be_node_wide(name):
            suits |= (free == UNLISTED).all(axis=0)
        zones = suits if zones is None else zones & suits
    if zones is None:
        return possible, np.zeros(len(part.rows), dtype=np.intp)
    return possible & zones.any(axis=0), zones.argmax(axis=0)


def _refuse_scoring(columns: ZoneColumns, ask: Ask, rows: Positions, strategy: str, found: NDArray[np.int32]) -> None:
    """Note the rows where a Guaranteed pod fits but cannot be scored."""
    is_by_pod = columns.is_by_pod[rows]
    is_scored = columns.is_known[rows] & (found == Verdict.FITS)
    if strategy != LEAST_NUMA_NODES:
        is_scored &= columns.is_single[rows]
    irregular = is_scored & ~columns.is_regular[rows]
    if strategy == LEAST_NUMA_NODES:
        irregular &= ~is_by_pod
    else:
        for is_whole in (True, False):
            if asks_for_nothing(ask, by_container=not is_whole):
                found[is_scored & (is_by_pod == is_whole)] = Verdict.ASKS_FOR_NOTHING
    found[irregular] = Verdict.IRREGULAR


# --- Score ------------------------------------------------------------------------------------------------------------


def scores(columns: ZoneColumns, ask: Ask, table: NodeTable, rows: Rows, strategy: Strategy, spend: Spend) -> Ints:
    """Return what `scores.score_of` gives each row, int64 (rows,); 0 where nothing can be relied on."""
    positions = _positions(table, rows)
    if not ask.is_guaranteed:
        return np.full(len(positions), MAX_NODE_SCORE, dtype=np.int64)
    found = np.zeros(len(positions), dtype=np.int64)
    is_scored = columns.is_known[positions]
    if strategy.kind != LEAST_NUMA_NODES:
        is_scored &= columns.is_single[positions]
    is_by_pod = columns.is_by_pod[positions]
    for is_whole in (True, False):
        where = np.flatnonzero(is_scored & (is_by_pod == is_whole))
        if len(where):
            all_asks = [ask.whole] if is_whole else [part.asks for part in ask.parts]
            part = part_of(columns, positions[where], names_of(all_asks))
            if strategy.kind == LEAST_NUMA_NODES:
                found[where] = _least_zones(columns, all_asks, part, spend)
            else:
                found[where] = _mean_of_lowest(columns, all_asks, part, strategy)
    return found


def _mean_of_lowest(columns: ZoneColumns, all_asks: Sequence[Amounts], part: ZoneRows, strategy: Strategy) -> Ints:
    """Return the mean of the lowest zone scores, cut to whole numbers."""
    if len(all_asks) == 1:
        return _lowest(columns, all_asks[0], part, strategy)
    known: dict[Amounts, Ints] = {}
    total: Floats = np.zeros(len(part.rows))
    for asks in all_asks:
        if asks not in known:
            known[asks] = _lowest(columns, asks, part, strategy)
        total += known[asks]
    mean: Ints = (total / len(all_asks)).astype(np.int64)
    return mean


def _lowest(columns: ZoneColumns, asks: Amounts, part: ZoneRows, strategy: Strategy) -> Ints:
    """Return the lowest score of any zone that is not 0, int64 (rows,)."""
    found = _balances(columns, asks, part) if strategy.kind == BALANCED else _shares(columns, asks, part, strategy)
    lowest: Ints = np.where(found == 0, NO_SCORE, found).min(axis=0)
    lowest[lowest == NO_SCORE] = 0
    return lowest


def _shares(columns: ZoneColumns, asks: Amounts, part: ZoneRows, strategy: Strategy) -> Ints:
    """Return the scores of zones by how much is taken, or left, of each resource, int64 (zones, rows)."""
    total = np.zeros((columns.zones, len(part.rows)), dtype=np.int64)
    weights = 0
    for name, amount in asks:
        weight = strategy.weight(name)
        weights += weight
        free = part.free.get(name)
        if free is None:
            continue
        left, asked = _units(name, free), float(_units_of(name, amount))
        share = asked if strategy.kind == MOST_ALLOCATED else left - asked
        # Amounts are small enough that the quotients, cut to whole numbers, are those of whole numbers.
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.floor(share * MAX_NODE_SCORE / left)
        fits = (free >= amount) & (free > 0)
        total += weight * np.where(fits, score, 0).astype(np.int64)
    return total if weights in (0, 1) else total // weights


def _balances(columns: ZoneColumns, asks: Amounts, part: ZoneRows) -> Ints:
    """Return the scores of zones by how even the shares are that are asked for, int64 (zones, rows)."""
    shape = (columns.zones, len(part.rows))
    shares = []
    for name, amount in asks:
        free = part.free.get(name)
        if free is None:
            shares.append(np.ones(shape))
            continue
        has = _units(name, np.maximum(free, 0))
        shares.append(np.divide(float(_units_of(name, amount)), has, out=np.ones(shape), where=has != 0))
    exists = np.arange(columns.zones)[:, np.newaxis] < columns.count[part.rows]
    fits = exists.copy()
    for share in shares:
        fits &= share <= 1
    if len(shares) < 2:
        return np.where(fits, NOT_A_NUMBER, 0)
    mean = sum(shares) / len(shares)
    squares, differences = np.zeros(shape), np.zeros(shape)
    for share in shares:
        squares += (share - mean) * (share - mean)
        differences += share - mean
    variance = (squares - differences * differences / len(shares)) / (len(shares) - 1)
    return np.where(fits, ((1 - variance) * MAX_NODE_SCORE).astype(np.int64), 0)


def _units(resource: str, amounts: Ints) -> Floats:
    """Return amounts in whole units, rounded up, as floating point numbers, which divide faster."""
    return np.ceil(amounts / 1000) if resource == "cpu" else amounts.astype(np.float64)


def _units_of(resource: str, amount: int) -> int:
    return -(-amount // 1000) if resource == "cpu" else amount


# --- LeastNUMANodes ---------------------------------------------------------------------------------------------------


def _least_zones(columns: ZoneColumns, all_asks: Sequence[Amounts], part: ZoneRows, spend: Spend) -> Ints:
    """Return the scores of rows by how many zones it takes, int64 (rows,)."""
    count = len(part.rows)
    most, is_nearest, fits = np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.bool_), np.ones(count, np.bool_)
    layouts = columns.layout[part.rows]
    which = np.unique(layouts).tolist()
    for number, asks in enumerate(all_asks):
        listed = [free for name, _ in asks if (free := part.free.get(name)) is not None]
        if not listed:
            continue
        concerned = np.logical_or.reduce([(free != UNLISTED).any(axis=0) for free in listed]) & fits
        is_last = number == len(all_asks) - 1
        for layout in which:
            here = np.flatnonzero(concerned & (layouts == layout)) if len(which) > 1 else np.flatnonzero(concerned)
            size, nearest = _sizes(columns.distances[layout], asks, part, here, spend, takes=not is_last)
            most[here] = np.maximum(most[here], size)
            is_nearest[here] &= nearest
            fits[here] = size > 0
    steps = MAX_NODE_SCORE // columns.max_zones[part.rows]
    scores: Ints = MAX_NODE_SCORE - most * steps + np.where(is_nearest, steps // 2, 0)
    scores[most == 0] = MAX_NODE_SCORE
    scores[~fits] = 0
    return scores


def _sizes(
    distances: Distances, asks: Amounts, part: ZoneRows, here: Positions, spend: Spend, *, takes: bool
) -> tuple[Ints, Mask]:
    """Return how many zones it takes on rows with these distances, 0 where no number does, and whether these are
    nearest; with `takes` the amounts are taken from them."""
    sizes, nearest = np.zeros(len(here), dtype=np.int64), np.zeros(len(here), dtype=np.bool_)
    if any(name not in part.free for name, _ in asks):
        return sizes, nearest
    left = np.arange(len(here))
    for size in range(1, len(distances) + 1):
        sets = zone_sets(distances, size, spend)
        spend(len(sets) * (1 + len(left) // 100))
        for found in sets:
            if not len(left):
                return sizes, nearest
            rows = here[left]
            fits = _fits_in(found.zones, asks, part.free, rows)
            if not fits.any():
                continue
            sizes[left[fits]], nearest[left[fits]] = size, found.is_nearest
            if takes:
                _take(asks, part, found.zones, rows[fits])
            left = left[~fits]
    return sizes, nearest


def _fits_in(zones: Sequence[int], asks: Amounts, all_free: Mapping[str, Ints], rows: Positions) -> Mask:
    fits = np.ones(len(rows), dtype=np.bool_)
    for name, amount in asks:
        free = all_free[name]
        total: Ints = np.zeros(len(rows), dtype=np.int64)
        for zone in zones:
            has = free[zone, rows]
            fits &= has != UNLISTED
            total += has
        fits &= total >= amount
    return fits


def _take(asks: Amounts, part: ZoneRows, zones: Sequence[int], rows: Positions) -> None:
    """Take amounts from zones, which all list them: all that the first one has, then from the next."""
    for name, amount in asks:
        free = part.taking(name)
        left: Ints = np.full(len(rows), amount, dtype=np.int64)
        for zone in zones:
            has = free[zone, rows]
            taken = np.minimum(left, has)
            free[zone, rows] = has - taken
            left -= taken
