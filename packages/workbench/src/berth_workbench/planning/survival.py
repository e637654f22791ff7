"""Which failures a cluster survives: every node, every zone, every pool, and pairs of them.

`survival` loses each of them, and says which pods have no place then, which budgets have fewer healthy pods than they
demand, and how many more nodes it would take. If columns prove that all pods find another place (`certain_room`), that
is the answer; nodes that differ only in names and images, with pods of the same shapes, share an answer; all others are
lost in a simulated cluster, where the scheduler decides, and restored. If there are more of these than
`simulated_at_most`, the ones that seem worst are simulated, and for the others a bound is given.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, combinations
from typing import Any, Final, Literal

import msgspec
import numpy as np

from berth.api.dra import ResourceSlice
from berth.api.node import Node
from berth.api.pod import Pod
from berth.core.core import Core
from berth.core.questions import profile_of
from berth.framework.cycle_state import CycleState
from berth.plugins.legacy.volumes import REASON_AFFINITY_CONFLICT
from berth.plugins.volumes.binder import REASON_NODE_CONFLICT
from berth.plugins.volumes.claims import claim_names
from berth.state.pod_info import PodInfo, PodShape
from berth_workbench.planning.certain_room import CertainRoom, LeavingPods
from berth_workbench.planning.more_nodes import MoreNodes, add_until_placed, content_of, kinds_of, nodes_in_words
from berth_workbench.planning.whatif import GangOutcome, natural, outcome_of
from berth_workbench.simulation.budgets import follows_its_node, is_active, is_daemon, owner_of, workload_of
from berth_workbench.simulation.cluster import EXTENDERS_LEFT_OUT
from berth_workbench.simulation.gangs import gang_again, gangs_of, group_keys
from berth_workbench.simulation.measures import is_pending, pending_pods, rows_by_pool, rows_by_zone
from berth_workbench.simulation.node_changes import remove_nodes
from berth_workbench.simulation.prices import Prices
from berth_workbench.simulation.processes import may_fork, spread
from berth_workbench.simulation.rehearsal import Rehearsal
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.watch import UNWATCHED, WorkWatch

Kind = Literal["node", "zone", "pool"]
KINDS: Final[tuple[Kind, ...]] = ("node", "zone", "pool")
Answered = Literal["proven", "simulated", "alike", "bound"]
SIMULATED_AT_MOST = 200
"""So many failures are simulated, unless others are asked for."""
PODS_NAMED = 2
"""How many pods of a workload are named of those that are lost."""
WORKLOADS_NAMED = 3
"""How many workloads are named of those that are lost."""
KEPT_BY_VOLUMES: Final = (REASON_NODE_CONFLICT, REASON_AFFINITY_CONFLICT)
"""Of these reasons, one says of a node that it cannot reach a volume."""
PODS_ALONE = 2000
"""From so many pods on, that have to find another place, a process of its own costs less than putting them back."""
PAIRS_AT_MOST = 500
"""So many pairs of zones, and of pools, are looked at; and so many pairs of nodes."""
NODES_AT_MOST = 64
"""Up to how many nodes it tries to prove that any of them can be lost at once."""


class LostPods(msgspec.Struct, frozen=True, rename="camel"):
    """Pods of one workload that have no place for the same reason."""

    workload: str
    """Kind and `namespace/name` of what makes them, such as a Deployment; `Pod` and its own where nothing does."""
    pods: int
    message: str
    names: tuple[str, ...] = ()
    """Of the first few of them, as `namespace/name`."""
    volumes: tuple[str, ...] = ()
    """The claims of these whose volumes cannot be reached from the nodes that are left."""


class ShortBudget(msgspec.Struct, frozen=True, rename="camel"):
    """A budget with fewer healthy pods than it demands."""

    name: str
    """`namespace/name`."""
    healthy: int
    demanded: int
    is_lasting: bool
    """Whether it still is when everybody who finds a place has one; otherwise at the moment of the failure."""


class Failure(msgspec.Struct, frozen=True, rename="camel"):
    """What is lost at once, and the consequences."""

    kind: Kind
    names: tuple[str, ...]
    """Of the nodes, zones or pools."""
    nodes: int
    pods: int
    """How many pods have to find another place."""
    unplaced: int
    """How many pods have none in the end, those included that others have preempted; at most so many for a `bound`."""
    gone: int
    """How many pods are gone for good, since no controller replaces them."""
    preempted: int
    answered: Answered
    alike: str = ""
    """The node whose answer this is."""
    lost: tuple[LostPods, ...] = ()
    """Who has no place or is gone, by workload; the most pods first."""
    budgets: tuple[ShortBudget, ...] = ()
    gangs: tuple[GangOutcome, ...] = ()
    """The gangs that ran and have fewer pods with a node in the end than they need."""
    more: MoreNodes | None = None
    """What it takes so that those without a place have one; null where everybody has, or it was not looked for."""

    @property
    def survives(self) -> bool:
        """Whether all pods have a place in the end, and no budget is short."""
        return not self.unplaced and not self.gone and not any(each.is_lasting for each in self.budgets)

    @property
    def is_exact(self) -> bool:
        """Whether this is what would happen, and not a bound."""
        return self.answered != "bound"


class KindOfFailure(msgspec.Struct, frozen=True, rename="camel"):
    """All failures of a kind."""

    kind: Kind
    at_once: int
    """How many of them are lost at the same moment."""
    failures: int
    survived: int
    """Of how many it is certain that everybody has a place in the end."""
    unknown: int
    """Of how many only a bound is known, or nothing: they are left out of `failures`, also where it was stopped."""


class Survival(msgspec.Struct, frozen=True, rename="camel"):
    """Which failures a cluster survives."""

    failures: tuple[Failure, ...]
    """The worst first."""
    kinds: tuple[KindOfFailure, ...]
    any_nodes: int
    """However so many nodes are chosen to be lost at once, everybody that is replaced has a place, by proof."""
    pending: int
    """How many pods have no place before anything is lost; they do not count as lost."""
    replaced: int = 0
    """How many pods on nodes would have to find another place."""
    bare: int = 0
    """How many pods on nodes nothing replaces: they are gone for good with their nodes."""
    notes: tuple[str, ...] = ()
    is_complete: bool = True
    """False where it was stopped before the end."""


def survival(
    site: Site,
    *,
    kinds: Sequence[Kind] = KINDS,
    pairs: bool = False,
    pool_label: str = "",
    prices: Prices | None = None,
    simulated_at_most: int = SIMULATED_AT_MOST,
    watch: WorkWatch = UNWATCHED,
) -> Survival:
    """Return which failures a cluster survives. Pending pods are placed first, as far as they fit.

    With `pairs` two zones, two pools and two nodes are lost at once, too. Afterwards the cluster is as it was then.
    Raises `StoppedError` if it is stopped before anything is known.
    """
    if pending_pods(site.cluster):
        site.settle()
    asker = _Asker(site, pool_label, prices, simulated_at_most, watch)
    try:
        return asker.answer(kinds, pairs=pairs)
    finally:
        asker.put_back()


def loss_of(
    site: Site,
    groups: Mapping[str, Sequence[str]],
    *,
    simulated_at_most: int = SIMULATED_AT_MOST,
    counts_nodes: bool = True,
    watch: WorkWatch = UNWATCHED,
) -> list[Failure]:
    """Return the consequences of losing each of some groups of nodes, given by name, in a cluster that is at rest.

    How many more nodes it takes is looked for where `counts_nodes`.
    """
    if not groups:
        return []
    asker = _Asker(site, "", None, simulated_at_most, watch)
    asker.counts_nodes = counts_nodes
    try:
        return asker.lose("pool", groups)
    finally:
        asker.put_back()


@dataclass(slots=True, eq=False, repr=False)
class _Case:
    """A failure without an answer yet."""

    kind: Kind
    names: tuple[str, ...]
    node_names: list[str]
    leaving: LeavingPods
    gone: int
    unproven: list[PodShape] = field(default_factory=list)
    is_proven: bool = False
    """Whether it is certain that all pods find another place, and that no pod has to make way."""

    @property
    def pods(self) -> int:
        """How many pods have to find another place."""
        return sum(self.leaving.pods.values())

    @property
    def doubtful(self) -> int:
        """For how many pods that is not proven."""
        return sum(self.leaving.pods[shape] for shape in self.unproven)


class _Asker:
    """Asks one cluster."""

    __slots__ = ("_budgets", "_examples", "_hopeful", "_hopeless", "_leaving", "_left_over", "_lone", "_on_row",
                 "_pool_label", "_prices", "_priorities", "_proves", "_ran", "_refusable", "_room", "_simulations",
                 "_site", "_stopped", "_strained", "_watch", "counts_nodes", "pending")  # fmt: skip

    def __init__(
        self, site: Site, pool_label: str, prices: Prices | None, simulated_at_most: int, watch: WorkWatch
    ) -> None:
        self._site = site
        self._pool_label = pool_label
        self._prices = prices
        self._left_over = simulated_at_most
        self._watch = watch
        self.counts_nodes = True
        site.count_no_more()
        self._stopped = False
        cluster = site.cluster
        self.pending = len(pending_pods(cluster))
        self._examples: dict[PodShape, PodInfo] = {}
        self._hopeless: list[str] = []
        """Uids of the pods that are left out."""
        self._hopeful: Counter[PodShape] = Counter()
        self._sort_the_pending()
        cluster.publish_budgets()
        self._strained = {key for key, _ in cluster.budgets.violated()}
        self._priorities: list[int] = []
        """Of all pods that run, ascending."""
        self._on_row: dict[int, Counter[PodShape]] = {}
        self._lone: dict[int, list[Pod]] = {}
        """The pods on each row that no controller replaces."""
        self._budgets: dict[int, Counter[str]] = {}
        """How many healthy pods of each budget are on each row."""
        self._refusable: set[PodShape] = set()
        """Of whose pods the API server might refuse some that are made again."""
        self._ran = {gang.key: gang for gang in gangs_of(cluster) if gang.placed >= gang.needed}
        self._note_pods()
        self._room = CertainRoom(cluster.core, self._examples, beside=self._hopeful)
        self._proves = not any(self._weaker_than(shape) for shape in self._hopeful)

    # -- what there is -----------------------------------------------------------------------------------------------

    def _sort_the_pending(self) -> None:
        """Leave out pending pods that do not look at other pods: if they fit nowhere now, they never will.

        A loss does not give them room, and without preemption nothing else does either. The others may get a place
        along the way, for instance if a pod that kept them away is lost.
        """
        cluster = self._site.cluster
        core = cluster.core
        verdicts: dict[PodShape, bool] = {}
        for pod in list(cluster.of(Pod)):
            if not is_pending(pod) or pod.spec.scheduling_gates or pod.spec.scheduler_name not in core.profiles:
                continue
            info = core.intake.info(pod)
            if info.shape not in verdicts:
                verdicts[info.shape] = _looks_at_no_pods(core, info)
            # One that is nominated waits for a pod to be gone: it keeps room from others, and looks for other room
            # where that node is lost.
            if not verdicts[info.shape] or core.nominator.node_of(info.uid) is not None:
                self._hopeful[info.shape] += 1
                self._examples.setdefault(info.shape, info)
            elif not is_daemon(pod):
                self._hopeless.append(pod.metadata.uid)
        self._leave_out()

    def _leave_out(self) -> None:
        """Keep the scheduler from trying the hopeless pods until `put_back`. For everything else they stay where they
        are.

        Budgets, for example, count them.
        """
        self._site.cluster.begin()
        for uid in self._hopeless:
            self._site.cluster.core.queue.delete(uid)

    def put_back(self) -> None:
        """Let the scheduler try the pods that were left out again."""
        self._site.cluster.undo()

    def _note_pods(self) -> None:
        """Note where pods are: which come back as pending pods, which do not, and which budgets count them."""
        cluster = self._site.cluster
        table = cluster.core.cache.table
        shapes_asked: set[PodShape] = set()
        for row in table.rows().tolist():
            self._watch.check()
            shapes: Counter[PodShape] = Counter()
            lone: list[Pod] = []
            budgets: Counter[str] = Counter()
            for info in table.pods[row].values():
                self._priorities.append(info.priority)
                pod: Pod | None = cluster.objects.get(("Pod", f"{info.namespace}/{info.name}"))
                if pod is None or follows_its_node(pod) or not is_active(pod):
                    continue
                budgets.update(cluster.budgets.counting_as_healthy(pod))
                if owner_of(pod) is None:
                    lone.append(pod)
                    continue
                if info.shape not in shapes_asked:
                    shapes_asked.add(info.shape)
                    if cluster.admission.may_refuse_again(pod):
                        self._refusable.add(info.shape)
                self._examples.setdefault(info.shape, info)
                shapes[info.shape] += 1
            self._on_row[row], self._lone[row], self._budgets[row] = shapes, lone, budgets
        self._priorities.sort()

    def _weaker_than(self, shape: PodShape) -> int:
        """How many of the pods that run could have to make way for one of the shape."""
        info = self._examples[shape]
        return 0 if info.spec.preemption_policy == "Never" else bisect_left(self._priorities, info.priority)

    def _case(self, kind: Kind, names: tuple[str, ...], rows: Sequence[int]) -> _Case:
        table = self._site.cluster.core.cache.table
        pods: Counter[PodShape] = Counter()
        ordered = sorted(rows)  # in the order of the cluster, whichever zone or pool is named first
        for row in ordered:
            pods.update(self._on_row[row])
        leaving = LeavingPods(np.array(ordered, dtype=np.intp), pods)
        lone = sum(len(self._lone[row]) for row in ordered)
        return _Case(kind, names, [table.names[row] for row in ordered], leaving, lone)

    def _rows_by(self, kind: Kind) -> dict[str, list[int]]:
        """Return the rows of each node, zone or pool; nodes that are in none are left out."""
        table = self._site.cluster.core.cache.table
        # A name without a node has a row as well, as long as pods are bound to it.
        found: Mapping[str, Iterable[int]] = {table.names[row]: [row] for row in table.rows().tolist()}
        if kind != "node":
            by = rows_by_zone(table) if kind == "zone" else rows_by_pool(table, self._pool_label)
            found = {name: rows.tolist() for name, rows in by.items() if name}
        return {name: list(found[name]) for name in sorted(found, key=natural)}

    # -- the answers -------------------------------------------------------------------------------------------------

    def answer(self, kinds: Sequence[Kind], *, pairs: bool) -> Survival:
        """Answer for all failures of some kinds."""
        rows = {kind: self._rows_by(kind) for kind in dict.fromkeys((*kinds, "node"))}
        singles = {kind: self._singles(kind, rows[kind]) for kind in kinds}
        any_nodes, doubtful = self._any_nodes(rows["node"])
        twos = {kind: self._pairs(kind, rows[kind], doubtful[1]) for kind in kinds} if pairs else {}
        number = sum(map(len, singles.values())) + sum(len(found) for found, _ in twos.values())
        self._watch.begin("losing nodes, zones and pools", number)
        groups = self._alike(rows["node"])
        for cases in (*singles.values(), *(found for found, _ in twos.values())):
            for case in cases:
                self._watch.check()
                self._prove(case, any_nodes, doubtful)
        # Those that are few come first: the bound is meant for nodes.
        ones = sorted(kinds, key=lambda each: each == "node")
        asked = [(singles[kind], groups) for kind in ones] + [(cases, {}) for cases, _ in twos.values()]

        def told(found: Sequence[Sequence[Failure]], *, is_complete: bool) -> Survival:
            return self._told(found, ones, singles, twos, any_nodes, is_complete=is_complete)

        found = self._answered(asked, lambda so_far: told(so_far, is_complete=False))
        return told(found, is_complete=not self._stopped)

    def _told(
        self,
        found: Sequence[Sequence[Failure]],
        ones: Sequence[Kind],
        singles: Mapping[Kind, Sequence[_Case]],
        twos: Mapping[Kind, tuple[Sequence[_Case], int]],
        any_nodes: int,
        *,
        is_complete: bool,
    ) -> Survival:
        """Put the answers for single failures, and then those for pairs, into one."""
        counts = [_count(kind, 1, some, len(singles[kind])) for kind, some in zip(ones, found, strict=False)]
        for (kind, (_, number)), some in zip(twos.items(), found[len(ones) :], strict=True):
            known = kind == "node" and any_nodes >= 2 and not any(self._lone.values())
            counts.append(_count(kind, 2, some, number, survives=known))
        failures = [each for some in found for each in some]
        failures.sort(key=lambda each: (-each.unplaced, -each.gone, each.survives, -each.pods, _order(each)))
        notes = [EXTENDERS_LEFT_OUT] if self._site.cluster.leaves_out_extenders else []
        return Survival(
            failures=tuple(failures),
            kinds=tuple(counts),
            any_nodes=any_nodes,
            pending=self.pending,
            replaced=sum(map(Counter.total, self._on_row.values())),
            bare=sum(map(len, self._lone.values())),
            notes=tuple(notes),
            is_complete=is_complete,
        )

    def _singles(self, kind: Kind, rows: Mapping[str, list[int]]) -> list[_Case]:
        """Return the failures of one at a time; if all nodes are lost there is nothing to ask."""
        return [self._case(kind, (name,), at) for name, at in rows.items() if len(at) < len(self._on_row)]

    def lose(self, kind: Kind, groups: Mapping[str, Sequence[str]]) -> list[Failure]:
        """Answer for groups of nodes, each lost at once."""
        row_of = self._site.cluster.core.cache.table.row_of
        cases = [self._case(kind, (name,), [row_of[node] for node in nodes]) for name, nodes in groups.items()]
        for case in cases:
            self._prove(case)
        return self._answered([(cases, {})])[0]

    def _prove(self, case: _Case, any_nodes: int = 0, doubtful: Sequence[Set[PodShape]] = ()) -> None:
        """Note what is proven for any failure of so many nodes.

        `doubtful` has the shapes that may have no place if any one node is lost, and if any two are.
        """
        if not self._proves:
            case.unproven = list(case.leaving.pods)
        elif not (case.kind == "node" and any_nodes >= len(case.names)):
            nodes = len(case.leaving.rows)
            case.unproven = self._room.unproven(case.leaving, doubtful[nodes - 1] if nodes <= len(doubtful) else None)
            refusable = (shape for shape in case.leaving.pods if shape in self._refusable)
            case.unproven = list(dict.fromkeys((*case.unproven, *refusable)))
        # A pending pod may preempt once the node it was nominated to is lost, even if no pod loses its place there.
        case.is_proven = self._proves and not case.unproven and not self._loses_members_for_good(case)

    def _any_nodes(self, rows: Mapping[str, Sequence[int]]) -> tuple[int, tuple[set[PodShape], set[PodShape]]]:
        """Return how many nodes, whichever they are, can be lost, and the shapes for which one, and two, may be too
        many.
        """
        each = [LeavingPods(np.array(at, dtype=np.intp), self._on_row[at[0]]) for at in rows.values()]
        any_of = self._room.any_of(each)
        doubtful = any_of.unproven(1), any_of.unproven(2)
        if not self._proves or doubtful[0] or self._refusable:
            return 0, doubtful
        low, high = 1, min(NODES_AT_MOST, max(len(each) - 1, 1)) + 1
        while high - low > 1:
            self._watch.check()
            middle = (low + high) // 2
            if any_of.unproven(middle):
                high = middle
            else:
                low = middle
        return low, doubtful

    def _pairs(self, kind: Kind, rows: Mapping[str, list[int]], doubtful: set[PodShape]) -> tuple[list[_Case], int]:
        """Return pairs to be answered, and how many there are; of nodes those that carry the most doubtful pods."""
        names = list(rows)
        number = len(names) * (len(names) - 1) // 2
        if number > PAIRS_AT_MOST:
            shown = PAIRS_AT_MOST
            weight = {
                name: sum(
                    count for row in rows[name] for shape, count in self._on_row[row].items() if shape in doubtful
                )
                for name in names
            }
            few = int((2 * shown) ** 0.5) + 1
            names = sorted(names, key=lambda name: -weight[name])[:few]
        chosen = list(combinations(names, 2))[:PAIRS_AT_MOST]
        found = [self._case(kind, pair, [*rows[pair[0]], *rows[pair[1]]]) for pair in chosen]
        kept = [case for case in found if len(case.node_names) < len(self._on_row)]
        return kept, number - (len(found) - len(kept))

    def _alike(self, rows: Mapping[str, Sequence[int]]) -> dict[str, object]:
        """Return for each node a key that is equal for nodes with the same answer."""
        cluster = self._site.cluster
        table = cluster.core.cache.table
        with_devices = {each.spec.node_name for each in cluster.of(ResourceSlice)}
        found: dict[str, object] = {}
        for name, (row,) in rows.items():
            node: Node = table.node(row)
            is_own = name in with_devices or bool(self._lone[row])
            found[name] = (
                name if is_own else "",
                content_of(node),
                table.requested[:, row].tobytes(),
                int(table.pod_count[row]),
                frozenset(self._on_row[row].items()),
                frozenset(self._budgets[row].items()),
            )
        return found

    def _answered(
        self,
        asked: Sequence[tuple[Sequence[_Case], Mapping[str, object]]],
        tell: Callable[[list[list[Failure]]], Any] = list,
    ) -> list[list[Failure]]:
        """Answer for the failures of each kind, the doubtful ones first, the most doubtful of these first.

        Failures of single nodes come with what distinguishes them. What to simulate is known in advance: each failure
        leaves the cluster as it was, so several processes may take them in any order. `tell` makes a whole answer from
        the answers so far.
        """
        answers: list[list[Failure | None]] = []
        simulated: list[tuple[_Case, int, int]] = []
        alike: list[tuple[_Case, int, int, int]] = []
        for kind, (cases, content) in enumerate(asked):
            answers.append([])
            known: dict[object, int] = {}
            for at, case in enumerate(sorted(cases, key=lambda each: (-each.doubtful, -each.pods))):
                key = content.get(case.names[0]) if case.kind == "node" and len(case.names) == 1 else None
                answer: Failure | None = None
                if self._watch.is_stopped:
                    pass
                elif case.is_proven and not self._loses_healthy_for_good(case):
                    answer = self._failure(case, "proven")
                elif key is not None and key in known:
                    alike.append((case, kind, at, known[key]))
                elif self._left_over <= 0:
                    answer = self._failure(case, "bound", unplaced=self._most_unplaced(case))
                else:
                    self._left_over -= 1
                    simulated.append((case, kind, at))
                    if key is not None:
                        known[key] = at
                answers[kind].append(answer)
                self._watch.advance(answer is not None)
        large = [each for each in simulated if each[0].pods >= PODS_ALONE]
        small = [each for each in simulated if each[0].pods < PODS_ALONE]
        for (_, kind, at), failure in chain(self._spread(large, is_each_alone=may_fork()), self._spread(small)):
            answers[kind][at] = failure
            self._watch.advance()
            self._watch.offer(lambda: tell([list(filter(None, some)) for some in answers]))
        for case, kind, at, first in alike:
            if (other := answers[kind][first]) is not None:
                alike_one = {"names": case.names, "answered": "alike", "alike": other.names[0], "more": None}
                answers[kind][at] = msgspec.structs.replace(other, **alike_one)
        found = [list(filter(None, some)) for some in answers]
        self._stopped = any(len(some) < len(all_) for some, all_ in zip(found, answers, strict=True))
        return found

    def _spread(
        self, some: Sequence[tuple[_Case, int, int]], *, is_each_alone: bool = False
    ) -> Iterator[tuple[tuple[_Case, int, int], Failure]]:
        """Simulate some failures; each with the answer, as it comes."""
        simulate = [partial(self._simulated, case, is_alone=is_each_alone) for case, _, _ in some]
        answers = spread(lambda number: simulate[number](), len(some), self._watch, is_each_alone=is_each_alone)
        return ((some[number], failure) for number, failure in answers)

    def _most_unplaced(self, case: _Case) -> int:
        """The most pods that may have no place: those not proven to find one, and all that these could preempt."""
        strong = (*case.unproven, *(() if self._proves else self._hopeful))
        return case.doubtful + max((self._weaker_than(shape) for shape in strong), default=0)

    def _loses_healthy_for_good(self, case: _Case) -> bool:
        """Whether a budget counts pods that nothing replaces; its demand is then left to the simulation."""
        lone = (pod for row in case.leaving.rows.tolist() for pod in self._lone[row])
        return any(True for pod in lone for _ in self._site.cluster.budgets.counting_as_healthy(pod))

    def _loses_members_for_good(self, case: _Case) -> bool:
        """Whether a gang that runs has pods there that nothing replaces; the simulation says what becomes of it."""
        lone = (pod for row in case.leaving.rows.tolist() for pod in self._lone[row]) if self._ran else ()
        return any(key in self._ran for pod in lone for key in group_keys(pod))

    def _stopped_gangs(self, changed: Iterable[Pod]) -> Iterator[GangOutcome]:
        """Yield what has become of the gangs of pods that have lost their nodes, where too few are left."""
        for key in sorted({key for pod in changed for key in group_keys(pod) if key in self._ran}):
            was = self._ran[key]
            now = gang_again(self._site.cluster, was)
            if now.placed < now.needed:
                yield outcome_of(self._site.cluster, now, is_stopped=True)

    def _failure(self, case: _Case, answered: Answered, unplaced: int = 0) -> Failure:
        """An answer without a simulation."""
        return Failure(
            kind=case.kind,
            names=case.names,
            nodes=len(case.node_names),
            pods=case.pods,
            unplaced=unplaced,
            gone=case.gone,
            preempted=0,
            answered=answered,
            lost=self._by_workload((pod, _ALONE) for row in case.leaving.rows.tolist() for pod in self._lone[row]),
            budgets=tuple(self._short_at_once(case)),
        )

    def _by_workload(self, losses: Iterable[tuple[Pod, str]]) -> tuple[LostPods, ...]:
        objects = self._site.cluster.objects
        found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for pod, message in losses:
            owner = workload_of(pod, objects)
            found[" ".join(owner) if owner is not None else f"Pod {pod.key}", message].append(pod.key)
        ordered = sorted(found.items(), key=lambda each: (-len(each[1]), natural(each[0][0])))
        told = []
        for (workload, message), pods in ordered:
            names = tuple(sorted(pods, key=natural)[:PODS_NAMED])
            volumes = self._bound_claims(names) if any(reason in message for reason in KEPT_BY_VOLUMES) else ()
            told.append(LostPods(workload, len(pods), message, names, volumes))
        return tuple(told)

    def _bound_claims(self, pods: Iterable[str]) -> tuple[str, ...]:
        """Return the claims of some pods whose volumes can be used only on certain nodes."""
        objects, found = self._site.cluster.objects, []
        for key in pods:
            for name in claim_names(self._site.cluster.core.intake.info(objects["Pod", key])):
                claim = objects.get(("PersistentVolumeClaim", f"{key.partition('/')[0]}/{name}"))
                volume = None if claim is None else objects.get(("PersistentVolume", claim.spec.volume_name))
                if volume is not None and volume.spec.node_affinity is not None:
                    found.append(name)
        return tuple(dict.fromkeys(found))

    def _short_at_once(self, case: _Case) -> Iterator[ShortBudget]:
        """The budgets that have fewer healthy pods than they demand when the nodes are lost."""
        lost: Counter[str] = Counter()
        for row in case.leaving.rows.tolist():
            lost.update(self._budgets[row])
        for key in sorted(lost):
            status = self._site.cluster.budgets.status(key)
            healthy = status.current_healthy - lost[key]
            if healthy < status.desired_healthy:
                yield ShortBudget(key, healthy, status.desired_healthy, is_lasting=False)

    def _simulated(self, case: _Case, *, is_alone: bool) -> Failure:
        """Lose the nodes, let the scheduler place what it can, and put everything back. Raises `StoppedError`.

        A process that ends with this one answer `is_alone`, and need not put anything back.
        """
        found = self._lived_through(case, with_more=not self._hopeless, is_alone=is_alone)
        if (found.preempted or found.unplaced) and self._hopeless:
            # Pods that were hopeless before may get a place when others are preempted or nodes are added, and be in
            # others' way.
            self.put_back()
            try:
                found = self._lived_through(case, is_alone=is_alone)
            finally:
                self._leave_out()
        return found

    def _lived_through(self, case: _Case, *, with_more: bool = True, is_alone: bool) -> Failure:
        site, cluster = self._site, self._site.cluster
        at_once = list(self._short_at_once(case))
        with Rehearsal(site) as rehearsal:
            seen = len(cluster.evictions)
            remove_nodes(site, case.node_names, "the loss of {}")
            site.settle()
            losses: list[tuple[Pod, str]] = []
            unplaced = gone = 0
            unplaced_pods: list[str] = []
            moved: list[Pod] = []
            for key, (before, now) in rehearsal.changed_pods().items():
                if before is None or not before.spec.node_name or follows_its_node(before):
                    continue
                if not is_active(before):
                    continue
                if now is not None and now.spec.node_name:
                    moved.append(now)
                    continue
                if now is None and key in cluster.refused:
                    unplaced += 1
                    losses.append((before, cluster.refused[key].why))
                elif now is None:
                    gone += 1
                    losses.append((before, _ALONE))
                else:
                    unplaced += 1
                    unplaced_pods.append(key)
                    losses.append((before, cluster.messages.get(key, "")))
            preempted = len(cluster.evictions) - seen
            lasting = [
                ShortBudget(key, status.current_healthy, status.desired_healthy, is_lasting=True)
                for key, status in cluster.budgets.violated()
                if key not in self._strained
            ]
            gangs = tuple(self._stopped_gangs(pod for pod, _ in losses)) if self._ran else ()
            more = self._more(unplaced_pods, moved) if unplaced and with_more and self.counts_nodes else None
            if is_alone:
                rehearsal.keep()
        short = {each.name: each for each in (*at_once, *lasting)}
        return Failure(
            kind=case.kind,
            names=case.names,
            nodes=len(case.node_names),
            pods=case.pods,
            unplaced=unplaced,
            gone=gone,
            preempted=preempted,
            answered="simulated",
            lost=self._by_workload(losses),
            budgets=tuple(short.values()),
            gangs=gangs,
            more=more,
        )

    def _more(self, names: Sequence[str], moved: Sequence[Pod]) -> MoreNodes:
        """How many more nodes it takes until the pods of these names have a place, too."""
        cluster = self._site.cluster

        def wanting() -> list[Pod]:
            found = (cluster.objects.get(("Pod", key)) for key in names)
            return [pod for pod in found if pod is not None and is_pending(pod)]

        kinds = kinds_of(cluster.of(Node), self._prices)
        return add_until_placed(self._site, kinds, wanting, by_price=self._prices is not None, moved=moved)


def _looks_at_no_pods(core: Core, pod: PodInfo) -> bool:
    profile, state = profile_of(core, pod), CycleState()
    pre = profile.run_pre_filter(state, pod)
    what_if = profile.what_if(state, pod)
    is_plain = pre.status is None and what_if.is_possible and not what_if.looks_at_single_pods
    return is_plain and pod.spec.scheduling_group is None and not profile.reserve(state)


_ALONE = "has no controller, so that nothing replaces it"


def _count(kind: Kind, at_once: int, found: Sequence[Failure], number: int, *, survives: bool = False) -> KindOfFailure:
    """Count the failures of a kind; with `survives` those that were not looked at are survived, too."""
    survived = sum(each.survives for each in found)
    unknown = sum(not each.is_exact for each in found)
    others = number - len(found)
    return KindOfFailure(kind, at_once, number, survived + others * survives, unknown + others * (not survives))


def _order(failure: Failure) -> tuple[object, ...]:
    return (failure.kind, *(natural(name) for name in failure.names))


# -- in words --------------------------------------------------------------------------------------------------------


def named(failure: Failure) -> str:
    """Say what is lost."""
    return f"{failure.kind} {' + '.join(failure.names)}"


def who(failure: Failure) -> str:
    """Name the first few workloads that lose pods."""
    if failure.answered == "alike":
        return f"as with {failure.alike}"
    if not failure.is_exact:
        return "not simulated"
    told = [pods_named(each) for each in failure.lost[:WORKLOADS_NAMED]]
    more = len(failure.lost) - WORKLOADS_NAMED
    kept = {name: None for each in failure.lost for name in each.volumes}
    there = f"; {volumes_named(tuple(kept))}" if kept else ""
    return ", ".join(told) + (f" and {more} more workload{'' if more == 1 else 's'}" if more > 0 else "") + there


def pods_named(lost: LostPods) -> str:
    """Name one pod or two, and of more say how many of which workload."""
    if lost.names and lost.pods <= len(lost.names):
        return " and ".join(lost.names)
    return f"{lost.pods:,} of {lost.workload.partition(' ')[2]}"


def volumes_named(names: Sequence[str]) -> str:
    """Say that these volumes keep their pods away from the nodes that are left."""
    shown = " and ".join(names[:PODS_NAMED]) + (" and others" if len(names) > PODS_NAMED else "")
    return f"its volume {shown} is there" if len(names) == 1 else f"their volumes {shown} are there"


def takes(failure: Failure) -> str:
    """Say how many more nodes it takes."""
    return "" if failure.more is None else nodes_in_words(failure.more)
