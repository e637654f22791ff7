"""Nominated pods: pods that were promised room that is not free yet.

A nomination made by this scheduler (or read from `status.nominatedNodeName`) makes other pods of lower or equal
priority leave that room alone. Written by the queue and the cycle; read by the filters.
"""

from collections.abc import Iterable

from berth.state.change_log import ChangeLog
from berth.state.pod_info import PodInfo


class Nominator:
    """Which pods are nominated to which node."""

    __slots__ = ("_by_node", "_node_of", "_released", "_without_node", "changes")

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._released: list[tuple[PodInfo, str]] = []
        self._without_node: list[PodInfo] = []
        self.changes: ChangeLog[str] = ChangeLog(keep=1024)
        """The names of nodes whose nominations have changed."""

    def __len__(self) -> int:
        return len(self._node_of)

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Nominate a pod to `node_name`, replacing any earlier nomination; "" withdraws it."""
        self.withdraw(pod.uid)
        if not node_name:
            return
        self._node_of[pod.uid] = node_name
        self._by_node.setdefault(node_name, {})[pod.uid] = pod
        self.changes.append(node_name)

    def withdraw(self, uid: str) -> None:
        """Withdraw a pod's nomination, if it has one."""
        node_name = self._node_of.pop(uid, None)
        if node_name is None:
            return
        pods = self._by_node[node_name]
        self._released.append((pods.pop(uid), node_name))
        if not pods:
            del self._by_node[node_name]
        self.changes.append(node_name)

    def take_back(self, uid: str) -> None:
        """Withdraw a nomination, and have it cleared from the pod's status as well."""
        pod = self._by_node.get(self._node_of.get(uid, ""), {}).get(uid)
        if pod is not None:
            self.withdraw(uid)
            self._without_node.append(pod)

    def withdraw_node(self, node_name: str) -> tuple[PodInfo, ...]:
        """Withdraw all nominations to a node that is gone, and return the pods that had them."""
        pods = tuple(self._by_node.pop(node_name, {}).values())
        # They do not count as released: room on a node that is gone helps no pod.
        for pod in pods:
            del self._node_of[pod.uid]
        self._without_node += pods
        self.changes.append(node_name)
        return pods

    def take_pods_without_node(self) -> list[PodInfo]:
        """Return, once, the pods that have lost their nomination without the API server having been told.

        Their node has gone, or their nomination was withdrawn; pods nominated again since are left out.
        """
        if not self._without_node:
            return []
        pods, self._without_node = self._without_node, []
        return [pod for pod in pods if pod.uid not in self._node_of]

    def take_released(self) -> list[tuple[PodInfo, str]]:
        """Return, once, which pods gave up which nodes, leaving out those that were nominated to the same node
        again.
        """
        if not self._released:
            return []
        released, self._released = self._released, []
        return [(pod, node_name) for pod, node_name in released if self._node_of.get(pod.uid) != node_name]

    def restore(self, nominations: Iterable[tuple[PodInfo, str]]) -> None:
        """Nominate exactly these pods, in this order, without notifying anything."""
        wanted = list(nominations)
        if [(pod.uid, name) for pod, name in wanted] != [
            (uid, name) for name, pods in self._by_node.items() for uid in pods
        ]:
            for uid in tuple(self._node_of):
                self.withdraw(uid)
            for pod, name in wanted:
                self.nominate(pod, name)
        self._released, self._without_node = [], []

    def node_of(self, uid: str) -> str | None:
        """Return the node a pod is nominated to, or None."""
        return self._node_of.get(uid)

    def nodes(self) -> Iterable[str]:
        """Return the nodes that have nominated pods."""
        return self._by_node.keys()

    def pods_on(self, node_name: str) -> tuple[PodInfo, ...]:
        """Return the pods nominated to a node."""
        return tuple(self._by_node.get(node_name, {}).values())
