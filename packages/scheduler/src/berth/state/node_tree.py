"""The order in which a partial search visits nodes: one of each zone in turn.

Zones come in order of first appearance, nodes within a zone in order of arrival; nodes without a zone label share a
zone of their own. Source: pkg/scheduler/backend/cache/node_tree.go.
"""

from collections.abc import Mapping

from berth.state.ordering import put_in_order

REGION_LABELS = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
ZONE_LABELS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")

Zones = Mapping[tuple[str, str], tuple[int, ...]]
"""Rows by region and zone."""


def zone_of(labels: Mapping[str, str]) -> tuple[str, str]:
    """Return region and zone; the old labels win over today's, as upstream reads them."""
    region, zone = (labels.get(old, labels.get(new, "")) for new, old in (REGION_LABELS, ZONE_LABELS))
    return region, zone


class NodeTree:
    """Rows by zone, and their interleaved order."""

    __slots__ = ("_noted", "_order", "_zone_of_row", "_zones")

    def __init__(self) -> None:
        self._zones: dict[tuple[str, str], dict[int, None]] = {}
        self._zone_of_row: dict[int, tuple[str, str]] = {}
        self._order: list[int] | None = None
        self._noted: Zones | None = None

    def put(self, row: int, labels: Mapping[str, str]) -> None:
        """Add a row, or move it if its zone has changed."""
        zone = zone_of(labels)
        # A node keeps its turn as long as its zone stays the same, as upstream.
        if self._zone_of_row.get(row) == zone:
            return
        self.remove(row)
        self._zone_of_row[row] = zone
        self._zones.setdefault(zone, {})[row] = None
        self._order = self._noted = None

    def remove(self, row: int) -> None:
        """Take a row out; a zone without rows is forgotten."""
        zone = self._zone_of_row.pop(row, None)
        if zone is None:
            return
        del self._zones[zone][row]
        if not self._zones[zone]:
            del self._zones[zone]
        self._order = self._noted = None

    def order(self) -> list[int]:
        """Return all rows, one of each zone in turn."""
        if self._order is None:
            self._order = self._interleaved()
        return self._order

    def zones(self) -> Zones:
        """Return the rows of each zone, in the order in which they came; the same object until one of them changes."""
        if self._noted is None:
            self._noted = {zone: tuple(rows) for zone, rows in self._zones.items()}
        return self._noted

    def put_in_order(self, zones: Zones) -> None:
        """Put the same rows into an earlier order."""
        put_in_order(self._zones, zones)
        for zone, rows in zones.items():
            put_in_order(self._zones.get(zone, {}), rows)
        self._order = self._noted = None

    def _interleaved(self) -> list[int]:
        queues = [iter(rows) for rows in self._zones.values()]
        order: list[int] = []
        while queues:
            still_full = []
            for queue in queues:
                row = next(queue, None)
                if row is not None:
                    order.append(row)
                    still_full.append(queue)
            queues = still_full
        return order
