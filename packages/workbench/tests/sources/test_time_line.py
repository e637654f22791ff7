"""Time lines as files: what `berth simulate` has written is read, and what is damaged is told."""

import json

import pytest

from berth_workbench.sources.time_line import TimeLineError, read_time_line
from tests.workbench.page.test_page import lived, result


@pytest.fixture
def document():
    return lived().document(result())


def read(tmp_path, document):
    path = tmp_path / "line.json"
    path.write_text(json.dumps(document))
    return read_time_line(path)


def test_what_was_written_is_read(tmp_path, document):
    found = read(tmp_path, document)
    assert found.times == (0.0, 3600.0, 7200.0, 10800.0) and found.result.made == 40
    assert [(each.start, len(each.names)) for each in found.nodes] == [(0, 2), (2, 3)]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"kind": "Pod"}, "not a time line"),
        ({"version": 2}, "not a time line of `berth simulate --timeline`, version 1"),
        ({"times": [0.0]}, "1 times, 4 states of the nodes, 4 samples"),
        ({"nodes": []}, "do not begin with the first sample"),
        ({"nodes": [{"from": 1, "names": ["a"]}]}, "do not begin with the first sample"),
        ({"levels": ["AAA="] * 4}, "3 nodes, but 2 values at sample 2"),
        ({"levels": ["<script>"] * 4}, "at sample 0 is not base64"),
        ({"result": None}, "not a time line of `berth simulate --timeline`: Expected"),
    ],
)
def test_what_is_damaged_is_told_in_one_line(tmp_path, document, change, told):
    with pytest.raises(TimeLineError, match=told) as error:
        read(tmp_path, {**document, **change})
    assert "\n" not in str(error.value)


def test_what_is_no_file_is_told(tmp_path):
    with pytest.raises(TimeLineError, match="No such file"):
        read_time_line(tmp_path / "none")
