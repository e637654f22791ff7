"""A plugin in one file: prefers nodes whose label says that they cost less, and keeps pods within a budget.

Try it without installing anything:

    berth up --plugin examples/cheapest_node.py:CheapestNode
"""

from collections.abc import Sequence

from berth.plugin import (
    MAX_NODE_SCORE,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    Handle,
    NodeView,
    PodInfo,
    Scores,
    Status,
    unresolvable,
)

PRICE = "example.com/cents-per-hour"
BUDGET = "example.com/most-cents-per-hour"
UNKNOWN_PRICE = 1_000_000
"""Nodes that do not say what they cost come last."""


def price_of(node: NodeView) -> int:
    """Return what a node costs an hour, in cents."""
    text = node.labels.get(PRICE, "")
    return int(text) if text.isdecimal() else UNKNOWN_PRICE


class CheapestNode:
    """Filter, Score and NormalizeScore."""

    name = "CheapestNode"

    def __init__(self, args: None, handle: Handle) -> None:
        pass

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Reject nodes beyond the budget that the pod's label names; evicting other pods would not help."""
        budget = pod.labels.get(BUDGET, "")
        if budget.isdecimal() and price_of(node) > int(budget):
            return unresolvable("node(s) were beyond the pod's budget")
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Return the price; `normalize_score` turns it round."""
        return price_of(node)

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """Give the cheapest of the feasible nodes 100, the dearest 0, and the others their place in between."""
        low, high = int(scores.min()), int(scores.max())
        if low == high:
            return scores * 0 + MAX_NODE_SCORE
        return (high - scores) * MAX_NODE_SCORE // (high - low)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Try rejected pods again when a node comes, or when the labels of one change."""
        return [ClusterEventWithHint(ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_LABEL))]
