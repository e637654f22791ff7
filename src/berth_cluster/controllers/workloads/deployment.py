"""The Deployment controller: moves pods from old ReplicaSets to the one of the present template.

Driven by changes of Deployments, their ReplicaSets and (for the strategy Recreate) the end of old pods. Each `sync`
does the next step of the rollout; the changes of the ReplicaSets that follow from it cause the next one.
Upstream: pkg/controller/deployment.
"""

from collections.abc import Sequence
from typing import NamedTuple

from berth_cluster.apimachinery.meta import (
    Object,
    annotations_of,
    find_condition,
    format_time,
    generation_of,
    int_of,
    is_being_deleted,
    parse_time,
    uid_of,
    with_metadata,
)
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.pods import is_terminal
from berth_cluster.controllers.workloads.deployment_replica_sets import (
    COMPONENT,
    DeploymentReplicaSets,
    ReplicaSetManager,
)
from berth_cluster.controllers.workloads.rollout import (
    DESIRED_REPLICAS,
    REVISION,
    bounds_of,
    is_rolling,
    oldest_first,
    replicas_of,
    revision_of,
    sized,
    status_count,
    total_replicas,
    total_status,
)
from berth_cluster.controllers.workloads.workload import WorkloadController
from berth_workloads.deployments import (
    new_set_size,
    proportional_sizes,
    removable_old_pods,
    without_surplus,
    without_unavailable,
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
    known = {condition["type"]: condition for condition in (deployment.get("status") or {}).get("conditions") or []}
    available = status.get("availableReplicas", 0) >= bounds_of(deployment).least_available
    conditions = {"Available": _merged(known.get("Available"), "Available", _availability(available), now_s)}
    if _has_deadline(deployment):
        progress = progress or _progress(deployment, status, new, now_s)
        kept = known.get("Progressing")
        if progress is not None:
            conditions["Progressing"] = _merged(kept, "Progressing", progress, now_s)
        elif kept is not None:
            conditions["Progressing"] = kept
    failure = _replica_failure(replica_sets, new)
    if failure is not None:
        conditions["ReplicaFailure"] = _merged(known.get("ReplicaFailure"), "ReplicaFailure", failure, now_s)
    status["conditions"] = list(conditions.values())
    return status


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
    wanted = sum(replicas_of(one) for one in replica_sets)
    counts = {
        "replicas": total_status(replica_sets, "replicas"),
        "updatedReplicas": status_count(new, "replicas") if new is not None else 0,
        "readyReplicas": total_status(replica_sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, wanted - available),
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


def _merged(known: Object | None, condition_type: str, news: Progress, now_s: float) -> Object:
    """The condition that reports `news`; its times change only if something else does.

    Progress for the same reason as before still changes lastUpdateTime, from which the progress deadline counts.
    """
    now = format_time(now_s)
    moves = condition_type == "Progressing" and news.reason == "ReplicaSetUpdated"
    if known is not None and (known["status"], known["reason"]) == (news.status, news.reason) and not moves:
        return known
    same_status = known is not None and known["status"] == news.status
    return {
        "type": condition_type,
        "status": news.status,
        "lastUpdateTime": now,
        "lastTransitionTime": known["lastTransitionTime"] if known is not None and same_status else now,
        "reason": news.reason,
        "message": news.message,
    }


class DeploymentController(WorkloadController):
    """ReplicaSets for Deployments."""

    __slots__ = ("_replica_sets",)

    name = COMPONENT
    kind = "Deployment"
    child = "ReplicaSet"
    also_hears = ("Pod",)

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._replica_sets = ReplicaSetManager(client)

    def handle(self, change: ObjectChange) -> None:
        """Look at changed Deployments, at the owners of changed ReplicaSets, and for Recreate at those of pods."""
        super().handle(change)
        if change.kind == "Pod" and change.type == "DELETED":
            replica_set = self.index.controller_of(change.obj)
            deployment = self.index.controller_of(replica_set) if replica_set is not None else None
            if deployment is not None and deployment["kind"] == self.kind and not is_rolling(deployment):
                self.look_at(deployment)

    def sync(self, obj: Object, now_s: float) -> None:
        """Do the next step for one Deployment."""
        if is_being_deleted(obj):
            self._write_status(obj, None, now_s)
            return
        self.claim(obj, self.owned(obj))
        news = _pause_news(obj)
        if obj["spec"].get("paused"):
            self._scale(obj, now_s)
            self._write_status(obj, news, now_s)
            return
        if self._is_scaled(obj):
            self._scale(obj, now_s)
        elif is_rolling(obj):
            news = self._roll(obj, now_s) or news
        else:
            news = self._recreate(obj, now_s) or news
        self._write_status(self._with_revision(obj), news, now_s)

    def _is_scaled(self, deployment: Object) -> bool:
        """Whether the wanted number of pods has changed since the active ReplicaSets were last sized."""
        wanted = str(replicas_of(deployment))
        active = self._replica_sets.find(deployment).active
        return any(annotations_of(one).get(DESIRED_REPLICAS, wanted) != wanted for one in active)

    def _scale(self, deployment: Object, now_s: float) -> None:
        """Size the ReplicaSets for a changed number of pods, each in proportion, without going on with the rollout."""
        replica_sets = self._replica_sets.find(deployment)
        active = replica_sets.active
        if len(active) <= 1:
            latest = active[0] if active else replica_sets.new or max(replica_sets.old, key=revision_of, default=None)
            if latest is not None:
                self._replica_sets.resize(deployment, latest, replicas_of(deployment), now_s)
        elif replica_sets.new is not None and _is_saturated(deployment, replica_sets.new):
            self._empty_old_sets(deployment, now_s)
        elif is_rolling(deployment):
            active = oldest_first(active)
            before = status_count(deployment, "replicas")
            facts = [sized(one)._replace(age=age) for age, one in enumerate(active)]
            for one, size in zip(active, proportional_sizes(bounds_of(deployment), before, facts), strict=True):
                self._replica_sets.resize(deployment, one, size, now_s)

    def _roll(self, deployment: Object, now_s: float) -> Progress | None:
        """RollingUpdate: more new pods within maxSurge, or else fewer old ones within maxUnavailable."""
        made = self._replica_sets.ensure_new(deployment, now_s)
        replica_sets = self._replica_sets.find(deployment)
        new = replica_sets.new
        if new is None:
            return None
        size = new_set_size(bounds_of(deployment), total_replicas(replica_sets.all), replicas_of(new))
        if not self._replica_sets.resize(deployment, new, min(size, replicas_of(deployment)), now_s):
            self._shrink_old(deployment, replica_sets, now_s)
        self._tidy(deployment)
        return _news_of_new_set(deployment, new, made=made)

    def _shrink_old(self, deployment: Object, replica_sets: DeploymentReplicaSets, now_s: float) -> None:
        new = replica_sets.new
        if new is None or not any(replicas_of(one) for one in replica_sets.old):
            return
        budget = removable_old_pods(bounds_of(deployment), total_replicas(replica_sets.all), sized(new))
        if budget <= 0:
            return
        old = oldest_first(filter(replicas_of, replica_sets.old))
        for one, size in zip(old, without_unavailable(map(sized, old), budget), strict=True):
            self._replica_sets.resize(deployment, one, size, now_s)
        self._shrink_available(deployment, now_s)

    def _shrink_available(self, deployment: Object, now_s: float) -> None:
        """Take away available old pods as long as enough pods stay available."""
        replica_sets = self._replica_sets.find(deployment)
        available = total_status(replica_sets.all, "availableReplicas")
        old = oldest_first(replica_sets.old)
        sizes = without_surplus(map(replicas_of, old), available, bounds_of(deployment))
        for one, size in zip(old, sizes, strict=True):
            if size < replicas_of(one):
                self._replica_sets.resize(deployment, one, size, now_s)

    def _recreate(self, deployment: Object, now_s: float) -> Progress | None:
        """Recreate: once all old pods have ended, the new ones are created."""
        if self._empty_old_sets(deployment, now_s) or self._old_pods_left(deployment):
            return None
        made = self._replica_sets.ensure_new(deployment, now_s)
        new = self._replica_sets.find(deployment).new
        if new is None:
            return None
        self._replica_sets.resize(deployment, new, replicas_of(deployment), now_s)
        self._tidy(deployment)
        return _news_of_new_set(deployment, new, made=made)

    def _empty_old_sets(self, deployment: Object, now_s: float) -> bool:
        old = [one for one in self._replica_sets.find(deployment).old if replicas_of(one)]
        emptied = [self._replica_sets.resize(deployment, one, 0, now_s) for one in old]
        return any(emptied)

    def _old_pods_left(self, deployment: Object) -> bool:
        replica_sets = self._replica_sets.find(deployment)
        pods = (pod for one in replica_sets.old for pod in self.index.controlled(uid_of(one), "Pod"))
        return any(not is_terminal(pod) for pod in pods)

    def _tidy(self, deployment: Object) -> None:
        if is_complete(deployment, deployment.get("status") or {}):
            self._replica_sets.drop_history(deployment)

    # --- status ----------------------------------------------------------------------------------------------

    def _with_revision(self, deployment: Object) -> Object:
        """Have the Deployment carry the revision of its newest ReplicaSet; returns it as it is then."""
        new = self._replica_sets.find(deployment).new
        annotations = annotations_of(deployment)
        if new is None or annotations.get(REVISION) == (revision := annotations_of(new).get(REVISION, "1")):
            return deployment
        return self.client.update(self.kind, with_metadata(deployment, annotations={**annotations, REVISION: revision}))

    def _write_status(self, deployment: Object, news: Progress | None, now_s: float) -> None:
        replica_sets = self._replica_sets.find(deployment)
        status = deployment_status(deployment, replica_sets.all, replica_sets.new, news, now_s)
        self.client.set_status(deployment, status)
        deadline_s = progress_deadline(deployment, status)
        if deadline_s is not None:
            self.look_at(deployment, deadline_s)


def _is_saturated(deployment: Object, new: Object) -> bool:
    wanted = replicas_of(deployment)
    sized = annotations_of(new).get(DESIRED_REPLICAS) == str(wanted)
    return replicas_of(new) == wanted and sized and status_count(new, "availableReplicas") == wanted


def _pause_news(deployment: Object) -> Progress | None:
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


def _news_of_new_set(deployment: Object, new: Object, *, made: bool) -> Progress | None:
    name = new["metadata"]["name"]
    if made:
        return Progress("True", "NewReplicaSetCreated", f'Created new replica set "{name}"')
    if find_condition(deployment, "Progressing") is None and int_of(new["spec"], "replicas"):
        return Progress("True", "FoundNewReplicaSet", f'Found new replica set "{name}"')
    return None
