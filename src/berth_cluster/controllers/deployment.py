"""The Deployment controller: moves pods from old ReplicaSets to the one of the present template.

Driven by changes of Deployments, their ReplicaSets and (for the strategy Recreate) the end of old pods. Each look
does the next step of the rollout: the store's answer to it, the ReplicaSets' new statuses, brings the next look.
Upstream: pkg/controller/deployment.
"""

from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.deployment_status import (
    TIMED_OUT,
    Progress,
    deployment_status,
    is_complete,
    progress_deadline,
)
from berth_cluster.controllers.index import Change
from berth_cluster.controllers.meta import (
    JsonObject,
    annotations_of,
    controller_reference,
    find_condition,
    int_of,
    is_being_deleted,
    key_of,
    labels_of,
    uid_of,
    with_metadata,
)
from berth_cluster.controllers.pods import is_terminal
from berth_cluster.controllers.replica_set_family import COMPONENT, Family, FamilyKeeper
from berth_cluster.controllers.rollout import (
    DESIRED_REPLICAS,
    REVISION,
    is_rolling,
    max_unavailable,
    new_set_size,
    proportional_sizes,
    removable_old_pods,
    replicas_of,
    revision_of,
    status_count,
    total_status,
    without_unavailable,
)
from berth_cluster.controllers.selectors import selector_of

KIND = "Deployment"


class DeploymentController(KeyedController):
    """ReplicaSets for Deployments."""

    __slots__ = ("_client", "_family", "_index")

    name = COMPONENT

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self._index = client.index
        self._family = FamilyKeeper(client)

    # --- changes ---------------------------------------------------------------------------------------------

    def handle(self, change: Change) -> None:
        """Look at changed Deployments and at the owners of changed ReplicaSets and ended pods."""
        if change.kind == KIND:
            if change.type != "DELETED":
                self.queue.add(key_of(change.obj))
        elif change.kind == "ReplicaSet":
            self._handle_replica_set(change)
        elif change.kind == "Pod" and change.type == "DELETED":
            self._handle_pod_gone(change.obj)

    def _handle_replica_set(self, change: Change) -> None:
        reference = controller_reference(change.obj)
        if reference is not None and reference["kind"] == KIND:
            self.queue.add(f"{change.obj['metadata']['namespace']}/{reference['name']}")
        elif reference is None and change.type != "DELETED":
            for deployment in self._index.in_namespace(KIND, change.obj["metadata"]["namespace"]):
                if selector_of(deployment).matches(labels_of(change.obj)):
                    self.queue.add(key_of(deployment))

    def _handle_pod_gone(self, pod: JsonObject) -> None:
        reference = controller_reference(pod)
        found = self._index.by_uid(reference["uid"]) if reference is not None else None
        owner = controller_reference(found[1]) if found is not None else None
        if owner is None or owner["kind"] != KIND:
            return
        key = f"{pod['metadata']['namespace']}/{owner['name']}"
        deployment = self._index.get(KIND, key)
        if deployment is not None and not is_rolling(deployment):
            self.queue.add(key)

    # --- one Deployment --------------------------------------------------------------------------------------

    def sync(self, key: str, now_s: float) -> None:
        """Do the next step for one Deployment."""
        deployment = self._index.get(KIND, key)
        if deployment is None:
            return
        if is_being_deleted(deployment):
            self._write_status(deployment, None, now_s)
            return
        self._family.adopt(deployment)
        if deployment["spec"].get("paused"):
            self._scale(deployment, now_s)
            self._write_status(deployment, _pause_news(deployment), now_s)
            return
        news = _pause_news(deployment)
        if self._is_scaled(deployment):
            self._scale(deployment, now_s)
        elif is_rolling(deployment):
            news = self._roll(deployment, now_s) or news
        else:
            news = self._recreate(deployment, now_s) or news
        self._write_revision(key)
        self._write_status(self._index.get(KIND, key) or deployment, news, now_s)

    def _is_scaled(self, deployment: JsonObject) -> bool:
        """The wanted number changed since the active ReplicaSets were last sized."""
        wanted = str(replicas_of(deployment))
        active = self._family.find(deployment).active
        return any(annotations_of(one).get(DESIRED_REPLICAS, wanted) != wanted for one in active)

    def _scale(self, deployment: JsonObject, now_s: float) -> None:
        """Size the ReplicaSets for a changed number of pods, without moving pods between them."""
        family = self._family.find(deployment)
        active = family.active
        if len(active) <= 1:
            latest = active[0] if active else family.new or max(family.old, key=revision_of, default=None)
            if latest is not None:
                self._family.resize(deployment, latest, replicas_of(deployment), now_s)
        elif family.new is not None and _is_saturated(deployment, family.new):
            self._empty_old_sets(deployment, now_s)
        elif is_rolling(deployment):
            for one, size in proportional_sizes(deployment, active):
                self._family.resize(deployment, one, size, now_s)

    def _roll(self, deployment: JsonObject, now_s: float) -> Progress | None:
        """RollingUpdate: more new pods as far as the surge allows, else fewer old ones as far as may be missing."""
        made = self._family.ensure_new(deployment, now_s)
        family = self._family.find(deployment)
        new = family.new
        if new is None:
            return None
        size = new_set_size(deployment, family.all, new)
        if not self._family.resize(deployment, new, min(size, replicas_of(deployment)), now_s):
            self._shrink_old(deployment, family, now_s)
        self._tidy(deployment)
        return _news_of_new_set(deployment, new, made=made)

    def _shrink_old(self, deployment: JsonObject, family: Family, now_s: float) -> None:
        new = family.new
        if new is None or not any(replicas_of(one) for one in family.old):
            return
        budget = removable_old_pods(deployment, family.all, new)
        if budget <= 0:
            return
        for one, size in without_unavailable(family.old, budget):
            self._family.resize(deployment, one, size, now_s)
        self._shrink_available(deployment, now_s)

    def _shrink_available(self, deployment: JsonObject, now_s: float) -> None:
        """Take away available old pods as long as enough pods stay available."""
        family = self._family.find(deployment)
        spare = total_status(family.all, "availableReplicas") - replicas_of(deployment) + max_unavailable(deployment)
        for one in sorted(family.old, key=lambda old: old["metadata"].get("creationTimestamp", "")):
            cut = min(replicas_of(one), max(0, spare))
            spare -= cut
            if cut:
                self._family.resize(deployment, one, replicas_of(one) - cut, now_s)

    def _recreate(self, deployment: JsonObject, now_s: float) -> Progress | None:
        """Recreate: first all old pods end, then the new ones start."""
        if self._empty_old_sets(deployment, now_s) or self._old_pods_left(deployment):
            return None
        made = self._family.ensure_new(deployment, now_s)
        new = self._family.find(deployment).new
        if new is None:
            return None
        self._family.resize(deployment, new, replicas_of(deployment), now_s)
        self._tidy(deployment)
        return _news_of_new_set(deployment, new, made=made)

    def _empty_old_sets(self, deployment: JsonObject, now_s: float) -> bool:
        old = [one for one in self._family.find(deployment).old if replicas_of(one)]
        emptied = [self._family.resize(deployment, one, 0, now_s) for one in old]
        return any(emptied)

    def _old_pods_left(self, deployment: JsonObject) -> bool:
        family = self._family.find(deployment)
        pods = (pod for one in family.old for pod in self._index.controlled(uid_of(one), "Pod"))
        return any(not is_terminal(pod) for pod in pods)

    def _tidy(self, deployment: JsonObject) -> None:
        if is_complete(deployment, deployment.get("status") or {}):
            self._family.drop_history(deployment)

    # --- status ----------------------------------------------------------------------------------------------

    def _write_revision(self, key: str) -> None:
        """The Deployment carries the revision of its newest ReplicaSet."""
        deployment = self._index.get(KIND, key)
        new = self._family.find(deployment).new if deployment is not None else None
        if deployment is None or new is None:
            return
        annotations = annotations_of(deployment) | {REVISION: annotations_of(new).get(REVISION, "1")}
        if annotations != annotations_of(deployment):
            self._client.update(KIND, with_metadata(deployment, annotations=annotations))

    def _write_status(self, deployment: JsonObject, news: Progress | None, now_s: float) -> None:
        family = self._family.find(deployment)
        status = deployment_status(deployment, family.all, family.new, news, now_s)
        if status != deployment.get("status"):
            self._client.update_status(KIND, {**deployment, "status": status})
        deadline_s = progress_deadline(deployment, status)
        if deadline_s is not None:
            self.queue.add_at(key_of(deployment), deadline_s)


def _is_saturated(deployment: JsonObject, new: JsonObject) -> bool:
    wanted = replicas_of(deployment)
    sized = annotations_of(new).get(DESIRED_REPLICAS) == str(wanted)
    return replicas_of(new) == wanted and sized and status_count(new, "availableReplicas") == wanted


def _pause_news(deployment: JsonObject) -> Progress | None:
    """What to say when the Deployment has just been paused or resumed."""
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


def _news_of_new_set(deployment: JsonObject, new: JsonObject, *, made: bool) -> Progress | None:
    name = new["metadata"]["name"]
    if made:
        return Progress("True", "NewReplicaSetCreated", f'Created new replica set "{name}"')
    if find_condition(deployment, "Progressing") is None and int_of(new["spec"], "replicas"):
        return Progress("True", "FoundNewReplicaSet", f'Found new replica set "{name}"')
    return None
