"""Carries out effects of the core as requests to the API server, and returns the answers to the core.

The live scheduler gives every effect to `carry_out`, which returns at once. Bindings have most of the connections;
status patches, events and other calls have a few each and are bounded, so that none of them can hold up a binding.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any, assert_never

import msgspec

from berth.api.errors import ApiError, CalledOff, ConnectionLost, TransportError
from berth.api.meta import ObjectReference
from berth.api.resources import RESOURCES
from berth.api.untrusted import UNREADABLE, problem_of, read_deep
from berth.extender.client import ExtenderClient
from berth.framework.custom_resources import CustomResources
from berth.framework.effects import (
    Answer,
    Answerable,
    ApiCall,
    Bind,
    CallExtenders,
    Effect,
    EmitEvent,
    EvictPod,
    PatchPodStatus,
    PodRef,
    ReadPod,
    Request,
    SetPodGroupCondition,
)
from berth.kube.events import EventRecorder
from berth.kube.transport import MERGE_PATCH, STRATEGIC_MERGE_PATCH, Transport
from berth.runtime.acting.bindings import BindingClient
from berth.runtime.acting.group_status import GroupStatusPatcher
from berth.runtime.acting.pod_reads import read_pod
from berth.runtime.acting.pod_status import Lookup, PodStatusPatcher
from berth.runtime.acting.worker_pool import WorkerPool
from berth.runtime.observing.call_timer import BINDING, OTHER, STATUS_PATCH, CallTimer
from berth.runtime.observing.work_queues import WorkQueues
from berth.state.objects import ObjectStore

BINDINGS_AT_ONCE = 32
"""Each needs a connection, with a handshake and 120 kB; more of them wait in the API server instead of here."""
CALLS_AT_ONCE = 16
EXTENDER_CALLS_AT_ONCE = 64
"""Many pods may be bound by extenders at once; the other verbs are called by one cycle at a time."""
NO_TICKET = 0
GONE_SHOWN_S = 2.0
"""How long the watch may take to show that a pod is gone of which the API server has said so."""
LOOK_EVERY_S = 0.02
LEAVING_AT_ONCE = 1024

_POD = RESOURCES["Pod"]


class Effects:
    """Carries out effects over a transport, and calls `answer` with the answers to requests."""

    __slots__ = (
        "_acting_for", "_answer", "_answer_bound", "_binder", "_binds", "_bug", "_calls", "_extender_calls",
        "_extenders", "_groups", "_leaving", "_lookup", "_pod_written", "_recorder", "_report", "_resources", "_sleep",
        "_statuses", "_timer", "_transport", "prioritizing", "work_queues",
    )  # fmt: skip

    def __init__(
        self,
        transport: Transport,
        recorder: EventRecorder,
        *,
        answer: Callable[[Answer], None],
        answer_bound: Callable[[Answer], None] | None = None,
        lookup: Lookup,
        report: Callable[[str], None],
        bug: Callable[[Exception], None],
        rng: random.Random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        extenders: ExtenderClient | None = None,
        timer: CallTimer | None = None,
        acting_for: Callable[[str], Transport] | None = None,
        pod_written: Callable[[], None] = lambda: None,
        resources: Callable[[], CustomResources] = lambda: CustomResources(ObjectStore()),
    ) -> None:
        """`acting_for` gives the transport for what is done on behalf of a namespace; by default the same for all.

        `answer_bound` is called instead of `answer` if a Binding has succeeded, which is not urgent.

        `pod_written` is called when a binding or an eviction that `lookup` does not show yet was answered: the watch
        must have news of the pod. `resources` gives those that the current plugins follow.
        """
        self._pod_written = pod_written
        self._resources = resources
        self._lookup = lookup
        self._acting_for = acting_for or (lambda _: transport)
        self._transport = transport
        self._extenders = extenders or ExtenderClient(())
        self.prioritizing = 0
        """How many extenders are being asked for scores."""
        self._recorder = recorder
        self._answer = answer
        self._answer_bound = answer_bound or answer
        self._report = report
        self._bug = bug
        self._timer = timer or CallTimer()
        self._binder = BindingClient(transport, report, rng, sleep, self._why_unwanted)
        self.work_queues = WorkQueues()
        """What waits for the API server or for extenders, and what is under way."""
        self._binds: WorkerPool[Request] = WorkerPool(
            BINDINGS_AT_ONCE, self._bind, bug, self.work_queues.queue(BINDING)
        )
        self._sleep = sleep
        self._leaving: WorkerPool[tuple[Request, str]] = WorkerPool(LEAVING_AT_ONCE, self._tell_once_shown, bug)
        self._calls: WorkerPool[Request] = WorkerPool(CALLS_AT_ONCE, self._call, bug, self.work_queues.queue(OTHER))
        self._extender_calls: WorkerPool[Request] = WorkerPool(
            EXTENDER_CALLS_AT_ONCE, self._call, bug, self.work_queues.queue("extender_call")
        )
        options: Any = {"report": report, "bug": bug, "rng": rng, "sleep": sleep}
        queue = self.work_queues.queue(STATUS_PATCH)
        self._statuses = PodStatusPatcher(transport, lookup, timer=self._timer, queue=queue, **options)
        queue = self.work_queues.queue("pod_group_status_patch")
        self._groups = GroupStatusPatcher(transport, queue=queue, **options)

    @property
    def pending(self) -> dict[str, int]:
        """How many calls are under way or waiting, by upstream's names for them."""
        return {
            BINDING: len(self._binds) + len(self._leaving),
            STATUS_PATCH: len(self._statuses),
            OTHER: len(self._calls),
        }

    @property
    def lost_races(self) -> int:
        """Bindings that failed because somebody else had bound the pod to another node."""
        return self._binder.lost_races

    @property
    def pending_bindings(self) -> int:
        """How many bindings are not answered yet, those by extenders included."""
        return len(self._binds) + len(self._extender_calls)

    def _pool_for(self, effect: Answerable) -> WorkerPool[Request]:
        if isinstance(effect, Bind):
            return self._binds
        return self._extender_calls if isinstance(effect, CallExtenders) else self._calls

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """Start to carry these out, in order as far as order matters, and return at once."""
        for effect in effects:
            if isinstance(effect, Request):
                self._pool_for(effect.effect).put(effect)
            elif isinstance(effect, EmitEvent):
                self._record(effect)
            elif isinstance(effect, PatchPodStatus):
                self._statuses.put(effect)
            elif isinstance(effect, SetPodGroupCondition):
                self._groups.put(effect)
            else:
                self._calls.put(Request(NO_TICKET, effect))

    async def use_extenders(self, extenders: ExtenderClient) -> None:
        """Use these extenders from now on; no calls to the old ones are under way any more."""
        before, self._extenders = self._extenders, extenders
        if before is not extenders:
            await before.close()

    def call_off(self) -> int:
        """Start nothing more except events; return how many waiting bindings are left to the next leader."""
        waiting = self._binds.call_off()
        for pool in (self._extender_calls, self._calls):
            pool.call_off()
        self._binder.call_off()
        for statuses in (self._statuses, self._groups):
            statuses.call_off()
        return waiting

    async def drain(self, timeout_s: float) -> bool:
        """Wait for everything under way except events, bindings first; False if not all of it was done in time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        done = True
        parts = (self._binds, self._leaving, self._extender_calls, self._calls, self._statuses, self._groups)
        for part in parts:
            done = await part.drain(max(0.0, deadline - loop.time())) and done
        return done

    async def stop(self) -> int:
        """Break off what is still under way; return how many bindings and calls were broken off."""
        broken_off = sum([await part.stop() for part in (self._binds, self._extender_calls, self._calls)])
        await self._leaving.stop()
        await self._statuses.stop()
        await self._groups.stop()
        await self._extenders.close()
        return broken_off

    def _record(self, effect: EmitEvent) -> None:
        pod = effect.pod
        self._recorder.record(
            ObjectReference("v1", "Pod", pod.namespace, pod.name, pod.uid),
            type=effect.type,
            reason=effect.reason,
            action=effect.action,
            note=effect.note,
            reporting_controller=effect.reporting_controller,
        )

    async def _bind(self, request: Request) -> None:
        bind = request.effect
        assert isinstance(bind, Bind), f"{bind} is not for this pool"
        error, is_gone = "this is a bug: see the log", False
        try:
            patch_done = self._statuses.withdraw(bind.pod.uid)
            if patch_done is not None:
                await patch_done
            started = self._timer.now()
            error, is_gone, _ = await self._binder.bind(bind)
            self._timer.over(BINDING, started, has_failed=bool(error))
            # If it was refused, the pod has usually gone or is elsewhere, which the watch must show as well.
            known = self._lookup(bind.pod)
            if known is not None and not known.spec.node_name:
                self._pod_written()
        except CalledOff as off:
            if self._binds.is_called_off:
                return
            error = str(off)
        except Exception as bug:
            self._bug(bug)
        if is_gone:
            self._leaving.put((request, error))
            return
        tell = self._answer if error else self._answer_bound
        tell(Answer(request.ticket, error=error))

    async def _tell_once_shown(self, ended: tuple[Request, str]) -> None:
        """Answer once the watch has shown a pod to be gone: told before that, the core would try it again.

        What the informer has taken in reaches the core a moment later, so there is always a pause before the answer.
        """
        request, error = ended
        assert isinstance(request.effect, Bind), "only pods that were to be bound wait here"
        for _ in range(round(GONE_SHOWN_S / LOOK_EVERY_S)):
            await self._sleep(LOOK_EVERY_S)
            if self._why_unwanted(request.effect.pod):
                break
        self._answer(Answer(request.ticket, error=error))

    def _why_unwanted(self, pod: PodRef) -> str:
        """Say why a pod must not be bound any more, according to the watch."""
        known = self._lookup(pod)
        if known is None:
            return f"pod {pod.key} is gone"
        return f"pod {pod.key} is being deleted" if known.metadata.deletion_timestamp is not None else ""

    async def _call(self, request: Request) -> None:
        result, error = None, ""
        started = self._timer.now()
        try:
            result = await self._carry_out_one(request.effect)
        except CalledOff:
            return
        except TransportError as refused:
            error = str(refused)
        except UNREADABLE as odd:
            error = f"the answer cannot be read: {problem_of(odd)}"
        except Exception as bug:
            self._bug(bug)
            error = f"{type(bug).__name__}: {bug}"
        self._tell(request.effect, started, has_failed=bool(error))
        if request.ticket != NO_TICKET:
            self._answer(Answer(request.ticket, result, error))
        if error and (request.ticket == NO_TICKET or isinstance(request.effect, EvictPod)):
            self._report(f"{type(request.effect).__name__} failed: {error}")

    def _tell(self, effect: Any, started: float, *, has_failed: bool) -> None:
        """Report a finished request to the instrument, unless it went to extenders: they are not the API server."""
        if isinstance(effect, CallExtenders):
            return
        self._timer.over(OTHER, started, has_failed=has_failed)
        if isinstance(effect, ApiCall) and (effect.kind, effect.verb) == ("ResourceClaim", "create"):
            self._timer.instrument.claim_created(has_failed=has_failed)

    async def _carry_out_one(self, effect: Any) -> Any:
        """Carry out one of the other effects: not a binding, status patch or event. Raises `TransportError`."""
        if isinstance(effect, EvictPod):
            await evict(self._acting_for(effect.preemptor.namespace), effect)
            known = self._lookup(effect.pod)
            if known is not None and known.metadata.deletion_timestamp is None:
                self._pod_written()
            return None
        if isinstance(effect, ReadPod):
            return await read_pod(self._transport, effect.pod)
        if isinstance(effect, ApiCall):
            return await call(self._transport, effect, self._resources())
        if isinstance(effect, CallExtenders):
            return await self._call_extenders(effect)
        raise TypeError(f"nobody knows how to carry out {type(effect).__name__}")

    async def _call_extenders(self, effect: CallExtenders) -> Any:
        """Call them all at the same time."""
        asked = sum(call.verb == "prioritize" for call in effect.calls)
        self.prioritizing += asked
        try:
            return await self._extenders.call_all(effect.calls)
        finally:
            self.prioritizing -= asked


async def evict(transport: Transport, effect: EvictPod) -> None:
    """Note in the victim's status why it goes, then delete it; a victim that is already gone is fine.

    A conflict means that another pod has its name, or that two writes collided: only the pod itself tells which.
    """
    pod = effect.pod
    condition: dict[str, Any] = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": effect.message,
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    if effect.observed_generation:
        condition["observedGeneration"] = effect.observed_generation
    patch = msgspec.json.encode({"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}})
    options = msgspec.json.encode(
        {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid}},
    )
    try:
        await transport.patch(_POD, pod.namespace, pod.name, patch, STRATEGIC_MERGE_PATCH, subresource="status")
        await transport.delete(_POD, pod.namespace, pod.name, options)
    except ApiError as error:
        if error.is_not_found or (error.is_conflict and (await read_pod(transport, pod)).is_gone):
            return
        raise


class UnknownKind(TransportError):  # noqa: N818 - it says what is the case
    """A call is about objects of an unknown kind."""


async def call(transport: Transport, effect: ApiCall, resources: CustomResources) -> Any:
    """Make any other call; return the answer as parsed JSON. Raises `ConnectionLost` if it cannot be read, since its
    effect is then unknown.
    """
    resource = resources.resource_of(effect.kind)
    if resource is None:
        raise UnknownKind(resources.unknown(effect.kind))
    place, body = (effect.namespace, effect.name), msgspec.json.encode(dict(effect.body))
    if effect.verb == "get":
        answer = await transport.get(resource, *place)
    elif effect.verb == "create":
        name = effect.name if effect.subresource else ""
        answer = await transport.create(resource, effect.namespace, body, name=name, subresource=effect.subresource)
    elif effect.verb == "update":
        answer = await transport.update(resource, *place, body, subresource=effect.subresource)
    elif effect.verb == "patch":
        answer = await transport.patch(resource, *place, body, MERGE_PATCH, subresource=effect.subresource)
    elif effect.verb == "delete":
        answer = await transport.delete(resource, *place, body if effect.body else b"")
    else:
        assert_never(effect.verb)
    try:
        return read_deep(msgspec.json.decode, answer) if answer else None
    except UNREADABLE as error:
        problem = problem_of(error)
        raise ConnectionLost(f"the answer to {effect.verb} {effect.kind} cannot be read: {problem}") from error
