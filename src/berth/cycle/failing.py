"""What becomes of a pod that was not placed: queued again, and told why in its condition and in an event.

Called by the core when an attempt has failed, in the scheduling cycle or while binding. A pod that is gone or bound
meanwhile is dropped.
"""

from collections.abc import Callable, Iterable

from berth.cycle.attempt import Attempt
from berth.framework.effects import Effect, EmitEvent, PatchPodStatus, PodRef
from berth.queue.queue import SchedulingQueue
from berth.state.nominator import Nominator
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod

UNSCHEDULABLE, SCHEDULER_ERROR = "Unschedulable", "SchedulerError"
"""The reasons of the condition PodScheduled: it fits nowhere as things are, or something went wrong."""


class Failing:
    """Takes failed pods back into the queue. `latest` returns a pending pod as it is now, or None where it is not."""

    __slots__ = ("_latest", "_nominator", "_now", "_queue", "_tell")

    def __init__(
        self,
        queue: SchedulingQueue,
        nominator: Nominator,
        *,
        latest: Callable[[PodInfo], PodInfo | None],
        now: Callable[[], float],
        tell: Callable[[Effect], None],
    ) -> None:
        self._queue = queue
        self._nominator = nominator
        self._latest = latest
        self._now = now
        self._tell = tell

    def reject(self, queued: QueuedPod, attempt: Attempt) -> None:
        """No node was found."""
        diagnosis = attempt.diagnosis
        if attempt.error is not None or diagnosis is None:
            no_nodes = diagnosis is not None and not diagnosis.node_count
            self.fail(queued, UNSCHEDULABLE if no_nodes else SCHEDULER_ERROR, attempt.message, nomination="")
            return
        plugins = (diagnosis.unschedulable_plugins, diagnosis.pending_plugins)
        self.fail(queued, UNSCHEDULABLE, attempt.message, *plugins, nomination=attempt.nominated_node_name)

    def fail(
        self,
        queued: QueuedPod,
        reason: str,
        message: str,
        plugins: Iterable[str] = (),
        pending: Iterable[str] = (),
        *,
        nomination: str | None,
        told: str = "",
    ) -> None:
        """Queue a pod again unless it is gone or bound meanwhile; note why in its condition and an event.

        `nomination` is the node it is nominated to from now on ("" for none, None for what it was before), `told` the
        one that the API server was told lately.
        """
        latest = self._latest(queued.pod)
        if latest is None:
            self._queue.done(queued.pod.uid)
            self._nominator.withdraw(queued.pod.uid)
            return
        queued.pod = latest
        promised = {told, self._nominator.node_of(latest.uid) or "", latest.status.nominated_node_name}
        self._queue.add_unschedulable(queued, plugins, pending, self._now())
        if nomination is not None:  # after the queue, which goes by what the pod's status says
            self._nominator.nominate(latest, nomination)
        self._tell(pod_event(latest, "Warning", "FailedScheduling", "Scheduling", message))
        news = nomination if promised != {nomination} else None
        if not latest.is_told_why(reason, message):
            self._tell(PatchPodStatus(PodRef.of(latest), "False", reason, message, news))
        elif news is not None:
            self._tell(PatchPodStatus(PodRef.of(latest), nominated_node_name=news))


def pod_event(pod: PodInfo, kind: str, reason: str, action: str, note: str) -> EmitEvent:
    """Return an event about a pod."""
    return EmitEvent(PodRef.of(pod), kind, reason, action, note, pod.spec.scheduler_name)
