"""A pod in the queue, with its history of attempts."""

import msgspec

from berth.state.pod_info import PodInfo


class QueuedPod(msgspec.Struct, eq=False):
    """What the queue remembers about a pending pod. Times are seconds on the core's clock."""

    pod: PodInfo
    timestamp: float
    """When the pod came, or last came back from an attempt."""
    initial_attempt: float | None = None
    """When the pod first entered the active queue: from then on it waits for the scheduler rather than a gate."""
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
    """Whether that plugin failed when asked, so that its events may never open the gate."""
    backoff_until: float | None = None
    """When the backoff of the last failed attempt ends, once computed; None from the next pop on."""
    waits_out: bool = False
    """Whether the pod must wait out its backoff, even if the scheduler is idle."""
    was_flushed: bool = False
    """Whether its age, rather than an event, last brought the pod back."""
    token: int = 0
    """The pod's current heap entry; all others are stale, and if this is 0, all are."""
    sort_error: Exception | None = None
    """What went wrong when the QueueSort plugin was last asked for the pod's place in the queue."""

    def __repr__(self) -> str:
        return f"QueuedPod({self.pod.key}, attempts={self.attempts})"

    def copied(self, pod: PodInfo, later_s: float = 0.0) -> "QueuedPod":
        """Return what is remembered about the pod, with its current object, as if everything had happened so much
        later.
        """
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
