"""Snapshots keep Kueue's objects: of files, and of a server that serves them; one that does not lacks nothing."""

import asyncio
import json
import tomllib

import pytest

from berth.api.errors import ApiError
from berth_kueue.resources import KINDS, RESOURCES
from berth_workbench.snapshot.documents import parse_documents
from berth_workbench.snapshot.snapshot import Snapshot
from berth_workbench.snapshot.writer import taken_from_cluster, taken_from_files
from tests.paths import ROOT

QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "metadata": {"name": "cq", "managedFields": [{}]},
    "spec": {"cohortName": "all"},
}


class Server:
    """Answers lists and discovery of an API server that has nothing but one ClusterQueue."""

    def __init__(self, groups):
        self.groups = groups

    async def read(self, path):
        if path == "/version":
            return b'{"gitVersion": "v1.36.0"}'
        *_, group, _version = path.split("/")
        if path.startswith("/apis/kueue.x-k8s.io/") and group in self.groups:
            return json.dumps({"resources": [{"name": each.plural, "kind": each.kind} for each in RESOURCES]}).encode()
        raise ApiError(404, "NotFound", "not served")

    async def list(self, resource, **_):
        items = [QUEUE] if resource.plural == "clusterqueues" else []
        return json.dumps({"metadata": {"resourceVersion": "7"}, "items": items}).encode()


def taken(groups):
    return asyncio.run(taken_from_cluster(Server(groups), "https://cluster.test", wanted=RESOURCES))


def test_what_a_server_has_is_kept():
    snapshot = taken(["kueue.x-k8s.io"])
    (queue,) = snapshot.of("ClusterQueue")
    assert queue.manifest["spec"] == QUEUE["spec"] and "managedFields" not in queue.manifest["metadata"]
    assert not [each for each in snapshot.header.missing if "kueue" in each.kind]


def test_a_server_without_kueue_lacks_nothing_of_it():
    snapshot = taken([])
    assert not list(snapshot.of(*KINDS)) and snapshot.header.missing
    assert not [each for each in snapshot.header.missing if "kueue" in each.kind]


@pytest.mark.parametrize("wanted", [(), RESOURCES])
def test_what_files_have_is_kept_where_it_is_wanted(wanted):
    given = Snapshot(list(parse_documents(json.dumps(QUEUE).encode(), "cluster.json")))
    assert len(list(taken_from_files(given, wanted).of("ClusterQueue"))) == bool(wanted)


def test_the_entry_point_leads_to_them():
    project = tomllib.loads((ROOT / "packages/kueue/pyproject.toml").read_text())["project"]
    assert project["entry-points"]["berth.resources"] == {"kueue": "berth_kueue.resources:RESOURCES"}
    assert KINDS[-1] == "Workload"
