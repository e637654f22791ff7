"""An event of the scheduler with its repetitions, and what is written to the API server for it.

The Event is created the first time it happens; every later write is a merge patch of `series` alone, with the count as
it is then. Counts only grow, and a patch says the whole count, so a patch that is lost, sent twice or overtaken by
repetitions does no harm: the next one corrects it.

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
    """What events of one series have in common. The note is not part of it, as in client-go."""

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
    """An event that has happened `count` times so far, `told_count` of which the server knows about."""

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
        """Count another occurrence."""
        self.count += 1
        self.last_at = now

    @property
    def is_told(self) -> bool:
        """Whether the server knows of every repetition."""
        return self.told_count == self.count

    def create_body(self, reporting_instance: str) -> bytes:
        """Return the whole Event, for POST."""
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
        """Return the series alone, for a merge patch."""
        return msgspec.json.encode({"series": self._series()})

    def _series(self) -> _Series:
        return _Series(self.count, micro_time(self.last_at))


def _reference(reference: ObjectReference) -> _Reference:
    return _Reference(reference.api_version, reference.kind, reference.namespace, reference.name, reference.uid)


def event_name(regarding: str, now: datetime, serial: int) -> str:
    """Return `<object>.<nanoseconds in hex>`; the serial number takes the place of the nanoseconds that we lack.

    The name is made once, with the series: a creation that is tried again, because its answer was lost, is refused as
    AlreadyExists and does not make a second Event.
    """
    nanoseconds = int(now.timestamp()) * 10**9 + now.microsecond * 1000 + serial % 1000
    suffix = f".{nanoseconds:x}"
    return regarding[: NAME_LIMIT - len(suffix)].rstrip(".-") + suffix


def cut_note(note: str) -> str:
    """Return the note within the server's limit, with an ellipsis where it was cut."""
    encoded = note.encode()
    if len(encoded) <= NOTE_LIMIT_BYTES:
        return note
    return encoded[: NOTE_LIMIT_BYTES - len(_CUT)].decode("utf-8", "ignore") + _CUT


def micro_time(moment: datetime) -> str:
    """Return a metav1.MicroTime: RFC 3339 in UTC with six digits after the point."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
