"""The disruption controller: keeps the status of PodDisruptionBudgets, on which evictions and preemption go.

Driven by changes of budgets, pods and the workloads that own these, and by time (evictions that came to nothing).
It only counts; the `eviction` subresource spends what it allows. Upstream: pkg/controller/disruption, v1.36.
"""

from typing import NamedTuple

import msgspec

from berth.api.selectors import Selector
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.disruption_status import (
    counted_status,
    evictions,
    failed_status,
    need,
    needs_scale,
)
from berth_cluster.controllers.index import Change
from berth_cluster.controllers.meta import JsonObject, controller_reference, int_of, key_of, labels_of, uid_of
from berth_cluster.controllers.selectors import compile_json

COMPONENT = "controllermanager"
KIND = "PodDisruptionBudget"
SCALED_KINDS = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet")
UNMANAGED = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of "
    "the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please "
    'set ".spec.minAvailable" field of the PDB to an integer value.'
)


class Counted(NamedTuple):
    """A budget's new status, whether some of its pods have no controller, and why they could not be counted."""

    status: JsonObject
    has_unmanaged: bool = False
    fault: str = ""


class DisruptionController(KeyedController):
    """Counts for budgets. A queue key is a budget's."""

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

    def handle(self, change: Change) -> None:
        """Look at changed budgets, at those that select a changed pod, and at those whose workloads are scaled."""
        if change.kind == KIND:
            self._handle_budget(change)
        elif change.kind == "Pod":
            self._handle_pod(change)
        elif change.kind in SCALED_KINDS and (change.old is None or _scale(change.old) != _scale(change.obj)):
            for key in self._budgets.get(change.obj["metadata"]["namespace"], ()):
                self.queue.add(key)

    def _handle_budget(self, change: Change) -> None:
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

    def _handle_pod(self, change: Change) -> None:
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
        """Count for one budget."""
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

    def _count(self, budget: JsonObject, pods: list[JsonObject], now_s: float) -> Counted:
        scale, has_unmanaged = 0, False
        if needs_scale(budget):
            scales: dict[str, int] = {}
            for pod in pods:
                owner = self._scaled_owner(pod)
                if owner is not None:
                    scales[uid_of(owner)] = _scale(owner)
                elif controller_reference(pod) is None:
                    has_unmanaged = True
                else:
                    fault = f'found no controllers for pod "{pod["metadata"]["name"]}"'
                    return Counted(failed_status(budget, fault, now_s), fault=fault)
            scale = sum(scales.values())
        disrupted = evictions(budget, pods, now_s)
        for pod in disrupted.overdue:
            message = f"Pod was expected by PDB {key_of(budget)} to be deleted but it wasn't"
            self._client.events.warning(COMPONENT, "Pod", pod, "NotDeleted", message, now_s)
        if disrupted.recheck_s is not None:
            self.queue.add_at(key_of(budget), disrupted.recheck_s)
        needed = need(budget, len(pods), scale)
        return Counted(counted_status(budget, pods, needed, disrupted.awaited, now_s), has_unmanaged)

    def _scaled_owner(self, pod: JsonObject) -> JsonObject | None:
        """The workload whose replicas the pod is one of: a ReplicaSet's Deployment rather than the ReplicaSet."""
        owner: JsonObject | None = None
        reference = controller_reference(pod)
        while reference is not None and reference["kind"] in SCALED_KINDS:
            found = self._index.by_uid(reference["uid"])
            if found is None:
                break
            owner = found[1]
            reference = controller_reference(owner)
        return owner


def _scale(workload: JsonObject) -> int:
    return int_of(workload["spec"], "replicas", 1)
