"""NodeResourcesFit: a node must have room for what the pod requests, and is scored by how full it would then be.

Upstream plugin NodeResourcesFit, v1.36. Filter says "Too many pods" and "Insufficient <resource>" for each resource
that is short, and that removing pods would not help where the request exceeds what the node has at all
(`fit.py`). Score follows the configured strategy (`scoring.py`).
A resource that a DeviceClass offers is left to DynamicResources on nodes that have none of it themselves.
Deviations: reasons name plain resources first and the others by name, where upstream's order of the latter is random;
queueing hints honour ignored resources, which upstream's do not.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.api.dra import DeviceClass
from berth.api.node import Node
from berth.api.pod_resources import (
    CONTAINERS_ONLY,
    CPU,
    MEMORY,
    PODS,
    has_pod_level_requests,
    pod_requests,
    pod_requests_for_scoring,
)
from berth.api.quantity import milli_value, value
from berth.config.errors import forbidden, invalid, required, unsupported
from berth.config.shape import shape_errors
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint
from berth.framework.handle import Handle
from berth.framework.interface import (
    ColumnFilterPlugin,
    ColumnScorePlugin,
    EventsPlugin,
    FeasibleNodes,
    FilterColumn,
    FilterPlugin,
    LoadWhatIfPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    RowFilterPlugin,
    RowLoad,
    Rows,
    RowScorePlugin,
    ScorePlugin,
    Scores,
    SignaturePlugin,
)
from berth.framework.promises import Dependency, Objects, Promises
from berth.framework.status import Status
from berth.plugins.resources.args import (
    DEFAULT_RESOURCES,
    ResourceSpec,
    ShapePoint,
    defaulted_resources,
    resource_errors,
)
from berth.plugins.resources.columns import Scratch, picked, room
from berth.plugins.resources.devices import KIND as DEVICE_CLASS
from berth.plugins.resources.devices import DeviceResources, resources_of
from berth.plugins.resources.fit import (
    Ignored,
    ResourceNeed,
    code_status,
    fit_code,
    fit_codes,
    load_limits,
    loaded_codes,
    missing,
    needs_of,
    row_code,
)
from berth.plugins.resources.names import PLAIN_RESOURCES, is_qualified_name
from berth.plugins.resources.strategies import (
    LeastAllocated,
    MostAllocated,
    RequestedToCapacityRatioFormula,
    ResourceScorer,
    ScoringFormula,
    WeightedRequest,
)
from berth.state.node_view import NodeView
from berth.state.pod_info import LABELS, PodInfo
from berth.state.table import NodeTable

LEAST_ALLOCATED = "LeastAllocated"
MOST_ALLOCATED = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"
STRATEGIES = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)

NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName', or 'my.name', or '123-abc')"
)


class RatioParameters(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """scoringStrategy.requestedToCapacityRatio."""

    shape: tuple[ShapePoint, ...] = ()


class ScoringStrategy(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """scoringStrategy: how to score, and which resources."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RatioParameters | None = None

    def errors(self, path: str) -> Iterator[str]:
        """Say what is wrong with the strategy."""
        if self.type not in STRATEGIES:
            yield unsupported(f"{path}.type", self.type, STRATEGIES)
        yield from resource_errors(self.resources, f"{path}.resources")
        ratio_path = f"{path}.requestedToCapacityRatio"
        ratio, is_wanted = self.requested_to_capacity_ratio, self.type == REQUESTED_TO_CAPACITY_RATIO
        if ratio is None and is_wanted:
            yield required(ratio_path, f"must be specified when type is {REQUESTED_TO_CAPACITY_RATIO}")
        elif ratio is not None and is_wanted:
            yield from shape_errors(ratio.shape, f"{ratio_path}.shape")
        elif ratio is not None:
            yield forbidden(ratio_path, f"must be nil when type is not {REQUESTED_TO_CAPACITY_RATIO}")


class NodeResourcesFitArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The plugin's args."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(LEAST_ALLOCATED, DEFAULT_RESOURCES)

    def defaulted(self) -> "NodeResourcesFitArgs":
        """Fill in resources and weights."""
        resources = defaulted_resources(self.scoring_strategy.resources)
        strategy = msgspec.structs.replace(self.scoring_strategy, resources=resources)
        return msgspec.structs.replace(self, scoring_strategy=strategy)

    def validate(self, path: str) -> Iterator[str]:
        """Say what is wrong, one sentence each."""
        for index, name in enumerate(self.ignored_resources):
            if not is_qualified_name(name):
                yield invalid(f"{path}.ignoredResources[{index}]", name, NAME_RULE)
        for index, group in enumerate(self.ignored_resource_groups):
            where = f"{path}.ignoredResourceGroups[{index}]"
            if "/" in group:
                yield invalid(where, group, "resource group name can't contain '/'")
            elif not is_qualified_name(group):
                yield invalid(where, group, NAME_RULE)
        yield from self.scoring_strategy.errors(f"{path}.scoringStrategy")


class _PodNeeds(NamedTuple):
    """All that the plugin reads of a pod."""

    checked: tuple[ResourceNeed, ...]
    scored: tuple[WeightedRequest, ...]


def _strategy(args: ScoringStrategy) -> ScoringFormula:
    if args.type == REQUESTED_TO_CAPACITY_RATIO:
        assert args.requested_to_capacity_ratio is not None, "args were validated"
        return RequestedToCapacityRatioFormula(args.requested_to_capacity_ratio.shape)
    return MostAllocated() if args.type == MOST_ALLOCATED else LeastAllocated()


class NodeResourcesFit(
    PreFilterPlugin,
    FilterPlugin,
    ColumnFilterPlugin,
    RowFilterPlugin,
    LoadWhatIfPlugin,
    PreScorePlugin,
    ScorePlugin,
    ColumnScorePlugin,
    RowScorePlugin,
    SignaturePlugin,
    EventsPlugin,
):
    """The plugin."""

    name: ClassVar[str] = "NodeResourcesFit"
    args_type: ClassVar[type[NodeResourcesFitArgs]] = NodeResourcesFitArgs
    promises: ClassVar[Promises] = Promises(
        filter_depends_on=frozenset({Dependency.NODE, Dependency.PODS_ON_NODE, Objects((DEVICE_CLASS,))}),
        score_depends_on=frozenset({Dependency.NODE, Dependency.PODS_ON_NODE}),
        filters_by_row=True,
        scores_by_row=True,
        filters_under_load=True,
        ignores=frozenset({LABELS}),
        pre_filter_is_pure=True,
        pre_score_is_pure=True,
        hints_by_shape=True,
    )

    __slots__ = ("_devices", "_hinted", "_ignored", "_key", "_scorer", "_scratch", "_strategy")

    def __init__(self, args: NodeResourcesFitArgs, handle: Handle) -> None:
        strategy = args.scoring_strategy
        self._ignored = Ignored(frozenset(args.ignored_resources), frozenset(args.ignored_resource_groups))
        self._scorer = ResourceScorer(strategy.resources, with_defaults=True)
        self._strategy = _strategy(strategy)
        self._devices = DeviceResources(handle)
        self._scratch = Scratch()
        self._key = object()
        self._hinted: tuple[Node | None, Mapping[str, int]] = (None, {})

    def signature(self, pod: PodInfo) -> _PodNeeds:
        """Return what the pod requests of the resources that are looked at."""
        found = pod.fragments.get(self._key)
        if found is None:
            checked = self._needs_of(_filter_requests(pod))
            found = _PodNeeds(checked, self._scorer.wanted(_scoring_requests(pod)))
            pod.fragments[self._key] = found
        assert isinstance(found, _PodNeeds)
        return found

    def pre_filter(self, state: CycleState, pod: PodInfo) -> None:
        """Compute what the pod needs, once."""
        self.signature(pod)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Reject a node that lacks room."""
        needs = self._needs(pod)
        code = fit_code(needs, node.allocatable, node.requested, len(node.pods), node.allowed_pods)
        return self._describe(needs, code) if code else None

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Say the same of many rows."""
        needs = self._needs(pod)
        return FilterColumn(fit_codes(needs, table, rows), lambda code: self._describe(needs, code))

    def filter_row(self, state: CycleState, pod: PodInfo, table: NodeTable, row: int) -> int:
        """Return the code of one row."""
        return row_code(self._needs(pod), table, row)

    def resources_read(self, pod: PodInfo) -> Sequence[str]:
        """Return what is checked."""
        return [need.resource for need in self.signature(pod).checked]

    def load_limits(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: NDArray[np.intp]) -> RowLoad:
        """Return the most that other pods may take."""
        return load_limits(self._needs(pod), table, rows)

    def filter_loaded_columns(
        self, state: CycleState, pod: PodInfo, table: NodeTable, rows: NDArray[np.intp], load: RowLoad
    ) -> FilterColumn:
        """Say the same of many rows in a what-if."""
        needs = self._needs(pod)
        return FilterColumn(loaded_codes(needs, table, rows, load), lambda code: self._describe(needs, code))

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> None:
        """Compute what the pod adds to a node, once."""
        self.signature(pod)

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Score how full the node would be."""
        return self._strategy.node_score(self._scorer.node_uses(self.signature(pod).scored, node))

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Score many rows."""
        wanted = self.signature(pod).scored
        columns = self._scorer.columns(table)
        computed = columns.worth_computing(rows, table)
        scores, column = room(computed, rows, table, np.int64)
        self._strategy.columns(self._scorer.column_uses(wanted, table, computed), self._scratch, scores)
        return picked(column, computed, rows)

    def score_row(self, state: CycleState, pod: PodInfo, table: NodeTable, row: int) -> int:
        """Score one row."""
        return self._strategy.node_score(self._scorer.row_uses(self.signature(pod).scored, table, row))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return what may make room: pods that go or shrink, nodes that come or grow, device classes."""
        return (
            ClusterEventWithHint(ClusterEvent("Pod", Action.DELETE | Action.UPDATE_POD_SCALE_DOWN), self.after_pod),
            ClusterEventWithHint(ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_ALLOCATABLE), self.after_node),
            ClusterEventWithHint(ClusterEvent(DEVICE_CLASS, Action.ADD | Action.UPDATE), self.after_device_class),
        )

    def after_pod(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> QueueingHint:
        """Queue where a pod that held room went, or now asks less of what the pod needs."""
        if new is None:
            held = old is None or bool(old.node_name or old.status.nominated_node_name)
            return _queue_if(held)
        if new.uid == pod.uid or old is None:
            return QueueingHint.QUEUE
        shrunk = any(
            amount and old.requests.get(name, 0) > new.requests.get(name, 0) for name, amount in pod.requests.items()
        )
        return _queue_if(bool(new.node_name) and shrunk)

    def after_node(self, pod: PodInfo, old: Node | None, new: Node) -> QueueingHint:
        """Queue where the node, were it empty, had room for the pod, and is new or has grown in what matters."""
        has, needs = self._amounts(new), self._needs(pod)
        if has.get(PODS, 0) < 1 or missing(needs, has):
            return QueueingHint.SKIP
        if old is None:
            return QueueingHint.QUEUE
        had = allocatable_amounts(old)
        return _queue_if(_grown(needs, had, has))

    def after_device_class(self, pod: PodInfo, old: DeviceClass | None, new: DeviceClass) -> QueueingHint:
        """Queue where the class offers a resource that the pod asks for and did not offer it before."""
        before = resources_of(old) if old is not None else ()
        return _queue_if(any(name in pod.requests for name in resources_of(new) if name not in before))

    def _needs_of(self, requests: Mapping[str, int]) -> tuple[ResourceNeed, ...]:
        """Return what has to be looked at of these requests."""
        return needs_of(requests, self._ignored)

    def _describe(self, needs: Sequence[ResourceNeed], code: int) -> Status:
        """Return what a code means."""
        return code_status(needs, code)

    def _needs(self, pod: PodInfo) -> tuple[ResourceNeed, ...]:
        """Return what is checked, with the resources marked that device classes offer now."""
        checked, offers = self.signature(pod).checked, self._devices.offers
        offered = [need.resource for need in checked if need.resource not in PLAIN_RESOURCES and offers(need.resource)]
        if not offered:
            return checked
        return tuple([need._replace(devices=need.resource in offered) for need in checked])

    def _amounts(self, node: Node) -> Mapping[str, int]:
        """Return a node's allocatable amounts; the last node's are kept, since one event is checked for many pods."""
        if self._hinted[0] is not node:
            self._hinted = node, allocatable_amounts(node)
        return self._hinted[1]


def allocatable_amounts(node: Node) -> dict[str, int]:
    """Return what a node has: CPU in milli-units, everything else in whole units."""
    quantities = node.status.allocatable
    return {name: milli_value(amount) if name == CPU else value(amount) for name, amount in quantities.items()}


def _filter_requests(pod: PodInfo) -> Mapping[str, int]:
    """Return what the spec asks for: a pod that is being scheduled has nothing allocated yet."""
    return pod_requests(pod.pod, pod.shape.counting, use_status=False) if _has_resource_status(pod) else pod.requests


def _scoring_requests(pod: PodInfo) -> Mapping[str, int]:
    """Return what the containers ask for, with defaults; the pod level counts only once the pod is on a node.

    That is how upstream scores: its strategies never look at `spec.resources` of the incoming pod.
    """
    if has_pod_level_requests(pod.pod) or _has_resource_status(pod):
        return pod_requests_for_scoring(pod.pod, CONTAINERS_ONLY, use_status=False)
    cpu_milli, memory_bytes = pod.scoring_requests
    return {**pod.requests, CPU: cpu_milli, MEMORY: memory_bytes}


def _has_resource_status(pod: PodInfo) -> bool:
    status = pod.status
    return bool(
        status.container_statuses or status.init_container_statuses or status.resources or status.allocated_resources
    )


def _grown(needs: Sequence[ResourceNeed], had: Mapping[str, int], has: Mapping[str, int]) -> bool:
    if has.get(PODS, 0) > had.get(PODS, 0):
        return True
    return any(
        has.get(need.resource, 0) > had.get(need.resource, 0) or (need.devices and has.get(need.resource, 0) <= 0)
        for need in needs
    )


def _queue_if(worth_it: bool) -> QueueingHint:
    return QueueingHint.QUEUE if worth_it else QueueingHint.SKIP
