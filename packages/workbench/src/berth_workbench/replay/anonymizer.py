"""Renames everything in an exported recording, the same everywhere, as the `snapshot` room does in snapshots.

Every version of every object goes through the same renaming at once, so that what was equal stays equal. Of the
outcomes, decisions, bindings and nominations are kept, with the new names; messages, events, extenders' answers,
requests to the API server, custom resources and the identity of extenders are left out. So decisions can be compared
one by one, but nothing is replayed bit for bit.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from berth.api.resources import RESOURCES
from berth.core.intake import ObjectEvent
from berth.framework.effects import Bind, PodRef
from berth.recording.calls import (
    CallKind,
    CallOutcome,
    CallReader,
    CallWriter,
    DecisionNote,
    KnownState,
    Note,
    RecordedCall,
    bindings_of,
    notes_of,
    plain_effect,
    status_patches_of,
)
from berth.recording.configs import config_of, plain_config
from berth.recording.errors import RecordingError
from berth.recording.file_format import Packer, SegmentHeader, first_line, read_segments
from berth.recording.objects import Plain
from berth_workbench.snapshot.anonymizer import anonymized
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import Snapshot

AT_ONCE: Final = 2_000

Names = Mapping[str, str]


def anonymize(recording: Path) -> None:
    """Rename everything in a file that was exported, in its place. Raises `RecordingError`."""
    documents = _documents(recording)
    renamed, names = anonymized(Snapshot(documents))
    if len(renamed.documents) != len(documents):
        raise RecordingError(f"{recording} cannot be anonymized: it holds objects that have no place in a snapshot")
    objects = iter(renamed.documents)
    data = bytearray(first_line())
    for segment in read_segments(recording):
        packer, writer, reader = Packer(), CallWriter(), _reader()
        data += packer.pack(_header(segment.header, names))
        waiting: list[RecordedCall] = []
        for recorded in segment.calls():
            renamed_call = recorded
            if recorded.entry in (CallKind.OBJECT, CallKind.KNOWN):
                event = reader.event(recorded)
                assert isinstance(event, ObjectEvent), "these entries hold objects"
                if _is_left_out(event):
                    continue
                argument: Any = writer.event(ObjectEvent(event.type, event.kind, next(objects).struct()))
            else:
                argument = _argument(recorded, names)
            renamed_call = RecordedCall(recorded.entry, recorded.now, argument, _outcome(recorded.outcome, names))
            waiting.append(renamed_call)
            if len(waiting) >= AT_ONCE:
                data += packer.pack(waiting)
                waiting = []
        if waiting:
            data += packer.pack(waiting)
    try:
        recording.write_bytes(data)
    except OSError as error:
        raise RecordingError(f"cannot write {recording}: {error.strerror or error}") from None


def _reader() -> CallReader:
    return CallReader(lambda _kind, document: document)


def _is_left_out(event: ObjectEvent) -> bool:
    return event.kind not in RESOURCES or not isinstance(event.obj, msgspec.Struct)


def _documents(recording: Path) -> list[Document]:
    """Return every version of every object, in the order in which they come."""
    found = []
    for segment in read_segments(recording):
        reader = _reader()
        for recorded in segment.calls():
            if recorded.entry not in (CallKind.OBJECT, CallKind.KNOWN):
                continue
            event = reader.event(recorded)
            if isinstance(event, ObjectEvent) and not _is_left_out(event):
                version = RESOURCES[event.kind].api_version
                meta = event.obj.metadata
                body = msgspec.json.encode(event.obj)
                found.append(Document(event.kind, body, "the recording", version, meta.namespace, meta.name))
    return found


def _header(header: SegmentHeader, names: Names) -> SegmentHeader:
    config = config_of(header.config)
    profiles = tuple(
        replace(each, scheduler_name=names.get(each.scheduler_name, each.scheduler_name)) for each in config.profiles
    )
    config = replace(config, profiles=profiles, extenders=())
    plugins = dict.fromkeys(header.plugins, "")
    return replace(header, begins="export", config=plain_config(config), plugins=plugins)


def _argument(recorded: RecordedCall, names: Names) -> Any:
    argument = recorded.argument
    if recorded.entry is CallKind.STANDING:
        known = msgspec.convert(argument, KnownState)
        assumed, nominated = (
            [(_name(uid, names), _name(node, names)) for uid, node in pairs]
            for pairs in (known.assumed, known.nominated)
        )
        return replace(known, assumed=assumed, nominated=nominated)
    if recorded.entry is CallKind.ANSWER:
        return [argument[0], None, ""]
    if recorded.entry is CallKind.CALL_OFF:
        return ""
    if recorded.entry is CallKind.ADOPT:
        return [[_name(uid, names), *rest] for uid, *rest in argument]
    return argument


def _outcome(outcome: CallOutcome, names: Names) -> CallOutcome:
    notes: list[Plain] = []
    for note in notes_of(outcome):
        if isinstance(note, DecisionNote):
            node = None if note.node is None else _name(note.node, names)
            notes.append([Note.DECIDED, *note._replace(uid=_name(note.uid, names), node=node, message="")])
        else:
            notes.append([note.kind, *(_name(uid, names) for uid in note.uids)])
    effects = [plain_effect(Bind(_ref(each.pod, names), _name(each.node_name, names))) for each in bindings_of(outcome)]
    for patch in status_patches_of(outcome):
        nominated = None if patch.nominated_node_name is None else _name(patch.nominated_node_name, names)
        effects.append(
            plain_effect(replace(patch, pod=_ref(patch.pod, names), message="", nominated_node_name=nominated))
        )
    return CallOutcome(notes, effects, outcome.readings, outcome.is_open, "")


def _ref(pod: PodRef, names: Names) -> PodRef:
    return PodRef(_name(pod.namespace, names), _name(pod.name, names), _name(pod.uid, names))


def _name(text: str, names: Names) -> str:
    """Return what a name became; one that no object has is left out."""
    return names.get(text, "")
