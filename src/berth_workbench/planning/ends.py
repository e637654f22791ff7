"""When running pods end, as far as anybody knows: their deadlines, those of their Jobs, and how long such pods run.

`KnownEnds` is read from a snapshot's documents, since the scheduler itself reads no deadlines. Times are seconds since
1970. A deadline is the latest moment; a duration, which somebody gives by workload, is what is expected.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

import msgspec

from berth.api.pod import Pod
from berth.api.user_error import UserError
from berth_workbench.simulation.budgets import owner_of
from berth_workbench.snapshot.documents import Document

EndsBy = Literal["podDeadline", "jobDeadline", "duration"]

_OF_CRON_JOB = re.compile(r"-\d{6,}$")
"""What the CronJob controller adds to its own name for each Job."""


class DurationsError(UserError, ValueError):
    """Durations that cannot be used; the message says which."""


class End(NamedTuple):
    """When a pod ends, and how that is known."""

    at: float
    by: EndsBy


class KnownEnds:
    """What is known of the ends of pods."""

    __slots__ = ("_deadlines", "_durations", "_job_deadlines", "_job_ends")

    def __init__(self, documents: Iterable[Document] = (), durations: Mapping[str, float] | None = None) -> None:
        """`durations` are seconds by `namespace/name` of a workload, or of a pod that has none."""
        self._durations = dict(durations or {})
        self._deadlines: dict[str, float] = {}
        """Of pods, in seconds from their start."""
        self._job_ends: dict[str, float] = {}
        self._job_deadlines: dict[str, float] = {}
        """Of Jobs that have not started, from when their first pod does."""
        for document in documents:
            if document.kind not in ("Pod", "Job") or not _may_mention_deadline(document):
                continue
            manifest = document.manifest
            spec, status = _mapping(manifest.get("spec")), _mapping(manifest.get("status"))
            seconds = spec.get("activeDeadlineSeconds")
            if not isinstance(seconds, int) or isinstance(seconds, bool):
                continue
            metadata = _mapping(manifest.get("metadata"))
            key = f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"
            if document.kind == "Pod":
                self._deadlines[key] = seconds
            elif (started := timestamp(status.get("startTime"))) is not None:
                self._job_ends[key] = started + seconds
            else:
                self._job_deadlines[key] = seconds

    def of(self, pod: Pod, started: float, now: float) -> End | None:
        """Return when a pod that started at a moment ends, not before `now`; None where nobody knows.

        Of a pod that has run for longer than such pods do only its deadline is known.
        """
        found = []
        owner = owner_of(pod)
        if pod.key in self._deadlines:
            found.append(End(max(started + self._deadlines[pod.key], now), "podDeadline"))
        if owner is not None and owner[0] == "Job":
            if owner[1] in self._job_ends:
                found.append(End(max(self._job_ends[owner[1]], now), "jobDeadline"))
            elif owner[1] in self._job_deadlines:
                found.append(End(max(started + self._job_deadlines[owner[1]], now), "jobDeadline"))
        duration = self._duration(owner[1] if owner is not None else pod.key)
        if duration is not None and started + duration >= now:
            found.append(End(started + duration, "duration"))
        return min(found, default=None)

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


def _may_mention_deadline(document: Document) -> bool:
    return not isinstance(document.body, bytes) or b"activeDeadlineSeconds" in document.body


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
