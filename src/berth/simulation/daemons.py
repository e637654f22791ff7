"""What is special about the pods of DaemonSets: which nodes have one, what they tolerate, and how each gets its node.

Source: pkg/controller/daemon, v1.36.
"""

import msgspec

from berth.api.node import Node
from berth.api.node_selector import NAME_FIELD, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from berth.api.pod import Affinity, NodeAffinity, Pod
from berth.api.taints import NO_EXECUTE, NO_SCHEDULE, UNSCHEDULABLE_KEY, Toleration, untolerated_taint
from berth.plugins.node_matching import required_affinity

_TOLERATED = (
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    (UNSCHEDULABLE_KEY, NO_SCHEDULE),
)
_OF_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", NO_SCHEDULE)


def with_daemon_tolerations(pod: Pod) -> Pod:
    """Return a DaemonSet's pod with the tolerations that its controller adds."""
    added = (*_TOLERATED, _OF_HOST_NETWORK) if pod.spec.host_network else _TOLERATED
    # Admission has given it two that end after five minutes; the controller's come first, and have no end.
    own = tuple(
        each for each in pod.spec.tolerations if each.toleration_seconds is None or (each.key, each.effect) not in added
    )
    missing = tuple(
        Toleration(key=key, operator="Exists", effect=effect)
        for key, effect in added
        if Toleration(key=key, operator="Exists", effect=effect) not in own
    )
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, tolerations=(*own, *missing)))


def may_run(pod: Pod, node: Node) -> bool:
    """Say whether a DaemonSet has this pod on a node: its selector and affinity match, and it tolerates the taints."""
    if pod.spec.node_name and pod.spec.node_name != node.metadata.name:
        return False
    if untolerated_taint(node.spec.taints, pod.spec.tolerations, (NO_SCHEDULE, NO_EXECUTE)) is not None:
        return False
    return required_affinity(pod).matches_node(node)


def pinned(pod: Pod, node_name: str) -> Pod:
    """Return a DaemonSet's pod as it is made for a node: its required node affinity is that node's name, no more."""
    this_node = NodeSelectorTerm(match_fields=(NodeSelectorRequirement(NAME_FIELD, "In", (node_name,)),))
    affinity = pod.spec.affinity or Affinity()
    of_nodes = affinity.node_affinity or NodeAffinity()
    replaced = msgspec.structs.replace(of_nodes, required=NodeSelector((this_node,)))
    spec = msgspec.structs.replace(
        pod.spec, node_name="", affinity=msgspec.structs.replace(affinity, node_affinity=replaced)
    )
    return msgspec.structs.replace(pod, spec=spec)


def pinned_to(pod: Pod) -> str:
    """Return the node that a DaemonSet's pod is made for, or the empty string."""
    affinity = pod.spec.affinity
    required = affinity.node_affinity.required if affinity is not None and affinity.node_affinity is not None else None
    for term in required.node_selector_terms if required is not None else ():
        for match in term.match_fields:
            if match.key == NAME_FIELD and match.operator == "In" and len(match.values) == 1:
                return match.values[0]
    return pod.spec.node_name
