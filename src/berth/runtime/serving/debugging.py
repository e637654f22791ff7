"""What a running scheduler shows of itself: its decisions, and what is pending and why. Values ready for JSON.

The health server gives these out under `/debug`; `berth explain` reads them.
"""

import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from berth.api.redaction import redact
from berth.explain import NAMES_SHOWN, TOP_NODES, Explanation, explain, waits_for
from berth.state.queued_pod import QueuedPod

if TYPE_CHECKING:
    from berth.core import Core
    from berth.runtime.scheduler import LiveScheduler


class PendingPod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod in a queue; times are RFC 3339."""

    pod: str
    uid: str
    profile: str
    queue: str
    since: str
    attempts: int
    rejected_by: tuple[str, ...] = ()
    gated_by: str = ""
    backoff_until: str | None = None
    waits_for: dict[str, tuple[str, ...]] = {}


class PodReport(msgspec.Struct, frozen=True, rename="camel"):
    """All that is known of one pod: the last decision while it is remembered, and where the pod waits if it does."""

    pod: str
    decision: Explanation | None
    pending: PendingPod | None


class DecisionLine(msgspec.Struct, frozen=True, rename="camel"):
    """A decision in one line."""

    pod: str
    outcome: str
    node: str | None
    message: str
    attempts: int
    time: str


class Debugging:
    """Views of one live scheduler."""

    __slots__ = ("_scheduler",)

    def __init__(self, scheduler: "LiveScheduler") -> None:
        self._scheduler = scheduler

    @property
    def _core(self) -> "Core":
        return self._scheduler.core

    def decisions(self) -> Iterator[DecisionLine]:
        """The decisions that are remembered, the latest last."""
        for key, decision in self._core.trace.items():
            when = self.wall_time(decision.at)
            yield DecisionLine(
                key, decision.outcome, decision.chosen, decision.message, decision.attempts, when
            )  # fmt: skip

    def report(self, key: str, *, all_nodes: bool = False, nodes: Iterable[str] = ()) -> PodReport | None:
        """Everything about a pod; None where it is unknown."""
        decision, pending = self._core.trace.get(key), self._find_pending(key)
        if decision is None and pending is None:
            return None
        explanation = None
        if decision is not None:
            everything = decision.node_count if all_nodes else 0
            explanation = explain(
                decision,
                top=max(TOP_NODES, everything),
                names_shown=max(NAMES_SHOWN, everything),
                nodes=nodes,
                waits_for=pending.waits_for if pending is not None else {},
                time=self.wall_time(decision.at),
            )
        return PodReport(key, explanation, pending)

    def queue(self) -> Iterator[PendingPod]:
        """Every pod in a queue."""
        for name, queued in self._queued():
            yield self._pending(queued, name)

    def _queued(self) -> Iterator[tuple[str, QueuedPod]]:
        queue = self._core.queue
        for name, pods in (
            ("active", queue.active),
            ("backoff", queue.backoff),
            ("backoff", queue.error_backoff),
            ("unschedulable", queue.unschedulable.values()),
        ):
            for queued in pods:
                yield ("gated" if queued.is_gated else name), queued

    def wall_time(self, at: float) -> str:
        """A time of the core's clock as RFC 3339."""
        return _rfc3339(time.time() - (self._scheduler.clock() - at))

    def _find_pending(self, key: str) -> PendingPod | None:
        found = next(((name, queued) for name, queued in self._queued() if queued.pod.key == key), None)
        return None if found is None else self._pending(found[1], found[0])

    def _pending(self, queued: QueuedPod, queue: str) -> PendingPod:
        profile = self._core.profiles[queued.pod.spec.scheduler_name]
        return PendingPod(
            pod=queued.pod.key,
            uid=queued.pod.uid,
            profile=profile.name,
            queue=queue,
            since=self.wall_time(queued.timestamp),
            attempts=queued.attempts,
            rejected_by=tuple(sorted(queued.rejectors)),
            gated_by=queued.gating_plugin,
            backoff_until=None if queued.backoff_until is None else self.wall_time(queued.backoff_until),
            waits_for=waits_for(profile, queued.rejectors),
        )


def _rfc3339(timestamp_s: float) -> str:
    return datetime.fromtimestamp(timestamp_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_json(value: Any) -> bytes:
    """Return indented JSON, since people read it with curl; what looks like a secret in messages is left out."""
    return redact(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()).encode() + b"\n"
