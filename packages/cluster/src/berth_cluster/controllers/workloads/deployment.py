"""The Deployment controller: moves pods from old ReplicaSets to the one of the present template.

Driven by changes of Deployments, their ReplicaSets and (for the strategy Recreate) the end of old pods. Each `sync`
does the next step of the rollout; the changes of the ReplicaSets that follow from it cause the next one.
Upstream: pkg/controller/deployment.
"""

from collections.abc import Iterable
from typing import NamedTuple

from berth_cluster.apimachinery.meta import (
    Object,
    annotations_of,
    generation_of,
    int_of,
    is_being_deleted,
    key_of,
    new_controller_reference,
    uid_of,
    with_metadata,
)
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.pods import is_terminal
from berth_cluster.controllers.workloads.deployment_status import (
    Progress,
    deployment_status,
    is_complete,
    news_of_new_set,
    pause_news,
    progress_deadline,
)
from berth_cluster.controllers.workloads.rollout import (
    DESIRED_REPLICAS,
    HASH_LABEL,
    MAX_REPLICAS,
    OWN_ANNOTATIONS,
    REVISION,
    REVISION_HISTORY,
    bounds_of,
    is_rolling,
    oldest_first,
    replicas_of,
    revision_of,
    same_template,
    sized,
    status_count,
    template_hash,
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

MAX_COLLISIONS = 10


class DeploymentReplicaSets(NamedTuple):
    """A Deployment's ReplicaSets: the one with the present template (if there is one), and all others."""

    new: Object | None
    old: list[Object]

    @property
    def all(self) -> list[Object]:
        """All of them, the newest last."""
        return [*self.old, *([self.new] if self.new is not None else [])]

    @property
    def active(self) -> list[Object]:
        """Those that ask for pods."""
        return [one for one in self.all if replicas_of(one) > 0]


class DeploymentController(WorkloadController):
    """ReplicaSets for Deployments."""

    __slots__ = ()

    name = "deployment-controller"
    kind = "Deployment"
    child = "ReplicaSet"
    also_hears = ("Pod",)

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
        news = pause_news(obj)
        if obj["spec"].get("paused"):
            self._scale(obj, now_s)
            self._write_status(obj, news, now_s)
            return
        if self._is_scaled(obj):
            self._scale(obj, now_s)
        else:
            step = self._roll if is_rolling(obj) else self._recreate
            news = step(obj, now_s) or news
        self._write_status(self._with_revision(obj), news, now_s)

    def _find(self, deployment: Object) -> DeploymentReplicaSets:
        """The Deployment's ReplicaSets as they are now."""
        owned, template = self.owned(deployment), deployment["spec"]["template"]
        matching = [one for one in owned if same_template(one["spec"]["template"], template)]
        new = next(iter(oldest_first(matching)), None)
        return DeploymentReplicaSets(new, [one for one in owned if one is not new])

    # --- steps -----------------------------------------------------------------------------------------------

    def _is_scaled(self, deployment: Object) -> bool:
        """Whether the wanted number of pods has changed since the active ReplicaSets were last sized."""
        wanted = str(replicas_of(deployment))
        return any(annotations_of(one).get(DESIRED_REPLICAS, wanted) != wanted for one in self._find(deployment).active)

    def _scale(self, deployment: Object, now_s: float) -> None:
        """Size the ReplicaSets for a changed number of pods, each in proportion, without going on with the rollout."""
        new, old = found = self._find(deployment)
        active = oldest_first(found.active)
        if len(active) <= 1:
            latest = active[0] if active else new or max(old, key=revision_of, default=None)
            if latest is not None:
                self._resize(deployment, latest, replicas_of(deployment), now_s)
        elif new is not None and _is_saturated(deployment, new):
            self._empty(deployment, old, now_s)
        elif is_rolling(deployment):
            before = status_count(deployment, "replicas")
            facts = [sized(one)._replace(age=age) for age, one in enumerate(active)]
            for one, size in zip(active, proportional_sizes(bounds_of(deployment), before, facts), strict=True):
                self._resize(deployment, one, size, now_s)

    def _roll(self, deployment: Object, now_s: float) -> Progress | None:
        """RollingUpdate: more new pods within maxSurge, or else fewer old ones within maxUnavailable."""
        new, news = self._ensure_new(deployment, now_s)
        size = new_set_size(bounds_of(deployment), total_replicas(self._find(deployment).all), replicas_of(new))
        if not self._resize(deployment, new, min(size, replicas_of(deployment)), now_s):
            self._shrink_old(deployment, new, now_s)
        self._drop_history(deployment)
        return news

    def _shrink_old(self, deployment: Object, new: Object, now_s: float) -> None:
        """Take away old pods that are not available, then others as long as enough pods stay available."""
        found, bounds = self._find(deployment), bounds_of(deployment)
        old = oldest_first(filter(replicas_of, found.old))
        budget = removable_old_pods(bounds, total_replicas(found.all), sized(new))
        if old and budget > 0:
            self._shrink(deployment, old, without_unavailable(map(sized, old), budget), now_s)
            found = self._find(deployment)
            old, available = oldest_first(found.old), total_status(found.all, "availableReplicas")
            self._shrink(deployment, old, without_surplus(map(replicas_of, old), available, bounds), now_s)

    def _recreate(self, deployment: Object, now_s: float) -> Progress | None:
        """Recreate: once all old pods have ended, the new ones are created."""
        old = self._find(deployment).old
        pods = (pod for one in old for pod in self.index.controlled(uid_of(one), "Pod"))
        if self._empty(deployment, old, now_s) or not all(map(is_terminal, pods)):
            return None
        new, news = self._ensure_new(deployment, now_s)
        self._resize(deployment, new, replicas_of(deployment), now_s)
        self._drop_history(deployment)
        return news

    # --- ReplicaSets -----------------------------------------------------------------------------------------

    def _resize(self, deployment: Object, replica_set: Object, size: int, now_s: float) -> bool:
        """Let a ReplicaSet ask for `size` pods; True if it asked for another number."""
        before = replicas_of(replica_set)
        annotations = annotations_of(replica_set) | _size_annotations(deployment)
        if before != size or annotations != annotations_of(replica_set):
            changed = with_metadata(replica_set, annotations=annotations)
            self.client.update(self.child, {**changed, "spec": {**replica_set["spec"], "replicas": size}})
            self._tell_size(deployment, replica_set, before, size, now_s)
        return before != size

    def _shrink(self, deployment: Object, replica_sets: list[Object], sizes: Iterable[int], now_s: float) -> bool:
        """Let those ReplicaSets ask for fewer pods that ask for more; True if there were any."""
        larger = [(one, size) for one, size in zip(replica_sets, sizes, strict=True) if replicas_of(one) > size]
        for one, size in larger:
            self._resize(deployment, one, size, now_s)
        return bool(larger)

    def _empty(self, deployment: Object, replica_sets: list[Object], now_s: float) -> bool:
        return self._shrink(deployment, replica_sets, [0] * len(replica_sets), now_s)

    def _tell_size(self, deployment: Object, replica_set: Object, before: int, size: int, now_s: float) -> None:
        if size != before:
            direction = "up" if size > before else "down"
            name = replica_set["metadata"]["name"]
            message = f"Scaled {direction} replica set {name} from {before} to {size}"
            self.tell(deployment, "ScalingReplicaSet", message, now_s)

    def _ensure_new(self, deployment: Object, now_s: float) -> tuple[Object, Progress | None]:
        """Make the ReplicaSet of the present template, or bring its annotations up to date; with what that is told."""
        found = self._find(deployment)
        revision = max(map(revision_of, found.old), default=0) + 1
        if found.new is not None:
            new = self._renumber(deployment, found.new, revision)
        else:
            bounds = bounds_of(deployment)
            size = new_set_size(bounds, total_replicas(found.all), 0) if is_rolling(deployment) else bounds.wanted
            new = self._create(deployment, size, revision)
            self._tell_size(deployment, new, 0, size, now_s)
        return new, news_of_new_set(deployment, new, made=found.new is None)

    def _create(self, deployment: Object, size: int, revision: int) -> Object:
        first = int_of(deployment.get("status") or {}, "collisionCount")
        for collisions in range(first, first + MAX_COLLISIONS):
            replica_set = _new_replica_set(deployment, collisions, size, revision)
            if self.index.get(self.child, key_of(replica_set)) is None:
                break  # else another template has the same hash
        return self.client.create(self.child, replica_set)

    def _renumber(self, deployment: Object, new: Object, revision: int) -> Object:
        """Give a ReplicaSet that became the newest again the next revision, and remember the one it had."""
        before = revision_of(new)
        annotations = {**annotations_of(new), **_copied_annotations(deployment), **_size_annotations(deployment)}
        if before < revision:
            annotations[REVISION] = str(revision)
            if before:
                history = annotations.get(REVISION_HISTORY)
                annotations[REVISION_HISTORY] = f"{history},{before}" if history else str(before)
        min_ready_s = int_of(deployment["spec"], "minReadySeconds")
        changed = int_of(new["spec"], "minReadySeconds") != min_ready_s
        if not changed and annotations == annotations_of(new):
            return new
        spec = {**new["spec"], "minReadySeconds": min_ready_s} if changed else new["spec"]
        return self.client.update(self.child, {**with_metadata(new, annotations=annotations), "spec": spec})

    def _drop_history(self, deployment: Object) -> None:
        """Once a rollout is complete, delete the oldest empty ReplicaSets beyond `revisionHistoryLimit`."""
        if not is_complete(deployment, deployment.get("status") or {}):
            return
        old = sorted((one for one in self._find(deployment).old if not is_being_deleted(one)), key=revision_of)
        for one in old[: max(0, len(old) - int_of(deployment["spec"], "revisionHistoryLimit", 10))]:
            observed = status_count(one, "observedGeneration") >= generation_of(one)
            if replicas_of(one) == 0 and status_count(one, "replicas") == 0 and observed:
                self.client.delete(self.child, one)

    # --- status ----------------------------------------------------------------------------------------------

    def _with_revision(self, deployment: Object) -> Object:
        """Have the Deployment carry the revision of its newest ReplicaSet; returns it as it is then."""
        new = self._find(deployment).new
        annotations = annotations_of(deployment)
        if new is None or annotations.get(REVISION) == (revision := annotations_of(new).get(REVISION, "1")):
            return deployment
        return self.client.update(self.kind, with_metadata(deployment, annotations={**annotations, REVISION: revision}))

    def _write_status(self, deployment: Object, news: Progress | None, now_s: float) -> None:
        found = self._find(deployment)
        status = deployment_status(deployment, found.all, found.new, news, now_s)
        self.client.set_status(deployment, status)
        deadline_s = progress_deadline(deployment, status)
        if deadline_s is not None:
            self.look_at(deployment, deadline_s)


def _is_saturated(deployment: Object, new: Object) -> bool:
    wanted = replicas_of(deployment)
    is_sized = annotations_of(new).get(DESIRED_REPLICAS) == str(wanted)
    return replicas_of(new) == wanted and is_sized and status_count(new, "availableReplicas") == wanted


def _new_replica_set(deployment: Object, collisions: int, size: int, revision: int) -> Object:
    spec, selector, template = deployment["spec"], deployment["spec"]["selector"], deployment["spec"]["template"]
    digest, metadata = template_hash(template, collisions), template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), HASH_LABEL: digest}
    annotations = _copied_annotations(deployment) | _size_annotations(deployment) | {REVISION: str(revision)}
    new_spec = {
        "replicas": size,
        "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: digest}},
        "template": {**template, "metadata": {**metadata, "labels": labels}},
    }
    if int_of(spec, "minReadySeconds"):
        new_spec["minReadySeconds"] = spec["minReadySeconds"]
    return {
        "metadata": {
            "name": f"{deployment['metadata']['name']}-{digest}",
            "namespace": deployment["metadata"]["namespace"],
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [new_controller_reference(deployment)],
        },
        "spec": new_spec,
    }


def _copied_annotations(deployment: Object) -> dict[str, str]:
    """What a ReplicaSet has of its Deployment's annotations (kubectl's change-cause among them)."""
    return {name: text for name, text in annotations_of(deployment).items() if name not in OWN_ANNOTATIONS}


def _size_annotations(deployment: Object) -> dict[str, str]:
    bounds = bounds_of(deployment)
    return {DESIRED_REPLICAS: str(bounds.wanted), MAX_REPLICAS: str(bounds.most)}
