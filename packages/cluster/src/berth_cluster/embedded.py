"""The embedded cluster: store, API server, controllers and hollow nodes in one process.

`berth up`, `berth demo` and tests start and stop an `EmbeddedCluster` inside their event loop. A simulation in virtual
time needs neither the server nor an event loop: a store with `make_controllers` is the same cluster.
"""

import itertools
from collections.abc import Container, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec

from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.releases import DEFAULT_MINOR
from berth_cluster.apimachinery.resource_types import resource_of
from berth_cluster.controllers.cleanup.garbage_collector import GarbageCollector
from berth_cluster.controllers.cleanup.namespaces import NamespaceController
from berth_cluster.controllers.cleanup.pod_gc import PodGarbageCollector
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.cluster_roles import RoleAggregation
from berth_cluster.controllers.controller import Controller
from berth_cluster.controllers.devices.device_taint_eviction import DeviceTaintEviction
from berth_cluster.controllers.devices.resource_claims import ResourceClaimController
from berth_cluster.controllers.disruption.budgets import DisruptionController
from berth_cluster.controllers.disruption.node_lifecycle import NodeLifecycleController
from berth_cluster.controllers.disruption.taint_eviction import TaintEviction
from berth_cluster.controllers.endpoints import EndpointsController
from berth_cluster.controllers.manager import ControllerManager
from berth_cluster.controllers.pump import ControllerPump
from berth_cluster.controllers.quotas import QuotaController
from berth_cluster.controllers.volumes.ephemeral_volumes import EphemeralVolumes
from berth_cluster.controllers.volumes.persistent_volumes import VolumeController
from berth_cluster.controllers.volumes.volume_protection import VolumeProtection
from berth_cluster.controllers.workloads.autoscaler import AutoscalerController
from berth_cluster.controllers.workloads.cronjob import CronJobController
from berth_cluster.controllers.workloads.daemonset import DaemonSetController
from berth_cluster.controllers.workloads.deployment import DeploymentController
from berth_cluster.controllers.workloads.job import JobController
from berth_cluster.controllers.workloads.replicaset import ReplicaSetController, ReplicationControllerController
from berth_cluster.controllers.workloads.statefulset import StatefulSetController
from berth_cluster.hollow.drivers import NodeDrivers, create_driver_objects
from berth_cluster.hollow.heartbeat import NodeHeartbeat
from berth_cluster.hollow.kubelet import HollowKubelet, KubeletSettings
from berth_cluster.hollow.pools import NodePool, side_by_side
from berth_cluster.hollow.provisioner import HollowProvisioner
from berth_cluster.hollow.template import NodeTemplate, node_object
from berth_cluster.restored import Restored, restore
from berth_cluster.serving.delay import ApiDelay
from berth_cluster.serving.directory_lock import DirectoryLock
from berth_cluster.serving.server import ApiServer
from berth_cluster.storage.namespace_contents import NamespaceContents
from berth_cluster.storage.object_file import ObjectFile
from berth_cluster.storage.store import Store


class ClusterSettings(msgspec.Struct, frozen=True):
    """What an embedded cluster consists of."""

    nodes: int = 3
    template: NodeTemplate = NodeTemplate()
    pools: tuple[NodePool, ...] = ()  # nodes beside these
    kubelet: KubeletSettings = KubeletSettings()
    heartbeat_s: float = 600.0  # between renewals of a node's lease; 0 for never
    devices_per_node: int = 0  # published by a driver of the hollow nodes
    kubernetes_minor: int = DEFAULT_MINOR  # the API of Kubernetes 1.x is served


class EmbeddedCluster:
    """A cluster that lives as long as the process, or the directory; `host` and `port` are the API server's."""

    __slots__ = ("_objects", "_pump", "_server", "_settings", "goes_on", "manager", "restored", "store")

    def __init__(
        self,
        settings: ClusterSettings,
        directory: Path,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str = "",
        objects: Sequence[Object] = (),
        keeps_objects: bool = False,
    ) -> None:
        """`objects` are those of another cluster, which this one begins with (see `restored`).

        With `keeps_objects` the cluster is the one that the directory has, if it has one, and is kept there. Raises
        `DirectoryInUseError`, `ObjectFileError` and OSError.
        """
        lock = DirectoryLock(directory)
        if keeps_objects:
            lock.acquire()
        kept = ObjectFile(directory) if keeps_objects else None
        self.goes_on = kept is not None and kept.found_revision > 0
        """Whether the directory had a cluster; then neither nodes nor `objects` are added to it."""
        now = partial(datetime.now, UTC)
        self.store = Store(now, system_objects=not objects, service_accounts=True, kept=kept)
        NamespaceContents(self.store)
        self.restored: Restored | None = None
        self._objects = objects
        self.manager = ControllerManager(self.store)
        self._settings = settings
        minor = settings.kubernetes_minor
        self._server = ApiServer(
            self.store, directory, host=host, port=port, token=token, kubernetes_minor=minor, lock=lock
        )
        self._pump: ControllerPump | None = None

    @property
    def url(self) -> str:
        """Where the API server listens."""
        return self._server.url

    @property
    def delay(self) -> ApiDelay:
        """How slow the API server has been made."""
        return self._server.delay

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig that clients use."""
        return self._server.kubeconfig

    async def start(self) -> None:
        """Start everything; when this returns, the nodes exist and the server answers."""
        if self._objects and not self.goes_on:
            self.restored, self._objects = restore(self.store, self._objects), ()
        elsewhere = self.restored.missing_owners if self.restored is not None else ()
        self.manager.add(make_controllers(self.manager.client, self._settings, elsewhere))
        if not self.goes_on:
            self._populate()
        await self._server.start()
        self._pump = ControllerPump(self.store, self.manager)
        self._pump.start()

    def _populate(self) -> None:
        """Create the nodes and what their drivers need; the first to be kept sees all of it, or nothing."""
        if self._settings.devices_per_node or not self.store.objects(resource_of("StorageClass")):
            create_driver_objects(self.store, self._settings.devices_per_node)  # else a second default class
        gone = self.restored.missing_nodes if self.restored is not None else ()
        for pool in side_by_side([NodePool(self._settings.nodes, self._settings.template), *self._settings.pools]):
            create_nodes(self.store, pool.template, pool.nodes, avoid=gone)

    async def stop(self) -> None:
        """Stop everything; safe to call twice."""
        if self._pump is not None:
            await self._pump.stop()
            self._pump = None
        await self._server.stop()


def make_controllers(client: Client, settings: ClusterSettings, elsewhere: Container[str] = ()) -> list[Controller]:
    """All controllers of an embedded cluster, including the kubelet and drivers of the hollow nodes.

    `elsewhere` are uids of owners that are not in the cluster, and whose dependents stay.
    """
    return [
        DeploymentController(client),
        ReplicaSetController(client),
        ReplicationControllerController(client),
        DaemonSetController(client),
        JobController(client),
        CronJobController(client),
        StatefulSetController(client),
        DisruptionController(client),
        ResourceClaimController(client),
        DeviceTaintEviction(client),
        EphemeralVolumes(client),
        VolumeController(client),
        VolumeProtection(client),
        HollowProvisioner(client),
        NodeDrivers(client, settings.devices_per_node),
        HollowKubelet(client, settings.kubelet),
        NodeLifecycleController(client),
        TaintEviction(client),  # after the kubelet, which rejects pods that are bound to a node with such a taint
        GarbageCollector(client, elsewhere),
        PodGarbageCollector(client),
        NamespaceController(client),
        RoleAggregation(client),
        QuotaController(client),
        EndpointsController(client),
        AutoscalerController(client),
        NodeHeartbeat(client, settings.heartbeat_s),
    ]


def create_nodes(
    store: Store, template: NodeTemplate, count: int, *, first: int = 0, avoid: Container[str] = ()
) -> None:
    """Create `count` hollow nodes, numbered from `first`; a node's name and addresses are made from its number.

    Numbers are left out whose name a node has already, or is one to `avoid`.
    """
    now_s = store.clock().timestamp()
    nodes = resource_of("Node")
    made = (node_object(template, number, now_s) for number in itertools.count(first))
    free = (node for node in made if not _is_taken(store, name := node["metadata"]["name"]) and name not in avoid)
    for node in itertools.islice(free, count):
        store.create(nodes, "", node)


def _is_taken(store: Store, name: str) -> bool:
    return store.find(resource_of("Node"), "", name) is not None
