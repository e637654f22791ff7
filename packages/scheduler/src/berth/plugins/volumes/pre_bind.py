"""PreBind of VolumeBinding: writes what was taken to the API server, then waits for the volume controller.

Promised volumes and claims with a chosen node are written as merge patches that carry the resourceVersion they are
made from, so that a conflict is an error and nothing is lost. What another pod with the same claim is writing already
is only waited for. Sentences are those of upstream's `VolumeBinding`, v1.36.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from operator import is_
from typing import Any

import msgspec

from berth.api.storage import PersistentVolume, PersistentVolumeClaim
from berth.framework.effects import ApiCall, Steps, call, wait_until
from berth.framework.handle import Handle
from berth.framework.observations import VolumeStageFailed
from berth.framework.readers import ObjectReader
from berth.framework.status import Status, error
from berth.plugins.volumes.assumed import AssumedVolumes, Order, Promise, give_back
from berth.plugins.volumes.binder import affinity_of, is_usable
from berth.plugins.volumes.claims import (
    BOUND_BY_CONTROLLER,
    CLAIM,
    CLAIM_NOT_FOUND,
    SELECTED_NODE,
    VOLUME,
    VOLUME_NOT_FOUND,
    is_fully_bound,
)
from berth.state.objects import key_of
from berth.state.pod_info import PodInfo

TIMED_OUT = "binding volumes: context deadline exceeded"


Verdict = bool | str
"""Whether everything is bound, or why waiting is pointless."""


def bind_volumes(
    handle: Handle, pod: PodInfo, node_name: str, taken: AssumedVolumes, timeout_s: float
) -> Steps[Status | None]:
    """Write what was taken, wait until it is bound, and return a status. Observers are told of a failure."""
    is_bound = False
    try:
        status = yield from _bind(handle, pod, node_name, taken, timeout_s)
        is_bound = status is None
    finally:  # a binding that is called off raises from within the wait
        if not is_bound:
            handle.observe(VolumeStageFailed("bind"))
    return status


def _bind(
    handle: Handle, pod: PodInfo, node_name: str, taken: AssumedVolumes, timeout_s: float
) -> Steps[Status | None]:
    fault = yield from _write(handle.objects, taken)
    if fault:
        return error(fault)
    waiting = Waiting(handle, pod, node_name, taken)
    yield from wait_until(lambda: waiting.verdict() is not False, handle.now() + timeout_s)
    verdict = waiting.verdict()
    if verdict is True:
        return None
    return error(TIMED_OUT if verdict is False else f"binding volumes: {verdict}")


def _write(objects: ObjectReader, taken: AssumedVolumes) -> Steps[str]:
    """Write volumes, then claims; give back at once what could not be written, and return why."""
    for index, promise in enumerate(taken.promises):
        if promise.is_news:
            answer = yield from call(_patch(VOLUME, promise.before, promise_patch(promise)))
            if answer.error:
                give_back(objects, AssumedVolumes(taken.promises[index:], taken.orders))
                return answer.error
    for index, order in enumerate(taken.orders):
        if order.is_news:
            answer = yield from call(_patch(CLAIM, order.before, order_patch(order)))
            if answer.error:
                give_back(objects, AssumedVolumes((), taken.orders[index:]))
                return answer.error
    return ""


def _patch(kind: str, obj: PersistentVolume | PersistentVolumeClaim, body: Mapping[str, Any]) -> ApiCall:
    return ApiCall("patch", kind, obj.metadata.namespace, obj.metadata.name, body)


def promise_patch(promise: Promise) -> dict[str, Any]:
    """Return what makes a stored volume the promised one."""
    after = promise.after
    metadata = _metadata(promise.before)
    if BOUND_BY_CONTROLLER in after.metadata.annotations:
        metadata["annotations"] = {BOUND_BY_CONTROLLER: after.metadata.annotations[BOUND_BY_CONTROLLER]}
    reference = msgspec.to_builtins(after.spec.claim_ref)
    if promise.claim.metadata.resource_version:
        reference["resourceVersion"] = promise.claim.metadata.resource_version
    return {"metadata": metadata, "spec": {"claimRef": reference}}


def order_patch(order: Order) -> dict[str, Any]:
    """Return what makes a stored claim ask for a volume on the chosen node."""
    annotations = {SELECTED_NODE: order.after.metadata.annotations[SELECTED_NODE]}
    return {"metadata": {**_metadata(order.before), "annotations": annotations}}


def _metadata(obj: PersistentVolume | PersistentVolumeClaim) -> dict[str, Any]:
    version = obj.metadata.resource_version
    return {"resourceVersion": version} if version else {}


class Waiting:
    """Checks after each event whether the volume controller has finished, or never will."""

    __slots__ = ("_facts", "_handle", "_node_name", "_pod", "_taken", "_verdict")

    def __init__(self, handle: Handle, pod: PodInfo, node_name: str, taken: AssumedVolumes) -> None:
        self._handle = handle
        self._pod = pod
        self._node_name = node_name
        self._taken = taken
        self._facts: tuple[Any, ...] = ()
        self._verdict: Verdict = False

    def verdict(self) -> Verdict:
        """Return whether all is bound, or why it cannot be any more; from the objects as the watch brought them.

        Hundreds of pods may wait at a time, each of them asked after every event. Objects are never changed in place,
        so that where all that is read is what it was, the verdict is, too.
        """
        facts = tuple(self._read())
        if len(facts) != len(self._facts) or not all(map(is_, facts, self._facts)):
            self._facts, self._verdict = facts, self._found()
        return self._verdict

    def _read(self) -> Iterator[Any]:
        """Yield each object that the verdict is made from, and None for one that is not there."""
        cache, objects = self._handle.cache, self._handle.objects
        row = cache.table.row_of.get(self._node_name)
        yield None if row is None else cache.table.nodes[row]
        yield objects.get("CSINode", self._node_name)
        yield cache.state_of(self._pod.uid) is None
        for promise in self._taken.promises:
            key = promise.after.metadata.name
            volume = objects.get(VOLUME, key)
            yield volume
            yield objects.assumed.over(VOLUME, key, volume)
            yield objects.get(CLAIM, promise.claim.metadata.name, promise.claim.metadata.namespace)
        for order in self._taken.orders:
            claim = objects.get(CLAIM, order.after.metadata.name, order.after.metadata.namespace)
            yield claim
            if claim is not None:
                yield objects.assumed.over(CLAIM, key_of(claim), claim)
                yield objects.get(VOLUME, claim.spec.volume_name) if claim.spec.volume_name else None

    def _found(self) -> Verdict:
        table = self._handle.cache.table
        row = table.row_of.get(self._node_name)
        if row is None or not table.valid[row]:
            return f'failed to get node "{self._node_name}": node "{self._node_name}" not found'
        if self._handle.cache.state_of(self._pod.uid) is None:
            return f'pod does not exist any more: pod "{self._pod.name}" not found'
        labels = table.node(row).metadata.labels
        found = (self._promise(promise, labels) for promise in self._taken.promises)
        more = (self._order(order, labels) for order in self._taken.orders)
        return next((verdict for verdict in chain(found, more) if verdict is not True), True)

    def _promise(self, promise: Promise, labels: Mapping[str, str]) -> Verdict:
        name, claim_meta = promise.after.metadata.name, promise.claim.metadata
        volume: PersistentVolume | None = self._handle.objects.get(VOLUME, name)
        if volume is None:
            return f"failed to check binding: {VOLUME_NOT_FOUND.format(name)}"
        claim: PersistentVolumeClaim | None = self._handle.objects.get(CLAIM, claim_meta.name, claim_meta.namespace)
        if claim is None:
            return f"failed to check binding: {CLAIM_NOT_FOUND.format(claim_meta.name)}"
        if self._is_older(VOLUME, volume):
            return False
        if not self._is_usable(volume, labels):
            return self._affinity_fault(name)
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            return f'ClaimRef got reset for pv "{name}"'
        return is_fully_bound(claim)

    def _order(self, order: Order, labels: Mapping[str, str]) -> Verdict:
        meta = order.after.metadata
        claim: PersistentVolumeClaim | None = self._handle.objects.get(CLAIM, meta.name, meta.namespace)
        if claim is None:
            return f"failed to check provisioning pvc: {CLAIM_NOT_FOUND.format(meta.name)}"
        if self._is_older(CLAIM, claim):
            return False
        if not claim.metadata.annotations:
            return f'selectedNode annotation reset for PVC "{meta.name}"'
        if claim.metadata.annotations.get(SELECTED_NODE) != self._node_name:
            return f'provisioning failed for PVC "{meta.name}"'
        if claim.spec.volume_name:
            volume: PersistentVolume | None = self._handle.objects.get(VOLUME, claim.spec.volume_name)
            if volume is None:
                return False  # its event has not come yet, or the claim will soon be unbound
            if not self._is_usable(volume, labels):
                return self._affinity_fault(volume.metadata.name)
        return is_fully_bound(claim)

    def _is_older(self, kind: str, stored: PersistentVolume | PersistentVolumeClaim) -> bool:
        """Say whether the watch has yet to bring what was written, by this pod or by another with the same claim."""
        return self._handle.objects.assumed.over(kind, key_of(stored), stored) is not stored

    def _is_usable(self, volume: PersistentVolume, labels: Mapping[str, str]) -> bool:
        csi_node = self._handle.objects.get("CSINode", self._node_name)
        return is_usable(affinity_of(volume, csi_node), labels)

    def _affinity_fault(self, volume: str) -> str:
        fault = "no matching NodeSelectorTerms"
        return f'pv "{volume}" node affinity doesn\'t match node "{self._node_name}": {fault}'
