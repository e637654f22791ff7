"""Snapshots are taken of clusters and of files, hold what decisions depend on and no more, and can be read again."""

import asyncio
import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from berth.api.errors import ApiError
from berth.api.resources import Resource
from berth.cli import main
from berth.core.builders import make_node, make_pod
from berth_cluster.apimachinery.resource_types import resource_of
from berth_cluster.serving.transport import StoreTransport
from berth_cluster.storage.store import Store
from berth_workbench.snapshot.documents import SnapshotError
from berth_workbench.snapshot.header import MAY_NOT, NOT_GIVEN, NOT_SERVED, Header, Missing
from berth_workbench.snapshot.kept_fields import TAKEN
from berth_workbench.snapshot.snapshot import Snapshot, read_cluster
from berth_workbench.snapshot.writer import taken_from_cluster, taken_from_files, write_snapshot

PODS = 7


class Server(StoreTransport):
    """An API server that refuses what `refusals` say, and changes its pods while it is read."""

    def __init__(self, store: Store, page: int = 3, refusals: dict[str, ApiError] | None = None) -> None:
        super().__init__(store)
        self.page = page
        self.refusals = refusals or {}
        self.asked: list[tuple[str, str]] = []

    async def list(self, resource: Resource, **options: Any) -> bytes:  # type: ignore[override]
        if resource.kind in self.refusals:
            raise self.refusals[resource.kind]
        self.asked.append((resource.kind, options["resource_version"]))
        body = await super().list(resource, **{**options, "limit": min(self.page, options["limit"])})
        self._store.create(resource_of("Node"), "", {"metadata": {"name": f"late-{len(self.asked)}"}})
        return body


def cluster() -> Store:
    store = Store(clock=lambda: datetime(2030, 1, 1, tzinfo=UTC))
    for name in ("n1", "n2"):
        store.create(resource_of("Node"), "", make_node(name).capacity(cpu="4", memory="8Gi", pods="110").document)
    for number in range(PODS):
        pod = make_pod(f"p{number}").container("app:1", requests={"cpu": "1"}).document
        store.create(resource_of("Pod"), "default", pod)
    container = {"name": "c", "image": "app:1", "env": [{"name": "KEY", "value": "hidden"}], "command": ["hidden"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": {
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}}  # fmt: skip
    store.create(
        resource_of("Deployment"), "default", {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}
    )
    store.create(resource_of("Secret"), "default", {"metadata": {"name": "s"}, "data": {"a": "aGlkZGVu"}})
    store.create(resource_of("ConfigMap"), "default", {"metadata": {"name": "c"}, "data": {"a": "hidden"}})
    return store


def take(server: Server) -> Snapshot:
    return asyncio.run(taken_from_cluster(server, "https://cluster.test"))


def names(snapshot: Snapshot, kind: str) -> list[str]:
    return [each.name for each in snapshot.of(kind)]


def test_a_cluster_is_taken_page_by_page_as_it_was_at_one_moment() -> None:
    server = Server(cluster())
    snapshot = take(server)
    assert names(snapshot, "Node") == ["n1", "n2"]
    assert names(snapshot, "Pod") == [f"p{number}" for number in range(PODS)]
    assert names(snapshot, "Deployment") == ["web"]
    assert snapshot.header is not None
    assert set(snapshot.header.resource_versions) | {each.kind for each in snapshot.header.missing} == set(TAKEN)
    assert len(set(snapshot.header.resource_versions.values())) == 1
    assert snapshot.header.counts["Pod"] == PODS
    assert snapshot.header.server_version.startswith("v1.")
    assert {kind for kind, _ in server.asked}.isdisjoint({"Secret", "ConfigMap", "Lease", "Event"})


def test_a_version_that_the_server_has_forgotten_is_made_up_for() -> None:
    class Forgetful(Server):
        async def list(self, resource: Resource, **options: Any) -> bytes:  # type: ignore[override]
            if options["resource_version"]:
                raise ApiError(410, "Expired", "The resourceVersion for the provided list is too old.")
            return await super().list(resource, **options)

    snapshot = take(Forgetful(cluster()))
    assert names(snapshot, "Deployment") == ["web"]
    assert snapshot.header is not None
    assert len(set(snapshot.header.resource_versions.values())) > 1


def test_of_a_host_path_it_is_kept_that_there_is_one(tmp_path: Path) -> None:
    pod = make_pod("p").volume("data", hostPath={"path": "/srv/hidden", "type": "Directory"}).document
    (tmp_path / "p.json").write_text(json.dumps(pod))
    (kept,) = taken_from_files(read_cluster([tmp_path / "p.json"])).documents
    assert kept.manifest["spec"]["volumes"] == [{"name": "data", "hostPath": {}}]


def test_what_may_not_be_listed_is_left_out_and_told() -> None:
    refusals = {"StorageClass": ApiError(403, "Forbidden", "no"), "CSINode": ApiError(404, "NotFound", "no")}
    header = take(Server(cluster(), refusals=refusals)).header
    assert header is not None
    assert {Missing("StorageClass", MAY_NOT), Missing("CSINode", NOT_SERVED)} <= set(header.missing)
    with pytest.raises(ApiError):
        take(Server(cluster(), refusals={"Pod": ApiError(403, "Forbidden", "no")}))
    with pytest.raises(ApiError):
        take(Server(cluster(), refusals={"Service": ApiError(500, "InternalError", "no")}))


def test_what_is_written_is_read_again_and_has_no_secrets(tmp_path: Path) -> None:
    file = tmp_path / "s.gz"
    taken = take(Server(cluster()))
    write_snapshot(taken, file)
    again = read_cluster([file])
    assert again.header == taken.header
    assert [each.json() for each in again.documents] == [each.json() for each in taken.documents]
    assert again.documents[0].where == f"{file}:3"  # after the template
    assert b"hidden" not in gzip.decompress(file.read_bytes())
    assert file.stat().st_mode & 0o077 == 0
    write_snapshot(taken, tmp_path / "other")
    assert (tmp_path / "other").read_bytes() == file.read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["other", "s.gz"]


def test_the_structs_are_those_of_the_whole_objects(tmp_path: Path) -> None:
    pod = make_pod("p").request(cpu="1").volume("token", secret={"secretName": "hidden"}).claim("data").document
    pod["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": "hidden",
        "example.com/x": "hidden",
        "resource.kubernetes.io/x": "kept",
    }
    pod["metadata"]["managedFields"] = [{"manager": "hidden"}]
    (tmp_path / "p.json").write_text(json.dumps(pod))
    given = read_cluster([tmp_path / "p.json"])
    made = taken_from_files(given)
    (whole,), (kept,) = given.structs(), made.structs()
    assert (kept.spec, kept.status) == (whole.spec, whole.status)  # type: ignore[attr-defined]
    assert kept.metadata.annotations == {"resource.kubernetes.io/x": "kept"}  # type: ignore[attr-defined]
    assert b"hidden" not in bytes(made.documents[0].body)  # type: ignore[arg-type]
    assert made.header is not None and Missing("Node", NOT_GIVEN) in made.header.missing


def run(*arguments: str, stdin: bytes = b"") -> Any:
    return CliRunner().invoke(main, ["snapshot", *arguments], input=stdin)


def test_the_command_makes_a_snapshot_of_files(tmp_path: Path) -> None:
    objects = [make_node("n1").document, make_pod("acme-1").document, {"kind": "Secret", "metadata": {"name": "x"}}]
    listed = json.dumps({"kind": "List", "items": objects}).encode()
    (tmp_path / "all.json").write_bytes(listed)
    out = tmp_path / "out.jsonl.gz"
    done = run("-f", str(tmp_path / "all.json"), "-o", str(out))
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{out}: 1 node, 1 pod, 0 other objects\n"
    assert "none in the files: Namespace, Service" in done.stderr
    header = read_cluster([out]).header
    assert header is not None and header.taken and header.berth_version and not header.anonymized
    done = run("-", "--anonymize", "--names", str(tmp_path / "names.json"), "-o", str(out), stdin=listed)
    assert done.exit_code == 0, done.output
    assert b"acme" not in gzip.decompress(out.read_bytes())
    assert json.loads((tmp_path / "names.json").read_bytes())["acme-1"] == "aqb-1"
    assert (tmp_path / "names.json").stat().st_mode & 0o077 == 0
    done = run(str(tmp_path / "all.json"), "-o", "-")
    assert gzip.decompress(done.stdout_bytes).startswith(b'{"kind":"BerthSnapshot"')


def test_wrong_usage_and_wrong_files_are_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    for arguments, said in (
        ([str(tmp_path / "none")], "there is no such file or directory"),
        ([str(tmp_path / "a.json")], "a.json: not readable as JSON: it ends in the middle"),
        (["x", "--kubeconfig", "y"], "two different clusters"),
        (["x", "--names", "y"], "--names goes with --anonymize"),
        (["--kubeconfig", str(tmp_path / "none")], "none"),
    ):
        done = run(*arguments)
        assert done.exit_code in (1, 2)
        assert said in done.output and "Traceback" not in done.output
    (tmp_path / "a.json").write_text(json.dumps(make_node("n").document))
    done = run(str(tmp_path / "a.json"), "-o", str(tmp_path / "no" / "x"))
    assert done.exit_code == 1 and "No such file or directory" in done.output


def test_a_header_of_its_own_is_kept(tmp_path: Path) -> None:
    header = Header(taken="2030-01-01T00:00:00Z", server_version="v1.36.0", missing=(Missing("Job", NOT_SERVED),))
    write_snapshot(Snapshot([], header), tmp_path / "s")
    with pytest.raises(SnapshotError, match="no objects"):
        read_cluster([tmp_path / "s"])
