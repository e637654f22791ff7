"""Leases of hollow nodes: one per node in `kube-node-lease`, renewed now and then; and their word that they live.

Renewals are rare, since the node lifecycle controller takes a hollow node to be alive unless it says otherwise. An
interval of 0 means none at all, so that a simulation in virtual time comes to an end. Nodes that are down are left
alone; one that comes back is reported ready again. Driven by changes of nodes and by time.
"""

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.meta import Object, find_condition, format_micro_time, uid_of
from berth_cluster.apimachinery.resource_types import resource_of
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.hollow.template import is_down, is_hollow, ready_conditions
from berth_workloads.node_lifecycle import LOST

NAMESPACE = "kube-node-lease"
DURATION_S = 40


class NodeHeartbeat(KeyedController):
    """Creates and renews the nodes' leases."""

    __slots__ = ("_client", "_interval_s")

    name = "node-heartbeat"

    def __init__(self, client: Client, interval_s: float) -> None:
        super().__init__()
        self._client = client
        self._interval_s = interval_s

    def handle(self, change: ObjectChange) -> None:
        """Look at a hollow node that is new, or comes back."""
        if change.kind != "Node" or change.type == "DELETED" or not is_hollow(change.obj):
            return
        if change.old is None or is_down(change.old):
            self.queue.add(change.obj["metadata"]["name"])

    def sync(self, key: str, now_s: float) -> None:
        """Create or renew one node's lease."""
        node = self._client.index.get("Node", key)
        if node is None or is_down(node):
            return
        if (find_condition(node, "Ready") or {}).get("reason") == LOST:
            status = {**node["status"], "conditions": ready_conditions(now_s)}
            node = self._client.update_status("Node", {**node, "status": status})
        store = self._client.store
        lease = store.find(resource_of("Lease"), NAMESPACE, key)
        if lease is None:
            self._create(node, key, now_s)
        else:
            renewed = {**lease, "spec": {**lease["spec"], "renewTime": format_micro_time(now_s)}}
            self._client.update("Lease", renewed)
        if self._interval_s > 0:
            self.queue.add_at(key, now_s + self._interval_s)

    def _create(self, node: Object, name: str, now_s: float) -> None:
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid_of(node)}
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": [owner]},
            "spec": {
                "holderIdentity": name,
                "leaseDurationSeconds": DURATION_S,
                "renewTime": format_micro_time(now_s),
            },
        }
        try:
            self._client.create("Lease", lease)
        except StoreError as error:
            if error.reason != "AlreadyExists":
                raise
