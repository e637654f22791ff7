"""One step of an upgrade, tried on a cluster in memory: nodes drained together, and surge nodes that come and go.

The drain is that of `kubectl drain --force --ignore-daemonsets` on several nodes at once. Pods that may leave do so;
those that budgets protect are tried again once the scheduler has placed those that left before. The result is a
`TriedStep`, with any objections. The caller, who has begun the trial, keeps it or undoes it.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from berth.api.pod import Pod
from berth_workbench.planning.upgrade.plan import BlockedPod, UpgradeMove
from berth_workbench.simulation.budgets import follows_its_node, is_active, is_daemon, is_mirror
from berth_workbench.simulation.gangs import declared_gang, gangs_of
from berth_workbench.simulation.measures import is_pending
from berth_workbench.simulation.node_changes import (
    add_nodes,
    by_workload,
    evict_allowed,
    remove_nodes,
    set_unschedulable,
    still_on,
)
from berth_workbench.simulation.site import Site


@dataclass(slots=True, eq=False, repr=False)
class TriedStep:
    """The result of a step."""

    refused: tuple[BlockedPod, ...] = ()
    """Pods that budgets keep on their nodes for good."""
    stranded: dict[str, str] = field(default_factory=dict)
    """Pods that have no node while the nodes are away, and why; those that may wait are left out."""
    homeless: dict[str, str] = field(default_factory=dict)
    """Pods that have no node when the nodes are back, and had one before."""
    strained: tuple[str, ...] = ()
    """Budgets that have fewer healthy pods than they demand, and had enough before."""
    moves: tuple[UpgradeMove, ...] = ()
    lost: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    preempted: int = 0
    waves: int = 0
    stops: tuple[str, ...] = ()
    """The pod groups that have too few pods with a node once those of these nodes have left."""

    @property
    def is_good(self) -> bool:
        """Say whether nothing speaks against the step."""
        return not (self.refused or self.stranded or self.homeless or self.strained)

    @property
    def why_not(self) -> str:
        """Say what speaks against it, in a sentence."""
        for pods in (self.stranded, self.homeless):
            for pod, message in pods.items():
                more = len(pods) - 1
                others = f" and {more} more {'pod' if more == 1 else 'pods'} have" if more else " has"
                return f"{pod}{others} no node: {message}"
        if self.strained:
            return f"budget {self.strained[0]} has too few healthy pods"
        return f"{self.refused[0].pod} may not be evicted: {self.refused[0].why}" if self.refused else ""


class DrainTrial:
    """Tries steps on a site whose cluster takes them back; `evicted` counts how many pods had to leave in all."""

    __slots__ = ("_cluster", "_pending", "_site", "evicted")

    def __init__(self, site: Site, pending: Collection[str]) -> None:
        """`pending` are the pods that have no node before the plan begins, and may have none at any time."""
        self._cluster, self._site, self._pending = site.cluster, site, pending
        self.evicted = 0

    def upgrade(self, names: Sequence[str], may_wait: Collection[str] = ()) -> TriedStep:
        """Drain nodes together and bring them back, cordoned where they were."""
        cluster, seen = self._cluster, self._seen()
        were = {name: cluster.objects["Node", name].spec.unschedulable for name in names}
        tried = self._drained(names, "the upgrade")
        away = self._without_node()
        tried.stranded = {key: why for key, why in away.items() if key not in may_wait}
        if not tried.is_good:
            return tried
        for name, was in were.items():
            if not was:
                set_unschedulable(self._site, name, unschedulable=False)
        self._site.settle()
        tried.waiting = tuple(sorted(away))
        self._note_end(tried, seen)
        return tried

    def add_surge(self, like: Iterable[str]) -> tuple[list[str], TriedStep]:
        """Add a node like each of these; return their names."""
        seen, names = self._seen(), []
        for each in like:
            names += add_nodes(self._site, each, 1)
        self._site.settle()
        tried = TriedStep()
        self._note_end(tried, seen)
        return names, tried

    def remove_surge(self, name: str) -> TriedStep:
        """Drain a surge node and take it away."""
        seen = self._seen()
        tried = self._drained([name], "the end of the surge")
        if not tried.refused:
            remove_nodes(self._site, [name], "the end of the surge")
            self._site.settle()
            self._note_end(tried, seen)
        return tried

    def is_used(self, name: str) -> bool:
        """Say whether a node has pods of its own, not only those that every node has."""
        return any(not follows_its_node(pod) for pod in self._site.pods_on(name))

    # -- in detail ---------------------------------------------------------------------------------------------------

    def _seen(self) -> tuple[int, int]:
        return len(self._site.departures), len(self._cluster.evictions)

    def _drained(self, names: Sequence[str], by: str) -> TriedStep:
        site, cluster, tried = self._site, self._cluster, TriedStep()
        before = len(site.departures)
        for name in names:
            set_unschedulable(site, name, unschedulable=True)
        leaving = by_workload(pod for name in names for pod in site.pods_on(name) if not follows_its_node(pod))
        tried.stops = self._stopped_by(leaving)
        while leaving:
            refused = evict_allowed(site, leaving, by)
            site.settle()
            tried.strained = tried.strained or self._strained()
            if len(refused) == len(leaving):
                tried.refused = tuple(BlockedPod(pod.key, pod.spec.node_name, *refusal) for pod, refusal in refused)
                break
            tried.waves += 1
            found = ((pod, still_on(site, pod, pod.spec.node_name)) for pod, _ in refused)
            leaving = [now for _, now in found if now is not None]
        self.evicted += len(site.departures) - before
        cluster.publish_budgets()
        return tried

    def _stopped_by(self, leaving: Sequence[Pod]) -> tuple[str, ...]:
        """The gangs that have enough pods with a node, and not without these."""
        cluster, keys = self._cluster, {pod.key for pod in leaving}
        if not any(declared_gang(cluster, pod) for pod in leaving):
            return ()
        found = []
        for gang in gangs_of(cluster):
            leave = sum(pod.key in keys for pod in gang.members)
            if gang.placed - leave < gang.needed <= gang.placed:
                found.append(gang.key)
        return tuple(found)

    def _strained(self) -> tuple[str, ...]:
        """The budgets that the trial has brought below what they demand; one that was there before is not its fault."""
        objects, found = self._cluster.objects, []
        for (kind, key), was in self._cluster.touched.items():
            if kind == "PodDisruptionBudget" and was is not None:
                now, before = objects[kind, key].status, was.status
                had_enough = before.current_healthy >= before.desired_healthy
                if now.expected_pods and now.current_healthy < now.desired_healthy and had_enough:
                    found.append(key)
        return tuple(sorted(found))

    def _without_node(self) -> dict[str, str]:
        """The pods that the trial has left without a node, and why."""
        found = {}
        for kind, key in self._cluster.touched:
            pod = self._cluster.objects.get((kind, key)) if kind == "Pod" else None
            if pod is not None and is_pending(pod) and key not in self._pending and not is_daemon(pod):
                found[key] = self._cluster.messages.get(key, "has not been tried")
        return dict(sorted(found.items()))

    def _note_end(self, tried: TriedStep, seen: tuple[int, int]) -> None:
        """Note where the pods are in the end."""
        tried.homeless = self._without_node()
        tried.strained = tried.strained or self._strained()
        moves, lost = [], []
        for (kind, key), was in self._cluster.touched.items():
            if kind != "Pod" or (was is not None and is_daemon(was)):
                continue
            now: Pod | None = self._cluster.objects.get((kind, key))
            if now is None:
                if was is not None and is_active(was) and not is_mirror(was):
                    lost.append(key)
            elif was is not None and was.spec.node_name != now.spec.node_name:
                moves.append(UpgradeMove(key, was.spec.node_name, now.spec.node_name))
        tried.moves = tuple(sorted(moves, key=lambda move: move.pod))
        tried.lost = tuple(sorted(lost))
        tried.preempted = len(self._cluster.evictions) - seen[1]
