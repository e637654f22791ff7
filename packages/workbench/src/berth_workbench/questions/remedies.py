"""The questions that try what would help pending pods: a change that lets them in may do something else besides."""

import re
from typing import Final

from berth_workbench.planning.help.result import Change
from berth_workbench.showing.sections import Try
from berth_workbench.showing.words import counted, listed

OF_PENDING: Final = (
    Try("Which nodes would an autoscaler add?", "autoscale", {}),
    Try("Would moving other pods make room?", "rebalance", {"goal": "place-pending"}),
    Try("How long would they wait?", "wait", {}),
)
"""What can be asked of all that is pending at once."""
_NEW_NODES: Final = re.compile(r"add (?:a node|(\d+) nodes) like ([^\s,]+) \(")
_PODS_SHOWN: Final = 3


def trial_of(change: Change) -> Try | None:
    """Return the question that tries a change; None where it is about the pod itself or takes a manifest.

    Nodes that are made to measure (`like std-4, but with 8 GPUs`) take one: no node of the cluster is a model for them.
    """
    if change.kind == "podsMoved":
        return OF_PENDING[1]
    if change.kind == "node" and (new := _NEW_NODES.match(change.what)):
        count, like = int(new[1] or 1), new[2]
        return _what_if(f"{counted(count, 'node')} like {like} were added", f"add-nodes {count}={like}")
    if change.kind == "uncordon":
        targets = (change.target, *(part.target for part in change.with_))
        nodes = [target.removeprefix("Node/") for target in targets if target.startswith("Node/")]
        return _what_if(f"{listed(nodes)} were uncordoned", *(f"uncordon {node}" for node in nodes))
    if change.kind == "podsGone":
        pods = list(change.patch["pods"])
        return _what_if(f"{listed(pods, shown=_PODS_SHOWN)} were evicted", *(f"evict {pod}" for pod in pods))
    return None


def _what_if(text: str, *changes: str) -> Try:
    return Try(f"What if {text}?", "whatif", {"changes": "\n".join(changes)})
