"""Exports a recording, or a part of it, to one file, for a bug report or for a test that replays it.

A part that begins in the middle of a core's life begins with everything known at that point, like a segment that
follows a full one. So its decisions can be compared one by one, but not replayed bit for bit. A part that begins with a
core is replayed bit for bit.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from berth.core.intake import ObjectEvent
from berth.framework.registry import Registry
from berth.recording.calls import CallKind, CallReader, CallWriter, RecordedCall, decisions_of
from berth.recording.errors import RecordingError
from berth.recording.file_format import Packer, Segment, SegmentHeader, first_line, read_segments
from berth.recording.recorder import known_now
from berth_workbench.replay.follower import Follower
from berth_workbench.replay.targets import refuse_part_of, replacing

MARGIN: Final = 50
"""How many events before and after those about a pod are taken along."""
AT_ONCE: Final = 2_000


class Span(NamedTuple):
    """Which events are taken, by number from 1."""

    first: int
    last: int


class Exported(msgspec.Struct, frozen=True, rename="camel"):
    """What was written."""

    file: str
    first_event: int
    events: int
    decisions: int
    bytes: int


def last_events(source: Path, count: int) -> Span:
    """Return the span of the last events. Raises `RecordingError`."""
    total = sum(1 for _, recorded in _calls(source) if recorded.entry < CallKind.KNOWN)
    return Span(max(1, total - count + 1), total)


def everything() -> Span:
    """Return the span of a whole recording."""
    return Span(1, 2**62)


def around_pod(source: Path, pod: str) -> Span:
    """Return the span from the first event about a pod to the last, with a margin. Raises `RecordingError`.

    `pod` is `namespace/name`, or a name in the namespace `default`.
    """
    key = pod if "/" in pod else f"default/{pod}"
    number, found, uids = 0, list[int](), set[str]()
    reader, is_known = CallReader(lambda _kind, document: document), False
    last: Segment | None = None
    for segment, recorded in _calls(source):
        if segment is not last:
            last, reader = segment, CallReader(lambda _kind, document: document)
        if recorded.entry in (CallKind.OBJECT, CallKind.KNOWN):
            event = reader.event(recorded)
            if isinstance(event, ObjectEvent) and event.kind == "Pod" and event.obj.key == key:
                uids.add(event.obj.metadata.uid)
                is_known = recorded.entry is CallKind.OBJECT
        number += recorded.entry < CallKind.KNOWN
        if is_known or any(note.uid in uids for note in decisions_of(recorded.outcome)):
            found.append(number)
        is_known = False
    if not found:
        raise RecordingError(f"{source} has nothing about a pod {key}")
    return Span(max(1, found[0] - MARGIN), found[-1] + MARGIN)


def _calls(source: Path) -> Iterator[tuple[Segment, RecordedCall]]:
    for segment in read_segments(source):
        for recorded in segment.calls():
            yield segment, recorded


def export(source: Path, target: Path, span: Span, registry: Registry) -> Exported:
    """Write a part of a recording to a file of its own. Raises `RecordingError`, `ConfigError`.

    The file appears, or takes the place of an older one, once it is complete.
    """
    refuse_part_of(source, target)
    with replacing(target) as part:
        with part.open("xb") as file:
            counts = _Exporter(file, span, registry).run(source)
        if not counts[0]:
            raise RecordingError(f"{source} has no such events")
    return Exported(str(target), span.first, *counts, target.stat().st_size)


class _Exporter:
    """Follows a recording up to the span, and writes what is in it."""

    def __init__(self, file: BinaryIO, span: Span, registry: Registry) -> None:
        self._file = file
        self._span = span
        self._registry = registry
        self._life = ""
        self._goes_on = False
        self._follower: Follower | None = None
        """Knows the cluster before the span; None once it is no longer needed."""
        self._reader = CallReader(lambda _kind, document: document)
        self._writer: CallWriter | None = None
        """Of the segment that is being written, if one is."""
        self._packer = Packer()
        self._waiting: list[RecordedCall] = []
        self._number = self._events = self._decisions = 0

    def run(self, source: Path) -> tuple[int, int]:
        """Write; return how many events, and how many decisions."""
        self._file.write(first_line())
        for segment in read_segments(source):
            self._begin(segment.header)
            for recorded in segment.calls():
                self._take(segment.header, recorded)
                if self._number > self._span.last:
                    break
            self._flush()
            if self._number > self._span.last:
                break
        return self._events, self._decisions

    def _begin(self, header: SegmentHeader) -> None:
        """Begin to read a segment; it goes on with the one before, or is a new core's."""
        self._reader = CallReader(lambda _kind, document: document)
        self._goes_on = header.life == self._life
        if self._goes_on:
            if self._follower is not None:
                self._follower.go_on(header)
            return
        self._life = header.life
        self._follower = self._writer = None
        if header.begins in ("start", "reload") and self._number + 1 >= self._span.first:
            self._begin_segment(header)
        else:
            self._follower = Follower(header, self._registry, None)

    def _take(self, header: SegmentHeader, recorded: RecordedCall) -> None:
        is_call = recorded.entry < CallKind.KNOWN
        self._number += is_call
        follower = self._follower
        if follower is not None and is_call and self._number >= self._span.first and not follower.is_open:
            self._begin_in_the_middle(header, recorded.now, follower)
            self._follower = follower = None
        has_object = recorded.entry in (CallKind.OBJECT, CallKind.KNOWN)
        event = self._reader.event(recorded) if has_object else None
        if follower is not None:
            self._followed(follower, recorded)
        elif is_call and self._writer is not None and self._number <= self._span.last:
            if isinstance(event, ObjectEvent):
                recorded = msgspec.structs.replace(recorded, argument=self._writer.event(event))
            self._put(recorded)
            self._events += 1
            self._decisions += len(decisions_of(recorded.outcome))

    def _followed(self, follower: Follower, recorded: RecordedCall) -> None:
        if recorded.entry < CallKind.KNOWN:
            follower.follow(recorded)
        elif not self._goes_on:
            follower.take(recorded)
        elif recorded.entry is CallKind.KNOWN:
            follower.learn(recorded)

    def _begin_in_the_middle(self, header: SegmentHeader, now: float, follower: Follower) -> None:
        wall_time = header.wall_time + now - header.clock
        self._begin_segment(msgspec.structs.replace(header, begins="export", wall_time=wall_time, clock=now))
        assert self._writer is not None, "a segment was begun"
        known, standing = known_now(follower.core, follower.shards)
        for kind, obj in known:
            self._put(RecordedCall(CallKind.KNOWN, now, self._writer.event(ObjectEvent("ADDED", kind, obj))))
        self._put(RecordedCall(CallKind.STANDING, now, standing))

    def _begin_segment(self, header: SegmentHeader) -> None:
        self._flush()
        self._packer, self._writer = Packer(), CallWriter()
        self._file.write(self._packer.pack(header))

    def _put(self, recorded: RecordedCall) -> None:
        self._waiting.append(recorded)
        if len(self._waiting) >= AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._file.write(self._packer.pack(self._waiting))
            self._waiting.clear()
