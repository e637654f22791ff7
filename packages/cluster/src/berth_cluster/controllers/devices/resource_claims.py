"""The ResourceClaim controller: makes claims from templates, and frees claims whose pods have ended.

Driven by changes of pods, claims and templates. A pod gets a claim of its own for every template it names, and its
status notes which. A pod that has ended or is gone gives up its claims. A claim that no pod holds any more is
deallocated, and it is deleted if it was made for a pod that will not run again, by this controller or by a scheduler
for extended resources. Upstream: pkg/controller/resourceclaim, v1.36.
"""

from collections.abc import Iterator

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.meta import (
    Object,
    annotations_of,
    controller_reference,
    is_being_deleted,
    key_of,
    uid_of,
    without_finalizer,
)
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.pods import is_terminal, made_from, node_of

CLAIM = "ResourceClaim"
TEMPLATE = "ResourceClaimTemplate"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
FINALIZER = "resource.kubernetes.io/delete-protection"


class ResourceClaimController(KeyedController):
    """Makes and frees claims."""

    __slots__ = ("_waiting",)

    name = "resource_claim"
    kinds = frozenset({"Pod", CLAIM, TEMPLATE})

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._waiting: dict[str, set[str]] = {}  # pods whose template is missing, by the template

    # --- changes ---------------------------------------------------------------------------------------------

    def handle(self, change: ObjectChange) -> None:
        """Look at pods with claims, at claims, and at the pods that a template was missing for."""
        if change.kind == "Pod":
            self._handle_pod(change)
        elif change.kind == CLAIM:
            self._handle_claim(change)
        elif change.type != "DELETED":
            for pod_key in sorted(self._waiting.pop(key_of(change.obj), ())):
                self.look_up("Pod", pod_key)

    def _handle_pod(self, change: ObjectChange) -> None:
        pod = change.obj
        if change.type != "DELETED" and pod["spec"].get("resourceClaims"):
            self.look_at(pod)
        if change.type == "DELETED" or is_done(pod):
            for name in claims_of(pod):
                self.look_up(CLAIM, f"{pod['metadata']['namespace']}/{name}")

    def _handle_claim(self, change: ObjectChange) -> None:
        if change.type != "DELETED":
            self.look_at(change.obj)
            return
        owner = controller_reference(change.obj)
        if owner is not None and owner["kind"] == "Pod":  # the pod may need another one
            self.look_up("Pod", f"{change.obj['metadata']['namespace']}/{owner['name']}")

    def sync(self, obj: Object, now_s: float) -> None:
        """Bring one pod's claims, or one claim's users, up to date."""
        if obj["kind"] == "Pod":
            self._sync_pod(obj, now_s)
        else:
            self._sync_claim(obj)

    # --- pods ------------------------------------------------------------------------------------------------

    def _sync_pod(self, pod: Object, now_s: float) -> None:
        entries = pod["spec"].get("resourceClaims") or []
        if not entries or is_being_deleted(pod) or is_done(pod):  # it took the name of the one that was to be looked at
            return
        statuses = {one.get("name"): one for one in (pod.get("status") or {}).get("resourceClaimStatuses") or []}
        before = dict(statuses)
        for entry in entries:
            if entry.get("resourceClaimTemplateName"):
                name = self._claim_for(pod, entry, statuses.get(entry["name"]), now_s)
                statuses[entry["name"]] = {"name": entry["name"], "resourceClaimName": name}
        if statuses != before:
            known = [entry["name"] for entry in entries]
            ordered = [statuses[name] for name in known if name in statuses]
            pod = self.client.set_status(pod, {**(pod.get("status") or {}), "resourceClaimStatuses": ordered})
        self._reserve(pod)

    def _claim_for(self, pod: Object, entry: Object, known: Object | None, now_s: float) -> str:
        """The name of the claim made for one entry of a pod; made now if it is not there."""
        namespace = pod["metadata"]["namespace"]
        name = str((known or {}).get("resourceClaimName") or "")
        claim = self.index.get(CLAIM, f"{namespace}/{name}") if name else None
        if claim is not None and self.index.controller_of(claim) is pod:
            return name
        for claim in self.index.controlled(uid_of(pod), CLAIM):
            if annotations_of(claim).get(POD_CLAIM_NAME) == entry["name"] and not is_being_deleted(claim):
                return str(claim["metadata"]["name"])
        try:
            return str(self._create(pod, entry)["metadata"]["name"])
        except StoreError as error:
            message = f"PodResourceClaim {entry['name']}: {error}"
            self.tell(pod, "FailedResourceClaimCreation", message, now_s, warns=True)
            raise

    def _create(self, pod: Object, entry: Object) -> Object:
        namespace, template_name = pod["metadata"]["namespace"], entry["resourceClaimTemplateName"]
        template_key = f"{namespace}/{template_name}"
        template = self.index.get(TEMPLATE, template_key)
        if template is None:
            self._waiting.setdefault(template_key, set()).add(key_of(pod))
            why = f'resource claim template "{template_name}": resourceclaimtemplate.resource.k8s.io'
            raise StoreError(404, "NotFound", f'{why} "{template_name}" not found')
        claim = made_from(pod, template["spec"], generateName=f"{pod['metadata']['name']}-{entry['name']}-")
        claim["metadata"]["annotations"] = {**annotations_of(claim), POD_CLAIM_NAME: entry["name"]}
        return self.client.create(CLAIM, claim)

    def _reserve(self, pod: Object) -> None:
        """Reserve allocated claims for a pod that has a node without being in `reservedFor`: no scheduler did it."""
        if not node_of(pod):
            return
        for name in claims_of(pod):
            claim = self.index.get(CLAIM, f"{pod['metadata']['namespace']}/{name}")
            status = (claim or {}).get("status") or {}
            users = status.get("reservedFor") or []
            if claim is None or not status.get("allocation") or any(one.get("uid") == uid_of(pod) for one in users):
                continue
            user = {"resource": "pods", "name": pod["metadata"]["name"], "uid": uid_of(pod)}
            self.client.set_status(claim, {**status, "reservedFor": [*users, user]})

    # --- claims ----------------------------------------------------------------------------------------------

    def _sync_claim(self, claim: Object) -> None:
        status = claim.get("status") or {}
        users = status.get("reservedFor") or []
        staying = [one for one in users if not self._has_ended(claim, one)]
        if staying != users:
            claim = self._give_back(claim, staying)
            status = claim.get("status") or {}
        is_protected = FINALIZER in (claim["metadata"].get("finalizers") or [])
        if not staying and is_protected and status.get("allocation") and is_being_deleted(claim):
            claim = self._give_back(claim, [])
            status = claim.get("status") or {}
        if not status.get("allocation") and is_protected and (users or is_being_deleted(claim)):
            claim = self.client.update(CLAIM, without_finalizer(claim, FINALIZER))
        if not staying and not is_being_deleted(claim) and self._is_of_ended_pod(claim):
            self.client.delete(CLAIM, claim)

    def _give_back(self, claim: Object, staying: list[Object]) -> Object:
        """Write who still holds a claim; when nobody does, its devices are free again."""
        status = {name: value for name, value in claim["status"].items() if name != "reservedFor"}
        if staying:
            status["reservedFor"] = staying
        elif FINALIZER in (claim["metadata"].get("finalizers") or []):
            status = {name: value for name, value in status.items() if name not in ("allocation", "devices")}
        return self.client.set_status(claim, status)

    def _has_ended(self, claim: Object, user: Object) -> bool:
        if user.get("apiGroup") or user.get("resource") != "pods":
            return False  # users other than pods are not known here
        pod = self.index.get("Pod", f"{claim['metadata']['namespace']}/{user.get('name')}")
        return pod is None or uid_of(pod) != user.get("uid") or is_done(pod)

    def _is_of_ended_pod(self, claim: Object) -> bool:
        """The claim was made for a pod that is gone or will not run any more."""
        owner = controller_reference(claim)
        if owner is None or owner["kind"] != "Pod":
            return False
        return self._has_ended(claim, {"resource": "pods", "name": owner["name"], "uid": owner["uid"]})


def is_done(pod: Object) -> bool:
    """The pod will not run any more: it has ended, or is being deleted and never got a node."""
    return is_terminal(pod) or (is_being_deleted(pod) and not node_of(pod))


def claims_of(pod: Object) -> Iterator[str]:
    """The names of a pod's claims: named, made from templates as its status says, made for extended resources."""
    status = pod.get("status") or {}
    made = {one.get("name"): one.get("resourceClaimName") for one in status.get("resourceClaimStatuses") or []}
    for entry in pod["spec"].get("resourceClaims") or []:
        name = entry.get("resourceClaimName") or made.get(entry.get("name"))
        if name:
            yield name
    extended = (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    if extended:
        yield extended
