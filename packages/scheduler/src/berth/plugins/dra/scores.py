"""How good a node's devices are: the earlier the alternative of a list that was available, the better.

Claims and what was found for them go in, a number comes out; the plugin scales it. Source: the plugin's
computeScore, v1.36.
"""

from collections.abc import Iterable, Iterator, Sequence

from berth.api.dra import ResourceClaim
from berth.plugins.dra.allocator import ClaimDevices

MAX_ALTERNATIVES = 8
"""The longest list of alternatives; the first alternative scores this much, each later one a point less."""


def allocation_score(claims: Iterable[ResourceClaim], found: Sequence[ClaimDevices]) -> int:
    """Return the sum over all requests with alternatives; `found` is for the claims that had no allocation."""
    left = iter(found)
    return sum(_claim_score(claim, set(_names(claim, left))) for claim in claims)


def has_alternatives(claims: Iterable[ResourceClaim]) -> bool:
    """Say whether any request leaves a choice; where none does every node scores 0."""
    return any(request.first_available for claim in claims for request in claim.spec.devices.requests)


def _names(claim: ResourceClaim, left: Iterator[ClaimDevices]) -> Iterable[str]:
    allocation = claim.status.allocation
    if allocation is not None:
        return [result.request for result in allocation.devices.results]
    return [taken.ask.full_name for taken in next(left).taken]


def _claim_score(claim: ResourceClaim, names: set[str]) -> int:
    return sum(
        MAX_ALTERNATIVES - position
        for request in claim.spec.devices.requests
        for position, alternative in enumerate(request.first_available)
        if f"{request.name}/{alternative.name}" in names
    )
