"""NodeResourcesBalancedAllocation: prefer nodes whose resources the pod brings closer to being used evenly.

Upstream plugin NodeResourcesBalancedAllocation, v1.36. A node's balance is 100 times one less the standard deviation
of the used fractions of its resources; the score grows with the balance that the pod gains there: 75 where it changes
nothing. What pods request counts as it is, without defaults, and a pod that requests none of the resources is not
scored at all.
"""

from collections.abc import Iterator, Sequence
from math import sqrt
from typing import ClassVar, final

import msgspec
import numpy as np

from berth.config.errors import duplicate, invalid
from berth.framework.cycle_state import CycleState
from berth.framework.handle import Handle
from berth.framework.interface import (
    MAX_NODE_SCORE,
    ColumnScorePlugin,
    FeasibleNodes,
    PreScorePlugin,
    Rows,
    RowScorePlugin,
    ScorePlugin,
    Scores,
    SignaturePlugin,
)
from berth.framework.promises import Dependency, Promises
from berth.framework.status import SKIP, Status
from berth.plugins.resources.args import DEFAULT_RESOURCES, ResourceSpec, defaulted_resources
from berth.plugins.resources.columns import Floats, KeptColumn, Scratch, picked, room, row_count
from berth.plugins.resources.strategies import ResourceScorer, Use, UseColumn, WeightedRequest
from berth.state.node_view import NodeView
from berth.state.pod_info import LABELS, PodInfo
from berth.state.table import NodeTable

HALF = MAX_NODE_SCORE // 2

KEPT_SETS = 16
"""For how many sets of resources the nodes' present balance is kept."""


class NodeResourcesBalancedAllocationArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The plugin's args: resources, all of the same weight."""

    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES

    def defaulted(self) -> "NodeResourcesBalancedAllocationArgs":
        """Fill in resources and weights."""
        return NodeResourcesBalancedAllocationArgs(defaulted_resources(self.resources))

    def validate(self, path: str) -> Iterator[str]:
        """Say what is wrong, one sentence each."""
        for index, spec in enumerate(self.resources):
            where = f"{path}.resources[{index}]"
            if any(spec.name == other.name for other in self.resources[:index]):
                yield duplicate(f"{where}.name", spec.name)
            if spec.weight != 1:
                yield invalid(f"{where}.weight", spec.weight, "must be 1")


def balance(fractions: Sequence[float]) -> int:
    """Return 0 to 100 for the used fractions of a node's resources: 100 where they are equal."""
    count = len(fractions)
    if count < 2:
        deviation = 0.0
    elif count == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    else:
        # Not sum(): newer Pythons compensate its rounding, and the same floats must come out everywhere.
        total = squares = 0.0
        for fraction in fractions:
            total += fraction
        mean = total / count
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = sqrt(squares / count)
    return int((1 - deviation) * MAX_NODE_SCORE)


def balance_gain(before: int, after: int) -> int:
    """Return the score of a node whose balance the pod changes from `before` to `after`."""
    return HALF + (HALF + after - before) // 2


def balanced_score(uses: Sequence[Use], wanted: Sequence[WeightedRequest]) -> int:
    """Return the score of a node; `uses` include the pod, `wanted` is what it adds."""
    after, before = [], []
    for (has, asked, _), (_, amount, _) in zip(uses, wanted, strict=True):
        if has:
            after.append(min(asked / has, 1.0))
            before.append(min((asked - amount) / has, 1.0))
    return balance_gain(balance(before), balance(after))


def write_balanced(before: Floats, uses: Sequence[UseColumn], scratch: Scratch, out: Scores) -> None:
    """Write the score of each row to `out`, int64 (rows,), where `before` is its balance without the pod."""
    after = balance_columns(uses, scratch)
    np.subtract(after, before, out=after)
    np.add(after, 3 * HALF, out=after)  # the half that is added after halving, before it; never negative
    np.multiply(after, 0.5, out=after)
    out[:] = after


def balance_columns(uses: Sequence[UseColumn], scratch: Scratch, *, with_pod: bool = True) -> Floats:
    """Return the balance of each row, whole numbers as float64 (rows,), in one of `scratch`'s arrays."""
    size = len(uses[0].column.amounts)
    deviation, *room = scratch.floats(len(uses) + 5, size)
    fractions = room[: len(uses)]
    for use, out in zip(uses, fractions, strict=True):
        _write_fraction(use, out, scratch.ones(size), with_pod=with_pod)
    if len(uses) == 2 and all(use.column.present is None for use in uses):
        np.subtract(fractions[0], fractions[1], out=deviation)
        np.multiply(deviation, 0.5, out=deviation)
        np.abs(deviation, out=deviation)
    else:
        _write_deviation(uses, fractions, room[len(uses) :], deviation)
    np.subtract(1.0, deviation, out=deviation)
    np.multiply(deviation, MAX_NODE_SCORE, out=deviation)
    return np.floor(deviation, out=deviation)


def _write_fraction(use: UseColumn, out: Floats, ones: Floats, *, with_pod: bool) -> None:
    """Write to `out`, float64 (rows,), the used fraction of a resource, 0 where a row has none of it."""
    asked = np.add(use.column.asked, use.amount, out=out) if with_pod and use.amount else use.column.asked
    np.divide(asked, use.column.divisors, out=out)
    np.minimum(out, ones, out=out)


def _write_deviation(uses: Sequence[UseColumn], fractions: Sequence[Floats], room: list[Floats], out: Floats) -> None:
    """Write to `out` the standard deviation of the fractions of those resources that a row has."""
    count, mean, counted, largest = room
    count.fill(0)
    mean.fill(0)
    for use, fraction in zip(uses, fractions, strict=True):
        np.add(count, 1 if use.column.present is None else use.column.present, out=count)
        np.add(mean, fraction, out=mean)
    np.maximum(count, 1, out=counted)
    np.divide(mean, counted, out=mean)
    half_distance = _half_distance(uses, fractions, largest)
    out.fill(0)
    for use, fraction in zip(uses, fractions, strict=True):
        np.subtract(fraction, mean, out=fraction)
        np.multiply(fraction, fraction, out=fraction)
        if use.column.present is not None:
            np.multiply(fraction, use.column.present, out=fraction)
        np.add(out, fraction, out=out)
    np.divide(out, counted, out=out)
    np.sqrt(out, out=out)
    # Upstream computes the common case of two without squares, which gives other floats in the last digits.
    np.copyto(out, half_distance, where=count == 2)
    np.copyto(out, 0, where=count < 2)


def _half_distance(uses: Sequence[UseColumn], fractions: Sequence[Floats], largest: Floats) -> Floats:
    """Return half the distance between the largest and the smallest fraction: where a row has two, their deviation."""
    largest.fill(0)
    smallest = np.ones(len(largest))
    for use, fraction in zip(uses, fractions, strict=True):
        np.maximum(largest, fraction, out=largest)
        if use.column.present is None:
            np.minimum(smallest, fraction, out=smallest)
        else:
            np.minimum(smallest, fraction, out=smallest, where=use.column.present)
    return np.multiply(np.subtract(largest, smallest, out=smallest), 0.5, out=smallest)


@final
class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin, ColumnScorePlugin, RowScorePlugin, SignaturePlugin):
    """The plugin."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    args_type: ClassVar[type[NodeResourcesBalancedAllocationArgs]] = NodeResourcesBalancedAllocationArgs
    promises: ClassVar[Promises] = Promises(
        score_depends_on=frozenset({Dependency.NODE, Dependency.PODS_ON_NODE}),
        scores_by_row=True,
        ignores=frozenset({LABELS}),
        pre_score_is_pure=True,
    )

    __slots__ = ("_before", "_key", "_scorer", "_scratch")

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        self._scorer = ResourceScorer(args.resources, with_defaults=False)
        self._scratch = Scratch()
        self._before: dict[tuple[str, ...], tuple[KeptColumn, tuple[WeightedRequest, ...]]] = {}
        self._key = object()

    def signature(self, pod: PodInfo) -> tuple[WeightedRequest, ...]:
        """Return what the pod requests of the scored resources; nothing where it requests none of them."""
        found = pod.fragments.get(self._key)
        if found is None:
            wanted = self._scorer.wanted(pod.requests)
            found = pod.fragments[self._key] = wanted if any(want.amount for want in wanted) else ()
        assert isinstance(found, tuple)
        return found

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> Status | None:
        """Skip a pod that requests nothing: balance would send all of those to the same node."""
        return None if self.signature(pod) else SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Score the balance that the pod gains on the node; 0 for a pod that PreScore would skip, were it asked."""
        wanted = self.signature(pod)
        return balanced_score(self._scorer.node_uses(wanted, node), wanted) if wanted else 0

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Score many rows."""
        wanted = self.signature(pod)
        if not wanted:
            return np.zeros(row_count(table, rows), dtype=np.int64)
        computed = self._scorer.columns(table).worth_computing(rows, table)
        before = self._balance_before(wanted, table)[computed]
        scores, column = room(computed, rows, table, np.int64)
        write_balanced(before, self._scorer.column_uses(wanted, table, computed), self._scratch, scores)
        return picked(column, computed, rows)

    def score_row(self, state: CycleState, pod: PodInfo, table: NodeTable, row: int) -> int:
        """Score one row."""
        wanted = self.signature(pod)
        return balanced_score(self._scorer.row_uses(wanted, table, row), wanted) if wanted else 0

    def _balance_before(self, wanted: tuple[WeightedRequest, ...], table: NodeTable) -> Floats:
        """Return the balance of each row without the pod, which is the same for all pods of these resources."""
        alike = tuple([want.resource for want in wanted])
        kept = self._before.get(alike)
        if kept is None:
            if len(self._before) >= KEPT_SETS:
                self._before.clear()
            kept = self._before[alike] = KeptColumn(table), tuple([want._replace(amount=0) for want in wanted])
        column, nothing = kept

        def make(rows: Rows) -> Floats:
            uses = self._scorer.column_uses(nothing, table, rows)
            return balance_columns(uses, self._scratch, with_pod=False).copy()

        return column.of(make)
