"""What one attempt knows of a pod's claims, from PreFilter to PreBind."""

from collections.abc import Iterator, Mapping

from berth.api.dra import AllocationResult, ResourceClaim
from berth.plugins.dra.allocator import Allocator
from berth.plugins.dra.extended import NodeClaim
from berth.plugins.dra.outcomes import KeptOutcomes, NodeAllocation


class StateData:
    """The pod's claims, that for extended resources last, and what has been found out about them.

    Upstream's `stateData`.
    """

    __slots__ = (
        "allocations",
        "allocator",
        "by_node",
        "claims",
        "extended",
        "mappings",
        "node_claims",
        "outcomes",
        "reserved_uids",
        "unavailable",
        "wanted",
    )

    def __init__(self) -> None:
        self.claims: list[ResourceClaim] = []
        self.extended: int | None = None
        """Which of the claims is the one for extended resources."""
        self.wanted: Mapping[str, int] = {}
        """The extended resources that the pod requests."""
        self.allocator: Allocator | None = None
        self.by_node: dict[str, NodeAllocation] = {}
        self.outcomes: KeptOutcomes | None = None
        """What searches for the same have found on nodes; None where no outcomes are shared."""
        self.node_claims: dict[tuple[tuple[str, str], ...], NodeClaim] = {}
        """The claim for extended resources by what of them a node has not itself."""
        self.unavailable: dict[str, list[int]] = {}
        """By node, the allocated claims that it cannot reach, or whose devices have failed."""
        self.allocations: dict[int, AllocationResult] = {}
        """What Reserve has taken, by the claim's index."""
        self.reserved_uids: dict[int, str] = {}
        self.mappings: NodeClaim | None = None

    @property
    def is_empty(self) -> bool:
        """Say whether there is nothing to do for the pod."""
        return not self.claims

    @property
    def extended_claim(self) -> ResourceClaim | None:
        """The claim for extended resources, or None."""
        return None if self.extended is None else self.claims[self.extended]

    @property
    def has_user_claims(self) -> bool:
        """Say whether the pod names claims itself."""
        return len(self.claims) > (0 if self.extended is None else 1)

    @property
    def shared_outcomes(self) -> KeptOutcomes | None:
        """What is known of nodes, where that alone decides: nothing is allocated yet, or depends on a node's resources.

        None where each node has to be asked.
        """
        if self.extended is not None or any(claim.status.allocation is not None for claim in self.claims):
            return None
        return self.outcomes

    def to_allocate(self) -> Iterator[tuple[int, ResourceClaim]]:
        """Yield the claims that have no allocation."""
        return ((index, claim) for index, claim in enumerate(self.claims) if claim.status.allocation is None)
