"""What the page shows, as values: the queue over time, what a node holds, a decision on all nodes.

The columns of the cluster map (`NodeColumns`), pending pods by reason (`PendingReport`) and all that is known of a pod
(`PodReport`) are the scheduler's own values; here is what is made of its answers for people.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from urllib.parse import quote

import msgspec

from berth.decisions.explanation import Explanation
from berth.decisions.node_columns import NodeColumns
from berth.decisions.pending import PendingGroup, PendingReport
from berth.decisions.placements import PodColumns
from berth_workbench.showing.figures import share

QUEUES = ("active", "backoff", "unschedulable", "gated")
RESULTS = ("scheduled", "unschedulable", "error")
MAX_SAMPLES = 1800
"""How much of the history is kept: an hour, at a sample every two seconds."""


class QueueSample(msgspec.Struct, frozen=True, rename="camel"):
    """Queue and throughput at one time."""

    at_s: float
    """Seconds since the epoch."""
    pending: dict[str, int]
    """Pods by queue."""
    attempts: dict[str, float]
    """Attempts to schedule since the scheduler started, by result."""


class QueueHistory:
    """The latest samples, and what happened between them."""

    __slots__ = ("_samples",)

    def __init__(self, max_samples: int = MAX_SAMPLES) -> None:
        self._samples: deque[QueueSample] = deque(maxlen=max_samples)

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, sample: QueueSample) -> None:
        """Keep a sample; the oldest makes room."""
        self._samples.append(sample)

    @property
    def samples(self) -> list[QueueSample]:
        """All samples, the oldest first."""
        return list(self._samples)

    def rates(self, result: str) -> list[float | None]:
        """Attempts per second that ended so, up to each sample; None at the first, and after a restart."""
        found: list[float | None] = [None] if self._samples else []
        for before, after in zip(self._samples, list(self._samples)[1:], strict=False):
            passed_s = after.at_s - before.at_s
            more = after.attempts.get(result, 0.0) - before.attempts.get(result, 0.0)
            found.append(more / passed_s if passed_s > 0 and more >= 0 else None)
        return found


def queue_sample(metrics: str, at_s: float) -> QueueSample:
    """Read a scheduler's metrics as a sample; what it does not tell is zero."""
    from prometheus_client.parser import text_string_to_metric_families

    pending, attempts = dict.fromkeys(QUEUES, 0), dict.fromkeys(RESULTS, 0.0)
    for family in text_string_to_metric_families(_lines_about(metrics)):
        for sample in family.samples:
            if sample.name == "scheduler_pending_pods":
                pending[sample.labels.get("queue", "")] = int(sample.value)
            elif sample.name == "scheduler_schedule_attempts_total":
                result = sample.labels.get("result", "")
                attempts[result] = attempts.get(result, 0.0) + sample.value
    return QueueSample(at_s, pending, attempts)


def _lines_about(metrics: str) -> str:
    wanted = ("scheduler_pending_pods", "scheduler_schedule_attempts_total")
    return "".join(f"{line}\n" for line in metrics.splitlines() if line.removeprefix("# TYPE ").startswith(wanted))


# -- nodes -------------------------------------------------------------------------------------------------------------


class NodeLine(msgspec.Struct, frozen=True, rename="camel"):
    """One node, for a table."""

    name: str
    pool: str
    zone: str
    shares: dict[str, float | None]
    """What part of each resource is requested, 0 to 1; None where the node has none of it. `pods` is one of them."""
    pods: int
    allowed_pods: int
    is_unschedulable: bool
    is_tainted: bool


def node_lines(columns: NodeColumns) -> Iterator[NodeLine]:
    """Each node on its own, in the order of the columns."""
    shares = {resource.name: share(resource.requested, resource.allocatable) for resource in columns.resources}
    shares["pods"] = share(columns.pods, columns.allowed_pods)
    pools, zones = columns.pools, columns.zones
    for at, name in enumerate(columns.names):
        yield NodeLine(
            name,
            pools.names[pools.of[at]],
            zones.names[zones.of[at]],
            {resource: of[at] for resource, of in shares.items()},
            columns.pods[at],
            columns.allowed_pods[at],
            columns.unschedulable[at],
            columns.tainted[at],
        )


class ClusterTotals(msgspec.Struct, frozen=True, rename="camel"):
    """The cluster in a few numbers."""

    nodes: int
    pods: int
    unschedulable: int
    shares: dict[str, float | None]


def totals(columns: NodeColumns) -> ClusterTotals:
    """Sum the columns up."""
    sums = {each.name: (sum(each.requested), sum(each.allocatable)) for each in columns.resources}
    return ClusterTotals(
        columns.total,
        sum(columns.pods),
        sum(columns.unschedulable),
        {name: part / whole if whole > 0 else None for name, (part, whole) in sums.items()},
    )


# -- workloads ---------------------------------------------------------------------------------------------------------


class WorkloadLine(msgspec.Struct, frozen=True, rename="camel"):
    """One workload: its pods on nodes, and those that are pending."""

    kind: str
    """Empty for pods that nothing controls, which are a line each."""
    name: str
    """`namespace/name`."""
    pods: int
    nodes: int
    requested: dict[str, int]
    """Of its pods on nodes."""
    pending: int = 0

    @property
    def path(self) -> str:
        """The address of its page."""
        first = "/workloads" if self.kind else "/pods"
        return "/".join((first, *(quote(part, safe="") for part in (self.kind, *self.name.split("/", 1)) if part)))


def workload_lines(pods: PodColumns, pending: PendingReport) -> list[WorkloadLine]:
    """Return all workloads, those with pending pods first."""
    members: dict[tuple[str, str], list[int]] = {}
    for at, name in enumerate(pods.names):
        members.setdefault(_workload(pods, at, name), []).append(at)
    waiting: Counter[tuple[str, str]] = Counter()
    for group in pending.groups:
        kind, _, name = group.workload.partition("/")
        namespace = next(iter(group.namespaces), "")
        waiting[(kind, f"{namespace}/{name}") if kind else ("", next(iter(group.named), ""))] += group.pods
    lines = []
    for kind, name in {**dict.fromkeys(waiting), **dict.fromkeys(members)}:
        of = members.get((kind, name), [])
        requested = {resource: sum(amounts[at] for at in of) for resource, amounts in pods.requests.items()}
        nodes = len({pods.nodes.of[at] for at in of})
        lines.append(WorkloadLine(kind, name, len(of), nodes, requested, waiting[kind, name]))
    return sorted(lines, key=lambda line: (-line.pending, -line.pods, line.name))


def pods_of_workload(pods: PodColumns, kind: str, namespace: str, name: str) -> list[int]:
    """Return which of the pods on nodes belong to a workload."""
    workloads, namespaces = pods.workloads, pods.namespaces
    if f"{kind}/{name}" not in workloads.names or namespace not in namespaces.names:
        return []
    workload, own = workloads.names.index(f"{kind}/{name}"), namespaces.names.index(namespace)
    return [at for at, of in enumerate(workloads.of) if of == workload and namespaces.of[at] == own]


def groups_of_workload(report: PendingReport, kind: str, namespace: str, name: str) -> list[PendingGroup]:
    """Return the pending pods of a workload."""
    return [group for group in report.groups if group.workload == f"{kind}/{name}" and namespace in group.namespaces]


def _workload(pods: PodColumns, at: int, name: str) -> tuple[str, str]:
    namespace, workload = pods.namespaces.names[pods.namespaces.of[at]], pods.workloads.names[pods.workloads.of[at]]
    kind, _, owner = workload.partition("/")
    return (kind, f"{namespace}/{owner}") if owner else ("", f"{namespace}/{name}")


# -- one pod's decision on all nodes -----------------------------------------------------------------------------------


class NodeScores(msgspec.Struct, frozen=True, rename="camel"):
    """What one decision said of each node, to colour the map by."""

    pod: str
    plugins: tuple[str, ...]
    """Those whose scores are told, besides the total."""
    totals: dict[str, int]
    """By node; nodes that do not fit are missing."""
    by_plugin: dict[str, dict[str, int]]
    rejected: dict[str, str]
    """For nodes that do not fit: the plugin and its reason."""
    chosen: str


def node_scores(explanation: Explanation) -> NodeScores:
    """Read an explanation of all nodes as columns."""
    totals = {scored.node: scored.total or 0 for scored in explanation.best}
    plugins = tuple(explanation.weights)
    by_plugin: dict[str, dict[str, int]] = {plugin: {} for plugin in plugins}
    for scored in explanation.best:
        for plugin, score in scored.scores.items():
            by_plugin.setdefault(plugin, {})[scored.node] = score
    rejected = {
        node: f"{group.plugin}: {', '.join(group.reasons)}" if group.plugin else ", ".join(group.reasons)
        for group in explanation.rejected
        for node in group.nodes
    }
    return NodeScores(explanation.pod, plugins, totals, by_plugin, rejected, explanation.node or "")


class MatrixRow(msgspec.Struct, frozen=True, rename="camel"):
    """One node of the decision matrix."""

    node: str
    is_chosen: bool
    total: int | None
    scores: tuple[int | None, ...]
    """In the order of the matrix's plugins."""
    behind: tuple[int | None, ...]
    """How much less each plugin gave it than the winner; negative where it gave more."""


class DecisionMatrix(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes by plugins: which plugin gave how much to which node."""

    plugins: tuple[str, ...]
    weights: tuple[int, ...]
    rows: tuple[MatrixRow, ...]
    margin: int | None
    """How far the winner was ahead of the next best; None where nothing was scored."""
    decisive: tuple[str, ...]
    """The plugins that put the winner ahead of the next best, the largest part first."""


def decision_matrix(explanation: Explanation) -> DecisionMatrix:
    """Lay the best nodes' scores out; columns that say the same of all of them come last."""
    best = explanation.best
    named = list(dict.fromkeys([*explanation.weights, *(plugin for scored in best for plugin in scored.scores)]))
    plugins = tuple(sorted(named, key=lambda plugin: -len({scored.scores.get(plugin) for scored in best})))
    winner: Mapping[str, int] = best[0].scores if best else {}
    rows = tuple(
        MatrixRow(
            scored.node,
            scored.node == explanation.node,
            scored.total,
            tuple(scored.scores.get(plugin) for plugin in plugins),
            tuple(_behind(winner.get(plugin), scored.scores.get(plugin)) for plugin in plugins),
        )
        for scored in best
    )
    margin: int | None = None
    decisive: tuple[str, ...] = ()
    if len(rows) > 1 and rows[0].total is not None and rows[1].total is not None:
        margin = rows[0].total - rows[1].total
        gains = {plugin: gain for plugin, gain in zip(plugins, rows[1].behind, strict=True) if gain and gain > 0}
        decisive = tuple(sorted(gains, key=lambda plugin: -gains[plugin]))
    return DecisionMatrix(
        plugins, tuple(explanation.weights.get(plugin, 0) for plugin in plugins), rows, margin, decisive
    )


def _behind(winner: int | None, other: int | None) -> int | None:
    return None if winner is None or other is None else winner - other
