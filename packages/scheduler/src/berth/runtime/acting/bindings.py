"""Bindings: the one write that must happen exactly once, and whose outcome must be known before anything is undone.

A `Bind` comes in from `effects`; the result is None once the pod is on the node, or the reason why it is not. If the
answer to a Binding was lost (the connection broke, a proxy or the server answered 5xx), was a conflict, or was not an
answer that API servers give, the pod itself says what happened: on our node, the Binding or an earlier try of it got
through; on none, it did not; elsewhere or gone, it never will.

    send ──ok──────────────────────────────────────→ bound
     │ ├──refused for good───────────────────────────→ failed
     │ └──not now (429, 503, no connection)── wait ──→ send, a few times, then failed
     └──lost, odd, 409 → look ──on our node──────────→ bound
                          ├──elsewhere, other, gone──→ failed
                          ├──on none────────── wait ─→ send
                          └──cannot be read ── wait ─→ look, for as long as it takes

Once the process is ending nothing more is sent: Bindings waiting to be sent, for the first time or again, are called
off. So is the Binding of a pod that, according to the watch, is gone or going by the time its turn comes: the API
server would answer 409 or 404.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from berth.api.errors import ApiError, CalledOff, ConnectionLost, TransportError
from berth.api.untrusted import UNREADABLE
from berth.framework.effects import Bind, PodRef
from berth.kube.backoff import Backoff
from berth.kube.fence import WriteRefused
from berth.kube.pauses import Pauses
from berth.kube.transport import Transport
from berth.kube.wire import excerpt
from berth.runtime.acting.pod_reads import SeenPod, get_pod

MAX_SENDS = 5
"""After this many tries without success the pod goes back to the queue, and may then get another node."""
FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 10.0


class _Status(msgspec.Struct):
    kind: str = ""
    status: str = ""


class BindingOutcome(NamedTuple):
    """How a Binding ended: `error` is empty when the pod is bound to our node."""

    error: str = ""
    is_gone: bool = False
    """Whether the pod is gone or going, so that there is nothing to bind."""
    is_elsewhere: bool = False
    """Whether somebody else has bound the pod, to another node."""


@dataclass(slots=True, eq=False, repr=False)
class BindingClient:
    """Creates Bindings over a transport."""

    _transport: Transport
    _report: Callable[[str], None]
    _rng: random.Random
    _sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _unwanted: Callable[[PodRef], str] = lambda _: ""
    """Why a pod is not to be bound any more; asked when its Binding is about to be sent."""
    _pauses: Pauses = field(init=False)
    """The waits before a Binding is sent again."""
    lost_races: int = field(default=0, init=False)
    """Pods that somebody else had bound to another node."""

    def __post_init__(self) -> None:
        self._pauses = Pauses(self._sleep)

    def call_off(self) -> None:
        """Send no more Bindings: `bind` raises `CalledOff`, unless the result of one that was sent has yet to be found
        out.
        """
        self._pauses.end()

    async def bind(self, bind: Bind) -> BindingOutcome:
        """Bind the pod. It may take long, but its outcome is always known.

        Raises `CalledOff` if the process ends before it is sent; the pod is then not bound.
        """
        pod, body = bind.pod, _binding(bind)
        try:
            await self._send(pod, body)
        except CalledOff:
            return self._unwanted_outcome(pod)
        except TransportError as error:
            return await self._settle(bind, body, error)
        return BindingOutcome()

    def _unwanted_outcome(self, pod: PodRef) -> BindingOutcome:
        """Return why a Binding was called off; raises `CalledOff` if the pod is not the reason."""
        if not (why := self._unwanted(pod)):
            raise CalledOff(f"the Binding of pod {pod.key} was not sent: the process is ending")
        return BindingOutcome(why, is_gone=True)

    async def _send(self, pod: PodRef, body: bytes) -> None:
        """Create the Binding; raises `TransportError` unless the answer says that it was created."""
        answer = await self._transport.bind(pod.namespace, pod.name, body, wanted=lambda: not self._unwanted(pod))
        if not says_success(answer):
            raise ConnectionLost(f"the answer to a Binding is not the Status of a success: {excerpt(answer)}")

    async def _settle(self, bind: Bind, body: bytes, error: TransportError) -> BindingOutcome:
        """Go on after a first try that failed."""
        backoff = Backoff(self._rng, initial_s=FIRST_DELAY_S, maximum_s=LONGEST_DELAY_S)
        sends = 1
        while True:
            if _needs_look(error):
                outcome = await self._look(bind, error, backoff)
                if outcome is not None:
                    self.lost_races += outcome.is_elsewhere
                    return outcome
            elif not _is_passing(error):
                return BindingOutcome(str(error), is_gone=isinstance(error, ApiError) and error.is_not_found)
            if sends >= MAX_SENDS:
                return BindingOutcome(f"{error}; gave up after {sends} tries")
            await self._pauses.wait(backoff.delay_after_s(error))
            if self._pauses.are_over:
                raise CalledOff(str(error))
            sends += 1
            try:
                await self._send(bind.pod, body)
            except CalledOff:
                return self._unwanted_outcome(bind.pod)
            except TransportError as again:
                error = again
            else:
                return BindingOutcome()

    async def _look(self, bind: Bind, why: TransportError, backoff: Backoff) -> BindingOutcome | None:
        """Read the pod until it can be read; None when it is bound to no node, so that trying again makes sense."""
        while True:
            try:
                seen, _ = await get_pod(self._transport, bind.pod)
                return _verdict(bind, seen, why)
            except ApiError as error:
                if error.is_not_found:
                    return BindingOutcome(f"pod {bind.pod.key} is gone", is_gone=True)
                trouble: Exception = error
            except (TransportError, *UNREADABLE) as error:
                trouble = error
            delay_s = backoff.delay_after_s(trouble)
            remedy = "; the RBAC role needs get on pods" if getattr(trouble, "status", 0) == 403 else ""
            self._report(
                f"whether pod {bind.pod.key} was bound to {bind.node_name} is not known ({why}), and the pod cannot "
                f"be read: {trouble}{remedy}; looking again in {delay_s:.1f} s"
            )
            await self._sleep(delay_s)


def _binding(bind: Bind) -> bytes:
    """The Binding; its uid keeps it from a later pod of the same name."""
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": bind.pod.namespace, "name": bind.pod.name, "uid": bind.pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node_name},
    }
    return msgspec.json.encode(document)


def says_success(answer: bytes) -> bool:
    """Say whether an answer is what API servers give to a Binding that they created.

    Every release answers 201 with a `Status` of `Success`; the same status with another body comes from something else
    on the way. Source: the binding subresource in pkg/registry/core/pod/storage/storage.go.
    """
    try:
        found = msgspec.json.decode(answer, type=_Status)
    except UNREADABLE:
        return False
    return found.kind == "Status" and found.status == "Success"


def _verdict(bind: Bind, seen: SeenPod, why: TransportError) -> BindingOutcome | None:
    """Return how the Binding ended, as far as the pod shows; None if that is still open."""
    if seen.metadata.uid != bind.pod.uid:
        return BindingOutcome(f"pod {bind.pod.key} was replaced by another of the same name", is_gone=True)
    if seen.spec.node_name == bind.node_name:
        return BindingOutcome()
    if seen.spec.node_name:
        return BindingOutcome(f"pod {bind.pod.key} is on node {seen.spec.node_name} already", is_elsewhere=True)
    if seen.metadata.deletion_timestamp is not None:
        return BindingOutcome(f"pod {bind.pod.key} is being deleted", is_gone=True)
    # A conflict over a pod without a node is a real refusal by the server, not the trace of an earlier try of ours.
    return BindingOutcome(str(why)) if _is_conflict(why) else None


def _is_conflict(error: TransportError) -> bool:
    return isinstance(error, ApiError) and error.is_conflict


def _needs_look(error: TransportError) -> bool:
    return error.outcome_unknown or _is_conflict(error)


def _is_passing(error: TransportError) -> bool:
    """Whether the same Binding may succeed later: the server is overloaded, or there was no connection at all.

    If the lease is lost, the pod is for others to bind.
    """
    return error.is_retryable if isinstance(error, ApiError) else not isinstance(error, WriteRefused)
