"""One node with its pods as plain Python objects: what a per-node plugin is given.

`with_pod` and `without_pod` return a changed copy, which is how nominated pods and preemption are tried out.
"""

from collections.abc import Iterator, Mapping

import msgspec

from berth.api.node import Node
from berth.api.pod_resources import Requests
from berth.api.read_only import ReadOnlyDict
from berth.state.pod_info import HostPort, PodInfo


class NodeView(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A node at one moment. Immutable, and so are its maps."""

    row: int
    node: Node
    pods: ReadOnlyDict[str, PodInfo]
    allocatable: Requests
    requested: ReadOnlyDict[str, int]
    scoring_requested: tuple[int, int]
    allowed_pods: int

    def __repr__(self) -> str:
        return f"NodeView({self.name}, {len(self.pods)} pods)"

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels."""
        return self.node.metadata.labels

    @property
    def pod_count(self) -> int:
        """How many pods the node has."""
        return len(self.pods)

    @property
    def used_ports(self) -> Iterator[HostPort]:
        """The host ports that pods on the node hold."""
        return (port for pod in self.pods.values() for port in pod.host_ports)

    def with_pod(self, pod: PodInfo) -> "NodeView":
        """Return the node as it would be with one more pod on it."""
        return self._changed(ReadOnlyDict({**self.pods, pod.uid: pod}), pod, 1)

    def without_pod(self, pod: PodInfo) -> "NodeView":
        """Return the node as it would be with one pod less on it."""
        there = {uid: other for uid, other in self.pods.items() if uid != pod.uid}
        return self._changed(ReadOnlyDict(there), pod, -1)

    def _changed(self, pods: ReadOnlyDict[str, PodInfo], pod: PodInfo, sign: int) -> "NodeView":
        requested = dict(self.requested)
        for resource, amount in pod.requests.items():
            requested[resource] = requested.get(resource, 0) + sign * amount
        cpu_milli, memory_bytes = pod.scoring_requests
        before_cpu, before_memory = self.scoring_requested
        return msgspec.structs.replace(
            self,
            pods=pods,
            requested=ReadOnlyDict(requested),
            scoring_requested=(before_cpu + sign * cpu_milli, before_memory + sign * memory_bytes),
        )
