"""Rows of the nodes that a volume's affinity, a class's topologies or a capacity's topology select.

Selectors go in, rows come out, and are remembered until some node's labels change; a node that only reports its
status changes nothing here.
"""

from collections.abc import Callable, Hashable, Mapping

import numpy as np
from numpy.typing import NDArray

from berth.api.node_selector import NodeSelector
from berth.api.recent import Recent, json_size
from berth.api.selectors import Requirement, Selector
from berth.api.storage import TopologySelectorTerm
from berth.plugins.node_selection import Term, any_mask, compile_terms, requirement_mask
from berth.plugins.volumes.volume_index import FreeVolumes
from berth.state.follower import RowFollower
from berth.state.label_index import Mask
from berth.state.table import NodeTable

RowArray = NDArray[np.intp]

REMEMBERED_AT_MOST = 65_536
EVERY_ROW = slice(None)


class NodeRows:
    """Rows by selector; only rows that hold a node are ever among them."""

    __slots__ = ("_all", "_epoch", "_follower", "_labels", "_rows", "_table")

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._follower = RowFollower(table, nodes=True)
        self._epoch = 0
        self._labels: list[Mapping[str, str] | None] = []
        self._rows: Recent[Hashable, RowArray] = Recent(REMEMBERED_AT_MOST)
        self._all: RowArray = np.zeros(0, dtype=np.intp)

    def sync(self) -> None:
        """Follow the node table; to be called before the others."""
        table = self._table
        rows = self._follower.changed_rows()
        if rows is None or any(self._labels_of(row) != self._labels[row] for row in rows):
            self._rows.clear()
            self._epoch += 1
            self._labels = [self._labels_of(row) for row in range(table.capacity)]
            self._all = table.rows()

    @property
    def epoch(self) -> int:
        """Grows whenever some node's labels have changed, or a node has come or gone."""
        return self._epoch

    def by_affinity(self, affinity: NodeSelector | None) -> RowArray:
        """Return the rows that can use a volume of this affinity."""
        return self._all if affinity is None else self._remembered(affinity, lambda: self._affinity_mask(affinity))

    def usable_rows(self, group: FreeVolumes) -> RowArray:
        """Return the rows that can use a group of volumes. The group keeps them until some node's labels change."""
        if group.epoch != self._epoch:
            group.epoch, group.rows = self._epoch, self.by_affinity(group.affinity)
        return group.rows

    def by_selector(self, selector: Selector) -> RowArray:
        """Return the rows whose labels a selector selects."""
        return self._remembered(selector, lambda: self._selector_mask(selector))

    def by_topologies(self, topologies: tuple[TopologySelectorTerm, ...]) -> RowArray:
        """Return the rows where a class allows volumes."""
        return self._all if not topologies else self._remembered(topologies, lambda: self._topology_mask(topologies))

    def mask(self, rows: RowArray) -> Mask:
        """Return a new mask over all rows of the table, true for these."""
        found: Mask = np.zeros(self._table.capacity, dtype=np.bool_)
        found[rows] = True
        return found

    def _remembered(self, key: Hashable, select: Callable[[], Mask]) -> RowArray:
        rows = self._rows.get(key)
        if rows is None:
            rows = np.flatnonzero(select() & self._table.valid)
            self._rows.put(key, rows, json_size(key))
        return rows

    def _affinity_mask(self, affinity: NodeSelector) -> Mask:
        # The volume's node is asked for by its labels alone: a term about the node's name meets an empty one.
        terms = tuple(
            Term(term.labels, ())
            for term in compile_terms(affinity)
            if all(requirement.accepts("") for requirement in term.names)
        )
        anywhere = any(not term.labels for term in terms)
        return self._table.valid if anywhere else any_mask(terms, self._table, EVERY_ROW)

    def _selector_mask(self, selector: Selector) -> Mask:
        if selector.nothing:
            return np.zeros(self._table.capacity, dtype=np.bool_)
        return self._all_of(selector.requirements)

    def _topology_mask(self, topologies: tuple[TopologySelectorTerm, ...]) -> Mask:
        found: Mask = np.zeros(self._table.capacity, dtype=np.bool_)
        for term in topologies:
            expressions = term.match_label_expressions
            if expressions:
                found |= self._all_of(tuple(Requirement(e.key, "In", e.values) for e in expressions))
        return found

    def _all_of(self, requirements: tuple[Requirement, ...]) -> Mask:
        found = self._table.valid.copy()
        for requirement in requirements:
            found &= requirement_mask(self._table.label(requirement.key), requirement, EVERY_ROW)
        return found

    def _labels_of(self, row: int) -> Mapping[str, str] | None:
        node = self._table.nodes[row]
        return None if node is None else node.metadata.labels
