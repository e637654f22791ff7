"""NodeResourcesAllocatable: prefers the smallest nodes, or the largest ones, by what they have in all.

Upstream plugin `NodeResourcesAllocatable`: a node scores the weighted mean of its allocatable resources (cpu in milli,
the rest in units), negative in the mode Least, stretched over the nodes that are left. What runs there does not matter.
Other resources than cpu, memory, ephemeral-storage, extended ones, hugepages and attachable volumes count as 0.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar, final

import msgspec
import numpy as np

from berth.plugin import (
    ColumnScorePlugin,
    CycleState,
    Dependency,
    Handle,
    NodeTable,
    NodeView,
    NormalizeScorePlugin,
    PodInfo,
    Promises,
    Rows,
    ScoreExplainingPlugin,
    ScorePlugin,
    Scores,
    SignaturePlugin,
    invalid,
)
from berth_plugins.normalize import stretched

LEAST, MOST = "Least", "Most"
COUNTED = frozenset({"cpu", "memory", "ephemeral-storage"})
WRAP = 2**64


class ResourceSpec(msgspec.Struct, frozen=True):
    """A resource and its weight."""

    name: str = ""
    weight: int = 0


class NodeResourcesAllocatableArgs(msgspec.Struct, frozen=True):
    """Which resources count, and whether the smallest or the largest nodes are preferred."""

    resources: tuple[ResourceSpec, ...] = ()
    mode: str = ""

    def defaulted(self) -> "NodeResourcesAllocatableArgs":
        """Fill in upstream's defaults: a millicore is worth a MiB, and the smallest nodes are preferred."""
        resources = self.resources or (ResourceSpec("cpu", 1 << 20), ResourceSpec("memory", 1))
        return NodeResourcesAllocatableArgs(resources, self.mode or LEAST)

    def validate(self, path: str) -> Iterable[str]:
        """Refuse weights that are not positive, and other modes."""
        for index, resource in enumerate(self.resources):
            if resource.weight <= 0:
                said = f"resource weight of {resource.name} should be a positive value, got :{resource.weight}"
                yield invalid(f"{path}.resources[{index}].weight", resource.weight, said)
        if self.mode not in (LEAST, MOST):
            yield invalid(f"{path}.mode", self.mode, "invalid support ModeType")


def is_counted(resource: str) -> bool:
    """Say whether a node's amount of a resource counts."""
    return resource in COUNTED or "/" in resource or resource.startswith(("hugepages-", "attachable-volumes-"))


def as_int64(number: int) -> int:
    """Return a number as it is in 64 bits, where sums that are too large wrap round."""
    return (number + WRAP // 2) % WRAP - WRAP // 2


@final
class NodeResourcesAllocatable(
    ScorePlugin, ColumnScorePlugin, NormalizeScorePlugin, SignaturePlugin, ScoreExplainingPlugin
):
    """Score."""

    name: ClassVar[str] = "NodeResourcesAllocatable"
    args_type: ClassVar[type[msgspec.Struct]] = NodeResourcesAllocatableArgs
    promises: ClassVar[Promises] = Promises(score_depends_on=frozenset({Dependency.NODE}))

    def __init__(self, args: NodeResourcesAllocatableArgs, handle: Handle) -> None:
        weights = {resource.name: resource.weight for resource in args.resources}
        sign = -1 if args.mode == LEAST else 1
        self._weights = {name: sign * weight for name, weight in weights.items() if is_counted(name)}
        self._total = sum(weights.values())
        self._mode = args.mode

    def signature(self, pod: PodInfo) -> tuple[()]:
        """All pods get the same scores."""
        return ()

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Return the weighted mean of what the node has, cut towards 0."""
        amount = as_int64(sum(node.allocatable.get(name, 0) * weight for name, weight in self._weights.items()))
        mean = abs(amount) // self._total
        return mean if amount >= 0 else -mean

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Do the same for many rows."""
        amounts = np.zeros(table.capacity, dtype=np.int64)[rows]
        for name, weight in self._weights.items():
            if (index := table.resource_index.get(name)) is not None:
                amounts += table.allocatable[index][rows] * weight
        means: Scores = np.sign(amounts) * (np.abs(amounts) // self._total)
        return means

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """Stretch the means over the nodes that are left."""
        return stretched(scores)

    def explain_score(self, pod: PodInfo, node: NodeView) -> Sequence[str]:
        """Return what the node has of each resource with its weight, and the mean."""
        parts = [f"{node.allocatable.get(name, 0)} {name} x{abs(weight)}" for name, weight in self._weights.items()]
        mean = abs(self.score(CycleState(), pod, node))
        better = "the least" if self._mode == LEAST else "the most"
        return [f"in all it has {' and '.join(parts)}: a mean of {mean}, and {better} is best"]
