"""Replays a recording as it was made, and says whether the same comes out, bit for bit.

Each core of the recording is made again from its configuration and seed, and given the same calls with the same times.
The outcome of each call is compared with what was recorded: effects, decisions with their messages, and how often the
clock was read. From the first difference on the two are no longer the same cluster, so the comparison of that core ends
there; `berth_workbench.replay.recording_comparison` goes on from decision to decision.
"""

from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import Any

import msgspec

from berth.framework.registry import Registry
from berth.recording.calls import (
    CallKind,
    CallOutcome,
    DecisionNote,
    RecordedCall,
    decisions_of,
    effects_named,
    same_outcome,
)
from berth.recording.file_format import Segment
from berth_workbench.replay.reconstruction import Rebuilt


class ReplayDifference(msgspec.Struct, frozen=True, rename="camel"):
    """Where a replay first differs from the recording."""

    event: int
    """The number of the call, counted over the whole recording from 1."""
    time: float
    """On the recorded scheduler's clock, in seconds."""
    wall_time: float
    """Seconds since the epoch."""
    what: str
    """The pod it is about, or what the call was."""
    recorded: str
    now: str


class Verification(msgspec.Struct, frozen=True, rename="camel"):
    """What a replay has found."""

    segments: int
    lives: int
    """How many cores: one for each start and each new configuration."""
    events: int
    decisions: int
    bindings: int
    evictions: int
    replayed: int
    """How many of the events were replayed: not those of a core whose beginning is missing, or after a difference."""
    first_difference: ReplayDifference | None
    headless_lives: int
    """Cores whose first segments are gone, so that their decisions can only be compared one by one."""
    is_cut: bool
    """Whether the end of a segment is missing, as after a process was killed."""
    is_complete: bool
    """False if it was stopped."""

    @property
    def is_same(self) -> bool:
        """Whether all that was replayed is the same."""
        return self.first_difference is None


OnSegment = Callable[[Segment], None]


class _Counts:
    def __init__(self) -> None:
        self.segments = self.events = self.decisions = self.bindings = self.evictions = self.replayed = 0

    def note(self, recorded: RecordedCall) -> None:
        self.events += 1
        outcome = recorded.outcome
        if outcome.notes or outcome.effects:
            self.decisions += len(decisions_of(outcome))
            self.bindings += sum(1 for _ in effects_named(outcome, "Bind"))
            self.evictions += sum(1 for _ in effects_named(outcome, "EvictPod"))


def verify(
    segments: Iterable[Segment], registry: Registry, on_segment: OnSegment = lambda _segment: None
) -> Verification:
    """Replay; `on_segment` is called with each segment beforehand. Raises `RecordingError`, `ConfigError`."""
    counts, lives, headless = _Counts(), set[str](), set[str]()
    first: ReplayDifference | None = None
    is_cut, is_complete = False, True
    rebuilt: Rebuilt | None = None
    for segment in segments:
        on_segment(segment)
        counts.segments += 1
        header = segment.header
        is_known = header.life in lives
        lives.add(header.life)
        if header.begins in ("start", "reload") and not is_known:
            rebuilt = Rebuilt(header, registry)
        elif rebuilt is not None and rebuilt.header.life == header.life:
            rebuilt.go_on(header)
        else:
            rebuilt = None
            if not is_known:
                headless.add(header.life)
        for recorded in segment.calls():
            if recorded.entry is CallKind.KNOWN:
                if rebuilt is not None:
                    rebuilt.learn(recorded)
                continue
            if recorded.entry is CallKind.STANDING:
                continue
            counts.note(recorded)
            if rebuilt is None:
                continue
            counts.replayed += 1
            outcome = rebuilt.make(recorded)
            if not same_outcome(recorded.outcome, outcome):
                first = first or mismatch(counts.events, recorded, outcome, rebuilt)
                rebuilt = None
        is_cut = is_cut or segment.is_cut
        is_complete = segment.is_whole
    return Verification(
        segments=counts.segments,
        lives=len(lives),
        events=counts.events,
        decisions=counts.decisions,
        bindings=counts.bindings,
        evictions=counts.evictions,
        replayed=counts.replayed,
        first_difference=first,
        headless_lives=len(headless),
        is_cut=is_cut,
        is_complete=is_complete,
    )


def mismatch(number: int, recorded: RecordedCall, now: CallOutcome, rebuilt: Rebuilt) -> ReplayDifference:
    """Return the first difference between two outcomes in words."""
    header = rebuilt.header
    at = (number, recorded.now, header.wall_time + recorded.now - header.clock)
    for before, after in zip_longest(decisions_of(recorded.outcome), decisions_of(now)):
        if before != after:
            pod = rebuilt.name_of((before or after).uid)
            return ReplayDifference(*at, pod, _decision(before), _decision(after))
    for before, after in zip_longest(recorded.outcome.effects, now.effects):
        if before != after and _plain(before) != _plain(after):
            return ReplayDifference(*at, _call_name(recorded), _effect(before), _effect(after))
    if recorded.outcome.raised != now.raised:
        return ReplayDifference(
            *at, _call_name(recorded), recorded.outcome.raised or "no error", now.raised or "no error"
        )
    return ReplayDifference(*at, _call_name(recorded), "what it told its observers", "something else")


def _plain(value: Any) -> Any:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value))


def _decision(decision: DecisionNote | None) -> str:
    if decision is None:
        return "no decision"
    return f"to {decision.node}" if decision.node is not None else f"{decision.outcome}: {decision.message}"


def _effect(effect: list[Any] | None) -> str:
    if effect is None:
        return "nothing"
    name, *fields = effect[2] if effect[0] == "Request" else effect
    words = ["/".join(map(str, each[:2])) if isinstance(each, list) else str(each) for each in fields]
    return f"{name} {', '.join(words)}"


def _call_name(recorded: RecordedCall) -> str:
    names = {
        CallKind.OBJECT: "an event of an object",
        CallKind.ANSWER: "an answer to a request",
        CallKind.SHARDS: "a change of shards",
        CallKind.STEP: "a step",
        CallKind.CALL_OFF: "bindings called off",
        CallKind.ADOPT: "what a queue takes over",
    }
    return names[recorded.entry]
