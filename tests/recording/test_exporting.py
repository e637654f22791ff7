"""Parts of a recording in one file, and tests written from them."""

import importlib.util

import pytest

from berth.plugins.registry import in_tree_registry
from berth.recording.calls import Note
from berth.recording.checking import checked, decisions_now, source_of_test
from berth.recording.errors import RecordingError
from berth.recording.exporting import MARGIN, Span, around_pod, everything, export, last_events
from berth.recording.file_format import read_segments
from berth.recording.judging import Judging
from berth.recording.verifying import verify
from tests.recording.histories import REGISTRY, Churn, RecordedLife


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
    found = Judging(registry).follow(read_segments(recording))
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
        found = Judging(REGISTRY).follow(read_segments(tmp_path / "part.rec"))
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
