"""The controllers of ReplicaSets and ReplicationControllers: as many pods as asked for, and a status that counts them.

The two kinds differ in nothing but their selectors, which `selector_of` reads.

Driven by changes of ReplicaSets and their pods. Creates and deletes pods, adopts those without a controller that match
the selector, and releases those that no longer match it. Upstream: pkg/controller/replicaset. No expectations are kept,
since the index is never behind the store (see `controllers.index`).
"""

import itertools
from typing import NamedTuple

from berth.api.selectors import Selector
from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.meta import (
    Object,
    controller_reference,
    format_time,
    int_of,
    is_being_deleted,
    key_of,
    labels_of,
    uid_of,
)
from berth_cluster.apimachinery.resource_types import resource_of
from berth_cluster.apimachinery.selection import selector_of
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.controller_refs import ControllerRefManager
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.pod_control import PodControl
from berth_cluster.controllers.pods import first_to_go, is_active, is_terminating, pod_from_template, ready_since
from berth_workloads.replica_sets import missing_pods


class _Facts(NamedTuple):
    """What one pod adds to the counts."""

    active: bool
    ready: bool
    labelled: bool
    terminating: bool


_NOTHING = _Facts(False, False, False, False)


class ReplicaCounts:
    """How many pods of one ReplicaSet are active, ready and fully labelled, as long as its spec stays the same.

    The counts are kept up to date pod by pod. The status of a ReplicaSet of ten thousand pods changes with nearly every
    pod that starts, and to count them all each time would take quadratic time.
    """

    __slots__ = (
        "_facts", "_selector", "_template_labels", "active", "generation", "labelled", "mismatched", "ready",
        "terminating",
    )  # fmt: skip

    def __init__(self, replica_set: Object) -> None:
        self.generation = int_of(replica_set["metadata"], "generation")
        self.active = 0
        self.ready = 0
        self.labelled = 0
        self.terminating = 0
        self.mismatched: dict[str, None] = {}
        """Keys of own pods that the selector no longer matches."""
        self._facts: dict[str, _Facts] = {}
        self._selector: Selector = selector_of(replica_set)
        template = replica_set["spec"]["template"].get("metadata") or {}
        self._template_labels: dict[str, str] = template.get("labels") or {}

    def put(self, key: str, pod: Object) -> None:
        """Count a pod as it is now."""
        labels = labels_of(pod)
        if self._selector.matches(labels):
            self.mismatched.pop(key, None)
            active = is_active(pod)
            ready = active and ready_since(pod) is not None
            labelled = active and self._template_labels.items() <= labels.items()
            self._count(key, _Facts(active, ready, labelled, is_terminating(pod)))
        else:
            self.mismatched[key] = None
            self._count(key, _NOTHING)

    def drop(self, key: str) -> None:
        """A pod is gone, or belongs to somebody else."""
        self.mismatched.pop(key, None)
        self._count(key, _NOTHING)
        self._facts.pop(key, None)

    def _count(self, key: str, facts: _Facts) -> None:
        before = self._facts.get(key, _NOTHING)
        self.active += facts.active - before.active
        self.ready += facts.ready - before.ready
        self.labelled += facts.labelled - before.labelled
        self.terminating += facts.terminating - before.terminating
        self._facts[key] = facts


class ReplicaSetController(KeyedController):
    """Pods for ReplicaSets."""

    __slots__ = ("_client", "_counts", "_index", "_pods", "_refs")

    name = "replicaset-controller"
    kind = "ReplicaSet"
    kinds = frozenset({kind, "Pod"})

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self._index = client.index
        self._counts: dict[str, ReplicaCounts] = {}  # by uid of the ReplicaSet
        self._refs = ControllerRefManager(client, resource_of(self.kind).api_version, self.kind)
        self._pods = PodControl(client, self.name, self.kind)

    # --- changes ---------------------------------------------------------------------------------------------

    def handle(self, change: ObjectChange) -> None:
        """Look at changed ReplicaSets, at the owners of changed pods, and at those that might adopt an orphaned pod."""
        for key in self._refs.note(change):
            self.queue.add(key)
        if change.kind == self.kind:
            if change.type == "DELETED":
                self._counts.pop(uid_of(change.obj), None)
            else:
                self.queue.add(key_of(change.obj))
        elif self._index.all_of(self.kind):
            self._handle_pod(change)

    def _handle_pod(self, change: ObjectChange) -> None:
        owner = controller_reference(change.obj)
        before = controller_reference(change.old) if change.old is not None else None
        if before is not None and (owner is None or before["uid"] != owner["uid"]):
            self._tell_owner(before, change.obj, gone=True)
        if owner is not None:
            self._tell_owner(owner, change.obj, gone=change.type == "DELETED")

    def _tell_owner(self, owner: Object, pod: Object, *, gone: bool) -> None:
        if owner["kind"] != self.kind:
            return
        counts = self._counts.get(owner["uid"])
        if counts is not None and gone:
            counts.drop(key_of(pod))
        elif counts is not None:
            counts.put(key_of(pod), pod)
        self.queue.add(f"{pod['metadata']['namespace']}/{owner['name']}")

    # --- one ReplicaSet --------------------------------------------------------------------------------------

    def sync(self, key: str, now_s: float) -> None:
        """Bring one ReplicaSet's pods and status up to date."""
        replica_set = self._index.get(self.kind, key)
        if replica_set is None:
            return
        failure: StoreError | None = None
        counts = self._counts_of(replica_set)
        if not is_being_deleted(replica_set):
            mismatched = (self._index.get("Pod", pod_key) for pod_key in list(counts.mismatched))
            self._refs.claim(replica_set, filter(None, mismatched), is_active)
            try:
                self._scale(replica_set, counts, now_s)
            except StoreError as error:
                failure = error
        self._write_status(replica_set, counts, failure, now_s)
        if failure is not None:
            raise failure

    def _counts_of(self, replica_set: Object) -> ReplicaCounts:
        """The counts of a ReplicaSet, counted anew when it or its spec is new."""
        uid = uid_of(replica_set)
        counts = self._counts.get(uid)
        if counts is None or counts.generation != int_of(replica_set["metadata"], "generation"):
            counts = self._counts[uid] = ReplicaCounts(replica_set)
            for pod in self._index.controlled(uid, "Pod"):
                counts.put(key_of(pod), pod)
        return counts

    def _scale(self, replica_set: Object, counts: ReplicaCounts, now_s: float) -> None:
        wanted, active = int_of(replica_set["spec"], "replicas", 1), counts.active
        missing = missing_pods(wanted, active)
        if missing > 0:
            pod = pod_from_template(
                replica_set, resource_of(self.kind).api_version, self.kind, replica_set["spec"]["template"]
            )
            self._pods.create(replica_set, itertools.repeat(pod, missing), now_s)
        elif missing < 0:
            self._delete_pods(replica_set, -missing, now_s)
        if active + missing != wanted:
            self.queue.add(key_of(replica_set))

    def _delete_pods(self, replica_set: Object, count: int, now_s: float) -> None:
        active = [pod for pod in self._index.controlled(uid_of(replica_set), "Pod") if is_active(pod)]
        self._pods.delete(replica_set, first_to_go(active, self._related_pods(replica_set), count), now_s)

    def _related_pods(self, replica_set: Object) -> list[Object]:
        """Pods of all ReplicaSets with the same owner (a Deployment's old and new ones)."""
        reference = controller_reference(replica_set)
        if reference is None:
            return self._index.controlled(uid_of(replica_set), "Pod")
        siblings = self._index.controlled(reference["uid"], self.kind)
        return [pod for sibling in siblings for pod in self._index.controlled(uid_of(sibling), "Pod")]

    def _write_status(
        self, replica_set: Object, counts: ReplicaCounts, failure: StoreError | None, now_s: float
    ) -> None:
        available = counts.ready
        if int_of(replica_set["spec"], "minReadySeconds"):
            available = self._count_available(replica_set, now_s)
        status = replica_set_status(replica_set, counts, available, failure, now_s)
        if status != replica_set.get("status"):
            self._client.update_status(self.kind, {**replica_set, "status": status})

    def _count_available(self, replica_set: Object, now_s: float) -> int:
        """Pods that have been ready for `minReadySeconds`; comes back when the next one will have been."""
        min_ready_s = int_of(replica_set["spec"], "minReadySeconds")
        pods = self._index.controlled(uid_of(replica_set), "Pod")
        since = [ready_s for pod in pods if is_active(pod) and (ready_s := ready_since(pod)) is not None]
        waiting = [ready_s + min_ready_s for ready_s in since if ready_s + min_ready_s > now_s]
        if waiting:
            self.queue.add_at(key_of(replica_set), min(waiting))
        return len(since) - len(waiting)


class ReplicationControllerController(ReplicaSetController):
    """Pods for ReplicationControllers."""

    __slots__ = ()

    name = "replicationcontroller-controller"
    kind = "ReplicationController"
    kinds = frozenset({kind, "Pod"})


def replica_set_status(
    replica_set: Object, counts: ReplicaCounts, available: int, failure: StoreError | None, now_s: float
) -> Object:
    """The status for these counts."""
    optional = {
        "fullyLabeledReplicas": counts.labelled,
        "readyReplicas": counts.ready,
        "availableReplicas": available,
    }
    status: Object = {"replicas": counts.active, "terminatingReplicas": counts.terminating}
    status |= {name: count for name, count in optional.items() if count}
    status["observedGeneration"] = int_of(replica_set["metadata"], "generation")
    conditions = _failure_conditions(replica_set, failure, now_s)
    if conditions:
        status["conditions"] = conditions
    return status


def _failure_conditions(replica_set: Object, failure: StoreError | None, now_s: float) -> list[Object]:
    known = (replica_set.get("status") or {}).get("conditions") or []
    if failure is None:
        return [condition for condition in known if condition["type"] != "ReplicaFailure"]
    if any(condition["type"] == "ReplicaFailure" for condition in known):
        return known  # the message may name another pod each time, which is not worth a write
    condition = {
        "type": "ReplicaFailure",
        "status": "True",
        "lastTransitionTime": format_time(now_s),
        "reason": "FailedCreate",
        "message": str(failure),
    }
    return [*known, condition]
