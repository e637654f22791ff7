"""A simulated cluster with the manifests of its workloads, and what left it or broke since the beginning."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from berth.api.meta import Struct
from berth.api.pod import Pod
from berth.framework.setup import Setup
from berth_workbench.simulation.admission import OF_ADMISSION
from berth_workbench.simulation.budgets import follows_its_node, is_active, owner_of
from berth_workbench.simulation.changes import ChangeError, Scale
from berth_workbench.simulation.claims import ClaimTemplate
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.watch import UNWATCHED, WorkWatch
from berth_workbench.simulation.workloads import MAX_PODS, POD_MAKERS, ManifestError, WorkloadManifest, claim_templates
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import Snapshot, uncollected


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


OF_WORKLOADS = (*POD_MAKERS, "ResourceClaimTemplate")
"""The kinds of what a site knows beside its cluster."""
LOST = "PodLost"
DRAIN_BLOCKED = "DrainBlocked"
EVICTION_REFUSED = "EvictionRefused"
UPGRADE_STOPPED = "UpgradeStopped"
REFUSED = "Refused"


class Site:
    """A cluster, the manifests of its workloads as far as they are known, and what changes have done to it."""

    __slots__ = ("_daemons", "_documents", "_made", "_watch", "applied", "awaited", "broken", "cluster", "departures",
                 "last_pods", "replicas", "templates")  # fmt: skip

    def __init__(
        self, cluster: SimulatedCluster, documents: Iterable[Document] = (), *, watch: WorkWatch = UNWATCHED
    ) -> None:
        """`documents` are those of the snapshot that the cluster was made of; of which kinds, `OF_WORKLOADS` says."""
        documents = list(documents)
        self.cluster = cluster
        self.departures: list[Departure] = []
        self.broken: list[Broken] = []
        self.replicas: dict[tuple[str, str], int] = {}
        """What workloads were scaled to, by kind and `namespace/name`."""
        self.last_pods: dict[tuple[str, str], Pod] = {}
        """What a pod was like of each workload that has none any more, by kind and `namespace/name`."""
        self.awaited: dict[tuple[str, str, str], Scale] = {}
        """Scales of workloads that the cluster does not have, by kind, namespace as given, and name.

        Manifests may bring them yet.
        """
        self.applied: Mapping[tuple[str, str], Document] = {}
        """The manifests of workloads that were applied here, by kind and `namespace/name`.

        The mapping is replaced and never changed, so that a rehearsal can go back to the one of before.
        """
        self._made = 0
        self.templates: dict[str, ClaimTemplate] = claim_templates(documents)
        self._watch = watch
        self._documents = {(each.kind, _key_of(each)): each for each in documents if each.kind in POD_MAKERS}
        self._daemons: list[WorkloadManifest] | None = None

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        setup: Setup | None = None,
        *,
        seed: int = 0,
        memos: bool = True,
        watch: WorkWatch = UNWATCHED,
        **options: Any,
    ) -> "Site":
        """Return a snapshot's cluster in memory, with all that the plugins of `setup` follow in it.

        Nothing has been tried yet: what is pending there is pending here. Without a setup the default configuration
        decides. `watch` is told of each object that is loaded, and later of each pod that is tried. `options` are
        further ones of the cluster. Raises `ConfigError`, `RegistryError`, `ObjectError`, `StoppedError`.
        """
        config, registry = (None, None) if setup is None else setup
        with uncollected():
            loaded = _loaded(snapshot, watch)
            cluster = SimulatedCluster(loaded, config=config, registry=registry, seed=seed, memos=memos, **options)
            cluster.add_followed(snapshot.of(*(each.kind for each in cluster.core.resources)))
            cluster.admission.take(snapshot.of(*OF_ADMISSION))
            return cls(cluster, snapshot.of(*OF_WORKLOADS), watch=watch)

    def again(self, pods: Iterable[Pod]) -> "Site":
        """Return another site with the same objects, but only these of the pods that have no node."""
        others = (obj for obj in self.cluster.objects.values() if not isinstance(obj, Pod) or obj.spec.node_name)
        found = Site(self.cluster.again([*others, *pods]), watch=self._watch)
        found.templates, found._documents = self.templates, self._documents
        return found

    def count_no_more(self) -> None:
        """Tell the watch of no more pods: whoever asks this cluster many questions counts those."""
        self._watch = self._watch.within()

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
        document = self.applied.get((kind, key)) or self._documents.get((kind, key))
        try:
            return None if document is None else WorkloadManifest(document)
        except ManifestError:
            return None  # a snapshot may have left the template out; the pods that run say enough

    def documents_of(self, kind: str) -> Iterator[str]:
        """Yield the `namespace/name` of the workloads of a kind that the snapshot has."""
        return (key for of_kind, key in self._documents if of_kind == kind)

    def forget(self, kind: str, key: str) -> None:
        """Forget a workload that is deleted: nothing can be scaled that is not there, and no daemons come of it."""
        self._documents.pop((kind, key), None)
        self.applied = {each: document for each, document in self.applied.items() if each != (kind, key)}
        self.last_pods.pop((kind, key), None)
        self.replicas.pop((kind, key), None)
        self._daemons = None

    def daemons(self) -> list[WorkloadManifest]:
        """Return the DaemonSets whose manifests are known."""
        if self._daemons is None:
            found = (self.manifest(kind, key) for kind, key in self._documents if kind == "DaemonSet")
            self._daemons = [each for each in found if each is not None]
        return self._daemons

    def count_new(self, count: int, by: str) -> None:
        """Count pods that are about to be made. Raises `ChangeError` where they are too many in all."""
        self._made += max(count, 0)
        if self._made > MAX_PODS:
            raise ChangeError(f"{by}: this makes {self._made} new pods in all; more than {MAX_PODS} are not tried")

    def settle(self) -> None:
        """Let the scheduler place what it can. Raises `StuckError`, `StoppedError`."""
        self._watch.begin("placing pods", len(self.cluster.core.queue))
        self.cluster.settle(watch=self._watch)

    # -- how pods leave ----------------------------------------------------------------------------------------------

    def send_away(self, pod: Pod, by: str) -> None:
        """Evict a pod: its controller replaces it, and without one it is lost.

        One that follows its node, has ended, or is being deleted anyway, just goes.
        """
        key = pod.key
        if follows_its_node(pod) or not is_active(pod):
            self.cluster.delete("Pod", key)
            return
        self.departures.append(Departure(key, pod.spec.node_name, by))
        if owner_of(pod) is None:
            message = f"has no controller, so that nothing replaces it after {by}"
            self.broken.append(Broken("Pod", key, LOST, message))
            self.cluster.delete("Pod", key)
            return
        self.cluster.send_back(key)


def _loaded(snapshot: Snapshot, watch: WorkWatch) -> Iterator[Struct]:
    """Return the objects of a snapshot, and tell how far it is. Raises `StoppedError`."""
    watch.begin("loading the cluster", len(snapshot))
    return watch.over(snapshot.structs())


def _key_of(document: Document) -> str:
    metadata = document.manifest.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    return f"{metadata.get('namespace') or 'default'}/{metadata.get('name') or ''}"
