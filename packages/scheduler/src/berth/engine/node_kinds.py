"""Groups the nodes that a plain plugin cannot tell apart, so that it is asked about one node of each kind instead of
all.

A plugin says what its answers read of a node (`node_signature`). Nodes with equal signatures are of one kind. Kinds do
not depend on the pod: they are computed once, and again for nodes that have changed. So the first pod of a shape costs
one call per kind rather than one per node.
"""

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from berth.framework.interface import NodeSignaturePlugin, RowArray
from berth.state.follower import RowFollower
from berth.state.table import NodeTable

FEW_ROWS = 16
"""Up to this many rows are asked about one by one, without working out kinds."""


class NodeKinds:
    """The kinds of all nodes, as one plugin sees them. The invariant: rows with the same number have equal
    signatures.
    """

    __slots__ = ("_follower", "_kind_of", "_kinds", "_plugin", "_table")

    def __init__(self, plugin: NodeSignaturePlugin) -> None:
        self._plugin = plugin
        self._table: NodeTable | None = None
        self._kind_of: dict[Hashable, int] = {}
        self._kinds: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def among(self, table: NodeTable, rows: RowArray) -> tuple[RowArray, NDArray[np.intp] | slice]:
        """Return one row of each kind among rows that hold nodes, ascending, and for each row the index of its kind."""
        if len(rows) <= FEW_ROWS:
            return rows, slice(None)
        self._catch_up(table)
        _, first, which = np.unique(self._kinds[rows], return_index=True, return_inverse=True)
        order = np.argsort(first)
        place_of = np.empty(len(order), dtype=np.intp)
        place_of[order] = np.arange(len(order))
        return rows[first[order]], place_of[which.ravel()]

    def _catch_up(self, table: NodeTable) -> None:
        if self._table is not table or len(self._kind_of) > 2 * table.capacity:
            self._table, self._follower = table, RowFollower(table, nodes=True, pods=True)
            self._kind_of = {}
        rows = self._follower.rows_to_look_at()
        self._table = None  # until all is well: what raises here is worked out anew
        if len(self._kinds) != table.capacity:  # then all rows are to be looked at
            self._kinds = np.zeros(table.capacity, dtype=np.int64)
        for row in rows:
            if table.valid[row]:
                signature = self._plugin.node_signature(table.view(row))
                self._kinds[row] = self._kind_of.setdefault(signature, len(self._kind_of))
        self._table = table
