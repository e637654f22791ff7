"""A bug report without names: the decisions are the same, and no name is left."""

import zlib

import pytest

from berth.recording.file_format import FRAME, first_line, read_segments
from berth_workbench.replay.anonymizer import anonymize
from berth_workbench.replay.export import everything, export, last_events
from berth_workbench.replay.recording_comparison import RecordingComparer
from tests.workbench.replay.histories import REGISTRY, Churn, RecordedLife


def content_of(path):
    """What a recording says, uncompressed."""
    data, found = path.read_bytes().removeprefix(first_line()), b""
    inflate = None
    while data:
        letter, length, _ = FRAME.unpack_from(data)
        inflate = zlib.decompressobj() if letter == b"S" else inflate
        found += inflate.decompress(data[FRAME.size : FRAME.size + length])
        data = data[FRAME.size + length :]
    return found


@pytest.mark.parametrize(
    ("make", "span"),
    [
        (lambda path: Churn(path, 4), lambda _path: everything()),
        (lambda path: Churn(path, 4), lambda path: last_events(path, 200)),
        (lambda path: RecordedLife(path, 5), lambda _path: everything()),
        (lambda path: RecordedLife(path, 6, crowded=True), lambda path: last_events(path, 100)),
    ],
)
def test_decisions_stay_the_same(tmp_path, make, span):
    lived = make(tmp_path / "whole")
    lived.live(150 if isinstance(lived, RecordedLife) else 40)
    lived.close()
    target = tmp_path / "bug.rec"
    export(tmp_path / "whole", target, span(tmp_path / "whole"), REGISTRY)
    before = RecordingComparer(REGISTRY).follow(read_segments(target))
    anonymize(target)
    found = RecordingComparer(REGISTRY).follow(read_segments(target))
    assert (found.different, found.not_compared) == (0, {})
    assert (found.events, found.decisions, found.compared) == (before.events, before.decisions, before.compared)
    assert found.decisions > 5


def test_no_name_is_left(tmp_path):
    lived = Churn(tmp_path / "whole", 4, names="acme-{}")
    lived.live(30)
    lived.close()
    target = tmp_path / "bug.rec"
    export(tmp_path / "whole", target, everything(), REGISTRY)
    assert b"acme-" in content_of(target)
    anonymize(target)
    assert b"acme-" not in content_of(target)
