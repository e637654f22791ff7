"""Whether a kubelet admits a pod that was bound to its node, and with which reason and message it refuses.

A bound pod is checked once more where it is to run: resources, node affinity, name, host ports, taints of effect
NoExecute. Pure functions; names of reasons and messages are those of upstream's kubelet (pkg/kubelet/lifecycle).
Unlike a real kubelet it does not evict others to make room for critical pods. Called by `kubelet`.
"""

from collections.abc import Iterator, Mapping, Set
from typing import NamedTuple

from berth.api.node import Node
from berth.api.pod import Pod
from berth.api.taints import NO_EXECUTE, untolerated_taint
from berth_cluster.apimachinery.selection import node_matches

OS_LABEL = "kubernetes.io/os"
AFFINITY_MESSAGE = "node(s) didn't match Pod's node affinity/selector"
NAME_MESSAGE = "node(s) didn't match the requested node name"
PORTS_MESSAGE = "node(s) didn't have free ports for the requested pod ports"
TAINT_MESSAGE = "node(s) had taints that the pod didn't tolerate"
NATIVE_ORDER = ("cpu", "memory", "ephemeral-storage")
WILDCARD_IP = "0.0.0.0"

HostPort = tuple[str, str, int]


class Rejection(NamedTuple):
    """Why a pod is not admitted, or does not get other resources."""

    reason: str
    message: str


class NodeLoad(NamedTuple):
    """What the pods already admitted to a node take: amounts (CPU in milli-units), their number, host ports."""

    used: Mapping[str, int]
    pods: int
    ports: Set[HostPort]


def admit(
    pod: Pod, pod_os: str, requests: Mapping[str, int], node: Node, allocatable: Mapping[str, int], load: NodeLoad
) -> Rejection | None:
    """None if the node takes the pod, else the first reason why not, in the kubelet's order of checks."""
    return (
        _check_os(pod, pod_os, node)
        or _check_resources(requests, allocatable, load)
        or next((Rejection(name, f"Predicate {name} failed: {why}") for name, why in _failed(pod, node, load)), None)
    )


def host_ports(pod: Pod) -> set[HostPort]:
    """The ports of the node that the pod's containers and sidecars ask for, as (address, protocol, port)."""
    sidecars = [container for container in pod.spec.init_containers if container.restart_policy == "Always"]
    return {
        (port.host_ip or WILDCARD_IP, port.protocol or "TCP", port.host_port)
        for container in (*pod.spec.containers, *sidecars)
        for port in container.ports
        if port.host_port > 0
    }


def _check_os(pod: Pod, pod_os: str, node: Node) -> Rejection | None:
    node_os = node.metadata.labels.get(OS_LABEL, "linux")
    label = pod.metadata.labels.get(OS_LABEL)
    if label is not None and label != node_os:
        message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
        return Rejection("PodOSSelectorNodeLabelDoesNotMatch", message)
    if pod_os and pod_os != node_os:
        return Rejection("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    return None


def _check_resources(requests: Mapping[str, int], allocatable: Mapping[str, int], load: NodeLoad) -> Rejection | None:
    if load.pods + 1 > allocatable.get("pods", 0):
        return Rejection("OutOfpods", shortage("pods", 1, load.pods, allocatable.get("pods", 0)))
    for name in _in_order(requests):
        requested, used = requests[name], load.used.get(name, 0)
        capacity = allocatable.get(name)
        if capacity is None and _is_extended(name):
            continue  # not a resource of this node; a kubelet checks only those that its node has
        if requested > 0 and requested > (capacity or 0) - used:
            return Rejection(f"OutOf{name}", shortage(name, requested, used, capacity or 0))
    return None


def _in_order(requests: Mapping[str, int]) -> list[str]:
    others = sorted(name for name in requests if name not in NATIVE_ORDER and name != "pods")
    return [name for name in NATIVE_ORDER if name in requests] + others


def _is_extended(name: str) -> bool:
    """A resource outside the kubernetes.io domain, like `example.com/gpu`."""
    domain, slash, _ = name.partition("/")
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


def shortage(name: str, requested: int, used: int, capacity: int) -> str:
    """Say that a node has not enough left of a resource."""
    return f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"


def _failed(pod: Pod, node: Node, load: NodeLoad) -> Iterator[tuple[str, str]]:
    """The predicates that fail, of those that are the scheduler's, too."""
    if not node_matches(pod, node):
        yield "NodeAffinity", AFFINITY_MESSAGE
    if pod.spec.node_name not in ("", node.metadata.name):
        yield "NodeName", NAME_MESSAGE
    if any(_collide(port, held) for port in host_ports(pod) for held in load.ports):
        yield "NodePorts", PORTS_MESSAGE
    if untolerated_taint(node.spec.taints, pod.spec.tolerations, (NO_EXECUTE,)) is not None:
        yield "TaintToleration", TAINT_MESSAGE


def _collide(one: HostPort, other: HostPort) -> bool:
    same_address = one[0] == other[0] or WILDCARD_IP in (one[0], other[0])
    return same_address and one[1:] == other[1:]
