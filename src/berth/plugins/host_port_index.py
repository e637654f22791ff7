"""Which rows hold which host ports, so that NodePorts need not look at every pod of every node.

The node table goes in, rows come out. Brought up to date when it is asked, by looking again at the rows where pods
came or went since; it is sparse, as few pods hold ports and fewer the same one.
"""

from collections.abc import Iterable, Iterator

from berth.state.follower import RowFollower, RowsByKey
from berth.state.pod_info import WILDCARD_IP, HostPort
from berth.state.table import NodeTable

_Key = tuple[str, int, str | None]
"""Protocol, port and address; None as the address stands for any."""


class HostPortIndex:
    """Rows by the host ports that pods on them hold, each filed under its own address and under any."""

    __slots__ = ("_follower", "_rows", "_table")

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._follower = RowFollower(table, pods=True)
        self._rows: RowsByKey[_Key] = RowsByKey()

    def rows_in_conflict(self, wanted: Iterable[HostPort]) -> set[int]:
        """Return the rows where a pod holds a port that conflicts with one of `wanted`."""
        for row in self._follower.rows_to_look_at():
            self._rows.put(row, frozenset(self._keys_of(row)))
        found: set[int] = set()
        for ip, protocol, port in wanted:
            # The wildcard conflicts with every address, any other address with itself and the wildcard.
            for address in (None,) if ip == WILDCARD_IP else (ip, WILDCARD_IP):
                found |= self._rows.of((protocol, port, address))
        return found

    def _keys_of(self, row: int) -> Iterator[_Key]:
        for pod in self._table.pods[row].values():
            for ip, protocol, port in pod.host_ports:
                yield protocol, port, ip
                yield protocol, port, None
