"""One call of a core as a recording holds it: what went in, when, and all that came out.

A core is entered by `handle`, `step`, `call_off` and `adopt` only. `CallWriter` turns such a call into plain values,
`CallReader` turns these back into arguments for another core. What came out is compared in its written form, in which
effects, decisions and readings of clocks are lists of plain values (`CallOutcome`).
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from berth.api.codec import decode
from berth.api.redaction import redact
from berth.core.intake import Event, ObjectEvent, ShardsHeld
from berth.framework.effects import (
    Answer,
    ApiCall,
    Bind,
    CallExtenders,
    Effect,
    ExtenderAnswer,
    PatchPodStatus,
    PodRead,
    PodRef,
    Request,
)
from berth.recording.errors import RecordingError
from berth.recording.objects import ObjectWriter, Plain, ReadForeign, RecordedObjects, plain_mapping
from berth.state.queued_pod import QueuedPod

TYPES = ("ADDED", "MODIFIED", "DELETED")


class CallKind(IntEnum):
    """By which way a core was entered; a call that takes an event in is told apart by what the event is."""

    OBJECT = 0
    ANSWER = 1
    SHARDS = 2
    STEP = 3
    CALL_OFF = 4
    ADOPT = 5
    KNOWN = 6
    """No call: an object that is known at the beginning of a segment that goes on with a core."""
    STANDING = 7
    """No call: what else is known then, as a `KnownState`."""


class Note(IntEnum):
    """What a core told its observer in the course of a call."""

    DECIDED = 0
    """An attempt has ended: [uid, node or None, outcome, message, time, attempts]."""
    TURNED_BACK = 1
    """A pod that had a node is queued again, and its room given back: [uid]."""
    EXPIRED = 2
    """Assumed pods were given up since no watch confirmed them: [uid, …]."""


class DecisionNote(NamedTuple):
    """An attempt that has ended, as a call has it."""

    uid: str
    node: str | None
    outcome: str
    message: str
    at: float
    attempts: int


class RoomNote(NamedTuple):
    """Pods whose room was given back, as a call has it: they were turned back, or have expired."""

    kind: Note
    uids: tuple[str, ...]


class ExtenderRequest(NamedTuple):
    """What extenders were asked, as a call has it: of what they were sent, only to whom."""

    ticket: int
    calls: Plain


class Call(NamedTuple):
    """A call, as it was made; what went in is frozen, so it can be written later and on another thread."""

    entry: CallKind
    now: float
    argument: Any
    notes: list[Plain]
    effects: list[Effect]
    readings: list[float]
    """What the clocks said when the core looked at them, in that order."""
    is_open: bool
    """Whether a scheduling cycle is open at the end."""
    raised: str
    """What came out of the core in place of effects, if it broke."""


class QueueMemory(NamedTuple):
    """What one queue takes over from another about a pod (`SchedulingQueue.adopt`)."""

    uid: str
    attempts: int
    timestamp: float
    unschedulable_count: int
    consecutive_errors: int
    initial_attempt: float | None
    backoff_until: float | None

    @classmethod
    def of(cls, queued: QueuedPod) -> "QueueMemory":
        """Return what there is to take over."""
        return cls(
            queued.pod.uid,
            queued.attempts,
            queued.timestamp,
            queued.unschedulable_count,
            queued.consecutive_errors,
            queued.initial_attempt,
            queued.backoff_until,
        )

    def put_on(self, queued: QueuedPod) -> None:
        """Have a queued pod remember this."""
        queued.attempts, queued.timestamp = self.attempts, self.timestamp
        queued.unschedulable_count, queued.consecutive_errors = self.unschedulable_count, self.consecutive_errors
        queued.initial_attempt, queued.backoff_until = self.initial_attempt, self.backoff_until


class CallOutcome(msgspec.Struct, frozen=True, array_like=True):
    """What came out of a call, in plain values."""

    notes: list[list[Any]] = []
    effects: list[list[Any]] = []
    readings: list[float] = []
    is_open: bool = False
    raised: str = ""


NOTHING = CallOutcome()


class RecordedCall(msgspec.Struct, frozen=True, array_like=True):
    """A call in plain values. `outcome` is left out where nothing came of it, as of most calls."""

    entry: CallKind
    now: float
    argument: Any = None
    outcome: CallOutcome = NOTHING


class KnownState(msgspec.Struct, frozen=True, array_like=True):
    """What a core knows, beside objects, at the beginning of a segment that goes on with it."""

    assumed: list[tuple[str, str]]
    """The pods whose binding is under way, by uid, and their nodes."""
    nominated: list[tuple[str, str]]
    start_index: int
    """Where the next search begins, if not all nodes are looked at."""
    shards: list[int] | None = None


class CallWriter:
    """Writes the calls of one segment."""

    __slots__ = ("objects",)

    def __init__(self) -> None:
        self.objects = ObjectWriter()

    def write(self, call: Call) -> RecordedCall:
        """Return a call in plain values."""
        outcome = NOTHING
        if call.notes or call.effects or call.readings or call.is_open or call.raised:
            outcome = outcome_of(call)
        return RecordedCall(call.entry, call.now, self._argument(call.entry, call.argument), outcome)

    def _argument(self, entry: CallKind, argument: Any) -> Any:
        if entry in (CallKind.OBJECT, CallKind.KNOWN):
            return self.event(argument)
        if entry is CallKind.ANSWER:
            return [argument.ticket, _plain_result(argument.result), redact(argument.error)]
        if entry is CallKind.SHARDS:
            return sorted(argument.shards)
        return argument

    def event(self, event: ObjectEvent) -> Plain:
        """Return an object event in plain values."""
        written = self.objects.write(event.kind, event.obj, is_last=event.type == "DELETED")
        return [TYPES.index(event.type), event.kind, written]


class CallReader:
    """Reads the calls of one segment."""

    __slots__ = ("_foreign", "objects")

    def __init__(self, foreign: ReadForeign) -> None:
        self.objects = RecordedObjects()
        self._foreign = foreign

    def event(self, recorded: RecordedCall) -> Event | Answer:
        """Return what a call of `handle` was given. Raises `RecordingError`."""
        argument = recorded.argument
        try:
            if recorded.entry is CallKind.ANSWER:
                ticket, result, error = argument
                return Answer(ticket, _result(result), error)
            if recorded.entry is CallKind.SHARDS:
                return ShardsHeld(frozenset(argument))
            type_, kind, written_object = argument
            obj = self.objects.read(written_object, self._foreign, is_last=TYPES[type_] == "DELETED")
            return ObjectEvent(TYPES[type_], kind, obj)  # type: ignore[arg-type]  # mypy sees any str in the tuple
        except (TypeError, ValueError, IndexError) as error:
            if isinstance(error, RecordingError):
                raise
            raise RecordingError(f"a call in it cannot be read: {error}") from None

    @staticmethod
    def remembered(recorded: RecordedCall) -> list[QueueMemory]:
        """Return what a call of `adopt` was given."""
        return [QueueMemory(*each) for each in recorded.argument]


def outcome_of(call: Call) -> CallOutcome:
    """Return what came out of a call in plain values."""
    return CallOutcome(
        call.notes, [plain_effect(each) for each in call.effects], call.readings, call.is_open, call.raised
    )


def plain_effect(effect: Any) -> Plain:
    """Return an effect in plain values: its type, then its fields; of what extenders are sent, only to whom."""
    name = type(effect).__name__
    if isinstance(effect, Request):
        return [name, effect.ticket, plain_effect(effect.effect)]
    if isinstance(effect, CallExtenders):
        return [name, [[call.extender, call.verb] for call in effect.calls]]
    if isinstance(effect, ApiCall):
        body = msgspec.to_builtins(effect.body, enc_hook=plain_mapping)
        return [name, effect.verb, effect.kind, effect.namespace, effect.name, effect.subresource, body]
    fields = msgspec.structs.astuple(effect)
    return [name, *([each.namespace, each.name, each.uid] if isinstance(each, PodRef) else each for each in fields)]


def _plain_result(result: Any) -> Plain | None:
    if result is None:
        return None
    if isinstance(result, PodRead):
        return ["pod", result.is_gone, result.node_name, result.pod]
    if isinstance(result, tuple) and all(isinstance(each, ExtenderAnswer) for each in result):
        return ["extenders", [[each.body, redact(each.error), each.is_unknown] for each in result]]
    return ["json", msgspec.to_builtins(result, enc_hook=plain_mapping)]


def _result(written: Plain | None) -> Any:
    if written is None:
        return None
    if written[0] == "pod":
        _, is_gone, node_name, pod = written
        return PodRead(is_gone, node_name, None if pod is None else decode("Pod", pod))
    if written[0] == "extenders":
        return tuple(ExtenderAnswer(*each) for each in written[1])
    return written[1]


def check(recorded: RecordedCall) -> None:
    """Raise `RecordingError` where a call that was read has not the form that it should have."""
    outcome = recorded.outcome
    is_good = all(map(_is_note, outcome.notes)) and all(map(_is_effect, outcome.effects))
    if not is_good or (recorded.entry is CallKind.STANDING and not _is_known_state(recorded.argument)):
        raise RecordingError("a call in it cannot be read: it has not the form that it should have")


def _is_note(note: Plain) -> bool:
    kind, *fields = note or [None]
    if kind == Note.DECIDED:
        return len(fields) == len(_DECIDED) and all(map(isinstance, fields, _DECIDED))
    return kind in (Note.TURNED_BACK, Note.EXPIRED) and all(isinstance(uid, str) for uid in fields)


def _is_effect(effect: Plain) -> bool:
    name, *fields = effect or [None]
    if name == "Request":
        return len(fields) == 2 and isinstance(fields[0], int) and isinstance(fields[1], list) and _is_effect(fields[1])
    expected = _EFFECTS.get(name)
    if expected is None:
        return True
    is_good = len(fields) == len(expected) and all(map(isinstance, fields, expected))
    return is_good and (name == "CallExtenders" or (len(fields[0]) == 3 and all(isinstance(v, str) for v in fields[0])))


def _is_known_state(argument: Any) -> bool:
    try:
        msgspec.convert(argument, KnownState)
    except msgspec.ValidationError:
        return False
    return True


_TEXT_OR_NONE = (str, type(None))
_DECIDED: tuple[Any, ...] = (str, _TEXT_OR_NONE, str, str, (float, int), int)
_EFFECTS: Mapping[str | None, tuple[Any, ...]] = MappingProxyType(
    {
        None: (bytes,),  # none has no name
        "Bind": (list, str),
        "PatchPodStatus": (list, _TEXT_OR_NONE, str, str, _TEXT_OR_NONE, int),
        "CallExtenders": (list,),
    }
)
"""The fields of the effects that a follower of a recording looks at."""


def same_outcome(recorded: CallOutcome, now: CallOutcome) -> bool:
    """Say whether the same came out; `now` need not have been through an encoder."""
    if recorded is now:
        return True
    return _ENCODE(recorded) == _ENCODE(now)


_ENCODE = msgspec.msgpack.Encoder(enc_hook=plain_mapping).encode


def notes_of(outcome: CallOutcome) -> Iterator[DecisionNote | RoomNote]:
    """Return what a core told its observer in a call, in that order."""
    for kind, *fields in outcome.notes:
        yield DecisionNote(*fields) if kind == Note.DECIDED else RoomNote(kind, tuple(fields))


def decisions_of(outcome: CallOutcome) -> list[DecisionNote]:
    """Return the attempts that have ended in a call."""
    return [note for note in notes_of(outcome) if isinstance(note, DecisionNote)]


def effects_named(outcome: CallOutcome, *names: str) -> Iterable[Plain]:
    """Return the effects of these types, requested or not, without what surrounds them."""
    for effect in outcome.effects:
        inner = effect[2] if effect[0] == "Request" else effect
        if inner[0] in names:
            yield inner


def bindings_of(outcome: CallOutcome) -> Iterator[Bind]:
    """Return the bindings among the effects."""
    return (Bind(PodRef(*pod), node_name) for _, pod, node_name in effects_named(outcome, "Bind"))


def status_patches_of(outcome: CallOutcome) -> Iterator[PatchPodStatus]:
    """Return the changes of pods' statuses among the effects."""
    return (PatchPodStatus(PodRef(*pod), *rest) for _, pod, *rest in effects_named(outcome, "PatchPodStatus"))


def extender_requests_of(outcome: CallOutcome) -> Iterator[ExtenderRequest]:
    """Return what extenders are asked in a call."""
    for name, *fields in outcome.effects:
        if name == "Request" and fields[1][0] == "CallExtenders":
            yield ExtenderRequest(fields[0], fields[1][1])
