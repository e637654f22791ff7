"""The node lifecycle controller: gives up nodes that send no heartbeats, and taints nodes as their conditions say.

Driven by changes of nodes and leases, and by time. A hollow node is alive unless it says since when it has been down
(`berth chaos` has it say so). Any other node is what its conditions say, as long as somebody renews its lease or the
heartbeat in its condition. Upstream: pkg/controller/nodelifecycle, v1.36.
"""

from berth_cluster.apimachinery.meta import (
    Object,
    annotations_of,
    find_condition,
    format_time,
    is_condition_true,
    labels_of,
    new_condition,
    parse_time,
    with_condition,
)
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.pods import is_terminal
from berth_workloads.node_lifecycle import (
    DOWN_SINCE,
    GRACE_S,
    HOLLOW,
    LEASES,
    LOST,
    NEVER_HEARD_OF,
    NO_SCHEDULE_KEYS,
    NOT_READY,
    STARTUP_GRACE_S,
    UNREACHABLE,
    evictions_per_s,
    no_execute_taint,
    no_schedule_taints,
)

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
Heartbeat = tuple[str | None, str | None]
"""When a node last said how it is, and when it last renewed its lease."""
_TYPES = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_EVICTING = (NOT_READY, UNREACHABLE)


class NodeLifecycleController(KeyedController):
    """Conditions and taints of nodes."""

    __slots__ = ("_heard", "_next_s", "_zones")

    name = "node-controller"
    kinds = frozenset({"Lease", "Node"})

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._heard: dict[str, tuple[Heartbeat, float]] = {}  # of each node that is not hollow, the last, and when
        self._zones: dict[str, list[int]] = {}  # by zone, how many nodes are not ready, and how many are
        self._next_s: dict[str, float] = {}  # by zone, when the next node may get a taint that evicts its pods

    def handle(self, change: ObjectChange) -> None:
        """Look at a changed node, and when that lets more pods of lost nodes go, or fewer, at all of those."""
        if change.kind == "Lease":
            if change.obj["metadata"]["namespace"] == LEASES:
                self.look_up("Node", change.obj["metadata"]["name"])
            return
        super().handle(change)
        if change.type == "DELETED":
            self._heard.pop(change.obj["metadata"]["name"], None)
        before = self._rates()
        if change.old is not None:
            self._count(change.old, -1)
        if change.type != "DELETED":
            self._count(change.obj, 1)
        elif change.old is None:
            self._count(change.obj, -1)
        if before and self._rates() != before:
            for node in self.index.all_of("Node"):
                if _statuses(node).get("Ready", "True") != "True":
                    self.look_at(node)

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

    def sync(self, obj: Object, now_s: float) -> None:
        """Bring one node's conditions and taints up to date."""
        node, lost_s = obj, self._lost_s(obj, now_s)
        if lost_s is not None:
            if now_s < lost_s:
                self.look_at(node, lost_s)
            elif _statuses(node).get("Ready") != "Unknown":
                node = self._give_up(node, now_s)
        taints = self._taints(node, now_s)
        if taints != ((node.get("spec") or {}).get("taints") or []):
            self.client.update("Node", {**node, "spec": {**(node.get("spec") or {}), "taints": taints}})

    def _lost_s(self, node: Object, now_s: float) -> float | None:
        """When a node is to be given up unless something is heard of it before; None where that is never."""
        down_since = annotations_of(node).get(DOWN_SINCE)
        if down_since is not None:
            return parse_time(down_since) + GRACE_S
        if annotations_of(node).get(HOLLOW) == "true":
            return None
        name, ready = node["metadata"]["name"], find_condition(node, "Ready")
        lease = self.index.get("Lease", f"{LEASES}/{name}") or {"spec": {}}
        heartbeat = ((ready or {}).get("lastHeartbeatTime"), lease["spec"].get("renewTime"))
        before, heard_s = self._heard.get(name, (None, 0.0))
        if before != heartbeat:
            # By this clock, since what the heartbeat says may be by another.
            is_silent = before is None and ready is None
            heard_s = parse_time(node["metadata"]["creationTimestamp"]) if is_silent else now_s
            self._heard[name] = (heartbeat, heard_s)
        return heard_s + (GRACE_S if ready is not None else STARTUP_GRACE_S)

    def _give_up(self, node: Object, now_s: float) -> Object:
        """Say that nothing is known of a node any more, and that its pods are not ready if they have been."""
        name, status = node["metadata"]["name"], node.get("status") or {}
        for condition_type in _TYPES:
            before = find_condition(node, condition_type)
            if before is None:
                never = "Kubelet never posted node status."
                said = new_condition(condition_type, "Unknown", NEVER_HEARD_OF, never, now_s)
            else:
                said = new_condition(condition_type, "Unknown", LOST, "Kubelet stopped posting node status.", now_s)
            status = with_condition(status, {**(before or {}), **said})
        if not is_condition_true(node, "Ready"):
            return self.client.set_status(node, status)
        self.tell(node, "NodeNotReady", f"Node {name} status is now: NodeNotReady", now_s)
        for pod in self.index.on_node(name):
            if is_condition_true(pod, "Ready") and not is_terminal(pod):
                ready = {**(find_condition(pod, "Ready") or {}), "status": "False"}
                ready["lastTransitionTime"] = format_time(now_s)
                self.client.set_status(pod, with_condition(pod["status"], ready))
                self.tell(pod, "NodeNotReady", "Node is not ready", now_s, warns=True)
        return self.client.set_status(node, status)

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
            self.look_at(node, next_s)
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
