"""Which rows hold which host ports, so that NodePorts need not look at every pod of every node.

The node table goes in, rows come out. The index is brought up to date when it is asked, by looking again at the rows
where pods came or went since; it is sparse, as few pods hold ports and fewer the same one.
"""

from collections.abc import Iterable

from berth.state.pod_info import HostPort
from berth.state.table import NodeTable


class HostPortIndex:
    """Rows by the host ports that pods on them hold."""

    __slots__ = ("_by_number", "_ports_of", "_position")

    def __init__(self) -> None:
        self._by_number: dict[tuple[str, int], dict[HostPort, set[int]]] = {}
        self._ports_of: dict[int, frozenset[HostPort]] = {}
        self._position = -1

    def rows_in_conflict(self, table: NodeTable, wanted: Iterable[HostPort]) -> set[int]:
        """Return the rows where a pod holds a port that conflicts with one of `wanted`."""
        self._catch_up(table)
        found: set[int] = set()
        for port in wanted:
            for held, rows in self._by_number.get((port.protocol, port.port), {}).items():
                if port.conflicts_with(held):
                    found |= rows
        return found

    def _catch_up(self, table: NodeTable) -> None:
        log = table.pod_log
        changed = log.since(self._position) if self._position >= 0 else None
        rows: Iterable[int] = range(table.capacity) if changed is None else changed.tolist()
        for row in rows:
            self._note(row, frozenset(port for pod in table.pods[row].values() for port in pod.host_ports))
        self._position = log.position

    def _note(self, row: int, ports: frozenset[HostPort]) -> None:
        before = self._ports_of.get(row, frozenset())
        for port in before - ports:
            self._drop(port, row)
        for port in ports - before:
            held = self._by_number.setdefault((port.protocol, port.port), {})
            held.setdefault(port, set()).add(row)
        if ports:
            self._ports_of[row] = ports
        else:
            self._ports_of.pop(row, None)

    def _drop(self, port: HostPort, row: int) -> None:
        number = (port.protocol, port.port)
        held = self._by_number[number]
        held[port].discard(row)
        if not held[port]:
            del held[port]
        if not held:
            del self._by_number[number]
