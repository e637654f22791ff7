"""Pods that Permit holds: with a node, reserved, not yet bound.

Each waits for every plugin that said Wait, and for each of them no longer than that plugin asked for. Other plugins may
list, allow and reject waiting pods (`Handle.waiting`); the core asks `settled(now)` which waits are over.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from berth.config.durations import format_duration_s
from berth.framework.diagnosis import histogram
from berth.framework.status import Code, Status
from berth.state.pod_info import PodInfo

NO_WORDS: Mapping[str, str] = MappingProxyType({})


class PermitWording(NamedTuple):
    """The wording of a rejection by Reserve or Permit.

    In the templates, `{pod}`, `{plugin}` and `{message}` stand for the pod's name, the plugin and its message. Without
    templates a rejection is worded as one by the only node, the chosen one (v1.36, schedule_one.go).
    """

    rejected: str = ""
    while_waiting: str = ""

    def of_reserve(self, status: Status) -> Status:
        """Return the status of a pod that Reserve rejected; the templates do not apply."""
        return status if self.rejected else of_one_node(status)

    def of_rejection(self, status: Status, pod: PodInfo) -> Status:
        """Return the status of a pod that Permit rejected at once."""
        return _told(self.rejected, status, pod)

    def of_wait(self, status: Status, pod: PodInfo) -> Status:
        """Return the status of a pod that was rejected while it waited."""
        return _told(self.while_waiting, status, pod)


def _told(template: str, status: Status, pod: PodInfo) -> Status:
    if not status.code.is_rejection:
        return status
    if not template:
        return of_one_node(status)
    message = template.format(pod=pod.name, plugin=status.plugin, message=status.message)
    return Status(status.code, (message,), status.plugin)


def of_one_node(status: Status) -> Status:
    """Word a rejection as one by the only node there was to choose from; an error stays as it is."""
    if not status.code.is_rejection:
        return status
    reasons = ", ".join(histogram((reason, 1) for reason in status.reasons))
    return Status(status.code, (f"0/1 nodes are available: {reasons}.",), status.plugin)


TODAYS_WORDING = PermitWording()


class WaitingPod:
    """One pod and the plugins it still waits for, with their deadlines."""

    __slots__ = ("deadlines", "node_name", "pod", "verdict", "waiting_since", "words")

    def __init__(
        self, pod: PodInfo, node_name: str, deadlines: dict[str, float], now: float, words: Mapping[str, str] = NO_WORDS
    ) -> None:
        self.pod = pod
        self.node_name = node_name
        self.deadlines = deadlines
        self.words = words
        """The messages with which the plugins held the pod."""
        self.waiting_since = now
        self.verdict: Status | None = None

    @property
    def pending_plugins(self) -> tuple[str, ...]:
        """The plugins that have not allowed the pod yet."""
        return tuple(self.deadlines)

    @property
    def is_settled(self) -> bool:
        """Say whether the wait is over, one way or the other."""
        return self.verdict is not None or not self.deadlines

    def allow(self, plugin: str) -> None:
        """Allow the pod on behalf of one plugin; it goes on once all have allowed it."""
        self.deadlines.pop(plugin, None)

    def reject(self, plugin: str, reason: str) -> None:
        """Reject the pod; the first rejection counts."""
        if not self.is_settled:
            self.verdict = Status(Code.UNSCHEDULABLE, (reason,), plugin)

    def preempt(self, plugin: str, reason: str) -> bool:
        """Reject the pod so that it backs off, unless it was already let through; say whether it was rejected."""
        if not self.is_settled:
            self.verdict = Status(Code.ERROR, (f"waiting on permit for pod: {reason}",), plugin)
        return self.verdict is not None

    def time_out(self, now: float) -> None:
        """Reject the pod if any plugin's timeout has passed."""
        late = min(self.deadlines, key=self.deadlines.__getitem__, default=None)
        if late is not None and now >= self.deadlines[late]:
            waited = format_duration_s(self.deadlines[late] - self.waiting_since)
            self.reject(late, f"rejected due to timeout after waiting {waited} at plugin {late}")


class WaitingPods:
    """All waiting pods, by uid."""

    __slots__ = ("_pods",)

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(tuple(self._pods.values()))

    def add(self, waiting: WaitingPod) -> None:
        """Start holding a pod."""
        self._pods[waiting.pod.uid] = waiting

    def remove(self, uid: str) -> None:
        """Stop holding a pod, whatever it was waiting for."""
        self._pods.pop(uid, None)

    def get(self, uid: str) -> WaitingPod | None:
        """Return the waiting pod of this uid, or None."""
        return self._pods.get(uid)

    def reject(self, uid: str, plugin: str, reason: str) -> bool:
        """Turn a waiting pod away; say whether it was waiting."""
        waiting = self._pods.get(uid)
        if waiting is not None:
            waiting.reject(plugin, reason)
        return waiting is not None

    def settled(self, now: float) -> list[WaitingPod]:
        """Take out and return the pods whose wait is over."""
        for waiting in self._pods.values():
            waiting.time_out(now)
        done = [waiting for waiting in self._pods.values() if waiting.is_settled]
        for waiting in done:
            del self._pods[waiting.pod.uid]
        return done

    def next_deadline(self) -> float | None:
        """Return when the first wait times out, or None; now, if one is already settled."""
        if any(waiting.is_settled for waiting in self._pods.values()):
            return float("-inf")
        return min((deadline for w in self._pods.values() for deadline in w.deadlines.values()), default=None)
