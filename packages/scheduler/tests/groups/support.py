"""What tests of pod groups share."""

from berth.core.builders import make_node, make_pod, make_pod_group
from berth.core.virtual_cluster import VirtualCluster
from berth.testing.invariants import check

GANG = {"GenericWorkload": True, "GangScheduling": True}
PLACING = {**GANG, "TopologyAwareWorkloadScheduling": True}
PREEMPTING = {**GANG, "WorkloadAwarePreemption": True}
RACK = "topology.kubernetes.io/rack"


def node(name, cpu="4", rack=""):
    found = make_node(name).capacity(cpu=cpu, memory="64Gi", pods="110")
    return found.label(RACK, rack) if rack else found


def member(name, group="g", cpu="1"):
    return make_pod(name).request(cpu=cpu).group(group)


def members(count, group="g", cpu="1"):
    return [member(f"{group}-{index}", group, cpu) for index in range(count)]


def cluster(*objects, gates=GANG, **options):
    return VirtualCluster(*objects, gates=gates, **options)


def bound(found, group="g"):
    """The nodes of the members that have one, by name."""
    return {name: node for name, node in found.nodes_of().items() if node and name.startswith(f"{group}-")}


def condition(found, group="g"):
    """The PodGroupScheduled condition as status, reason, message; None where there is none."""
    conditions = found.objects["PodGroup", f"default/{group}"].status.conditions
    return next(((c.status, c.reason, c.message) for c in conditions if c.type == "PodGroupScheduled"), None)


def reason(found, name):
    """What the PodScheduled condition of a pod says."""
    return next((c.message for c in found.pod(name).status.conditions if c.type == "PodScheduled"), None)


def settle(found):
    """Let everything come to rest, and hold the core to its invariants."""
    found.advance(60.0)
    check(found.core)
    return found


__all__ = [
    "GANG", "PLACING", "PREEMPTING", "RACK", "bound", "cluster", "condition", "make_node", "make_pod",
    "make_pod_group", "member", "members", "node", "reason", "settle",
]  # fmt: skip
