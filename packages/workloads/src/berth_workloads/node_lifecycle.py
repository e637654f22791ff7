"""The taints that follow from a node's conditions, and how soon the pods of lost nodes may be evicted.

Source: pkg/controller/nodelifecycle, v1.36.
"""

from collections.abc import Mapping

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
HOLLOW = "berth.dev/hollow"
"""The annotation of a node that only pretends to run pods, and that is alive unless it says otherwise."""
LEASES = "kube-node-lease"
"""The namespace of the leases that nodes renew, each under its own name."""
DOWN_SINCE = "berth.dev/down-since"
"""The annotation of a node that plays dead: since when."""
LOST = "NodeStatusUnknown"
"""The reason of the conditions of a node that was given up."""
NEVER_HEARD_OF = "NodeStatusNeverUpdated"
"""The reason of the conditions that a node never had until it was given up."""
GRACE_S = 50.0
"""So long after its last heartbeat a node is given up."""
STARTUP_GRACE_S = 60.0
"""So long a new node has to say for the first time how it is."""
EVICTIONS_PER_S = 0.1
_RARE_EVICTIONS_PER_S = 0.01
_LARGE_ZONE = 50
_UNHEALTHY_SHARE = 0.55

_TAINTS = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
NO_SCHEDULE_KEYS = frozenset({*_TAINTS.values(), "node.kubernetes.io/unschedulable"})


def no_schedule_taints(conditions: Mapping[str, str], *, is_unschedulable: bool) -> list[str]:
    """Return the keys of the NoSchedule taints that a node has, given its conditions' statuses by type."""
    found = [_TAINTS[one] for one in conditions.items() if one in _TAINTS]
    return [*found, "node.kubernetes.io/unschedulable"] if is_unschedulable else found


def no_execute_taint(conditions: Mapping[str, str]) -> str | None:
    """Return the key of the NoExecute taint that a node has, None if it is ready or has never said."""
    return _TAINTS.get(("Ready", conditions.get("Ready", "")))


def evictions_per_s(ready: int, not_ready: int, *, is_any_ready: bool) -> float:
    """Return how many nodes of a zone get a NoExecute taint in a second.

    None do when no node of the cluster is ready: then it is not the nodes that have failed. Where most of a zone's
    nodes have, but not all, few do, and none in a small zone.
    """
    if not is_any_ready:
        return 0.0
    if ready and not_ready > 2 and not_ready / (ready + not_ready) >= _UNHEALTHY_SHARE:
        return _RARE_EVICTIONS_PER_S if ready + not_ready > _LARGE_ZONE else 0.0
    return EVICTIONS_PER_S
