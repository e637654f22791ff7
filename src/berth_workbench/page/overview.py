"""The cluster in a few numbers: how full it is, how much of what is free can be used, and which nodes are fullest."""

from collections.abc import Sequence

import msgspec
import numpy as np

from berth.decisions.node_columns import NodeColumns, ResourceAmounts
from berth_workbench.page.model import NodeLine, node_lines

FULLEST = 8


class ResourceFill(msgspec.Struct, frozen=True, rename="camel"):
    """One resource over all nodes: `cpu` in thousandths, everything else in whole units."""

    name: str
    requested: int
    allocatable: int
    free: int
    """What no pod has requested, cordoned nodes included."""
    usable: int | None
    """The part of `free` that pods of the cluster's average shape can have; None where it is in no such shape."""

    @property
    def share(self) -> float | None:
        """What part of it is requested; more than 1 where too much is."""
        return self.requested / self.allocatable if self.allocatable else None


class Overview(msgspec.Struct, frozen=True, rename="camel"):
    """What the first page tells of the nodes."""

    nodes: int
    cordoned: int
    pods: int
    fills: tuple[ResourceFill, ...]
    average: dict[str, float]
    """What an average pod requests of CPU (thousandths) and memory (bytes)."""
    more: int
    """How many more pods of that shape fit, by requests and pod limits alone."""
    fullest: tuple[NodeLine, ...]
    """By the resource of which most is requested; the fullest first."""
    over: int
    """On how many nodes more is requested of something than there is."""


def overview(columns: NodeColumns) -> Overview:
    """Sum the columns up."""
    pods = sum(columns.pods)
    shape = [each for each in columns.resources if each.name in ("cpu", "memory")]
    average = {each.name: sum(each.requested) / pods for each in shape} if pods else {}
    fits = _fitting(columns, shape, average)
    more = int(fits.sum())
    lines = sorted(node_lines(columns), key=lambda line: (-_highest(line), line.name))
    usable = {name: more * value for name, value in average.items()}
    return Overview(
        nodes=columns.total,
        cordoned=sum(columns.unschedulable),
        pods=pods,
        fills=tuple(_fill(each, usable.get(each.name)) for each in columns.resources),
        average=average,
        more=more,
        fullest=tuple(lines[:FULLEST]),
        over=sum(_highest(line) > 1 for line in lines),
    )  # fmt: skip


def _fitting(columns: NodeColumns, shape: Sequence[ResourceAmounts], average: dict[str, float]) -> np.ndarray:
    """Return how many more average pods fit on each node; none on cordoned ones."""
    room = np.array(columns.allowed_pods, dtype=np.float64) - np.array(columns.pods, dtype=np.float64)
    for each in shape:
        if average.get(each.name):
            free = np.array(each.allocatable, dtype=np.float64) - np.array(each.requested, dtype=np.float64)
            room = np.minimum(room, np.floor(free / average[each.name]))
    fits: np.ndarray = np.where(np.array(columns.unschedulable, dtype=bool), 0, np.maximum(room, 0))
    return fits if any(average.values()) else np.zeros_like(fits)


def _fill(each: ResourceAmounts, usable: float | None) -> ResourceFill:
    free = sum(max(0, has - asked) for has, asked in zip(each.allocatable, each.requested, strict=True))
    return ResourceFill(
        each.name, sum(each.requested), sum(each.allocatable), free, None if usable is None else min(free, int(usable))
    )


def _highest(line: NodeLine) -> float:
    return max((share for share in line.shares.values() if share is not None), default=0.0)
