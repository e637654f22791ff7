"""Writes claims: allocations and reservations before a pod is bound, and their removal afterwards.

Generators that yield calls to the API server and are sent the answers; PreBind and PostFilter of the plugin run them.
Every write names the state of the claim that it was decided on, so that a newer one refuses it; then the claim is
read again and the write repeated. Source: the plugin's bindClaim and deleteClaim, v1.36.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from berth.api.codec import ObjectError, decode
from berth.api.dra import AllocationResult, ResourceClaim
from berth.framework.effects import Answer, ApiCall, EmitEvent, PodRef, Steps, call, wait_until
from berth.framework.handle import Handle
from berth.framework.observations import DevicesAwaited, DevicesStatus
from berth.framework.status import Status, error
from berth.plugins.dra.claims import NOT_FOUND, is_reserved_for
from berth.plugins.dra.extended import NodeClaim, is_in_memory
from berth.plugins.dra.ledger import CLAIM, Ledger
from berth.plugins.dra.readiness import drivers_to_await, failure, is_ready
from berth.plugins.dra.requests import claim_key
from berth.plugins.dra.state import StateData
from berth.state.pod_info import PodInfo

FINALIZER = "resource.kubernetes.io/delete-protection"
ATTEMPTS = 5
"""How often a write is tried that meets a newer state of the claim."""

DELETED_MEANWHILE = "claim {claim} got deleted in the meantime"
ALLOCATED_ELSEWHERE = "claim {claim} got allocated elsewhere in the meantime"
DEALLOCATED_ELSEWHERE = "claim {claim} got deallocated elsewhere in the meantime"
BINDING_FAILED = "device binding failed: claim={claim}, reason={reason}, message={message}"
BINDING_TIMED_OUT = "device binding timeout"
PENDING = "waiting for binding conditions for device on node {node}"

Calls = Steps[str]
"""Calls under way; they return what went wrong, or the empty string."""


class _WriteError(Exception):
    """A write that was refused: why."""


class ClaimBinder:
    """Writes claims for one profile's plugin."""

    __slots__ = ("_binding_conditions", "_handle", "_ledger", "_timeout_s", "_wall_clock")

    def __init__(
        self,
        handle: Handle,
        ledger: Ledger,
        binding_conditions: bool,
        timeout_s: float,
        wall_clock: Callable[[], float],
    ) -> None:
        self._handle = handle
        self._ledger = ledger
        self._binding_conditions = binding_conditions
        self._timeout_s = timeout_s
        self._wall_clock = wall_clock

    def bind(self, state: StateData, pod: PodInfo, node_name: str) -> Steps[Status | None]:
        """Write what Reserve has taken, enter the pod as a user of its claims, and wait for the devices."""
        done: list[ResourceClaim] = []
        try:
            for index, claim in enumerate(state.claims):
                if not is_reserved_for(pod, claim):
                    written = yield from self._bind_claim(state, index, pod)
                    if written is not None:
                        state.claims[index] = written
                        done.append(written)
            yield from self._await_devices(state, pod, node_name)
        except _WriteError as refused:
            yield from self._take_back(state, pod, done)
            return error(str(refused))
        return None

    def deallocate(self, claim: ResourceClaim) -> Calls:
        """Take a claim's allocation away from it."""
        nothing = {"allocation": None, "reservedFor": None, "devices": None}
        answer = yield from call(_patch(claim, {"status": nothing}, "status"))
        return answer.error

    def delete(self, claim: ResourceClaim) -> Calls:
        """Delete a claim that was made for extended resources."""
        kept = [finalizer for finalizer in claim.metadata.finalizers if finalizer != FINALIZER]
        answer = yield from call(_patch(claim, {"metadata": {"finalizers": kept}}))
        if answer.error:
            return f"update resourceclaim {claim_key(claim)}: {answer.error}"
        answer = yield from call(ApiCall("delete", CLAIM, claim.metadata.namespace, claim.metadata.name))
        if answer.error and not _is_not_found(answer):
            return answer.error
        self._ledger.forget(claim.metadata.uid)
        return ""

    def _bind_claim(self, state: StateData, index: int, pod: PodInfo) -> Steps[ResourceClaim | None]:
        claim, allocation = state.claims[index], state.allocations.get(index)
        is_extended = index == state.extended
        if is_extended and allocation is None and not claim.spec.devices.requests:
            return None  # the node has the resources without devices
        reserved_uid = state.reserved_uids.get(index, claim.metadata.uid)
        if is_extended and is_in_memory(claim):
            claim = state.claims[index] = yield from self._create(state.mappings, pod)
        written = yield from self._write(claim, allocation, pod)
        self._ledger.written(reserved_uid, written)
        state.reserved_uids.pop(index, None)
        self._handle.reservation_changed("DynamicResources")
        if is_extended:
            yield from self._tell_pod(pod, written, state.mappings)
        return written

    def _create(self, made: NodeClaim | None, pod: PodInfo) -> Steps[ResourceClaim]:
        assert made is not None, "a claim for extended resources is made for a node"
        meta = made.claim.metadata
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": CLAIM,
            "metadata": {
                "generateName": f"{pod.name}-extended-resources-",
                "namespace": meta.namespace,
                "annotations": meta.annotations,
                "ownerReferences": [plain(owner) for owner in meta.owner_references],
            },
            "spec": plain(made.claim.spec),
        }
        answer = yield from call(ApiCall("create", CLAIM, meta.namespace, "", body))
        return _decoded(answer, f"create claim for extended resources {meta.namespace}/")

    def _write(self, claim: ResourceClaim, allocation: AllocationResult | None, pod: PodInfo) -> Steps[ResourceClaim]:
        """Write allocation and reservation; retry where another writer was faster."""
        what = "allocation and reservation" if allocation is not None else "reservation"
        for attempt in range(ATTEMPTS):
            if attempt:
                answer = yield from call(ApiCall("get", CLAIM, claim.metadata.namespace, claim.metadata.name))
                claim = _decoded(answer, f"get updated claim {claim_key(claim)} after conflict")
            _check(claim, allocation)
            if allocation is not None and FINALIZER not in claim.metadata.finalizers:
                finalizers = [*claim.metadata.finalizers, FINALIZER]
                answer = yield from call(_patch(claim, {"metadata": {"finalizers": finalizers}}))
                if _is_conflict(answer):
                    continue
                claim = _decoded(answer, f"add finalizer to claim {claim_key(claim)}")
            answer = yield from call(_patch(claim, {"status": self._status(claim, allocation, pod)}, "status"))
            if not _is_conflict(answer):
                return _decoded(answer, f"add {what} to claim {claim_key(claim)}")
        raise _WriteError(f"add {what} to claim {claim_key(claim)}: {answer.error}")

    def _status(self, claim: ResourceClaim, allocation: AllocationResult | None, pod: PodInfo) -> dict[str, Any]:
        consumer = {"resource": "pods", "name": pod.name, "uid": pod.uid}
        status: dict[str, Any] = {"reservedFor": [*(plain(c) for c in claim.status.reserved_for), consumer]}
        if allocation is not None:
            status["allocation"] = plain(allocation)
        current = allocation or claim.status.allocation
        if self._binding_conditions:
            if current is None:
                raise _WriteError(DEALLOCATED_ELSEWHERE.format(claim=claim_key(claim)))
            if current.allocation_timestamp is None:
                now = datetime.fromtimestamp(self._wall_clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                status.setdefault("allocation", {})["allocationTimestamp"] = now
        return status

    def _tell_pod(self, pod: PodInfo, claim: ResourceClaim, made: NodeClaim | None) -> Steps[None]:
        """Note in the pod's status which claim its extended resources come from."""
        mappings = [
            {"containerName": m.container, "resourceName": m.resource, "requestName": m.request}
            for m in (made.mappings if made is not None else ())
        ]
        told = {"requestMappings": mappings, "resourceClaimName": claim.metadata.name}
        body = {"metadata": {"uid": pod.uid}, "status": {"extendedResourceClaimStatus": told}}
        answer = yield from call(ApiCall("patch", "Pod", pod.namespace, pod.name, body, "status"))
        if answer.error:
            raise _WriteError(f"update pod {pod.key} ExtendedResourceClaimStatus: {answer.error}")

    def _await_devices(self, state: StateData, pod: PodInfo, node_name: str) -> Steps[None]:
        drivers = drivers_to_await(state.claims) if self._binding_conditions else ()
        if not drivers:
            return
        names = [(claim.metadata.namespace, claim.metadata.name) for claim in state.claims if not is_in_memory(claim)]

        def is_settled() -> bool:
            claims = [self._ledger.get(*name) for name in names]
            return any(claim is None or failure(claim) for claim in claims) or all(
                claim is not None and is_ready(claim) for claim in claims
            )

        note = PENDING.format(node=node_name)
        reference = PodRef.of(pod)
        self._handle.tell(
            EmitEvent(reference, "Normal", "BindingConditionsPending", "Scheduling", note, pod.spec.scheduler_name)
        )
        began = self._handle.now()
        outcome: DevicesStatus = "error"  # also where the binding is called off, which raises from within the wait
        try:
            yield from wait_until(is_settled, began + self._timeout_s)
            for index, name in enumerate(names):
                claim = self._ledger.get(*name)
                if claim is None:
                    raise _WriteError(NOT_FOUND.format(claim="/".join(name)))
                state.claims[index] = claim
                failed = failure(claim)
                if failed is not None:
                    outcome = "failure"
                    message = json.dumps(failed.message, ensure_ascii=False)
                    raise _WriteError(BINDING_FAILED.format(claim=name[1], reason=failed.reason, message=message))
                if not is_ready(claim):
                    outcome = "timeout"
                    raise _WriteError(BINDING_TIMED_OUT)
            outcome = "success"
        finally:
            waited = self._handle.now() - began
            self._handle.observe(DevicesAwaited(pod.spec.scheduler_name, drivers, outcome, waited))

    def _take_back(self, state: StateData, pod: PodInfo, done: list[ResourceClaim]) -> Steps[None]:
        """Undo what was written for a pod that will not be bound: its reservations, the claim made for it."""
        extended = state.extended_claim
        for claim in done:
            if extended is not None and claim.metadata.uid == extended.metadata.uid:
                continue
            others = [plain(consumer) for consumer in claim.status.reserved_for if consumer.uid != pod.uid]
            yield from call(_patch(claim, {"status": {"reservedFor": others}}, "status"))
        if extended is not None and not is_in_memory(extended):
            yield from self.delete(extended)


def plain(struct: Any) -> Any:
    """Return a struct as JSON values, without what is not set."""
    return _without_empty(msgspec.to_builtins(struct))


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _without_empty(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item is not None and item not in ("", [], {}, ())}
    if isinstance(value, list | tuple):
        return [_without_empty(item) for item in value]
    return value


def _check(claim: ResourceClaim, allocation: AllocationResult | None) -> None:
    if claim.metadata.deletion_timestamp is not None:
        raise _WriteError(DELETED_MEANWHILE.format(claim=claim_key(claim)))
    if allocation is not None and claim.status.allocation is not None:
        raise _WriteError(ALLOCATED_ELSEWHERE.format(claim=claim_key(claim)))


def _patch(claim: ResourceClaim, body: dict[str, Any], subresource: str = "") -> ApiCall:
    """Return a patch that holds for this state of the claim only."""
    meta = claim.metadata
    held = {"uid": meta.uid, **({"resourceVersion": meta.resource_version} if meta.resource_version else {})}
    metadata = {**held, **body.get("metadata", {})}
    return ApiCall("patch", CLAIM, meta.namespace, meta.name, {**body, "metadata": metadata}, subresource)


def _decoded(answer: Answer, doing: str) -> ResourceClaim:
    if answer.error:
        raise _WriteError(f"{doing}: {answer.error}")
    try:
        claim: ResourceClaim = decode(CLAIM, answer.result)
    except (ObjectError, TypeError) as unreadable:
        raise _WriteError(f"{doing}: {unreadable}") from unreadable
    return claim


def _is_conflict(answer: Answer) -> bool:
    return answer.error.endswith("HTTP 409)")


def _is_not_found(answer: Answer) -> bool:
    return answer.error.endswith("HTTP 404)")
