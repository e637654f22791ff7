"""Pods, or the weights of their terms, summed by topology domain: one sum for each label key that terms name."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from berth.state.topology import Int64, RowCounts, Topologies, Topology


class Domains(NamedTuple):
    """Sums by domain of one label key; the last one, of nodes without the label, is not part of the result."""

    topology: Topology
    sums: Int64

    def without_absent(self) -> Int64:
        """Return the sums with 0 for nodes without the label."""
        if not self.sums[-1]:
            return self.sums
        sums = self.sums.copy()
        sums[-1] = 0
        return sums

    def of_value(self, value: str) -> int:
        """Return the sum of the domain of a label value."""
        domain = self.topology.id_of(value)
        return int(self.sums[domain]) if domain >= 0 else 0


ByKey = Mapping[str, Domains]


class Weighted(NamedTuple):
    """A column of counts, the label key to sum it by, and what each counts."""

    key: str
    column: RowCounts
    weight: int = 1


def summed(topologies: Topologies, columns: Iterable[Weighted]) -> dict[str, Domains]:
    """Sum columns by domain, those of one key together; keys where no domain holds anything are left out.

    A key whose sums cancel out is kept.
    """
    found: dict[str, Domains] = {}
    for key, column, weight in columns:
        topology = topologies.get(key)
        by_domain = column.by_domain(topology)
        if not by_domain.total:
            continue
        sums = by_domain.values if weight == 1 else by_domain.values * weight
        known = found.get(key)
        found[key] = Domains(topology, sums if known is None else known.sums + sums)
    return found
