"""Keeps the PodDisruptionBudgets of a simulated cluster true, and says which evictions they allow.

Plays the disruption controller: `BudgetKeeper` hears of every pod and budget that is put or deleted, counts pod by pod,
and `publish` gives budgets whose status is out of date back to be stored, so that preemption reads what drains read.
What a budget's snapshot said of its status does not matter. A pod is healthy where it has a node, unless its
conditions say that it is not ready. Source: pkg/controller/disruption and the eviction subresource, v1.36.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from berth.api.node import (
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from berth.api.pod import Pod
from berth.api.selectors import NOTHING, Selector, SelectorError, compile_selector
from berth_workloads.disruption_budgets import (
    NOT_ENOUGH,
    SEVERAL_BUDGETS,
    Bounds,
    disruptions_allowed,
    expected,
    goes_anyway,
    unhealthy_may_go,
)

SCALED_KINDS = (ReplicaSet, ReplicationController, StatefulSet)
"""The controllers of pods whose number of replicas is known."""
MATCHES_AT_MOST = 1 << 16
"""For so many sets of labels it is remembered which budgets select them."""

Owner = tuple[str, str]
"""Kind and `namespace/name` of a controller."""
TEMPLATE_HASH = "pod-template-hash"
MIRROR = "kubernetes.io/config.mirror"
ScaleOf = Callable[[Owner], int | None]
"""Says how many pods a controller is to have; None where that is not known."""


class _CountedBudget:
    """A budget, and the pods that it selects."""

    __slots__ = ("budget", "healthy", "members", "owners", "selector")

    def __init__(self, budget: PodDisruptionBudget, selector: Selector) -> None:
        self.budget = budget
        self.selector = selector
        self.members: dict[str, tuple[bool, Owner | None]] = {}
        self.owners: Counter[Owner] = Counter()
        self.healthy = 0

    def note(self, key: str, healthy: bool, owner: Owner | None) -> None:
        """Count a pod, which may be known in another state."""
        self.forget(key)
        self.members[key] = (healthy, owner)
        self.healthy += healthy
        if owner is not None:
            self.owners[owner] += 1

    def forget(self, key: str) -> None:
        """Take a pod out of the count."""
        healthy, owner = self.members.pop(key, (False, None))
        self.healthy -= healthy
        if owner is not None:
            self.owners[owner] -= 1
            if not self.owners[owner]:
                del self.owners[owner]

    def status(self, scale_of: ScaleOf) -> PodDisruptionBudgetStatus:
        """Return the status for these pods."""
        bounds = Bounds(self.budget.spec.min_available, self.budget.spec.max_unavailable)
        scale = 0
        if bounds.need_scale:
            scale = sum(_known(scale_of(owner), count) for owner, count in self.owners.items())
        wanted = expected(bounds, len(self.members), scale)
        return PodDisruptionBudgetStatus(
            observed_generation=self.budget.metadata.generation,
            disruptions_allowed=disruptions_allowed(wanted, self.healthy),
            current_healthy=self.healthy,
            desired_healthy=wanted.healthy,
            expected_pods=wanted.pods,
        )

    def lets_go_unspent(self, pod: Pod, status: PodDisruptionBudgetStatus) -> bool:
        """Say whether a pod may be evicted without spending a disruption, as one that is not healthy may."""
        policy = self.budget.spec.unhealthy_pod_eviction_policy
        return not is_healthy(pod) and unhealthy_may_go(policy, status.desired_healthy, status.current_healthy)


def budget_problem(budget: PodDisruptionBudget) -> str:
    """Return why the API server would refuse the bounds of a budget; empty where it would not."""
    spec = budget.spec
    if spec.min_available is not None and spec.max_unavailable is not None:
        return "spec: minAvailable and maxUnavailable exclude each other"
    for field, bound in (("minAvailable", spec.min_available), ("maxUnavailable", spec.max_unavailable)):
        if isinstance(bound, str):
            is_good = re.fullmatch(r"[0-9]{1,18}%", bound) is not None and int(bound[:-1]) <= 100
        else:
            is_good = bound is None or bound >= 0
        if not is_good:
            expected = "a whole number, not negative, or a percentage of at most 100%"
            return f"spec.{field} must be {expected}; it is {bound!r}"
    return ""


def _known(scale: int | None, count: int) -> int:
    return count if scale is None else scale


class BudgetKeeper:
    """All budgets of a cluster."""

    __slots__ = ("_by_namespace", "_dirty", "_kept", "_matches", "_new", "_scale_of")

    def __init__(self, scale_of: ScaleOf) -> None:
        self._scale_of = scale_of
        self._kept: dict[str, _CountedBudget] = {}
        self._by_namespace: dict[str, list[str]] = {}
        self._matches: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[str, ...]] = {}
        self._dirty: dict[str, None] = {}
        self._new: dict[str, None] = {}
        """Budgets that came after pods did: whom they select is looked up when it is asked for."""

    def note_budget(self, budget: PodDisruptionBudget) -> None:
        """Take in a budget, or its newer state."""
        key = _key(budget)
        known = self._kept.get(key)
        if known is not None and known.budget.spec == budget.spec:
            known.budget = budget
            return
        try:
            selector = compile_selector(budget.spec.selector)
        except SelectorError:
            selector = NOTHING
        self._kept[key] = _CountedBudget(budget, selector)
        if known is None:
            self._by_namespace.setdefault(budget.metadata.namespace, []).append(key)
        self._matches.clear()
        self._new[key] = self._dirty[key] = None

    def forget_budget(self, budget: PodDisruptionBudget) -> None:
        """Drop a budget."""
        key = _key(budget)
        self._kept.pop(key, None)
        self._by_namespace[budget.metadata.namespace].remove(key)
        self._dirty.pop(key, None)
        self._new.pop(key, None)
        self._matches.clear()

    def note(self, pod: Pod) -> None:
        """Count a pod that is new or has changed."""
        if pod.metadata.namespace not in self._by_namespace:
            return
        for key in self._selecting(pod):
            self._count(self._kept[key], pod)
            self._dirty[key] = None

    def forget(self, pod: Pod) -> None:
        """Take out a pod that is gone."""
        if pod.metadata.namespace not in self._by_namespace:
            return
        for key in self._selecting(pod):
            self._kept[key].forget(pod.key)
            self._dirty[key] = None

    def note_scale(self, controller: ReplicaSet | ReplicationController | StatefulSet) -> None:
        """Count anew what controllers of a namespace ask for."""
        for key in self._by_namespace.get(controller.metadata.namespace, ()):
            self._dirty[key] = None

    def publish(self, pods: Callable[[], Iterable[Pod]]) -> Iterator[PodDisruptionBudget]:
        """Yield the budgets whose status has changed, as they are to be stored; `pods` gives all pods."""
        if self._new:
            new = [self._kept[key] for key in self._new]
            self._new.clear()
            namespaces = {kept.budget.metadata.namespace for kept in new}
            for pod in (each for each in pods() if each.metadata.namespace in namespaces):
                for kept in new:
                    if _selects(kept, pod):
                        self._count(kept, pod)
        dirty, self._dirty = self._dirty, {}
        for key in dirty:
            kept = self._kept[key]
            status = kept.status(self._scale_of)
            if status != kept.budget.status:
                kept.budget = msgspec.structs.replace(kept.budget, status=status)
                yield kept.budget

    def refusal(self, pod: Pod) -> tuple[str, str]:
        """Return the budget (`namespace/name`) that forbids evicting a pod, and why; empty where it may be evicted.

        `publish` must have been called after the last change.
        """
        # Here a pod with a node runs, whatever phase a manifest or a snapshot gives it.
        phase = pod.status.phase if not is_active(pod) else "Running" if pod.spec.node_name else "Pending"
        if goes_anyway(phase, is_being_deleted=pod.metadata.deletion_timestamp is not None):
            return "", ""
        keys = self.of(pod)
        if len(keys) > 1:
            return keys[0], f"{SEVERAL_BUDGETS}: {', '.join(keys)}"
        if not keys:
            return "", ""
        kept = self._kept[keys[0]]
        status = kept.status(self._scale_of)
        if status.disruptions_allowed > 0 or kept.lets_go_unspent(pod, status):
            return "", ""
        name = keys[0].partition("/")[2]
        return keys[0], NOT_ENOUGH.format(name, status.desired_healthy, status.current_healthy)

    def spends_nothing(self, pod: Pod) -> bool:
        """Say whether every budget of a pod lets it go without counting a disruption, since it is not healthy."""
        keys = self._selecting(pod) if pod.metadata.namespace in self._by_namespace else ()
        return bool(keys) and all(self._kept[key].lets_go_unspent(pod, self.status(key)) for key in keys)

    def violated(self) -> Iterator[tuple[str, PodDisruptionBudgetStatus]]:
        """Yield the budgets (`namespace/name`) that have fewer healthy pods than they demand."""
        for key, kept in self._kept.items():
            status = kept.status(self._scale_of)
            if status.expected_pods and status.current_healthy < status.desired_healthy:
                yield key, status

    def counting_as_healthy(self, pod: Pod) -> tuple[str, ...]:
        """Return the budgets (`namespace/name`) that count a pod as healthy."""
        if pod.metadata.namespace not in self._by_namespace or not (is_active(pod) and is_healthy(pod)):
            return ()
        return self._selecting(pod)

    def of(self, pod: Pod) -> tuple[str, ...]:
        """Return the budgets (`namespace/name`) that select a pod."""
        return self._selecting(pod) if pod.metadata.namespace in self._by_namespace else ()

    def status(self, key: str) -> PodDisruptionBudgetStatus:
        """Return the status of a budget (`namespace/name`); `publish` must have been called after it came."""
        return self._kept[key].status(self._scale_of)

    def _count(self, kept: _CountedBudget, pod: Pod) -> None:
        if is_active(pod):
            kept.note(pod.key, is_healthy(pod), owner_of(pod))
        else:
            kept.forget(pod.key)

    def _selecting(self, pod: Pod) -> tuple[str, ...]:
        """The budgets that select a pod; one without labels is in none."""
        labels = pod.metadata.labels
        if not labels:
            return ()
        asked = (pod.metadata.namespace, tuple(sorted(labels.items())))
        found = self._matches.get(asked)
        if found is None:
            if len(self._matches) >= MATCHES_AT_MOST:
                self._matches.clear()
            keys = self._by_namespace[pod.metadata.namespace]
            found = self._matches[asked] = tuple(key for key in keys if _selects(self._kept[key], pod))
        return found


def _selects(kept: _CountedBudget, pod: Pod) -> bool:
    return (
        kept.budget.metadata.namespace == pod.metadata.namespace
        and bool(pod.metadata.labels)
        and kept.selector.matches(pod.metadata.labels)
    )


def _key(budget: PodDisruptionBudget) -> str:
    return f"{budget.metadata.namespace}/{budget.metadata.name}"


def is_active(pod: Pod) -> bool:
    """Say whether a controller counts a pod among those that it has: it has not ended, and is not being deleted.

    Source: IsPodActive in pkg/controller/controller_utils.go.
    """
    return pod.status.phase not in ("Succeeded", "Failed") and pod.metadata.deletion_timestamp is None


def is_daemon(pod: Pod) -> bool:
    """Say whether a pod belongs to a DaemonSet."""
    return "DaemonSet" in [each.kind for each in pod.metadata.owner_references if each.controller]  # faster than `any`


def is_mirror(pod: Pod) -> bool:
    """Say whether a pod stands for one that a kubelet runs of a file of its own."""
    return MIRROR in pod.metadata.annotations or any(each.kind == "Node" for each in pod.metadata.owner_references)


def follows_its_node(pod: Pod) -> bool:
    """Say whether a pod runs wherever its node is, so that a node with only such pods is empty."""
    return is_daemon(pod) or is_mirror(pod)


def is_healthy(pod: Pod) -> bool:
    """Say whether a pod counts as healthy: it has a node, and nothing says that it is not ready."""
    if not pod.spec.node_name or pod.metadata.deletion_timestamp is not None:
        return False
    return all(each.status == "True" for each in pod.status.conditions if each.type == "Ready")


def owner_of(pod: Pod) -> Owner | None:
    """Return the controller of a pod, or None."""
    for owner in pod.metadata.owner_references:
        if owner.controller:
            return owner.kind, f"{pod.metadata.namespace}/{owner.name}"
    return None


def workload_of(pod: Pod, objects: Mapping[tuple[str, str], Any]) -> Owner | None:
    """Return what makes a pod, or None: of a ReplicaSet that a Deployment has made, the Deployment.

    Where the ReplicaSet is not among the objects, its name says whose it is.
    """
    owner = owner_of(pod)
    if owner is None or owner[0] != "ReplicaSet":
        return owner
    made_by = objects.get(owner)
    for each in () if made_by is None else made_by.metadata.owner_references:
        if each.controller and each.kind == "Deployment":
            return each.kind, f"{pod.metadata.namespace}/{each.name}"
    suffix = f"-{pod.metadata.labels.get(TEMPLATE_HASH, '')}"
    if made_by is None and suffix != "-" and owner[1].endswith(suffix):
        return "Deployment", owner[1].removesuffix(suffix)
    return owner


def scale_in(objects: Mapping[tuple[str, str], Any]) -> ScaleOf:
    """Return how many pods controllers among some objects ask for."""

    def scale_of(owner: Owner) -> int | None:
        found = objects.get(owner)
        return found.spec.replicas if isinstance(found, SCALED_KINDS) else None

    return scale_of
