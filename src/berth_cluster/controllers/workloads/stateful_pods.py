"""The names and contents of a StatefulSet's pods and claims, the state of its replicas, and its status.

Pure functions over StatefulSets and pods as JSON. Called by the StatefulSet controller. Upstream:
pkg/controller/statefulset/stateful_set_utils, v1.36.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from berth_cluster.apimachinery.meta import (
    Object,
    generation_of,
    int_of,
    is_being_deleted,
    labels_of,
    new_controller_reference,
)
from berth_cluster.controllers.pods import phase_of, pod_from_template, ready_since
from berth_workloads.stateful_sets import REVISION_LABEL, claim_name, identity_labels, ordinal_of, wanted_ordinals


class Replicas(NamedTuple):
    """A StatefulSet's pods: the wanted ones by ordinal (None if missing), and the condemned ones, the highest first."""

    wanted: dict[int, Object | None]
    condemned: list[Object]

    def all(self) -> list[Object]:
        """All pods there are."""
        return [*(pod for pod in self.wanted.values() if pod is not None), *self.condemned]


def sort_out(stateful_set: Object, pods: Iterable[Object]) -> Replicas:
    """The pods by ordinal, parted into wanted and condemned ones."""
    first = first_ordinal(stateful_set)
    count = int_of(stateful_set["spec"], "replicas", 1)
    wanted: dict[int, Object | None] = dict.fromkeys(wanted_ordinals(first, count))
    condemned: dict[int, Object] = {}
    for pod in pods:
        ordinal = ordinal_of(pod["metadata"]["name"], stateful_set["metadata"]["name"])
        if ordinal is None:
            continue
        if ordinal in wanted:
            wanted[ordinal] = pod
        else:
            condemned[ordinal] = pod
    return Replicas(wanted, [condemned[ordinal] for ordinal in sorted(condemned, reverse=True)])


def is_ordered(stateful_set: Object) -> bool:
    """Whether pods are created and deleted one after the other, which is the default."""
    return bool(stateful_set["spec"].get("podManagementPolicy") != "Parallel")


def is_ready(pod: Object) -> bool:
    """The pod runs and is ready."""
    return phase_of(pod) == "Running" and ready_since(pod) is not None


def available_at(stateful_set: Object, pod: Object) -> float:
    """When the pod will have been ready for `minReadySeconds`: 0.0 without that, infinite while it is not ready."""
    since_s = ready_since(pod) if phase_of(pod) == "Running" else None
    if since_s is None:
        return float("inf")
    wait_s = int_of(stateful_set["spec"], "minReadySeconds")
    return since_s + wait_s if wait_s else 0.0


def is_healthy(stateful_set: Object, pod: Object, now_s: float) -> bool:
    """Whether the pod is available and not being deleted."""
    return available_at(stateful_set, pod) <= now_s and not is_being_deleted(pod)


def first_ordinal(stateful_set: Object) -> int:
    """The ordinal of the first pod."""
    return int_of(stateful_set["spec"].get("ordinals") or {}, "start")


def partition_of(stateful_set: Object) -> int:
    """The partition of a rolling update: pods with a lower ordinal keep the old revision."""
    rolling = (stateful_set["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    return int_of(rolling, "partition")


def revision_of(pod: Object) -> str:
    """The revision the pod was made from."""
    return labels_of(pod).get(REVISION_LABEL, "")


def new_pod(stateful_set: Object, ordinal: int, revision: str, template: Object) -> Object:
    """The pod of that number, with a name that lasts and its claims as volumes."""
    pod = pod_from_template(stateful_set, template)
    metadata = pod["metadata"]
    del metadata["generateName"]
    name = metadata["name"] = f"{stateful_set['metadata']['name']}-{ordinal}"
    metadata["labels"] = {**metadata.get("labels", {}), **identity_labels(name, ordinal, revision)}
    spec = pod["spec"] = {**pod["spec"], "hostname": name}
    if stateful_set["spec"].get("serviceName"):
        spec["subdomain"] = stateful_set["spec"]["serviceName"]
    volumes = {volume.get("name", ""): volume for volume in spec.get("volumes") or []}
    for claim_template in claim_templates(stateful_set):
        volume_name = claim_template["metadata"]["name"]
        named = {"claimName": claim_name(volume_name, name)}
        volumes[volume_name] = {"name": volume_name, "persistentVolumeClaim": named}
    if volumes:
        spec["volumes"] = list(volumes.values())
    return pod


def claim_templates(stateful_set: Object) -> list[Object]:
    """The set's volumeClaimTemplates."""
    return stateful_set["spec"].get("volumeClaimTemplates") or []


def claim_names(stateful_set: Object, pod_name: str) -> list[str]:
    """The names of a pod's claims."""
    return [claim_name(template["metadata"]["name"], pod_name) for template in claim_templates(stateful_set)]


def new_claims(stateful_set: Object, pod_name: str) -> Iterator[Object]:
    """The claims of the pod of that name."""
    selected = (stateful_set["spec"].get("selector") or {}).get("matchLabels") or {}
    for template in claim_templates(stateful_set):
        metadata = {
            **template["metadata"],
            "name": claim_name(template["metadata"]["name"], pod_name),
            "namespace": stateful_set["metadata"]["namespace"],
            "labels": {**(template["metadata"].get("labels") or {}), **selected},
            "ownerReferences": claim_owners(stateful_set, None, []),
        }
        yield {"metadata": metadata, "spec": template["spec"]}


def claim_owners(stateful_set: Object, condemned: Object | None, before: list[Object]) -> list[Object]:
    """The owners that a claim should have by the set's retention policy: it is deleted together with them.

    `condemned` is the claim's pod if a scale-down is going to delete that; references to other kinds are kept.
    """
    policy = stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    kept = [one for one in before if one.get("kind") not in ("StatefulSet", "Pod")]
    if condemned is not None and policy.get("whenScaled") == "Delete":
        return [*kept, new_controller_reference(condemned)]
    if policy.get("whenDeleted") == "Delete":
        return [*kept, new_controller_reference(stateful_set)]
    return kept


def stateful_set_status(
    stateful_set: Object, pods: Sequence[Object], revisions: tuple[str, str], now_s: float
) -> Object:
    """The status for these pods; `revisions` are the names of the current and of the update revision.

    Upstream: updateStatefulSet and completeRollingUpdate.
    """
    current, update = revisions
    staying = [pod for pod in pods if not is_being_deleted(pod)]
    before = stateful_set.get("status") or {}
    status: Object = {
        "observedGeneration": generation_of(stateful_set),
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
    if before.get("conditions"):
        status["conditions"] = before["conditions"]
    optional = ("readyReplicas", "currentReplicas", "updatedReplicas")
    return {name: value for name, value in status.items() if value or name not in optional}
