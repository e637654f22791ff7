"""The disruption controller: keeps the status of PodDisruptionBudgets, by which evictions and preemption decide.

Driven by changes of budgets, pods and the workloads that own them, and by time (evictions after which the pod stayed).
The controller counts how many disruptions are allowed; the `eviction` subresource spends them. Upstream:
pkg/controller/disruption, v1.36.
"""

from collections.abc import Sequence

import msgspec

from berth_cluster.apimachinery.meta import (
    Object,
    controller_reference,
    generation_of,
    int_of,
    is_being_deleted,
    key_of,
    labels_of,
    new_condition,
    parse_time,
    uid_of,
    with_condition,
)
from berth_cluster.apimachinery.selection import compile_json
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.pods import ready_since
from berth_cluster.controllers.selecting import SelectorBook
from berth_workloads.disruption_budgets import Bounds, Expected, disruptions_allowed, expected

KIND = "PodDisruptionBudget"
SCALED_KINDS = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet")
UNMANAGED = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of "
    "the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please "
    'set ".spec.minAvailable" field of the PDB to an integer value.'
)
DELETION_WAIT_S = 120.0
"""For this long a pod whose eviction was allowed counts as on its way out; after that, as there to stay."""


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
        "observedGeneration": generation_of(budget),
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": needed.healthy,
        "expectedPods": needed.pods,
    }
    if awaited:
        status["disruptedPods"] = awaited
    return _said(budget, status, "SufficientPods" if allowed else "InsufficientPods", "", now_s)


def _is_healthy(pod: Object) -> bool:
    return ready_since(pod) is not None and not is_being_deleted(pod)


def _said(budget: Object, status: Object, reason: str, message: str, now_s: float) -> Object:
    """The status with the condition that says whether something may be disrupted."""
    condition = new_condition("DisruptionAllowed", status["disruptionsAllowed"] > 0, reason, message, now_s)
    known = {**status, "conditions": (budget.get("status") or {}).get("conditions") or []}
    return with_condition(known, condition | {"observedGeneration": generation_of(budget)})


class UncountableError(Exception):
    """A pod of which nobody can say how many there should be."""


class DisruptionController(KeyedController):
    """Keeps the status of budgets."""

    __slots__ = ("_members", "_selectors")

    name = "disruption-controller"
    component = "controllermanager"
    kinds = frozenset({KIND, "Pod", *SCALED_KINDS})

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._selectors = SelectorBook()
        self._members: dict[str, dict[str, None]] = {}  # the pods that a budget selects

    # --- changes ---------------------------------------------------------------------------------------------

    def handle(self, change: ObjectChange) -> None:
        """Look at changed budgets, at those that select a changed pod, and at those whose workloads are scaled."""
        if change.kind == KIND:
            self._handle_budget(change)
        elif change.kind == "Pod":
            self._handle_pod(change)
        elif change.old is None or _scale(change.old) != _scale(change.obj):
            for key in self._selectors.keys(change.obj["metadata"]["namespace"]):
                self.look_up(KIND, key)

    def _handle_budget(self, change: ObjectChange) -> None:
        budget, key = change.obj, key_of(change.obj)
        if change.type == "DELETED":
            self._selectors.drop(budget)
            self._members.pop(key, None)
            return
        self.look_at(budget)
        if change.old is None or change.old["spec"] != budget["spec"] or key not in self._members:
            selector = compile_json(budget["spec"].get("selector"), budget["metadata"]["name"])
            self._selectors.put(budget, selector)
            pods = self.index.in_namespace("Pod", budget["metadata"]["namespace"])
            self._members[key] = {key_of(pod): None for pod in pods if selector.matches(labels_of(pod))}

    def _handle_pod(self, change: ObjectChange) -> None:
        for key in self._selectors.concerned(change):
            if change.type != "DELETED" and key in self._selectors.selecting(change.obj):
                self._members[key][key_of(change.obj)] = None
            else:
                self._members[key].pop(key_of(change.obj), None)
            self.look_up(KIND, key)

    # --- one budget ------------------------------------------------------------------------------------------

    def sync(self, obj: Object, now_s: float) -> None:
        """Bring the status of one budget up to date."""
        found = (self.index.get("Pod", pod_key) for pod_key in self._members.get(key_of(obj), ()))
        pods, fault = [pod for pod in found if pod is not None], ""
        try:
            status = self._count(obj, pods, now_s)
        except UncountableError as error:  # nothing may be disrupted
            fault = str(error)
            status = {**(obj.get("status") or {}), "disruptionsAllowed": 0}
            status = _said(obj, status, "SyncFailed", fault, now_s)
        if self.client.set_status(obj, status) is obj:
            return
        if fault:
            message = f"Failed to calculate the number of expected pods: {fault}"
            self.tell(obj, "CalculateExpectedPodCountFailed", message, now_s, warns=True)
        elif not pods:
            self.tell(obj, "NoPods", "No matching pods found", now_s)
        elif bounds_of(obj).need_scale and any(controller_reference(pod) is None for pod in pods):
            selector = msgspec.json.encode(obj["spec"].get("selector")).decode()
            self.tell(obj, "UnmanagedPods", UNMANAGED.format(selector), now_s, warns=True)

    def _count(self, budget: Object, pods: list[Object], now_s: float) -> Object:
        """The status for these pods. Raises `UncountableError`."""
        scale = sum(self._scales(pods).values()) if bounds_of(budget).need_scale else 0
        awaited = self._awaited(budget, pods, now_s)
        return counted_status(budget, pods, expected(bounds_of(budget), len(pods), scale), awaited, now_s)

    def _awaited(self, budget: Object, pods: list[Object], now_s: float) -> dict[str, str]:
        """The pods whose eviction was allowed and which are expected to go (name -> time of the eviction)."""
        noted, awaited = (budget.get("status") or {}).get("disruptedPods") or {}, {}
        for pod in pods:
            name = pod["metadata"]["name"]
            if name not in noted or is_being_deleted(pod):
                continue
            end_s = parse_time(noted[name]) + DELETION_WAIT_S
            if end_s > now_s:
                awaited[name] = noted[name]
                self.look_at(budget, end_s)
            else:
                message = f"Pod was expected by PDB {key_of(budget)} to be deleted but it wasn't"
                self.tell(pod, "NotDeleted", message, now_s, warns=True)
        return awaited

    def _scales(self, pods: list[Object]) -> dict[str, int]:
        """How many pods the workloads ask for that these are of, by uid; pods without a controller are left out."""
        scales: dict[str, int] = {}
        for pod in pods:
            owner = self._scaled_owner(pod)
            if owner is not None:
                scales[uid_of(owner)] = _scale(owner)
            elif controller_reference(pod) is not None:
                raise UncountableError(f'found no controllers for pod "{pod["metadata"]["name"]}"')
        return scales

    def _scaled_owner(self, pod: Object) -> Object | None:
        """The workload whose replicas the pod is one of: a ReplicaSet's Deployment rather than the ReplicaSet."""
        found, owner = self.index.controller_of(pod), None
        while found is not None and found["kind"] in SCALED_KINDS:
            found, owner = self.index.controller_of(found), found
        return owner


def _scale(workload: Object) -> int:
    return int_of(workload["spec"], "replicas", 1)
