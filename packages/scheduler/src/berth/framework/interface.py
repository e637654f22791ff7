"""The contract between the framework and its plugins: one Protocol for each extension point, and for each form of it.

A plugin is a class with a `name`, made as `plugin(args, handle)`, that implements any of these. It may inherit those
that it implements, as all of Berth's do, so that the type checker holds it to them (`docs/plugin-forms.md`). Which
points it takes part in follows from the methods it has; those that it inherits from a Protocol alone do not count. The
framework's duties: calls come in the order given here, once per attempt unless stated, in one thread; a plugin's: never
change what it is given, never block, say "does not fit" with a Status. A method that must wait for the outside
(`post_filter`, `pre_bind`, `bind`) may be a generator that yields effects and returns its answer.

Filter and Score come in several forms. The plain one answers for one node, and is the specification: the others must
agree with it. The column form answers for many rows at once, the row form for one row without arrays. What the plain
form or the column form has said is kept from pod to pod where the plugin promises what it depends on. Forms that the
engine cannot trust without being told are used only where the plugin's class makes the promise that goes with them
(`berth.framework.promises`).
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from berth.framework.cycle_state import CycleState
from berth.framework.diagnosis import Diagnosis
from berth.framework.effects import Steps
from berth.framework.events import ClusterEventWithHint
from berth.framework.status import Status
from berth.framework.telling import Figure, Remedy
from berth.state.node_view import NodeView
from berth.state.pod_groups import GroupKey
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod
from berth.state.table import NodeTable
from berth.state.topology import Topology

Rows = slice | NDArray[np.intp]
RowArray = NDArray[np.intp]
Codes = NDArray[np.int32]
Scores = NDArray[np.int64]

MAX_NODE_SCORE = 100
MIN_NODE_SCORE = 0
MAX_PERMIT_TIMEOUT_S = 15 * 60.0


class Plugin(Protocol):
    """What every plugin has. It may also have an `args_type`, the struct that its pluginConfig args are decoded to."""

    __slots__ = ()

    name: ClassVar[str]


class PreEnqueuePlugin(Plugin, Protocol):
    """Says whether a pod may enter the active queue; a rejection keeps it out until an event of the plugin's."""

    __slots__ = ()

    def pre_enqueue(self, pod: PodInfo) -> Status | None: ...


class QueueSortPlugin(Plugin, Protocol):
    """Orders the active queue."""

    __slots__ = ()

    def less(self, a: QueuedPod, b: QueuedPod) -> bool: ...


class SortKeyPlugin(Plugin, Protocol):
    """A QueueSort plugin that gives a key to sort by, which is faster. It must order as `less` does."""

    __slots__ = ()

    def sort_key(self, queued: QueuedPod) -> Any: ...  # anything that can be compared with its like


class TenantSortPlugin(Plugin, Protocol):
    """A QueueSort plugin that shares the queue among tenants: `less` orders the pods of each.

    `tenant_of` says whose a pod is, when it is queued. `next_tenant` is asked each time a pod is to be tried, with the
    first pod of every tenant that has any, at least one; the pod of the tenant that it names is tried now. What a
    tenant's share is may change with every pod that gets a node, which the plugin hears of by Reserve and as a
    `PodEventHandlerPlugin`.
    """

    __slots__ = ()

    def tenant_of(self, queued: QueuedPod) -> Hashable: ...

    def next_tenant(self, heads: Mapping[Hashable, QueuedPod]) -> Hashable: ...


class EventsPlugin(Plugin, Protocol):
    """Says which events may cure its rejections."""

    __slots__ = ()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]: ...


class PodEventHandlerPlugin(Plugin, Protocol):
    """Hears which pods there are, as a handler of an informer does: what the API server says, those of all schedulers.

    The framework calls `pod_added` once in the life of each pod, with or without a node, and `pod_removed` once when it
    is gone or has finished; a pod of the same name that comes later is another, with another uid. Pods that are there
    when the scheduler starts, when it takes over as leader, or when a changed configuration makes new plugins are told
    as added before the first cycle. No cycle is open meanwhile. The cache knows already; PreEnqueue, hints and
    everything else are asked afterwards.

    What this scheduler only intends is told by Reserve and Unreserve alone: a reserved pod has no node here until its
    binding is seen. `pod_removed` of a reserved pod comes before its `unreserve`, and `unreserve` may come for a pod
    that has been bound, where the answer to the binding was lost.
    """

    __slots__ = ()

    def pod_added(self, pod: PodInfo) -> None: ...

    def pod_removed(self, pod: PodInfo) -> None: ...


class PodUpdateHandlerPlugin(Plugin, Protocol):
    """Hears of what changes about pods as well: that a pod is bound, above all. Both are the same pod by uid.

    It may be called although nothing has changed, as the update handler of an informer may.
    """

    __slots__ = ()

    def pod_updated(self, old: PodInfo, new: PodInfo) -> None: ...


class FiguresPlugin(Plugin, Protocol):
    """Tells in numbers what it has noted by itself, such as what is reserved; what objects say is no part of it.

    It is asked whenever metrics are read, between cycles, and after each step that is recorded.
    """

    __slots__ = ()

    def figures(self) -> Sequence[Figure]: ...


class ExplainingPlugin(Plugin, Protocol):
    """Tells in sentences what stands behind its rejection of a pod, as things are now.

    It is asked only if somebody wants to know, between cycles, about a pod that it has rejected. With PostFilter it is
    asked, too, about a pod that it found no node for; where it says which tenant is next, about any that fits nowhere.
    All that may be over.
    """

    __slots__ = ()

    def explain_rejection(self, pod: PodInfo) -> Sequence[str]: ...


class ScoreExplainingPlugin(Plugin, Protocol):
    """Tells in sentences, with numbers, what stands behind its score of a node for a pod, as things are now.

    It is asked only if somebody wants to know, between cycles, about a node that it has scored, or has left when it
    narrowed the nodes down. The pod may be on that node by then, and is to be left out of what is told of it.
    """

    __slots__ = ()

    def explain_score(self, pod: PodInfo, node: NodeView) -> Sequence[str]: ...


class RemedyPlugin(Plugin, Protocol):
    """Says which changes of the objects that it follows would have it let a pod pass; each is tried before it is told.

    The least come first. Asked only where somebody looks for what would help the pod.
    """

    __slots__ = ()

    def remedies(self, pod: PodInfo) -> Sequence[Remedy]: ...


class LesserRequestsPlugin(Plugin, Protocol):
    """Says how much less a pod could request to pass on a node that the plugin rejects, where that is all it takes.

    The most that the whole pod may request of each resource that is too much, counted as in `PodInfo.requests`; nothing
    where no less would do. Asked only where somebody looks for what would help the pod, and tried before it is told.
    """

    __slots__ = ()

    def lesser_requests(self, pod: PodInfo, node: NodeView) -> Mapping[str, int]: ...


class PreFilterResult(NamedTuple):
    """The only nodes worth looking at, by name; None for all."""

    node_names: frozenset[str] | None = None


class PreFilterPlugin(Plugin, Protocol):
    """Looks at the pod once: rejects it, narrows the search, skips its own Filter, or prepares it."""

    __slots__ = ()

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult | Status | None: ...


class VersionedPreFilterPlugin(Plugin, Protocol):
    """A PreFilter plugin that says how long it will skip pods of a shape (the promise `pre_filter_has_version`)."""

    __slots__ = ()

    def pre_filter_version(self, pod: PodInfo) -> Hashable | None: ...


class PreFilterExtensions(Plugin, Protocol):
    """How the state that PreFilter prepared changes when a pod comes to or goes from a node in a what-if."""

    __slots__ = ()

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeView) -> Status | None: ...

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeView) -> Status | None: ...


class FilterPlugin(Plugin, Protocol):
    """Says whether a pod can run on a node."""

    __slots__ = ()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None: ...


class OverDomains(NamedTuple):
    """Values by topology domain, `values[ids[row]]` being a row's; every node is in one of the domains."""

    token: object
    """Stands for the topology."""
    ids: NDArray[np.intp]
    """By row of the table. It is not written to: where the domain of any row changes, there is a new array."""
    values: NDArray[np.signedinteger]
    """By domain, with one element more for rows that hold no node, whose id is -1."""

    @classmethod
    def of(cls, topology: Topology, values: NDArray[np.signedinteger]) -> "OverDomains":
        """Return the values of a topology's domains as they are now."""
        return cls(topology.token, topology.ids, values)


class DomainCodes(NamedTuple):
    """Verdicts for whole domains, as `FilterColumn` has them for rows."""

    codes: OverDomains
    describe: Callable[[int], Status]


class FilterColumn(NamedTuple):
    """Verdicts for some rows: 0 fits, any other code is explained by `describe(code)`.

    What a code means may depend on the pod's signature, never on the rows asked for.
    """

    codes: Codes
    describe: Callable[[int], Status]


def same_for_all(status: Status, table: NodeTable, rows: Rows) -> FilterColumn:
    """Return the column of a plugin that says the same of every node."""
    return FilterColumn(np.ones(len(table.valid[rows]), dtype=np.int32), lambda _code: status)


class ColumnFilterPlugin(Plugin, Protocol):
    """Says for many nodes at once whether a pod can run there.

    Columns are kept from pod to pod where the plugin promises what they depend on (`filter_depends_on`), and says what
    of the pod they depend on (`SignaturePlugin`).
    """

    __slots__ = ()

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn: ...


class RowFilterPlugin(Plugin, Protocol):
    """Gives the code of one row (the promise `filters_by_row`).

    Kept columns are mostly repaired in one row, for which arrays are slow.
    """

    __slots__ = ()

    def filter_row(self, state: CycleState, pod: PodInfo, table: NodeTable, row: int) -> int: ...


class RowLoad(NamedTuple):
    """How much pods take of some rows in a what-if: their number, and requests by resource, int64 (rows,)."""

    pods: NDArray[np.int64]
    requested: Mapping[str, NDArray[np.int64]]


class LoadWhatIfPlugin(Plugin, Protocol):
    """A column filter that looks at how much all pods of a row take together (the promise `filters_under_load`).

    It can be asked what it would say were that some other load: `load_limits` are the loads of the rows, int64
    (rows,), up to which, and not beyond, the pod fits; `filter_loaded_columns` is `filter_columns` under the load
    given. `resources_read` names the resources that a load must tell of for this pod.
    """

    __slots__ = ()

    def resources_read(self, pod: PodInfo) -> Sequence[str]: ...

    def load_limits(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: RowArray) -> RowLoad: ...

    def filter_loaded_columns(
        self, state: CycleState, pod: PodInfo, table: NodeTable, rows: RowArray, load: RowLoad
    ) -> FilterColumn: ...


class PodWhatIfPlugin(Plugin, Protocol):
    """A column filter that looks at single pods, and says which matter (the promise `filters_by_affecting_pods`).

    What it says of a node may change when `other` comes there or leaves only if the pod `is_affected_by` it.
    """

    __slots__ = ()

    def is_affected_by(self, state: CycleState, pod: PodInfo, other: PodInfo) -> bool: ...


class DomainFilterPlugin(Plugin, Protocol):
    """Answers for whole topology domains where all nodes of one get the same code; None where that is not so.

    The codes are those of `filter_columns`, by domain, in an array that is not written to afterwards.
    """

    __slots__ = ()

    def filter_domains(self, state: CycleState, pod: PodInfo) -> DomainCodes | None: ...


class PostFilterResult(NamedTuple):
    """Where the pod may go once the room there is free; "" clears an earlier nomination.

    `victims` are pods there, most important first, that must go before: the core evicts them.
    """

    nominated_node_name: str
    victims: tuple[PodInfo, ...] = ()


PostFilterAnswer = tuple[PostFilterResult | None, Status | None]
"""Where the pod may go, if anywhere; None or Success where that makes it schedulable, else why it does not."""


class PostFilterPlugin(Plugin, Protocol):
    """Tries to make a pod that fits nowhere schedulable."""

    __slots__ = ()

    def post_filter(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterAnswer | Steps[PostFilterAnswer]: ...


class FeasibleNodes:
    """The nodes that are left for scoring: a mask over the rows of a table, not to be written to."""

    __slots__ = ("_rows", "count", "mask", "table")

    def __init__(self, table: NodeTable, mask: NDArray[np.bool_]) -> None:
        self.table = table
        self.mask = mask
        self.count = int(np.count_nonzero(mask))
        self._rows: Rows | None = None

    @property
    def rows(self) -> Rows:
        """The rows, ascending: a slice where there are no gaps, which gives views instead of copies."""
        if self._rows is None and self.count and self.mask[: self.count].all():
            self._rows = slice(0, self.count)  # the usual case: no gaps from the first row on
        if self._rows is None:
            rows = np.flatnonzero(self.mask)
            together = self.count and int(rows[-1]) - int(rows[0]) == self.count - 1
            self._rows = slice(int(rows[0]), int(rows[-1]) + 1) if together else rows
        return self._rows

    def row_array(self) -> NDArray[np.intp]:
        """The rows as an array."""
        rows = self.rows
        return np.arange(rows.start, rows.stop, dtype=np.intp) if isinstance(rows, slice) else rows

    def views(self) -> list[NodeView]:
        """The nodes one by one."""
        return [self.table.view(row) for row in self.row_array().tolist()]


class Narrowed(NamedTuple):
    """Which of the feasible nodes are left for scoring, bool by row of the table, and why the others are not."""

    mask: NDArray[np.bool_]
    status: Status


class NarrowingPlugin(Plugin, Protocol):
    """Keeps some of the nodes that pass all filters: a preference that no score may outweigh.

    It is asked once for a pod that fits anywhere, before the nodes to score are sampled and before extenders, and not
    about a node that was nominated. None keeps all, and so does a mask that would leave no node.
    """

    __slots__ = ()

    def narrow(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> Narrowed | None: ...


class PreScorePlugin(Plugin, Protocol):
    """Prepares scoring of the feasible nodes, or skips the plugin's own Score.

    A plugin that skips gives no score at all, or to every node the one that it promises as `score_when_skipped`.
    """

    __slots__ = ()

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> Status | None: ...


class VersionedPreScorePlugin(Plugin, Protocol):
    """A PreScore plugin that says how long it will skip pods of a shape (the promise `pre_score_has_version`)."""

    __slots__ = ()

    def pre_score_version(self, pod: PodInfo) -> Hashable | None: ...


class ScorePlugin(Plugin, Protocol):
    """Ranks a node for a pod, in a scale of the plugin's own."""

    __slots__ = ()

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int | Status: ...


class ColumnScorePlugin(Plugin, Protocol):
    """Ranks many nodes at once, int64 (rows,). A status instead, an error, only where answers are never kept.

    Columns are kept from pod to pod as those of `ColumnFilterPlugin` are; the promise is `score_depends_on`.
    """

    __slots__ = ()

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores | Status: ...


class RowScorePlugin(Plugin, Protocol):
    """Gives the score of one row (the promise `scores_by_row`)."""

    __slots__ = ()

    def score_row(self, state: CycleState, pod: PodInfo, table: NodeTable, row: int) -> int: ...


class DomainScorePlugin(Plugin, Protocol):
    """Ranks whole topology domains where all nodes of one get the same score; None where that is not so.

    The scores are read at once, so they may be an array that the plugin goes on with. Normalizing is then given the
    score of each domain that has feasible nodes, once: what it makes of a score may depend on which scores there are,
    but not on how many nodes have them.
    """

    __slots__ = ()

    def score_domains(self, state: CycleState, pod: PodInfo) -> OverDomains | None: ...


class NormalizeScorePlugin(Plugin, Protocol):
    """Brings the raw scores of the feasible nodes, in row order, to 0 to 100."""

    __slots__ = ()

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores | Status: ...


class SignaturePlugin(Plugin, Protocol):
    """Says what of the pod its filter and score read: pods with equal fragments get equal answers.

    Answers in columns, and those about single nodes, are kept by it. None means that those for this pod must not be.
    """

    __slots__ = ()

    def signature(self, pod: PodInfo) -> Hashable | None: ...


class NodeSignaturePlugin(Plugin, Protocol):
    """Says what of a node and its pods its plain filter and score read: nodes with equal fragments get equal answers.

    So one of them is asked about for all. It is made from the node alone, whatever the pod.
    """

    __slots__ = ()

    def node_signature(self, node: NodeView) -> Hashable: ...


class ReservePlugin(Plugin, Protocol):
    """Takes what the pod needs on the chosen node, and gives it back.

    `unreserve` may be called for a pod that this plugin has not reserved anything for: another failed before it.
    """

    __slots__ = ()

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None: ...

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None: ...


class PermitPlugin(Plugin, Protocol):
    """Approves, rejects, or (Wait) holds the pod back for so many seconds, at most 15 minutes; None approves."""

    __slots__ = ()

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float] | None: ...


class PreBindPreFlightResult(NamedTuple):
    """PreBind has something to do for the pod."""

    allow_parallel: bool = False
    """Whether PreBind may run at the same time as that of the plugins before and after it that allow it, too."""


class PreBindPreFlightPlugin(Plugin, Protocol):
    """Says before binding starts whether PreBind will have anything to do (Skip: no), and whether beside others."""

    __slots__ = ()

    def pre_bind_pre_flight(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> PreBindPreFlightResult | Status | None: ...


class PreBindPlugin(Plugin, Protocol):
    """Does what must be done before the pod is bound."""

    __slots__ = ()

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | Steps[Status | None] | None: ...


class BindPlugin(Plugin, Protocol):
    """Binds the pod; the first that does not Skip decides."""

    __slots__ = ()

    def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | Steps[Status | None] | None: ...


class PostBindPlugin(Plugin, Protocol):
    """Hears that the pod was bound."""

    __slots__ = ()

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None: ...


class PodGroupInfo(NamedTuple):
    """A group in its scheduling cycle: its key, and the members that are to be placed, in the order they are tried."""

    key: GroupKey
    pods: tuple[PodInfo, ...]


class Placement(NamedTuple):
    """Some of the nodes, by row, ascending: a group that is placed there is placed nowhere else."""

    name: str
    rows: NDArray[np.intp]


class Assignment(NamedTuple):
    """Where a member would go."""

    pod: PodInfo
    node_name: str


class PodGroupAssignments(NamedTuple):
    """What a placement has room for."""

    placement: Placement
    proposed: tuple[Assignment, ...]


class GroupQuestion(Protocol):
    """The cluster in a what-if about a group: running pods can be taken off and put back, and the group be tried."""

    @property
    def nodes(self) -> Mapping[str, str]:
        """Where `schedule` has found places, by the uid of the member."""

    def take(self, pods: Iterable[PodInfo]) -> None: ...

    def put_back(self, pods: Iterable[PodInfo]) -> None: ...

    def schedule(self) -> Steps[Status | None]: ...

    def still_fits(self) -> bool: ...


class PodGroupPostFilterPlugin(Plugin, Protocol):
    """A PostFilter plugin that can also make a whole group schedulable. It is asked once for the group.

    It returns the pods that have to go, most important first, or why that does not help; Pending where pods that were
    asked to go before are still on their way.
    """

    __slots__ = ()

    def pod_group_post_filter(
        self, group: PodGroupInfo, question: GroupQuestion
    ) -> Steps[tuple[PodInfo, ...] | Status]: ...


class PlacementGeneratePlugin(Plugin, Protocol):
    """Says which parts of the nodes a group may be placed on as a whole; the parent placement is where it may look.

    The first plugin is given all nodes, each further one every placement of the one before. A rejection, or no
    placement at all, makes the group unschedulable.
    """

    __slots__ = ()

    def placement_generate(self, group: PodGroupInfo, parent: Placement) -> Sequence[Placement] | Status: ...


class PlacementScorePlugin(Plugin, Protocol):
    """Ranks the placements that have room for a group, in a scale of the plugin's own."""

    __slots__ = ()

    def placement_score(self, group: PodGroupInfo, assignments: PodGroupAssignments) -> int | Status: ...


class NormalizePlacementScorePlugin(Plugin, Protocol):
    """Brings the scores of the placements to 0 to 100."""

    __slots__ = ()

    def normalize_placement_scores(self, group: PodGroupInfo, scores: Sequence[int]) -> Sequence[int] | Status: ...
