"""What the hollow kubelet knows of each node: what the node offers, and what the pods on it take.

Amounts are integers in the scheduler's units. Adding or removing a pod takes time in proportion to what the pod asks
for, whatever else is on the node. Used by `kubelet` alone.
"""

import ipaddress
from collections.abc import Mapping

import msgspec

from berth.api.node import Node
from berth.api.pod import Pod
from berth.api.pod_resources import CPU, Requests
from berth.api.quantity import milli_value, value
from berth_cluster.apimachinery.meta import Object
from berth_cluster.hollow.admission import HostPort, NodeLoad, Rejection, admit, host_ports
from berth_cluster.hollow.container_runs import NodeFiles
from berth_cluster.hollow.resize import ContainerResources
from berth_cluster.hollow.template import is_down

DEFAULT_POD_NETWORK = "10.0.0.0/24"


class AdmittedPod(msgspec.Struct, frozen=True):
    """What one admitted pod takes of its node."""

    requests: Mapping[str, int]
    ports: frozenset[HostPort]
    pod_ip: str
    resources: ContainerResources = {}  # what its containers have, in the words of their spec


class HollowNode:
    """One hollow node and the pods that its kubelet has admitted."""

    __slots__ = (
        "_addresses", "_host", "_ports", "_range", "_used", "allocatable", "deferred", "files", "host_ip", "is_down",
        "node", "pods",
    )  # fmt: skip

    def __init__(self, node: Node, raw: Object) -> None:
        self.pods: dict[str, AdmittedPod] = {}
        self._used: dict[str, int] = {}
        self._ports: set[HostPort] = set()
        self._addresses: set[str] = set()
        self._host = 0
        self.files = NodeFiles()
        self.deferred: set[str] = set()
        """Pods, as namespace/name, whose resize waits for room."""
        self.refresh(node, raw)

    def refresh(self, node: Node, raw: Object) -> None:
        """Adopt what a changed Node object says; pods that are admitted already stay."""
        self.node = node
        self.is_down = is_down(raw)
        self.allocatable = {
            name: milli_value(amount) if name == CPU else value(amount)
            for name, amount in node.status.allocatable.items()
        }
        self.host_ip = _internal_ip(raw)
        self._range = _pod_range(raw)

    def check(self, pod: Pod, pod_os: str, requests: Requests) -> Rejection | None:
        """Why the node cannot take the pod, which asks for `requests`, beside those it has; None if it can."""
        load = NodeLoad(self._used, len(self.pods), self._ports)
        return admit(pod, pod_os, requests, self.node, self.allocatable, load)

    def used_by_others(self, uid: str) -> Mapping[str, int]:
        """What all pods but this one take."""
        own = self.pods[uid].requests
        return {name: amount - own.get(name, 0) for name, amount in self._used.items()}

    def add(self, pod: Pod, requests: Requests, resources: ContainerResources, pod_ip: str = "") -> AdmittedPod:
        """Add an admitted pod and give it an address (`pod_ip`, if it is running already)."""
        if pod.spec.host_network:
            pod_ip = self.host_ip
        admitted = AdmittedPod(requests, frozenset(host_ports(pod)), pod_ip or self._free_address(), resources)
        self.pods[pod.metadata.uid] = admitted
        for name, amount in admitted.requests.items():
            self._used[name] = self._used.get(name, 0) + amount
        self._ports |= admitted.ports
        self._addresses.add(admitted.pod_ip)
        return admitted

    def remove(self, uid: str) -> None:
        """Remove a pod that has ended or is gone; nothing happens if it is unknown."""
        admitted = self.pods.pop(uid, None)
        if admitted is None:
            return
        for name, amount in admitted.requests.items():
            self._used[name] -= amount
        self._ports -= admitted.ports
        self._addresses.discard(admitted.pod_ip)

    def _free_address(self) -> str:
        """The next free address of the node's range, in turn."""
        for _ in range(len(self._range)):
            address = str(ipaddress.IPv4Address(self._range[self._host]))
            self._host = (self._host + 1) % len(self._range)
            if address not in self._addresses:
                return address
        return str(ipaddress.IPv4Address(self._range[0]))


def _pod_range(node: Object) -> range:
    """The addresses for pods, as numbers: all but the network's own, its gateway's, and its broadcast address."""
    try:
        network = ipaddress.IPv4Network((node.get("spec") or {}).get("podCIDR") or DEFAULT_POD_NETWORK, strict=False)
    except ValueError:
        network = ipaddress.IPv4Network(DEFAULT_POD_NETWORK)
    first = int(network.network_address) + 2
    return range(first, max(first + 1, int(network.broadcast_address)))


def _internal_ip(node: Object) -> str:
    addresses = (node.get("status") or {}).get("addresses") or []
    return next((str(entry["address"]) for entry in addresses if entry.get("type") == "InternalIP"), "127.0.0.1")
