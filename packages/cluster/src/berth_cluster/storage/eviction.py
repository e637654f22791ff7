"""The `eviction` subresource of pods: a deletion that asks the pod's disruption budget first.

Pure functions over pods and budgets; the store writes what they return, in the order budget, pod, deletion.
"""

from collections.abc import Iterable

from berth_cluster.apimachinery.errors import StoreError, bad_request, forbidden
from berth_cluster.apimachinery.meta import Object, is_condition_true, key_of, with_condition
from berth_cluster.apimachinery.selection import compile_json
from berth_cluster.storage import metadata
from berth_workloads.disruption_budgets import NOT_ENOUGH, SEVERAL_BUDGETS, goes_anyway, unhealthy_may_go

MAX_DISRUPTED_PODS = 2000
RETRY_AFTER_S = 10


def delete_options(pod: Object, name: str, body: Object) -> Object:
    """The options with which an Eviction (`body`) deletes the pod called `name`; refused where they contradict it."""
    about = (body.get("metadata") or {}).get("name", name)
    if about != name:
        raise bad_request(f"name in URL does not match name in Eviction object: {name} != {about}")
    options = dict(body.get("deleteOptions") or {})
    preconditions = options.get("preconditions") or {}
    metadata.check_preconditions("pods", "", pod["metadata"], preconditions)
    # The resourceVersion has been compared here, before the condition DisruptionTarget gives the pod a newer one.
    options["preconditions"] = {name: value for name, value in preconditions.items() if name != "resourceVersion"}
    return options


def disruption_target(pod: Object, now: str) -> Object:
    """The pod with the condition that says why it goes, for those who decide whether its end counts as a failure."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    return {**pod, "status": with_condition(pod.get("status"), condition)}


def budget_to_spend(pod: Object, budgets: Iterable[Object]) -> Object | None:
    """The budget of the pod's namespace that this eviction has to spend from; None when it needs none.

    Refused with 429 when that budget allows no disruption now.
    """
    if _goes_anyway(pod):
        return None
    labels = pod["metadata"].get("labels") or {}
    chosen = [
        one for one in budgets if compile_json((one.get("spec") or {}).get("selector"), key_of(one)).matches(labels)
    ]
    if not chosen:
        return None
    if len(chosen) > 1:
        raise StoreError(500, "InternalError", f"This pod {SEVERAL_BUDGETS}.")
    budget = chosen[0]
    if not is_condition_true(pod, "Ready") and _unhealthy_may_go(budget):
        return None
    _check(budget)
    return budget


def spent(budget: Object, pod_name: str, now: str) -> Object:
    """The budget after one more disruption, with the pod noted as on its way out.

    The disruption controller counts a noted pod as unhealthy until it is gone (or has failed to go in time), so that no
    second eviction is allowed on the strength of a pod that is already leaving.
    """
    status = dict(budget.get("status") or {})
    status["disruptionsAllowed"] = status.get("disruptionsAllowed", 0) - 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod_name: now}
    return {**budget, "status": status}


def _goes_anyway(pod: Object) -> bool:
    """Whether the eviction disrupts nobody: the pod has ended, never ran, or is being deleted already."""
    phase = (pod.get("status") or {}).get("phase") or ""
    return goes_anyway(phase, is_being_deleted=bool(pod["metadata"].get("deletionTimestamp")))


def _unhealthy_may_go(budget: Object) -> bool:
    """Whether a pod that is not ready may go without asking the budget."""
    policy, status = (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy"), budget.get("status") or {}
    return unhealthy_may_go(policy, status.get("desiredHealthy", 0), status.get("currentHealthy", 0))


def _check(budget: Object) -> None:
    meta, status = budget["metadata"], budget.get("status") or {}
    name = meta["name"]
    if status.get("observedGeneration", 0) < meta.get("generation", 0):
        raise _too_many(f"The disruption budget {name} is still being processed by the server.")
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise forbidden("poddisruptionbudgets", "policy", name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or {}) > MAX_DISRUPTED_PODS:
        why = "DisruptedPods map too big - too many evictions not confirmed"
        raise forbidden("poddisruptionbudgets", "policy", name, why)
    if allowed == 0:
        needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        raise _too_many(NOT_ENOUGH.format(name, needs, has))


def _too_many(why: str) -> StoreError:
    details: Object = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
    if "still being processed" in why:
        details["retryAfterSeconds"] = RETRY_AFTER_S
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return StoreError(429, "TooManyRequests", message, details)
