"""Turns moves into steps that the scheduler really follows, by carrying them out on a cluster with a working scheduler.

Evicting a pod leaves it to the scheduler where its replacement goes. So before each eviction the nodes are cordoned
that the scheduler would choose instead: those that the pod fits on and that score no less than the node of the plan.
With fewer nodes the scores change, so this is repeated until the planned node alone is best. Then the pod is evicted,
the scheduler places whatever is pending, and the step counts only if the replacement came where it was to.
"""

from collections.abc import Iterable, Sequence

import msgspec

from berth.api.node import Node, ReplicaSet, StatefulSet
from berth.api.pod import Pod
from berth_workbench.planning.rebalance.board import CORDON, Mover, scores_of
from berth_workbench.planning.rebalance.movability import workload_of
from berth_workbench.planning.rebalance.plan import PlacedPod, PlanStep
from berth_workbench.simulation.budgets import follows_its_node
from berth_workbench.simulation.cluster import BACKOFF_S, SimulatedCluster, pending_again

Move = tuple[str, str, str]


class RefusedMove(Exception):  # noqa: N818 - an answer, not a fault
    """The scheduler does not follow a move; the message says which, and why."""

    def __init__(self, move: Move, reason: str) -> None:
        super().__init__(f"{move[0]} to {move[2]}: {reason}")
        self.move = move
        self.reason = reason


def _let_backoffs_end(cluster: SimulatedCluster) -> None:
    """Let time pass, as it does between steps: pods that wait for an eviction are tried at once when it comes."""
    cluster.now += BACKOFF_S
    cluster.settle()


def cordoned(node: Node) -> Node:
    """Return a node as `kubectl cordon` and the node controller leave it."""
    taints = node.spec.taints if CORDON in node.spec.taints else (*node.spec.taints, CORDON)
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, unschedulable=True, taints=taints))


def uncordoned(node: Node) -> Node:
    """Return a node as `kubectl uncordon` and the node controller leave it."""
    taints = tuple(taint for taint in node.spec.taints if taint != CORDON)
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, unschedulable=False, taints=taints))


class Prover:
    """Carries out a plan's moves one by one; `steps` is what a person has to do for them."""

    def __init__(self, cluster: SimulatedCluster, movers: Iterable[Mover], max_cordons: int) -> None:
        """Let the scheduler place what it can before the plan begins."""
        self.cluster = cluster
        self.steps: list[PlanStep] = []
        self.cordons: list[str] = []
        """The nodes that the plan has cordoned, in order."""
        self.held: set[str] = set()
        """Those that are cordoned for the whole plan."""
        self._movers = {mover.key: mover for mover in movers}
        self._max_cordons = max_cordons
        self._moved: set[str] = set()
        cluster.settle()
        self._placed()

    def hold(self, name: str, reason: str) -> None:
        """Cordon a node for the whole plan, or until a move goes there."""
        self.held.add(name)
        self.cordon(name, reason)

    def cordon(self, name: str, reason: str) -> None:
        """Cordon a node, unless it is."""
        node = self.cluster.objects["Node", name]
        if node.spec.unschedulable:
            return
        self.cluster.put(cordoned(node))
        self.cordons.append(name)
        self.steps.append(PlanStep("cordon", name, reason=reason))

    def uncordon(self, name: str, reason: str, of: Sequence[Move] = ()) -> None:
        """Take a cordon of the plan's own back; pending pods may be placed in consequence, one of the moves at least.

        Raises `RefusedMove` where none of these is made.
        """
        preempted = len(self.cluster.evictions)
        self.cordons.remove(name)
        self.cluster.put(uncordoned(self.cluster.objects["Node", name]))
        self.cluster.settle()
        placed = self._arrived(of, preempted) if of else self._placed()
        self.steps.append(PlanStep("uncordon", name, reason=reason, placed=placed))

    def move(self, move: Move, reason: str) -> None:
        """Evict a pod and see its replacement come to the planned node. Raises `RefusedMove`."""
        key, origin, target = move
        cluster = self.cluster
        if target in self.cordons:
            self.uncordon(target, f"{key} goes there next")
        pod = cluster.objects.get(("Pod", key))
        if pod is None or pod.spec.node_name != origin:
            raise RefusedMove(move, f"it is not on {origin} any more")
        if refusal := cluster.budgets.refusal(pod)[1]:
            raise RefusedMove(move, refusal)
        self._lead(move, pod)
        workload, preempted = workload_of(pod), len(cluster.evictions)
        _let_backoffs_end(cluster)
        cluster.delete("Pod", key)
        cluster.put(pending_again(pod))
        cluster.settle()
        others = self._arrived([move], preempted)[1:]
        replicas, again = self._replicas(pod.metadata.namespace, workload), key in self._moved
        self.steps.append(PlanStep("evict", origin, key, target, reason, workload, replicas, again, others))
        self._moved.add(key)

    def place(self, move: Move, newcomers: Sequence[Mover]) -> None:
        """See a pod that needs a place come to the planned node: it is created, or waits already.

        Of those that wait, any of `newcomers`, which are like the one of the move, will do. Raises `RefusedMove`.
        """
        key, _, target = move
        cluster = self.cluster
        preempted = len(cluster.evictions)
        if ("Pod", key) in cluster.objects:
            first = sorted(newcomers, key=lambda each: each.key != key)
            known = (cluster.objects.get(("Pod", each.key)) for each in first)
            waiting = [pod.key for pod in known if pod is not None and not pod.spec.node_name]
            if not waiting or (key not in waiting and target not in self.cordons):
                return  # a step before has made room for it already
            # It fits on no node that is not cordoned, or the scheduler would have placed it.
            if target not in self.cordons:
                raise RefusedMove(move, "the scheduler does not put it there")
            self.uncordon(target, "the room is made", of=[(each, "", target) for each in waiting])
            return
        (newcomer,) = (each for each in newcomers if each.key == key)
        if target in self.cordons:
            self.uncordon(target, f"{key} goes there next")
        self._lead(move, newcomer.fresh.pod)
        cluster.put(newcomer.fresh.pod)
        cluster.settle()
        others = self._arrived([move], preempted)[1:]
        workload = newcomer.workload.removeprefix(f"{newcomer.namespace}/") if newcomer.workload != key else ""
        self.steps.append(PlanStep("create", "", key, target, "there is room for it", workload, placed=others))

    def _placed(self) -> tuple[PlacedPod, ...]:
        """Return who was placed since this was asked last."""
        return tuple(PlacedPod(*each) for each in self.cluster.take_placed())

    def _arrived(self, moves: Sequence[Move], preempted: int) -> tuple[PlacedPod, ...]:
        """Check that one of some pods that are alike has come where it was to; return it, then the others that were
        placed.
        """
        cluster = self.cluster
        placed = self._placed()
        move = next((each for each in moves if PlacedPod(each[0], each[2]) in placed), moves[0])
        key, _, target = move
        if len(cluster.evictions) > preempted:
            raise RefusedMove(move, f"{cluster.evictions[preempted].pod} would be preempted")
        arrived: Pod = cluster.objects["Pod", key]
        if arrived.spec.node_name != target:
            raise RefusedMove(move, f"the scheduler finds {arrived.spec.node_name or 'no node'} for it")
        total = decision.total if (decision := cluster.core.trace.get(key)) is not None else None
        if total is not None and int((total == total.max()).sum()) > 1:
            raise RefusedMove(move, "it is one of several nodes that the scheduler likes equally")
        return (PlacedPod(key, target), *(each for each in placed if each.pod != key))

    def _replicas(self, namespace: str, workload: str) -> int | None:
        kind, _, name = workload.partition("/")
        found = self.cluster.objects.get((kind, f"{namespace}/{name}"))
        return found.spec.replicas if isinstance(found, ReplicaSet | StatefulSet) else None

    def _lead(self, move: Move, pod: Pod) -> None:
        """Cordon what the scheduler would choose in place of the target."""
        key, origin, target = move
        core = self.cluster.core
        table = core.cache.table
        fresh = core.intake.info(pending_again(pod))
        ignores_cordons = key in self._movers and self._movers[key].ignores_cordons
        has_released = False
        while True:
            counted = core.cache.remove_pod(pod.metadata.uid)
            scoring = scores_of(core, fresh)
            if counted is not None:
                core.cache.add_pod(counted)
            row = table.row_of[target]
            if row not in scoring.rows:
                raise RefusedMove(move, "it does not fit there")
            rivals = scoring.rows
            if scoring.totals is not None:
                rivals = scoring.rows[scoring.totals >= scoring.totals[scoring.rows == row][0]]
            names = [table.names[each] for each in rivals.tolist() if each != row]
            if not names:
                return
            if ignores_cordons:
                raise RefusedMove(move, f"the scheduler would choose {names[0]}, and cordons do not keep it from there")
            if len(self.cordons) + len(names) > self._max_cordons:
                for_others = [name for name in self.cordons if name not in self.held]
                if not for_others or has_released:
                    raise RefusedMove(move, f"{len(names)} other nodes would have to be cordoned")
                for name in for_others:  # moves before needed them
                    self.uncordon(name, "is needed no more")
                has_released = True
                continue
            # The node that it leaves comes first: it is what a person expects to see cordoned. All are cordoned for the
            # same reason, so that they are one thing to do (`plan.in_groups`).
            for name in sorted(names, key=lambda each: (each != origin, each)):
                self.cordon(name, f"the scheduler would put {key} there")

    def is_empty(self, name: str) -> bool:
        """Say whether a node has no pods left but its own."""
        table = self.cluster.core.cache.table
        return all(follows_its_node(info.pod) for info in table.pods[table.row_of[name]].values())

    def finish(self, kept: Iterable[str]) -> None:
        """Take the cordons back; `kept` stay."""
        stays = set(kept)
        for name in tuple(self.cordons):
            if name not in stays:
                self.uncordon(name, "the moves are done")
