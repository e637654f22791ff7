"""One event of the scheduler and its repetitions: what is written to the API server for it.

`berth.kube.events` keeps an `EventSeries` for each distinct event and asks it for the body of the next request.
"""

from datetime import UTC, datetime
from typing import Literal, NamedTuple

import msgspec

from berth.api.meta import ObjectReference

EventType = Literal["Normal", "Warning"]

# What the API server accepts: the note in bytes, object names in characters.
NOTE_LIMIT_BYTES = 1024
NAME_LIMIT = 253
_CUT = " ..."


class EventKey(NamedTuple):
    """Events that agree in all of this are one series; the note is not part of it, as in client-go."""

    type: str
    reason: str
    action: str
    regarding: ObjectReference
    related: ObjectReference | None
    reporting_controller: str


class _Series(msgspec.Struct, frozen=True, rename="camel"):
    count: int
    last_observed_time: str


class _Meta(msgspec.Struct, frozen=True):
    name: str
    namespace: str


class _Reference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _Body(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    api_version: str
    kind: str
    metadata: _Meta
    event_time: str
    reporting_controller: str
    reporting_instance: str
    action: str
    reason: str
    regarding: _Reference
    note: str
    type: str
    related: _Reference | None = None
    series: _Series | None = None


class EventSeries:
    """An event that happened `count` times so far, and how much of that the server knows."""

    __slots__ = ("_note", "count", "first_at", "is_created", "is_queued", "key", "last_at", "name", "namespace",
                 "told_count")  # fmt: skip

    def __init__(self, key: EventKey, note: str, now: datetime, serial: int) -> None:
        self.key = key
        self.namespace = key.regarding.namespace or "default"
        self.name = event_name(key.regarding.name, now, serial)
        self._note = cut_note(note)
        self.count = 1
        self.first_at = self.last_at = now
        self.told_count = 0
        self.is_created = False
        self.is_queued = False

    def observe(self, now: datetime) -> None:
        """It happened again."""
        self.count += 1
        self.last_at = now

    @property
    def is_told(self) -> bool:
        """Whether the server knows of every repetition."""
        return self.told_count == self.count

    def create_body(self, reporting_instance: str) -> bytes:
        """The whole Event, for POST."""
        related = self.key.related
        return msgspec.json.encode(
            _Body(
                api_version="events.k8s.io/v1",
                kind="Event",
                metadata=_Meta(self.name, self.namespace),
                event_time=micro_time(self.first_at),
                reporting_controller=self.key.reporting_controller,
                reporting_instance=reporting_instance,
                action=self.key.action,
                reason=self.key.reason,
                regarding=_reference(self.key.regarding),
                related=None if related is None else _reference(related),
                note=self._note,
                type=self.key.type,
                series=self._series() if self.count > 1 else None,
            )
        )

    def patch_body(self) -> bytes:
        """The series alone, for a merge patch."""
        return msgspec.json.encode({"series": self._series()})

    def _series(self) -> _Series:
        return _Series(self.count, micro_time(self.last_at))


def _reference(reference: ObjectReference) -> _Reference:
    return _Reference(reference.api_version, reference.kind, reference.namespace, reference.name, reference.uid)


def event_name(regarding: str, now: datetime, serial: int) -> str:
    """`<object>.<nanoseconds in hex>`; the serial number stands for the nanoseconds that the clock lacks."""
    nanoseconds = int(now.timestamp()) * 10**9 + now.microsecond * 1000 + serial % 1000
    suffix = f".{nanoseconds:x}"
    return regarding[: NAME_LIMIT - len(suffix)].rstrip(".-") + suffix


def cut_note(note: str) -> str:
    """The note within the server's limit, with an ellipsis where it was cut."""
    encoded = note.encode()
    if len(encoded) <= NOTE_LIMIT_BYTES:
        return note
    return encoded[: NOTE_LIMIT_BYTES - len(_CUT)].decode("utf-8", "ignore") + _CUT


def micro_time(moment: datetime) -> str:
    """metav1.MicroTime: RFC 3339 in UTC with six digits after the point."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
