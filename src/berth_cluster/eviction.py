"""The `eviction` subresource of pods: a deletion that asks the pod's disruption budget first."""

from typing import TYPE_CHECKING, Any

import msgspec

from berth.api.meta import LabelSelector
from berth.api.selectors import SelectorError, compile_selector
from berth_cluster import metadata
from berth_cluster.errors import StoreError, bad_request, forbidden
from berth_cluster.resource_types import DISRUPTION_BUDGETS, PODS
from berth_cluster.watch import Object

if TYPE_CHECKING:
    from berth_cluster.store import Store

MAX_DISRUPTED_PODS = 2000
RETRY_AFTER_S = 10


def evict(store: "Store", namespace: str, name: str, body: Object, *, dry_run: bool = False) -> None:
    """Delete a pod as an Eviction asks, or refuse with 429 when its disruption budget has nothing left."""
    pod = store.entry(PODS, namespace, name).obj
    about = (body.get("metadata") or {}).get("name", name)
    if about != name:
        raise bad_request(f"name in URL does not match name in Eviction object: {name} != {about}")
    options = dict(body.get("deleteOptions") or {})
    metadata.check_preconditions(PODS, pod["metadata"], options.get("preconditions") or {})
    if not _goes_anyway(pod):
        _spend_budget(store, pod, dry_run=dry_run)
    _note_disruption(store, pod, dry_run=dry_run)
    # Asked for above; the pod has just been changed here.
    held = {name: value for name, value in (options.get("preconditions") or {}).items() if name != "resourceVersion"}
    options["preconditions"] = held
    store.delete(PODS, namespace, name, options, dry_run=dry_run)


def _note_disruption(store: "Store", pod: Object, *, dry_run: bool) -> None:
    """Say in the pod's status why it goes, for those who decide whether its end counts as a failure."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastTransitionTime": metadata.timestamp(store.clock()),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    status, meta = pod.get("status") or {}, pod["metadata"]
    others = [known for known in status.get("conditions") or [] if known.get("type") != "DisruptionTarget"]
    noted = {**pod, "status": {**status, "conditions": [*others, condition]}}
    store.update(PODS, meta["namespace"], meta["name"], noted, "status", dry_run=dry_run)


def _goes_anyway(pod: Object) -> bool:
    """A pod that has ended, never ran, or is being deleted disrupts nobody."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(pod["metadata"].get("deletionTimestamp"))


def _spend_budget(store: "Store", pod: Object, *, dry_run: bool) -> None:
    budgets = _budgets_of(store, pod)
    if not budgets:
        return
    if len(budgets) > 1:
        raise StoreError(
            500,
            "InternalError",
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        )
    budget = budgets[0]
    if not _is_ready(pod) and _unhealthy_may_go(budget):
        return
    _check(budget)
    spent = _after_one_disruption(store, budget, pod["metadata"]["name"])
    meta = budget["metadata"]
    store.update(DISRUPTION_BUDGETS, meta["namespace"], meta["name"], spent, "status", dry_run=dry_run)


def _budgets_of(store: "Store", pod: Object) -> list[Object]:
    meta = pod["metadata"]
    labels = meta.get("labels") or {}
    return [
        budget
        for budget in store.list(DISRUPTION_BUDGETS, meta["namespace"])[0]
        if _selects((budget.get("spec") or {}).get("selector"), labels)
    ]


def _selects(selector: Any, labels: dict[str, str]) -> bool:
    if selector is None:
        return False
    try:
        return compile_selector(msgspec.convert(selector, LabelSelector)).matches(labels)
    except (SelectorError, msgspec.ValidationError):
        return False


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(known.get("type") == "Ready" and known.get("status") == "True" for known in conditions)


def _unhealthy_may_go(budget: Object) -> bool:
    """Pods that are not ready may go always, or as long as the others keep the budget."""
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy", 0)
    return bool(desired > 0 and status.get("currentHealthy", 0) >= desired)


def _check(budget: Object) -> None:
    meta, status = budget["metadata"], budget.get("status") or {}
    name = meta["name"]
    if status.get("observedGeneration", 0) < meta.get("generation", 0):
        raise _too_many(f"The disruption budget {name} is still being processed by the server.")
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise forbidden("poddisruptionbudgets", "policy", name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or {}) > MAX_DISRUPTED_PODS:
        raise forbidden(
            "poddisruptionbudgets", "policy", name, "DisruptedPods map too big - too many evictions not confirmed"
        )
    if allowed == 0:
        needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        raise _too_many(f"The disruption budget {name} needs {needs} healthy pods and has {has} currently")


def _too_many(why: str) -> StoreError:
    details: Object = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
    if "still being processed" in why:
        details["retryAfterSeconds"] = RETRY_AFTER_S
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return StoreError(429, "TooManyRequests", message, details)


def _after_one_disruption(store: "Store", budget: Object, pod_name: str) -> Object:
    status = dict(budget.get("status") or {})
    status["disruptionsAllowed"] = status.get("disruptionsAllowed", 0) - 1
    disrupted = dict(status.get("disruptedPods") or {})
    disrupted[pod_name] = metadata.timestamp(store.clock())
    status["disruptedPods"] = disrupted
    return {**budget, "status": status}
