"""Carries changes out on a simulated cluster, as an administrator, a cloud and the controllers would together.

`carry_out` takes a `Site`, which is a cluster with the manifests of its workloads, and one change. What leaves because
of the change, and what breaks by it, is noted on the site; where everything goes is the cluster's own business, since
every change ends with the scheduler placing what it can.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from berth.api.dra import ResourceSlice
from berth.api.meta import ObjectMeta, Struct
from berth.api.node import Node, NodeSpec, NodeStatus, ReplicaSet
from berth.api.pod import PersistentVolumeClaimVolume, Pod
from berth.api.storage import CSINode, PersistentVolumeClaim, PersistentVolumeClaimStatus
from berth.api.taints import NO_EXECUTE, UNSCHEDULABLE_KEY, Taint
from berth.simulation.budgets import is_healthy, owner_of
from berth.simulation.changes import (
    AddNodes,
    AddTaint,
    ChangeError,
    ClusterChange,
    Cordon,
    DeleteWorkload,
    Drain,
    LabelNodes,
    LoseZone,
    RemoveNodes,
    RemoveTaint,
    Scale,
    Uncordon,
    Upgrade,
    WorkloadChange,
)
from berth.simulation.claims import ClaimTemplate, made_claims, templates_behind
from berth.simulation.cluster import Progress, SimulatedCluster, pending_again
from berth.simulation.daemons import may_run, pinned, pinned_to
from berth.simulation.workloads import (
    JOB_INDEX,
    POD_MAKERS,
    TEMPLATE_HASH,
    ManifestError,
    WorkloadManifest,
    claim_templates,
)
from berth.snapshot.documents import Document
from berth.state.node_tree import zone_of

HOSTNAME = "kubernetes.io/hostname"
MIRROR = "kubernetes.io/config.mirror"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
REVISION = "deployment.kubernetes.io/revision"
CONDITION_TAINTS = "node.kubernetes.io/"
"""Taints with this prefix say how a node is at the moment; a node that is added is well."""


class Departure(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that had to leave its node because of a change."""

    pod: str
    """`namespace/name`."""
    node: str
    by: str
    """The change, in words."""


class Broken(msgspec.Struct, frozen=True, rename="camel"):
    """Something that a change breaks."""

    kind: str
    """The kind of object that is broken: `Pod`, `PodDisruptionBudget`, `Node`, or a workload's."""
    name: str
    """`namespace/name`, or a node's name."""
    reason: str
    """One of the constants of this module, for programs."""
    message: str
    """Why, for people."""


LOST = "PodLost"
DRAIN_BLOCKED = "DrainBlocked"
UPGRADE_STOPPED = "UpgradeStopped"


class Site:
    """A cluster, the manifests of its workloads as far as they are known, and what changes have done to it."""

    __slots__ = (
        "_daemons",
        "_documents",
        "_expect",
        "_progress",
        "broken",
        "cluster",
        "departures",
        "replicas",
        "templates",
    )

    def __init__(
        self,
        cluster: SimulatedCluster,
        documents: Iterable[Document] = (),
        *,
        progress: Progress | None = None,
        expect: Progress | None = None,
    ) -> None:
        """`documents` are those of the snapshot that the cluster was made of.

        `expect` is told, before pods are placed, how many there are to be placed.
        """
        documents = list(documents)
        self.cluster = cluster
        self.departures: list[Departure] = []
        self.broken: list[Broken] = []
        self.replicas: dict[tuple[str, str], int] = {}
        """What workloads were scaled to, by kind and `namespace/name`; also those that are yet to come."""
        self.templates: dict[str, ClaimTemplate] = claim_templates(documents)
        self._progress = progress
        self._expect = expect
        self._documents = {(each.kind, _key_of(each)): each for each in documents if each.kind in POD_MAKERS}
        self._daemons: list[WorkloadManifest] | None = None

    # -- what there is -----------------------------------------------------------------------------------------------

    def pods_on(self, node_name: str) -> list[Pod]:
        """Return the pods on a node, by name."""
        table = self.cluster.core.cache.table
        row = table.row_of.get(node_name)
        if row is None:
            return []
        keys = sorted(f"{pod.namespace}/{pod.name}" for pod in table.pods[row].values())
        return [self.cluster.objects["Pod", key] for key in keys if ("Pod", key) in self.cluster.objects]

    def manifest(self, kind: str, key: str) -> WorkloadManifest | None:
        """Return the manifest of a workload, if it is known and can be used."""
        document = self._documents.get((kind, key))
        try:
            return None if document is None else WorkloadManifest(document)
        except ManifestError:
            return None  # a snapshot may have left the template out; the pods that run say enough

    def documents_of(self, kind: str) -> Iterator[str]:
        """Yield the `namespace/name` of the workloads of a kind that the snapshot has."""
        return (key for of_kind, key in self._documents if of_kind == kind)

    def daemons(self) -> list[WorkloadManifest]:
        """Return the DaemonSets whose manifests are known."""
        if self._daemons is None:
            found = (self.manifest(kind, key) for kind, key in self._documents if kind == "DaemonSet")
            self._daemons = [each for each in found if each is not None]
        return self._daemons

    def settle(self) -> None:
        """Let the scheduler place what it can."""
        if self._expect is not None:
            self._expect(len(self.cluster.core.queue))
        self.cluster.settle(progress=self._progress)

    # -- how pods leave ----------------------------------------------------------------------------------------------

    def send_away(self, pod: Pod, by: str) -> None:
        """Evict a pod: its controller replaces it, and without one it is lost. One that follows its node just goes."""
        key = pod.key
        if is_daemon(pod) or is_mirror(pod):
            self.cluster.delete("Pod", key)
            return
        self.departures.append(Departure(key, pod.spec.node_name, by))
        if owner_of(pod) is None:
            message = f"has no controller, so that nothing replaces it after {by}"
            self.broken.append(Broken("Pod", key, LOST, message))
            self.cluster.delete("Pod", key)
            return
        self.cluster.send_back(key)


def is_daemon(pod: Pod) -> bool:
    """Say whether a pod belongs to a DaemonSet."""
    return any(owner.controller and owner.kind == "DaemonSet" for owner in pod.metadata.owner_references)


def is_mirror(pod: Pod) -> bool:
    """Say whether a pod stands for one that a kubelet runs of a file of its own."""
    return MIRROR in pod.metadata.annotations or any(each.kind == "Node" for each in pod.metadata.owner_references)


def carry_out(site: Site, change: ClusterChange) -> None:
    """Carry a change out. Raises `ChangeError` where it cannot be made at all."""
    perform: Callable[[Site, Any], None] = _PERFORM[type(change)]
    perform(site, change)
    site.settle()


# -- nodes ---------------------------------------------------------------------------------------------------------


def _drain(site: Site, change: Drain) -> None:
    names = change.chosen(site.cluster.of(Node))
    for name in names:
        set_unschedulable(site, name, unschedulable=True)
    for name in names:
        drain_node(site, name, f"drain of {name}")


def drain_node(site: Site, name: str, by: str, *, force: bool = False) -> bool:
    """Evict the pods of a cordoned node as far as budgets allow, and say whether all could go.

    A pod that a budget protects is tried again once the pods that left are placed elsewhere, as `kubectl drain` does.
    With `force` those that are left in the end go as well.
    """
    while True:
        leaving = [pod for pod in site.pods_on(name) if not (is_daemon(pod) or is_mirror(pod))]
        refused = _evict(site, leaving, by)
        if not refused:
            return True
        if len(refused) == len(leaving):
            break
        site.settle()
    for pod, (budget, why) in refused:
        message = f"the drain of {name} waits for pod {pod.key}: {why}"
        site.broken.append(Broken("PodDisruptionBudget", budget, DRAIN_BLOCKED, message))
        if force:
            site.send_away(pod, by)
    return False


def _evict(site: Site, pods: Iterable[Pod], by: str) -> list[tuple[Pod, tuple[str, str]]]:
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
        raise ChangeError(f"{change}: no node is in a zone {change.zone!r}; zones are {known}")
    remove_nodes(site, zones[change.zone], f"loss of zone {change.zone}")


def remove_nodes(site: Site, names: Sequence[str], by: str) -> None:
    """Take nodes away with everything on them; `{}` in `by` stands for the node."""
    cluster = site.cluster
    gone = set(names)
    leaving = {name: site.pods_on(name) for name in names}
    for kind, struct in (("ResourceSlice", ResourceSlice), ("CSINode", CSINode)):
        for obj in list(cluster.of(struct)):
            is_theirs = obj.spec.node_name in gone if kind == "ResourceSlice" else obj.metadata.name in gone
            if is_theirs:
                cluster.delete(kind, obj.metadata.name)
    for pod in [each for each in cluster.of(Pod) if is_daemon(each) and not each.spec.node_name]:
        if pinned_to(pod) in gone:
            cluster.delete("Pod", pod.key)
    for name in names:
        cluster.delete("Node", name)
    for name, pods in leaving.items():
        for pod in pods:
            site.send_away(pod, by.format(name))


def _add_nodes(site: Site, change: AddNodes) -> None:
    add_nodes(site, change.like, change.count)


def add_nodes(site: Site, like: str, count: int) -> list[str]:
    """Add nodes like one that is there, with its daemons; return their names. Raises `ChangeError`."""
    cluster = site.cluster
    model: Node | None = cluster.objects.get(("Node", like))
    if model is None:
        raise ChangeError(f"no node {like!r} that others could be like")
    slices = [each for each in cluster.of(ResourceSlice) if each.spec.node_name == like]
    csi_node: CSINode | None = cluster.objects.get(("CSINode", like))
    followers = _followers(site, model)
    names = []
    for name in _fresh_names(like, count, lambda name: ("Node", name) in cluster.objects):
        node = node_like(model, name)
        cluster.put(node)
        names.append(name)
        if csi_node is not None:
            cluster.put(
                msgspec.structs.replace(csi_node, metadata=ObjectMeta(name=name, labels=csi_node.metadata.labels))
            )
        for each in slices:
            cluster.put(_slice_like(each, like, name))
        for pod in followers:
            _put_follower(site, pod, like, name)
        owned = {owner_of(pod) for pod in followers}
        for manifest in site.daemons():
            if ("DaemonSet", manifest.key) not in owned:
                _put_daemon(site, manifest, node)
    return names


def node_like(model: Node, name: str) -> Node:
    """Return a new node like another: its labels, taints and amounts, without cordon, conditions or images."""
    labels = dict(model.metadata.labels)
    if HOSTNAME in labels:
        labels[HOSTNAME] = name
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


def _fresh_names(like: str, count: int, is_taken: Callable[[str], bool]) -> Iterator[str]:
    number = made = 0
    while made < count:
        number += 1
        name = f"{like}-new-{number}"
        if not is_taken(name):
            made += 1
            yield name


def _followers(site: Site, model: Node) -> list[Pod]:
    """The pods that follow a node: its daemons, those that wait for room on it too, and what its kubelet runs."""
    name = model.metadata.name
    found = [pod for pod in site.pods_on(name) if is_daemon(pod) or is_mirror(pod)]
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
        site.cluster.put(pinned(fresh, node_name))


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
            elif not may_run(manifest.template, node):
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
            message = f"the upgrade stops here: not all pods can be evicted; {left} more nodes are not upgraded"
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


# -- workloads -----------------------------------------------------------------------------------------------------


class RunningWorkload(msgspec.Struct, frozen=True):
    """A workload of the cluster: its pods, and the objects that own them directly."""

    kind: str
    key: str
    pods: tuple[Pod, ...]
    owners: tuple[str, ...]
    """`namespace/name` of what owns the pods: of a Deployment, its ReplicaSets, the newest last."""
    manifest: WorkloadManifest | None


def find_workload(site: Site, change: WorkloadChange) -> RunningWorkload | None:
    """Return the workload that a change is about; None where the cluster has none. Raises `ChangeError`."""
    by_owner = _pods_by_owner(site)
    found = _by_namespace(site, change.kind, change.name, by_owner)
    if change.namespace:
        found = {key: owners for key, owners in found.items() if key.partition("/")[0] == change.namespace}
    if len(found) > 1 and f"default/{change.name}" in found:
        found = {f"default/{change.name}": found[f"default/{change.name}"]}
    if len(found) > 1:
        raise ChangeError(f"{change}: there are several: {', '.join(sorted(found))}; write KIND/NAMESPACE/NAME")
    return next((_running(site, change.kind, key, owners, by_owner) for key, owners in found.items()), None)


def find_by_key(site: Site, kind: str, key: str) -> RunningWorkload | None:
    """Return a workload of the cluster by kind and `namespace/name`, or None."""
    by_owner = _pods_by_owner(site)
    owners = _by_namespace(site, kind, key.partition("/")[2], by_owner).get(key)
    return None if owners is None else _running(site, kind, key, owners, by_owner)


def _pods_by_owner(site: Site) -> dict[tuple[str, str], list[Pod]]:
    found: dict[tuple[str, str], list[Pod]] = {}
    for pod in site.cluster.of(Pod):
        owner = owner_of(pod)
        if owner is not None:
            found.setdefault(owner, []).append(pod)
    return found


def _running(
    site: Site, kind: str, key: str, owners: Sequence[str], by_owner: Mapping[tuple[str, str], Sequence[Pod]]
) -> RunningWorkload:
    owning = "ReplicaSet" if kind == "Deployment" else kind
    pods = [pod for owner in owners for pod in by_owner.get((owning, owner), ())]
    return RunningWorkload(kind, key, tuple(pods), tuple(owners), site.manifest(kind, key))


def _by_namespace(
    site: Site, kind: str, name: str, by_owner: Mapping[tuple[str, str], Sequence[Pod]]
) -> dict[str, list[str]]:
    """What owns the pods of the workloads of this name, by the workload's `namespace/name`."""
    found: dict[str, list[str]] = {}
    if kind != "Deployment":
        keys = [key for owning, key in by_owner if owning == kind and key.partition("/")[2] == name]
        keys += [key for key in site.documents_of(kind) if key.partition("/")[2] == name]
        keys += [key for owning, key in site.cluster.objects if owning == kind and key.partition("/")[2] == name]
        return {key: [key] for key in dict.fromkeys(keys)}
    sets: dict[str, list[tuple[int, str]]] = {}
    for replica_set in site.cluster.of(ReplicaSet):
        owner = next((each for each in replica_set.metadata.owner_references if each.controller), None)
        if owner is not None and (owner.kind, owner.name) == (kind, name):
            revision = replica_set.metadata.annotations.get(REVISION, "0")
            key = f"{replica_set.metadata.namespace}/{replica_set.metadata.name}"
            number = int(revision) if revision.isdecimal() else 0
            sets.setdefault(replica_set.metadata.namespace, []).append((number, key))
    for (owning, key), pods in by_owner.items():
        namespace, _, set_name = key.partition("/")
        template_hash = pods[0].metadata.labels.get(TEMPLATE_HASH)
        is_its = owning == "ReplicaSet" and template_hash is not None and set_name == f"{name}-{template_hash}"
        if is_its and all(key != known for _, known in sets.get(namespace, ())):
            sets.setdefault(namespace, []).append((0, key))
    for namespace, numbered in sets.items():
        found[f"{namespace}/{name}"] = [key for _, key in sorted(numbered)]
    for key in site.documents_of(kind):
        if key.partition("/")[2] == name:
            found.setdefault(key, [])
    return found


def _scale(site: Site, change: Scale) -> None:
    running = find_workload(site, change)
    if running is None:
        key = f"{change.namespace or 'default'}/{change.name}"
        site.replicas[change.kind, key] = change.replicas  # one of the manifests, which come after the changes
        return
    scale(site, running, change.replicas, f"{change}")


def scale(site: Site, running: RunningWorkload, replicas: int, by: str) -> None:
    """Give a workload another number of pods; the scheduler has not placed them yet."""
    site.replicas[running.kind, running.key] = replicas
    if running.owners:
        _set_replicas(site, running, replicas)
    if replicas < len(running.pods):
        for pod in surplus(running, len(running.pods) - replicas):
            if pod.spec.node_name:
                site.departures.append(Departure(pod.key, pod.spec.node_name, by))
            site.cluster.delete("Pod", pod.key)
    elif replicas > len(running.pods):
        site.cluster.create(_more_pods(site, running, replicas - len(running.pods), by))


def _set_replicas(site: Site, running: RunningWorkload, replicas: int) -> None:
    owning = "ReplicaSet" if running.kind == "Deployment" else running.kind
    for number, key in enumerate(reversed(running.owners)):
        found = site.cluster.objects.get((owning, key))
        if found is not None:
            spec = msgspec.structs.replace(found.spec, replicas=0 if number else replicas)
            site.cluster.put(msgspec.structs.replace(found, spec=spec))


def surplus(running: RunningWorkload, count: int) -> list[Pod]:
    """Return the pods that a controller deletes when there are so many too many.

    A StatefulSet's are those with the highest ordinals. Others go in this order: of older ReplicaSets first; then
    without a node, not ready, of lower deletion cost, on nodes with more of them, and the youngest. Source:
    pkg/controller/controller_utils.go, ActivePodsWithRanks.
    """
    if running.kind == "StatefulSet":
        return sorted(running.pods, key=lambda pod: ordinal(pod.metadata.name), reverse=True)[:count]
    doubled: dict[str, int] = {}
    for pod in running.pods:
        doubled[pod.spec.node_name] = doubled.get(pod.spec.node_name, 0) + 1
    age = {key: number for number, key in enumerate(running.owners)}

    def rank(pod: Pod) -> tuple[Any, ...]:
        owner = owner_of(pod)
        cost = pod.metadata.annotations.get(DELETION_COST, "0")
        return (
            age.get(owner[1] if owner is not None else "", 0),
            bool(pod.spec.node_name),
            is_healthy(pod),
            int(cost) if re.fullmatch(r"-?\d{1,10}", cost) else 0,
            -doubled[pod.spec.node_name],
        )

    youngest_first = sorted(running.pods, key=_age_key, reverse=True)
    return sorted(youngest_first, key=rank)[:count]


def _age_key(pod: Pod) -> tuple[str, str]:
    return pod.metadata.creation_timestamp or "~", pod.metadata.name


def ordinal(name: str) -> int:
    """Return the number at the end of a pod's name, -1 without one."""
    found = re.search(r"-(\d{1,18})$", name)
    return int(found[1]) if found else -1


def _more_pods(site: Site, running: RunningWorkload, count: int, by: str) -> list[Struct]:
    """Pods like the newest that run, so that what webhooks have added is in them; of the manifest where none runs."""
    taken = {pod.key for pod in site.cluster.of(Pod)}
    if not running.pods:
        if running.manifest is None:
            raise ChangeError(f"{by}: neither a pod nor a template of {running.kind} {running.key} is known")
        made: list[Struct] = list(running.manifest.objects())
        wanted = count
        for pod, claims in running.manifest.pods(wanted, taken=taken):
            complete, own = made_claims(pod, site.templates)
            made += (*claims, *own, complete)
        return [each for each in made if isinstance(each, Pod) or _is_new(site, each)]
    newest = running.owners[-1] if running.owners else ""
    model = next((pod for pod in running.pods if (owner_of(pod) or ("", ""))[1] == newest), running.pods[-1])
    found: list[Struct] = []
    for name in _new_names(running, model, count, taken):
        found += _pod_like(site, model, name, running.kind)
    return found


def _is_new(site: Site, obj: Any) -> bool:
    meta: ObjectMeta = obj.metadata
    return (type(obj).__name__, f"{meta.namespace}/{meta.name}") not in site.cluster.objects


def _new_names(running: RunningWorkload, model: Pod, count: int, taken: set[str]) -> Iterator[str]:
    base = running.key.partition("/")[2]
    if running.kind == "Deployment":
        base = (owner_of(model) or ("", running.key))[1].partition("/")[2]
    number = made = 0
    if running.kind == "StatefulSet":
        number = min((ordinal(pod.metadata.name) for pod in running.pods), default=0)
        start = running.manifest.first_ordinal if running.manifest is not None else 0
        number = min(number, start) if start else 0
    while made < count:
        name = f"{base}-{number}"
        number += 1
        if f"{model.metadata.namespace}/{name}" not in taken:
            made += 1
            yield name


def _pod_like(site: Site, model: Pod, name: str, kind: str) -> list[Struct]:
    """A pending pod like another, under a name of its own, and the claims that go with the name."""
    before, number = model.metadata.name, name.rpartition("-")[2]
    labels = dict(model.metadata.labels)
    for key in ("apps.kubernetes.io/pod-index", JOB_INDEX):
        if key in labels:
            labels[key] = number
    if "statefulset.kubernetes.io/pod-name" in labels:
        labels["statefulset.kubernetes.io/pod-name"] = name
    metadata = msgspec.structs.replace(
        pending_again(model).metadata,
        name=name,
        uid=f"Pod/{model.metadata.namespace}/{name}",
        labels=labels,
        creation_timestamp=None,
    )
    spec = msgspec.structs.replace(model.spec, node_name="")
    claims: list[Struct] = []
    if kind == "StatefulSet":
        volumes = []
        for volume in spec.volumes:
            used = volume.persistent_volume_claim
            if used is None or not used.claim_name.endswith(f"-{before}"):
                volumes.append(volume)
                continue
            claim_name = f"{used.claim_name.removesuffix(before)}{name}"
            replaced = PersistentVolumeClaimVolume(claim_name, used.read_only)
            volumes.append(msgspec.structs.replace(volume, persistent_volume_claim=replaced))
            claims += _claim_like(site, f"{model.metadata.namespace}/{used.claim_name}", claim_name)
        spec = msgspec.structs.replace(spec, volumes=tuple(volumes))
    templates = {
        **templates_behind(model, lambda of_kind, key: site.cluster.objects.get((of_kind, key))),
        **site.templates,
    }
    complete, own = made_claims(Pod(metadata=metadata, spec=spec), templates)
    return [*claims, *own, complete]


def _claim_like(site: Site, key: str, name: str) -> Iterator[Struct]:
    model: PersistentVolumeClaim | None = site.cluster.objects.get(("PersistentVolumeClaim", key))
    namespace = key.partition("/")[0]
    if model is None or ("PersistentVolumeClaim", f"{namespace}/{name}") in site.cluster.objects:
        return
    metadata = ObjectMeta(
        name=name, namespace=namespace, uid=f"PersistentVolumeClaim/{namespace}/{name}", labels=model.metadata.labels
    )
    yield PersistentVolumeClaim(
        metadata=metadata,
        spec=msgspec.structs.replace(model.spec, volume_name=""),
        status=PersistentVolumeClaimStatus(phase="Pending"),
    )


def _delete(site: Site, change: DeleteWorkload) -> None:
    running = find_workload(site, change)
    if running is None:
        raise ChangeError(f"{change}: the cluster has no {change.kind} of this name")
    delete_workload(site, running)


def delete_workload(site: Site, running: RunningWorkload) -> None:
    """DeleteWorkload a workload: its pods, and the objects that own them."""
    for pod in running.pods:
        site.cluster.delete("Pod", pod.key)
    owning = "ReplicaSet" if running.kind == "Deployment" else running.kind
    for key in running.owners:
        if (owning, key) in site.cluster.objects:
            site.cluster.delete(owning, key)


_PERFORM: Mapping[type[ClusterChange], Callable[[Site, Any], None]] = {
    Drain: _drain,
    Cordon: _cordon,
    Uncordon: _uncordon,
    RemoveNodes: _remove_nodes,
    AddNodes: _add_nodes,
    LoseZone: _lose_zone,
    Scale: _scale,
    DeleteWorkload: _delete,
    Upgrade: _upgrade,
    AddTaint: _taint,
    RemoveTaint: _untaint,
    LabelNodes: _label,
}


def _key_of(document: Document) -> str:
    metadata = document.manifest.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    return f"{metadata.get('namespace') or 'default'}/{metadata.get('name') or ''}"
