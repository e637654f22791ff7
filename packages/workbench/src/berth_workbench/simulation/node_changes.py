"""Changes of nodes: drained, cordoned, added, lost, upgraded, tainted, with what that does to the pods on them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count as counted
from itertools import islice
from types import MappingProxyType
from typing import Any

import msgspec

from berth.api.dra import ResourceSlice
from berth.api.meta import ObjectMeta
from berth.api.near_names import nearest
from berth.api.node import Node, NodeSpec, NodeStatus
from berth.api.pod import Pod
from berth.api.pools import HOSTNAME, kubelet_labels
from berth.api.storage import CSINode
from berth.api.taints import NO_EXECUTE, UNSCHEDULABLE_KEY, Taint
from berth.state.node_tree import zone_of
from berth_workbench.simulation.budgets import follows_its_node, is_daemon, is_mirror, owner_of
from berth_workbench.simulation.changes import (
    AddNodes,
    AddTaint,
    ChangeError,
    ClusterChange,
    Cordon,
    Drain,
    LabelNodes,
    LoseZone,
    RemoveNodes,
    RemoveTaint,
    Uncordon,
    Upgrade,
)
from berth_workbench.simulation.claims import made_claims
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.daemons import may_stay, pinned, pinned_to
from berth_workbench.simulation.site import DRAIN_BLOCKED, UPGRADE_STOPPED, Broken, Site
from berth_workbench.simulation.workloads import WorkloadManifest

CONDITION_TAINTS = "node.kubernetes.io/"
"""Taints with this prefix say how a node is at the moment; a node that is added is well."""


def _drain(site: Site, change: Drain) -> None:
    names = change.chosen(site.cluster.of(Node))
    for name in names:
        set_unschedulable(site, name, unschedulable=True)
    for name in names:
        drain_node(site, name, f"drain of {name}")


def drain_node(site: Site, name: str, by: str, *, force: bool = False) -> bool:
    """Evict the pods of a cordoned node as far as budgets allow, and say whether all could go.

    A pod that a budget protects is tried again once the pods that left are placed elsewhere, as `kubectl drain` does.
    With `force` those that are left in the end go as well. Pods that come to the node meanwhile, since they tolerate
    the cordon, are left alone: `kubectl drain` lists the pods once, and each of them leaves once at most.
    """
    leaving = [pod for pod in site.pods_on(name) if not follows_its_node(pod)]
    while True:
        refused = evict_allowed(site, leaving, by)
        if not refused:
            return True
        if len(refused) == len(leaving):
            break
        site.settle()
        leaving = [pod for each, _ in refused if (pod := still_on(site, each, name)) is not None]
    for pod, (budget, why) in refused:
        message = f"the drain of {name} waits for pod {pod.key}: {why}"
        site.broken.append(Broken("PodDisruptionBudget", budget, DRAIN_BLOCKED, message))
        if force:
            site.send_away(pod, by)
    return False


def still_on(site: Site, pod: Pod, name: str) -> Pod | None:
    """A pod as it is now, or None where another has come in its place or it has left the node."""
    found: Pod | None = site.cluster.objects.get(("Pod", pod.key))
    is_same = found is not None and (found.metadata.uid, found.spec.node_name) == (pod.metadata.uid, name)
    return found if is_same else None


def evict_allowed(site: Site, pods: Iterable[Pod], by: str) -> list[tuple[Pod, tuple[str, str]]]:
    """Evict the pods that budgets allow to be evicted; return the others with what forbids it."""
    refused = []
    site.cluster.publish_budgets()
    for pod in pods:
        refusal = site.cluster.budgets.refusal(pod)
        if refusal[1]:
            refused.append((pod, refusal))
        else:
            site.send_away(pod, by)
    return refused


def set_unschedulable(site: Site, name: str, *, unschedulable: bool) -> None:
    """Cordon a node or take that back, with the taint that the node controller puts beside it."""
    node: Node = site.cluster.objects["Node", name]
    taints = tuple(each for each in node.spec.taints if each.key != UNSCHEDULABLE_KEY)
    if unschedulable:
        taints = (*taints, Taint(UNSCHEDULABLE_KEY, "", "NoSchedule"))
    spec = msgspec.structs.replace(node.spec, unschedulable=unschedulable, taints=taints)
    site.cluster.put(msgspec.structs.replace(node, spec=spec))


def _cordon(site: Site, change: Cordon) -> None:
    for name in change.chosen(site.cluster.of(Node)):
        set_unschedulable(site, name, unschedulable=True)


def _uncordon(site: Site, change: Uncordon) -> None:
    for name in change.chosen(site.cluster.of(Node)):
        set_unschedulable(site, name, unschedulable=False)


def _remove_nodes(site: Site, change: RemoveNodes) -> None:
    names = change.chosen(site.cluster.of(Node))
    remove_nodes(site, names, "removal of {}")


def _lose_zone(site: Site, change: LoseZone) -> None:
    zones: dict[str, list[str]] = {}
    for node in site.cluster.of(Node):
        zones.setdefault(zone_of(node.metadata.labels)[1], []).append(node.metadata.name)
    if change.zone not in zones:
        known = ", ".join(sorted(filter(None, zones))) or "none: no node has the label topology.kubernetes.io/zone"
        hint = nearest(change.zone, filter(None, zones)) or f"; zones are {known}"
        raise ChangeError(f"{change}: no node is in a zone {change.zone!r}{hint}")
    remove_nodes(site, zones[change.zone], f"loss of zone {change.zone}")


def by_workload(pods: Iterable[Pod]) -> list[Pod]:
    """Return pods that leave at one time in the order in which they are to come back: those of a workload together.

    So its controller makes them, and the scheduler, which tries them one after the other, has worked out for each of
    them what it did for the one before.
    """
    return sorted(pods, key=lambda pod: (owner_of(pod) or ("Pod", pod.key), pod.key))


def remove_nodes(site: Site, names: Sequence[str], by: str) -> None:
    """Take nodes away with everything on them; `{}` in `by` stands for the node."""
    cluster = site.cluster
    gone = set(names)
    leaving = by_workload(pod for name in names for pod in site.pods_on(name))
    for kind, struct in (("ResourceSlice", ResourceSlice), ("CSINode", CSINode)):
        for obj in list(cluster.of(struct)):
            is_theirs = obj.spec.node_name in gone if kind == "ResourceSlice" else obj.metadata.name in gone
            if is_theirs:
                cluster.delete(kind, obj.metadata.name)
    for pod in cluster.without_node:
        if is_daemon(pod) and pinned_to(pod) in gone:
            cluster.delete("Pod", pod.key)
    for name in names:
        cluster.delete("Node", name)
    for pod in leaving:
        site.send_away(pod, by.format(pod.spec.node_name))


def add_nodes(site: Site, like: str, count: int) -> list[str]:
    """Add nodes like one that is there, with its daemons; return their names. Raises `ChangeError`."""
    model: Node | None = site.cluster.objects.get(("Node", like))
    if model is None:
        hint = nearest(like, (node.metadata.name for node in site.cluster.of(Node)))
        raise ChangeError(f"no node {like!r} that others could be like{hint}")
    return add_nodes_like(site, model, count)


def add_nodes_like(site: Site, model: Node, count: int) -> list[str]:
    """Add nodes like one that need not be in the cluster, with the daemons it has or would have; return their names."""
    cluster, like = site.cluster, model.metadata.name
    followers = _followers(site, model)
    names = []
    for node, *others in nodes_like(cluster, model, count):
        name = node.metadata.name
        names.append(name)
        for each in (node, *others):
            cluster.put(each)
        for pod in followers:
            _put_follower(site, pod, like, name)
        owned = {owner_of(pod) for pod in followers}
        for manifest in site.daemons():
            if ("DaemonSet", manifest.key) not in owned:
                _put_daemon(site, manifest, node)
    return names


def nodes_like(cluster: SimulatedCluster, model: Node, count: int) -> Iterator[list[Any]]:
    """Yield new nodes like another, each with what drivers would publish for it, under names that none has."""
    like = model.metadata.name
    slices = [each for each in cluster.of(ResourceSlice) if each.spec.node_name == like]
    csi_node: CSINode | None = cluster.objects.get(("CSINode", like))
    names = (f"{like}-new-{number}" for number in counted(1))
    for name in islice((name for name in names if ("Node", name) not in cluster.objects), count):
        found: list[Any] = [node_like(model, name)]
        if csi_node is not None:
            metadata = ObjectMeta(name=name, labels=csi_node.metadata.labels)
            found.append(msgspec.structs.replace(csi_node, metadata=metadata))
        yield [*found, *(_slice_like(each, like, name) for each in slices)]


def node_like(model: Node, name: str) -> Node:
    """Return a new node like another: its labels, taints and amounts, without cordon, conditions or images."""
    labels = kubelet_labels(name, model.metadata.labels) | {HOSTNAME: name}
    return Node(
        metadata=ObjectMeta(name=name, uid=f"Node/{name}", labels=labels, annotations=model.metadata.annotations),
        spec=NodeSpec(taints=tuple(each for each in model.spec.taints if not each.key.startswith(CONDITION_TAINTS))),
        status=NodeStatus(
            allocatable=model.status.allocatable,
            capacity=model.status.capacity,
            conditions=tuple(each for each in model.status.conditions if each.type == "Ready"),
            declared_features=model.status.declared_features,
        ),
    )


def _slice_like(given: ResourceSlice, like: str, name: str) -> ResourceSlice:
    pool = name if given.spec.pool.name == like else f"{given.spec.pool.name}-{name}"
    return msgspec.structs.replace(
        given,
        metadata=ObjectMeta(name=f"{given.metadata.name}-{name}", uid=f"ResourceSlice/{given.metadata.name}-{name}"),
        spec=msgspec.structs.replace(
            given.spec, node_name=name, pool=msgspec.structs.replace(given.spec.pool, name=pool)
        ),
    )


def _followers(site: Site, model: Node) -> list[Pod]:
    """The pods that follow a node: its daemons, those that wait for room on it too, and what its kubelet runs."""
    name = model.metadata.name
    found = [pod for pod in site.pods_on(name) if follows_its_node(pod)]
    waiting = (site.cluster.objects.get(("Pod", key)) for key in site.cluster.messages)
    return found + [
        pod
        for pod in waiting
        if pod is not None and not pod.spec.node_name and is_daemon(pod) and pinned_to(pod) == name
    ]


def _put_follower(site: Site, pod: Pod, like: str, node_name: str) -> None:
    base = pod.metadata.name.removesuffix(f"-{like}")
    metadata = msgspec.structs.replace(
        pod.metadata,
        name=f"{base}-{node_name}",
        uid=f"Pod/{pod.metadata.namespace}/{base}-{node_name}",
        creation_timestamp=None,
    )
    fresh = Pod(metadata=metadata, spec=pod.spec)
    if is_mirror(pod):
        site.cluster.put(msgspec.structs.replace(fresh, spec=msgspec.structs.replace(pod.spec, node_name=node_name)))
    else:
        site.cluster.create([pinned(fresh, node_name)])


def _put_daemon(site: Site, manifest: WorkloadManifest, node: Node) -> None:
    pod = manifest.daemon_pod(node)
    if pod is not None and ("Pod", pod.key) not in site.cluster.objects:
        complete, claims = made_claims(pod, site.templates)
        site.cluster.create([*claims, complete])


def _follow_nodes(site: Site, names: Iterable[str]) -> None:
    """Let the DaemonSets whose manifests are known look at nodes again whose labels or taints have changed."""
    for name in names:
        node: Node = site.cluster.objects["Node", name]
        running: dict[tuple[str, str], Pod] = {}
        for pod in _followers(site, node):
            owner = owner_of(pod)
            if owner is not None:
                running[owner] = pod
        for manifest in site.daemons():
            there = running.get(("DaemonSet", manifest.key))
            if there is None:
                _put_daemon(site, manifest, node)
            elif not may_stay(manifest.template, node):
                site.cluster.delete("Pod", there.key)


def _upgrade(site: Site, change: Upgrade) -> None:
    names = change.chosen(site.cluster.of(Node))
    surge = add_nodes(site, names[0], change.surge) if change.surge else []
    site.settle()
    for done, name in enumerate(names):
        by = f"upgrade of {name}"
        set_unschedulable(site, name, unschedulable=True)
        if not drain_node(site, name, by, force=change.force) and not change.force:
            left = len(names) - done - 1
            others = "1 more node is" if left == 1 else f"{left} more nodes are"
            message = f"the upgrade stops here: not all pods can be evicted; {others} not upgraded"
            site.broken.append(Broken("Node", name, UPGRADE_STOPPED, message))
            return
        site.settle()  # the pods find other places while the node is away
        set_unschedulable(site, name, unschedulable=False)
        _relabel(site, name, change.labels)
        site.settle()
    for name in surge:
        set_unschedulable(site, name, unschedulable=True)
    for name in surge:
        if drain_node(site, name, f"removal of {name}", force=change.force) or change.force:
            remove_nodes(site, [name], f"removal of {name}")


def _relabel(site: Site, name: str, changed: Mapping[str, str | None]) -> None:
    if not changed:
        return
    node: Node = site.cluster.objects["Node", name]
    labels = {key: value for key, value in {**node.metadata.labels, **changed}.items() if value is not None}
    site.cluster.put(msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, labels=labels)))
    _follow_nodes(site, [name])


def _label(site: Site, change: LabelNodes) -> None:
    for name in change.chosen(site.cluster.of(Node)):
        _relabel(site, name, change.labels)


def _taint(site: Site, change: AddTaint) -> None:
    taint = change.value
    names = change.chosen(site.cluster.of(Node))
    for name in names:
        node: Node = site.cluster.objects["Node", name]
        others = tuple(each for each in node.spec.taints if (each.key, each.effect) != (taint.key, taint.effect))
        _set_taints(site, node, (*others, taint))
        if taint.effect == NO_EXECUTE:
            for pod in site.pods_on(name):
                if not _stays(pod, taint):
                    site.send_away(pod, f"{change}")
    _follow_nodes(site, names)


def _stays(pod: Pod, taint: Taint) -> bool:
    """Say whether a pod may stay on a tainted node for good; one that tolerates it for some time has to go in the end.

    The kubelet's own pods stay.
    """
    if is_mirror(pod):
        return True
    return any(each.tolerates(taint) and each.toleration_seconds is None for each in pod.spec.tolerations)


def _untaint(site: Site, change: RemoveTaint) -> None:
    names = change.chosen(site.cluster.of(Node))
    for name in names:
        node: Node = site.cluster.objects["Node", name]
        _set_taints(site, node, tuple(each for each in node.spec.taints if not change.matches(each)))
    _follow_nodes(site, names)


def _set_taints(site: Site, node: Node, taints: tuple[Taint, ...]) -> None:
    site.cluster.put(msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=taints)))


NODE_CHANGES: Mapping[type[ClusterChange], Callable[[Site, Any], object]] = MappingProxyType(
    {
        Drain: _drain,
        Cordon: _cordon,
        Uncordon: _uncordon,
        RemoveNodes: _remove_nodes,
        AddNodes: lambda site, change: add_nodes(site, change.like, change.count),
        LoseZone: _lose_zone,
        Upgrade: _upgrade,
        AddTaint: _taint,
        RemoveTaint: _untaint,
        LabelNodes: _label,
    }
)
"""What carries each of them out."""
