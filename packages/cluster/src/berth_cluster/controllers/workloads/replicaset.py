"""The controllers of ReplicaSets and ReplicationControllers: as many pods as asked for, and a status that counts them.

The two kinds differ in nothing but their selectors, which `selector_of` reads.

Driven by changes of ReplicaSets and their pods. Creates and deletes pods, adopts those without a controller that match
the selector, and releases those that no longer match it. Upstream: pkg/controller/replicaset. No expectations are kept,
since the index is never behind the store (see `controllers.index`).
"""

import itertools
from operator import add, sub
from typing import NamedTuple

from berth.api.selectors import Selector
from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.meta import (
    Object,
    controller_reference,
    find_condition,
    generation_of,
    int_of,
    is_being_deleted,
    key_of,
    labels_of,
    new_condition,
    uid_of,
)
from berth_cluster.apimachinery.selection import selector_of
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.pods import (
    available_at,
    first_to_go,
    is_active,
    is_terminating,
    pod_from_template,
    ready_since,
)
from berth_cluster.controllers.workloads.workload import WorkloadController
from berth_workloads.replica_sets import missing_pods


class PodCounts(NamedTuple):
    """What one pod, or all pods of a ReplicaSet, come to."""

    active: int = 0
    ready: int = 0
    labelled: int = 0
    terminating: int = 0


_NOTHING = PodCounts()


class ReplicaCounts:
    """How many pods of one ReplicaSet are active, ready and fully labelled, as long as its spec stays the same.

    The counts are kept up to date pod by pod. The status of a ReplicaSet of ten thousand pods changes with nearly every
    pod that starts, and to count them all each time would take quadratic time.
    """

    __slots__ = ("_known", "_selector", "_template_labels", "generation", "mismatched", "total")

    def __init__(self, replica_set: Object) -> None:
        self.generation = generation_of(replica_set)
        self.total = _NOTHING
        self.mismatched: dict[str, None] = {}
        """Keys of own pods that the selector no longer matches."""
        self._known: dict[str, PodCounts] = {}
        self._selector: Selector = selector_of(replica_set)
        template = replica_set["spec"]["template"].get("metadata") or {}
        self._template_labels: dict[str, str] = template.get("labels") or {}

    def put(self, key: str, pod: Object) -> None:
        """Count a pod as it is now."""
        self.drop(key)
        labels = labels_of(pod)
        if self._selector.matches(labels):
            active = is_active(pod)
            ready = active and ready_since(pod) is not None
            labelled = active and self._template_labels.items() <= labels.items()
            counts = self._known[key] = PodCounts(active, ready, labelled, is_terminating(pod))
            self.total = PodCounts(*map(add, self.total, counts))
        else:
            self.mismatched[key] = None

    def drop(self, key: str) -> None:
        """A pod is gone, or belongs to somebody else."""
        self.mismatched.pop(key, None)
        self.total = PodCounts(*map(sub, self.total, self._known.pop(key, _NOTHING)))


class ReplicaSetController(WorkloadController):
    """Pods for ReplicaSets."""

    __slots__ = ("_counts",)

    name = "replicaset-controller"
    kind = "ReplicaSet"

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._counts: dict[str, ReplicaCounts] = {}  # by uid of the ReplicaSet

    def handle(self, change: ObjectChange) -> None:
        """Count changed pods, and look at their ReplicaSets."""
        super().handle(change)
        if change.kind == "Pod" and self._counts:
            pod_key, is_there = key_of(change.obj), change.type != "DELETED"
            uid, before = _controller_uid(change.obj), _controller_uid(change.old)
            if before != uid and before in self._counts:
                self._counts[before].drop(pod_key)
            if uid in self._counts:
                self._counts[uid].put(pod_key, change.obj) if is_there else self._counts[uid].drop(pod_key)

    def forget(self, workload: Object) -> None:
        """Drop the counts of a ReplicaSet that is gone."""
        self._counts.pop(uid_of(workload), None)

    def sync(self, obj: Object, now_s: float) -> None:
        """Bring one ReplicaSet's pods and status up to date."""
        failure: StoreError | None = None
        counts = self._counts_of(obj)
        if not is_being_deleted(obj):
            mismatched = (self.index.get("Pod", pod_key) for pod_key in list(counts.mismatched))
            self.claim(obj, filter(None, mismatched), is_active)
            try:
                self._scale(obj, counts, now_s)
            except StoreError as error:
                failure = error
        available = self._count_available(obj, now_s) if int_of(obj["spec"], "minReadySeconds") else counts.total.ready
        self.client.set_status(obj, replica_set_status(obj, counts, available, failure, now_s))
        if failure is not None:
            raise failure

    def _counts_of(self, replica_set: Object) -> ReplicaCounts:
        """The counts of a ReplicaSet, counted anew when it or its spec is new."""
        uid = uid_of(replica_set)
        counts = self._counts.get(uid)
        if counts is None or counts.generation != generation_of(replica_set):
            counts = self._counts[uid] = ReplicaCounts(replica_set)
            for pod in self.owned(replica_set):
                counts.put(key_of(pod), pod)
        return counts

    def _scale(self, replica_set: Object, counts: ReplicaCounts, now_s: float) -> None:
        wanted, active = int_of(replica_set["spec"], "replicas", 1), counts.total.active
        missing = missing_pods(wanted, active)
        if missing > 0:
            pod = pod_from_template(replica_set, replica_set["spec"]["template"])
            self.create_children(replica_set, itertools.repeat(pod, missing), now_s)
        elif missing < 0:
            candidates = [pod for pod in self.owned(replica_set) if is_active(pod)]
            self.delete_children(replica_set, first_to_go(candidates, self._related_pods(replica_set), -missing), now_s)
        if active + missing != wanted:
            self.look_at(replica_set)

    def _related_pods(self, replica_set: Object) -> list[Object]:
        """Pods of all ReplicaSets with the same owner (a Deployment's old and new ones)."""
        owner = _controller_uid(replica_set)
        siblings = self.index.controlled(owner, self.kind) if owner else [replica_set]
        return [pod for sibling in siblings for pod in self.owned(sibling)]

    def _count_available(self, replica_set: Object, now_s: float) -> int:
        """Pods that have been ready for `minReadySeconds`; comes back when the next one will have been."""
        due_s = [available_at(replica_set, pod) for pod in self.owned(replica_set) if is_active(pod)]
        next_s = min((one for one in due_s if one > now_s), default=float("inf"))
        if next_s < float("inf"):
            self.look_at(replica_set, next_s)
        return sum(one <= now_s for one in due_s)


class ReplicationControllerController(ReplicaSetController):
    """Pods for ReplicationControllers."""

    __slots__ = ()

    name = "replicationcontroller-controller"
    kind = "ReplicationController"


def _controller_uid(obj: Object | None) -> str:
    reference = controller_reference(obj) if obj is not None else None
    return reference["uid"] if reference is not None else ""


def replica_set_status(
    replica_set: Object, counts: ReplicaCounts, available: int, failure: StoreError | None, now_s: float
) -> Object:
    """The status for these counts."""
    optional = {
        "fullyLabeledReplicas": counts.total.labelled,
        "readyReplicas": counts.total.ready,
        "availableReplicas": available,
    }
    status: Object = {"replicas": counts.total.active, "terminatingReplicas": counts.total.terminating}
    status |= {name: count for name, count in optional.items() if count}
    status["observedGeneration"] = generation_of(replica_set)
    conditions = (replica_set.get("status") or {}).get("conditions") or []
    if failure is None:
        conditions = [condition for condition in conditions if condition["type"] != "ReplicaFailure"]
    elif find_condition(replica_set, "ReplicaFailure") is None:
        # A known one stays: its message may name another pod each time, which is not worth a write.
        conditions = [*conditions, new_condition("ReplicaFailure", True, "FailedCreate", str(failure), now_s)]
    return status | ({"conditions": conditions} if conditions else {})
