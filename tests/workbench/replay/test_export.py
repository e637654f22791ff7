"""Parts of a recording in one file, and tests written from them."""

import ast
import importlib.util

import pytest

from berth.plugins.registry import in_tree_registry
from berth.recording.calls import Note
from berth.recording.errors import RecordingError
from berth.recording.file_format import read_segments
from berth_workbench.replay.export import MARGIN, Span, around_pod, everything, export, last_events
from berth_workbench.replay.recorded_test import CheckedDecision, checked, decisions_now, source_of_test
from berth_workbench.replay.recording_comparison import RecordingComparer
from berth_workbench.replay.verification import verify
from tests.workbench.replay.histories import REGISTRY, Churn, RecordedLife


@pytest.fixture(scope="module")
def churn(tmp_path_factory):
    """Two lives, the first in several segments."""
    directory = tmp_path_factory.mktemp("churn")
    lived = Churn(directory, 4, nodes=3)
    lived.recorder._files._segment_limit = 6_000
    for _ in range(14):
        lived.live(6)
        lived.recorder.write()
    lived.restart()
    lived.live(30)
    lived.close()
    return directory


def calls(recording):
    return [written for segment in read_segments(recording) for written in segment.calls() if written.entry < 6]


def decisions_of(written):
    return [note[1:3] for each in written for note in each.outcome.notes if note[0] == Note.DECIDED]


def compared(recording, registry=REGISTRY):
    found = RecordingComparer(registry).follow(read_segments(recording))
    assert (found.different, found.not_compared) == (0, {})
    assert found.compared == found.decisions
    return found


def test_a_whole_recording_in_one_file_is_replayed_bit_for_bit(churn, tmp_path):
    written = export(churn, tmp_path / "bug.rec", everything(), in_tree_registry())
    whole = verify(read_segments(churn), in_tree_registry())
    found = verify(read_segments(tmp_path / "bug.rec"), in_tree_registry())
    assert found.first_difference is None
    assert (found.events, found.replayed, found.decisions) == (whole.events, whole.events, whole.decisions)
    assert (found.segments, found.lives) == (2, 2)
    assert (written.events, written.decisions) == (found.events, found.decisions)
    assert written.bytes == (tmp_path / "bug.rec").stat().st_size


@pytest.mark.parametrize("count", [1, 100, 400, 700, 5000])
def test_the_last_events_decide_what_was_decided(churn, tmp_path, count):
    span = last_events(churn, count)
    export(churn, tmp_path / "bug.rec", span, in_tree_registry())
    every = calls(churn)
    found = calls(tmp_path / "bug.rec")
    assert len(found) == min(count, len(every))
    assert [each.outcome for each in found] == [each.outcome for each in every[span.first - 1 :]]
    assert compared(tmp_path / "bug.rec").decisions == len(decisions_of(found))


@pytest.mark.parametrize(("seed", "crowded"), [(5, False), (6, True), (8, False)])
def test_any_part_of_a_life_of_all_sorts_decides_what_was_decided(tmp_path, seed, crowded):
    lived = RecordedLife(tmp_path / "whole", seed, crowded=crowded)
    lived.live(150)
    lived.close()
    total = len(calls(tmp_path / "whole"))
    for first in (total // 3, 2 * total // 3):
        export(tmp_path / "whole", tmp_path / "part.rec", Span(first, total), REGISTRY)
        found = RecordingComparer(REGISTRY).follow(read_segments(tmp_path / "part.rec"))
        assert (found.different, found.not_compared) == (0, {})
        assert found.decisions > 5


def test_what_is_about_a_pod(churn, tmp_path):
    uid, node = next(decision for decision in decisions_of(calls(churn)[300:]) if decision[1])
    name = f"p{uid.removeprefix('u')}"
    span = around_pod(churn, name)
    export(churn, tmp_path / "bug.rec", span, in_tree_registry())
    compared(tmp_path / "bug.rec")
    assert decisions_now(tmp_path / "bug.rec", f"default/{name}")[-1] == (f"default/{name}", node)
    every = [number for number, call in enumerate(calls(churn), 1) if [uid, node] in decisions_of([call])]
    assert span.first <= every[0] - MARGIN // 2
    assert every[-1] <= span.last
    with pytest.raises(RecordingError, match="has nothing about a pod default/nobody"):
        around_pod(churn, "nobody")


def test_a_file_that_cannot_be_written(churn, tmp_path):
    with pytest.raises(RecordingError, match="cannot write"):
        export(churn, tmp_path / "nowhere" / "bug.rec", everything(), in_tree_registry())
    with pytest.raises(RecordingError, match="has no such events"):
        export(churn, tmp_path / "bug.rec", Span(10**9, 10**9), in_tree_registry())
    assert not (tmp_path / "bug.rec").exists()


def test_a_written_test_passes_and_fails_when_a_decision_is_another(churn, tmp_path):
    recording = tmp_path / "bug.rec"
    export(churn, recording, last_events(churn, 300), in_tree_registry())
    decisions = checked(recording)
    assert len(decisions) > 20
    text = source_of_test(recording, decisions, "0.1")
    run_test(tmp_path / "test_bug.py", text)
    pod, node = next((each.pod, each.recorded) for each in decisions if each.recorded)
    changed = text.replace(f'("{pod}", "{node}")', f'("{pod}", "elsewhere")', 1)
    assert changed != text
    with pytest.raises(AssertionError):
        run_test(tmp_path / "test_changed.py", changed)


def run_test(path, text):
    """Import a test as pytest would, and run it."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.test_the_recorded_decisions()


def test_nothing_to_check_is_an_error(churn, tmp_path):
    with pytest.raises(RecordingError, match="no decision that a test could check"):
        source_of_test(tmp_path / "bug.rec", [], "0.1")


HOSTILE = 'x"""\nraise SystemExit\r\\"\\\'\x1b\x85\u2028é😀\ud800{}%s\\'


def test_what_a_recording_says_is_text_in_a_test_and_nothing_else(tmp_path):
    decisions = [CheckedDecision(f"default/{HOSTILE}", HOSTILE, None), CheckedDecision("default/b", None, None)]
    texts = [source_of_test(tmp_path / f"{HOSTILE}.rec", decisions, version, HOSTILE) for version in (HOSTILE, "0.1")]
    for text, begins in zip(texts, ("What Berth decided while", "What Berth 0.1 decided while"), strict=True):
        assert text.isascii()
        module = ast.parse(text)
        assert ast.get_docstring(module).splitlines()[0] == (
            f"{begins} it was recorded, decided again. By `berth replay --to-test`."
        )
        kinds = [type(each).__name__ for each in module.body]
        assert kinds == ["Expr", "ImportFrom", "ImportFrom", "Assign", "Assign", "Expr", "FunctionDef"]
        _, _, _, beside, recorded, told, function = module.body
        assert ast.literal_eval(beside.value.args[0]) == f"{HOSTILE}.rec"
        assert ast.literal_eval(recorded.value) == [(f"default/{HOSTILE}", HOSTILE), ("default/b", None)]
        assert isinstance(told.value, ast.Constant)
        (check,) = function.body
        assert ast.literal_eval(check.test.left.args[1]) == HOSTILE


@pytest.mark.parametrize("version", ["", "0.1\n", "0.1 ", "v" * 65, "0.1\\N{DIGIT ONE}"])
def test_only_what_looks_like_a_version_is_told_as_one(tmp_path, version):
    text = source_of_test(tmp_path / "bug.rec", [CheckedDecision("default/a", None, None)], version)
    assert text.startswith('"""What Berth decided while')


def contents(directory):
    return {path.name: path.read_bytes() if path.is_file() else None for path in directory.iterdir()}


def test_a_recording_is_never_written_over(tmp_path):
    lived = Churn(tmp_path / "d", 4, nodes=3)
    lived.live(5)
    lived.close()
    (source,) = (tmp_path / "d").iterdir()
    (tmp_path / "link.rec").symlink_to(source)
    (tmp_path / "same.rec").hardlink_to(source)
    (tmp_path / "new.py").symlink_to(tmp_path / "d" / "new.rec")
    before = contents(tmp_path / "d")
    for recording, target, words in (
        (source, source, "is part of the recording"),
        (source, tmp_path / "link.rec", "is part of the recording"),
        (tmp_path / "link.rec", source, "is part of the recording"),
        (source, tmp_path / "same.rec", "is part of the recording"),
        (tmp_path / "d", source, "is part of the recording"),
        (tmp_path / "d", tmp_path / "d" / "new.rec", "belongs to the recording"),
        (tmp_path / "d", tmp_path / "d" / ".." / "d" / "new.rec", "belongs to the recording"),
        (tmp_path / "d", tmp_path / "new.py", "belongs to the recording"),
        (source, tmp_path / "d" / "new.rec", "belongs to the recording"),
    ):
        with pytest.raises(RecordingError, match=words):
            export(recording, target, everything(), in_tree_registry())
        assert contents(tmp_path / "d") == before


def test_what_fails_leaves_everything_as_it_was(churn, tmp_path):
    older = tmp_path / "bug.rec"
    older.write_text("older")
    damaged = tmp_path / "damaged.rec"
    data = bytearray(min(churn.iterdir()).read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    (tmp_path / "None").mkdir()
    (tmp_path / "loop.rec").symlink_to("loop.rec")
    before = contents(tmp_path)
    for source, target, span, words in (
        (churn, older, Span(10**9, 10**9), "has no such events"),
        (damaged, older, everything(), "damaged.rec is damaged at byte"),
        (damaged, tmp_path / "new.rec", everything(), "damaged.rec is damaged at byte"),
        (churn, tmp_path / "None", everything(), f"cannot write {tmp_path}/None: it is no ordinary file"),
        (churn, tmp_path / "loop.rec", everything(), f"cannot write {tmp_path}/loop.rec: "),
    ):
        with pytest.raises(RecordingError, match=words):
            export(source, target, span, in_tree_registry())
        assert contents(tmp_path) == before


def test_a_file_that_is_replaced_keeps_its_permissions_and_its_link(churn, tmp_path):
    (tmp_path / "file.rec").write_text("older")
    (tmp_path / "file.rec").chmod(0o640)
    (tmp_path / "link.rec").symlink_to("file.rec")
    written = export(churn, tmp_path / "link.rec", last_events(churn, 5), in_tree_registry())
    assert written.file == str(tmp_path / "link.rec")
    assert (tmp_path / "link.rec").is_symlink()
    assert (tmp_path / "file.rec").stat().st_mode & 0o777 == 0o640
    assert len(calls(tmp_path / "file.rec")) == 5
    assert len(list(tmp_path.iterdir())) == 2
