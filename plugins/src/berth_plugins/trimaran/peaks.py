"""Peaks: prefers nodes where the pod raises the power that the node draws the least.

Upstream plugin `Peaks`. A node's model says that it draws k0 + k1·e^(k2·x) watts at x percent of CPU; its raw score is
how much more that is with the pod's CPU request, in units of 10^-15, and the least comes out as 100. As upstream, nodes
without metrics or model, and those that would be over 100 %, have the raw score 0 and so come out best.
"""

from collections.abc import Iterable, Sequence
from math import ldexp
from typing import ClassVar, final

import msgspec
import numpy as np

from berth.plugin import (
    MAX_NODE_SCORE,
    ColumnScorePlugin,
    CycleState,
    Dependency,
    Handle,
    Node,
    NodeTable,
    NodeView,
    NormalizeScorePlugin,
    Objects,
    PodInfo,
    Promises,
    Rows,
    ScoreExplainingPlugin,
    ScorePlugin,
    Scores,
    SignaturePlugin,
    milli_value,
    required,
)
from berth_plugins.trimaran.metrics import AVERAGE, CPU, LATEST, LOAD_WATCHER, NOT_MEASURED, LoadWatcher

UNITS_PER_WATT = 1e15
LOWEST = -(2**63)


LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.69314718055966295651160180568695068359375, 0.28235290563031577122588448175013436e-12
"""ln 2 in two parts, so that a multiple of it can be taken off without loss."""
TAYLOR = tuple(1 / factorial for factorial in (40320, 5040, 720, 120, 24, 6, 2, 1))


def exponential(x: float) -> float:
    """Return e^x, with the last bit that Go has on amd64. Raises OverflowError.

    Both sides of a raw score are cut to a whole number after a multiplication by 10^15, so the last bit of the two
    exponentials may decide whether the most thirsty node comes out as 0 or 1. Go's library reduces the argument by
    multiples of ln 2, then to a sixteenth, and squares a Taylor polynomial back (N. Shibata, "Efficient evaluation
    methods of elementary functions suitable for SIMD computation", 2010); C's rounds a little better.
    """
    exponent = round(x * LOG2_E)
    rest = (x - exponent * LN2_HIGH - exponent * LN2_LOW) / 16
    series = 0.0
    for coefficient in TAYLOR:
        series = series * rest + coefficient
    less_1 = series * rest
    for _ in range(4):
        less_1 *= less_1 + 2  # (1 + y)² - 1
    return ldexp(less_1 + 1, exponent)


class PowerModel(msgspec.Struct, frozen=True):
    """What a node draws."""

    k0: float = 0.0
    k1: float = 0.0
    k2: float = 0.0


class PeaksArgs(msgspec.Struct, frozen=True):
    """The load watcher and the models of nodes by name; both spelt as upstream reads them."""

    WatcherAddress: str = ""
    NodePowerModel: dict[str, PowerModel] = {}

    def validate(self, path: str) -> Iterable[str]:
        """Refuse args that lack one of both."""
        if not self.WatcherAddress:
            yield required(f"{path}.WatcherAddress", "the address of a load watcher")
        if not self.NodePowerModel:
            yield required(f"{path}.NodePowerModel", "what nodes draw, by their names")


def requested_milli(pod: PodInfo) -> int:
    """Return the CPU that a pod's containers request, sidecars included; overhead only where they request any."""
    spec = pod.spec
    total = sum(milli_value(each.resources.requests.get("cpu", 0)) for each in spec.containers)
    sidecars = 0
    for container in spec.init_containers:
        asked = milli_value(container.resources.requests.get("cpu", 0))
        if container.restart_policy == "Always":
            total, sidecars = total + asked, sidecars + asked
            asked = 0
        total = max(total, sidecars + asked)
    return total + milli_value(spec.overhead.get("cpu", 0)) if total else 0


@final
class Peaks(ScorePlugin, ColumnScorePlugin, NormalizeScorePlugin, SignaturePlugin, ScoreExplainingPlugin):
    """Score."""

    name: ClassVar[str] = "Peaks"
    args_type: ClassVar[type[msgspec.Struct]] = PeaksArgs
    promises: ClassVar[Promises] = Promises(score_depends_on=frozenset({Dependency.NODE, Objects((LOAD_WATCHER,))}))

    def __init__(self, args: PeaksArgs, handle: Handle) -> None:
        self._watcher = LoadWatcher(handle, args.WatcherAddress)
        self._models = args.NodePowerModel

    def signature(self, pod: PodInfo) -> int:
        """Pods that request the same CPU get the same scores."""
        return requested_milli(pod)

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Return how much more the node would draw."""
        return self._more(requested_milli(pod), node.node)

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Do the same for many rows; only nodes with a model cost a step."""
        scores = np.zeros(table.capacity, dtype=np.int64)
        asked = requested_milli(pod)
        for name in self._models:
            row = table.row_of.get(name)
            if row is not None and table.valid[row]:
                scores[row] = self._more(asked, table.node(row))
        return scores[rows]

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """Turn them round: the least is 100. Where all are 0, all stay 0."""
        least, most = scores.min(initial=2**63 - 1), scores.max(initial=LOWEST)
        if least == most == 0:
            return scores
        above = (scores - least).astype(np.float64)
        shares = MAX_NODE_SCORE * above / float(most - least) if most != least else above
        turned: Scores = MAX_NODE_SCORE - shares.astype(np.int64)
        return turned

    def explain_score(self, pod: PodInfo, node: NodeView) -> Sequence[str]:
        """Return the measured load, its age, and how much more the node would draw."""
        model, used = self._models.get(node.name), self._used_percent(node.name)
        if used is None:
            return [NOT_MEASURED]
        measured = f"CPU {used:.4g} %, measured {self._watcher.age}"
        if model is None:
            return [measured, "no model says what this node draws"]
        capacity_milli, asked_milli = milli_value(node.node.status.capacity.get("cpu", 0)), requested_milli(pod)
        then = used + 100 * asked_milli / capacity_milli if capacity_milli else 0.0
        if then > 100:
            return [measured, f"{then:.4g} % with the pod, which is more than there is: no power counts"]
        more = self._more(asked_milli, node.node) / UNITS_PER_WATT
        return [measured, f"{then:.4g} % with the pod, which draws {more:.4g} W more"]

    def _more(self, asked_milli: int, node: Node) -> int:
        model, used = self._models.get(node.metadata.name), self._used_percent(node.metadata.name)
        if model is None or used is None:
            return 0
        capacity_milli = milli_value(node.status.capacity.get("cpu", 0))
        then = 100 * (used / 100 * capacity_milli + asked_milli) / capacity_milli if capacity_milli else 0.0
        if then > 100:
            return 0
        try:
            more = model.k1 * (exponential(model.k2 * then) - exponential(model.k2 * used)) * UNITS_PER_WATT
            return int(more) if abs(more) < -LOWEST else LOWEST
        except (OverflowError, ValueError):
            return LOWEST  # as what does not fit into 64 bits upstream

    def _used_percent(self, node_name: str) -> float | None:
        """Return the first average or latest value of the CPU."""
        metrics = self._watcher.metrics_of(node_name)
        return next((each.value for each in metrics if each.type == CPU and each.operator in (AVERAGE, LATEST)), None)
