"""What becomes of a Deployment's rollout, as its status says it: counts, conditions, and the deadline for progress.

Pure functions over Deployments and ReplicaSets as JSON. Called by the Deployment controller. Upstream:
pkg/controller/deployment (sync and progress), v1.36.
"""

from collections.abc import Sequence
from typing import NamedTuple

from berth_cluster.apimachinery.meta import (
    Object,
    find_condition,
    generation_of,
    int_of,
    new_condition,
    parse_time,
    set_condition,
)
from berth_cluster.controllers.workloads.rollout import (
    bounds_of,
    replicas_of,
    status_count,
    total_replicas,
    total_status,
)

TIMED_OUT = "ProgressDeadlineExceeded"
NEW_SET_AVAILABLE = "NewReplicaSetAvailable"
NO_DEADLINE_S = 2**31 - 1


class Progress(NamedTuple):
    """What a condition of a Deployment says, without its times."""

    status: str
    reason: str
    message: str


def deployment_status(
    deployment: Object,
    replica_sets: Sequence[Object],
    new: Object | None,
    progress: Progress | None,
    now_s: float,
) -> Object:
    """The whole status; `progress`, if given, is reported instead of what the counts say of the rollout."""
    status = _counts(deployment, replica_sets, new)
    available = status.get("availableReplicas", 0) >= bounds_of(deployment).least_available
    conditions = [_merged(deployment, "Available", _availability(available), now_s)]
    if _has_deadline(deployment):
        progress = progress or _progress(deployment, status, new, now_s)
        conditions.append(_merged(deployment, "Progressing", progress, now_s))
    if (failure := _replica_failure(replica_sets, new)) is not None:
        conditions.append(_merged(deployment, "ReplicaFailure", failure, now_s))
    return {**status, "conditions": list(filter(None, conditions))}


def is_complete(deployment: Object, status: Object) -> bool:
    """Whether all wanted pods are of the newest template and available, and none of an older one is left."""
    wanted = replicas_of(deployment)
    counts = (int_of(status, field) for field in ("updatedReplicas", "replicas", "availableReplicas"))
    observed = int_of(status, "observedGeneration") >= generation_of(deployment)
    return observed and all(count == wanted for count in counts)


def progress_deadline(deployment: Object, status: Object) -> float | None:
    """When a rollout that makes no progress has failed; None when it has ended either way or has no deadline."""
    condition = find_condition({"status": status}, "Progressing")
    if condition is None or not _has_deadline(deployment):
        return None
    if condition["reason"] in (TIMED_OUT, NEW_SET_AVAILABLE) or is_complete(deployment, status):
        return None
    return parse_time(condition.get("lastUpdateTime")) + int_of(deployment["spec"], "progressDeadlineSeconds", 600)


def _counts(deployment: Object, replica_sets: Sequence[Object], new: Object | None) -> Object:
    available = total_status(replica_sets, "availableReplicas")
    counts = {
        "replicas": total_status(replica_sets, "replicas"),
        "updatedReplicas": status_count(new, "replicas") if new is not None else 0,
        "readyReplicas": total_status(replica_sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, total_replicas(replica_sets) - available),
    }
    status: Object = {"observedGeneration": generation_of(deployment)}
    status |= {name: count for name, count in counts.items() if count}
    status["terminatingReplicas"] = total_status(replica_sets, "terminatingReplicas")
    collisions = (deployment.get("status") or {}).get("collisionCount")
    if collisions:
        status["collisionCount"] = collisions
    return status


def _has_deadline(deployment: Object) -> bool:
    return int_of(deployment["spec"], "progressDeadlineSeconds", 600) != NO_DEADLINE_S


def _availability(available: bool) -> Progress:
    if available:
        return Progress("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    return Progress("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")


def _progress(deployment: Object, status: Object, new: Object | None, now_s: float) -> Progress | None:
    """What the counts say of the rollout; None if nothing has changed."""
    known = find_condition(deployment, "Progressing")
    settled = status.get("replicas", 0) == status.get("updatedReplicas", 0)
    if known is not None and known["reason"] == NEW_SET_AVAILABLE and settled:
        return None
    subject = f'ReplicaSet "{new["metadata"]["name"]}"' if new is not None else _deployment_name(deployment)
    if is_complete(deployment, status):
        return Progress("True", NEW_SET_AVAILABLE, f"{subject} has successfully progressed.")
    if _has_progressed(deployment, status):
        return Progress("True", "ReplicaSetUpdated", f"{subject} is progressing.")
    deadline_s = progress_deadline(deployment, deployment.get("status") or {})
    paused = bool(deployment["spec"].get("paused"))
    if deadline_s is not None and now_s >= deadline_s and not paused:
        return Progress("False", TIMED_OUT, f"{subject} has timed out progressing.")
    return None


def _deployment_name(deployment: Object) -> str:
    return f'Deployment "{deployment["metadata"]["name"]}"'


def _has_progressed(deployment: Object, status: Object) -> bool:
    """Whether there are more new pods, fewer old ones, or more that are ready or available than before."""
    old_before = status_count(deployment, "replicas") - status_count(deployment, "updatedReplicas")
    old_now = status.get("replicas", 0) - status.get("updatedReplicas", 0)
    grown = any(
        status.get(field, 0) > status_count(deployment, field)
        for field in ("updatedReplicas", "readyReplicas", "availableReplicas")
    )
    return grown or old_now < old_before


def _replica_failure(replica_sets: Sequence[Object], new: Object | None) -> Progress | None:
    for replica_set in ([new] if new is not None else []) + list(replica_sets):
        condition = find_condition(replica_set, "ReplicaFailure")
        if condition is not None:
            return Progress(condition["status"], condition.get("reason", ""), condition.get("message", ""))
    return None


def _merged(deployment: Object, condition_type: str, news: Progress | None, now_s: float) -> Object | None:
    """The condition that reports `news`, if there are any; its times change only if something else does.

    Progress for the same reason as before still changes lastUpdateTime, from which the progress deadline counts.
    """
    known = find_condition(deployment, condition_type)
    if news is None:
        return known
    moves = condition_type == "Progressing" and news.reason == "ReplicaSetUpdated"
    if known is not None and (known["status"], known["reason"]) == (news.status, news.reason) and not moves:
        return known
    new = new_condition(condition_type, *news, now_s)
    new["lastUpdateTime"] = new["lastTransitionTime"]
    return set_condition([known], new)[0] if known is not None else new


def pause_news(deployment: Object) -> Progress | None:
    """The progress to report if the Deployment has just been paused or resumed."""
    known = find_condition(deployment, "Progressing")
    if known is not None and known["reason"] == TIMED_OUT:
        return None
    paused = bool(deployment["spec"].get("paused"))
    was_paused = known is not None and known["reason"] == "DeploymentPaused"
    if paused and not was_paused:
        return Progress("Unknown", "DeploymentPaused", "Deployment is paused")
    if not paused and was_paused:
        return Progress("Unknown", "DeploymentResumed", "Deployment is resumed")
    return None


def news_of_new_set(deployment: Object, new: Object, *, made: bool) -> Progress | None:
    """The progress to report if the newest ReplicaSet has just been made, or is there when nothing was reported yet."""
    name = new["metadata"]["name"]
    if made:
        return Progress("True", "NewReplicaSetCreated", f'Created new replica set "{name}"')
    if find_condition(deployment, "Progressing") is None and int_of(new["spec"], "replicas"):
        return Progress("True", "FoundNewReplicaSet", f'Found new replica set "{name}"')
    return None
