"""The disruption controller: keeps the status of PodDisruptionBudgets, by which evictions and preemption decide.

Driven by changes of budgets, pods and the workloads that own them, and by time (evictions after which the pod stayed).
The controller counts how many disruptions are allowed; the `eviction` subresource spends them. Upstream:
pkg/controller/disruption, v1.36.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from berth.api.selectors import Selector
from berth_cluster.apimachinery.meta import (
    Object,
    controller_reference,
    format_time,
    int_of,
    is_being_deleted,
    key_of,
    labels_of,
    parse_time,
    set_condition,
    uid_of,
)
from berth_cluster.apimachinery.selection import compile_json
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.pods import ready_since
from berth_workloads.disruption_budgets import Bounds, Expected, disruptions_allowed, expected

COMPONENT = "controllermanager"
KIND = "PodDisruptionBudget"
SCALED_KINDS = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet")
UNMANAGED = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of "
    "the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please "
    'set ".spec.minAvailable" field of the PDB to an integer value.'
)
CONDITION = "DisruptionAllowed"
DELETION_WAIT_S = 120.0
"""For this long a pod whose eviction was allowed counts as on its way out; after that, as there to stay."""


class DisruptedPods(NamedTuple):
    """Pods whose eviction was allowed.

    `awaited` are expected to go (name -> time of the eviction), `overdue` have not gone in time; `recheck_s` is when to
    look again, in seconds since the epoch.
    """

    awaited: dict[str, str]
    overdue: list[Object]
    recheck_s: float | None


def disrupted_pods(budget: Object, pods: Sequence[Object], now_s: float) -> DisruptedPods:
    """What has become of the pods that `status.disruptedPods` names."""
    noted = (budget.get("status") or {}).get("disruptedPods") or {}
    awaited, overdue, due_s = {}, [], []
    for pod in pods:
        name = pod["metadata"]["name"]
        if name not in noted or is_being_deleted(pod):
            continue
        end_s = parse_time(noted[name]) + DELETION_WAIT_S
        if end_s > now_s:
            awaited[name] = noted[name]
            due_s.append(end_s)
        else:
            overdue.append(pod)
    return DisruptedPods(awaited, overdue, min(due_s, default=None))


def bounds_of(budget: Object) -> Bounds:
    """The bounds that the budget gives."""
    return Bounds(budget["spec"].get("minAvailable"), budget["spec"].get("maxUnavailable"))


def counted_status(
    budget: Object, pods: Sequence[Object], needed: Expected, awaited: dict[str, str], now_s: float
) -> Object:
    """The status for these pods."""
    healthy = sum(_is_healthy(pod) and pod["metadata"]["name"] not in awaited for pod in pods)
    allowed = disruptions_allowed(needed, healthy)
    status: Object = {
        "observedGeneration": int_of(budget["metadata"], "generation"),
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": needed.healthy,
        "expectedPods": needed.pods,
    }
    if awaited:
        status["disruptedPods"] = awaited
    reason = "SufficientPods" if allowed else "InsufficientPods"
    return {**status, "conditions": _conditions(budget, str(bool(allowed)), reason, "", now_s)}


def failed_status(budget: Object, message: str, now_s: float) -> Object:
    """The status when the pods cannot be counted: nothing may be disrupted."""
    before = budget.get("status") or {}
    conditions = _conditions(budget, "False", "SyncFailed", message, now_s)
    return {**before, "disruptionsAllowed": 0, "conditions": conditions}


def _is_healthy(pod: Object) -> bool:
    return ready_since(pod) is not None and not is_being_deleted(pod)


def _conditions(budget: Object, status: str, reason: str, message: str, now_s: float) -> list[Object]:
    known = (budget.get("status") or {}).get("conditions") or []
    condition = {
        "type": CONDITION,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": int_of(budget["metadata"], "generation"),
        "lastTransitionTime": format_time(now_s),
    }
    return set_condition(known, condition)


class BudgetCount(NamedTuple):
    """A budget's new status, whether some of its pods have no controller, and why they could not be counted."""

    status: Object
    has_unmanaged: bool = False
    fault: str = ""


class DisruptionController(KeyedController):
    """Keeps the status of budgets. A queue key is a budget's."""

    __slots__ = ("_budgets", "_client", "_index", "_members", "_selectors")

    name = "disruption-controller"

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self._index = client.index
        self._selectors: dict[str, Selector] = {}  # by budget
        self._budgets: dict[str, dict[str, None]] = {}  # the budgets of a namespace
        self._members: dict[str, dict[str, None]] = {}  # the pods that a budget selects

    # --- changes ---------------------------------------------------------------------------------------------

    def handle(self, change: ObjectChange) -> None:
        """Look at changed budgets, at those that select a changed pod, and at those whose workloads are scaled."""
        if change.kind == KIND:
            self._handle_budget(change)
        elif change.kind == "Pod":
            self._handle_pod(change)
        elif change.kind in SCALED_KINDS and (change.old is None or _scale(change.old) != _scale(change.obj)):
            for key in self._budgets.get(change.obj["metadata"]["namespace"], ()):
                self.queue.add(key)

    def _handle_budget(self, change: ObjectChange) -> None:
        key, namespace = key_of(change.obj), change.obj["metadata"]["namespace"]
        if change.type == "DELETED":
            self._selectors.pop(key, None)
            self._members.pop(key, None)
            self._budgets.get(namespace, {}).pop(key, None)
            return
        self.queue.add(key)
        if change.old is not None and change.old["spec"] == change.obj["spec"] and key in self._selectors:
            return
        self._selectors[key] = compile_json(change.obj["spec"].get("selector"), change.obj["metadata"]["name"])
        self._budgets.setdefault(namespace, {})[key] = None
        pods = self._index.in_namespace("Pod", namespace)
        self._members[key] = {key_of(pod): None for pod in pods if self._selectors[key].matches(labels_of(pod))}

    def _handle_pod(self, change: ObjectChange) -> None:
        pod, pod_key = change.obj, key_of(change.obj)
        for key in self._budgets.get(pod["metadata"]["namespace"], ()):
            members = self._members[key]
            if change.type != "DELETED" and self._selectors[key].matches(labels_of(pod)):
                members[pod_key] = None
            elif pod_key in members:
                del members[pod_key]
            else:
                continue
            self.queue.add(key)

    # --- one budget ------------------------------------------------------------------------------------------

    def sync(self, key: str, now_s: float) -> None:
        """Bring the status of one budget up to date."""
        budget = self._index.get(KIND, key)
        if budget is None:
            return
        found = (self._index.get("Pod", pod_key) for pod_key in self._members.get(key, ()))
        pods = [pod for pod in found if pod is not None]
        counted = self._count(budget, pods, now_s)
        if counted.status == budget.get("status"):
            return
        self._client.update_status(KIND, {**budget, "status": counted.status})
        if counted.fault:
            message = f"Failed to calculate the number of expected pods: {counted.fault}"
            self._client.events.warning(COMPONENT, KIND, budget, "CalculateExpectedPodCountFailed", message, now_s)
        elif not pods:
            self._client.events.normal(COMPONENT, KIND, budget, "NoPods", "No matching pods found", now_s)
        elif counted.has_unmanaged:
            selector = msgspec.json.encode(budget["spec"].get("selector")).decode()
            message = UNMANAGED.format(selector)
            self._client.events.warning(COMPONENT, KIND, budget, "UnmanagedPods", message, now_s)

    def _count(self, budget: Object, pods: list[Object], now_s: float) -> BudgetCount:
        scale, has_unmanaged = 0, False
        if bounds_of(budget).need_scale:
            scales: dict[str, int] = {}
            for pod in pods:
                owner = self._scaled_owner(pod)
                if owner is not None:
                    scales[uid_of(owner)] = _scale(owner)
                elif controller_reference(pod) is None:
                    has_unmanaged = True
                else:
                    fault = f'found no controllers for pod "{pod["metadata"]["name"]}"'
                    return BudgetCount(failed_status(budget, fault, now_s), fault=fault)
            scale = sum(scales.values())
        disrupted = disrupted_pods(budget, pods, now_s)
        for pod in disrupted.overdue:
            message = f"Pod was expected by PDB {key_of(budget)} to be deleted but it wasn't"
            self._client.events.warning(COMPONENT, "Pod", pod, "NotDeleted", message, now_s)
        if disrupted.recheck_s is not None:
            self.queue.add_at(key_of(budget), disrupted.recheck_s)
        needed = expected(bounds_of(budget), len(pods), scale)
        return BudgetCount(counted_status(budget, pods, needed, disrupted.awaited, now_s), has_unmanaged)

    def _scaled_owner(self, pod: Object) -> Object | None:
        """The workload whose replicas the pod is one of: a ReplicaSet's Deployment rather than the ReplicaSet."""
        owner: Object | None = None
        reference = controller_reference(pod)
        while reference is not None and reference["kind"] in SCALED_KINDS:
            found = self._index.by_uid(reference["uid"])
            if found is None:
                break
            owner = found[1]
            reference = controller_reference(owner)
        return owner


def _scale(workload: Object) -> int:
    return int_of(workload["spec"], "replicas", 1)
