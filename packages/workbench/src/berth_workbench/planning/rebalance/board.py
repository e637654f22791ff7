"""The board on which a search moves pods about and back: the scheduler's own cache and filters, without the queue.

A board changes only what is counted on nodes. Nothing is evicted and nothing scheduled, so the search can take any move
back; `undo` leaves the cluster as it was. Whether the scheduler follows a plan is proven later, with the scheduler at
work (`proof`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.api.pod import Pod
from berth.api.selectors import compile_selector
from berth.api.taints import NO_SCHEDULE, UNSCHEDULABLE_KEY, Taint, tolerated
from berth.core.core import Core
from berth.core.questions import find, score
from berth.cycle.attempt import UNDECIDED
from berth.engine.verdicts import Mask
from berth.framework.status import Status
from berth.state.cache import on_node
from berth.state.pod_info import PodInfo, PodShape
from berth_workbench.planning.rebalance.limits import Spending
from berth_workbench.planning.rebalance.pace import Pace
from berth_workbench.planning.rebalance.request import RebalanceRequest
from berth_workbench.simulation.cluster import SimulatedCluster, pending_again
from berth_workbench.simulation.watch import StoppedError

CORDON = Taint(key=UNSCHEDULABLE_KEY, effect=NO_SCHEDULE)
HARD_PLUGINS = frozenset({"NodeAffinity", "PodTopologySpread", "InterPodAffinity"})
"""The filters whose rules a running pod can come to break: labels and other pods change after it was placed. Taints
with NoSchedule are left out, since they are meant for newcomers only."""
MAX_CHECKED = 4000
"""At most so many different questions are asked about which pods break their own rules."""


class Mover(NamedTuple):
    """A pod that may be moved, or (with `origin` empty) one that needs a place."""

    key: str
    namespace: str
    workload: str
    """`namespace/Kind/name`, or the pod's own key if it has no controller."""
    origin: str
    counted: PodInfo | None
    """As it is counted now."""
    fresh: PodInfo
    """As its controller makes it again: without a node."""
    ignores_cordons: bool
    is_wanted: bool = True
    """Of one that needs a place: whether the plan is to give it one, or it is only tried before those."""
    is_new: bool = False
    """Of one that needs a place: whether it is yet to be created."""

    def is_like(self, other: "Mover") -> bool:
        """Say whether it makes no difference which of two that need a place gets it."""
        return self.fresh.shape is other.fresh.shape and self.is_wanted == other.is_wanted


class Scoring(NamedTuple):
    """The rows on which a pod fits, and the score of each; `totals` is None if nothing is scored."""

    rows: NDArray[np.intp]
    totals: NDArray[np.int64] | None


def mover_of(core: Core, pod: Pod, workload: str = "") -> Mover:
    """Return a pod of the cluster, or one that needs a place, as it can be moved about."""
    state = core.cache.state_of(pod.metadata.uid)
    return Mover(
        key=pod.key,
        namespace=pod.metadata.namespace,
        workload=f"{pod.metadata.namespace}/{workload}" if workload else pod.key,
        origin=pod.spec.node_name,
        counted=None if state is None else state.pod,
        fresh=core.intake.info(pending_again(pod)),
        ignores_cordons=tolerated(CORDON, pod.spec.tolerations),
    )


class Board:
    """Movers and where they are, over a core's cache; every change can be taken back."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        movers: Iterable[Mover],
        newcomers: Sequence[Mover],
        nodes: Iterable[str],
        request: RebalanceRequest,
        pace: Pace,
    ) -> None:
        """`newcomers` need a place, and are in the order in which the scheduler tries them.

        `nodes` are those that pods may be taken from and moved to.
        """
        self.core = cluster.core
        self.movers: dict[str, Mover] = {mover.key: mover for mover in movers}
        self.newcomers: dict[str, Mover] = {newcomer.key: newcomer for newcomer in newcomers}
        self.where: dict[str, str] = {mover.key: mover.origin for mover in self.movers.values()}
        """The node of each mover, and of each newcomer that has one."""
        self._movers_on: dict[str, set[str]] = {}
        """The movers of each node, by key."""
        for mover in self.movers.values():
            self._movers_on.setdefault(mover.origin, set()).add(mover.key)
        self.load: Counter[str] = Counter(self.where.values())
        """How many movers and newcomers are on each node."""
        self.nodes = tuple(sorted(nodes))
        self.spending = Spending(request)
        self.request = request
        self.pace = pace
        """Is asked before each question, and may end the search instead."""
        self.rules: Rules | None = None
        """Who is told of every move."""
        self.history: list[tuple[str, str, str]] = []
        """The moves made, each as pod, node left, node reached; a newcomer leaves the empty string."""
        table = self.core.cache.table
        self.banned: set[tuple[str, str]] = set()
        """Pairs of pod and node that turned out not to work: the scheduler does not follow, say."""
        self._rooms: dict[PodShape, Mask] = {}
        """Where newcomers fit as everything is now, by what they are like."""
        self.among: Mask = np.zeros(table.capacity, dtype=np.bool_)
        """The rows of the considered nodes."""
        self.among[[table.row_of[name] for name in self.nodes]] = True

    # -- questions ---------------------------------------------------------------------------------------------------

    def movers_on(self, node: str) -> list[str]:
        """Return the movers on a node, by key."""
        return sorted(self._movers_on.get(node, ()))

    def mover(self, key: str) -> Mover:
        """Return a mover or a newcomer."""
        return self.movers.get(key) or self.newcomers[key]

    def targets(self, key: str) -> list[str]:
        """Return the considered nodes that a pod could be moved to now, by name; its own is not among them."""
        names = self.core.cache.table.names
        return sorted(
            names[row] for row in np.flatnonzero(self.fits(key)).tolist() if names[row] != self.where.get(key)
        )

    def fits(self, key: str) -> Mask:
        """Return by row whether a pod fits there if it leaves where it is, over the considered nodes.

        Nodes to which it cannot be led are left out: if too many others would have to be cordoned, or if a pod that
        waits for room would take it first. For a pod that tolerates cordoned nodes, that leaves only the scheduler's
        own choice.
        """
        mover = self.mover(key)
        self.pace.ask(len(self.core.cache.table))
        taken = [self.room_of(other) for other in self._tried_before(mover)]
        self._lift(mover)
        try:
            mask = self._led_to(mover) & self.among
            for room in taken:
                mask &= ~room
            for name in self.nodes if self.banned else ():
                if (key, name) in self.banned:
                    mask[self.core.cache.table.row_of[name]] = False
            return mask
        finally:
            self._put(mover, self.where.get(key, ""))

    def scores(self, key: str) -> Scoring:
        """Return the nodes that a pod fits on if it leaves where it is, with what each scores."""
        self.pace.ask(len(self.core.cache.table))
        with self.lifted([key]):
            return scores_of(self.core, self.mover(key).fresh)

    def _led_to(self, mover: Mover) -> Mask:
        """The rows that a pod fits on and can be led to: no more others score as much than may be cordoned."""
        core = self.core
        most = 0 if mover.ignores_cordons else self.request.max_cordons
        if len(core.cache.table) <= most + 1:
            return _passing(core, mover.fresh)
        scoring = scores_of(core, mover.fresh)
        mask: Mask = np.zeros_like(self.among)
        if scoring.totals is None:
            rivals = np.full(len(scoring.rows), len(scoring.rows) - 1)
        else:
            ascending = np.sort(scoring.totals)
            rivals = len(ascending) - np.searchsorted(ascending, scoring.totals, side="left") - 1
        mask[scoring.rows[rivals <= most]] = True
        return mask

    def is_allowed(self, key: str) -> bool:
        """Say whether the limits let a pod be moved once more."""
        mover = self.mover(key)
        return key in self.newcomers or self.spending.allows(mover.workload, mover.namespace)

    def room_of(self, newcomer: Mover) -> Mask:
        """Return by row whether a pod that needs a place would fit there, over the considered nodes.

        Cached, since newcomers that are alike fit in the same places, and others are asked about while nothing moves.
        """
        known = self._rooms.get(newcomer.fresh.shape)
        if known is None:
            self.pace.ask(len(self.core.cache.table))
            known = self._rooms[newcomer.fresh.shape] = _passing(self.core, newcomer.fresh) & self.among
        return known

    def _tried_before(self, mover: Mover) -> Iterator[Mover]:
        """Yield the newcomers without a node that the scheduler tries before a pod that is moved, or before a newcomer.

        A pod that is moved is behind all that wait. Of newcomers that are alike it does not matter who gets a place.
        """
        for key, other in self.newcomers.items():
            if key == mover.key:
                return
            if key not in self.where and not (other.is_new if mover.origin else other.is_like(mover)):
                yield other

    # -- changes -----------------------------------------------------------------------------------------------------

    def move(self, key: str, node: str) -> None:
        """Move a pod, whether or not it fits."""
        mover, origin = self.mover(key), self.where.get(key, "")
        self._lift(mover)
        self.where[key] = node
        self._note_mover(key, origin, node)
        self._put(mover, node)
        self._count(mover, origin, node)
        self.history.append((key, origin, node))
        if key in self.movers:
            self.spending.add(mover.workload, mover.namespace)

    def undo(self, down_to: int = 0) -> None:
        """Undo moves, last first, until so many are left."""
        while len(self.history) > down_to:
            key, origin, node = self.history.pop()
            mover = self.mover(key)
            self._lift(mover)
            if origin:
                self.where[key] = origin
                self._note_mover(key, node, origin)
            else:
                del self.where[key]
            self._put(mover, origin)
            self._count(mover, node, origin)
            if key in self.movers:
                self.spending.add(mover.workload, mover.namespace, -1)

    @contextmanager
    def whole(self) -> Iterator[int]:
        """Undo what a block has moved if the search ends in the middle of it; yield how many moves there were."""
        begun = len(self.history)
        try:
            yield begun
        except StoppedError:
            self.undo(begun)
            raise

    @contextmanager
    def lifted(self, keys: Iterable[str]) -> Iterator[None]:
        """Take pods off their nodes for the length of a `with` block."""
        movers = [self.mover(key) for key in keys]
        for mover in movers:
            self._lift(mover)
        try:
            yield
        finally:
            for mover in movers:
                self._put(mover, self.where.get(mover.key, ""))

    def _count(self, mover: Mover, origin: str, node: str) -> None:
        if self.rules is not None:
            self.rules.note_move(mover.fresh)
        if origin:
            self.load[origin] -= 1
        if node:
            self.load[node] += 1

    def _note_mover(self, key: str, left: str, reached: str) -> None:
        if key in self.movers:
            self._movers_on[left].discard(key)
            self._movers_on.setdefault(reached, set()).add(key)

    def _lift(self, mover: Mover) -> None:
        self._rooms.clear()
        if self.where.get(mover.key):
            cache = self.core.cache
            cache.remove_pod(mover.fresh.uid)
            if mover.counted is not None:
                cache.remove_pod(mover.counted.uid)

    def _put(self, mover: Mover, node: str) -> None:
        self._rooms.clear()
        if not node:
            return
        at_home = mover.counted is not None and node == mover.origin
        self.core.cache.add_pod(mover.counted if at_home and mover.counted else on_node(mover.fresh, node))


# -- what the scheduler says of one pod -------------------------------------------------------------------------------


def _passing(core: Core, pod: PodInfo) -> Mask:
    attempt = find(core, pod)
    if attempt.outcome is not UNDECIDED or attempt.found.nodes is None:
        return np.zeros(core.cache.table.capacity, dtype=np.bool_)
    verdicts = attempt.found.verdicts
    # A profile that looks at a part of the nodes only has found all that pass the filters, and taken some of them.
    return (attempt.found.nodes.mask if verdicts is None else verdicts.feasible()).copy()


def scores_of(core: Core, pod: PodInfo) -> Scoring:
    """Return the nodes that a pod fits on, with what each scores."""
    attempt = find(core, pod)
    nodes = attempt.found.nodes
    if nodes is None or not nodes.count:
        return Scoring(np.zeros(0, dtype=np.intp), None)
    rows = np.flatnonzero(nodes.mask)
    if attempt.profile.percentage_of_nodes_to_score is not None and attempt.found.verdicts is not None:
        return Scoring(np.flatnonzero(attempt.found.verdicts.feasible()), None)
    scored = score(core, attempt)
    return Scoring(rows, None if scored is None else scored.total(rows).copy())


def statuses_on(core: Core, pod: PodInfo, row: int) -> list[Status]:
    """Return every status of the filters against a pod on a row."""
    attempt = find(core, pod)
    pre = attempt.found.pre_filtered
    if pre is not None and pre.status is not None:
        return [pre.status]
    if pre is not None and pre.node_names is not None and core.cache.table.names[row] not in pre.node_names:
        return [status for status in (pre.absent_status,) if status is not None]
    verdicts = attempt.found.verdicts
    return [] if verdicts is None else verdicts.findings.statuses(row)


# -- pods that break their own rules ----------------------------------------------------------------------------------


def has_rules(pod: PodInfo) -> bool:
    """Say whether a running pod can come to break a rule of its own that its filters enforce."""
    spec = pod.spec
    if spec.node_selector or any(
        each.when_unsatisfiable == "DoNotSchedule" for each in spec.topology_spread_constraints
    ):
        return True
    affinity = spec.affinity
    return affinity is not None and bool(
        (affinity.node_affinity is not None and affinity.node_affinity.required is not None)
        or (affinity.pod_affinity is not None and affinity.pod_affinity.required)
        or (affinity.pod_anti_affinity is not None and affinity.pod_anti_affinity.required)
    )


class Rules:
    """Which running pods break rules of their own: their filters would not let them go where they are.

    Replicas on one node are asked about once, and again only after a pod has moved that their rules may be about. Pods
    are told apart by `namespace/name`, so a moved pod is the same pod.
    """

    def __init__(self, core: Core, uids: Mapping[str, str], pace: Pace) -> None:
        """`uids` are those of the running pods to look at, by `namespace/name`."""
        self._core = core
        self._pace = pace
        self._infos: dict[str, PodInfo] = {}
        self._verdicts: dict[PodShape, dict[str, bool]] = {}
        """By shape and node, whether its pods there break a rule."""
        self._concerned: dict[PodShape, list[PodShape]] = {}
        self.is_cut = False
        asked = set()
        for key in sorted(uids):
            state = core.cache.state_of(uids[key])
            if state is None or not has_rules(state.pod) or not core.cache.table.valid[state.row]:
                continue
            asked.add((state.pod.shape, state.row))
            if len(asked) > MAX_CHECKED:
                self.is_cut = True
                break
            self._infos[key] = state.pod
            self._verdicts.setdefault(state.pod.shape, {})

    def __bool__(self) -> bool:
        return bool(self._infos)

    def note_move(self, moved: PodInfo) -> None:
        """Forget what is known of pods with rules that another pod's move may concern."""
        concerned = self._concerned.get(moved.shape)
        if concerned is None:
            samples = {info.shape: info for info in self._infos.values()}
            concerned = [shape for shape, info in samples.items() if self._are_related(info, moved)]
            self._concerned[moved.shape] = concerned
        for shape in concerned:
            self._verdicts[shape].clear()

    def _are_related(self, pod: PodInfo, moved: PodInfo) -> bool:
        """Say whether rules of one pod select the other; spread counts pods by the constraint's own selector."""
        namespaces = self._core.cache.index.namespaces
        own = namespaces.get(moved.namespace, {})
        if any(term.matches(moved, own) for term in (*pod.required_affinity_terms, *pod.required_anti_affinity_terms)):
            return True
        if any(t.matches(pod, namespaces.get(pod.namespace, {})) for t in moved.required_anti_affinity_terms):
            return True
        selectors = (compile_selector(each.label_selector) for each in pod.spec.topology_spread_constraints)
        return pod.namespace == moved.namespace and any(each.matches(moved.labels) for each in selectors)

    def broken(self, board: "Board | None" = None) -> frozenset[str]:
        """Return the pods that break a rule now."""
        broken = set()
        for key, info in self._infos.items():
            node = info.node_name if board is None or key not in board.where else board.where[key]
            known = self._verdicts[info.shape]
            if node not in known:
                known[node] = any(status.plugin in HARD_PLUGINS for status in self._said(key, board))
            if known[node]:
                broken.add(key)
        return frozenset(broken)

    def _said(self, key: str, board: "Board | None") -> list[Status]:
        """Return what the filters say against a pod where it is."""
        core, info = self._core, self._infos[key]
        self._pace.ask(len(core.cache.table))
        row_of = core.cache.table.row_of
        if board is not None and key in board.movers:
            with board.lifted([key]):
                return statuses_on(core, board.movers[key].fresh, row_of[board.where[key]])
        fresh = core.intake.info(pending_again(info.pod))
        core.cache.remove_pod(info.uid)
        said = statuses_on(core, fresh, row_of[info.node_name])
        core.cache.add_pod(info)
        return said
