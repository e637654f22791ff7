"""The contract between the framework and its plugins: one Protocol for each extension point, and for each of its forms.

A plugin is a class with a `name`, made as `plugin(args, handle)`, that implements any of these. It may inherit those
that it implements, as all of Berth's do, so that the type checker holds it to them (`docs/plugin-forms.md`). Its
methods determine which points it takes part in; methods inherited only from a Protocol do not count. The framework's
duties: calls come in the order given here, once per attempt unless stated, in one thread. A plugin's duties: never
change what it is given, never block, say "does not fit" with a Status. A method that must wait for the outside
(`post_filter`, `pre_bind`, `bind`) may be a generator that yields effects and returns its answer.

Filter and Score come in several forms. The plain one answers for one node, and is the specification: the others must
agree with it. The column form answers for many rows at once, the row form for one row without arrays. Answers of the
plain or the column form are kept from pod to pod if the plugin promises what they depend on. Forms that need such trust
are used only if the plugin's class makes the promise that goes with them (`berth.framework.promises`). Those whose
promise is among `IN_TREE_PROMISES` are for Berth's own plugins.
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
    """Says whether a pod may enter the active queue; a rejection keeps it out until an event that the plugin registered
    for.
    """

    __slots__ = ()

    def pre_enqueue(self, pod: PodInfo) -> Status | None: ...


class QueueSortPlugin(Plugin, Protocol):
    """Orders the active queue."""

    __slots__ = ()

    def less(self, a: QueuedPod, b: QueuedPod) -> bool: ...


class SortKeyPlugin(Plugin, Protocol):
    """A QueueSort plugin that gives a key to sort by, which is faster. It must give the same order as `less`."""

    __slots__ = ()

    def sort_key(self, queued: QueuedPod) -> Any: ...  # anything that can be compared with its like


class TenantSortPlugin(Plugin, Protocol):
    """A QueueSort plugin that shares the queue among tenants: `less` orders the pods of each.

    `tenant_of` says which tenant a pod belongs to, when it is queued. `next_tenant` is asked each time a pod is about
    to be tried, with the first pod of every tenant that has any (at least one); the pod of the tenant that it names is
    tried next. A tenant's share may change with every pod that gets a node, which the plugin learns from Reserve and as
    a `PodEventHandlerPlugin`.
    """

    __slots__ = ()

    def tenant_of(self, queued: QueuedPod) -> Hashable: ...

    def next_tenant(self, heads: Mapping[Hashable, QueuedPod]) -> Hashable: ...


class EventsPlugin(Plugin, Protocol):
    """Says which events may lift its rejections."""

    __slots__ = ()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]: ...


class PodEventHandlerPlugin(Plugin, Protocol):
    """Is told which pods there are, like an informer's handler: as the API server has them, those of all schedulers.

    The framework calls `pod_added` once in the life of each pod, with or without a node, and `pod_removed` once when it
    is gone or has finished; a later pod of the same name is a different one, with a different uid. Pods that exist when
    the scheduler starts, when it takes over as leader, or when a changed configuration makes new plugins are reported
    as added before the first cycle. No cycle is open during a call. The cache knows already; PreEnqueue, hints and
    everything else are asked afterwards.

    Only Reserve and Unreserve report what this scheduler merely intends: here a reserved pod has no node until its
    binding is seen. `pod_removed` of a reserved pod comes before its `unreserve`, and `unreserve` may come for a pod
    that has been bound, if the answer to the binding was lost.
    """

    __slots__ = ()

    def pod_added(self, pod: PodInfo) -> None: ...

    def pod_removed(self, pod: PodInfo) -> None: ...


class PodUpdateHandlerPlugin(Plugin, Protocol):
    """Is told of changes to pods as well, above all that a pod is bound. Both arguments are the same pod by uid.

    It may be called although nothing has changed, like the update handler of an informer.
    """

    __slots__ = ()

    def pod_updated(self, old: PodInfo, new: PodInfo) -> None: ...


class FiguresPlugin(Plugin, Protocol):
    """Reports numbers about its own state, such as what is reserved; not what can be read off objects.

    It is asked whenever metrics are read, between cycles, and after each recorded step.
    """

    __slots__ = ()

    def figures(self) -> Sequence[Figure]: ...


class ExplainingPlugin(Plugin, Protocol):
    """Explains in sentences why it rejects a pod, as things are now.

    It is asked only on demand, between cycles, about a pod that it has rejected. A PostFilter plugin is also asked
    about a pod for which it found no node; a `TenantSortPlugin` about any pod that fits nowhere. The reason may no
    longer hold.
    """

    __slots__ = ()

    def explain_rejection(self, pod: PodInfo) -> Sequence[str]: ...


class ScoreExplainingPlugin(Plugin, Protocol):
    """Explains in sentences, with numbers, its score of a node for a pod, as things are now.

    It is asked only on demand, between cycles, about a node that it has scored, or has left when it narrowed the nodes
    down. The pod may be on that node by then, and must not be counted there.
    """

    __slots__ = ()

    def explain_score(self, pod: PodInfo, node: NodeView) -> Sequence[str]: ...


class RemedyPlugin(Plugin, Protocol):
    """Proposes changes to the objects that it follows which would let a pod pass; each is tried before it is shown.

    The smallest come first. Asked only when looking for what would help the pod.
    """

    __slots__ = ()

    def remedies(self, pod: PodInfo) -> Sequence[Remedy]: ...


class LesserRequestsPlugin(Plugin, Protocol):
    """Says how much less a pod would have to request to pass on a node that the plugin rejects, if that is all it
    takes.

    Returns the most that the whole pod may request of each resource of which it requests too much, counted as in
    `PodInfo.requests`; nothing if requesting less would not help. Asked only when looking for what would help the pod,
    and tried before it is shown.
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
    """Updates the state that PreFilter prepared when a pod is added to or removed from a node in a what-if."""

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
    """Identifies the topology."""
    ids: NDArray[np.intp]
    """By row of the table."""
    values: NDArray[np.signedinteger]
    """By domain, with one extra element for rows that hold no node, whose id is -1."""
    version: int
    """Grows when the domain of any row changes."""

    @classmethod
    def of(cls, topology: Topology, values: NDArray[np.signedinteger]) -> "OverDomains":
        """Return values for the domains of a topology as it is now."""
        return cls(topology.token, topology.ids, values, topology.version)


class DomainCodes(NamedTuple):
    """Verdicts for whole domains, like those of `FilterColumn` for rows."""

    codes: OverDomains
    describe: Callable[[int], Status]


class FilterColumn(NamedTuple):
    """Verdicts for some rows: 0 fits, any other code is explained by `describe(code)`.

    What a code means may depend on the pod's signature, never on the rows asked for.
    """

    codes: Codes
    describe: Callable[[int], Status]


def same_for_all(status: Status, table: NodeTable, rows: Rows) -> FilterColumn:
    """Return the column of a plugin that says the same about every node."""
    return FilterColumn(np.ones(len(table.valid[rows]), dtype=np.int32), lambda _code: status)


class ColumnFilterPlugin(Plugin, Protocol):
    """Says for many nodes at once whether a pod can run there.

    Columns are kept from pod to pod if the plugin promises what they depend on (`filter_depends_on`), and says which
    part of the pod they depend on (`SignaturePlugin`).
    """

    __slots__ = ()

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn: ...


class RowFilterPlugin(Plugin, Protocol):
    """Gives the code of one row (the promise `filters_by_row`).

    Usually a single row of a kept column is repaired, for which arrays are slow.
    """

    __slots__ = ()

    def filter_row(self, state: CycleState, pod: PodInfo, table: NodeTable, row: int) -> int: ...


class RowLoad(NamedTuple):
    """How much pods take of some rows in a what-if: their number, and requests by resource, int64 (rows,)."""

    pods: NDArray[np.int64]
    requested: Mapping[str, NDArray[np.int64]]


class LoadWhatIfPlugin(Plugin, Protocol):
    """A column filter that looks only at how much all pods of a row take together (the promise `filters_under_load`).

    It can be asked about any other load: `load_limits` are the loads of the rows, int64 (rows,), up to which, and not
    beyond, the pod fits; `filter_loaded_columns` is `filter_columns` under the given load. `resources_read` names the
    resources that a load must cover for this pod.
    """

    __slots__ = ()

    def resources_read(self, pod: PodInfo) -> Sequence[str]: ...

    def load_limits(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: RowArray) -> RowLoad: ...

    def filter_loaded_columns(
        self, state: CycleState, pod: PodInfo, table: NodeTable, rows: RowArray, load: RowLoad
    ) -> FilterColumn: ...


class PodWhatIfPlugin(Plugin, Protocol):
    """A column filter that looks at single pods, and says which matter (the promise `filters_by_affecting_pods`).

    Its answer for a node may change when `other` comes there or leaves only if the pod `is_affected_by` it.
    """

    __slots__ = ()

    def is_affected_by(self, state: CycleState, pod: PodInfo, other: PodInfo) -> bool: ...


class DomainFilterPlugin(Plugin, Protocol):
    """Answers for whole topology domains if all nodes of a domain get the same code; None otherwise.

    The codes are those of `filter_columns`, by domain, in an array that is not written to afterwards.
    """

    __slots__ = ()

    def filter_domains(self, state: CycleState, pod: PodInfo) -> DomainCodes | None: ...


class PostFilterResult(NamedTuple):
    """Where the pod may go once the room there is free; "" clears an earlier nomination.

    `victims` are pods there, most important first, that must go first: the core evicts them.
    """

    nominated_node_name: str
    victims: tuple[PodInfo, ...] = ()


PostFilterAnswer = tuple[PostFilterResult | None, Status | None]
"""Where the pod may go, if anywhere; with None or Success if that makes it schedulable, otherwise with the reason why
not.
"""


class PostFilterPlugin(Plugin, Protocol):
    """Tries to make a pod that fits nowhere schedulable."""

    __slots__ = ()

    def post_filter(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterAnswer | Steps[PostFilterAnswer]: ...


class FeasibleNodes:
    """The nodes left for scoring: a mask over the rows of a table, not to be written to."""

    __slots__ = ("_rows", "count", "mask", "table")

    def __init__(self, table: NodeTable, mask: NDArray[np.bool_]) -> None:
        self.table = table
        self.mask = mask
        self.count = int(np.count_nonzero(mask))
        self._rows: Rows | None = None

    @property
    def rows(self) -> Rows:
        """The rows, ascending: a slice if there are no gaps, which gives views instead of copies."""
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
    about a nominated node. None keeps all, and so does a mask that would leave no node.
    """

    __slots__ = ()

    def narrow(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> Narrowed | None: ...


class PreScorePlugin(Plugin, Protocol):
    """Prepares scoring of the feasible nodes, or skips the plugin's own Score.

    A plugin that skips gives no score at all, or gives every node the one it promises as `score_when_skipped`.
    """

    __slots__ = ()

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> Status | None: ...


class VersionedPreScorePlugin(Plugin, Protocol):
    """A PreScore plugin that says how long it will skip pods of a shape (the promise `pre_score_has_version`)."""

    __slots__ = ()

    def pre_score_version(self, pod: PodInfo) -> Hashable | None: ...


class ScorePlugin(Plugin, Protocol):
    """Ranks a node for a pod, on the plugin's own scale."""

    __slots__ = ()

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int | Status: ...


class ColumnScorePlugin(Plugin, Protocol):
    """Ranks many nodes at once, int64 (rows,). An error status is allowed instead, but only if answers are never kept.

    Columns are kept from pod to pod like those of `ColumnFilterPlugin`; the promise is `score_depends_on`.
    """

    __slots__ = ()

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores | Status: ...


class RowScorePlugin(Plugin, Protocol):
    """Gives the score of one row (the promise `scores_by_row`)."""

    __slots__ = ()

    def score_row(self, state: CycleState, pod: PodInfo, table: NodeTable, row: int) -> int: ...


class DomainScorePlugin(Plugin, Protocol):
    """Ranks whole topology domains if all nodes of a domain get the same score; None otherwise.

    The scores are read at once, so they may be an array that the plugin keeps using. Normalizing is then given the
    score of each domain with feasible nodes once: its result may depend on which scores there are, but not on how many
    nodes have them.
    """

    __slots__ = ()

    def score_domains(self, state: CycleState, pod: PodInfo) -> OverDomains | None: ...


class NormalizeScorePlugin(Plugin, Protocol):
    """Brings the raw scores of the feasible nodes, in row order, to 0 to 100."""

    __slots__ = ()

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores | Status: ...


class SignaturePlugin(Plugin, Protocol):
    """Says which part of the pod its filter and score read: pods with equal fragments get equal answers.

    Answers, by column or by node, are kept under it. None means that those for this pod must not be kept.
    """

    __slots__ = ()

    def signature(self, pod: PodInfo) -> Hashable | None: ...


class NodeSignaturePlugin(Plugin, Protocol):
    """Says what its plain filter and score read of a node and its pods: nodes with equal fragments get equal answers.

    So one of them answers for all. It must depend on the node alone, not on the pod.
    """

    __slots__ = ()

    def node_signature(self, node: NodeView) -> Hashable: ...


class ReservePlugin(Plugin, Protocol):
    """Takes what the pod needs on the chosen node, and gives it back.

    `unreserve` may be called for a pod for which this plugin has reserved nothing, because another failed before it.
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
    """Whether PreBind may run in parallel with that of neighbouring plugins that also allow it."""


class PreBindPreFlightPlugin(Plugin, Protocol):
    """Says before binding starts whether PreBind will have anything to do (Skip: no), and whether in parallel with
    others.
    """

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
    """Is told that the pod was bound."""

    __slots__ = ()

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None: ...


class PodGroupInfo(NamedTuple):
    """A group in its scheduling cycle: its key, and the members to place, in the order in which they are tried."""

    key: GroupKey
    pods: tuple[PodInfo, ...]


class Placement(NamedTuple):
    """Some of the nodes, by row, ascending, on which a group is placed as a whole."""

    name: str
    rows: NDArray[np.intp]


class Assignment(NamedTuple):
    """Where a member would go."""

    pod: PodInfo
    node_name: str


class PodGroupAssignments(NamedTuple):
    """Where the members of a group would go in a placement."""

    placement: Placement
    proposed: tuple[Assignment, ...]


class GroupQuestion(Protocol):
    """The cluster in a what-if about a group: running pods can be removed and put back, and the group can be tried."""

    @property
    def nodes(self) -> Mapping[str, str]:
        """Where `schedule` has placed the members, by uid."""

    def take(self, pods: Iterable[PodInfo]) -> None: ...

    def put_back(self, pods: Iterable[PodInfo]) -> None: ...

    def schedule(self) -> Steps[Status | None]: ...

    def still_fits(self) -> bool: ...


class PodGroupPostFilterPlugin(Plugin, Protocol):
    """A PostFilter plugin that can also make a whole group schedulable. It is asked once for the group.

    It returns the pods that have to go, most important first, or why that does not help; Pending if earlier victims are
    still on their way out.
    """

    __slots__ = ()

    def pod_group_post_filter(
        self, group: PodGroupInfo, question: GroupQuestion
    ) -> Steps[tuple[PodInfo, ...] | Status]: ...


class PlacementGeneratePlugin(Plugin, Protocol):
    """Proposes the parts of the nodes on which a group may be placed as a whole, within the parent placement.

    The first plugin is given all nodes, each further one every placement that the one before proposed. A rejection, or
    no placement at all, makes the group unschedulable.
    """

    __slots__ = ()

    def placement_generate(self, group: PodGroupInfo, parent: Placement) -> Sequence[Placement] | Status: ...


class PlacementScorePlugin(Plugin, Protocol):
    """Ranks the placements that have room for a group, on the plugin's own scale."""

    __slots__ = ()

    def placement_score(self, group: PodGroupInfo, assignments: PodGroupAssignments) -> int | Status: ...


class NormalizePlacementScorePlugin(Plugin, Protocol):
    """Brings the scores of the placements to 0 to 100."""

    __slots__ = ()

    def normalize_placement_scores(self, group: PodGroupInfo, scores: Sequence[int]) -> Sequence[int] | Status: ...
