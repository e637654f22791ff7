"""The pods of admitted workloads, placed by the scheduler itself.

A workload's pods have what its pod sets' templates say, and what Kueue adds: the node labels and tolerations of their
flavors, and the domain of a topology as a node selector. They are made on a cluster in memory, from which the pods of
preempted workloads are gone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from berth.api.codec import ObjectError
from berth.api.meta import ObjectMeta, OwnerReference
from berth.api.pod import Pod
from berth_kueue.lives import Queues
from berth_kueue.model import KueueWorkload, QuotaAdmission
from berth_kueue.topology.placing import TopologyAssignment, read_assignment
from berth_workbench.simulation.admission import admitted
from berth_workbench.simulation.site import Site
from berth_workbench.snapshot.snapshot import Snapshot

_OWNERS = ("Job", "ReplicaSet", "StatefulSet", "JobSet", "RayCluster", "LeaderWorkerSet", "Pod")


class PodsWithoutNode(msgspec.Struct, frozen=True, rename="camel"):
    """Pods of a pod set that have no node, for one reason."""

    pod_set: str
    count: int
    message: str
    """The scheduler's, or the API server's where it refuses them."""


class WorkloadPods(msgspec.Struct, frozen=True, rename="camel"):
    """Where the pods of a workload are."""

    workload: str
    nodes: dict[str, int]
    """How many pods each node has, by name."""
    without: tuple[PodsWithoutNode, ...] = ()
    evicted: tuple[str, ...] = ()
    """Pods of others that the scheduler evicted for them."""

    @property
    def count(self) -> int:
        """How many pods there are."""
        return self.placed + sum(each.count for each in self.without)

    @property
    def placed(self) -> int:
        """How many have a node."""
        return sum(self.nodes.values())


class PodPlacer:
    """A cluster in memory on which workloads come and go with their pods."""

    __slots__ = ("_made", "_pods", "site")

    def __init__(self, site: Site, snapshot: Snapshot, queues: Queues) -> None:
        """Find the pods of the workloads that run; what is pending is placed first, as far as it fits."""
        self.site = site
        self._made: dict[str, list[tuple[str, Pod]]] = {}
        self._pods: dict[str, list[str]] = dict(_running(site, snapshot, queues))
        site.settle()

    def remove(self, workload: str) -> None:
        """Let the pods of a workload be gone."""
        self._made.pop(workload, None)
        for key in self._pods.pop(workload, ()):
            if ("Pod", key) in self.site.cluster.objects:
                self.site.cluster.delete("Pod", key)

    def place(self, queues: Queues, workload: str) -> WorkloadPods:
        """Make the pods of a workload that is admitted, let the scheduler place them, and say where they are.

        Raises `StuckError`, `StoppedError`.
        """
        made = list(_made(queues, queues.workloads[workload]))
        self._made[workload] = made
        self._pods[workload] = [pod.key for _, pod in made]
        self.site.cluster.create(pod for _, pod in made)
        self.site.settle()
        return self.where(workload)

    def where(self, workload: str) -> WorkloadPods:
        """Say where the pods of a workload are now that was placed here."""
        cluster = self.site.cluster
        nodes: Counter[str] = Counter()
        without: Counter[tuple[str, str]] = Counter()
        for pod_set, pod in self._made[workload]:
            there: Pod | None = cluster.objects.get(("Pod", pod.key))
            if there is not None and there.spec.node_name:
                nodes[there.spec.node_name] += 1
            else:
                refused = cluster.refused.get(pod.key)
                without[pod_set, refused.why if refused is not None else cluster.messages.get(pod.key, "")] += 1
        own = set(self._pods[workload])
        evicted = tuple(each.pod for each in cluster.evictions if each.by in own)
        lacking = tuple(PodsWithoutNode(name, count, said) for (name, said), count in sorted(without.items()))
        return WorkloadPods(workload, dict(sorted(nodes.items())), lacking, evicted)


def assignment_of(topology: Any) -> TopologyAssignment | None:
    """The domains of a pod set, as the engine has decided them or as a cluster's object has them."""
    return read_assignment(topology) if isinstance(topology, Mapping) else topology


def _made(queues: Queues, workload: KueueWorkload) -> Iterator[tuple[str, Pod]]:
    """Yield the pods of an admitted workload, each with its pod set."""
    admission: QuotaAdmission | None = workload.admission
    assert admission is not None, "only what is admitted has pods"
    templates = {each.name: each.template for each in workload.spec.pod_sets}
    counts = {each.name: each.count for each in workload.spec.pod_sets}
    for given in admission.pod_set_assignments:
        flavors = [queues.world.flavors[name] for name in dict.fromkeys(given.flavors.values())]
        labels = {key: value for flavor in flavors for key, value in flavor.node_labels.items()}
        pod = _template(templates[given.name], workload)
        tolerations = pod.spec.tolerations + tuple(each for flavor in flavors for each in flavor.tolerations)
        spec = msgspec.structs.replace(
            pod.spec, node_selector={**pod.spec.node_selector, **labels}, tolerations=tolerations
        )
        count = counts[given.name] if given.count is None else given.count
        for number, domain in enumerate(_domains(assignment_of(given.topology_assignment), count)):
            name = f"{workload.name}-{given.name}-{number}"
            key = f"{workload.namespace}/{name}"
            metadata = msgspec.structs.replace(pod.metadata, name=name, uid=f"Pod/{key}")
            placed = msgspec.structs.replace(spec, node_selector={**spec.node_selector, **domain}) if domain else spec
            yield given.name, Pod(metadata=metadata, spec=placed)


def _template(template: Mapping[str, Any], workload: KueueWorkload) -> Pod:
    metadata = template.get("metadata") or {}
    if not isinstance(template.get("spec"), Mapping):
        raise ObjectError("Workload", workload.key, "spec.podSets[].template.spec is missing")
    named = {"name": workload.name, "namespace": workload.namespace, "labels": metadata.get("labels") or {}}
    pod: Any = admitted({"kind": "Pod", "metadata": named, "spec": template["spec"]})
    owner = OwnerReference("kueue.x-k8s.io/v1beta2", "Workload", workload.name, workload.uid, controller=True)
    meta: ObjectMeta = msgspec.structs.replace(pod.metadata, owner_references=(owner,))
    return Pod(metadata=meta, spec=msgspec.structs.replace(pod.spec, scheduling_gates=()))


def _domains(assignment: TopologyAssignment | None, count: int) -> Iterator[dict[str, str]]:
    """Yield for each pod the labels of the domain that it is to go to; none where it may go anywhere."""
    if assignment is None:
        yield from ({} for _ in range(count))
        return
    for values, pods in assignment.domains:
        selector = dict(zip(assignment.levels, values, strict=True))
        yield from (selector for _ in range(pods))


def _running(site: Site, snapshot: Snapshot, queues: Queues) -> Iterator[tuple[str, list[str]]]:
    """Yield the pods of the workloads that run, found by who owns whom, as with a JobSet's Jobs."""
    owners: dict[str, set[str]] = {}
    for document in snapshot.of(*_OWNERS):
        if document.kind != "Pod":
            metadata = document.manifest.get("metadata") or {}
            references = metadata.get("ownerReferences") or ()
            owners[str(metadata.get("uid"))] = {str(each.get("uid")) for each in references}
    pods: dict[str, list[str]] = {}
    for key, pod in site.cluster.pods.items():
        reached, ahead = set(), {pod.metadata.uid, *(each.uid for each in pod.metadata.owner_references)}
        while ahead:
            uid = ahead.pop()
            reached.add(uid)
            ahead |= owners.get(uid, set()) - reached
        for uid in reached:
            pods.setdefault(uid, []).append(key)
    for document in snapshot.of("Workload"):
        manifest = document.manifest
        metadata = manifest.get("metadata") or {}
        key = f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"
        if key in queues.workloads:
            of = [pods.get(str(each.get("uid")), []) for each in metadata.get("ownerReferences") or ()]
            yield key, list(dict.fromkeys(pod for keys in of for pod in keys))
