"""NodePorts: the host ports that the pod wants must be free on the node.

Upstream plugin NodePorts, v1.36. Ports of regular containers and of sidecars count; two conflict where protocol and
number are the same and the addresses are the same or one of them is 0.0.0.0.
Deviation: a port that two pods of a node hold is taken until both are gone; upstream's HostPortInfo keeps a set, which
forgets it in preemption once one of them is taken off.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, final

import numpy as np

from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint
from berth.framework.handle import Handle
from berth.framework.interface import (
    Codes,
    ColumnFilterPlugin,
    EventsPlugin,
    FilterColumn,
    FilterPlugin,
    PodWhatIfPlugin,
    PreFilterPlugin,
    RowFilterPlugin,
    Rows,
    SignaturePlugin,
)
from berth.framework.promises import Dependency, Promises
from berth.framework.status import SKIP, Status, unschedulable
from berth.state.follower import RowFollower, RowsByKey
from berth.state.node_view import NodeView
from berth.state.pod_info import LABELS, REQUESTS, WILDCARD_IP, HostPort, PodInfo
from berth.state.table import NodeTable

NO_FREE_PORTS = "node(s) didn't have free ports for the requested pod ports"

_TAKEN = unschedulable(NO_FREE_PORTS)


def in_conflict(wanted: Sequence[HostPort], held: Sequence[HostPort]) -> bool:
    """Say whether any wanted port is held already."""
    return any(port.conflicts_with(other) for port in wanted for other in held)


_Key = tuple[str, int, str | None]
"""Protocol, port and address; None in place of the address stands for any."""


class HostPortIndex:
    """Rows by the host ports that pods on them hold, each filed under its own address and under any.

    It spares the plugin a look at every pod of every node: when it is asked, it looks again only at the rows where pods
    came or went since. It is sparse, since few pods hold ports.
    """

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


@final
class NodePorts(
    PreFilterPlugin, FilterPlugin, ColumnFilterPlugin, RowFilterPlugin, PodWhatIfPlugin, SignaturePlugin, EventsPlugin
):
    """The plugin."""

    name: ClassVar[str] = "NodePorts"
    promises: ClassVar[Promises] = Promises(
        filter_depends_on=frozenset({Dependency.PODS_ON_NODE}),
        filters_by_row=True,
        filters_by_affecting_pods=True,
        ignores=frozenset({LABELS, REQUESTS}),
        pre_filter_is_pure=True,
        hints_by_shape=True,
    )

    __slots__ = ("_index",)

    def __init__(self, args: None, handle: Handle) -> None:
        self._index = HostPortIndex(handle.cache.table)

    def signature(self, pod: PodInfo) -> tuple[HostPort, ...]:
        """Return the host ports that the pod wants."""
        return pod.host_ports

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Skip pods that want no host port."""
        return None if pod.host_ports else SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Reject a node where a port is taken."""
        return _TAKEN if in_conflict(pod.host_ports, tuple(node.used_ports)) else None

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Say the same of many rows: 1 where a port is taken."""
        column: Codes = np.zeros(table.capacity, dtype=np.int32)
        column[list(self._index.rows_in_conflict(pod.host_ports))] = 1
        return FilterColumn(column[rows], _describe)

    def is_affected_by(self, state: CycleState, pod: PodInfo, other: PodInfo) -> bool:
        """Say whether the two cannot share a node."""
        return in_conflict(pod.host_ports, other.host_ports)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return what may free a port: pods that go, nodes that come."""
        return (
            ClusterEventWithHint(ClusterEvent("Pod", Action.DELETE), self.after_pod_delete),
            ClusterEventWithHint(ClusterEvent("Node", Action.ADD)),
        )

    def after_pod_delete(self, pod: PodInfo, old: PodInfo | None, new: Any) -> QueueingHint:
        """Queue where the pod that went held a port that this one wants."""
        if old is None:
            return QueueingHint.QUEUE
        if not (old.node_name or old.status.nominated_node_name):
            return QueueingHint.SKIP
        return QueueingHint.QUEUE if in_conflict(pod.host_ports, old.host_ports) else QueueingHint.SKIP

    def filter_row(self, state: CycleState, pod: PodInfo, table: NodeTable, row: int) -> int:
        """Say the same of one row."""
        held = [port for other in table.pods[row].values() for port in other.host_ports]
        return int(in_conflict(pod.host_ports, held))


def _describe(_code: int) -> Status:
    return _TAKEN
