"""The StatefulSet controller: pods with lasting names, each with claims of its own, one after the other.

Driven by changes of StatefulSets, their pods and claims. Each `sync` does the next step: missing pods are created from
the lowest ordinal up, each once those before it are healthy; surplus pods are deleted from the highest down; then a
rolling update replaces pods from the highest down, by deleting them. With `podManagementPolicy: Parallel` pods do not
wait for one another when the set is scaled. Upstream: pkg/controller/statefulset, v1.36; a set that names
`maxUnavailable` is updated as with the gate MaxUnavailableStatefulSet, which is off in v1.36, any other as without it.
"""

from typing import NamedTuple

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.meta import (
    Object,
    is_being_deleted,
    key_of,
    owner_references,
    uid_of,
    with_metadata,
)
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.pods import phase_of
from berth_cluster.controllers.workloads.controller_revisions import RevisionHistory, template_of
from berth_cluster.controllers.workloads.stateful_pods import (
    Replicas,
    available_at,
    claim_names,
    claim_owners,
    first_ordinal,
    is_healthy,
    is_ordered,
    is_ready,
    new_claims,
    new_pod,
    partition_of,
    revision_of,
    sort_out,
    stateful_set_status,
)
from berth_cluster.controllers.workloads.workload import WorkloadController
from berth_workloads.stateful_sets import is_rolled_out, max_unavailable, ordinal_of, rollout_order

CLAIM = "PersistentVolumeClaim"


class Revisions(NamedTuple):
    """The revision that pods have, and the one that they are to have."""

    current: Object
    update: Object

    def for_ordinal(self, stateful_set: Object, ordinal: int) -> Object:
        """The revision from which a missing pod is made."""
        is_new = is_rolled_out(ordinal, first_ordinal(stateful_set), partition_of(stateful_set))
        return self.update if is_new else self.current


class StatefulSetController(WorkloadController):
    """Pods and claims for StatefulSets."""

    __slots__ = ("_revisions",)

    name = "statefulset-controller"
    kind = "StatefulSet"

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
                self._delete(stateful_set, pod, now_s)
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
                    self._delete(stateful_set, pod, now_s)
                budget -= allowed is None or not is_being_deleted(pod)
            elif allowed is None and (pod is None or not is_healthy(stateful_set, pod, now_s)):
                return

    def _come_back(self, stateful_set: Object, pod: Object | None, now_s: float) -> None:
        """Look at the set again when a pod that is ready becomes available, which takes nothing but time."""
        if pod is not None and is_ready(pod) and available_at(stateful_set, pod) > now_s:
            self.look_at(stateful_set, available_at(stateful_set, pod))

    # --- pods and claims -------------------------------------------------------------------------------------

    def _create(self, stateful_set: Object, ordinal: int, revision: Object, now_s: float) -> None:
        name = f"{stateful_set['metadata']['name']}-{ordinal}"
        self._create_claims(stateful_set, name, now_s)
        pod = new_pod(stateful_set, ordinal, revision["metadata"]["name"], template_of(revision))
        self._say_made(stateful_set, "Pod", pod, f"Pod {name}", now_s)

    def _create_claims(self, stateful_set: Object, pod_name: str, now_s: float) -> None:
        for claim in new_claims(stateful_set, pod_name):
            if self.index.get(CLAIM, key_of(claim)) is None:
                self._say_made(stateful_set, CLAIM, claim, f"Claim {claim['metadata']['name']} Pod {pod_name}", now_s)

    def _say_made(self, stateful_set: Object, kind: str, obj: Object, what: str, now_s: float) -> None:
        what = f"Create {what} in StatefulSet {stateful_set['metadata']['name']}"
        try:
            self.client.create(kind, obj)
        except StoreError as error:
            self.tell(stateful_set, "FailedCreate", f"{what} failed error: {error}", now_s, warns=True)
            raise
        word = "successful" if kind == "Pod" else "success"
        self.tell(stateful_set, "SuccessfulCreate", f"{what} {word}", now_s)

    def _delete(self, stateful_set: Object, pod: Object, now_s: float) -> None:
        self.client.delete("Pod", pod)
        message = f"Delete Pod {pod['metadata']['name']} in StatefulSet {stateful_set['metadata']['name']} successful"
        self.tell(stateful_set, "SuccessfulDelete", message, now_s)

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
