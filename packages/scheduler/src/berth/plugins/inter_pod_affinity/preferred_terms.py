"""Preferred terms, of the pod and of running pods, and running pods' required ones: sums of weights by domain."""

import numpy as np

from berth.framework.interface import MAX_NODE_SCORE, OverDomains, Rows, Scores
from berth.plugins.inter_pod_affinity.domains import ByKey
from berth.plugins.normalize import mapped
from berth.state.node_view import NodeView


class AffinityScoreState:
    """The weights of a cycle, by label key and domain."""

    __slots__ = ("_weights",)

    def __init__(self, weights: ByKey) -> None:
        self._weights = weights

    def of_node(self, node: NodeView) -> int:
        """Return the raw score of one node."""
        return sum(domains.of_value(node.labels[key]) for key, domains in self._weights.items() if key in node.labels)

    def domains(self) -> OverDomains | None:
        """Return the raw scores by domain, where terms name one key with a few domains; else None."""
        if len(self._weights) != 1:
            return None
        (only,) = self._weights.values()
        return OverDomains.of(only.topology, only.sums) if only.topology.is_coarse else None

    def column(self, rows: Rows) -> Scores:
        """Return raw scores, int64 of shape (len(rows),)."""
        found: Scores | None = None
        for domains in self._weights.values():
            scores = domains.topology.gather(domains.without_absent(), rows)
            found = scores if found is None else found + scores
        assert found is not None, "scoring without weights is skipped"
        return found


def normalized(scores: Scores, *, from_zero: bool = False) -> Scores:
    """Scale int64 `scores` of shape (n,), which may be negative, so that the least is 0 and the most 100.

    `from_zero` makes the scale include 0 even if all scores are on one side of it, as it did until v1.20.
    """
    if not len(scores):
        return scores.copy()
    least, most = int(scores.min()), int(scores.max())
    if from_zero:
        least, most = min(least, 0), max(most, 0)
    if least == most:
        return np.zeros(len(scores), dtype=np.int64)
    return mapped(
        scores,
        least,
        most,
        lambda raw: (float(MAX_NODE_SCORE) * ((raw - least) / float(most - least))).astype(np.int64),
    )
