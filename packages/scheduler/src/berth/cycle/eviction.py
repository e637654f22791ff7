"""Makes room for a nominated pod: evicts its victims, and takes the node from nominated pods of lower priority.

Called by the core when PostFilter has named victims. Evictions run alongside the scheduling cycles that follow, as
bindings do; meanwhile the preemptor stays out of the active queue (`Evictions`), and is tried again when its
victims have gone, or after a backoff if the API server refused. With the gate SchedulerAsyncPreemption off, the cycle
waits for the API server's answers instead.

An eviction is over when the watch shows the victim going, not when the API server has answered: until then the cache
counts the victim as running, and a preemptor that was tried would find its room taken and have others evicted
elsewhere. A watch may be late or broken, and an answer wrong, so a victim that is still counted after a while is looked
up:

    going ─────────→ the watch will show it: look again later
    gone ──────────→ taken in as deleted
    staying ───────→ as if the eviction had been refused
    cannot be read → look again later
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from berth.api.pod import Pod
from berth.cycle.attempt import Attempt, Outcome
from berth.cycle.dispatcher import Dispatcher
from berth.cycle.instrument import Instrument
from berth.cycle.pods_in_pre_bind import PodsInPreBind
from berth.framework.effects import (
    EmitEvent,
    EvictPod,
    PatchPodStatus,
    PodRead,
    PodRef,
    ReadPod,
    Steps,
    WaitUntil,
    call,
)
from berth.framework.evictions import Evictions
from berth.framework.handle import Handle
from berth.framework.status import error
from berth.queue.queue import SchedulingQueue
from berth.state.nominator import Nominator
from berth.state.pod_groups import group_of
from berth.state.pod_info import PodInfo

IN_MEMORY = " (in kube-scheduler memory)."
"""The end of the event of a victim that was not deleted from the API server."""
AT_ONCE = 16
"""How many victims of one preemption are evicted at the same time: upstream's `parallelism`."""
LOOK_AFTER_S = 30.0
"""How long the watch may take to show a victim going before the API server is asked for it, and the pause between such
requests.
"""


class Preemptor(NamedTuple):
    """The pod, or the whole group, for which room is made."""

    key: str
    """Its key in `Evictions`."""
    kind: str
    """`pod` or `podgroup`, for the message to the victims."""
    uid: str
    priority: int
    uids: tuple[str, ...]
    """The pods that wait for the room."""
    ref_pod: PodInfo
    """The pod itself, or one of the group."""


class PendingVictims:
    """The victims of one preemption. Once the eviction of one is refused, no more are evicted."""

    __slots__ = ("_asked", "_left", "begun_at", "refusal")

    def __init__(self, victims: Iterable[tuple[PodInfo, str]], begun_at: float) -> None:
        """Take the victims, each with its node, in the order in which to evict them."""
        self._left = deque(victims)
        self._asked = 0
        self.begun_at = begun_at
        self.refusal = ""
        """Why the first refused eviction was refused."""

    @property
    def are_answered(self) -> bool:
        """Whether the API server has answered for all evictions that were requested."""
        return not self._left and not self._asked

    def take(self) -> tuple[PodInfo, str] | None:
        """Return the next victim to evict, or None if there is none for now."""
        # The last is evicted only once all others are known to go, so that at least that one never dies in vain.
        if not self._left or (len(self._left) == 1 and self._asked):
            return None
        self._asked += 1
        return self._left.popleft()

    def answered(self, refusal: str) -> Sequence[PodInfo]:
        """Note the answer for one of them; return those that will not be evicted because of it."""
        self._asked -= 1
        if not refusal:
            return ()
        self.refusal = self.refusal or refusal
        spared = [victim for victim, _ in self._left]
        self._left.clear()
        return spared


class Evictor:
    """Carries out what PostFilter found."""

    __slots__ = (
        "_dispatcher",
        "_evictions",
        "_feed",
        "_handle",
        "_in_pre_bind",
        "_instrument",
        "_nominator",
        "_queue",
        "_waits",
    )

    def __init__(
        self,
        handle: Handle,
        evictions: Evictions,
        nominator: Nominator,
        queue: SchedulingQueue,
        in_pre_bind: PodsInPreBind | None,
        dispatcher: Dispatcher,
        instrument: Instrument,
        feed: Callable[[Literal["DELETED"], Pod], None],
    ) -> None:
        """`feed` reports that a pod is gone, as the watch would.

        Without `in_pre_bind`, pods in PreBind are deleted and those in Permit rejected, as in v1.20.
        """
        self._feed = feed
        self._in_pre_bind = in_pre_bind
        self._instrument = instrument
        self._handle = handle
        self._evictions = evictions
        self._nominator = nominator
        self._queue = queue
        self._dispatcher = dispatcher
        self._waits = not handle.features.enabled("SchedulerAsyncPreemption")

    def make_room(self, attempt: Attempt) -> Steps[None]:
        """Evict the victims of an attempt, if it has any."""
        outcome = attempt.outcome
        if not outcome.victims:
            return
        node_name = outcome.nominated_node_name or ""
        refusal = yield from self.evict(_preemptor(attempt.pod), {node_name: outcome.victims})
        if refusal:
            attempt.outcome = _given_up(outcome, refusal)

    def evict(self, preemptor: Preemptor, victims_on: Mapping[str, Sequence[PodInfo]]) -> Steps[str]:
        """Evict these victims, given by node; if the cycle waits for the answers, return why one was refused."""
        for node_name in victims_on:
            self._clear_nominations(preemptor, node_name)
        # A victim that is already being deleted goes by itself, and wakes the preemptor as the others do.
        going = [(v, node) for node, victims in victims_on.items() for v in victims if not v.is_terminating]
        self._instrument.making_room(preemptor.ref_pod, victims_on)
        self._evictions.begin(preemptor.key, [victim for victim, _ in going])
        left = PendingVictims(going, self._dispatcher.now())
        if self._waits:
            yield from self._evict_all(left, preemptor)
        else:
            # The last victim waits for the answers for all others, so it needs no generator of its own.
            for _ in range(min(AT_ONCE, max(1, len(going) - 1))):
                self._dispatcher.start(self._evict_all(left, preemptor))
        return left.refusal

    def _clear_nominations(self, preemptor: Preemptor, node_name: str) -> None:
        """Clear the nomination of pods of lower priority on the node, and have them tried again to find another."""
        nominator = self._nominator
        for other in nominator.pods_on(node_name):
            if other.priority < preemptor.priority and other.uid not in preemptor.uids:
                nominator.withdraw(other.uid)
                self._dispatcher.tell(PatchPodStatus(PodRef.of(other), nominated_node_name=""))
                self._queue.retry(other.uid, self._dispatcher.now())

    def _evict_all(self, victims: PendingVictims, preemptor: Preemptor) -> Steps[None]:
        """Evict one victim after another while there are any left; several of these run at a time."""
        while (entry := victims.take()) is not None:
            victim, node_name = entry
            refusal = yield from self._evict(victim, preemptor, node_name)
            self._instrument.victim_answered(victim, preemptor.ref_pod, node_name, refusal)
            self._evictions.spare(preemptor.key, victims.answered(refusal))
            if victims.are_answered and not self._waits:
                self._instrument.room_made(bool(victims.refusal), self._dispatcher.now() - victims.begun_at)
            if refusal:
                self._ended(victim, preemptor, is_refused=True)
            else:
                self._dispatcher.start(self._see_off(victim, preemptor))

    def _see_off(self, victim: PodInfo, preemptor: Preemptor) -> Steps[None]:
        """Wait until the watch shows a victim going; if that takes long, look it up."""

        def is_shown() -> bool:
            return not self._evictions.is_staying(victim.uid)

        is_refused = False
        while not is_refused and not is_shown():
            if (yield WaitUntil(is_shown, self._dispatcher.now() + LOOK_AFTER_S)):
                break
            answer = yield from call(ReadPod(PodRef.of(victim)))
            found: PodRead | None = answer.result
            if found is not None and found.is_gone:
                self._feed("DELETED", victim.pod)
            is_refused = found is not None and found.pod is not None and not found.pod.metadata.deletion_timestamp
        self._ended(victim, preemptor, is_refused=is_refused)

    def _evict(self, victim: PodInfo, preemptor: Preemptor, node_name: str) -> Steps[str]:
        """Evict one pod; if it is still being bound, its binding is called off and it goes back to the queue."""
        scheduler, refusal, where = preemptor.ref_pod.spec.scheduler_name, "", ""
        if self._is_called_off(victim, preemptor):
            where = IN_MEMORY if self._in_pre_bind is not None else ""
        else:
            message = f"{scheduler}: preempting to accommodate a higher priority {preemptor.kind}"
            generation = victim.metadata.generation
            effect = EvictPod(PodRef.of(victim), message, PodRef.of(preemptor.ref_pod), generation)
            answer = yield from call(effect)
            refusal = answer.error
        if not refusal:
            note = f"Preempted by {preemptor.kind} {preemptor.uid} on node {node_name}{where}"
            self._dispatcher.tell(EmitEvent(PodRef.of(victim), "Normal", "Preempted", "Preempting", note, scheduler))
        return refusal

    def _is_called_off(self, victim: PodInfo, preemptor: Preemptor) -> bool:
        """Call the victim's binding off if Permit still holds it or PreBind is at work on it; say whether that was
        so.
        """
        if self._in_pre_bind is None:
            return self._handle.waiting.reject(victim.uid, "", "preempted")
        waiting = self._handle.waiting.get(victim.uid)
        if waiting is not None:
            return waiting.preempt("", "preempted")
        return self._in_pre_bind.cancel(victim.uid, f"preempted by {preemptor.kind} {preemptor.ref_pod.key}")

    def _ended(self, victim: PodInfo, preemptor: Preemptor, *, is_refused: bool) -> None:
        """Note what became of a victim; after the last one, make sure that something wakes the preemptor."""
        has_failed = self._evictions.ended(preemptor.key, victim.uid, is_refused=is_refused)
        if has_failed is None:
            return
        group = group_of(preemptor.ref_pod)
        late = self._handle.pod_groups.members(group) if group is not None else ()  # gated since, for the same reason
        for uid in dict.fromkeys((*preemptor.uids, *late)):
            queued = self._queue.find(uid)
            # A gated pod was woken while it had to wait: the victims may be gone already, and no other event will
            # follow.
            if has_failed or (queued is not None and queued.is_gated):
                self._queue.retry(uid, self._dispatcher.now(), after_error=has_failed)


def _preemptor(pod: PodInfo) -> Preemptor:
    return Preemptor(pod.uid, "pod", pod.uid, pod.priority, (pod.uid,), pod)


def _given_up(outcome: Outcome, refusal: str) -> Outcome:
    """Return the outcome without a nomination, since a victim stays."""
    status = error(f"preemption: {refusal}")
    if outcome.diagnosis is not None:
        outcome.diagnosis.post_filter_message = status.message
    return msgspec.structs.replace(outcome, nominated_node_name=None, post_filter_status=status)
