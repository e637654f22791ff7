"""How to upgrade nodes pool by pool: in which order, how many together, with how many surge nodes.

The heuristic part: pools with most room come first, and in each pool the nodes with the least requests, since an empty
node that has come back takes the next ones' pods; where the plan may choose how many go together, the nodes of a gang
do if they can. Where a step leaves a pod without a node, a node like the one it was
on is added, until the pool goes through. Proven by trying: every step of the plan, in this order; and of a pool's surge
nodes, that without any one of them a step fails, where nodes go as many at a time as asked for (one, where the plan may
choose). Another order might need fewer. Where a surge node could not be taken away again, fewer at a time are tried,
and the plan is the one that leaves the fewest behind.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

import msgspec

from berth.api.node import Node
from berth.api.pod import Pod
from berth.api.pod_resources import PODS
from berth.api.pools import pool_of
from berth_workbench.planning.upgrade.plan import (
    BlockedNode,
    BlockedPod,
    NeededSurge,
    PoolUpgrade,
    UpgradePlan,
    UpgradeStep,
)
from berth_workbench.planning.upgrade.remedies import Blocked, BudgetRemedies
from berth_workbench.planning.upgrade.trial import DrainTrial, TriedStep
from berth_workbench.planning.whatif import natural
from berth_workbench.showing.ask import HowAsked, HowSaid, PoolLabel
from berth_workbench.simulation.changes import ChangeError, Drain
from berth_workbench.simulation.cluster import EXTENDERS_LEFT_OUT
from berth_workbench.simulation.gangs import declared_gang, gangs_of
from berth_workbench.simulation.measures import pending_pods
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import UNWATCHED, StoppedError, WorkWatch

WHOLE_PLANS_BELOW = 2_000
"""Where no more evictions were tried for a plan, a remedy is tried with a whole plan."""
ROUNDS = 4
"""So often a pool is gone through with the surge nodes that were needed the time before."""


class UpgradeRequest(msgspec.Struct, frozen=True):
    """Which nodes are to be upgraded, and how."""

    nodes: Annotated[
        tuple[str, ...],
        HowAsked("Nodes by name, pattern or selector; may be repeated. Default: all.", metavar="NODE"),
        HowSaid("{}", "all nodes", picks="nodes"),
    ] = ()
    pools: Annotated[
        tuple[str, ...],
        HowAsked("Only nodes of this pool; may be repeated.", flag="--pool", metavar="NAME"),
        HowSaid("pool {}", "every pool", picks="pools"),
    ] = ()
    pool_label: PoolLabel = ""
    at_once: Annotated[
        int | None,
        HowAsked("Drain so many nodes together; by default as many as budgets and room allow.", metavar="N",
            least=1, most=1000),
        HowSaid("at most {} nodes at once", "as many at once as budgets and room allow", one="one node at a time"),
    ] = None  # fmt: skip
    max_surge: Annotated[
        int,
        HowAsked("How many nodes may be added for the upgrade of a pool.", metavar="N", least=0, most=1000),
        HowSaid("at most {} surge nodes in a pool", "no surge", one="at most one surge node in a pool"),
    ] = 100
    effort: Annotated[
        int,
        HowAsked("After so many evictions tried in memory the plan is only finished, and not made better.", metavar="N",
            least=0),
        HowSaid("Stop making it better after {} evictions tried in memory.", "Do not try to make it better."),
    ] = 400_000  # fmt: skip


def plan_upgrade(situation: Situation, request: UpgradeRequest, watch: WorkWatch = UNWATCHED) -> UpgradePlan:
    """Return a plan. The same arguments give the same plan; where it is stopped, it ends where it is.

    Raises `ChangeError` for nodes or pools that are not there, `ObjectError`, `ConfigError`, `StuckError`, and
    `StoppedError` where it is stopped before anything was tried.
    """
    search = UpgradeSearch(situation.site(watch), request, watch)
    plan, asked = search.plan(), request
    left = request.effort - plan.tried
    for limit in _fewer(plan.surge) if plan.is_complete else ():
        if not plan.left_behind or left <= 0 or watch.is_stopped:
            break
        fewer = msgspec.structs.replace(request, max_surge=limit, effort=left)
        try:
            other = UpgradeSearch(situation.site(watch), fewer, watch)
            found = other.plan()
        except StoppedError:
            break
        left -= found.tried
        is_better = len(found.left_behind) < len(plan.left_behind) and len(found.blocked) <= len(plan.blocked)
        if found.is_complete and is_better:
            search, plan, asked = other, found, fewer
    with suppress(StoppedError):
        if plan.blocked and plan.is_complete and plan.tried < request.effort:
            return msgspec.structs.replace(plan, blocked=tuple(_with_remedies(situation, asked, watch, search, plan)))
    return plan


def _with_remedies(
    situation: Situation, request: UpgradeRequest, watch: WorkWatch, search: "UpgradeSearch", plan: UpgradePlan
) -> list[BlockedNode]:
    """Return the blocked nodes with what would free them: by a whole plan for each remedy, where that is quickly made.

    Where it is not, the blocked nodes alone are gone through, on the cluster as it is after the plan. A whole plan
    begins with the remedy, before the scheduler places anything: whom pending pods preempt depends on the budgets.
    """
    if plan.tried > WHOLE_PLANS_BELOW:
        watch.begin("trying what would free the pods of blocked nodes")
        return BudgetRemedies(search.site, plan.blocked, search.still_blocked).told()
    site = situation.site(watch)

    def again(_names: Sequence[str]) -> Blocked:
        return {each.node: each.pods for each in UpgradeSearch(site, request, watch).plan().blocked}

    return BudgetRemedies(site, plan.blocked, again).told()


def _fewer(surge: int) -> list[int]:
    """Return some smaller numbers of surge nodes, the largest first."""
    limits = {*range(surge - 4, surge), surge // 2, surge // 4, 1}
    return sorted((limit for limit in limits if 0 < limit < surge), reverse=True)


@dataclass(slots=True, eq=False, repr=False)
class _Run:
    """A way through a pool."""

    steps: list[UpgradeStep] = field(default_factory=list)
    surge: list[str] = field(default_factory=list)
    """What each surge node is like."""
    names: list[str] = field(default_factory=list)
    blocked: dict[str, tuple[BlockedPod, ...]] = field(default_factory=dict)
    may_wait: set[str] = field(default_factory=set)
    smaller: dict[str, int] = field(default_factory=dict)
    """How many nodes go together where as many as asked for cannot, by the first of them."""
    order: list[str] = field(default_factory=list)
    """The nodes that went, in this order."""
    failure: str = ""
    """Why it does not go through; empty where it does."""


class UpgradeSearch:
    """The search for one request."""

    def __init__(self, site: Site, request: UpgradeRequest, watch: WorkWatch = UNWATCHED) -> None:
        """Let the scheduler place what it can before the plan begins."""
        self.site = site
        self._cluster = cluster = site.cluster
        self._request = request
        self._watch = watch
        site.settle()
        site.count_no_more()
        pending = frozenset(pod.key for pod in pending_pods(cluster))
        self._pending = len(pending)
        self._trial = DrainTrial(site, pending)
        self._notes: dict[str, None] = {EXTENDERS_LEFT_OUT: None} if cluster.leaves_out_extenders else {}
        self._steps: list[UpgradeStep] = []
        self._pools: list[PoolUpgrade] = []
        self._blocked: list[BlockedNode] = []
        self._left_behind: list[str] = []
        self._ways: list[_Run] = []
        """The ways through the pool that is under way which are, as far as they go, good parts of a plan."""
        self._is_exploring = False

    def plan(self) -> UpgradePlan:
        """Find the plan, and leave the cluster as it is after it."""
        is_complete = True
        try:
            for pool, names in self._in_order().items():
                self._upgrade(pool, names)
            if len(self._pools) > 1:
                self._upgrade_what_was_blocked()
        except StoppedError:
            is_complete = False
            self._cluster.undo_all()
            farthest = max(self._ways, key=lambda each: len(each.order), default=_Run())
            self._steps += farthest.steps
        pending = len(pending_pods(self._cluster))
        return self._plan(self._steps, pending, is_complete=is_complete)

    def _plan(self, steps: Sequence[UpgradeStep], pending: int, *, is_complete: bool) -> UpgradePlan:
        return UpgradePlan(
            pools=tuple(self._pools),
            steps=tuple(steps),
            blocked=tuple(self._blocked),
            surge=max((len(each.surge) for each in self._pools), default=0),
            pending_before=self._pending,
            pending_after=pending,
            tried=self._trial.evicted,
            left_behind=tuple(self._left_behind),
            notes=tuple(self._notes),
            is_complete=is_complete,
        )

    def still_blocked(self, names: Sequence[str]) -> Blocked:
        """Go through nodes again that were blocked, of whichever pools, and return those that still are."""
        return self._tried("", names, _Run(), may_add=True).blocked

    # -- the order ---------------------------------------------------------------------------------------------------

    def _in_order(self) -> dict[str, list[str]]:
        """The chosen nodes of each pool. Raises `ChangeError`."""
        request = self._request
        nodes: list[Node] = list(self._cluster.of(Node))
        chosen = set(Drain(list(request.nodes)).chosen(nodes)) if request.nodes else None
        pools: dict[str, list[str]] = {}
        for node in nodes:
            if chosen is None or node.metadata.name in chosen:
                pool = pool_of(node.metadata.labels, request.pool_label)
                pools.setdefault(pool, []).append(node.metadata.name)
        for pool in request.pools:
            if pool not in pools:
                known = ", ".join(sorted(filter(None, pools))) or "none"
                raise ChangeError(f"no chosen node is in a pool {pool!r}; pools are {known}")
        pools = {pool: names for pool, names in pools.items() if not request.pools or pool in request.pools}
        filled = self._filled()
        for names in pools.values():
            names.sort(key=lambda name: (filled[name], natural(name)))
        mean = {pool: sum(filled[name] for name in names) / len(names) for pool, names in pools.items()}
        return {pool: pools[pool] for pool in sorted(pools, key=lambda pool: (mean[pool], natural(pool)))}

    def _filled(self) -> dict[str, float]:
        """Return the largest requested share of any resource on each node."""
        table = self._cluster.core.cache.table
        rows = [index for name, index in table.resource_index.items() if name != PODS]
        found = {}
        for name, row in table.row_of.items():
            shares = [
                table.requested[at, row] / table.allocatable[at, row] for at in rows if table.allocatable[at, row]
            ]
            found[name] = round(float(max(shares, default=0.0)), 3)
        return found

    # -- a pool ------------------------------------------------------------------------------------------------------

    def _upgrade(self, pool: str, names: Sequence[str]) -> None:
        run, is_minimal, without = _Run(), True, dict[int, str]()
        self._ways = []
        self._cluster.begin()
        found = self._go(pool, names, run, at_once=self._request.at_once)
        if found.failure:  # as most pools go through, it is only now looked for what this one needs
            self._cluster.undo()
            run, is_minimal, without = self._explored(pool, names)
            self._cluster.begin()
            found = self._go(pool, names, run, at_once=self._request.at_once)
        if found.failure:
            self._cluster.undo()
            self._cluster.begin()
            found = self._go(pool, names, run, at_once=self._request.at_once or 1)
        if found.failure:  # what was tried for the search does not come back in the same way: go on from here
            self._cluster.undo()
            self._cluster.begin()
            found, is_minimal = self._go(pool, names, run, at_once=self._request.at_once or 1, may_add=True), False
        self._cluster.keep()
        self._steps += found.steps
        self._ways = []
        surge = tuple(NeededSurge(like, without.get(at, "")) for at, like in enumerate(found.surge))
        self._pools.append(PoolUpgrade(pool, len(names), surge, is_minimal))
        self._blocked += [BlockedNode(name, pool, pods) for name, pods in found.blocked.items()]

    def _upgrade_what_was_blocked(self) -> None:
        """Try nodes that were blocked once more: what was in their way may have gone with a pool that came later."""
        for at, before in enumerate(self._pools):
            names = [each.node for each in self._blocked if each.pool == before.pool]
            if names and not self._is_spent:
                self._blocked = [each for each in self._blocked if each.pool != before.pool]
                self._upgrade(before.pool, names)
                again = self._pools.pop()
                surge = max(before.surge, again.surge, key=len)
                is_minimal = before.is_minimal and again.is_minimal
                self._pools[at] = PoolUpgrade(before.pool, before.nodes, surge, is_minimal)

    def _explored(self, pool: str, names: Sequence[str]) -> tuple[_Run, bool, dict[int, str]]:
        """Find surge nodes with which the pool goes through, none of them needless; say whether that was tried.

        Also returns, by its place, what fails without each.
        """
        run = self._with_surge(pool, names)
        # A node that could go alone, and cannot where it comes, goes first, unless that keeps more others from going.
        first = [name for name in run.blocked if not self._tried(pool, [name], _Run(), may_add=True).blocked]
        if first and not self._is_spent:
            other = self._with_surge(pool, [*first, *(name for name in names if name not in first)])
            run = min(run, other, key=lambda each: len(each.blocked))
        without: dict[int, str] = {}
        at = len(run.surge) - 1
        while at >= 0:
            if self._is_spent:
                self._notes["the search stopped early: fewer surge nodes, or larger batches, may do"] = None
                return run, False, without
            fewer = _Run(
                surge=run.surge[:at] + run.surge[at + 1 :],
                blocked=run.blocked,
                may_wait=run.may_wait,
                smaller=run.smaller,
                order=run.order,
            )
            found = self._tried(pool, names, fewer, may_add=False)
            if found.failure:
                without[at] = found.failure
                at -= 1
            else:
                run, without = found, {}
                at = len(run.surge) - 1
        return run, True, without

    def _with_surge(self, pool: str, names: Sequence[str]) -> _Run:
        """Go through a pool until no more surge nodes are added on the way, or they prove to be of no lasting use."""
        run = _Run()
        for _ in range(ROUNDS):
            known = _Run(surge=run.surge, may_wait=run.may_wait)
            run = self._tried(pool, names, known, may_add=True)
            if len(run.surge) == len(known.surge) or self._is_spent:
                break
        return run

    def _tried(self, pool: str, names: Sequence[str], run: _Run, *, may_add: bool) -> _Run:
        self._cluster.begin()
        self._is_exploring = True
        try:
            return self._go(pool, names, run, at_once=self._request.at_once or 1, may_add=may_add)
        finally:
            self._is_exploring = False
            self._cluster.undo()

    @property
    def _is_spent(self) -> bool:
        return self._trial.evicted >= self._request.effort

    # -- through a pool ----------------------------------------------------------------------------------------------

    def _go(self, pool: str, names: Sequence[str], known: _Run, *, at_once: int | None, may_add: bool = False) -> _Run:
        """Go through a pool with the surge, the blocked nodes and the pods that may wait of a run before.

        With `may_add` more of all of these is found; without, the first step that is no good ends it. What is blocked
        is tried once more when others have gone since: with them, room and healthy pods have come back.
        """
        run = _Run(blocked=dict(known.blocked), may_wait=set(known.may_wait), smaller=dict(known.smaller))
        if not self._is_exploring:
            self._ways.append(run)
        doing = "trying what else a pool needs" if self._is_exploring else "upgrading nodes"
        self._watch.begin(f"{doing}{f' of {pool}' if pool else ''}", len(names))
        if known.surge:
            self._add(pool, run, known.surge)
        left = [name for name in known.order or names if name not in run.blocked]
        size = at_once or 1
        alone = set[str]()
        """Nodes that cannot go together with all others that their gangs are on."""
        had_gone: dict[str, int] = {}
        """How many nodes had gone when a node was found to be blocked."""
        while left or (left := [name for name, count in had_gone.items() if count < len(run.order)]):
            size = min(run.smaller.get(left[0], size), len(left))
            batch = left[:size] if at_once or left[0] in alone else self._with_gangs(left, size)
            tried = self._batch(batch, run)
            if tried.is_good:
                run.steps.append(_step("upgrade", pool, batch, tried))
                run.order += batch
                self._watch.advance(len(batch))
                if not self._is_exploring:
                    so_far = [*self._steps, *run.steps]
                    self._watch.offer(partial(self._plan, so_far, self._pending, is_complete=False))
                if size < (at_once or 1):
                    run.smaller[batch[0]] = size
                for name in batch:
                    run.blocked.pop(name, None)
                    had_gone.pop(name, None)
                left = [name for name in left if name not in batch]
                size = at_once or (size if self._is_spent else 2 * size)
            elif at_once is None and size > 1:
                size //= 2
            elif at_once is None and len(batch) > 1:
                alone.add(batch[0])
            elif not may_add:
                run.failure = f"{', '.join(batch)}: {tried.why_not}"
                return run
            else:
                left = self._cured(pool, run, left, size, tried)
                had_gone |= {name: len(run.order) for name in batch if name in run.blocked}
                size = at_once or 1
        for name in reversed(run.names):
            self._remove(pool, run, name)
        return run

    def _with_gangs(self, left: Sequence[str], size: int) -> list[str]:
        """Return so many nodes to go together, and the others of gangs that would be stopped by those on them."""
        cluster = self._cluster
        if not any(declared_gang(cluster, pod) for name in left[:size] for pod in self.site.pods_on(name)):
            return list(left[:size])
        nodes_of: dict[str, list[set[str]]] = {}
        for gang in gangs_of(cluster):
            nodes = Counter(pod.spec.node_name for pod in gang.members if pod.spec.node_name)
            for name, count in nodes.items():
                if gang.placed - count < gang.needed <= gang.placed:
                    nodes_of.setdefault(name, []).append(set(nodes))
        batch: dict[str, None] = {}
        for name in left:
            if len(batch) >= size:
                break
            mates = set[str]().union(*nodes_of.get(name, ()))
            batch |= dict.fromkeys((name, *(each for each in left if each in mates)))
        return list(batch)

    def _batch(self, batch: Sequence[str], run: _Run) -> TriedStep:
        """Try a batch, and keep it where it is good.

        Where the plan may choose, nodes go together only if no pod waits for another.
        """
        self._cluster.begin()
        tried = self._trial.upgrade(batch, run.may_wait)
        if tried.is_good and self._request.at_once is None and len(batch) > 1 and tried.waves > 1:
            tried.strained = ("(waits for pods of the same batch)",)
        self._end(tried.is_good)
        return tried

    def _end(self, is_good: bool) -> None:
        if is_good:
            self._cluster.keep()
        else:
            self._cluster.undo()

    def _cured(self, pool: str, run: _Run, left: list[str], size: int, tried: TriedStep) -> list[str]:
        """Do something about a failed step, and return the remaining nodes."""
        batch = left[:size]
        if (tried.stranded or tried.strained) and len(run.surge) < self._request.max_surge:
            for like in self._likely(batch, tried):
                if self._helps(batch, run, like, tried):
                    self._add(pool, run, [like])
                    return left
        if size > 1:
            # Those whose pods may not go together with the others' come after them, the first of all alone.
            refused = {each.node for each in tried.refused}
            others = [name for name in batch if name not in refused]
            if not refused or batch[0] in refused:
                run.smaller[batch[0]] = 1 if refused else size // 2
                return left
            run.smaller[others[0]] = len(others)
            return [*others, *(name for name in batch if name in refused), *left[size:]]
        if size == 1 and tried.stranded and not tried.strained and len(run.surge) < self._request.max_surge:
            run.may_wait |= set(tried.stranded)  # a surge node is of no use to them
            return left
        culprits = {each.node for each in tried.refused} or set(batch)
        for name in batch:
            if name in culprits:
                mine = [each for each in tried.refused if each.node == name]
                alone = {**tried.stranded, **tried.homeless} or {"": tried.why_not}
                run.blocked[name] = tuple(mine or (BlockedPod(pod, name, "", why, "") for pod, why in alone.items()))
        return [name for name in left if name not in culprits]

    def _likely(self, batch: Sequence[str], tried: TriedStep) -> list[str]:
        """The nodes that a surge node might be like: those that the pods without a node were on, most pods first."""
        counts = dict.fromkeys(batch, 0)
        for key in tried.stranded:
            pod: Pod | None = self._cluster.objects.get(("Pod", key))
            if pod is not None and pod.spec.node_name in counts:
                counts[pod.spec.node_name] += 1
        return sorted(counts, key=lambda name: -counts[name])

    def _helps(self, batch: Sequence[str], run: _Run, like: str, before: TriedStep) -> bool:
        """Say whether a step goes better with one surge node more, or whether that node is at least used."""
        self._cluster.begin()
        (name,), _ = self._trial.add_surge([like])
        self._cluster.begin()
        tried = self._trial.upgrade(batch, run.may_wait)
        is_better = tried.is_good or len(tried.stranded) < len(before.stranded) or self._trial.is_used(name)
        self._cluster.undo()
        self._cluster.undo()
        return is_better

    def _add(self, pool: str, run: _Run, like: Sequence[str]) -> None:
        self._cluster.begin()
        names, tried = self._trial.add_surge(like)
        self._cluster.keep()
        run.surge += like
        run.names += names
        step = _step("addSurge", pool, names, tried)
        run.steps.append(msgspec.structs.replace(step, like=tuple(like)))

    def _remove(self, pool: str, run: _Run, name: str) -> None:
        """Take a surge node away, unless pods would be left without a node: then it stays, and a note says so."""
        self._cluster.begin()
        tried = self._trial.remove_surge(name)
        self._end(tried.is_good)
        if tried.is_good:
            run.steps.append(_step("removeSurge", pool, [name], tried))
        elif not self._is_exploring:
            self._notes[f"surge node {name} cannot be taken away again: {tried.why_not}"] = None
            self._left_behind.append(name)


def _step(action: str, pool: str, names: Sequence[str], tried: TriedStep) -> UpgradeStep:
    return UpgradeStep(
        action,  # type: ignore[arg-type] # one of the three, from this module alone
        pool,
        tuple(names),
        moves=tried.moves,
        lost=tried.lost,
        waiting=tried.waiting,
        preempted=tried.preempted,
        waves=tried.waves,
        stops=tried.stops,
    )
