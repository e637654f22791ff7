"""The entry point: turns a cluster and a request into a plan whose every step is proven.

First the search: pods are moved about on a board (`board`) by the greedy search and, with OR-Tools, by CP-SAT, towards
the lowest total of a goal (`goals`). Then the proof (`proof`): the moves are made on the cluster in memory, with its
scheduler at work. A move that the scheduler does not follow is banned, and the search starts over.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from berth.api.meta import Struct
from berth.api.near_names import nearest
from berth.api.node import Node
from berth.api.pod import Pod
from berth.api.storage import PersistentVolume
from berth.api.user_error import UserError
from berth.engine.verdicts import Mask
from berth.state.pod_info import PodInfo
from berth_workbench.planning.capacity import capacity
from berth_workbench.planning.dynamic_admission import unasked_about
from berth_workbench.planning.rebalance.board import Board, Mover, Rules, has_rules, mover_of, statuses_on
from berth_workbench.planning.rebalance.figures import balance_of, fills_between, fills_of, pending_keys, running_uids
from berth_workbench.planning.rebalance.goals import EmptyNodes, EvenOut, Goal, PlaceNewcomers, RepairRules
from berth_workbench.planning.rebalance.greedy import Greedy
from berth_workbench.planning.rebalance.limits import budget_against, budgets_observed
from berth_workbench.planning.rebalance.movability import LocalVolumes, local_volumes, reason_to_stay, workload_of
from berth_workbench.planning.rebalance.newcomers import NewcomerError, Newcomers, expanded, newcomers_of
from berth_workbench.planning.rebalance.optimizer import optimize
from berth_workbench.planning.rebalance.order import is_valid
from berth_workbench.planning.rebalance.pace import Pace
from berth_workbench.planning.rebalance.plan import Disruption, LeftAlone, PlacedPod, RebalancePlan, TakenFirst
from berth_workbench.planning.rebalance.preferences import eased
from berth_workbench.planning.rebalance.proof import Prover, RefusedMove
from berth_workbench.planning.rebalance.request import PLACING, SOLVED, Method, RebalanceRequest
from berth_workbench.planning.requested_pods import RequestedShape
from berth_workbench.simulation.budgets import follows_its_node
from berth_workbench.simulation.claims import ClaimTemplate
from berth_workbench.simulation.cluster import EXTENDERS_LEFT_OUT, SimulatedCluster
from berth_workbench.simulation.gangs import declared_gang
from berth_workbench.simulation.measures import usual_requests
from berth_workbench.simulation.prices import Prices
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import UNWATCHED, WorkWatch
from berth_workbench.simulation.workloads import Expansion

Move = tuple[str, str, str]

HOSTNAME = "kubernetes.io/hostname"
STOPPED = "the search was stopped before its end; the plan holds, and a better one may exist"
TRIES = 6
"""How often the search begins anew, without a move that the scheduler does not follow."""
COUNTED_AT_MOST = 1000
"""So often it is counted at most how often a pod fits, where its copies have to be placed one by one."""
PROVEN_AFTER_STOP = 20
"""How many moves are still proven once the search has been asked to stop; further ones are left out."""


class RebalanceError(UserError, ValueError):
    """A request that makes no sense for this cluster; the message says why."""


class Found(msgspec.Struct, frozen=True):
    """What a search has found."""

    moves: tuple[Move, ...]
    method: Method
    proven_best: bool = False
    notes: tuple[str, ...] = ()


def rebalance(
    situation: Situation, request: RebalanceRequest, watch: WorkWatch = UNWATCHED, site: Site | None = None
) -> RebalancePlan:
    """Return a plan. The same arguments give the same plan. `site` is the untouched one, where there is one already.

    If it is stopped, what was found by then is the plan; `StoppedError` if that is nothing. Raises `RebalanceError`,
    `ManifestError`, `ObjectError` for objects that cannot be read, `ConfigError`, and `StuckError` where plugins keep
    the scheduler from coming to rest.
    """
    if request.method == "cp-sat" and request.goal not in SOLVED:
        raise RebalanceError(f"CP-SAT empties nodes and makes room; for {request.goal} the search is greedy")
    site = situation.untouched(watch) if site is None else site
    local = local_volumes(situation.snapshot.documents)
    pace = Pace(watch, request.effort_s)
    plan = Rebalancing(site.cluster, local, site.templates, request, situation.seed, pace).plan()
    notes = unasked_about(situation.snapshot, request.manifests, request.namespace)
    return msgspec.structs.replace(plan, notes=(*plan.notes, *notes))


class Rebalancing:
    """The search for one request."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        local: Mapping[str, LocalVolumes],
        templates: Mapping[str, ClaimTemplate],
        request: RebalanceRequest,
        seed: int,
        pace: Pace,
    ) -> None:
        """`cluster` has not been touched yet; it is taken over."""
        self._structs: list[Struct] = list(cluster.objects.values())
        """As they were before anything was tried."""
        self._local = local
        self._request = request
        self._seed = seed
        self._pace = pace
        self._asked = Expansion()
        """What the manifests of the request come to."""
        self._templates = templates
        self._cluster = cluster
        nodes = cluster.nodes
        self._nodes = _considered(nodes, request)
        prices = request.prices or Prices()
        given = {name: prices.of(nodes[name]) for name in self._nodes}
        self._prices = {name: 1.0 if price is None else price for name, price in given.items()}
        self._stays: Counter[str] = Counter()
        self._movers: list[Mover] = []
        self._newcomers = Newcomers()
        self._in_gangs = 0
        """How many of the pods that need a place get it together with others or not at all."""
        self._reasons: dict[str, str] = {}
        self._left_out: list[Move] = []
        """The moves that were found and are not in the plan: refused in the end, or not proven when it was stopped."""

    # -- what there is -----------------------------------------------------------------------------------------------

    def _find_movers(self) -> list[Mover]:
        cluster, request = self._cluster, self._request
        core = cluster.core
        budgets = budgets_observed(self._structs)
        on_node = self._claims_on_nodes()
        considered = set(self._nodes)
        found = []
        for _, state in sorted(core.cache.states().items(), key=lambda each: each[1].pod.key):
            info = state.pod
            pod: Pod | None = cluster.objects.get(("Pod", info.key))
            if pod is None or info.node_name not in considered:
                continue
            why = reason_to_stay(
                pod,
                also_move=request.also_move,
                local=self._local.get(info.key),
                on_local_volume=_uses(pod, on_node),
                scheduler_names=core.profiles,
            ) or budget_against(info, budgets, cluster.budgets)
            if why:
                self._stays[why] += 1
            else:
                found.append(mover_of(core, pod, workload_of(pod)))
        return found

    def _named_newcomers(self) -> Newcomers:
        """Return the pods that need a place, and those that the scheduler tries before them."""
        try:
            return newcomers_of(self._cluster, self._request, self._asked.pods)
        except NewcomerError as error:
            raise RebalanceError(str(error)) from None

    def _newcomers_with_hope(self, newcomers: Newcomers) -> Newcomers:
        """Return the pods that need a place, without those that fit nowhere even with all others out of the way."""
        alone = tuple(each for each in newcomers.movers if not self._is_of_gang(each.fresh))
        self._in_gangs = len(newcomers.movers) - len(alone)
        newcomers = newcomers._replace(movers=alone)
        board = Board(self._cluster, self._movers, newcomers.movers, self._nodes, self._request, self._pace)

        def room_of(newcomer: Mover) -> Mask:
            if newcomer.fresh.required_affinity_terms:
                return board.among  # it may need those who are out of the way
            return board.room_of(newcomer)

        with self._pace.heeded(), board.lifted(board.movers if newcomers.movers else ()):
            return newcomers.that_count(room_of)

    def _is_of_gang(self, pod: PodInfo) -> bool:
        return declared_gang(self._cluster, pod.pod) is not None

    def _claims_on_nodes(self) -> frozenset[str]:
        """The claims, as `namespace/name`, whose volume is on one node."""
        found = set()
        for volume in self._cluster.of(PersistentVolume):
            claim, affinity = volume.spec.claim_ref, volume.spec.node_affinity
            required = None if affinity is None else affinity.required
            if claim is None or required is None:
                continue
            keys = {each.key for term in required.node_selector_terms for each in term.match_expressions}
            if HOSTNAME in keys and volume.spec.csi is None:
                found.add(f"{claim.namespace}/{claim.name}")
        return frozenset(found)

    # -- the plan ----------------------------------------------------------------------------------------------------

    def plan(self) -> RebalancePlan:
        """Return a plan, without any search if no pod has to move for the goal."""
        cluster = self._cluster
        cluster.begin()
        cluster.settle(watch=self._pace.watch)
        self._asked = expanded(cluster, self._request, self._templates)
        cluster.create(self._asked.objects)
        newcomers = self._named_newcomers()
        places = self._places_now(newcomers) if self._request.goal in PLACING else None
        if places is None:
            cluster.keep()
            return self._searched(newcomers)
        rules = Rules(cluster.core, running_uids(cluster), self._pace)
        requests = usual_requests(cluster.core.cache.table, self._without_place())
        with self._pace.heeded():
            balance = balance_of(cluster, self._nodes, self._prices, requests, rules)
        told = tuple(self._told(rules))
        cluster.undo()
        return RebalancePlan(
            goal=self._request.goal,
            method="greedy",
            proven_best=True,
            moves=0,
            steps=(),
            before=balance,
            after=balance,
            shapes=places,
            fits_now=self._times(newcomers),
            notes=told,
        )

    def _places_now(self, newcomers: Newcomers) -> tuple[PlacedPod, ...] | None:
        """Return where the scheduler would put what is wanted; None where not all of it has a place without moves.

        Pods that were pending before have been tried, so that what they could take is taken.
        """
        cluster = self._cluster
        cluster.begin()
        preempted = len(cluster.evictions)
        for newcomer in newcomers.movers:
            if newcomer.is_new:
                cluster.put(newcomer.fresh.pod)
        cluster.settle(watch=self._pace.watch)
        nodes = {
            key: cluster.objects["Pod", key].spec.node_name
            for key in newcomers.wanted
            if ("Pod", key) in cluster.objects
        }
        fits = len(nodes) == len(newcomers.wanted) and all(nodes.values()) and len(cluster.evictions) == preempted
        cluster.undo()
        return tuple(PlacedPod(*each) for each in nodes.items()) if fits else None

    def _times(self, newcomers: Newcomers) -> int | None:
        """Return how often what is wanted fits into the cluster as it was given, where that is a single pod."""
        if len(newcomers.wanted) != 1 or not (newcomers.movers and newcomers.movers[-1].is_new):
            return None
        shape = RequestedShape(newcomers.movers[-1].fresh.pod, 1, dict(self._templates))
        return capacity(self._cluster, [shape], at_most=COUNTED_AT_MOST).fits or None

    def _searched(self, newcomers: Newcomers) -> RebalancePlan:
        """Search, prove, and search again while the scheduler does not follow."""
        self._movers = self._find_movers()
        self._rules = Rules(self._cluster.core, running_uids(self._cluster), self._pace)
        self._newcomers = self._newcomers_with_hope(newcomers)
        # The same for before and after: a pod that gets room by the plan asks for it before, too.
        requests = usual_requests(self._cluster.core.cache.table, self._without_place())
        with self._pace.heeded():
            before = balance_of(self._cluster, self._nodes, self._prices, requests, self._rules)
        fills = fills_of(self._cluster.core, self._nodes)
        banned: dict[tuple[str, str], Move] = {}
        notes: list[str] = []
        found = Found((), "greedy")
        for attempt in range(TRIES):
            self._pace.watch.begin("looking for moves")
            board, goal = self._board(banned.keys())
            if not self._movers and not any(newcomer.is_new for newcomer in self._newcomers.movers):
                found = Found((), "greedy", proven_best=True)  # the scheduler has placed what fits
            elif not (attempt and self._pace.is_stopped):  # else what was found is left to be proven, as far as it goes
                found = self._search(board, goal, found.moves)
            emptied = self._emptied(board, goal, found.moves)
            self._reasons = self._reasons_of(board, goal, found.moves, emptied)
            self._pace.watch.begin("proving the moves")
            is_last = attempt == TRIES - 1 or self._pace.is_stopped
            self._cluster.begin()
            try:
                prover = self._prove(found.moves, emptied, cuts=is_last)
            except RefusedMove as refused:
                self._cluster.undo()
                banned[refused.move[0], refused.move[2]] = refused.move
                continue
            break
        is_complete = not self._pace.is_stopped
        # If a waiting pod does not come, nothing was left out: no pod would have had to move for that alone.
        left_out = sum(bool(move[1]) for move in (*banned.values(), *self._left_out))
        if left_out:
            why = ", or that were not proven before it was stopped," if self._pace.is_stopped else ""
            notes.append(f"{left_out} {'move' if left_out == 1 else 'moves'} that the scheduler would not follow{why} "
                         "were left out")  # fmt: skip
        rules = Rules(prover.cluster.core, running_uids(prover.cluster), self._pace)
        after = balance_of(prover.cluster, self._nodes, self._prices, requests, rules)
        return RebalancePlan(
            goal=self._request.goal,
            method=found.method,
            proven_best=found.proven_best and not banned and not self._left_out,
            moves=sum(step.action == "evict" for step in prover.steps),
            steps=tuple(prover.steps),
            before=before,
            after=after,
            emptied=tuple(sorted(name for name in emptied if prover.is_empty(name))),
            shapes=self._shapes(prover),
            taken_first=self._taken_first(prover),
            disruption=self._disruption(prover),
            may_move=len(self._movers),
            left_alone=tuple(LeftAlone(why, count) for why, count in self._stays.most_common()),
            considered=self._told_considered(),
            notes=(*([] if is_complete else [STOPPED]), *notes, *found.notes, *self._told(self._rules)),
            fills=fills_between(fills, fills_of(prover.cluster.core, self._nodes)),
            is_complete=is_complete,
        )

    def _without_place(self) -> list[PodInfo]:
        """Return the pods that are pending, and those that are to be created."""
        cluster = self._cluster
        pending = pending_keys(cluster)
        waiting = [cluster.core.intake.info(cluster.objects["Pod", key]) for key in pending]
        return waiting + [newcomer.fresh for newcomer in self._newcomers.movers if newcomer.key not in pending]

    def _board(self, banned: Iterable[tuple[str, str]]) -> tuple[Board, Goal]:
        board = Board(self._cluster, self._movers, self._newcomers.movers, self._nodes, self._request, self._pace)
        board.banned.update(banned)
        board.rules = self._rules
        goals: dict[str, Callable[[], Goal]] = {
            "empty-nodes": lambda: EmptyNodes(self._prices, self._kept_in_use()),
            "even-out": lambda: EvenOut(board),
            "repair-spread": lambda: RepairRules(self._rules),
        }
        place = partial(PlaceNewcomers, self._newcomers.wanted)
        return board, goals.get(self._request.goal, place)()

    def _kept_in_use(self) -> frozenset[str]:
        """The nodes with a pod that may not be moved and is not the node's own."""
        movable = {mover.key for mover in self._movers}
        states = self._cluster.core.cache.states().values()
        return frozenset(
            state.pod.node_name
            for state in states
            if state.pod.key not in movable and not follows_its_node(state.pod.pod)
        )

    def _search(self, board: Board, goal: Goal, before_that: Sequence[Move]) -> Found:
        greedy = Greedy(board, goal, self._rules, before_that)
        moves = greedy.search()
        if not is_valid(board, moves) or not greedy.breaks_nothing():
            moves = []
        board.undo()
        found = self._optimized(board, goal, moves, greedy)
        return msgspec.structs.replace(found, moves=tuple(eased(board, goal, found.moves, greedy.breaks_nothing)))

    def _optimized(self, board: Board, goal: Goal, moves: Sequence[Move], greedy: Greedy) -> Found:
        """Let CP-SAT look for better moves than the greedy search found, if that is wanted and possible."""
        method = self._request.method
        if method == "greedy" or not isinstance(goal, EmptyNodes | PlaceNewcomers):
            return Found(tuple(moves), "greedy")
        try:
            best = optimize(board, goal, moves, greedy.broken, greedy.breaks_nothing, self._seed)
        except ImportError:
            if method == "cp-sat":
                raise RebalanceError("CP-SAT needs OR-Tools: pip install 'berth-scheduler[optimize]'") from None
            told = "without OR-Tools (pip install 'berth-scheduler[optimize]') the search is greedy"
            return Found(tuple(moves), "greedy", notes=(told,))
        if best is None:
            told = "the cluster is too large for CP-SAT, so the search is greedy"
            return Found(tuple(moves), "greedy", notes=(told,))
        return Found(tuple(best.moves), "cp-sat", best.proven)

    def _emptied(self, board: Board, goal: Goal, moves: Sequence[Move]) -> list[str]:
        """The nodes that the moves empty, in the order in which that begins."""
        if not isinstance(goal, EmptyNodes):
            return []
        for key, _, node in moves:
            board.move(key, node)
        left = [origin for _, origin, _ in moves if not goal.is_used(board, origin)]
        board.undo()
        return list(dict.fromkeys(left))

    def _prove(self, moves: Sequence[Move], emptied: Sequence[str], *, cuts: bool) -> Prover:
        """Make the moves, all in one trial. With `cuts` a refused move is left out instead of raised."""
        self._cluster.settle()  # pods to be created come first, and the scheduler places what it can
        prover = Prover(self._cluster, self._movers, self._request.max_cordons + len(emptied))
        for_newcomers = list(dict.fromkeys(node for _, origin, node in moves if not origin))
        for name in emptied if moves else ():
            prover.hold(name, "is to be empty")
        for name in for_newcomers if any(origin for _, origin, _ in moves) else ():
            prover.hold(name, "room is made here")
        newcomers = {newcomer.key: newcomer for newcomer in self._newcomers.movers}
        after_stop, self._left_out = 0, []
        for move in moves:
            after_stop += self._pace.is_stopped
            if after_stop > PROVEN_AFTER_STOP:
                self._left_out.append(move)
                continue
            try:
                if move[1]:
                    prover.move(move, self._reasons.get(move[0], ""))
                else:
                    prover.place(move, self._newcomers.like(newcomers[move[0]]))
            except RefusedMove:
                if not (cuts or after_stop):
                    raise
                self._left_out.append(move)
        prover.finish(kept=[name for name in emptied if prover.is_empty(name)])
        if not any(step.to for step in prover.steps):
            prover.steps.clear()  # nodes were cordoned for moves of which none is left
        return prover

    def _shapes(self, prover: Prover) -> tuple[PlacedPod, ...]:
        pods = prover.cluster.pods
        wanted = self._newcomers.wanted
        return tuple(PlacedPod(key, pods[key].spec.node_name or None if key in pods else None) for key in wanted)

    def _taken_first(self, prover: Prover) -> tuple[TakenFirst, ...]:
        pods = prover.cluster.pods
        found: dict[str, list[bool]] = {}
        for newcomer in self._newcomers.movers:
            if not newcomer.is_wanted:
                found.setdefault(newcomer.workload, []).append(bool(pods[newcomer.key].spec.node_name))
        return tuple(TakenFirst(workload, len(placed), sum(placed)) for workload, placed in found.items())

    # -- words -------------------------------------------------------------------------------------------------------

    def _reasons_of(self, board: Board, goal: Goal, moves: Sequence[Move], emptied: Sequence[str]) -> dict[str, str]:
        """Why each pod is moved."""
        ends = {key: node for key, _, node in moves}
        newcomer_on = {node: key for key, origin, node in reversed(moves) if not origin}
        some_newcomer = next(iter(reversed(newcomer_on.values())), "")
        found = {}
        for key, origin, _ in moves:
            if not origin:
                continue
            if ends[key] == board.movers[key].origin:
                found[key] = "steps aside for a while"
            elif isinstance(goal, EmptyNodes):
                home = board.movers[key].origin
                found[key] = f"{home} becomes empty" if home in emptied else "makes way for others"
            elif isinstance(goal, RepairRules):
                found[key] = self._broken_rule(board, key)
            elif isinstance(goal, EvenOut):
                found[key] = f"{origin} is fuller than others"
            else:
                newcomer = newcomer_on.get(board.movers[key].origin, some_newcomer)
                found[key] = f"makes room for {newcomer}" if newcomer else "makes room"
        return found

    def _broken_rule(self, board: Board, key: str) -> str:
        mover = board.movers[key]
        if not has_rules(mover.fresh):
            return "makes way for others"
        with board.lifted([key]):
            said = statuses_on(board.core, mover.fresh, board.core.cache.table.row_of[mover.origin])
        return f"breaks its {said[0].plugin}" if said else "makes way for others"

    def _disruption(self, prover: Prover) -> tuple[Disruption, ...]:
        workload = {mover.key: mover.workload for mover in self._movers}
        moves = Counter(workload[step.pod] for step in prover.steps if step.action == "evict")
        running = Counter(
            f"{info.namespace}/{workload_of(info.pod)}" if workload_of(info.pod) else info.key
            for info in (state.pod for state in self._cluster.core.cache.states().values())
        )
        return tuple(
            Disruption(name, count, running[name])
            for name, count in sorted(moves.items(), key=lambda each: (-each[1], each[0]))
        )

    def _told_considered(self) -> str:
        everything = len(self._cluster.nodes)
        return f"{len(self._nodes)} of {everything} nodes, {len(self._movers)} pods that may be moved"

    def _told(self, rules: Rules) -> list[str]:
        found = []
        if rules.is_cut:
            found.append("not all pods with rules of their own were looked at, the cluster has too many different ones")
        if self._in_gangs:
            pods = "pod is of a gang" if self._in_gangs == 1 else "pods are of gangs"
            found.append(f"{self._in_gangs} {pods}: a gang gets its places together, and no moves are looked for "
                         "that make room for one")  # fmt: skip
        if self._cluster.leaves_out_extenders:
            found.append(EXTENDERS_LEFT_OUT)
        if self._cluster.evictions:
            found.append(f"pending pods preempt {len(self._cluster.evictions)} pods before the plan begins")
        return found


def _considered(nodes: Mapping[str, Node], request: RebalanceRequest) -> tuple[str, ...]:
    if not nodes:
        raise RebalanceError("the cluster has no nodes")
    unknown = sorted((request.nodes or frozenset()) - nodes.keys())
    if unknown:
        raise RebalanceError(f"there is no node {unknown[0]}{nearest(unknown[0], nodes)}")
    found = tuple(sorted(nodes if request.nodes is None else request.nodes))
    if not found:
        raise RebalanceError("no node is selected")
    return found


def _uses(pod: Pod, claims: frozenset[str]) -> bool:
    namespace = pod.metadata.namespace
    return any(
        volume.persistent_volume_claim is not None
        and f"{namespace}/{volume.persistent_volume_claim.claim_name}" in claims
        for volume in pod.spec.volumes
    )
