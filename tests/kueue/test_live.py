"""Questions about a live cluster: Kueue's objects come from an API server that serves them as custom resources."""

import asyncio
from datetime import UTC, datetime

import pytest

from berth_cluster.apimachinery.resource_types import DEFINITIONS, NAMESPACES, NODES, PODS
from berth_cluster.serving.transport import StoreTransport
from berth_cluster.storage.store import Store
from berth_kueue.questions import check, explain
from berth_kueue.resources import RESOURCES
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import UNWATCHED
from berth_workbench.snapshot.snapshot import read_cluster
from berth_workbench.snapshot.writer import taken_from_cluster, write_snapshot
from packages.kueue.tests.clusters import documents, job, situation, two_teams

CORE = {"Namespace": NAMESPACES, "Node": NODES, "Pod": PODS}


def definition(resource):
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": {"kind": resource.kind, "plural": resource.plural, "singular": resource.kind.lower()},
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }


@pytest.fixture
def store():
    """A server with the cluster of two teams."""
    made = Store(clock=lambda: datetime(2030, 1, 1, tzinfo=UTC))
    for resource in RESOURCES:
        made.create(DEFINITIONS, "", definition(resource))
    served = {each.kind: each for each in made.custom.served}
    for each in two_teams():
        resource, namespace = (CORE | served)[each["kind"]], each["metadata"].get("namespace", "")
        there = made.create(resource, namespace, each)
        if each["kind"] == "Node":  # without the taint of those that are not ready yet
            made.update(NODES, "", each["metadata"]["name"], {**there, "spec": {}})
        if each["kind"] in ("Node", "Pod"):
            status = {**there, "spec": {}} if each["kind"] == "Node" else there
            made.update(resource, namespace, each["metadata"]["name"], {**status, "status": each["status"]}, "status")
    return made


def test_a_live_cluster_is_answered_about_as_its_objects_in_a_file(store, tmp_path):
    taken = asyncio.run(taken_from_cluster(StoreTransport(store), "https://cluster.test", wanted=RESOURCES))
    write_snapshot(taken, tmp_path / "now.snapshot.gz")
    live = Situation(read_cluster([tmp_path / "now.snapshot.gz"]))
    asked = check.JobCheckRequest(documents(job("team-a", "new", 2, 2)))
    found, of_file = (check.answer(each, asked, UNWATCHED) for each in (live, situation(*two_teams())))
    assert found.is_yes and found == of_file
    why = explain.answer(live, explain.ExplainRequest(("team-a/first",)), UNWATCHED)
    assert [each.change for each in why.workloads[0].remedies][-1] == "the end of team-b/eval"
