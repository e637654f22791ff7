"""Caches what searches have found on nodes for the next pod whose claims ask for the same.

Cached by what the claims ask for, then by node; dropped for the nodes that see a pool from which something was taken or
to which something was returned since, and dropped entirely when slices or classes change. Used by the plugin. Decisions
never depend on it: it holds what the same search would find again.

`OutcomeColumn` holds the same as a column over a table's rows, with only those rows asked about that may have changed.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from berth.api.dra import ResourceClaim
from berth.api.node import Node
from berth.api.pod import Container
from berth.api.recent import Recent, json_size
from berth.framework.interface import Codes
from berth.framework.status import Status
from berth.plugins.dra.allocator import ClaimDevices
from berth.plugins.dra.devices import Inventory
from berth.plugins.dra.extended import NodeClaim
from berth.plugins.dra.ledger import Allocated
from berth.state.table import NodeTable


class NodeAllocation(NamedTuple):
    """What to take on one node, in the order of the claims to allocate."""

    found: tuple[ClaimDevices, ...]
    node_claim: NodeClaim | None
    """The claim for extended resources as it is for this node, if it needs devices for them."""


class NodeOutcome(NamedTuple):
    """What came of a search on a node."""

    node: Node
    """The node object that was looked at."""
    found: tuple[ClaimDevices, ...] | None
    problem: str = ""
    """Why the search was given up, if it was: it would be again, at the same cost."""


_ENCODER = msgspec.json.Encoder()


Search = Callable[[int], tuple[NodeAllocation | None, Status | None]]
"""Asks about a row that holds a node: what a pod would get there, or why it gets nothing."""


class OutcomeColumn:
    """What a search says of each row of a table. The invariant: rows that `update` is not told of have not changed.

    It finds rows whose node has changed by itself, and asks each time about a row for which nothing can be kept.
    """

    __slots__ = ("_again", "_code_of", "_codes", "_names", "_position", "_statuses", "found")

    def __init__(self, table: NodeTable) -> None:
        self._position = table.node_log.position
        self._codes: Codes = np.zeros(table.capacity, dtype=np.int32)
        self._names: dict[int, str] = {}
        self._again: list[int] = []
        """The rows to ask about even if nothing happens to them."""
        self._code_of: dict[Status, int] = {}
        self._statuses: list[Status] = []
        self.found: dict[str, NodeAllocation] = {}
        """What a pod would get, by node."""

    def changed_rows(self, table: NodeTable, dropped: Iterable[str]) -> list[int] | None:
        """Return the rows to ask about again, those of some nodes among them; None where a new column is needed."""
        changed = table.node_log.since(self._position)
        # Statuses may name nodes and say why the search there was given up, so unused ones would accumulate.
        if changed is None or len(self._codes) != table.capacity or len(self._statuses) > 2 * table.capacity:
            return None
        theirs = (table.row_of.get(name) for name in dropped)
        return sorted({*changed, *self._again, *(row for row in theirs if row is not None)})

    def update(
        self, table: NodeTable, rows: Iterable[int], search: Search, is_kept: Callable[[int], bool]
    ) -> tuple[Codes, Sequence[Status]]:
        """Ask about rows; return a code for each row of the table, and what the codes from 1 on mean.

        The codes are the caller's, and a code keeps its meaning.
        """
        self._position, self._again = table.node_log.position, []
        for row in rows:
            self._ask(table, row, search)
            if table.valid[row] and not is_kept(row):
                self._again.append(row)
        return self._codes.copy(), self._statuses

    def _ask(self, table: NodeTable, row: int, search: Search) -> None:
        before = self._names.pop(row, None)
        if before is not None:
            self.found.pop(before, None)
        allocation, status = search(row) if table.valid[row] else (None, None)
        if allocation is not None:
            name = self._names[row] = table.names[row]
            self.found[name] = allocation
        if status is None:
            self._codes[row] = 0
            return
        code = self._code_of.get(status)
        if code is None:
            self._statuses.append(status)
            code = self._code_of[status] = len(self._statuses)
        self._codes[row] = code


class KeptOutcomes:
    """What is known of one kind of claims."""

    __slots__ = ("_column", "_dropped", "by_node", "position")

    def __init__(self, position: int) -> None:
        self.by_node: dict[str, NodeOutcome] = {}
        """Outcomes by node; new ones are to be added."""
        self.position = position
        self._column: OutcomeColumn | None = None
        self._dropped: set[str] = set()
        """The nodes whose outcome was dropped since the column was brought up to date."""

    def drop(self, names: Iterable[str] | None) -> None:
        """Forget what is known of some nodes, or of all."""
        if names is None:
            self.by_node, self._column = {}, None
            return
        for name in names:
            self.by_node.pop(name, None)
            self._dropped.add(name)

    def column(self, table: NodeTable, search: Search) -> tuple[Codes, Sequence[Status], dict[str, NodeAllocation]]:
        """Return codes, what they mean, and what a pod would get by node; codes and nodes are the caller's."""
        column, self._column = self._column, None
        rows = None if column is None else column.changed_rows(table, self._dropped)
        if column is None or rows is None:
            column, rows = OutcomeColumn(table), list(range(table.capacity))

        def is_kept(row: int) -> bool:
            known = self.by_node.get(table.names[row])
            return known is not None and known.node is table.nodes[row]

        codes, statuses = column.update(table, rows, search, is_kept)
        self._dropped = set()
        self._column = column  # only now: a search that raises leaves a column that nobody may go on with
        return codes, statuses, column.found.copy()


class Outcomes:
    """Outcomes by what was asked for; the most recently used are kept."""

    __slots__ = ("_kept", "_versions")

    def __init__(self, max_asked: int = 64) -> None:
        self._kept: Recent[bytes, KeptOutcomes] = Recent(max_asked)
        self._versions: tuple[int, ...] = ()

    def of(
        self,
        claims: Sequence[ResourceClaim],
        containers: Sequence[Container],
        versions: tuple[int, ...],
        allocated: Allocated,
        inventory: Inventory,
    ) -> KeptOutcomes:
        """Return what is known for claims that ask for the same.

        `containers` are those that ask for extended resources.
        """
        if versions != self._versions:  # outcomes hold slices and classes, so that those are let go of, too
            self._versions = versions
            self._kept.clear()
        asked = [(container.restart_policy, container.resources.requests) for container in containers]
        key = _ENCODER.encode(([claim.spec for claim in claims], asked))
        kept = self._kept.get(key)
        if kept is None:
            kept = KeptOutcomes(allocated.position)
            # Outcomes hold the claims that were looked at, with more than their specs.
            self._kept.put(key, kept, json_size((key, claims)))
        touched = allocated.touched_since(kept.position)
        if touched is None:
            kept.drop(None)
        else:
            for pool in touched:
                kept.drop(inventory.nodes_of(pool))
        kept.position = allocated.position
        return kept
