"""The args of DefaultPreemption, and how many nodes they mean."""

from collections.abc import Iterable

import msgspec

from berth.config.errors import invalid


class DefaultPreemptionArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """On how many nodes preemption is tried out: a percentage of those where it may help, and at least so many."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def validate(self, path: str) -> Iterable[str]:
        """Refuse numbers out of range, and two zeros."""
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        percentage_path, absolute_path = f"{path}.minCandidateNodesPercentage", f"{path}.minCandidateNodesAbsolute"
        if not 0 <= percentage <= 100:
            yield invalid(percentage_path, percentage, "not in valid range [0, 100]")
        if absolute < 0:
            yield invalid(absolute_path, absolute, "not in valid range [0, inf)")
        if percentage == 0 and absolute == 0:
            yield invalid(percentage_path, 0, "cannot be zero at the same time as minCandidateNodesAbsolute")
            yield invalid(absolute_path, 0, "cannot be zero at the same time as minCandidateNodesPercentage")

    def wanted_candidates(self, node_count: int) -> int:
        """Return how many candidates are enough, of so many nodes where preemption may help."""
        share = node_count * self.min_candidate_nodes_percentage // 100
        return min(max(share, self.min_candidate_nodes_absolute), node_count)
