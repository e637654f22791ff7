"""The node lifecycle controller: gives up nodes that send no heartbeats, and taints nodes as their conditions say.

Driven by changes of nodes and by time. A hollow node is alive unless it says since when it has been down (`berth chaos`
has it say so); any other node is what its conditions say. Upstream: pkg/controller/nodelifecycle, v1.36.
"""

from berth_cluster.apimachinery.meta import (
    Object,
    annotations_of,
    find_condition,
    format_time,
    labels_of,
    parse_time,
    set_condition,
)
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.pods import is_terminal
from berth_workloads.node_lifecycle import (
    DOWN_SINCE,
    GRACE_S,
    LOST,
    NO_SCHEDULE_KEYS,
    NOT_READY,
    UNREACHABLE,
    evictions_per_s,
    no_execute_taint,
    no_schedule_taints,
)

COMPONENT = "node-controller"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_TYPES = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_EVICTING = (NOT_READY, UNREACHABLE)


class NodeLifecycleController(KeyedController):
    """Conditions and taints of nodes. A queue key is a node's name."""

    __slots__ = ("_client", "_index", "_next_s", "_zones")

    name = COMPONENT

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self._index = client.index
        self._zones: dict[str, list[int]] = {}  # by zone, how many nodes are not ready, and how many are
        self._next_s: dict[str, float] = {}  # by zone, when the next node may get a taint that evicts its pods

    def handle(self, change: ObjectChange) -> None:
        """Look at a changed node, and when that lets more pods of lost nodes go, or fewer, at all of those."""
        if change.kind != "Node":
            return
        before = self._rates()
        if change.old is not None:
            self._count(change.old, -1)
        if change.type != "DELETED":
            self._count(change.obj, 1)
            self.queue.add(change.obj["metadata"]["name"])
        elif change.old is None:
            self._count(change.obj, -1)
        if before and self._rates() != before:
            for node in self._index.all_of("Node"):
                if _statuses(node).get("Ready", "True") != "True":
                    self.queue.add(node["metadata"]["name"])

    def _count(self, node: Object, by: int) -> None:
        ready = _statuses(node).get("Ready")
        if ready is not None:
            self._zones.setdefault(_zone(node), [0, 0])[ready == "True"] += by

    def _rates(self) -> dict[str, float]:
        """By zone, how many nodes get a taint in a second that evicts their pods."""
        is_any_ready = any(ready for _, ready in self._zones.values())
        return {
            zone: evictions_per_s(ready, not_ready, is_any_ready=is_any_ready)
            for zone, (not_ready, ready) in self._zones.items()
        }

    def sync(self, key: str, now_s: float) -> None:
        """Bring one node's conditions and taints up to date."""
        node = self._index.get("Node", key)
        if node is None:
            return
        down_since = annotations_of(node).get(DOWN_SINCE)
        if down_since is not None:
            lost_s = parse_time(down_since) + GRACE_S
            if now_s < lost_s:
                self.queue.add_at(key, lost_s)
            elif (find_condition(node, "Ready") or {}).get("reason") != LOST:
                node = self._give_up(node, now_s)
        taints = self._taints(node, now_s)
        if taints != ((node.get("spec") or {}).get("taints") or []):
            self._client.update("Node", {**node, "spec": {**(node.get("spec") or {}), "taints": taints}})

    def _give_up(self, node: Object, now_s: float) -> Object:
        """Say that nothing is known of a node any more, and that its pods are not ready."""
        status = node.get("status") or {}
        conditions = status.get("conditions") or []
        for name in _TYPES:
            known = find_condition(node, name) or {"type": name}
            news = {"status": "Unknown", "reason": LOST, "message": "Kubelet stopped posting node status."}
            conditions = set_condition(conditions, {**known, **news, "lastTransitionTime": format_time(now_s)})
        name = node["metadata"]["name"]
        message = f"Node {name} status is now: NodeNotReady"
        self._client.events.normal(COMPONENT, "Node", node, "NodeNotReady", message, now_s)
        for pod in self._index.on_node(name):
            ready = find_condition(pod, "Ready")
            if ready is not None and ready["status"] == "True" and not is_terminal(pod):
                unready = {**ready, "status": "False", "lastTransitionTime": format_time(now_s)}
                told = {**pod["status"], "conditions": set_condition(pod["status"]["conditions"], unready)}
                self._client.update_status("Pod", {**pod, "status": told})
                self._client.events.warning(COMPONENT, "Pod", pod, "NodeNotReady", "Node is not ready", now_s)
        return self._client.update_status("Node", {**node, "status": {**status, "conditions": conditions}})

    def _taints(self, node: Object, now_s: float) -> list[Object]:
        """The taints that the node should have now: others' as they are, and those of its conditions."""
        spec, statuses = node.get("spec") or {}, _statuses(node)
        known = spec.get("taints") or []
        wanted = {
            (key, "NoSchedule")
            for key in no_schedule_taints(statuses, is_unschedulable=bool(spec.get("unschedulable")))
        }
        evicting = no_execute_taint(statuses)
        held = {(one["key"], one["effect"]) for one in known}
        is_judged = evicting is not None and any(ready for _, ready in self._zones.values())
        if is_judged and ((evicting, "NoExecute") in held or self._may_evict(node, self._rates()[_zone(node)], now_s)):
            wanted.add((str(evicting), "NoExecute"))
        ours = {(key, "NoSchedule") for key in NO_SCHEDULE_KEYS} | {(key, "NoExecute") for key in _EVICTING}
        kept = [one for one in known if (mark := (one["key"], one["effect"])) in wanted or mark not in ours]
        added = sorted(wanted - held)
        return [
            *kept,
            *({"key": key, "effect": effect, "timeAdded": format_time(now_s)} for key, effect in added),
        ]

    def _may_evict(self, node: Object, rate: float, now_s: float) -> bool:
        """Whether it is this node's turn in its zone; if not, comes back when it may be."""
        zone = _zone(node)
        next_s = self._next_s.get(zone, 0.0)
        if rate and now_s < next_s:
            self.queue.add_at(node["metadata"]["name"], next_s)
        if not rate or now_s < next_s:
            return False
        self._next_s[zone] = now_s + 1 / rate
        return True


def _statuses(node: Object) -> dict[str, str]:
    conditions = (node.get("status") or {}).get("conditions") or []
    return {one["type"]: one["status"] for one in conditions}


def _zone(node: Object) -> str:
    labels = labels_of(node)
    return f"{labels.get(REGION, '')}:{labels.get(ZONE, '')}"
