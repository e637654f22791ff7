"""From a chosen node to a bound pod: Reserve and Permit in the scheduling cycle, the rest alongside the next cycles.

`BindingCycles.run` is one pod's binding cycle: a generator that yields what it must wait for (Permit, PreBind's writes,
the Binding). The pod is *assumed* all the while: the cache counts it on its node although the API server does not know
yet, so that pods decided next see the room as taken. A pod stops being assumed in exactly one of two ways: the Binding
succeeds and the watch confirms it (if the watch does not, `BindingConfirmer` finds out), or `undo` unreserves it and
makes the cache forget it.
"""

from typing import Self

from berth.cycle.attempt import Attempt
from berth.cycle.confirmation import BindingConfirmer, Bound
from berth.cycle.conflicts import Conflicts
from berth.cycle.dispatcher import THROWN_IN, Dispatcher
from berth.cycle.extender_bind import bind_by_extender
from berth.cycle.failure import SCHEDULER_ERROR, UNSCHEDULABLE, FailureHandler, pod_event
from berth.cycle.pods_in_pre_bind import PodsInPreBind
from berth.cycle.pre_bind import run_plugin, run_pre_bind, will_wait
from berth.cycle.reports import Reporter
from berth.framework.blame import blamed, contained
from berth.framework.effects import PatchPodStatus, PodRef, Steps, WaitUntil
from berth.framework.events import ASSIGNED_POD_DELETE
from berth.framework.status import Code, Status, error, is_success
from berth.framework.waiting_pods import TODAYS_WORDING, PermitWording, WaitingPod, WaitingPods
from berth.queue.queue import SchedulingQueue
from berth.state.cache import Cache, on_node
from berth.state.queued_pod import QueuedPod


class BindingCycles:
    """Binds assumed pods, each alongside the scheduling cycles that follow."""

    __slots__ = (
        "_cache",
        "_confirmer",
        "_conflicts",
        "_dispatcher",
        "_failure_handler",
        "_in_pre_bind",
        "_queue",
        "_reporter",
        "_tells_expectation",
        "_waiting",
        "_wording",
    )

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        waiting: WaitingPods,
        failure_handler: FailureHandler,
        dispatcher: Dispatcher,
        reporter: Reporter,
        in_pre_bind: PodsInPreBind,
        confirmer: BindingConfirmer,
        conflicts: Conflicts,
        *,
        wording: PermitWording = TODAYS_WORDING,
        tells_expectation: bool = False,
    ) -> None:
        """`tells_expectation` is the gate NominatedNodeNameForExpectation; `wording` that of Permit's rejections."""
        self._cache = cache
        self._queue = queue
        self._waiting = waiting
        self._failure_handler = failure_handler
        self._dispatcher = dispatcher
        self._reporter = reporter
        self._in_pre_bind = in_pre_bind
        self._confirmer = confirmer
        self._conflicts = conflicts
        self._wording = wording
        self._tells_expectation = tells_expectation

    def reserve(self, attempt: Attempt, node_name: str) -> tuple[Status | None, dict[str, float]]:
        """Assume the pod, run Reserve and Permit; return a failure, or Permit's timeouts if the pod must wait."""
        try:
            return reserve_and_permit(self._cache, attempt, node_name, self._wording)
        except BaseException as raised:  # a plugin's bug ends this attempt only
            bug = contained(raised)
            return self._reporter.broke(attempt.pod, bug), {}

    def run(self, queued: QueuedPod, attempt: Attempt, node_name: str, timeouts_s: dict[str, float]) -> Steps[None]:
        """Bind an assumed pod; `timeouts_s` has those of the Permit plugins that hold it, by plugin."""
        pod = attempt.pod
        waiting = self._hold(attempt, node_name, timeouts_s)
        expected = ""
        try:
            work = self._tells_expectation and attempt.profile.runner.run(
                "PreBindPreFlight", will_wait, attempt.profile, attempt, node_name
            )
            status = work if isinstance(work, Status) else None
            if status is None:
                # Only if binding takes a while (KEP-5278): otherwise the Binding itself tells as soon, without an extra
                # write.
                if self._tells_expectation and (waiting is not None or work):
                    # Meanwhile readers of the pod learn where it is going (status.nominatedNodeName).
                    expected = node_name
                    self._dispatcher.tell(PatchPodStatus(PodRef.of(pod), nominated_node_name=node_name))
                status = yield from self._bind(attempt, node_name, waiting)
        except BaseException as raised:  # a plugin's bug ends this attempt only
            bug = contained(raised, THROWN_IN)
            status = self._reporter.broke(pod, bug)
        self._reporter.tell_failed_calls(attempt, "bind")
        if status is not None:
            self._waiting.remove(pod.uid)
            self.undo(queued, attempt, node_name, status, expected)
        else:
            self._bound(queued, attempt, node_name)

    def call_off(self, reason: str) -> None:
        """Call off the pods that wait for Permit, and those in PreBind."""
        for waiting in self._waiting:
            waiting.reject("", reason)
        for uid in self._in_pre_bind.uids():
            self._in_pre_bind.cancel(uid, reason)

    def undo(self, queued: QueuedPod, attempt: Attempt, node_name: str, status: Status, expected: str = "") -> None:
        """Undo a choice that could not be carried out; the room that it frees may help others.

        `expected` is the node that the API server was told to expect the pod on, if it was told.
        """
        pod = attempt.pod
        try:
            undo(self._cache, attempt, node_name)
        except BaseException as raised:  # the pod has been forgotten even so; go on to queue it again
            bug = contained(raised)
            self._reporter.broke(pod, bug)
        rejected = status.code.is_rejection
        is_gone = self._failure_handler.is_gone(pod)
        self._reporter.instrument.binding_failed(pod, status.message, is_rejection=rejected, is_gone=is_gone)
        plugins = {status.plugin} if rejected and status.plugin else set()
        reason = UNSCHEDULABLE if rejected else SCHEDULER_ERROR
        self._failure_handler.fail(
            queued, reason, status.message, plugins, nomination="", told=expected, waits_out=True
        )
        # Not for the pod itself: that its own room is free again is no reason to retry it at once.
        self._queue.move(ASSIGNED_POD_DELETE, on_node(pod, node_name), None, self._dispatcher.now(), except_uid=pod.uid)

    def _hold(self, attempt: Attempt, node_name: str, timeouts_s: dict[str, float]) -> WaitingPod | None:
        if not timeouts_s:
            return None
        now = self._dispatcher.now()
        deadlines = {plugin: now + timeout_s for plugin, timeout_s in timeouts_s.items()}
        waiting = WaitingPod(attempt.pod, node_name, deadlines, now, attempt.permit_words)
        self._waiting.add(waiting)
        self._reporter.instrument.waits_on_permit(waiting)
        return waiting

    def _bind(self, attempt: Attempt, node_name: str, waiting: WaitingPod | None) -> Steps[Status | None]:
        """Wait for Permit, run PreBind, then Bind by an extender or by plugins; return what stopped it, if anything."""
        if waiting is not None:
            while not waiting.is_settled:
                # Plugins that have allowed the pod are no longer in here; the first of the others to time out rejects
                # it.
                yield WaitUntil(lambda: waiting.is_settled, min(waiting.deadlines.values()))
            verdict = waiting.verdict
            label = (Code.SUCCESS if verdict is None else verdict.code).label
            self._reporter.instrument.waited_on_permit(label, self._dispatcher.now() - waiting.waiting_since)
            if verdict is not None:
                return self._wording.of_wait(verdict, attempt.pod)
        # From here on a failure sends the pod to backoff whatever happens meanwhile, so no events need to be kept for
        # it.
        self._queue.done(attempt.pod.uid)
        self._reporter.instrument.binding(attempt.pod)
        self._in_pre_bind.begin(attempt.pod.uid)
        try:
            status = yield from attempt.profile.runner.steps(
                "PreBind", run_pre_bind(self._dispatcher, attempt, node_name), attempt.pod
            )
        finally:
            called_off = self._in_pre_bind.end(attempt.pod.uid)
        # It was called off while it waited for the answer to PreBind's last write. So nothing was interrupted, and
        # still the pod must not be bound.
        if status is None and called_off:
            return error(called_off)
        if status is None:
            status = yield from _bind(attempt, node_name, self._confirmer)
        return status

    def _bound(self, queued: QueuedPod, attempt: Attempt, node_name: str) -> None:
        """Report that the pod is bound, and run PostBind."""
        pod, now = attempt.pod, self._dispatcher.now()
        self._cache.finish_binding(pod.uid, now)
        self._conflicts.bound(pod.uid)
        self._confirmer.note(pod.uid, Bound(queued, attempt, node_name))
        self._reporter.instrument.bound(queued, node_name, now)
        note = f"Successfully assigned {pod.key} to {node_name}"
        self._dispatcher.tell(pod_event(pod, "Normal", "Scheduled", "Binding", note))
        attempt.profile.runner.run("PostBind", self._post_bind, attempt, node_name)

    def _post_bind(self, attempt: Attempt, node_name: str) -> None:
        for plugin in attempt.profile.post_bind:
            try:
                plugin.post_bind(attempt.state, attempt.pod, node_name)
            except BaseException as raised:  # PostBind cannot undo the binding; the other plugins still hear of it
                bug = contained(raised)
                self._reporter.broke(attempt.pod, bug)


def reserve_and_permit(
    cache: Cache, attempt: Attempt, node_name: str, wording: PermitWording = TODAYS_WORDING
) -> tuple[Status | None, dict[str, float]]:
    """Assume the pod, then run Reserve and Permit. Return a failure, or Permit's timeouts if the pod must wait."""
    profile, state, pod = attempt.profile, attempt.state, attempt.pod
    # First, as upstream: Reserve and Permit find the pod already on its node.
    cache.assume(pod, node_name)
    status = profile.run_reserve(state, pod, node_name)
    if status is not None:
        return wording.of_reserve(status), {}
    permitted = profile.run_permit(state, pod, node_name)
    if permitted.status is None or permitted.status.code is Code.WAIT:
        attempt.permit_words = permitted.words
        return None, dict(permitted.timeouts_s)
    return wording.of_rejection(permitted.status, pod), {}


def undo(cache: Cache, attempt: Attempt, node_name: str) -> None:
    """Release what was reserved, in reverse order, and forget the pod."""
    try:
        attempt.profile.run_unreserve(attempt.state, attempt.pod, node_name)
    finally:  # whatever a plugin does, the room is given back
        cache.forget(attempt.pod.uid)


class Reservations:
    """Pods that are given places to see what comes of it, each seeing those before it; in the end all are taken back.

    A context manager. No cycle may go on meanwhile but the one that asks.
    """

    __slots__ = ("_cache", "_made")

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._made: list[tuple[Attempt, str]] = []

    def __len__(self) -> int:
        return len(self._made)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.undo()

    def add(self, attempt: Attempt, node_name: str, *, asks_permit: bool = True) -> Status | None:
        """Assume a pod and run Reserve and Permit, which may have it wait; return a failure, and keep nothing then."""
        self._made.append((attempt, node_name))  # first: whatever plugins do, `undo` knows of the pod
        try:
            if asks_permit:
                status, _ = reserve_and_permit(self._cache, attempt, node_name)
            else:
                self._cache.assume(attempt.pod, node_name)
                status = attempt.profile.run_reserve(attempt.state, attempt.pod, node_name)
        except BaseException:
            self._undo_last()
            raise
        if status is not None:
            self._undo_last()
        return status

    def undo(self) -> None:
        """Take all of them back: the last first, since a later reservation may build on an earlier one."""
        self.undo_to(0)

    def undo_to(self, count: int) -> None:
        """Take all but the first so many of them back."""
        while len(self._made) > count:
            self._undo_last()

    def _undo_last(self) -> None:
        undo(self._cache, *self._made.pop())


def _bind(attempt: Attempt, node_name: str, confirmer: BindingConfirmer) -> Steps[Status | None]:
    if attempt.profile.extenders:
        is_taken, status = yield from bind_by_extender(attempt, node_name, confirmer)
        if is_taken:
            return status
    return (yield from attempt.profile.runner.steps("Bind", bind_by_plugins(attempt, node_name), attempt.pod))


def bind_by_plugins(attempt: Attempt, node_name: str) -> Steps[Status | None]:
    """Bind with the first plugin that does not Skip."""
    for plugin in attempt.profile.bind:
        status = yield from run_plugin("Bind", plugin, plugin.bind, attempt, node_name)
        if status is not None and status.code is Code.SKIP:
            continue
        return None if is_success(status) or status is None else blamed("Bind", plugin.name, status)
    return error("no Bind plugin took the pod: enable DefaultBinder, or another that does not Skip")
