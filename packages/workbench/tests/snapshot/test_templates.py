"""Replicas are written as a template and a row each, and read as the objects that they were."""

import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.api.codec import ObjectError, decode
from berth.api.meta import Struct
from berth.api.read_only import ReadOnlyDict
from berth_workbench.snapshot.documents import Document, SnapshotError, complete, read_documents
from berth_workbench.snapshot.header import Header
from berth_workbench.snapshot.snapshot import Snapshot, read_cluster
from berth_workbench.snapshot.templates import Filled
from berth_workbench.snapshot.writer import with_counts, write_snapshot

texts = st.sampled_from(["", "a", 'b"\\\n', "é\0", "\0berth 0\0", "node-1"])


def daemons_node(node: str) -> dict[str, Any]:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": draw(st.sampled_from(["p1", "p2", "p3"])), "namespace": "default"}
    for field in ("uid", "resourceVersion", "creationTimestamp"):
        if draw(st.booleans()):
            metadata[field] = draw(texts)
    if draw(st.booleans()):
        metadata["labels"] = {"app": draw(texts), "apps.kubernetes.io/pod-index": draw(texts)}
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": draw(st.sampled_from("12"))}}}]
    }
    node = draw(texts)
    if draw(st.booleans()):
        spec["nodeName"] = node
    if draw(st.booleans()):
        spec["affinity"] = daemons_node(node)
    status = {"startTime": draw(texts)} if draw(st.booleans()) else {}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": status}


def written(path: Path, manifests: list[dict[str, Any]]) -> Path:
    documents = [Document(each["kind"], json.dumps(each).encode(), "here", each["apiVersion"]) for each in manifests]
    write_snapshot(with_counts(documents, Header()), path)
    return path


def written_one_by_one(path: Path, manifests: list[dict[str, Any]]) -> Path:
    counts = Counter(each["kind"] for each in manifests)
    lines = [{"kind": "BerthSnapshot", "format": 1, "counts": counts}, *manifests]
    path.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in lines))
    return path


def struct_of(manifest: dict[str, Any]) -> Struct:
    found = decode(manifest["kind"], manifest)
    complete(manifest["kind"], found)
    return found


@settings(deadline=None, max_examples=60)
@given(manifests=st.lists(pods(), min_size=1, max_size=12), write=st.sampled_from([written, written_one_by_one]))
def test_what_is_read_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, manifests: list[Any], write: Callable[[Path, list[Any]], Path]
) -> None:
    service = {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s", "namespace": "default"}}
    given_objects = [*manifests, service, *manifests]  # replicas, which stand apart

    path = write(tmp_path_factory.mktemp("snapshots") / "s.gz", given_objects)

    found = read_documents([path])
    assert [each.manifest for each in found] == given_objects
    assert [json.loads(each.json()) for each in found] == given_objects
    assert [(each.kind, each.namespace, each.name) for each in found] == [
        (each["kind"], "default", each["metadata"]["name"]) for each in given_objects
    ]
    expected = [struct_of(each) for each in given_objects if each["kind"] == "Pod"]
    assert list(Snapshot([each for each in found if each.kind == "Pod"]).structs()) == expected


def pod(name: str, node: str = "n1", **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"nodeName": node, "containers": []}}


def test_replicas_share_all_but_what_differs(tmp_path: Path) -> None:
    path = written(tmp_path / "s.gz", [pod("a", app="web"), pod("b", node="n2", app="web"), pod("c", app="db")])

    snapshot = read_cluster([path])
    a, b, c = (each for each in snapshot.structs())

    assert [isinstance(each.body, Filled) for each in snapshot.documents] == [True, True, False]
    assert a.metadata.labels is b.metadata.labels and isinstance(a.metadata.labels, ReadOnlyDict)  # type: ignore[attr-defined]
    assert a.spec.containers is b.spec.containers  # type: ignore[attr-defined]
    assert (a.spec.node_name, b.spec.node_name, c.spec.node_name) == ("n1", "n2", "n1")  # type: ignore[attr-defined]


def test_an_object_says_whether_it_may_have_a_field(tmp_path: Path) -> None:
    path = written(tmp_path / "s.gz", [pod("a"), pod("b"), pod("c", app="nodeSelector")])

    for each in read_documents([path]):
        assert each.may_mention(b"nodeName") and each.may_mention(b"nothing", b"containers")
        assert each.may_mention(b"nodeSelector") == (each.name == "c")


HEADER = '{"kind": "BerthSnapshot", "format": 2}'
TEMPLATE = {"kind": "BerthTemplate", "object": pod("", ""), "differ": [["metadata", "name"], ["spec", "nodeName"]]}


@pytest.mark.parametrize(
    ("template", "rows", "message"),
    [
        pytest.param(TEMPLATE, "[[1, ['a', 'b']]]", "a row that does not fit template 1", id="no such template"),
        pytest.param(TEMPLATE, "[[-1, ['a', 'b']]]", "a row that does not fit template -1", id="below the first"),
        pytest.param(TEMPLATE, "[[0, ['a']]]", "a row that does not fit template 0", id="too few texts"),
        pytest.param(TEMPLATE, "[[0, ['a', 5]]]", "Expected `str`, got `int`", id="no text"),
        pytest.param(TEMPLATE, "[[0, ['a', 'b']]", "Input data was truncated", id="cut short"),
        pytest.param({**TEMPLATE, "differ": [["spec", "nodeName"]]}, "[]", "no name is left out", id="one name"),
        pytest.param({**TEMPLATE, "differ": [["metadata", "none"]]}, "[]", "there is no text in a place", id="nowhere"),
        pytest.param({**TEMPLATE, "differ": [["metadata"]]}, "[]", "there is no text in a place", id="not a text"),
        pytest.param(
            {**TEMPLATE, "differ": [["metadata", "name"]] * 2}, "[]", "it leaves a place out twice", id="twice the same"
        ),
        pytest.param({**TEMPLATE, "object": {"metadata": {"name": ""}}}, "[]", "a place", id="no object"),
        pytest.param({**TEMPLATE, "differ": "name"}, "[]", "Expected `array`, got `str`", id="no list"),
    ],
)
def test_wrong_templates_get_one_clear_line(tmp_path: Path, template: object, rows: str, message: str) -> None:
    path = tmp_path / "s.gz"
    path.write_bytes(gzip.compress(f"{HEADER}\n{json.dumps(template)}\n{rows.replace(chr(39), chr(34))}\n".encode()))

    with pytest.raises(SnapshotError) as caught:
        read_documents([path])

    said = str(caught.value)
    assert said.startswith(f"{path}:") and "not readable as objects that are alike" in said and message in said
    assert "\n" not in said


def test_an_object_that_the_scheduler_cannot_read_is_named(tmp_path: Path) -> None:
    broken = [{**pod(name), "spec": {"containers": [{"resources": {"requests": {"cpu": "x"}}}]}} for name in ("a", "b")]
    path = written(tmp_path / "s.gz", broken)

    with pytest.raises(SnapshotError, match=r"default/a.*cpu"):
        list(read_cluster([path]).structs())


def test_files_of_the_first_format_are_read(tmp_path: Path) -> None:
    path = tmp_path / "s.gz"
    lines = ['{"kind": "BerthSnapshot", "format": 1, "counts": {"Pod": 2}}', *map(json.dumps, (pod("a"), pod("b")))]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))

    assert [each.manifest for each in read_documents([path])] == [pod("a"), pod("b")]


def test_replicas_of_the_first_format_share_all_but_what_differs(tmp_path: Path) -> None:
    many = [pod(f"p{number}", f"n{number % 7}", app="web") for number in range(2500)]
    path = written_one_by_one(tmp_path / "old", [pod("alone", app="alone"), *many[:1200], pod("b"), *many[1200:]])
    found = read_cluster([path])
    structs = {each.metadata.name: each for each in found.structs()}
    assert structs["p1"].spec.containers is structs["p2499"].spec.containers
    assert [each.name for each in found.documents] == [
        "alone", *(f"p{number}" for number in range(1200)), "b", *(f"p{number}" for number in range(1200, 2500))
    ]  # fmt: skip
    filled = [each for each in found.documents if isinstance(each.body, Filled)]
    assert len(filled) == 2499 and len({id(each.body.template) for each in filled}) == 1


def test_a_pod_of_the_first_format_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    bad = pod("bad", app="web")
    bad["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"cpu": "many"}}}]
    path = written_one_by_one(tmp_path / "old", [*(pod(f"p{number}", app="web") for number in range(3)), bad])
    with pytest.raises(ObjectError, match="bad"):
        list(read_cluster([path]).structs())
