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
    units,
    zone_sets,
)
from berth_plugins.numa.topology import POD, Topology

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Positions = NDArray[np.intp]

UNLISTED = -1


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
        self.units: dict[str, Floats] = {}
        """The same in whole units, rounded up, as floating point numbers, which divide faster; 0 where not listed."""

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
        nothing = np.zeros(more.shape)
        self.units = {name: np.concatenate([array, nothing]) for name, array in self.units.items()}
        self.zones = zones

    def _write(self, row: int, known: Known) -> None:
        topology = known.topology
        self.is_stale[row] = not known.is_fresh
        self.is_known[row] = is_known = known.is_fresh and topology is not None
        for name, array in self.free.items():
            array[:, row], self.units[name][:, row] = UNLISTED, 0
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
                    self.units[name] = np.zeros((self.zones, self._capacity))
                self.free[name][place, row], self.units[name][place, row] = amount, units(name, amount)

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
    """Some rows of the columns."""

    rows: Rows
    """Without gaps, a slice."""
    size: int
    free: dict[str, Ints]
    """What is free of the resources asked for that any zone lists, (zones, rows); copied before it is written to."""
    units: dict[str, Floats]
    is_own: set[str]
    """The resources of which `free` is a copy."""

    def taking(self, resource: str) -> Ints:
        """Return the amounts of a resource, to be written to."""
        if resource not in self.is_own:
            self.is_own.add(resource)
            self.free[resource] = self.free[resource].copy()
        return self.free[resource]


def zone_rows(columns: ZoneColumns, positions: Positions, names: Iterable[str]) -> ZoneRows:
    """Return some rows, which are in order unless somebody asks otherwise."""
    first, last, count = int(positions[0]), int(positions[-1]), len(positions)
    # Views cost nothing, so rows without gaps are not copied.
    has_gaps = last - first + 1 != count or (count > 1 and not (np.diff(positions) == 1).all())
    rows: Rows = positions if has_gaps else slice(first, last + 1)
    listed = [name for name in names if name in columns.free]
    free = {name: columns.free[name][:, rows] for name in listed}
    in_units = {name: columns.units[name][:, rows] for name in listed}
    return ZoneRows(rows, count, free, in_units, set(listed) if has_gaps else set())


def names_of(all_asks: Iterable[Amounts]) -> frozenset[str]:
    """Return the resources that are asked for."""
    return frozenset(name for asks in all_asks for name, _ in asks)


# --- Filter -----------------------------------------------------------------------------------------------------------


def verdicts(columns: ZoneColumns, ask: Ask, table: NodeTable, rows: Rows, strategy: str) -> NDArray[np.int32]:
    """Return what `alignment.verdict` says of each row, and STALE where nothing can be relied on; int32 (rows,)."""
    is_stale = columns.is_stale[rows]
    found = np.zeros(len(is_stale), dtype=np.int32)
    if ask.is_exempt:
        return found
    if is_stale.any():
        found[is_stale] = Verdict.STALE
    is_single, is_by_pod = columns.is_single[rows], columns.is_by_pod[rows]
    for is_whole in (True, False):
        where = np.flatnonzero(is_single & is_by_pod if is_whole else is_single & ~is_by_pod)
        if len(where):
            all_asks = [ask.whole] if is_whole else [part.asks for part in ask.parts]
            some = zone_rows(columns, _positions(table, rows, where), names_of(all_asks))
            found[where] = _whole_pod(columns, ask, table, some) if is_whole else _parts(columns, ask, table, some)
    if ask.is_guaranteed:
        _refuse_scoring(columns, ask, rows, strategy, found)
    return found


def _positions(table: NodeTable, rows: Rows, where: Positions) -> Positions:
    """Return the rows of the table that are at some places of `rows`."""
    if isinstance(rows, slice):
        start, _, step = rows.indices(table.capacity)
        return where * step + start
    return rows[where]


def _whole_pod(columns: ZoneColumns, ask: Ask, table: NodeTable, some: ZoneRows) -> NDArray[np.int32]:
    fits, _ = fitting_zones(columns, ask, ask.whole, table, some)
    return np.where(fits, Verdict.FITS, Verdict.POD).astype(np.int32)


def _parts(columns: ZoneColumns, ask: Ask, table: NodeTable, some: ZoneRows) -> NDArray[np.int32]:
    found = np.zeros(some.size, dtype=np.int32)
    last = len(ask.parts) - 1
    for number, part in enumerate(ask.parts):
        fits, zones = fitting_zones(columns, ask, part.asks, table, some)
        found[~fits & (found == Verdict.FITS)] = VERDICT_OF_KIND[part.kind]
        if part.kind == APP and number < last and zones is not None:
            scarce = [(name, amount) for name, amount in part.asks if name in some.free and is_scarce(ask, name)]
            _take_from_lowest(scarce, fits, zones, some)
    return found


def _take_from_lowest(asks: Iterable[tuple[str, int]], fits: Mask, zones: Mask, some: ZoneRows) -> None:
    """Take amounts from the first zone that has all of them, where there is one."""
    left = fits.copy()
    for zone, has_room in enumerate(zones):
        chosen = left & has_room
        left &= ~has_room
        for name, amount in asks:
            free = some.taking(name)[zone]
            # Where it has less, it does not list what the node has as a whole.
            np.subtract(free, amount, out=free, where=chosen & (free >= amount))


def fitting_zones(
    columns: ZoneColumns, ask: Ask, asks: Amounts, table: NodeTable, some: ZoneRows
) -> tuple[Mask, Mask | None]:
    """Return where any zone has all of some amounts, bool (rows,), and which have, bool (zones, rows); None where it
    does not matter, since only the node as a whole has them."""
    possible: Mask | None = None
    zones: Mask | None = None
    for name, amount in asks:
        if not amount:
            continue
        present = columns.on_nodes(name, table)
        if present is not None:
            possible = present[some.rows] if possible is None else possible & present[some.rows]
        free = some.free.get(name)
        if free is None:  # no zone of any node lists it
            if not may_be_node_wide(name):
                return np.zeros(some.size, dtype=np.bool_), None
            continue
        suits = free >= (amount if is_scarce(ask, name) else 0)
        if may_be_node_wide(name):
            suits |= (free == UNLISTED).all(axis=0)
        zones = suits if zones is None else zones & suits
    if zones is None:
        return np.ones(some.size, dtype=np.bool_) if possible is None else possible, None
    fits = np.logical_or.reduce(zones)
    return fits if possible is None else fits & possible, zones


def _refuse_scoring(columns: ZoneColumns, ask: Ask, rows: Rows, strategy: str, found: NDArray[np.int32]) -> None:
    """Note the rows where a Guaranteed pod fits but cannot be scored."""
    by_count = strategy == LEAST_NUMA_NODES
    irregular = ~columns.is_regular[rows]
    nothing = {by_container: not by_count and asks_for_nothing(ask, by_container=by_container)
               for by_container in (True, False)}  # fmt: skip
    if not irregular.any() and not any(nothing.values()):
        return
    is_by_pod = columns.is_by_pod[rows]
    is_scored = (columns.is_known if by_count else columns.is_single)[rows] & (found == Verdict.FITS)
    for by_container, asks_nothing in nothing.items():
        if asks_nothing:
            found[is_scored & (is_by_pod != by_container)] = Verdict.ASKS_FOR_NOTHING
    found[is_scored & irregular & ~(is_by_pod & by_count)] = Verdict.IRREGULAR


# --- Score ------------------------------------------------------------------------------------------------------------


def scores(columns: ZoneColumns, ask: Ask, table: NodeTable, rows: Rows, strategy: Strategy, spend: Spend) -> Ints:
    """Return what `scores.score_of` gives each row, int64 (rows,); 0 where nothing can be relied on."""
    is_scored = (columns.is_known if strategy.kind == LEAST_NUMA_NODES else columns.is_single)[rows]
    if not ask.is_guaranteed:
        return np.full(len(is_scored), MAX_NODE_SCORE, dtype=np.int64)
    found = np.zeros(len(is_scored), dtype=np.int64)
    is_by_pod = columns.is_by_pod[rows]
    for is_whole in (True, False):
        where = np.flatnonzero(is_scored & is_by_pod if is_whole else is_scored & ~is_by_pod)
        if len(where):
            all_asks = [ask.whole] if is_whole else [part.asks for part in ask.parts]
            some = zone_rows(columns, _positions(table, rows, where), names_of(all_asks))
            if strategy.kind == LEAST_NUMA_NODES:
                found[where] = _least_zones(columns, all_asks, some, spend)
            else:
                found[where] = _mean_of_lowest(columns, all_asks, some, strategy)
    return found


def _mean_of_lowest(columns: ZoneColumns, all_asks: Sequence[Amounts], some: ZoneRows, strategy: Strategy) -> Ints:
    """Return the mean of the lowest zone scores, cut to whole numbers, int64 (rows,)."""
    lowest = {asks: _lowest(columns, asks, some, strategy) for asks in dict.fromkeys(all_asks)}
    if len(lowest) == 1:
        return lowest[all_asks[0]].astype(np.int64)
    total: Floats = np.zeros(some.size)
    for asks in all_asks:
        total += lowest[asks]
    mean: Ints = (total / len(all_asks)).astype(np.int64)
    return mean


def _lowest(columns: ZoneColumns, asks: Amounts, some: ZoneRows, strategy: Strategy) -> Floats:
    """Return the lowest score of any zone that is not 0: whole numbers, float64 (rows,)."""
    found = _balances(columns, asks, some) if strategy.kind == BALANCED else _shares(columns, asks, some, strategy)
    found[found == 0] = np.inf
    lowest: Floats = np.minimum.reduce(found)
    lowest[lowest == np.inf] = 0
    return lowest


def _shares(columns: ZoneColumns, asks: Amounts, some: ZoneRows, strategy: Strategy) -> Floats:
    """Return the scores of zones by how much is taken, or left, of each resource, float64 (zones, rows).

    Amounts and weights are small enough that quotients, cut to whole numbers, are those of whole numbers.
    """
    total: Floats = np.zeros((columns.zones, some.size))
    weights = 0
    for name, amount in asks:
        weight = strategy.weight(name)
        weights += weight
        if name not in some.free:
            continue
        has, asked = some.units[name], float(units(name, amount))
        share = asked * MAX_NODE_SCORE if strategy.kind == MOST_ALLOCATED else (has - asked) * MAX_NODE_SCORE
        score: Floats = np.zeros(total.shape)
        np.divide(share, has, out=score, where=some.free[name] >= max(amount, 1))
        np.floor(score, out=score)
        total += score if weight == 1 else weight * score
    if weights > 1:
        total /= weights
        np.floor(total, out=total)
    return total


def _balances(columns: ZoneColumns, asks: Amounts, some: ZoneRows) -> Floats:
    """Return the scores of zones by how even the shares are that are asked for, float64 (zones, rows)."""
    shape = (columns.zones, some.size)
    shares: list[Floats] = []
    for name, amount in asks:
        share: Floats = np.ones(shape)
        if name in some.free:
            has = some.units[name]
            np.divide(float(units(name, amount)), has, out=share, where=has != 0)
        shares.append(share)
    fits = np.arange(columns.zones)[:, np.newaxis] < columns.count[some.rows]
    for share in shares:
        fits &= share <= 1
    if len(shares) < 2:
        return np.where(fits, float(NOT_A_NUMBER), 0.0)
    mean = sum(shares) / len(shares)
    squares, differences = np.zeros(shape), np.zeros(shape)
    for share in shares:
        squares += (share - mean) * (share - mean)
        differences += share - mean
    variance = (squares - differences * differences / len(shares)) / (len(shares) - 1)
    return np.where(fits, np.trunc((1 - variance) * MAX_NODE_SCORE), 0.0)


# --- LeastNUMANodes ---------------------------------------------------------------------------------------------------


def _least_zones(columns: ZoneColumns, all_asks: Sequence[Amounts], some: ZoneRows, spend: Spend) -> Ints:
    """Return the scores of rows by how many zones it takes, int64 (rows,)."""
    count = some.size
    most, is_nearest, fits = np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.bool_), np.ones(count, np.bool_)
    layouts = columns.layout[some.rows]
    which = np.unique(layouts).tolist() if len(columns.distances) > 1 else [0]
    for number, asks in enumerate(all_asks):
        listed = [free for name, _ in asks if (free := some.free.get(name)) is not None]
        if not listed:
            continue
        concerned = np.logical_or.reduce([np.maximum.reduce(free) != UNLISTED for free in listed]) & fits
        is_last = number == len(all_asks) - 1
        for layout in which:
            here = np.flatnonzero(concerned & (layouts == layout)) if len(which) > 1 else np.flatnonzero(concerned)
            size, nearest = _sizes(columns.distances[layout], asks, some, here, spend, takes=not is_last)
            most[here] = np.maximum(most[here], size)
            is_nearest[here] &= nearest
            fits[here] = size > 0
    steps = MAX_NODE_SCORE // columns.max_zones[some.rows]
    scores: Ints = MAX_NODE_SCORE - most * steps + np.where(is_nearest, steps // 2, 0)
    scores[most == 0] = MAX_NODE_SCORE
    scores[~fits] = 0
    return scores


def _sizes(
    distances: Distances, asks: Amounts, some: ZoneRows, here: Positions, spend: Spend, *, takes: bool
) -> tuple[Ints, Mask]:
    """Return how many zones it takes on rows with these distances, 0 where no number does, and whether these are
    nearest; with `takes` the amounts are taken from them."""
    sizes, nearest = np.zeros(len(here), dtype=np.int64), np.zeros(len(here), dtype=np.bool_)
    if any(name not in some.free for name, _ in asks):
        return sizes, nearest
    left = np.arange(len(here))
    for size in range(1, len(distances) + 1):
        sets = zone_sets(distances, size, spend)
        spend(len(sets) * (20 + len(left) // 50))
        for found in sets:
            if not len(left):
                return sizes, nearest
            rows = here[left]
            # The first set is asked for all rows, mostly, and these need not be picked out.
            fits = _fits_in(found.zones, asks, some.free, rows if len(rows) < some.size else slice(None))
            if not fits.any():
                continue
            sizes[left[fits]], nearest[left[fits]] = size, found.is_nearest
            if takes:
                _take(asks, some, found.zones, rows[fits])
            left = left[~fits]
    return sizes, nearest


def _fits_in(zones: Sequence[int], asks: Amounts, all_free: Mapping[str, Ints], rows: Rows) -> Mask:
    """Return where these zones, which must all list what is asked for, have enough of it together, bool (rows,)."""
    fits: Mask | None = None
    for name, amount in asks:
        free = [all_free[name][zone, rows] for zone in zones]
        enough: Mask = sum(free[1:], start=free[0]) >= amount
        if len(free) > 1 or amount <= 0:  # a single zone that does not list it has less than nothing
            enough &= np.minimum.reduce(free) != UNLISTED
        fits = enough if fits is None else fits & enough
    assert fits is not None, "who asks for nothing is not asked about"
    return fits


def _take(asks: Amounts, some: ZoneRows, zones: Sequence[int], rows: Positions) -> None:
    """Take amounts from zones, which all list them: all that the first one has, then from the next."""
    for name, amount in asks:
        free = some.taking(name)
        left: Ints = np.full(len(rows), amount, dtype=np.int64)
        for zone in zones:
            has = free[zone, rows]
            taken = np.minimum(left, has)
            free[zone, rows] = has - taken
            left -= taken
