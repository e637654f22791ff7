"""Streams as kubectl prints them: on one line or over several, of one kind or several, compressed or not."""

import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from berth.agreement.stream import EventStream, StreamError

Json = dict[str, Any]


def pod(name: str, revision: int, *, node: str = "", created: str = "2026-11-23T13:00:00Z", bound: str = "") -> Json:
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": bound}] if bound else []
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name, "namespace": "default", "uid": name, "resourceVersion": str(revision),
            "creationTimestamp": created,
        },
        "spec": {"containers": [{"name": "c"}], **({"nodeName": node} if node else {})},
        "status": {"phase": "Pending", "conditions": conditions},
    }  # fmt: skip


def node(name: str, revision: int) -> Json:
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "uid": name, "resourceVersion": str(revision)},
    }


def event(type_: str, obj: Json) -> Json:
    return {"type": type_, "object": obj}


def names(stream: EventStream) -> list[str]:
    return [f"{each.event.type} {each.event.obj.metadata.name}" for each in stream]


EVENTS = [
    event("ADDED", pod("a", 5)),
    event("MODIFIED", pod("a", 7, node="n1")),
    event("DELETED", pod("a", 9, node="n1")),
]
TOLD = ["ADDED a", "MODIFIED a", "DELETED a"]


@pytest.mark.parametrize("indent", [None, 2, 4])
@pytest.mark.parametrize("is_compressed", [False, True])
def test_documents_may_be_on_one_line_or_over_several(tmp_path: Path, indent: int | None, is_compressed: bool) -> None:
    text = "".join(json.dumps(each, indent=indent) + "\n" for each in EVENTS).encode()
    path = tmp_path / "pods"
    path.write_bytes(gzip.compress(text) if is_compressed else text)
    assert names(EventStream([str(path)])) == TOLD


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(json.dumps(each) + "\n" for each in EVENTS).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text))))
    assert names(EventStream(["-"])) == TOLD


def test_several_files_are_put_together_by_revision_though_lists_are_sorted_by_name(tmp_path: Path) -> None:
    pods, nodes = tmp_path / "pods.json", tmp_path / "nodes.json"
    pods.write_text(
        "".join(json.dumps(event("ADDED", pod(name, revision))) + "\n" for name, revision in (("a", 30), ("b", 10)))
    )
    nodes.write_text(
        json.dumps({"kind": "NodeList", "apiVersion": "v1", "items": [node("n1", 20), node("n2", 5)]}, indent=4)
        + "\n"
        + json.dumps(event("DELETED", node("n1", 40)))
    )
    assert names(EventStream([str(pods), str(nodes)])) == ["ADDED n2", "ADDED b", "ADDED n1", "ADDED a", "DELETED n1"]


def test_a_record_begins_with_what_was_there_and_its_other_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "record"
    header = {
        "configuration": {"percentageOfNodesToScore": 0},
        "objects": [{"kind": "Namespace", "metadata": {"name": "default"}}],
    }
    decision = {"decision": {"pod": "default/a", "node": "n1", "scores": {}}}
    path.write_text("".join(json.dumps(each) + "\n" for each in (header, *EVENTS, decision)))
    stream = EventStream([str(path)])
    assert stream.header is not None and stream.header.configuration == {"percentageOfNodesToScore": 0}
    assert [(each.kind, each.obj.metadata.name) for each in stream.header.objects] == [("Namespace", "default")]
    assert names(stream) == TOLD


def test_kinds_that_no_decision_depends_on_and_bookmarks_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "events"
    strange = [event("ADDED", {"kind": "Gadget", "metadata": {"name": "g"}}), event("BOOKMARK", pod("", 6))]
    path.write_text("".join(json.dumps(each) + "\n" for each in (*strange, *EVENTS)))
    assert names(EventStream([str(path)])) == TOLD


def test_events_of_a_second_are_spread_over_it_by_their_revisions(tmp_path: Path) -> None:
    path = tmp_path / "events"
    events = [
        event("ADDED", pod("a", 100)),
        event("MODIFIED", pod("a", 105, node="n1", bound="2026-11-23T13:00:00Z")),
        event("ADDED", pod("b", 110, created="2026-11-23T13:00:01Z")),
    ]
    path.write_text("".join(json.dumps(each) + "\n" for each in events))
    first, second, third = (each.at for each in EventStream([str(path)]))
    assert second - first == pytest.approx(0.5)
    assert third - first == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"type": "ADDED", "object": {"kind": "Pod"\n', "does not end"),
        ('{"type": "ADDED", "object": 7}\n', ":1: "),
        (json.dumps(pod("a", 1)) + "\n", "--output-watch-events"),
        ('{"type": "ERROR", "object": {"kind": "Status", "message": "too old"}}\n', "too old"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "events"
    path.write_text(text)
    with pytest.raises(StreamError, match=says) as raised:
        list(EventStream([str(path)]))
    assert str(path) in str(raised.value)


def test_a_file_that_is_not_there_or_is_cut_short_is_told(tmp_path: Path) -> None:
    with pytest.raises(StreamError, match="No such file"):
        EventStream([str(tmp_path / "nothing")])
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(b"".join(json.dumps(each).encode() + b"\n" for each in EVENTS * 99))[:-20])
    with pytest.raises(StreamError, match=r"cut\.gz"):
        list(EventStream([str(path)]))


def test_what_several_watches_have_written_into_one_file_is_put_in_order(tmp_path: Path) -> None:
    path = tmp_path / "both"
    late = [EVENTS[0], event("ADDED", node("n1", 1)), EVENTS[2], EVENTS[1]]
    path.write_text("".join(json.dumps(each) + "\n" for each in late))
    assert names(EventStream([str(path)])) == ["ADDED n1", *TOLD]


@pytest.mark.parametrize(
    ("is_compressed", "says"), [(False, ":4: the document that begins here"), (True, "end-of-stream")]
)
def test_the_events_of_a_watch_that_was_stopped_are_taken_where_somebody_is_told(
    tmp_path: Path, is_compressed: bool, says: str
) -> None:
    path = tmp_path / "cut"
    text = "".join(json.dumps(each) + "\n" for each in EVENTS).encode()
    path.write_bytes(gzip.compress(text)[:-4] if is_compressed else text + b'{"type": "ADDED", "object": {"kind"')
    told: list[StreamError] = []
    assert names(EventStream([str(path)], told.append)) == TOLD
    (error,) = told
    assert says in str(error)


def test_a_watch_that_ended_with_an_error_may_have_begun_again(tmp_path: Path) -> None:
    path = tmp_path / "events"
    error = {"type": "ERROR", "object": {"kind": "Status", "message": "too old resource version"}}
    path.write_text("".join(json.dumps(each) + "\n" for each in (*EVENTS[:2], error, *EVENTS)))
    told: list[StreamError] = []
    stream = EventStream([str(path)], told.append)
    assert names(stream)[-1] == "DELETED a" and "too old" in str(told[0])
