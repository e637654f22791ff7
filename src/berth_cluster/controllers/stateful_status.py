"""A StatefulSet's status: its pods counted by readiness and revision, and whether a rollout is over.

A pure function over a StatefulSet and its pods as JSON. Called by the StatefulSet controller. Upstream:
pkg/controller/statefulset (updateStatefulSet, completeRollingUpdate), v1.36.
"""

from collections.abc import Sequence

from berth_cluster.controllers.meta import JsonObject, int_of, is_being_deleted
from berth_cluster.controllers.stateful_pods import available_at, is_ready, revision_of


def stateful_set_status(
    stateful_set: JsonObject, pods: Sequence[JsonObject], revisions: tuple[str, str], now_s: float
) -> JsonObject:
    """The status for these pods; `revisions` are the names of the present one and of the one to come."""
    current, update = revisions
    staying = [pod for pod in pods if not is_being_deleted(pod)]
    before = stateful_set.get("status") or {}
    status: JsonObject = {
        "observedGeneration": int_of(stateful_set["metadata"], "generation"),
        "replicas": len(pods),
        "readyReplicas": sum(is_ready(pod) for pod in pods),
        "availableReplicas": sum(available_at(stateful_set, pod) <= now_s for pod in pods),
        "currentReplicas": sum(revision_of(pod) == current for pod in staying),
        "updatedReplicas": sum(revision_of(pod) == update for pod in staying),
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": int_of(before, "collisionCount"),
    }
    is_rolling = (stateful_set["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate") == "RollingUpdate"
    if is_rolling and status["updatedReplicas"] == status["replicas"] == status["readyReplicas"]:
        status |= {"currentReplicas": status["updatedReplicas"], "currentRevision": update}
    optional = ("readyReplicas", "currentReplicas", "updatedReplicas")
    return {name: count for name, count in status.items() if count or name not in optional} | _kept(before)


def _kept(before: JsonObject) -> JsonObject:
    return {"conditions": before["conditions"]} if before.get("conditions") else {}
