"""A pod in the queue, with its history of attempts."""

import msgspec

from berth.state.pod_info import PodInfo


class QueuedPod(msgspec.Struct, eq=False):
    """What the queue remembers of a pending pod. Times are seconds on the core's clock."""

    pod: PodInfo
    timestamp: float
    """When the pod came, or last came back from an attempt."""
    initial_attempt: float | None = None
    """When the pod first entered the active queue: from then on it waits for the scheduler, not for a gate."""
    attempts: int = 0
    unschedulable_count: int = 0
    """How many attempts ended with a rejection."""
    consecutive_errors: int = 0
    """How many attempts have ended with an error since the last rejection."""
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    gating_plugin: str = ""
    """The PreEnqueue plugin that keeps the pod out. It counts among the rejectors until the next attempt fails."""
    gating_reasons: tuple[str, ...] = ()
    """What that plugin said."""
    is_gate_broken: bool = False
    """Whether that plugin failed when it was asked, so that none of its events need ever open the gate."""
    backoff_until: float | None = None
    """When the backoff of the last failed attempt ends, once it has been asked for; None from the next pop on."""
    waits_out: bool = False
    """Whether the pod is not to be tried before its backoff is over, even by an idle scheduler."""
    was_flushed: bool = False
    """Whether its age, and no event, last brought the pod back."""
    token: int = 0
    """Which heap entry is the pod's present one; all others are stale, and so are all of them where this is 0."""
    sort_error: Exception | None = None
    """What went wrong as the QueueSort plugin was asked for the pod's place in the queue, when it was queued last."""

    def __repr__(self) -> str:
        return f"QueuedPod({self.pod.key}, attempts={self.attempts})"

    def copied(self, pod: PodInfo, later_s: float = 0.0) -> "QueuedPod":
        """Return what is remembered of the pod for its present object, as if all of it had happened so much later."""
        copied = msgspec.structs.replace(self, pod=pod, timestamp=self.timestamp + later_s)
        if copied.initial_attempt is not None:
            copied.initial_attempt += later_s
        if copied.backoff_until is not None:
            copied.backoff_until += later_s
        return copied

    @property
    def is_gated(self) -> bool:
        """Say whether PreEnqueue keeps the pod out."""
        return bool(self.gating_plugin)

    @property
    def rejectors(self) -> frozenset[str]:
        """The plugins whose events may wake the pod."""
        return self.unschedulable_plugins | self.pending_plugins
