"""Files of recordings: truncated, damaged, of another version, and none at all."""

import random

import pytest

from berth.plugins.registry import in_tree_registry
from berth.recording.calls import CallKind, CallOutcome, Note, RecordedCall
from berth.recording.errors import RecordingError
from berth.recording.file_format import FORMAT, MAGIC, Packer, first_line, read_segments
from berth_workbench.replay.recording_comparison import RecordingComparer
from berth_workbench.replay.verification import verify
from tests.workbench.replay.histories import Churn


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A recording of several frames in one file."""
    directory = tmp_path_factory.mktemp("whole")
    lived = Churn(directory, 1)
    for _ in range(4):
        lived.live(10)
        lived.recorder.write()
    lived.close()
    (path,) = directory.iterdir()
    return path


def events_of(path):
    segments = [(segment, len(list(segment.calls()))) for segment in read_segments(path)]
    return sum(count for _, count in segments), any(segment.is_cut for segment, _ in segments)


def test_a_truncated_file_is_read_as_far_as_it_is_whole(whole, tmp_path):
    data, cut = whole.read_bytes(), tmp_path / "cut.rec"
    total, is_cut = events_of(whole)
    assert not is_cut
    seen = set()
    for length in sorted(random.Random(1).sample(range(len(MAGIC) + 2, len(data)), 60)):
        cut.write_bytes(data[:length])
        events, _ = events_of(cut)
        assert events < total
        seen.add(events)
    assert len(seen) >= 4
    cut.write_bytes(data[:-3])
    events, is_cut = events_of(cut)
    assert is_cut
    assert verify(read_segments(cut), in_tree_registry()).replayed == events == max(seen)


def test_damage_is_told_with_its_place(whole, tmp_path):
    data, damaged = bytearray(whole.read_bytes()), tmp_path / "damaged.rec"
    data[200] ^= 255
    damaged.write_bytes(data)
    with pytest.raises(RecordingError, match=r"damaged\.rec is damaged at byte \d+"):
        events_of(damaged)


def test_any_damage_is_an_error_or_a_missing_end(whole, tmp_path):
    data, damaged = whole.read_bytes(), tmp_path / "damaged.rec"
    rng = random.Random(2)
    for _ in range(200):
        spoiled = bytearray(data)
        spoiled[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        damaged.write_bytes(spoiled)
        try:
            events, is_cut = events_of(damaged)
        except RecordingError:
            continue
        assert is_cut or events == 0 or spoiled == data


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is no recording"),
        (b"apiVersion: v1\n", "is no recording: it does not begin with 'berth recording'"),
        (b"berth recording x\n", "is no recording"),
        (MAGIC + b"%d\n" % (FORMAT + 1), f"has format {FORMAT + 1}, and this version of Berth reads up to {FORMAT}"),
    ],
)
def test_other_files_are_refused(tmp_path, content, words):
    path = tmp_path / "other.rec"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=words):
        events_of(path)


def test_a_directory_without_a_recording_is_refused(tmp_path):
    with pytest.raises(RecordingError, match="holds no recording"):
        list(read_segments(tmp_path))
    with pytest.raises(RecordingError, match="there is no file or directory"):
        list(read_segments(tmp_path / "nowhere"))


def test_an_empty_file_beside_others_is_what_a_killed_process_leaves(whole, tmp_path):
    (tmp_path / "1.rec").write_bytes(whole.read_bytes())
    (tmp_path / "2.rec").write_bytes(b"")
    assert events_of(tmp_path) == events_of(whole)


@pytest.mark.parametrize(
    "call",
    [
        RecordedCall(CallKind.STEP, 1.0, True, CallOutcome(notes=[[Note.DECIDED, "uid"]])),
        RecordedCall(CallKind.STEP, 1.0, True, CallOutcome(notes=[[Note.DECIDED, 1, None, "", "", 1.0, 1]])),
        RecordedCall(CallKind.STEP, 1.0, True, CallOutcome(notes=[[Note.TURNED_BACK, {}]])),
        RecordedCall(CallKind.STEP, 1.0, True, CallOutcome(notes=[[]])),
        RecordedCall(CallKind.STEP, 1.0, True, CallOutcome(effects=[[]])),
        RecordedCall(CallKind.STEP, 1.0, True, CallOutcome(effects=[["Request", 1, ["Bind", "p"]]])),
        RecordedCall(CallKind.STEP, 1.0, True, CallOutcome(effects=[["PatchPodStatus", []]])),
        RecordedCall(CallKind.STEP, 1.0, True, CallOutcome(effects=[["Bind", ["default", "p"], "n"]])),
        RecordedCall(CallKind.STANDING, 1.0, [3]),
        RecordedCall(CallKind.OBJECT, 1.0, [7, "Pod", []]),
        RecordedCall(CallKind.OBJECT, 1.0, None),
        RecordedCall(CallKind.ANSWER, 1.0, [1]),
    ],
)
def test_what_nobody_can_have_recorded_is_refused(whole, tmp_path, call):
    """A file that somebody has made up: its checksums are right, and what it says makes no sense."""
    (header,) = [segment.header for segment in read_segments(whole)]
    packer = Packer()
    (tmp_path / "odd.rec").write_bytes(first_line() + packer.pack(header) + packer.pack([call]))
    for follow in (verify, lambda segments, registry: RecordingComparer(registry).follow(segments)):
        with pytest.raises(RecordingError, match="cannot be read"):
            follow(read_segments(tmp_path / "odd.rec"), in_tree_registry())
