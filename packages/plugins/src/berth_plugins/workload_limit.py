"""WorkloadLimit: at most so many pods of a workload on a node, in a zone, or in any other topology domain.

Anti-affinity says this for one pod only, and a spread constraint limits differences. A workload is what one controller
owns (a ReplicaSet, a Job, a StatefulSet), or the pods of a namespace with the same values of some labels. A pod's
annotation may give another number for that pod. Nodes without the topology's label are in no domain, and not limited.
All pods count that have a node or are about to get one, whoever placed them, until they are gone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, NamedTuple, final

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.plugin import (
    SKIP,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    ColumnFilterPlugin,
    CycleState,
    EventsPlugin,
    ExplainingPlugin,
    Figure,
    FiguresPlugin,
    FilterColumn,
    FilterPlugin,
    Handle,
    LabelColumn,
    LabelSelector,
    Node,
    NodeTable,
    NodeView,
    PodEventHandlerPlugin,
    PodInfo,
    PodUpdateHandlerPlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreFilterResult,
    Promises,
    QueueingHint,
    ReservePlugin,
    Rows,
    Selector,
    SelectorError,
    Status,
    compile_selector,
    error,
    invalid,
    queue_if,
    required,
    unschedulable,
)

FULL = "node(s) had {most} pod(s) of the workload in their {key}, which is the most allowed"
NAMED = 5
"""So many full domains are named in an explanation."""
WRONG_ANNOTATION = 'annotation {key} is "{text}", which is no number of pods'


class Limit(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A limit on the pods of each workload."""

    topology_key: str = ""
    """The label that makes domains of nodes, such as `kubernetes.io/hostname`."""
    max: int | None = None
    """The most pods of a workload in a domain; without it only pods are limited whose annotation gives a number."""
    label_keys: tuple[str, ...] = ()
    """Pods of a namespace with equal values of these labels are a workload; without keys, what one controller owns."""
    selector: LabelSelector | None = None
    """The pods that are limited, and that count; without it all."""
    annotation: str = ""
    """The annotation that may give a number for a single pod."""


class WorkloadLimitArgs(msgspec.Struct, frozen=True, rename="camel"):
    """The limits, all of which hold."""

    limits: tuple[Limit, ...] = ()

    def validate(self, path: str) -> Iterable[str]:
        """Refuse limits that say nothing, and selectors that cannot be read."""
        if not self.limits:
            yield required(f"{path}.limits", "a limit is needed, or nothing is limited")
        for index, limit in enumerate(self.limits):
            here = f"{path}.limits[{index}]"
            if not limit.topology_key:
                yield required(f"{here}.topologyKey", "the label that makes domains of nodes")
            if limit.max is None and not limit.annotation:
                yield required(f"{here}.max", "a number, or the name of an annotation that gives one")
            if limit.max is not None and limit.max < 0:
                yield invalid(f"{here}.max", limit.max, "must not be negative")
            try:
                compile_selector(limit.selector or LabelSelector())
            except SelectorError as wrong:
                yield invalid(f"{here}.selector", "", str(wrong))


Workload = tuple[str, ...]


def workload_of(pod: PodInfo, limit: Limit) -> Workload | None:
    """Return which workload a pod is of; None where it is of none: it lacks a label, or nothing controls it."""
    if limit.label_keys:
        values = [pod.labels.get(key) for key in limit.label_keys]
        return None if None in values else (pod.namespace, *(value for value in values if value is not None))
    owner = next((owner for owner in pod.metadata.owner_references if owner.controller), None)
    return None if owner is None else (pod.namespace, owner.kind, owner.name, owner.uid)


def named_workload(workload: Workload, limit: Limit) -> str:
    """Return a workload in words."""
    namespace, *rest = workload
    if not limit.label_keys:
        return f"{rest[0]} {namespace}/{rest[1]}"
    labels = ",".join(f"{key}={value}" for key, value in zip(limit.label_keys, rest, strict=True))
    return f"pods with {labels} in {namespace}"


Counts = dict[str, int]
"""How many pods there are, by domain."""


class Domains:
    """How many pods of a workload there are by domain, as a map and, where it is asked for, as an array."""

    __slots__ = ("_array", "_column", "counts")

    def __init__(self) -> None:
        self.counts: Counts = {}
        self._column: LabelColumn | None = None
        self._array: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """By the domains' ids in `_column`, once that was asked for, and kept up to date from then on."""

    def add(self, domain: str, change: int) -> None:
        """Count more pods in a domain, or fewer."""
        _add(self.counts, domain, change)
        if self._column is not None:
            at = self._column.intern(domain)
            self._make_room(at + 1)
            self._array[at] += change

    def by_id(self, column: LabelColumn) -> NDArray[np.int64]:
        """Return the counts by id in a column, with at least one 0 more, for the id -1; not to be written to."""
        if self._column is not column:
            self._column, self._array = None, np.zeros(0, dtype=np.int64)
            ids = [column.intern(domain) for domain in self.counts]
            self._make_room(max(ids, default=0) + 1)
            self._array[ids] = list(self.counts.values())
            self._column = column
        self._make_room(len(column.values))
        return self._array

    def _make_room(self, count: int) -> None:
        if len(self._array) <= count:
            self._array = np.concatenate([self._array, np.zeros(count + 1, dtype=np.int64)])


class Applied(NamedTuple):
    """A limit as it holds for one pod: the domains where the pod may not go are those with `most` pods or more."""

    number: int
    key: str
    workload: Workload
    most: int
    domains: Domains
    """As the cluster is; not to be changed."""
    changes: Counts
    """What a what-if has added to them."""

    def there(self, domain: str) -> int:
        """Return how many pods of the workload a domain has."""
        return self.domains.counts.get(domain, 0) + self.changes.get(domain, 0)


class AppliedLimits(tuple[Applied, ...]):
    """The limits of the pod that is tried; a clone follows what-ifs by itself."""

    __slots__ = ()

    def clone(self) -> "AppliedLimits":
        """Return limits whose counts can be changed without touching these."""
        return AppliedLimits(each._replace(changes=dict(each.changes)) for each in self)


class Place(NamedTuple):
    """Where a pod counts: its node, and its workload by limit."""

    node_name: str
    workloads: tuple[Workload | None, ...]
    is_bound: bool


class Census:
    """Which workloads have how many pods where: by node as pods come and go, and by domain where that is asked for."""

    __slots__ = ("_by_domain", "_by_node", "_limits", "_places", "_position", "_selectors", "_table")

    def __init__(self, limits: Sequence[Limit], table: NodeTable) -> None:
        self._limits = limits
        self._selectors: list[Selector] = [compile_selector(limit.selector or LabelSelector()) for limit in limits]
        self._table = table
        self._places: dict[str, Place] = {}
        self._by_node: list[dict[Workload, Counts]] = [{} for _ in limits]
        self._by_domain: list[dict[Workload, Domains]] = [{} for _ in limits]
        """As of `_position` in the log of nodes. A workload is here once it was asked for, and until nodes change."""
        self._position = -1

    def workloads(self, pod: PodInfo) -> tuple[Workload | None, ...]:
        """Return the pod's workload under each limit; None where the limit is not for it."""
        return tuple(
            workload_of(pod, limit) if selector.matches(pod.labels) else None
            for limit, selector in zip(self._limits, self._selectors, strict=True)
        )

    def put(self, pod: PodInfo, node_name: str, *, is_bound: bool) -> None:
        """Count a pod on a node, and nowhere else."""
        place = Place(node_name, self.workloads(pod), is_bound)
        if place != self._places.get(pod.uid):
            self.take(pod.uid)
            self._places[pod.uid] = place
            self._count(place, 1)

    def take(self, uid: str, *, reserved_only: bool = False) -> None:
        """Count a pod no more; with `reserved_only` one that is bound stays."""
        place = self._places.get(uid)
        if place is not None and not (reserved_only and place.is_bound):
            del self._places[uid]
            self._count(place, -1)

    def domains(self, index: int, workload: Workload) -> Domains:
        """Return the pods of a workload by domain; not to be changed, and as of now."""
        self._follow_nodes()
        known = self._by_domain[index].get(workload)
        if known is None:
            known = self._by_domain[index][workload] = Domains()
            for node_name, count in self._by_node[index].get(workload, {}).items():
                self._add(known, index, node_name, count)
        return known

    def _count(self, place: Place, sign: int) -> None:
        self._follow_nodes()
        for index, workload in enumerate(place.workloads):
            if workload is not None:
                by_node = self._by_node[index].setdefault(workload, {})
                _add(by_node, place.node_name, sign)
                if not by_node:
                    del self._by_node[index][workload]
                    self._by_domain[index].pop(workload, None)
                elif (known := self._by_domain[index].get(workload)) is not None:
                    self._add(known, index, place.node_name, sign)

    def _follow_nodes(self) -> None:
        """Forget what was counted by domain once any node has changed."""
        if self._position != self._table.node_log.position:
            self._position = self._table.node_log.position
            for known in self._by_domain:
                known.clear()

    def _add(self, domains: Domains, index: int, node_name: str, change: int) -> None:
        """Change the count of a node's domain; a node that is in none does not count."""
        row = self._table.row_of.get(node_name)
        node = None if row is None else self._table.nodes[row]
        domain = None if node is None else node.metadata.labels.get(self._limits[index].topology_key)
        if domain is not None:
            domains.add(domain, change)

    def sizes(self) -> Iterator[tuple[int, Workload, int]]:
        """Yield, by the number of the limit, each workload that has pods somewhere and how many."""
        for index, by_workload in enumerate(self._by_node):
            for workload, by_node in by_workload.items():
                yield index, workload, sum(by_node.values())


def _add(counts: Counts, key: str, change: int) -> None:
    """Change a count; what comes to 0 is forgotten."""
    counts[key] = counts.get(key, 0) + change
    if not counts[key]:
        del counts[key]


@final
class WorkloadLimit(
    PreFilterPlugin,
    PreFilterExtensions,
    FilterPlugin,
    ColumnFilterPlugin,
    ReservePlugin,
    PodEventHandlerPlugin,
    PodUpdateHandlerPlugin,
    EventsPlugin,
    FiguresPlugin,
    ExplainingPlugin,
):
    """PreFilter, Filter and Reserve.

    No column is kept, as an annotation decides that pods of one shape need not share. A column is read off an array of
    the workload's pods by domain, which follows pods as they come and go and is made anew when nodes have changed.
    """

    name: ClassVar[str] = "WorkloadLimit"
    args_type: ClassVar[type[msgspec.Struct]] = WorkloadLimitArgs
    promises: ClassVar[Promises] = Promises()

    def __init__(self, args: WorkloadLimitArgs, handle: Handle) -> None:
        self._limits = args.limits
        self._census = Census(args.limits, handle.cache.table)

    # -- which pods are where ----------------------------------------------------------------------------------------

    def pod_added(self, pod: PodInfo) -> None:
        """Count a pod that has a node."""
        if pod.node_name:
            self._census.put(pod, pod.node_name, is_bound=True)

    def pod_updated(self, old: PodInfo, new: PodInfo) -> None:
        """Count a pod that has a node now, or other labels."""
        self.pod_added(new)

    def pod_removed(self, pod: PodInfo) -> None:
        """Count a pod no more that is gone."""
        self._census.take(pod.uid)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Count a pod that is about to get a node."""
        self._census.put(pod, node_name, is_bound=False)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Count a pod no more that does not get its node after all."""
        self._census.take(pod.uid, reserved_only=True)

    # -- where a pod may go ------------------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult | Status | None:
        """Note which limits hold for the pod, and how many pods there are where."""
        found = []
        for index, workload in enumerate(self._census.workloads(pod)):
            if workload is None:
                continue
            limit = self._limits[index]
            most = self._most(pod, limit)
            if isinstance(most, Status):
                return most
            if most is not None:
                domains = self._census.domains(index, workload)
                found.append(Applied(index, limit.topology_key, workload, most, domains, {}))
        if not found:
            return SKIP
        state.write(self.name, AppliedLimits(found))
        return None

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeView) -> Status | None:
        """Count a pod in that comes in a what-if."""
        self._change(state, added, node, 1)
        return None

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeView) -> Status | None:
        """Leave a pod out that goes in a what-if."""
        self._change(state, removed, node, -1)
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Reject a node in whose domain the workload has as many pods as it may have."""
        for limit in _applied(state):
            domain = node.labels.get(limit.key)
            if domain is not None and limit.there(domain) >= limit.most:
                return _full(limit)
        return None

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Do the same for many rows: the code is the number of the limit, counted from 1."""
        limits = _applied(state)
        codes = np.zeros(len(table.valid[rows]), dtype=np.int32)
        for number in range(len(limits), 0, -1):  # the first that rejects a node is the last to write its code
            limit = limits[number - 1]
            column = table.label(limit.key)
            counts = limit.domains.by_id(column)
            if limit.changes:
                counts = counts.copy()
                for domain, change in limit.changes.items():
                    counts[column.intern(domain)] += change
            is_full = counts >= limit.most
            is_full[-1] = False  # the id of nodes without the label
            codes[is_full[column.ids[rows]]] = number
        return FilterColumn(codes, lambda code: _full(limits[code - 1]))

    def _most(self, pod: PodInfo, limit: Limit) -> int | Status | None:
        """Return the most pods where this one may go; None where nothing limits it."""
        text = pod.metadata.annotations.get(limit.annotation) if limit.annotation else None
        if text is None:
            return limit.max
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            return error(WRONG_ANNOTATION.format(key=limit.annotation, text=text[:40]))
        return int(text)

    def _change(self, state: CycleState, other: PodInfo, node: NodeView, sign: int) -> None:
        workloads = self._census.workloads(other)
        for limit in _applied(state):
            domain = node.labels.get(limit.key)
            if domain is not None and workloads[limit.number] == limit.workload:
                limit.changes[domain] = limit.changes.get(domain, 0) + sign

    # -- what is told of it ------------------------------------------------------------------------------------------

    def figures(self) -> Sequence[Figure]:
        """Return for each limit how many pods count under it, those included that are about to get a node."""
        pods = Counter(dict.fromkeys(range(len(self._limits)), 0))
        for index, _, count in self._census.sizes():
            pods[index] += count
        labels = ({"limit": str(index), "topology_key": limit.topology_key} for index, limit in enumerate(self._limits))
        return [Figure("limited_pods", said, pods[index]) for index, said in enumerate(labels)]

    def explain_rejection(self, pod: PodInfo) -> Sequence[str]:
        """Return for each limit who is where, how many of how many, the fullest domains first."""
        found = []
        for index, workload in enumerate(self._census.workloads(pod)):
            limit = self._limits[index]
            most = None if workload is None else self._most(pod, limit)
            if workload is None or not isinstance(most, int):
                continue
            counts = self._census.domains(index, workload).counts
            full = sorted((-count, domain) for domain, count in counts.items() if count >= most)
            named = ", ".join(f"{domain} has {-count}" for count, domain in full[:NAMED])
            more = f" and {len(full) - NAMED} more are full" if len(full) > NAMED else ""
            whose = f"{named_workload(workload, limit)} may have {most} pod(s) in each {limit.topology_key}"
            found.append(f"{whose}; {named}{more}" if full else f"{whose}, and none has as many")
        return found

    # -- what helps --------------------------------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """A pod of the workload goes or becomes another's, a node is new or in another domain, the number changes."""
        return [
            ClusterEventWithHint(ClusterEvent("Pod", Action.DELETE | Action.UPDATE_POD_LABEL), self._after_pod),
            ClusterEventWithHint(ClusterEvent("Pod", Action.UPDATE_OTHER), self._after_annotation),
            ClusterEventWithHint(ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_LABEL), self._after_node),
        ]

    def _after_pod(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> QueueingHint:
        """Help comes of a pod of the same workload that leaves it, and of this pod's own labels."""
        if old is None or (new is not None and new.uid == pod.uid):
            return QueueingHint.QUEUE
        after = (None,) * len(self._limits) if new is None else self._census.workloads(new)
        own, before = self._census.workloads(pod), self._census.workloads(old)
        changed = zip(own, before, after, strict=True)
        return queue_if(any(mine is not None and mine == was != now for mine, was, now in changed))

    def _after_annotation(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> QueueingHint:
        if old is None or new is None or new.uid != pod.uid:
            return QueueingHint.SKIP
        return queue_if(old.metadata.annotations != new.metadata.annotations)

    def _after_node(self, pod: PodInfo, old: Node | None, new: Node | None) -> QueueingHint:
        """A new node helps, and one that is in another domain now, or in none."""
        if old is None or new is None:
            return QueueingHint.QUEUE
        keys = {limit.topology_key for limit in self._limits}
        return queue_if(any(old.metadata.labels.get(key) != new.metadata.labels.get(key) for key in keys))


def _applied(state: CycleState) -> AppliedLimits:
    found: AppliedLimits = state.read(WorkloadLimit.name)
    return found


def _full(limit: Applied) -> Status:
    return unschedulable(FULL.format(most=limit.most, key=limit.key))
