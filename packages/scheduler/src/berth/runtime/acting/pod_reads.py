"""Reads one pod from the API server, to learn where it is if neither an answer nor the watch has said so."""

import msgspec

from berth.api.codec import ObjectError, decode
from berth.api.errors import ApiError
from berth.api.resources import RESOURCES
from berth.api.untrusted import read_deep
from berth.framework.effects import PodRead, PodRef
from berth.kube.transport import Transport

_POD = RESOURCES["Pod"]


class _SeenMeta(msgspec.Struct, rename="camel"):
    uid: str
    deletion_timestamp: str | None = None


class _SeenSpec(msgspec.Struct, rename="camel"):
    node_name: str | None = None


class SeenPod(msgspec.Struct):
    """The part of a pod that tells where it is, for pods that cannot be read in full."""

    metadata: _SeenMeta
    spec: _SeenSpec


async def get_pod(transport: Transport, pod: PodRef) -> tuple[SeenPod, bytes]:
    """Return a pod as the API server has it now, read and as JSON.

    Raises `TransportError`, and one of `UNREADABLE` if the answer is not a pod.
    """
    body = await transport.get(_POD, pod.namespace, pod.name)
    return read_deep(msgspec.json.decode, body, type=SeenPod), body


async def read_pod(transport: Transport, pod: PodRef) -> PodRead:
    """Return where a pod is; raises `TransportError`, or one of `UNREADABLE`."""
    try:
        seen, body = await get_pod(transport, pod)
    except ApiError as error:
        if error.is_not_found:
            return PodRead(is_gone=True)
        raise
    if seen.metadata.uid != pod.uid:
        return PodRead(is_gone=True)
    try:
        whole = decode("Pod", body)
    except ObjectError:
        whole = None
    return PodRead(node_name=seen.spec.node_name or "", pod=whole)
