"""What a load watcher says of nodes (github.com/paypal/load-watcher), and what plugins that go by it have in common.

The plugins ask `GET <watcherAddress>/watcher` every half minute, by `Handle.poll`; what was said last counts until
there is another answer, as upstream. A node's metrics are a list: CPU or memory in percent of the node, as average,
as standard deviation, or as the latest value.

Deviation: upstream's plugins can be their own load watcher (`metricProvider`). These need one that runs.
"""

from collections.abc import Callable, Iterable, Mapping
from math import trunc
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.plugin import (
    ColumnScorePlugin,
    CycleState,
    Handle,
    Node,
    NodeTable,
    NodeView,
    PodInfo,
    Rows,
    ScorePlugin,
    Scores,
    WebResource,
    required,
)

LOAD_WATCHER = "load-watcher"
"""What the document is called; columns that are made from it depend on `Objects((LOAD_WATCHER,))`."""
INTERVAL_S = 30.0
PROVIDERS = ("KubernetesMetricsServer", "Prometheus", "SignalFx")

CPU, MEMORY = "CPU", "Memory"
AVERAGE, LATEST, DEVIATION = "AVG", "Latest", "STD"

Floats = NDArray[np.float64]


class MetricProviderSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Where upstream's plugins would get metrics from without a load watcher."""

    type: str = ""
    address: str | None = None
    token: str | None = None
    insecure_skip_verify: bool | None = None


class WatcherArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Where the load watcher is: what the args of nearly all these plugins begin with."""

    metric_provider: MetricProviderSpec = MetricProviderSpec()
    watcher_address: str | None = None

    def validate(self, path: str) -> Iterable[str]:
        """Refuse args without a load watcher."""
        if self.watcher_address:
            return
        if self.metric_provider.type not in ("", *PROVIDERS):
            yield f"{path}.metricProvider.type: invalid MetricProvider.Type, got {self.metric_provider.type}"
        yield required(f"{path}.watcherAddress", "the address of a load watcher; Berth asks no metric providers itself")


class Metric(msgspec.Struct, frozen=True):
    """One figure."""

    type: str = ""
    operator: str = ""
    value: float = 0.0


class Usage(NamedTuple):
    """How much of a resource a node uses, in percent: mean and standard deviation."""

    mean: float
    deviation: float


def usage_of(metrics: Iterable[Metric], kind: str) -> Usage | None:
    """Return the usage of one kind; None where no metric is of that kind. An average beats what is said otherwise."""
    mean, deviation, has_average, is_there = 0.0, 0.0, False, False
    for metric in metrics:
        if metric.type != kind:
            continue
        is_there = True
        if metric.operator == AVERAGE:
            mean, has_average = metric.value, True
        elif metric.operator == DEVIATION:
            deviation = metric.value
        elif metric.operator in ("", LATEST) and not has_average:
            mean = metric.value
    return Usage(mean, deviation) if is_there else None


class LoadWatcher:
    """What the load watcher said last."""

    __slots__ = ("_document", "_metrics", "_version", "_wall_clock", "_window_end_s")

    def __init__(self, handle: Handle, address: str) -> None:
        self._document = handle.poll(WebResource(LOAD_WATCHER, f"{address.rstrip('/')}/watcher", INTERVAL_S))
        self._wall_clock = handle.wall_clock
        self._version = -1
        self._metrics: Mapping[str, tuple[Metric, ...]] = {}
        self._window_end_s = 0

    @property
    def version(self) -> int:
        """How often what it says has changed."""
        return self._document.version

    @property
    def window_end_s(self) -> int:
        """When the time ends that the metrics are about, in seconds since 1970."""
        self._renew()
        return self._window_end_s

    @property
    def age(self) -> str:
        """How old what it says is, in words; the end of the window that was measured counts."""
        if not self.window_end_s:
            return "at a time that the load watcher does not say"
        ago_s = self._wall_clock() - self.window_end_s
        return f"until {ago_s:.0f} s ago" if ago_s >= 0 else f"until {-ago_s:.0f} s from now"

    def metrics_of(self, node_name: str) -> tuple[Metric, ...]:
        """Return the metrics of a node; none where the load watcher has said nothing of it."""
        self._renew()
        return self._metrics.get(node_name, ())

    def _renew(self) -> None:
        if self._version == self._document.version:
            return
        self._version = self._document.version
        content = self._document.content or {}
        window, data = content.get("window") or {}, content.get("data") or {}
        self._window_end_s = int(window.get("end") or 0)
        self._metrics = {
            name: msgspec.convert(_plain(said.get("metrics") or ()), tuple[Metric, ...])
            for name, said in (data.get("NodeMetricsMap") or {}).items()
        }


def _plain(metrics: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [dict(metric) for metric in metrics]


Figures = TypeVar("Figures", bound=tuple[Any, ...])


class NodeFigures(Generic[Figures]):
    """Figures of all nodes as arrays (rows of the table,), made again where a node or the load watcher has changed.

    What a call makes of the arrays of single nodes costs a step for each node, but once for all pods.
    """

    __slots__ = ("_arrays", "_key", "_make", "_of_node", "_watcher")

    def __init__(self, watcher: LoadWatcher, of_node: Callable[[Any], Figures]) -> None:
        """`of_node` returns the figures of a node object: numbers, or True and False."""
        self._watcher = watcher
        self._of_node = of_node
        self._key: tuple[int, int, int] | None = None
        self._arrays: Figures | None = None

    def of(self, table: NodeTable) -> Figures:
        """Return the figures, in the tuple that `of_node` returns, each an array; 0 where there is no node."""
        key = self._watcher.version, table.node_log.position, table.capacity
        if self._arrays is None or key != self._key:
            rows = table.rows().tolist()
            figures = [self._of_node(table.node(row)) for row in rows]
            arrays = []
            for column in zip(*figures, strict=True) if figures else ():
                array = np.zeros(table.capacity, dtype=np.asarray(column).dtype)
                array[rows] = column
                arrays.append(array)
            self._arrays, self._key = (type(figures[0])(*arrays) if figures else None), key
        assert self._arrays is not None, "there are no columns without nodes"
        return self._arrays

    def of_one(self, node: Node) -> Figures:
        """Return the figures of one node, in arrays of length 1."""
        figures = self._of_node(node)
        return type(figures)(*(np.array([figure]) for figure in figures))

    def of_rows(self, table: NodeTable, rows: Rows) -> Figures:
        """Return the figures of some rows."""
        arrays = self.of(table)
        return type(arrays)(*(array[rows] for array in arrays))


class ScoringByLoad(ScorePlugin, ColumnScorePlugin, Generic[Figures]):
    """A plugin whose scores are made of the figures of nodes, of one in the same way as of many."""

    def _follow(self, handle: Handle, address: str) -> None:
        """Go by the load watcher of this address from now on."""
        self._watcher = LoadWatcher(handle, address)
        self._figures = NodeFigures(self._watcher, self._figures_of)

    def _figures_of(self, node: Node) -> Figures:
        """Return what is known of a node."""
        raise NotImplementedError

    def _scores(self, pod: PodInfo, of: Figures) -> Scores:
        """Return the scores of nodes, of which these are the figures in arrays."""
        raise NotImplementedError

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Score one node."""
        return int(self._scores(pod, self._figures.of_one(node.node))[0])

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Score many rows."""
        return self._scores(pod, self._figures.of_rows(table, rows))


def rounded(numbers: Floats) -> NDArray[np.int64]:
    """Return the nearest whole numbers, int64 of the same shape; halves go away from zero, as in Go."""
    whole = np.trunc(numbers)
    return np.asarray(whole + np.where(np.abs(numbers - whole) >= 0.5, np.copysign(1.0, numbers), 0.0), dtype=np.int64)


def rounded_one(number: float) -> int:
    """Return the nearest whole number in the same way."""
    whole = trunc(number)
    return whole + (1 if number > 0 else -1) if abs(number - whole) >= 0.5 else whole


NOT_MEASURED = "the load watcher says nothing of this node"


def usage_in_words(kind: str, usage: Usage) -> str:
    """Return a usage in words."""
    return f"{kind} {usage.mean:.4g} % ± {usage.deviation:.4g} %"
