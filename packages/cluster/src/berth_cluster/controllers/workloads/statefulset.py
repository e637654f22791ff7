"""The StatefulSet controller: pods with lasting names, each with claims of its own, one after the other.

Driven by changes of StatefulSets, their pods and claims. Each `sync` does the next step: missing pods are created from
the lowest ordinal up, each once those before it are healthy; surplus pods are deleted from the highest down; then a
rolling update replaces pods from the highest down, by deleting them. With `podManagementPolicy: Parallel` pods do not
wait for one another when the set is scaled. Upstream: pkg/controller/statefulset, v1.36; a set that names
`maxUnavailable` is updated as with the gate MaxUnavailableStatefulSet, which is off in v1.36, any other as without it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.meta import (
    Object,
    generation_of,
    int_of,
    is_being_deleted,
    key_of,
    labels_of,
    new_controller_reference,
    owner_references,
    uid_of,
    with_metadata,
)
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.pods import available_at, phase_of, pod_from_template, ready_since
from berth_cluster.controllers.workloads.controller_revisions import RevisionHistory, template_of
from berth_cluster.controllers.workloads.workload import WorkloadController
from berth_workloads.stateful_sets import (
    REVISION_LABEL,
    claim_name,
    identity_labels,
    is_rolled_out,
    max_unavailable,
    ordinal_of,
    rollout_order,
    wanted_ordinals,
)

CLAIM = "PersistentVolumeClaim"


class Revisions(NamedTuple):
    """The revision that pods have, and the one that they are to have."""

    current: Object
    update: Object

    def for_ordinal(self, stateful_set: Object, ordinal: int) -> Object:
        """The revision from which a missing pod is made."""
        is_new = is_rolled_out(ordinal, first_ordinal(stateful_set), partition_of(stateful_set))
        return self.update if is_new else self.current


class Replicas(NamedTuple):
    """A StatefulSet's pods: the wanted ones by ordinal (None if missing), and the condemned ones, the highest first."""

    wanted: dict[int, Object | None]
    condemned: list[Object]

    def all(self) -> list[Object]:
        """All pods there are."""
        return [*(pod for pod in self.wanted.values() if pod is not None), *self.condemned]


class StatefulSetController(WorkloadController):
    """Pods and claims for StatefulSets."""

    __slots__ = ("_revisions",)

    name = "statefulset-controller"
    kind = "StatefulSet"
    created = "Create Pod {name} in StatefulSet {owner} successful"
    refused = "Create Pod {name} in StatefulSet {owner} failed error: {error}"
    deleted = "Delete Pod {name} in StatefulSet {owner} successful"

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._revisions = RevisionHistory(client)

    def sync(self, obj: Object, now_s: float) -> None:
        """Do the next step for one set, and bring its status up to date."""
        revisions = self._find_revisions(obj)
        if not is_being_deleted(obj):
            name = obj["metadata"]["name"]
            self.claim(obj, self.owned(obj), lambda pod: ordinal_of(pod["metadata"]["name"], name) is not None)
            self._manage(obj, revisions, now_s)
        self._write_status(obj, revisions, now_s)

    def _find_revisions(self, stateful_set: Object) -> Revisions:
        update = self._revisions.ensure(stateful_set)
        name = (stateful_set.get("status") or {}).get("currentRevision")
        known = {one["metadata"]["name"]: one for one in self._revisions.of(stateful_set)}
        return Revisions(known.get(name, update), update)

    def _replicas(self, stateful_set: Object) -> Replicas:
        return sort_out(stateful_set, self.owned(stateful_set))

    def _manage(self, stateful_set: Object, revisions: Revisions, now_s: float) -> None:
        replicas = self._replicas(stateful_set)
        self._keep_claim_owners(stateful_set, replicas)
        done = self._fill(stateful_set, replicas, revisions, now_s)
        done = done and self._drain(stateful_set, replicas, now_s)
        if done:
            self._roll(stateful_set, revisions, now_s)

    def _fill(self, stateful_set: Object, replicas: Replicas, revisions: Revisions, now_s: float) -> bool:
        """Create missing pods and replace ended ones; False while an ordered set has to wait for one of them."""
        ordered = is_ordered(stateful_set)
        for ordinal, pod in replicas.wanted.items():
            if pod is None:
                self._create(stateful_set, ordinal, revisions.for_ordinal(stateful_set, ordinal), now_s)
            elif phase_of(pod) in ("Failed", "Succeeded"):
                self._replace(stateful_set, pod, now_s)
            elif is_healthy(stateful_set, pod, now_s):
                continue
            elif phase_of(pod) == "Pending":
                self._create_claims(stateful_set, pod["metadata"]["name"], now_s)
            self._come_back(stateful_set, pod, now_s)
            if ordered:
                return False
        return True

    def _drain(self, stateful_set: Object, replicas: Replicas, now_s: float) -> bool:
        """Delete surplus pods, the highest first; False while an ordered set has to wait for one of them.

        An unhealthy surplus pod of an ordered set is deleted only if no lower one is unhealthy too, as upstream.
        """
        ordered = is_ordered(stateful_set)
        unhealthy = [pod for pod in replicas.condemned if not is_healthy(stateful_set, pod, now_s)]
        for pod in replicas.condemned:
            waits = ordered and pod in unhealthy and pod is not unhealthy[-1]
            if not is_being_deleted(pod) and not waits:
                self.delete_children(stateful_set, [pod], now_s)
            if ordered:
                return False
        return True

    def _roll(self, stateful_set: Object, revisions: Revisions, now_s: float) -> None:
        """Delete the highest pods of another revision, as many as may be unavailable.

        Without `maxUnavailable`, the highest one goes if all above it are healthy, be it healthy itself or not.
        """
        strategy = stateful_set["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        wanted = self._replicas(stateful_set).wanted
        allowed = max_unavailable((strategy.get("rollingUpdate") or {}).get("maxUnavailable"), len(wanted))
        unhealthy = sum(pod is None or not is_healthy(stateful_set, pod, now_s) for pod in wanted.values())
        budget = 1 if allowed is None else allowed - unhealthy
        for ordinal in rollout_order(first_ordinal(stateful_set), len(wanted), partition_of(stateful_set)):
            pod = wanted[ordinal]
            if budget <= 0:
                return
            if pod is not None and revision_of(pod) != revisions.update["metadata"]["name"]:
                if not is_being_deleted(pod):
                    self.delete_children(stateful_set, [pod], now_s)
                budget -= allowed is None or not is_being_deleted(pod)
            elif allowed is None and (pod is None or not is_healthy(stateful_set, pod, now_s)):
                return

    def _come_back(self, stateful_set: Object, pod: Object | None, now_s: float) -> None:
        """Look at the set again when a pod that is ready becomes available, which takes nothing but time."""
        if pod is not None and is_ready(pod) and available_at(stateful_set, pod) > now_s:
            self.look_at(stateful_set, available_at(stateful_set, pod))

    # --- pods and claims -------------------------------------------------------------------------------------

    def _create(self, stateful_set: Object, ordinal: int, revision: Object, now_s: float) -> None:
        pod = new_pod(stateful_set, ordinal, revision["metadata"]["name"], template_of(revision))
        self._create_claims(stateful_set, pod["metadata"]["name"], now_s)
        self.create_children(stateful_set, [pod], now_s)

    def _create_claims(self, stateful_set: Object, pod_name: str, now_s: float) -> None:
        for claim in new_claims(stateful_set, pod_name):
            if self.index.get(CLAIM, key_of(claim)) is not None:
                continue
            set_name = stateful_set["metadata"]["name"]
            what = f"Create Claim {claim['metadata']['name']} Pod {pod_name} in StatefulSet {set_name}"
            try:
                self.client.create(CLAIM, claim)
            except StoreError as error:
                self.tell(stateful_set, "FailedCreate", f"{what} failed error: {error}", now_s, warns=True)
                raise
            self.tell(stateful_set, "SuccessfulCreate", f"{what} success", now_s)

    def _replace(self, stateful_set: Object, pod: Object, now_s: float) -> None:
        """Delete a pod that has ended; it is created again under the same name."""
        if is_being_deleted(pod):
            return
        failed = phase_of(pod) == "Failed"
        reason, word = ("RecreatingFailedPod", "failed") if failed else ("RecreatingTerminatedPod", "terminated")
        message = f"StatefulSet {key_of(stateful_set)} is recreating {word} Pod {pod['metadata']['name']}"
        self.tell(stateful_set, reason, message, now_s, warns=failed)
        self.client.delete("Pod", pod)

    def _keep_claim_owners(self, stateful_set: Object, replicas: Replicas) -> None:
        """Keep the owners of claims in line with the retention policy, which may have changed."""
        condemned = {uid_of(pod) for pod in replicas.condemned}
        for pod in replicas.all():
            for name in claim_names(stateful_set, pod["metadata"]["name"]):
                claim = self.index.get(CLAIM, f"{pod['metadata']['namespace']}/{name}")
                if claim is None:
                    continue
                before = owner_references(claim)
                owners = claim_owners(stateful_set, pod if uid_of(pod) in condemned else None, before)
                if owners != before:
                    self.client.update(CLAIM, with_metadata(claim, ownerReferences=owners))

    # --- status ----------------------------------------------------------------------------------------------

    def _write_status(self, stateful_set: Object, revisions: Revisions, now_s: float) -> None:
        pods = self._replicas(stateful_set).all()
        names = revisions.current["metadata"]["name"], revisions.update["metadata"]["name"]
        status = stateful_set_status(stateful_set, pods, names, now_s)
        self.client.set_status(stateful_set, status)
        for pod in pods:
            self._come_back(stateful_set, pod, now_s)
        in_use = {revision_of(pod) for pod in pods} | {status["currentRevision"], status["updateRevision"]}
        self._revisions.truncate(stateful_set, in_use)


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


def is_available(stateful_set: Object, pod: Object, now_s: float) -> bool:
    """Whether the pod has been ready for long enough."""
    return is_ready(pod) and available_at(stateful_set, pod) <= now_s


def is_healthy(stateful_set: Object, pod: Object, now_s: float) -> bool:
    """Whether the pod is available and not being deleted."""
    return is_available(stateful_set, pod, now_s) and not is_being_deleted(pod)


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
        "availableReplicas": sum(is_available(stateful_set, pod, now_s) for pod in pods),
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
