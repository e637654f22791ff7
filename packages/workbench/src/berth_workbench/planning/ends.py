"""When running pods end, as far as is known: their deadlines, those of their Jobs, and how long such pods run.

`KnownEnds` is read from documents, since the scheduler itself reads no deadlines. Times are seconds since 1970. A
deadline is the latest moment, and so is the end of the grace period of a pod that is being deleted; a duration, given
by the user per workload, is what is expected.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec

from berth.api.pod import Pod
from berth.api.user_error import UserError
from berth_workbench.simulation.budgets import Owner, owner_of
from berth_workbench.snapshot.documents import Document

EndsBy = Literal["podDeadline", "jobDeadline", "deletion", "duration"]
LATE_S = 60.0
"""A pod that is still there this long after its grace period does not go by itself; its end is unknown."""

_OF_CRON_JOB = re.compile(r"-\d{6,}$")
"""What the CronJob controller adds to its own name for each Job."""


class DurationsError(UserError, ValueError):
    """Durations that cannot be used; the message says which."""


class End(NamedTuple):
    """When a pod ends, and how that is known."""

    at: float
    by: EndsBy


class KnownEnds:
    """What is known about the ends of pods."""

    __slots__ = ("_deadlines", "_durations", "_job_ends", "_job_seconds")

    def __init__(self, documents: Iterable[Document] = (), durations: Mapping[str, float] | None = None) -> None:
        """`durations` are seconds by `namespace/name` of a workload, or of a pod that has none."""
        self._durations = dict(durations or {})
        self._deadlines: dict[Owner, float] = {}
        """Of pods in seconds from their start, by their own kind and `namespace/name` or that of their Job."""
        self._job_seconds: dict[str, float] = {}
        """Of Jobs from their start."""
        self._job_ends: dict[str, float] = {}
        """When Jobs that have started fail, by `namespace/name`."""
        self.note(documents)

    @property
    def expects_any(self) -> bool:
        """Whether the duration of any pods is known."""
        return bool(self._durations)

    def note(self, documents: Iterable[Document], namespace: str = "default") -> None:
        """Read what documents say; `namespace` is that of those that name none."""
        for document in documents:
            if document.kind not in ("Pod", "Job") or not document.may_mention(b"activeDeadlineSeconds"):
                continue
            manifest = document.manifest
            metadata, spec = _mapping(manifest.get("metadata")), _mapping(manifest.get("spec"))
            key = f"{metadata.get('namespace') or namespace}/{metadata.get('name')}"
            seconds = _deadline_in(spec)
            if document.kind == "Pod":
                if seconds is not None:
                    self._deadlines["Pod", key] = seconds
                continue
            of_pods = _deadline_in(_mapping(_mapping(spec.get("template")).get("spec")))
            if of_pods is not None:
                self._deadlines["Job", key] = of_pods
            if seconds is not None:
                self._job_seconds[key] = seconds
                started = timestamp(_mapping(manifest.get("status")).get("startTime"))
                if started is not None:
                    self._job_ends[key] = started + seconds

    def start_jobs(self, pods: Iterable[Pod], now: float) -> None:
        """Assume that Jobs without a known start began with the first of their pods, or now if none runs."""
        begun: dict[str, float] = {}
        for pod in pods:
            owner = owner_of(pod)
            if owner is not None and owner[0] == "Job" and owner[1] in self._job_seconds:
                started = timestamp(pod.status.start_time) if pod.spec.node_name else None
                begun[owner[1]] = min(begun.get(owner[1], now), now if started is None else started)
        for key, at in begun.items():
            self._job_ends.setdefault(key, at + self._job_seconds[key])

    def of(self, pod: Pod, started: float, now: float, *, deadlines: bool = True) -> End | None:
        """Return when a pod that started at a moment ends, not before `now`; None if unknown.

        For a pod that has already run longer than such pods do, only its deadline is known. Without `deadlines`, only
        expected ends count.
        """
        owner = owner_of(pod)
        found = list(self._by_deadlines(pod, started, now))
        going = timestamp(pod.metadata.deletion_timestamp)
        if going is not None and now <= going + LATE_S:
            found.append(End(max(going, now), "deletion"))
        if not deadlines:
            found = []
        duration = self._duration(owner[1] if owner is not None else pod.key)
        if duration is not None and started + duration >= now:
            found.append(End(started + duration, "duration"))
        return min(found, default=None)

    def _by_deadlines(self, pod: Pod, started: float, now: float) -> Iterator[End]:
        owner = owner_of(pod)
        seconds = self._deadlines.get(("Pod", pod.key), None if owner is None else self._deadlines.get(owner))
        if seconds is not None:
            yield End(max(started + seconds, now), "podDeadline")
        failing = self.job_fails(pod, now)
        if failing is not None:
            yield End(failing, "jobDeadline")

    def in_words(self, pods: Iterable[Pod]) -> dict[str, str]:
        """Return by `namespace/name` when pods that have a deadline end at the latest, as far as their starts tell."""
        found: dict[str, str] = {}
        if not self._deadlines and not self._job_ends:
            return found
        for pod in pods:
            started = timestamp(pod.status.start_time)
            ends = self._by_deadlines(pod, math.inf if started is None else started, 0.0)
            if (at := min((end.at for end in ends), default=math.inf)) < math.inf:
                found[pod.key] = f"at {datetime.fromtimestamp(at, UTC).isoformat(timespec='seconds')} at the latest"
        return found

    def job_fails(self, pod: Pod, now: float) -> float | None:
        """Return when a pod is deleted since its Job has run for too long, wherever it is; None if it is never
        deleted.
        """
        owner = owner_of(pod)
        at = self._job_ends.get(owner[1]) if owner is not None and owner[0] == "Job" else None
        return None if at is None else max(at, now)

    def _duration(self, workload: str) -> float | None:
        found = self._durations.get(workload)
        return self._durations.get(_OF_CRON_JOB.sub("", workload)) if found is None else found


def read_durations(document: Any) -> dict[str, float]:
    """Return the durations of a document, seconds by `namespace/name`. Raises `DurationsError`."""
    try:
        found = msgspec.convert(document, dict[str, float])
    except msgspec.ValidationError as error:
        raise DurationsError(f"{error}; seconds by namespace/name of a workload are expected") from None
    for name, seconds in found.items():
        if "/" not in name or not 0 <= seconds < 1e10:
            raise DurationsError(f"{name!r}: {seconds}: seconds by namespace/name of a workload are expected")
    return found


def timestamp(text: object) -> float | None:
    """Return an RFC 3339 timestamp in seconds; None for anything else."""
    try:
        return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None


def _deadline_in(spec: Mapping[str, Any]) -> float | None:
    seconds = spec.get("activeDeadlineSeconds")
    return seconds if isinstance(seconds, int) and not isinstance(seconds, bool) else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
