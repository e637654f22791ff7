"""Remedies for pods that budgets keep on their nodes, each tried before it is proposed.

A remedy changes objects in a trial (pods that become healthy, more replicas, other bounds). Then the plan is made
again, or the blocked nodes are tried again. For each kind of remedy, the smallest change with which the pod can go is
proposed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from berth.api.node import PodDisruptionBudget, PodDisruptionBudgetStatus
from berth.api.pod import Pod
from berth_workbench.planning.upgrade.plan import BlockedNode, BlockedPod
from berth_workbench.showing.words import counted
from berth_workbench.simulation.budgets import SCALED_KINDS, is_active, is_healthy, owner_of
from berth_workbench.simulation.cluster import pending_again
from berth_workbench.simulation.site import Site
from berth_workloads.disruption_budgets import SEVERAL_BUDGETS

REPLICAS_AT_MOST = 3
"""With more replicas than so many more it is not tried."""
PODS_AT_MOST = 3
"""So many of a budget's pods are tried to become healthy alone; then all of them."""
BOUNDS_AT_MOST = 4
"""So many more pods than are healthy are demanded at most by a bound that is tried."""
NODES_AT_MOST = 100
"""For so many nodes it is looked what would free their pods."""

Blocked = Mapping[str, tuple[BlockedPod, ...]]
"""The nodes that cannot be upgraded, with the pods that keep them."""
GoThrough = Callable[[Sequence[str]], Blocked]
"""Goes through nodes again, as things are then, and returns which of them are still blocked."""


class _Remedy(NamedTuple):
    """A change, in words, and what makes it; that says whether it could be made."""

    words: str
    make: Callable[[], bool]


class BudgetRemedies:
    """Looks for remedies on the cluster of a site, and leaves it as it was."""

    __slots__ = ("_blocked", "_cluster", "_go_through")

    def __init__(self, site: Site, blocked: Sequence[BlockedNode], go_through: GoThrough) -> None:
        self._cluster = site.cluster
        self._blocked = blocked
        self._go_through = go_through

    def told(self) -> list[BlockedNode]:
        """Return the nodes with what would free their pods."""
        by_budget: dict[str, list[BlockedPod]] = {}
        frees: dict[str, list[str]] = {}
        for pod in (pod for node in self._blocked[:NODES_AT_MOST] for pod in node.pods if pod.budget):
            if not pod.why.startswith(SEVERAL_BUDGETS):
                by_budget.setdefault(pod.budget, []).append(pod)
            elif found := self._one_budget(pod):
                frees.setdefault(pod.pod, []).append(found)
        for budget, pods in by_budget.items():
            for remedies in (self._healthier(budget), self._more(budget), self._other_bounds(budget)):
                self._try(remedies, pods, frees)
        replace = msgspec.structs.replace
        return [
            replace(node, pods=tuple(replace(pod, frees=", or ".join(frees.get(pod.pod, ()))) for pod in node.pods))
            for node in self._blocked
        ]

    def _try(self, remedies: Iterator[_Remedy], pods: Sequence[BlockedPod], frees: dict[str, list[str]]) -> None:
        """Try remedies of one kind, the least first, and note for each pod the first with which it can go."""
        left = list(pods)
        for remedy in remedies:
            kept = self._kept_with(remedy.make, pods) if left else None
            if kept is None:
                continue
            for pod in [each for each in left if (each.node, each.pod) not in kept]:
                frees.setdefault(pod.pod, []).append(remedy.words)
                left.remove(pod)

    def _kept_with(self, make: Callable[[], bool], pods: Sequence[BlockedPod]) -> set[tuple[str, str]] | None:
        """Return which pods still keep which of these pods' nodes with a remedy; None where it cannot be applied."""
        names = {pod.node for pod in pods}
        self._cluster.begin()
        try:
            if not make():
                return None
            kept = self._go_through([node.node for node in self._blocked if node.node in names])
            return {(name, pod.pod) for name, pods in kept.items() for pod in pods}
        finally:
            if self._cluster.is_tried_on:  # who is stopped has taken everything back
                self._cluster.undo()

    # -- the remedies ------------------------------------------------------------------------------------------------

    def _members(self, key: str) -> list[Pod]:
        """The pods of a budget that run."""
        cluster = self._cluster
        return [
            pod for pod in cluster.of(Pod) if pod.spec.node_name and is_active(pod) and key in cluster.budgets.of(pod)
        ]

    def _healthier(self, key: str) -> Iterator[_Remedy]:
        ill = [pod for pod in self._members(key) if not is_healthy(pod)]
        for pod in ill[:PODS_AT_MOST]:
            yield _Remedy(f"{pod.key} becomes healthy", partial(self._heal, [pod]))
        if len(ill) > 1:
            yield _Remedy(f"all {len(ill)} pods of it that are not healthy become healthy", partial(self._heal, ill))

    def _heal(self, pods: Sequence[Pod]) -> bool:
        for pod in pods:
            ready = tuple(each for each in pod.status.conditions if each.type != "Ready")
            status = msgspec.structs.replace(pod.status, conditions=ready)
            self._cluster.put(msgspec.structs.replace(pod, status=status))
        return True

    def _more(self, key: str) -> Iterator[_Remedy]:
        owned = [pod for pod in self._members(key) if (owner_of(pod) or ("", ""))[0] not in ("", "DaemonSet", "Job")]
        for count in range(1, REPLICAS_AT_MOST + 1) if owned else ():
            yield _Remedy(counted(count, "more healthy replica"), partial(self._scale, owned[0], count))

    def _scale(self, model: Pod, count: int) -> bool:
        """Add as many more pods like one, if there is room for them; say whether there is."""
        cluster = self._cluster
        owner = cluster.objects.get(owner_of(model) or ("", ""))
        if isinstance(owner, SCALED_KINDS) and owner.spec.replicas is not None:
            spec = msgspec.structs.replace(owner.spec, replicas=owner.spec.replicas + count)
            cluster.put(msgspec.structs.replace(owner, spec=spec))
        again = pending_again(model)
        evicted, keys = len(cluster.evictions), []
        for number in range(count):
            name = f"{model.metadata.name}-more-{number}"
            metadata = msgspec.structs.replace(again.metadata, name=name, uid=f"{model.metadata.uid}-more-{number}")
            pod = msgspec.structs.replace(again, metadata=metadata)
            cluster.put(pod)
            keys.append(pod.key)
        cluster.settle()
        return len(cluster.evictions) == evicted and all(cluster.objects["Pod", key].spec.node_name for key in keys)

    def _other_bounds(self, key: str) -> Iterator[_Remedy]:
        """With as many demanded as are healthy, one that is not may go; with one fewer any.

        More may be demanded where pods become healthy as their nodes are upgraded.
        """
        budget: PodDisruptionBudget = self._cluster.objects["PodDisruptionBudget", key]
        status, replace = self._status_at_rest(key), msgspec.structs.replace
        is_least = budget.spec.max_unavailable is None
        most = min(status.desired_healthy - 1, status.current_healthy + BOUNDS_AT_MOST)
        for demanded in range(most, max(status.current_healthy - 1, 0) - 1, -1):
            bound = demanded if is_least else status.expected_pods - demanded
            spec = (
                replace(budget.spec, min_available=bound) if is_least else replace(budget.spec, max_unavailable=bound)
            )
            words = f"{'minAvailable' if is_least else 'maxUnavailable'} {bound}"
            yield _Remedy(words, partial(self._put, replace(budget, spec=spec)))

    def _status_at_rest(self, key: str) -> PodDisruptionBudgetStatus:
        """Return the status of a budget once the scheduler has placed what it can, which may take pods from it."""
        self._cluster.begin()
        self._cluster.settle()
        self._cluster.publish_budgets()
        budget: PodDisruptionBudget = self._cluster.objects["PodDisruptionBudget", key]
        self._cluster.undo()
        return budget.status

    def _put(self, budget: PodDisruptionBudget) -> bool:
        self._cluster.put(budget)
        return True

    def _one_budget(self, pod: BlockedPod) -> str:
        """Say in which of its budgets only a pod could go."""
        keys = self._cluster.budgets.of(self._cluster.objects["Pod", pod.pod])
        good = []
        for key in keys:
            others = [each for each in keys if each != key]
            kept = self._kept_with(partial(self._drop, others), [pod])
            if kept is not None and (pod.node, pod.pod) not in kept:
                good.append(key)
        if len(good) == len(keys):
            return "leave it in one budget only"
        return f"leave it in budget {' or '.join(good)} only" if good else ""

    def _drop(self, keys: Sequence[str]) -> bool:
        """Leave budgets out, as for a pod that is in them no more; what becomes of their others is not looked at."""
        for key in keys:
            self._cluster.delete("PodDisruptionBudget", key)
        return True
