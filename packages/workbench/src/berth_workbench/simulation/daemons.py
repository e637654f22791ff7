"""What is special about the pods of DaemonSets: which nodes have one, what they tolerate, and how each gets its node.

The rules are those of `berth_workloads.daemon_sets`.
"""

import msgspec

from berth.api.node import Node
from berth.api.node_selector import NAME_FIELD, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from berth.api.pod import Affinity, NodeAffinity, Pod
from berth.plugins.node_selection import required_affinity
from berth_workloads.daemon_sets import should_continue, should_run, with_daemon_tolerations


def as_daemon(pod: Pod) -> Pod:
    """Return a DaemonSet's pod with the tolerations that its controller adds."""
    tolerations = with_daemon_tolerations(pod.spec.tolerations, host_network=pod.spec.host_network)
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, tolerations=tolerations))


def may_run(pod: Pod, node: Node) -> bool:
    """Say whether a DaemonSet has this pod on a node: its selector and affinity match, and it tolerates the taints."""
    matches = pod.spec.node_name in ("", node.metadata.name) and required_affinity(pod).matches_node(node)
    return should_run(node.spec.taints, pod.spec.tolerations, matches=matches)


def may_stay(pod: Pod, node: Node) -> bool:
    """Say whether a DaemonSet's pod that is on a node, or waits for it, may stay."""
    return should_continue(node.spec.taints, pod.spec.tolerations, matches=required_affinity(pod).matches_node(node))


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
