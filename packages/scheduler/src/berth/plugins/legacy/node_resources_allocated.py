"""NodeResourcesLeastAllocated, NodeResourcesMostAllocated and RequestedToCapacityRatio of v1.20.

Each scores every configured resource from 0 to 100 and takes the weighted mean. Unlike today's strategies, a resource
that the node does not have counts, with 0 or, in a ratio, as if used up.
RequestedToCapacityRatio leaves resources that score 0 out of its mean, and rounds it.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, final

import msgspec
import numpy as np

from berth.config.errors import invalid
from berth.config.shape import MAX_UTILIZATION, shape_errors
from berth.framework.handle import Handle
from berth.framework.interface import MAX_NODE_SCORE, Scores
from berth.framework.promises import Promises
from berth.plugins.legacy.resource_uses import Int64, LegacyUseColumn, ResourceScore, Use
from berth.plugins.resources.args import (
    DEFAULT_RESOURCES,
    ResourceSpec,
    ShapePoint,
    resource_errors,
)
from berth.plugins.resources.strategies import shape_table


class AllocatedArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The resources that are scored, and what each weighs."""

    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES

    def defaulted(self) -> "AllocatedArgs":
        """Fill in absent weights, and CPU and memory where no resource is named."""
        given = tuple(spec if spec.weight else ResourceSpec(spec.name, 1) for spec in self.resources)
        return AllocatedArgs(given or DEFAULT_RESOURCES)

    def validate(self, path: str) -> Iterator[str]:
        """Name weights out of range."""
        return resource_errors(self.resources, f"{path}.resources")


def least_requested_score(requested: int, capacity: int) -> int:
    """Return the percentage left; 0 where there is no capacity, or less than is requested."""
    return 0 if capacity == 0 or requested > capacity else (capacity - requested) * MAX_NODE_SCORE // capacity


def most_requested_score(requested: int, capacity: int) -> int:
    """Return the percentage requested, at most 100; 0 where there is no capacity."""
    return min(requested, capacity) * MAX_NODE_SCORE // capacity if capacity else 0


def utilization(requested: int, capacity: int) -> int:
    """Return 100 less the percentage left; 100 where there is no capacity, or less than is requested."""
    if capacity == 0 or requested > capacity:
        return MAX_UTILIZATION
    return MAX_UTILIZATION - (capacity - requested) * MAX_UTILIZATION // capacity


def _percent(part: Int64, use: LegacyUseColumn) -> Int64:
    """Return `part` in whole percent of the capacity; 0 where there is no capacity, or less than is requested."""
    fits = (use.allocatable != 0) & (use.requested <= use.allocatable)
    return np.where(fits, part * MAX_NODE_SCORE // np.maximum(use.allocatable, 1), 0)


class NodeResourcesLeastAllocated(ResourceScore):
    """Score: the emptier, the better."""

    name: ClassVar[str] = "NodeResourcesLeastAllocated"
    promises: ClassVar[Promises] = ResourceScore.promises
    args_type: ClassVar[type[msgspec.Struct]] = AllocatedArgs

    def __init__(self, args: AllocatedArgs, handle: Handle) -> None:
        super().__init__((spec.name, spec.weight) for spec in args.resources)

    def formula(self, uses: Sequence[Use]) -> int:
        """Return the weighted mean of what is left."""
        total = sum(least_requested_score(use.requested, use.allocatable) * use.weight for use in uses)
        return total // sum(use.weight for use in uses)

    def formula_columns(self, uses: Sequence[LegacyUseColumn], size: int) -> Scores:
        """Return the same for many rows."""
        return _mean([_percent(use.allocatable - use.requested, use) for use in uses], uses)


@final
class NodeResourcesMostAllocated(NodeResourcesLeastAllocated):
    """Score: the fuller, the better."""

    name: ClassVar[str] = "NodeResourcesMostAllocated"
    promises: ClassVar[Promises] = NodeResourcesLeastAllocated.promises

    def formula(self, uses: Sequence[Use]) -> int:
        """Return the weighted mean of what is asked for."""
        total = sum(most_requested_score(use.requested, use.allocatable) * use.weight for use in uses)
        return total // sum(use.weight for use in uses)

    def formula_columns(self, uses: Sequence[LegacyUseColumn], size: int) -> Scores:
        """Return the same for many rows."""
        return _mean([_used_percent(use) for use in uses], uses)


def _used_percent(use: LegacyUseColumn) -> Int64:
    return np.minimum(use.requested, use.allocatable) * MAX_NODE_SCORE // np.maximum(use.allocatable, 1)


def _mean(scores: Sequence[Int64], uses: Sequence[LegacyUseColumn]) -> Scores:
    total: Scores = sum(
        (score * use.weight for score, use in zip(scores, uses, strict=True)), start=np.zeros_like(scores[0])
    )
    return total // sum(use.weight for use in uses)


class RatioArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The score, 0 to 10, by utilization in percent; and the resources with their weights."""

    shape: tuple[ShapePoint, ...]
    resources: tuple[ResourceSpec, ...] = ()

    def defaulted(self) -> "RatioArgs":
        """Fill in absent weights, and CPU and memory where no resource is named."""
        return RatioArgs(self.shape, AllocatedArgs(self.resources).defaulted().resources)

    def validate(self, path: str) -> Iterator[str]:
        """Name what is wrong with shape and resources."""
        yield from shape_errors(self.shape, f"{path}.shape")
        for index, spec in enumerate(self.resources):
            if spec.weight < 0:
                yield invalid(f"{path}.resources[{index}].weight", spec.weight, "must not be negative")


@final
class RequestedToCapacityRatio(ResourceScore):
    """Score: as the shape says."""

    name: ClassVar[str] = "RequestedToCapacityRatio"
    promises: ClassVar[Promises] = ResourceScore.promises
    args_type: ClassVar[type[msgspec.Struct]] = RatioArgs

    def __init__(self, args: RatioArgs, handle: Handle) -> None:
        super().__init__((spec.name, spec.weight) for spec in args.resources)
        self._shape = shape_table(args.shape)
        self._column = np.array(self._shape, dtype=np.int64)

    def formula(self, uses: Sequence[Use]) -> int:
        """Return the weighted mean of the shape's values that are above 0, rounded half up."""
        scored = [(self._shape[utilization(use.requested, use.allocatable)], use.weight) for use in uses]
        weights = sum(weight for score, weight in scored if score)
        total = sum(score * weight for score, weight in scored)
        return (2 * total + weights) // (2 * weights) if weights else 0

    def formula_columns(self, uses: Sequence[LegacyUseColumn], size: int) -> Scores:
        """Return the same for many rows."""
        total: Scores = np.zeros(size, dtype=np.int64)
        weights: Scores = np.zeros(size, dtype=np.int64)
        for use in uses:
            scores = self._column[MAX_UTILIZATION - _percent(use.allocatable - use.requested, use)]
            total += scores * use.weight
            weights += (scores > 0) * use.weight
        return np.where(weights > 0, (2 * total + weights) // np.maximum(2 * weights, 1), 0)
