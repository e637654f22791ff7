"""LowRiskOverCommitment: avoids nodes that may be asked for more than they have.

Upstream plugin `LowRiskOverCommitment`. The risk of a node, for cpu and memory each, is a weighted sum of two: how far
the limits of its pods (the new one included) go beyond what it has, as a share of what they go beyond requests; and how
likely its measured load is above what is requested there, by a beta distribution with the measured mean and deviation.
The larger risk of both decides. Pods that ask for nothing, and nodes that are not measured, score 0.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, final

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.plugin import (
    ColumnScorePlugin,
    CycleState,
    Dependency,
    Handle,
    Node,
    NodeTable,
    NodeView,
    Objects,
    PodInfo,
    Promises,
    Rows,
    ScoreExplainingPlugin,
    ScorePlugin,
    Scores,
    SignaturePlugin,
)
from berth_plugins.trimaran.beta import fitted, largest_variance, probability_below
from berth_plugins.trimaran.metrics import (
    CPU,
    LOAD_WATCHER,
    MEMORY,
    NOT_MEASURED,
    Floats,
    LoadWatcher,
    NodeFigures,
    WatcherArgs,
    rounded,
    usage_in_words,
    usage_of,
)
from berth_plugins.trimaran.requests import Amount, amount_of, effective_limits, effective_requests

MAX_VARIANCE_ALLOWANCE = 0.99
"""How much of the largest variance of a mean is allowed: at all of it there is no distribution."""
DEFAULT_WEIGHT = 0.5


class LowRiskOverCommitmentArgs(WatcherArgs, frozen=True, rename="camel"):
    """The load watcher, over how many windows its figures are smoothed, and how much limits count."""

    smoothing_window_size: int = 5
    risk_limit_weights: dict[str, float] = {}

    def defaulted(self) -> "LowRiskOverCommitmentArgs":
        """Fill in upstream's defaults, also for what is out of range."""
        said = {"cpu": DEFAULT_WEIGHT, "memory": DEFAULT_WEIGHT} | self.risk_limit_weights
        size = self.smoothing_window_size
        return msgspec.structs.replace(
            self,
            smoothing_window_size=5 if size <= 0 else size,
            risk_limit_weights={name: weight if 0 <= weight <= 1 else DEFAULT_WEIGHT for name, weight in said.items()},
        )


class Figures(NamedTuple):
    """What is known of a node, or of many in arrays."""

    is_measured: Any
    has_cpu: Any
    cpu: Any
    cpu_mean: Any
    cpu_deviation: Any
    has_memory: Any
    memory: Any
    memory_mean: Any
    memory_deviation: Any


class Asked(NamedTuple):
    """What a pod asks for."""

    requests: Amount
    limits: Amount


def asked_by(pod: PodInfo) -> Asked:
    """Return what a pod asks for."""
    return Asked(effective_requests(pod), effective_limits(pod))


Sums = NDArray[np.int64]
"""Of each row four sums over its pods: requests of cpu and memory, limits of cpu and memory; int64 (4, rows)."""


class PodSums:
    """What the pods of each row ask for together; a row is summed again when its version has changed."""

    __slots__ = ("_sums", "_versions")

    def __init__(self) -> None:
        self._sums: Sums = np.zeros((4, 0), dtype=np.int64)
        self._versions: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def of(self, table: NodeTable, rows: Rows) -> Sums:
        """Return the sums of some rows."""
        if len(self._versions) != table.capacity:
            self._sums = np.zeros((4, table.capacity), dtype=np.int64)
            self._versions = np.full(table.capacity, -1, dtype=np.int64)
        there = np.arange(table.capacity)[rows] if isinstance(rows, slice) else rows
        for row in there[self._versions[there] != table.version[there]].tolist():
            self._sums[:, row] = summed(table.pods[row])
            self._versions[row] = table.version[row]
        return self._sums[:, rows]


def summed(pods: Mapping[str, PodInfo]) -> tuple[int, int, int, int]:
    """Return the sums over some pods."""
    requests, limits = Amount(), Amount()
    for pod in pods.values():
        asked = asked_by(pod)
        requests, limits = requests.plus(asked.requests), limits.plus(asked.limits)
    return *requests, *limits


@final
class LowRiskOverCommitment(ScorePlugin, ColumnScorePlugin, SignaturePlugin, ScoreExplainingPlugin):
    """Score."""

    name: ClassVar[str] = "LowRiskOverCommitment"
    args_type: ClassVar[type[msgspec.Struct]] = LowRiskOverCommitmentArgs
    promises: ClassVar[Promises] = Promises(
        score_depends_on=frozenset({Dependency.NODE, Dependency.PODS_ON_NODE, Objects((LOAD_WATCHER,))})
    )

    def __init__(self, args: LowRiskOverCommitmentArgs, handle: Handle) -> None:
        self._watcher = LoadWatcher(handle, args.watcher_address or "")
        self._figures = NodeFigures(self._watcher, self._figures_of)
        self._sums = PodSums()
        self._smoothing = float(np.sqrt(args.smoothing_window_size))
        self._weights = np.array([[args.risk_limit_weights[name]] for name in ("cpu", "memory")])
        """Of cpu and memory, as all that follows has it: float64 (2, 1), to go with (2, rows)."""

    def signature(self, pod: PodInfo) -> Asked:
        """Pods that ask for the same get the same scores."""
        return asked_by(pod)

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Score one node."""
        sums = np.array(summed(node.pods), dtype=np.int64).reshape(4, 1)
        return int(self._scores(asked_by(pod), self._figures.of_one(node.node), sums)[0])

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Score many rows."""
        return self._scores(asked_by(pod), self._figures.of_rows(table, rows), self._sums.of(table, rows))

    def _scores(self, asked: Asked, of: Figures, sums: Sums) -> Scores:
        if not any((*asked.requests, *asked.limits)):
            return np.zeros(sums.shape[1], dtype=np.int64)
        # Both resources in one go: of a single row, what NumPy costs is the number of its calls.
        capacity = np.array((of.cpu, of.memory))
        mean, deviation = np.array((of.cpu_mean, of.memory_mean)), np.array((of.cpu_deviation, of.memory_deviation))
        requested, limited = sums[:2], sums[2:]
        requests, limits = np.array(asked)[:, :, None]
        of_limits = self._risk_of_limits(capacity, np.minimum(requested + requests, capacity), limited + limits)
        of_load = self._risk_of_load(capacity, mean, deviation, np.minimum(requested, capacity), limited)
        of_load = np.where((of.has_cpu, of.has_memory), of_load, 0.0)
        risk = (self._weights * of_limits + (1 - self._weights) * of_load).clip(0, 1)
        return np.where(of.is_measured, rounded((1 - risk.max(axis=0)) * 100), 0)

    def _risk_of_limits(self, capacity: Sums, requested: Sums, limited: Sums) -> Floats:
        is_over = limited > capacity
        return np.where(is_over, (limited - capacity) / np.where(is_over, limited - requested, 1), 0.0)

    def _risk_of_load(
        self, capacity: Sums, mean_percent: Floats, deviation_percent: Floats, requested: Sums, limited: Sums
    ) -> Floats:
        """Return how likely the load is above what is requested, given that it is below the limits."""
        is_there = capacity > 0
        divisor = np.where(is_there, capacity, 1).astype(np.float64)
        mu = np.where(is_there, (mean_percent * capacity / 100 / divisor).clip(0, 1), 0.0)
        sigma = np.where(is_there, (deviation_percent * capacity / 100 / divisor).clip(0, 1), 0.0)
        sigma = np.minimum(sigma * self._smoothing, np.sqrt(largest_variance(mu) * MAX_VARIANCE_ALLOWANCE))
        threshold = np.where(is_there, (requested / divisor).clip(0, 1), 0.0)
        limit = np.where(is_there, limited / divisor, 0.0)
        is_known = (mu == 0) | (sigma == 0)
        below, below_limit = probability_below(np.array((threshold, limit)), fitted(mu, sigma))
        below = np.where(is_known, (mu == 0) | (mu <= threshold), below)
        # Where limits keep the load below what the node has, only that part of the distribution counts.
        is_limited = (limited < capacity) & (requested <= limited)
        is_cut = is_limited & ~is_known & (below_limit > 0)
        below = np.where(is_cut, (below / np.where(is_cut, below_limit, 1.0)).clip(0, 1), below)
        return 1 - np.where(is_limited & (limit == 0), 1.0, below)

    def explain_score(self, pod: PodInfo, node: NodeView) -> Sequence[str]:
        """Return for each resource the measured load and both risks, of limits beyond the node and of a higher load."""
        metrics, of, asked = self._watcher.metrics_of(node.name), self._figures_of(node.node), asked_by(pod)
        if not metrics:
            return [NOT_MEASURED]
        if not any((*asked.requests, *asked.limits)):
            return ["the pod asks for nothing, so all nodes are the same to it"]
        sums = summed({uid: other for uid, other in node.pods.items() if uid != pod.uid})
        weights = self._weights.ravel().tolist()
        kinds = ((CPU, of.cpu, weights[0]), (MEMORY, of.memory, weights[1]))
        said = []
        for at, (kind, whole, weight) in enumerate(kinds):
            requested, limited = (np.array([sums[place]], dtype=np.int64) for place in (at, at + 2))
            capacity, usage, of_load = np.array([whole]), usage_of(metrics, kind), 0.0
            then = np.minimum(requested + asked.requests[at], capacity), limited + asked.limits[at]
            of_limits = float(self._risk_of_limits(capacity, *then)[0])
            if usage is not None:
                measured = np.array([usage.mean]), np.array([usage.deviation])
                known = np.minimum(requested, capacity), limited
                of_load = float(self._risk_of_load(capacity, *measured, *known)[0])
            load = f"{kind} is not measured" if usage is None else usage_in_words(kind, usage)
            said.append(f"{load}: a risk of {of_limits:.2f} by limits (weight {weight:.4g}) and {of_load:.2f} by load")
        return [*said, f"measured {self._watcher.age}; the higher risk counts"]

    def _figures_of(self, node: Node) -> Figures:
        metrics, there = self._watcher.metrics_of(node.metadata.name), amount_of(node.status.allocatable)
        cpu, memory = usage_of(metrics, CPU), usage_of(metrics, MEMORY)
        return Figures(
            bool(metrics),
            cpu is not None,
            there.cpu_milli,
            *(cpu or (0.0, 0.0)),
            memory is not None,
            there.memory_bytes,
            *(memory or (0.0, 0.0)),
        )
