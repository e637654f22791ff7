"""What is on the nodes: one node with its labels, taints and pods, and the pods of all nodes as columns.

For the page's map. Only collecting the pods happens between two cycles (`pods_of_node`, `copy_pods`); the rest is done
afterwards, since the object of a known pod never changes.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from berth.api.node import Node
from berth.api.pools import pool_of
from berth.decisions.node_columns import ZONE_LABELS, NodeGroups, first_of, grouped
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

MAX_PODS = 20_000
"""How many pods are listed at once; a picture of more would show nothing."""
MAX_RESOURCES = 8
"""For how many resources requests are returned as columns: cpu, memory and those that most pods ask for."""
TEMPLATE_HASH = "pod-template-hash"


class PodOnNode(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that is on a node, or on its way there."""

    pod: str
    """`namespace/name`."""
    workload: str
    """What it belongs to, `Deployment/web`; empty if it belongs to nothing."""
    priority: int
    requests: dict[str, int]
    """`cpu` in thousandths, everything else in whole units."""
    since: str
    """When it was created."""


class NodeDetails(msgspec.Struct, frozen=True, rename="camel"):
    """One node with all that is on it."""

    name: str
    pool: str
    zone: str
    labels: dict[str, str]
    taints: tuple[str, ...]
    """As `kubectl` writes them: `key=value:effect`."""
    is_unschedulable: bool
    allocatable: dict[str, int]
    requested: dict[str, int]
    allowed_pods: int
    pods: tuple[PodOnNode, ...]
    """By priority, highest first, then by size, largest first."""


class PodColumns(msgspec.Struct, frozen=True, rename="camel"):
    """The pods of all nodes; every list has an element for each pod."""

    total: int
    """How many there are, or how many match. Beyond `MAX_PODS`, the lists are empty, or have the first that match."""
    nodes: NodeGroups
    names: list[str]
    namespaces: NodeGroups
    workloads: NodeGroups
    priorities: list[int]
    requests: dict[str, list[int]]


class OnNode(NamedTuple):
    """A node and its pods, as they were between two cycles."""

    node: Node
    allocatable: Mapping[str, int]
    requested: Mapping[str, int]
    allowed_pods: int
    pods: Sequence[PodInfo]

    def details(self) -> NodeDetails:
        """Return all details."""
        labels = self.node.metadata.labels
        pods = sorted(self.pods, key=lambda pod: (-pod.priority, -pod.requests.get("cpu", 0), pod.key))
        return NodeDetails(
            name=self.node.metadata.name,
            pool=pool_of(labels),
            zone=first_of(labels, ZONE_LABELS),
            labels=dict(sorted(labels.items())),
            taints=tuple(
                f"{taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}"
                for taint in self.node.spec.taints
            ),
            is_unschedulable=self.node.spec.unschedulable,
            allocatable={name: amount for name, amount in self.allocatable.items() if amount},
            requested={name: amount for name, amount in self.requested.items() if amount or self.allocatable[name]},
            allowed_pods=self.allowed_pods,
            pods=tuple(map(_told, pods)),
        )


def node_and_pods(table: NodeTable, name: str) -> OnNode | None:
    """Return a node with its pods, None if there is no such node; call it between two cycles."""
    row = table.row_of.get(name)
    if row is None or not table.valid[row]:
        return None
    index = table.resource_index
    return OnNode(
        node=table.node(row),
        allocatable={resource: int(table.allocatable[at, row]) for resource, at in index.items()},
        requested={resource: int(table.requested[at, row]) for resource, at in index.items()},
        allowed_pods=int(table.allowed_pods[row]),
        pods=tuple(table.pods[row].values()),
    )


class CopiedPods(NamedTuple):
    """The pods of each node, as they were between two cycles."""

    by_node: Sequence[tuple[str, Sequence[PodInfo]]]

    def columns(self, find: str = "", max_pods: int = MAX_PODS) -> PodColumns:
        """Return them as lists, which are empty if there are more than `max_pods`.

        With `find`, only those whose name, `namespace/name`, or workload, `Deployment/web` or `shop/web`, contains it,
        and of these the first `max_pods`.
        """
        total, wanted = sum(len(pods) for _, pods in self.by_node), find.lower()
        placed = (
            [(node, pod) for node, pods in self.by_node for pod in pods if not wanted or _is_called(pod, wanted)]
            if wanted or total <= max_pods
            else []
        )
        if wanted:
            total, placed = len(placed), placed[:max_pods]
        pods = [pod for _, pod in placed]
        return PodColumns(
            total=total,
            nodes=grouped([node for node, _ in placed]),
            names=[pod.metadata.name for pod in pods],
            namespaces=grouped([pod.namespace for pod in pods]),
            workloads=grouped([workload_of(pod) for pod in pods]),
            priorities=[pod.priority for pod in pods],
            requests={name: [pod.requests.get(name, 0) for pod in pods] for name in _resources(pods)},
        )


def copy_pods(table: NodeTable) -> CopiedPods:
    """Collect the pods of all nodes; call it between two cycles."""
    return CopiedPods([(table.names[row], tuple(table.pods[row].values())) for row in table.rows().tolist()])


def _is_called(pod: PodInfo, wanted: str) -> bool:
    if wanted in pod.key.lower():
        return True
    workload = workload_of(pod).lower()
    return wanted in workload or wanted in f"{pod.namespace}/{workload.partition('/')[2]}"


def workload_of(pod: PodInfo) -> str:
    """Return what a pod belongs to, `Deployment/web`: its controller, or the Deployment that the name of its ReplicaSet
    indicates.
    """
    owner = next((each for each in pod.metadata.owner_references if each.controller), None)
    if owner is None:
        return ""
    suffix = f"-{pod.labels.get(TEMPLATE_HASH, '')}"
    if owner.kind == "ReplicaSet" and suffix != "-" and owner.name.endswith(suffix):
        return f"Deployment/{owner.name.removesuffix(suffix)}"
    return f"{owner.kind}/{owner.name}"


def _told(pod: PodInfo) -> PodOnNode:
    return PodOnNode(pod.key, workload_of(pod), pod.priority, dict(pod.requests), pod.metadata.creation_timestamp or "")


def _resources(pods: Sequence[PodInfo]) -> list[str]:
    counts: dict[str, int] = {"cpu": 0, "memory": 0}
    for pod in pods:
        for name in pod.requests:
            counts[name] = counts.get(name, 0) + 1
    order = sorted(counts, key=lambda name: (name not in ("cpu", "memory"), -counts[name], name))
    return order[:MAX_RESOURCES]
