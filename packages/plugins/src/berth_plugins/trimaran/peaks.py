"""Peaks: prefers nodes where the pod raises the power that the node draws the least.

Upstream plugin `Peaks`. A node's model says that it draws k0 + k1·e^(k2·x) watts at x percent of CPU; its raw score is
how much more that is with the pod's CPU request, in units of 10^-15, and the least comes out as 100. As upstream, nodes
without metrics or model, and those that would be over 100 %, have the raw score 0 and so come out best.
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, final

import msgspec
import numpy as np

from berth.plugin import (
    MAX_NODE_SCORE,
    CycleState,
    Dependency,
    Handle,
    Node,
    NodeView,
    NormalizeScorePlugin,
    Objects,
    PodInfo,
    Promises,
    ScoreExplainingPlugin,
    Scores,
    SignaturePlugin,
    milli_value,
    required,
)
from berth_plugins.trimaran.exponential import exponential
from berth_plugins.trimaran.metrics import (
    AVERAGE,
    CPU,
    LATEST,
    LOAD_WATCHER,
    NOT_MEASURED,
    ScoringByLoad,
)

UNITS_PER_WATT = 1e15
LOWEST = -(2**63)


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


class Figures(NamedTuple):
    """What is known of a node, or of many in arrays: the CPU that is used, in percent, how much there is, its model."""

    is_known: Any
    """Whether there are both a metric and a model."""
    used: Any
    capacity_milli: Any
    k1: Any
    k2: Any


NOTHING_KNOWN = Figures(False, 0.0, 0.0, 0.0, 0.0)


def raw_scores(asked_milli: int, of: Figures) -> Scores:
    """Return how much more nodes would draw, int64 (nodes,), in units of 10^-15 W."""
    capacity = np.where(of.capacity_milli > 0, of.capacity_milli, 1.0)
    then = np.where(of.capacity_milli > 0, 100 * (of.used / 100 * capacity + asked_milli) / capacity, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        more = of.k1 * (exponential(of.k2 * then) - exponential(of.k2 * of.used)) * UNITS_PER_WATT
        # What does not fit into 64 bits is the lowest number upstream, infinities and their difference included.
        found = np.where(np.abs(more) < -LOWEST, more, LOWEST).astype(np.int64)
    counts = of.is_known & (then <= 100)
    return np.where(counts, found, 0)


@final
class Peaks(ScoringByLoad[Figures], NormalizeScorePlugin, SignaturePlugin, ScoreExplainingPlugin):
    """Score."""

    name: ClassVar[str] = "Peaks"
    args_type: ClassVar[type[msgspec.Struct]] = PeaksArgs
    promises: ClassVar[Promises] = Promises(score_depends_on=frozenset({Dependency.NODE, Objects((LOAD_WATCHER,))}))

    def __init__(self, args: PeaksArgs, handle: Handle) -> None:
        self._follow(handle, args.WatcherAddress)
        self._models = args.NodePowerModel

    def signature(self, pod: PodInfo) -> int:
        """Pods that request the same CPU get the same scores."""
        return requested_milli(pod)

    def _scores(self, pod: PodInfo, of: Figures) -> Scores:
        return raw_scores(requested_milli(pod), of)

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """Turn them round: the least is 100. Where all are 0, all stay 0."""
        least, most = scores.min(initial=2**63 - 1), scores.max(initial=LOWEST)
        if least == most == 0:
            return scores
        above = (scores - least).astype(np.float64)
        with np.errstate(over="ignore"):  # differences wrap around, as upstream's do
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
        more = int(self._scores(pod, self._figures.of_one(node.node))[0]) / UNITS_PER_WATT
        return [measured, f"{then:.4g} % with the pod, which draws {more:.4g} W more"]

    def _figures_of(self, node: Node) -> Figures:
        model, used = self._models.get(node.metadata.name), self._used_percent(node.metadata.name)
        if model is None or used is None:
            return NOTHING_KNOWN
        return Figures(True, used, float(milli_value(node.status.capacity.get("cpu", 0))), model.k1, model.k2)

    def _used_percent(self, node_name: str) -> float | None:
        """Return the first average or latest value of the CPU."""
        metrics = self._watcher.metrics_of(node_name)
        return next((each.value for each in metrics if each.type == CPU and each.operator in (AVERAGE, LATEST)), None)
