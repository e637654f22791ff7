"""Leases of hollow nodes: one per node in `kube-node-lease`, renewed now and then; and their word that they live.

Renewals are rare, since the node lifecycle controller takes a hollow node to be alive unless it says otherwise. An
interval of 0 means none at all, so that a simulation in virtual time comes to an end. Nodes that are down are left
alone; one that comes back is reported ready again. Driven by changes of nodes and by time.
"""

from berth_cluster.apimachinery.meta import Object, find_condition, format_micro_time, new_owner_reference
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.hollow.template import is_down, is_hollow, ready_conditions
from berth_workloads.node_lifecycle import LEASES, LOST

DURATION_S = 40


class NodeHeartbeat(KeyedController):
    """Creates and renews the nodes' leases."""

    __slots__ = ("_interval_s",)

    name = "node-heartbeat"
    kinds = frozenset({"Node"})

    def __init__(self, client: Client, interval_s: float) -> None:
        super().__init__(client)
        self._interval_s = interval_s

    def handle(self, change: ObjectChange) -> None:
        """Look at a hollow node that is new, or comes back."""
        if is_hollow(change.obj) and (change.old is None or is_down(change.old)):
            super().handle(change)

    def sync(self, obj: Object, now_s: float) -> None:
        """Create or renew one node's lease."""
        if is_down(obj):
            return
        if (find_condition(obj, "Ready") or {}).get("reason") == LOST:
            self.client.set_status(obj, {**obj["status"], "conditions": ready_conditions(now_s)})
        name = obj["metadata"]["name"]
        lease = self.index.get("Lease", f"{LEASES}/{name}")
        spec = {"holderIdentity": name, "leaseDurationSeconds": DURATION_S, "renewTime": format_micro_time(now_s)}
        if lease is None:
            metadata = {"name": name, "namespace": LEASES, "ownerReferences": [new_owner_reference(obj)]}
            self.client.create("Lease", {"metadata": metadata, "spec": spec})
        else:
            self.client.update("Lease", {**lease, "spec": {**lease["spec"], "renewTime": spec["renewTime"]}})
        if self._interval_s > 0:
            self.look_at(obj, now_s + self._interval_s)
