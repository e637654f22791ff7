"""TargetLoadPacking: packs nodes up to a target of CPU utilisation, and spreads beyond it.

Upstream plugin `TargetLoadPacking`. To what a node was measured to use comes what the pod is predicted to use, and what
the pods are that came after the measurement, or less than a minute before its end. A container uses its CPU limit, else
its request times a multiplier, else a default. Up to the target a node scores the better the fuller it gets, from the
target itself to 100; beyond it the worse, down to 0 at a utilisation of 100 %.

Deviation: a pod counts for five minutes as one that came lately; upstream forgets pods every five minutes.
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, final

import msgspec
import numpy as np

from berth.plugin import (
    ColumnScorePlugin,
    CycleState,
    Dependency,
    Handle,
    Node,
    NodeTable,
    NodeView,
    Objects,
    PodEventHandlerPlugin,
    PodInfo,
    PodUpdateHandlerPlugin,
    Promises,
    Quantity,
    Rows,
    ScoreExplainingPlugin,
    ScorePlugin,
    Scores,
    SignaturePlugin,
    invalid,
    milli_value,
)
from berth_plugins.trimaran.metrics import (
    AVERAGE,
    CPU,
    LATEST,
    LOAD_WATCHER,
    NOT_MEASURED,
    Floats,
    LoadWatcher,
    NodeFigures,
    WatcherArgs,
    rounded,
    rounded_one,
)

REPORTING_INTERVAL_S = 60
"""How long a node's agent may take to report; pods that came within it are not measured yet."""
REMEMBERED_S = 300


class TargetLoadPackingArgs(WatcherArgs, frozen=True, rename="camel"):
    """The load watcher, how usage is predicted, and the target."""

    default_requests: dict[str, Quantity] | None = None
    default_requests_multiplier: str = "1.5"
    target_utilization: int | None = None

    def defaulted(self) -> "TargetLoadPackingArgs":
        """Fill in upstream's defaults."""
        target = self.target_utilization
        return msgspec.structs.replace(
            self,
            default_requests={"cpu": "1000m"} if self.default_requests is None else self.default_requests,
            target_utilization=40 if target is None or target <= 0 else target,
        )

    def validate(self, path: str) -> Iterable[str]:
        """Refuse a multiplier that is no number, and args without a load watcher."""
        yield from super().validate(path)
        try:
            float(self.default_requests_multiplier)
        except ValueError:
            said = "unable to parse DefaultRequestsMultiplier"
            yield invalid(f"{path}.defaultRequestsMultiplier", self.default_requests_multiplier, said)


class Figures(NamedTuple):
    """What is known of a node, or of many in arrays."""

    is_measured: Any
    used_percent: Any
    capacity_milli: Any


class Arrival(NamedTuple):
    """When a pod has come to its node, and what it was predicted to use then."""

    at_s: int
    predicted_milli: int


@final
class TargetLoadPacking(
    ScorePlugin,
    ColumnScorePlugin,
    SignaturePlugin,
    PodEventHandlerPlugin,
    PodUpdateHandlerPlugin,
    ScoreExplainingPlugin,
):
    """Score."""

    name: ClassVar[str] = "TargetLoadPacking"
    args_type: ClassVar[type[msgspec.Struct]] = TargetLoadPackingArgs
    promises: ClassVar[Promises] = Promises(
        score_depends_on=frozenset({Dependency.NODE, Dependency.PODS_ON_NODE, Objects((LOAD_WATCHER,))})
    )

    def __init__(self, args: TargetLoadPackingArgs, handle: Handle) -> None:
        self._watcher = LoadWatcher(handle, args.watcher_address or "")
        self._figures = NodeFigures(self._watcher, self._figures_of)
        self._wall_clock, self._node_changed = handle.wall_clock, handle.node_changed
        self._target = float(args.target_utilization or 0)
        self._default_milli = milli_value((args.default_requests or {}).get("cpu", 0))
        self._multiplier = float(args.default_requests_multiplier)
        self._arrivals: dict[str, dict[str, Arrival]] = {}
        """The pods that came to each node lately, by uid."""
        self._latest: dict[str, str] = {}
        """The nodes of all of these, by uid, the oldest first."""

    def pod_added(self, pod: PodInfo) -> None:
        """Note a pod that is on a node."""
        if pod.node_name:
            now_s = int(self._wall_clock())
            self._forget_before(now_s - REMEMBERED_S)
            self._forget(pod.uid)
            self._latest[pod.uid] = pod.node_name
            arrival = Arrival(now_s, self.predicted_milli(pod))
            self._arrivals.setdefault(pod.node_name, {})[pod.uid] = arrival
            self._node_changed(pod.node_name)

    def pod_updated(self, old: PodInfo, new: PodInfo) -> None:
        """Note a pod that has come to a node."""
        if old.node_name != new.node_name:
            self.pod_added(new)

    def pod_removed(self, pod: PodInfo) -> None:
        """Forget a pod that is gone."""
        self._forget(pod.uid)

    def predicted_milli(self, pod: PodInfo) -> int:
        """Return how much CPU a pod will use, its overhead included; init containers do not count."""
        total = milli_value(pod.spec.overhead.get("cpu", 0))
        for container in pod.spec.containers:
            limits, requests = container.resources.limits, container.resources.requests
            if "cpu" in limits:
                total += milli_value(limits["cpu"])
            elif "cpu" in requests:
                total += rounded_one(milli_value(requests["cpu"]) * self._multiplier)
            else:
                total += self._default_milli
        return total

    def signature(self, pod: PodInfo) -> int:
        """Pods of which the same is predicted get the same scores."""
        return self.predicted_milli(pod)

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Score one node."""
        missing = np.array([float(self._missing_milli(node.name))])
        return int(self._scores(pod, self._figures.of_one(node.node), missing)[0])

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Score many rows."""
        return self._scores(pod, self._figures.of_rows(table, rows), self._missing_on(table, rows))

    def _scores(self, pod: PodInfo, of: Figures, missing: Floats) -> Scores:
        """Return the scores of nodes, given what pods will use that are not measured yet."""
        capacity: Floats = of.capacity_milli
        total = of.used_percent / 100 * capacity + self.predicted_milli(pod) + missing
        predicted = np.divide(100 * total, capacity, out=np.zeros_like(total), where=capacity != 0)
        target = self._target
        with np.errstate(divide="ignore", invalid="ignore"):  # a target of 100 leaves nothing between it and 100
            beyond = np.where(predicted > 100, 0.0, target * (100 - predicted) / (100 - target))
        below = (100 - target) * predicted / target + target
        return np.where(of.is_measured, rounded(np.where(predicted > target, beyond, below)), 0)

    def explain_score(self, pod: PodInfo, node: NodeView) -> Sequence[str]:
        """Return the measured load and its age, what came since, and what the load would be with the pod."""
        figures, own = self._figures_of(node.node), self.predicted_milli(pod)
        if not figures.is_measured:
            return [NOT_MEASURED]
        came = self._unmeasured(node.name, but=pod.uid)
        missing = sum(each.predicted_milli for each in came)
        capacity, used = figures.capacity_milli, figures.used_percent
        then = 100 * (used / 100 * capacity + own + missing) / capacity if capacity else 0.0
        more = f"{len(came)} pod(s) that came since will use {missing} milli-CPU, this one {own}"
        return [
            f"CPU {used:.4g} % of {capacity:.0f} milli-CPU, measured {self._watcher.age}",
            f"{more}: {then:.4g} %, where the target is {self._target:.4g} %",
        ]

    def _figures_of(self, node: Node) -> Figures:
        capacity = milli_value(node.status.capacity.get("cpu", 0))
        used = None
        for metric in self._watcher.metrics_of(node.metadata.name):
            if metric.type == CPU and metric.operator in (AVERAGE, LATEST):
                used = metric.value
        return Figures(used is not None, used or 0.0, float(capacity))

    def _unmeasured(self, node_name: str, but: str = "") -> list[Arrival]:
        """Return the pods that came to a node after the time that was measured, or too shortly before its end."""
        end_s, arrivals = self._watcher.window_end_s, self._arrivals.get(node_name, {})
        return [each for uid, each in arrivals.items() if each.at_s > end_s - REPORTING_INTERVAL_S and uid != but]

    def _missing_milli(self, node_name: str) -> int:
        return sum(each.predicted_milli for each in self._unmeasured(node_name))

    def _missing_on(self, table: NodeTable, rows: Rows) -> Floats:
        """Return what is predicted of the pods that are not measured yet on some rows."""
        if isinstance(rows, np.ndarray) and len(rows) < len(self._arrivals):
            return np.array([self._missing_milli(table.names[row]) for row in rows.tolist()], dtype=np.float64)
        missing = np.zeros(table.capacity)
        for name in self._arrivals:
            if (row := table.row_of.get(name)) is not None:
                missing[row] = self._missing_milli(name)
        return missing[rows]

    def _forget(self, uid: str) -> None:
        node_name = self._latest.pop(uid, None)
        if node_name is not None:
            there = self._arrivals[node_name]
            del there[uid]
            if not there:
                del self._arrivals[node_name]
            self._node_changed(node_name)

    def _forget_before(self, at_s: int) -> None:
        while (uid := next(iter(self._latest), None)) and self._arrivals[self._latest[uid]][uid].at_s < at_s:
            self._forget(uid)
