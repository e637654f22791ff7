"""What people have is read: kubectl's output in all its forms, snapshots, manifests; anything else is refused."""

import gzip
import io
import json
import tarfile
from pathlib import Path

import msgspec
import pytest
import yaml

from berth.api.codec import ObjectError
from berth.core.builders import make_node, make_pod
from berth_workbench.snapshot import documents, text
from berth_workbench.snapshot.documents import Document, SnapshotError, parse_documents, read_documents
from berth_workbench.snapshot.snapshot import read_cluster

NODE = make_node("n1").capacity(cpu="4", memory="8Gi", pods="110").document
POD = make_pod("p1").request(cpu="500m").node("n1").document
HEADER = {"kind": "BerthSnapshot", "format": 1}


def kubectl_list(*objects: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": list(objects)}


def lines(*objects: object) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in objects)


def write(directory: Path, content: bytes | str, name: str = "given") -> Path:
    path = directory / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def named(documents: list[Document]) -> list[str]:
    return [f"{each.kind} {each.name}" for each in documents]


FORMS = {
    "list, JSON as kubectl indents it": json.dumps(
        {"apiVersion": "v1", "items": [NODE, POD], "kind": "List", "metadata": {"resourceVersion": ""}}, indent=4
    ).encode(),
    "list, JSON": json.dumps(kubectl_list(NODE, POD), indent=4).encode(),
    "list, JSON in one line": json.dumps(kubectl_list(NODE, POD)).encode(),
    "list, YAML": yaml.safe_dump(kubectl_list(NODE, POD)).encode(),
    "objects one after the other, indented": (json.dumps(NODE, indent=4) + "\n" + json.dumps(POD, indent=4)).encode(),
    "objects without space between": (json.dumps(NODE) + json.dumps(POD)).encode(),
    "objects, one a line": lines(NODE, POD),
    "objects, one a line, with empty lines": b"\n\n".join((b"", lines(NODE), lines(POD))),
    "array": json.dumps([NODE, POD]).encode(),
    "YAML documents": ("# nodes\n---\n" + yaml.safe_dump(NODE) + "---\n---\n" + yaml.safe_dump(POD)).encode(),
    "YAML in flow style": b"{kind: Node, metadata: {name: n1}}\n--- {kind: Pod, metadata: {name: p1}}\n",
    "a server's lists": lines(
        {"kind": "NodeList", "apiVersion": "v1", "items": [{k: v for k, v in NODE.items() if k != "kind"}]},
        {"kind": "PodList", "apiVersion": "v1", "items": [{k: v for k, v in POD.items() if k != "kind"}]},
    ),
    "a snapshot": lines(HEADER | {"counts": {"Node": 1, "Pod": 1}}, NODE, POD),
    "a snapshot without counts": lines(HEADER, NODE, POD),
    "JSON with a byte order mark": b"\xef\xbb\xbf" + json.dumps(kubectl_list(NODE, POD)).encode(),
}


@pytest.mark.parametrize("content", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_objects_are_read_in_every_form(tmp_path: Path, content: bytes, packed: bool) -> None:
    path = write(tmp_path, gzip.compress(content) if packed else content)
    assert named(read_documents([path])) == ["Node n1", "Pod p1"]


@pytest.mark.parametrize("content", [FORMS["list, JSON"], FORMS["list, YAML"], FORMS["a snapshot"]])
def test_the_objects_are_what_was_given(tmp_path: Path, content: bytes) -> None:
    node, pod = read_documents([write(tmp_path, content)])
    assert (node.manifest, pod.manifest) == (NODE, POD)
    assert node.struct().status.allocatable == {"cpu": "4", "memory": "8Gi", "pods": "110"}  # type: ignore[attr-defined]
    assert b"\n" not in node.body


def test_files_directories_and_standard_input_are_read_in_order(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    for name in ("d/b.yaml", "d/e/a.yml.gz", "d/a.json", "d/notes.txt", "d/c.jsonl"):
        content = lines({"kind": "Node", "metadata": {"name": name}})
        write(tmp_path, gzip.compress(content) if name.endswith("gz") else content, name)
    stdin = io.TextIOWrapper(io.BytesIO(gzip.compress(lines({"kind": "Node", "metadata": {"name": "in"}}))))
    monkeypatch.setattr("sys.stdin", stdin)
    single = write(tmp_path, lines(POD), "single")
    found = [each.name for each in read_documents([tmp_path / "d", "-", single])]
    assert found == ["d/a.json", "d/b.yaml", "d/c.jsonl", "d/e/a.yml.gz", "in", "p1"]


def test_what_a_manifest_leaves_out_is_filled_in(tmp_path: Path) -> None:
    content = "kind: Pod\nmetadata: {name: a}\n---\nkind: Node\nmetadata: {name: b}\n"
    pod, node = (each.struct() for each in read_documents([write(tmp_path, content)]))
    assert (pod.metadata.namespace, pod.metadata.uid) == ("default", "default/a")  # type: ignore[attr-defined]
    assert (node.metadata.namespace, node.metadata.uid) == ("", "b")  # type: ignore[attr-defined]
    (shared,) = (each for each in read_cluster([tmp_path / "given"]).structs() if each == pod)
    assert shared == pod


def test_an_older_version_is_converted_and_another_group_left_alone(tmp_path: Path) -> None:
    claim = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "x"},
        "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "gpu", "count": 2}]}},
    }
    foreign = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload", "metadata": {"name": "w"}, "spec": 5}
    snapshot = read_cluster([write(tmp_path, lines(claim, foreign))])
    (found,) = snapshot.structs()
    assert found.spec.devices.requests[0].exactly.count == 2  # type: ignore[attr-defined]
    assert [each.api_version for each in snapshot.documents] == ["resource.k8s.io/v1", "kueue.x-k8s.io/v1beta1"]


def test_the_last_of_what_is_given_twice_counts(tmp_path: Path) -> None:
    later = {**POD, "spec": {"nodeName": "n2"}}
    snapshot = read_cluster([write(tmp_path, lines(POD, NODE), "a"), write(tmp_path, lines(later), "b")])
    assert [each.kind for each in snapshot.documents] == ["Pod", "Node"]
    assert [each.manifest["spec"]["nodeName"] for each in snapshot.of("Pod")] == ["n2"]


def test_replicas_share_their_parts_and_nodes_come_before_pods(tmp_path: Path) -> None:
    pods = [make_pod(f"p{number}").request(cpu="1").document for number in range(3)]
    node, *found = read_cluster([write(tmp_path, lines(*pods, NODE))]).structs()
    assert type(node).__name__ == "Node"
    assert len({id(pod.spec) for pod in found}) == 1  # type: ignore[attr-defined]


def archive() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo("x"))
    return made.getvalue()


def nested(count: int) -> bytes:
    return b"a: &a0 [x]\n" + b"".join(b"b%d: &a%d [*a%d, *a%d]\n" % (n, n, n - 1, n - 1) for n in range(1, count))


GOOD = gzip.compress(lines(HEADER | {"counts": {"Pod": 1}}, POD))
WRONG = {
    "nothing": (b"", "F: nothing in it"),
    "space": (b" \n\n", "F: nothing in it"),
    "not JSON": (b'{\n "kind": "Pod",\n "metadata" 1}', "F:3: not readable as JSON: malformed: expected ':'"),
    "cut short": (json.dumps(POD, indent=2).encode()[:-20], "F: not readable as JSON: it ends in the middle"),
    "one bad line": (lines(POD, NODE) + b'{"kind": Pod}\n', "F:3: not readable as JSON: malformed: invalid character"),
    "not YAML": (b"kind: Pod\nmetadata: {name: [}\n", "F:2: not readable as YAML: while parsing a flow node"),
    "not UTF-8": (b"kind: Pod\nname: \xff\xfe\n", "F: not readable as YAML: "),
    "a text": (b"I am a text\n", "F: an object is expected, not text"),
    "a YAML list": (b"- kind: Pod\n", "F: an object is expected, not a list"),
    "a template at once": (b"{{- if .Values.on }}\nkind: Pod\n{{- end }}\n", "F:1: this is a template"),
    "a template": (b"kind: Pod\nmetadata:\n  labels:\n    {{- include \"x\" . }}\n", "F:4: this is a template, as in"),
    "a template's value": (b"kind: Pod\nmetadata: {name: {{ .Values.name }}}\n", "F:2: this is a template"),
    "a template of JSON": (b'{\n"kind": {{ .Values.kind | quote }}\n}', "F:2: this is a template"),
    "a misspelt kind": (b"apiVersion: apps/v1\nkind: Deploymnt\n",
                        "F: apps/v1 has no kind 'Deploymnt'; did you mean Deployment?"),
    "a kind in small letters": (b"apiVersion: v1\nkind: pod\n", "F: v1 has no kind 'pod'; did you mean Pod?"),
    "a kind of another group": (lines(kubectl_list({"apiVersion": "batch/v1", "kind": "Workflow"})),
                                "F: items[0]: batch/v1 has no kind 'Workflow'; it has CronJob, Job"),
    "a kind that nobody has": (b"apiVersion: v1\nkind: Banana\n", "F: v1 has no kind 'Banana'"),
    "a kind that nobody has, without a version": (
        b"kind: Banana\n", "F: there is no kind 'Banana'; a custom resource says its apiVersion"),
    "a misspelt kind of a small group": (
        b"apiVersion: policy/v1\nkind: PodDisruptionBudgett\n",
        "F: policy/v1 has no kind 'PodDisruptionBudgett'; did you mean PodDisruptionBudget?"),
    "a misspelt kind without a version": (b"kind: DeamonSet\n", "F: there is no kind 'DeamonSet'; did you mean Daemon"),
    "a number": (b"kind: Pod\n---\n5\n", "F, document 2: an object is expected, not a number"),
    "a key that is none": (b"kind: Pod\ntrue: x\n", "F: not readable as an object: Only dicts with str-like"),
    "bombs of YAML": (nested(64), "F: not readable as YAML: it stands for more than"),
    "deep YAML": (b"x: " + b"[" * 3000, "F: not readable as YAML: it is nested more than 200 levels deep"),
    "no kind": (lines({"pods": [], "nodes": []}), "F: an object without a kind"),
    "no kind in a list": (lines(kubectl_list(POD, {"a": 1})), "F: items[1]: an object without a kind"),
    "a kind that is no text": (lines({"kind": 5}), "F: not readable as an object: Expected `str | null`, got `int`"),
    "a list in a list": (lines(kubectl_list(kubectl_list())), "F: items[0]: a list in a list"),
    "items that are none": (lines({"kind": "PodList", "items": {}}), "F: not readable as a list: Expected `array"),
    "a truncated gzip": (GOOD[:-9], "F: the compressed file is cut short"),
    "a damaged gzip": (GOOD[:40] + b"\xff\xff" + GOOD[42:], "F: the compressed file is damaged"),
    "a tar archive": (archive(), "F: neither JSON nor YAML, but a tar archive; give the directory"),
    "a zip archive": (b"PK\x03\x04\x14\0\0\0", "F: neither JSON nor YAML, but a zip archive"),
    "etcd's database": (bytes(16) + b"\xed\xda\x0c\xed" + bytes(100), "F: neither JSON nor YAML, but a database of"),
    "something binary": (bytes(range(256)), "F: neither JSON nor YAML: it is binary"),
    "a newer format": (
        lines(HEADER | {"format": 3, "berthVersion": "7.1", "counts": []}),
        "F: a snapshot of format 3, written by Berth 7.1; this version of Berth reads formats up to 2: upgrade it",
    ),
    "a bad header": (lines(HEADER | {"counts": []}), "F:1: not readable as the header of a snapshot: Expected"),
    "a snapshot cut short": (lines(HEADER | {"counts": {"Pod": 2}}, POD), "F: its header counts 2 of kind Pod, and 1"),
    "a bad line in a snapshot": (lines(HEADER, POD) + b"{", "F:3: not readable as an object: Input data was truncated"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "message"), WRONG.values(), ids=WRONG)
def test_wrong_files_get_one_clear_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(SnapshotError) as caught:
        read_documents([path])
    said = str(caught.value).replace(str(path), "F")
    assert said.startswith(message)
    assert "\n" not in said and len(said) < 400


def test_kinds_of_strangers_are_taken_as_they_are(tmp_path: Path) -> None:
    """A DeploymentConfig of OpenShift looks like a Deployment, a kubeconfig like a ConfigMap, and is none."""
    kinds = {"DeploymentConfig": "apps.openshift.io/v1", "Config": "v1", "PodList": "v1", "Rollout": "argoproj.io/v1"}
    path = write(tmp_path, lines(*({"apiVersion": version, "kind": kind} for kind, version in kinds.items())))
    assert {each.kind: each.api_version for each in read_documents([path])} == kinds


def test_texts_with_actions_of_templates_in_them_are_no_templates(tmp_path: Path) -> None:
    """Alerts and workflows have such texts. What is wrong elsewhere in their files is told as it is."""
    alert = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  text: '{{ $labels.pod }} is down'\n"
    assert [each.kind for each in read_documents([write(tmp_path, alert)])] == ["ConfigMap"]
    with pytest.raises(SnapshotError, match="not readable as YAML"):
        read_documents([write(tmp_path, alert + b"---\n\n\n\nkind: {name: [}\n")])


def test_a_chart_is_not_read_file_by_file(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("name: web\n")
    (tmp_path / "templates" / "pod.yaml").write_text("{{ .Values.pod }}\n")
    with pytest.raises(
        SnapshotError, match=r"this is a Helm chart, and no manifests: render it first, as in `helm tem"
    ):
        read_documents([tmp_path])


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=r"none\.yaml: No such file"):
        read_documents([tmp_path / "none.yaml"])
    with pytest.raises(SnapshotError, match=r"no file with objects in it; looked for \.yaml"):
        read_documents([tmp_path])
    with pytest.raises(SnapshotError, match="no objects in it"):
        read_cluster([write(tmp_path, lines(kubectl_list()))])


def test_an_unreadable_object_is_told_with_file_object_and_field(tmp_path: Path) -> None:
    bad = make_pod("bad").request(cpu="lots").document
    path = write(tmp_path, lines(kubectl_list(POD, bad)))
    snapshot = read_cluster([path])
    for read in (lambda: list(snapshot.structs()), lambda: [each.struct() for each in snapshot.documents]):
        with pytest.raises(ObjectError) as caught:
            read()
        said = str(caught.value).replace(str(path), "F")
        assert said.startswith(
            "F: items[1]: Pod default/bad: spec.containers[0].resources.requests[cpu]: 'lots' is not"
        )


def test_what_a_small_file_may_unpack_to_is_bounded(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(text, "FREE_BYTES", 1 << 20)
    bomb = write(tmp_path, gzip.compress(b" " * (4 << 20)))
    with pytest.raises(SnapshotError, match="it unpacks to more than 1 MiB"):
        read_documents([bomb])
    honest = gzip.compress(lines(*[make_pod(f"p{number}").request(cpu="1").document for number in range(20_000)]))
    assert len(read_documents([write(tmp_path, honest)])) == 20_000
    monkeypatch.setattr(text, "MAX_BYTES", 1 << 10)
    with pytest.raises(SnapshotError, match="it holds more than"):
        read_documents([write(tmp_path, b" " * 2048)])


def test_many_values_in_one_line_take_linear_time() -> None:
    count = 100_000
    assert sum(1 for _ in parse_documents(b'{"kind":"Pod"}' * count, "a line")) == count


def test_objects_may_be_nested_as_deeply_as_an_api_server_takes_them(tmp_path: Path) -> None:
    deep = msgspec.json.encode(POD)[:-1] + b',"x":' + b"[" * 9000 + b"]" * 9000 + b"}"
    (document,) = read_documents([write(tmp_path, b"\n" + deep)])
    assert document.struct().metadata.name == "p1"  # type: ignore[attr-defined]


def indented(*objects: object, indent: int = 4, **more: object) -> bytes:
    return json.dumps({"apiVersion": "v1", "items": objects, "kind": "List", **more}, indent=indent).encode()


MANY = [make_pod(f"p{number}").label("a", "x" * 50).document for number in range(40)]
ODD = {"kind": "Pod", "metadata": {"name": "odd", "annotations": {"a": "},\n        {", "b": "\\"}}}


@pytest.mark.parametrize("indent", [2, 4])
@pytest.mark.parametrize("chunk", [1, 7, 300, 1 << 20])
def test_an_indented_list_is_read_in_pieces_as_it_would_be_as_a_whole(tmp_path, monkeypatch, chunk, indent) -> None:
    monkeypatch.setattr(documents, "CHUNK", chunk)
    content = indented(*MANY[: 3 if chunk == 1 else 40], ODD, NODE, indent=indent)
    path = write(tmp_path, content)
    found, whole = read_documents([path]), list(parse_documents(content, str(path)))
    assert found == whole
    assert found[-2].manifest == ODD


@pytest.mark.parametrize("chunk", [300, 1 << 20])
def test_a_list_that_is_indented_oddly_is_read_as_a_whole(tmp_path, monkeypatch, chunk) -> None:
    monkeypatch.setattr(documents, "CHUNK", chunk)
    monkeypatch.setattr(documents, "MAX_LINE", 3000)
    text = indented(*MANY).decode()
    nested = text.replace('"kind": "Pod",', '"kind": "Pod", "x": [\n        {\n        },\n        {\n        }\n ],')
    joined = text.replace("        },\n        {", "        }, {", 20)
    for odd in (nested, joined, text + text):
        path = write(tmp_path, odd)
        assert [each.name for each in read_documents([path])] == [each["metadata"]["name"] for each in MANY] * (
            2 if odd == text + text else 1
        )


@pytest.mark.parametrize("chunk", [300, 1 << 20])
def test_what_is_wrong_in_an_indented_list_is_told_with_its_line_and_item(tmp_path, monkeypatch, chunk) -> None:
    monkeypatch.setattr(documents, "CHUNK", chunk)
    lines_ = indented(*MANY, POD).decode().splitlines(keepends=True)
    number = next(at for at, line in enumerate(lines_) if '"name": "p30"' in line)
    broken = [*lines_[:number], lines_[number].replace(":", ""), *lines_[number + 1 :]]
    for content, said in (
        ("".join(broken), rf"given:{number + 1}: not readable as JSON: malformed: expected ':'"),
        ("".join(lines_[:number]), "given: not readable as JSON: it ends in the middle"),
        (indented(*MANY, {"a": 1}, *MANY).decode(), r"given: items\[40\]: an object without a kind"),
        (indented(*MANY, {"kind": "PodList"}, POD).decode(), r"given: items\[40\]: a list in a list"),
    ):
        with pytest.raises(SnapshotError, match=said):
            read_documents([write(tmp_path, content)])
