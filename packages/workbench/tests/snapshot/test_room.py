"""A file takes room by its size, however many objects it says it has.

Peaks are those of Python's allocations, and compared with the size of the text: nothing here depends on the machine.
"""

import gzip
import tracemalloc

import pytest

from berth_workbench.snapshot import documents, text
from berth_workbench.snapshot.documents import SnapshotError, read_documents

COUNT = 400_000
HEADER = b'{"kind":"BerthSnapshot","format":1}\n'
EMPTY = {
    "a list": b'{"kind":"List","items":[' + b"{}," * COUNT + b"{}]}",
    "an indented list": b'{\n    "kind": "List",\n    "items": [\n' + b"        {\n        },\n" * (COUNT // 8) + b"]}",
    "an array": b"[" + b"{}," * COUNT + b"{}]",
    "an array of arrays": b"[" + b"[]," * COUNT + b"[]]",
    "objects one after the other": b"{}" * COUNT,
    "lines": b"{}\n" * COUNT,
    "a snapshot": HEADER + b"{}\n" * COUNT,
    "a YAML list": b"kind: List\nitems:\n" + b"- {}\n" * COUNT,
    "a YAML list of nothing": b"kind: List\nitems:\n" + b"-\n" * COUNT,
    "YAML in flow style": b"a: [" + b"{}," * COUNT + b"{}]",
    "YAML documents": b"--- {}\n" * COUNT,
    "plain YAML documents": b"---\na: b\n" * (COUNT // 4),
}


READ_BY_PYYAML = ("a YAML list of nothing", "YAML in flow style", "YAML documents")


def peak_of_reading(path):
    tracemalloc.start()
    try:
        with pytest.raises(SnapshotError) as refused:
            read_documents([path])
        return tracemalloc.get_traced_memory()[1], str(refused.value)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("what", EMPTY)
def test_many_objects_that_are_none_take_little_more_room_than_their_text(tmp_path, what, packed):
    content = EMPTY[what]
    (tmp_path / "given").write_bytes(gzip.compress(content) if packed else content)
    peak, _ = peak_of_reading(tmp_path / "given")
    nodes = documents.FREE_NODES + len(content) // documents.TEXT_A_NODE if what in READ_BY_PYYAML else 0
    assert peak < 8 * len(content) + (16 << 20) + documents.NODE_BYTES * nodes, peak / len(content)


LINES = {
    "lines": b'{"kind":"Pod"}\n' * 3000,
    "a snapshot": HEADER + b'{"kind":"Pod"}\n' * 3000,
    "a list": b'{"kind":"List","items":[' + b'{"kind":"Pod"},' * 3000 + b'{"kind":"Pod"}]}',
    "an array": b"[" + b'{"kind":"Pod"},' * 3000 + b'{"kind":"Pod"}]',
    "YAML documents": b"---\nkind: Pod\n" * 3000,
    "a YAML list": b"kind: List\nitems:\n" + b"- kind: Pod\n" * 3000,
}


@pytest.mark.parametrize("content", LINES.values(), ids=LINES)
def test_more_objects_than_any_cluster_has_are_refused(tmp_path, monkeypatch, content):
    monkeypatch.setattr(documents, "MAX_OBJECTS", 2000)
    (tmp_path / "given").write_bytes(content)
    with pytest.raises(SnapshotError, match=r"given: more than 2,000 objects; no cluster has as many"):
        read_documents([tmp_path / "given"])


def test_objects_of_several_files_count_together(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "MAX_OBJECTS", 5000)
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(LINES["lines"])
    with pytest.raises(SnapshotError, match=r"b.json: more than 5,000 objects"):
        read_documents([tmp_path])


@pytest.mark.parametrize("content", LINES.values(), ids=LINES)
def test_what_a_small_file_unpacks_to_is_bounded_with_the_room_that_objects_take(tmp_path, monkeypatch, content):
    monkeypatch.setattr(text, "FREE_BYTES", 1 << 20)
    (tmp_path / "given").write_bytes(gzip.compress(content))
    with pytest.raises(SnapshotError, match="it unpacks to more objects than a file of its size has"):
        read_documents([tmp_path / "given"])
    (tmp_path / "given").write_bytes(content)
    assert len(read_documents([tmp_path / "given"])) >= 3000
