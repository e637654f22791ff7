"""The ReplicaSets of a Deployment: finding, creating, sizing and numbering them, and deleting old ones.

How many pods each should have is decided in `deployment`, the only user of this module.
"""

from typing import NamedTuple

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.meta import (
    Object,
    annotations_of,
    controller_reference,
    generation_of,
    int_of,
    is_being_deleted,
    key_of,
    new_controller_reference,
    uid_of,
    with_metadata,
)
from berth_cluster.controllers.client import Client
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
    status_count,
    template_hash,
    total_replicas,
)
from berth_workloads.deployments import new_set_size

COMPONENT = "deployment-controller"
KIND = "ReplicaSet"
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


class ReplicaSetManager:
    """Reads and writes the ReplicaSets of Deployments."""

    __slots__ = ("_client", "_index")

    def __init__(self, client: Client) -> None:
        self._client = client
        self._index = client.index

    def find(self, deployment: Object) -> DeploymentReplicaSets:
        """The Deployment's ReplicaSets as they are now."""
        owned = self._index.controlled(uid_of(deployment), KIND)
        matching = [one for one in owned if same_template(one["spec"]["template"], deployment["spec"]["template"])]
        new = next(iter(oldest_first(matching)), None)
        return DeploymentReplicaSets(new, [one for one in owned if one is not new])

    def ensure_new(self, deployment: Object, now_s: float) -> bool:
        """Make the ReplicaSet of the present template, or bring its annotations up to date; True if it was made."""
        replica_sets = self.find(deployment)
        revision = max((revision_of(one) for one in replica_sets.old), default=0) + 1
        if replica_sets.new is not None:
            self._renumber(deployment, replica_sets.new, revision)
            return False
        self._create(deployment, replica_sets, revision, now_s)
        return True

    def resize(self, deployment: Object, replica_set: Object, size: int, now_s: float) -> bool:
        """Let a ReplicaSet ask for `size` pods; True if it asked for another number."""
        before = replicas_of(replica_set)
        annotations = annotations_of(replica_set) | _size_annotations(deployment)
        if before == size and annotations == annotations_of(replica_set):
            return False
        changed = with_metadata(replica_set, annotations=annotations)
        self._client.update(KIND, {**changed, "spec": {**replica_set["spec"], "replicas": size}})
        if before != size:
            self._say_scaled(deployment, replica_set["metadata"]["name"], (before, size), now_s)
        return before != size

    def drop_history(self, deployment: Object) -> None:
        """Delete the oldest empty ReplicaSets beyond `revisionHistoryLimit`."""
        limit = int_of(deployment["spec"], "revisionHistoryLimit", 10)
        old = [one for one in self.find(deployment).old if not is_being_deleted(one)]
        surplus = len(old) - limit
        for one in sorted(old, key=revision_of)[: max(0, surplus)]:
            observed = status_count(one, "observedGeneration") >= generation_of(one)
            if replicas_of(one) == 0 and status_count(one, "replicas") == 0 and observed:
                self._client.delete(KIND, one)

    def _create(self, deployment: Object, replica_sets: DeploymentReplicaSets, revision: int, now_s: float) -> None:
        first = int_of(deployment.get("status") or {}, "collisionCount")
        for collisions in range(first, first + MAX_COLLISIONS):
            replica_set = _new_replica_set(deployment, collisions)
            replica_set["metadata"]["annotations"] |= {REVISION: str(revision)}
            bounds, total = bounds_of(deployment), total_replicas(replica_sets.all)
            size = new_set_size(bounds, total, 0) if is_rolling(deployment) else bounds.wanted
            replica_set["spec"]["replicas"] = size
            try:
                created = self._client.create(KIND, replica_set)
            except StoreError as error:
                if error.reason != "AlreadyExists" or self._is_ours(deployment, replica_set):
                    raise
                continue
            size = replicas_of(created)
            if size:
                self._say_scaled(deployment, created["metadata"]["name"], (0, size), now_s)
            return

    def _is_ours(self, deployment: Object, replica_set: Object) -> bool:
        found = self._index.get(KIND, key_of(replica_set))
        reference = controller_reference(found) if found is not None else None
        return reference is not None and reference["uid"] == uid_of(deployment)

    def _renumber(self, deployment: Object, new: Object, revision: int) -> None:
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
        if changed or annotations != annotations_of(new):
            spec = {**new["spec"], "minReadySeconds": min_ready_s} if changed else new["spec"]
            self._client.update(KIND, {**with_metadata(new, annotations=annotations), "spec": spec})

    def _say_scaled(self, deployment: Object, name: str, sizes: tuple[int, int], now_s: float) -> None:
        before, size = sizes
        direction = "up" if size > before else "down"
        message = f"Scaled {direction} replica set {name} from {before} to {size}"
        self._client.events.record(COMPONENT, deployment, "ScalingReplicaSet", message, now_s)


def _new_replica_set(deployment: Object, collisions: int) -> Object:
    spec = deployment["spec"]
    template = spec["template"]
    digest = template_hash(template, collisions)
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), HASH_LABEL: digest}
    selector = spec["selector"]
    result: Object = {
        "metadata": {
            "name": f"{deployment['metadata']['name']}-{digest}",
            "namespace": deployment["metadata"]["namespace"],
            "labels": labels,
            "annotations": _copied_annotations(deployment) | _size_annotations(deployment),
            "ownerReferences": [new_controller_reference(deployment)],
        },
        "spec": {
            "replicas": 0,
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: digest}},
            "template": {**template, "metadata": {**metadata, "labels": labels}},
        },
    }
    if int_of(spec, "minReadySeconds"):
        result["spec"]["minReadySeconds"] = spec["minReadySeconds"]
    return result


def _copied_annotations(deployment: Object) -> dict[str, str]:
    """What a ReplicaSet has of its Deployment's annotations (kubectl's change-cause among them)."""
    return {name: text for name, text in annotations_of(deployment).items() if name not in OWN_ANNOTATIONS}


def _size_annotations(deployment: Object) -> dict[str, str]:
    bounds = bounds_of(deployment)
    return {DESIRED_REPLICAS: str(bounds.wanted), MAX_REPLICAS: str(bounds.most)}
