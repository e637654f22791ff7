"""Scores by how full a node would be: what the resource plugins read, and the strategies of NodeResourcesFit.

A `ResourceScorer` is made from the `resources` of a plugin's args. It turns a pod into what that pod adds to each
resource (`WeightedRequest`), and nodes, single or by column, into what a strategy takes. A resource other than CPU,
memory and storage is left out of the score unless the pod asks for it.

A strategy scores each resource from 0 to 100 and takes the weighted mean over the resources that the node has. Each
comes twice: `node_score` for one node, in integers (the specification), and `columns` for many, in float64 arrays
that hold whole numbers. What is requested includes the incoming pod.
Source of the rules: pkg/scheduler/framework/plugins/noderesources, v1.36.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from berth.api.pod_resources import CPU, MEMORY
from berth.config.shape import MAX_SHAPE_SCORE, MAX_UTILIZATION
from berth.framework.interface import MAX_NODE_SCORE, Rows, Scores
from berth.plugins.resources.args import ResourceSpec, ShapePoint
from berth.plugins.resources.columns import Floats, ResourceColumn, ResourceColumns, Scratch, row_amounts
from berth.plugins.resources.names import PLAIN_RESOURCES
from berth.state.node_view import NodeView
from berth.state.table import NodeTable

Use = tuple[int, int, int]
"""One resource of one node: what it has, what is asked of it with the pod, and what that weighs."""


class UseColumn(NamedTuple):
    """One resource of many rows, what the pod adds, and what that weighs."""

    column: ResourceColumn
    amount: int
    weight: int


class ScoringFormula(Protocol):
    """A way of scoring, in both forms."""

    def node_score(self, uses: Iterable[Use]) -> int: ...

    def columns(self, uses: Sequence[UseColumn], scratch: Scratch, out: Scores) -> None: ...


def least_allocated_score(allocatable: int, requested: int) -> int:
    """Return the percentage of a resource that is left; 0 where more is requested than there is."""
    return 0 if requested > allocatable else (allocatable - requested) * MAX_NODE_SCORE // allocatable


def most_allocated_score(allocatable: int, requested: int) -> int:
    """Return the percentage of a resource that is in use, at most 100."""
    return min(requested, allocatable) * MAX_NODE_SCORE // allocatable


def shape_table(shape: Sequence[ShapePoint]) -> tuple[int, ...]:
    """Return the score for each utilization from 0 to 100 percent, linear between the points of the shape."""
    return tuple(_on_shape(shape, utilization) for utilization in range(MAX_UTILIZATION + 1))


def _on_shape(shape: Sequence[ShapePoint], utilization: int) -> int:
    scale = MAX_NODE_SCORE // MAX_SHAPE_SCORE
    left = shape[0]
    for right in shape:
        if utilization <= right.utilization:
            if right is left:
                break
            rise = (right.score - left.score) * scale * (utilization - left.utilization)
            return left.score * scale + _truncated(rise, right.utilization - left.utilization)
        left = right
    return left.score * scale


def _truncated(dividend: int, divisor: int) -> int:
    quotient = abs(dividend) // divisor
    return quotient if dividend >= 0 else -quotient


class LeastAllocated:
    """The emptier, the better."""

    __slots__ = ()

    def node_score(self, uses: Iterable[Use]) -> int:
        """Return the weighted mean of what is left."""
        return _mean(uses, least_allocated_score)

    def columns(self, uses: Sequence[UseColumn], scratch: Scratch, out: Scores) -> None:
        """Write the score of each row to `out`, int64 (rows,)."""
        _write_mean(uses, scratch, out, _left)


class MostAllocated:
    """The fuller, the better."""

    __slots__ = ()

    def node_score(self, uses: Iterable[Use]) -> int:
        """Return the weighted mean of what is in use."""
        return _mean(uses, most_allocated_score)

    def columns(self, uses: Sequence[UseColumn], scratch: Scratch, out: Scores) -> None:
        """Write the score of each row to `out`, int64 (rows,)."""
        _write_mean(uses, scratch, out, _in_use)


class RequestedToCapacityRatioFormula:
    """As the shape says; resources that score 0 do not count in the mean, which is rounded half up."""

    __slots__ = ("_column", "_table")

    def __init__(self, shape: Sequence[ShapePoint]) -> None:
        self._table = shape_table(shape)
        self._column = np.array(self._table, dtype=np.float64)

    def node_score(self, uses: Iterable[Use]) -> int:
        """Return the weighted mean of the shape's values."""
        total = weights = 0
        for allocatable, requested, weight in uses:
            score = self._table[most_allocated_score(allocatable, requested)] if allocatable else 0
            if score > 0:
                total += score * weight
                weights += weight
        return (2 * total + weights) // (2 * weights) if weights else 0

    def columns(self, uses: Sequence[UseColumn], scratch: Scratch, out: Scores) -> None:
        """Write the score of each row to `out`, int64 (rows,)."""
        size = len(out)
        total, weights, buffer = scratch.floats(3, size)
        total.fill(0)
        weights.fill(0)
        for use in uses:
            _in_use(use, buffer, scratch.zeros(size))
            scores = self._column[buffer.astype(np.intp)]
            if use.column.present is not None:
                scores *= use.column.present
            weights += (scores > 0) * use.weight
            scores *= use.weight
            total += scores
        np.maximum(weights, scratch.ones(size), out=weights)
        np.divide(total, weights, out=total)
        np.add(total, 0.5, out=total)
        out[:] = total


def _left(use: UseColumn, out: Floats, zeros: Floats) -> None:
    """Write to `out`, float64 (rows,), how many whole percent of a resource are left."""
    np.subtract(use.column.free, use.amount, out=out)
    np.maximum(out, zeros, out=out)
    _to_percent(use.column, out)


def _in_use(use: UseColumn, out: Floats, zeros: Floats) -> None:
    """Write to `out`, float64 (rows,), how many whole percent of a resource are in use, at most 100."""
    np.add(use.column.asked, use.amount, out=out)
    np.minimum(out, use.column.amounts, out=out)
    np.maximum(out, zeros, out=out)
    _to_percent(use.column, out)


def _to_percent(column: ResourceColumn, out: Floats) -> None:
    if not column.exact:
        out[:] = out.astype(np.int64) * MAX_NODE_SCORE // np.maximum(column.amounts, 1).astype(np.int64)
        return
    np.multiply(out, MAX_NODE_SCORE, out=out)
    np.divide(out, column.divisors, out=out)
    np.floor(out, out=out)


def _mean(uses: Iterable[Use], score: Callable[[int, int], int]) -> int:
    total = weights = 0
    for allocatable, requested, weight in uses:
        if allocatable:
            total += score(allocatable, requested) * weight
            weights += weight
    return total // weights if weights else 0


def _write_mean(
    uses: Sequence[UseColumn], scratch: Scratch, out: Scores, score: Callable[[UseColumn, Floats, Floats], None]
) -> None:
    """Write to `out`, int64 (rows,), the weighted mean of the resources' scores over those that a row has."""
    size = len(out)
    total, buffer, weights = scratch.floats(3, size)
    zeros = scratch.zeros(size)
    target = total
    for use in uses:
        score(use, target, zeros)
        if use.weight != 1:
            np.multiply(target, use.weight, out=target)
        if target is buffer:
            np.add(total, buffer, out=total)
        target = buffer
    if not uses:
        out.fill(0)
        return
    if all(use.column.present is None for use in uses):
        np.divide(total, sum(use.weight for use in uses), out=total)
    else:
        np.divide(total, _weight_column(uses, weights, scratch.ones(size)), out=total)
    out[:] = total


def _weight_column(uses: Sequence[UseColumn], out: Floats, ones: Floats) -> Floats:
    """Write to `out`, float64 (rows,), the weights of the resources that a row has, at least 1."""
    out.fill(0)
    for use in uses:
        present = use.column.present
        np.add(out, use.weight if present is None else present * use.weight, out=out)
    return np.maximum(out, ones, out=out)


class WeightedRequest(NamedTuple):
    """What a pod adds to one of the scored resources."""

    resource: str
    amount: int
    weight: int


class ResourceScorer:
    """Reads the resources that a plugin scores. `with_defaults`: count CPU and memory as if every container asked."""

    __slots__ = ("_resources", "_with_defaults")

    def __init__(self, resources: Iterable[ResourceSpec], *, with_defaults: bool) -> None:
        self._resources = tuple((spec.name, spec.weight) for spec in resources)
        self._with_defaults = with_defaults

    def wanted(self, requests: Mapping[str, int]) -> tuple[WeightedRequest, ...]:
        """Return what a pod with these requests adds, resource by resource."""
        return tuple(
            [
                WeightedRequest(name, requests.get(name, 0), weight)
                for name, weight in self._resources
                if name in PLAIN_RESOURCES or requests.get(name, 0)
            ]
        )

    def node_uses(self, wanted: Sequence[WeightedRequest], node: NodeView) -> list[Use]:
        """Return how a node's resources would be used with the pod there."""
        has = node.allocatable
        return [
            (has.get(resource, 0), self._asked_of(node, resource) + amount, weight)
            for resource, amount, weight in wanted
        ]

    def row_uses(self, wanted: Sequence[WeightedRequest], table: NodeTable, row: int) -> list[Use]:
        """Return the same for a row."""
        uses = []
        for resource, amount, weight in wanted:
            has, asked = row_amounts(table, resource, row, with_defaults=self._with_defaults)
            uses.append((has, asked + amount, weight))
        return uses

    def columns(self, table: NodeTable) -> ResourceColumns:
        """Return the columns that are read, up to date."""
        return ResourceColumns.shared(table, with_defaults=self._with_defaults)

    def column_uses(self, wanted: Sequence[WeightedRequest], table: NodeTable, rows: Rows) -> list[UseColumn]:
        """Return the same for many rows, as arrays."""
        of = self.columns(table).of
        return [UseColumn(of(table, resource, rows), amount, weight) for resource, amount, weight in wanted]

    def _asked_of(self, node: NodeView, resource: str) -> int:
        if self._with_defaults and resource == CPU:
            return node.scoring_requested[0]
        if self._with_defaults and resource == MEMORY:
            return node.scoring_requested[1]
        return node.requested.get(resource, 0)
