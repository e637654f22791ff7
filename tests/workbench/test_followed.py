"""Objects that plugins follow get into snapshots of live clusters, and every tool decides by them.

Two guests go by them here: a quota of 3 CPUs, of which 2 are used, and NUMA zones with 2 CPUs free each. Expectations
follow from these numbers.
"""

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from berth.cli import main
from berth.config.load import load_config
from berth.core.builders import make_node, make_pod
from berth_cluster.apimachinery.resource_types import DEFINITIONS, NAMESPACES, NODES, PODS
from berth_cluster.serving.transport import StoreTransport
from berth_cluster.storage.store import Store
from berth_plugins.cli import definitions
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.planning.rebalance.request import RebalanceRequest
from berth_workbench.simulation.followed import resources_followed
from berth_workbench.simulation.steps import Manifests
from berth_workbench.snapshot.anonymizer import anonymized
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.header import NOT_SERVED, Missing
from berth_workbench.snapshot.snapshot import read_cluster
from berth_workbench.snapshot.writer import taken_from_cluster, taken_from_files, write_snapshot
from berth_workbench.sources import cluster_file
from packages.workbench.tests.asking import capacity_after, rebalance, what_if
from tests.guests import registry_with_guests

DOCUMENT = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {
                "multiPoint": {
                    "enabled": [{"name": "CapacityScheduling"}, {"name": "NodeResourceTopologyMatch"}],
                    "disabled": [{"name": "DefaultPreemption"}],
                }
            }
        }
    ],
}
QUOTA = {
    "apiVersion": "scheduling.x-k8s.io/v1alpha1",
    "kind": "ElasticQuota",
    "metadata": {
        "name": "quota",
        "namespace": "a",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "hidden", "example.com/team": "a"},
    },
    "spec": {"min": {"cpu": "3", "memory": "1Ti"}, "max": {"cpu": "3", "memory": "1Ti"}},
}


def zones(node):
    memory = {"name": "memory", "capacity": "16Gi", "allocatable": "16Gi", "available": "16Gi"}
    resources = [{"name": "cpu", "capacity": "8", "allocatable": "8", "available": "2"}, memory]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node},
        "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
        "zones": [{"name": f"node-{number}", "type": "Node", "resources": resources} for number in (0, 1)],
    }


def pod(name, namespace, cpu, node="", owner=""):
    amounts = {"cpu": cpu, "memory": "1Gi"}
    made = make_pod(name, namespace).container("app:1", requests=amounts, limits=amounts)
    if node:
        made.node(node)
        made.status["phase"] = "Running"
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
        made.document["metadata"]["ownerReferences"] = [reference]
    return made.document


@pytest.fixture
def guests():
    return {"config": load_config(DOCUMENT, "a test"), "registry": registry_with_guests()}


def a_cluster(*kinds, pods=()):
    """A store with the definitions of these kinds, and their objects."""
    store = Store(clock=lambda: datetime(2030, 1, 1, tzinfo=UTC))
    for kind in kinds:
        store.create(DEFINITIONS, "", yaml.safe_load(definitions()[kind]))
    for name in ("a", "b"):
        store.create(NAMESPACES, "", {"metadata": {"name": name}})
    for name in ("n1", "n2"):
        made = store.create(NODES, "", make_node(name).capacity(cpu="16", memory="32Gi", pods="110").document)
        store.update(NODES, "", name, {**made, "spec": {}})  # without the taint of those that are not ready yet
    for each in pods:
        made = store.create(PODS, each["metadata"]["namespace"], each)
        store.update(
            PODS, each["metadata"]["namespace"], each["metadata"]["name"], {**made, "status": each["status"]}, "status"
        )
    for each in (QUOTA, zones("n1"), zones("n2")):
        plural = {"ElasticQuota": "elasticquotas", "NodeResourceTopology": "noderesourcetopologies"}[each["kind"]]
        found = next((kind for kind in store.custom.served if kind.plural == plural), None)
        if found is not None:
            store.create(found, each["metadata"].get("namespace", ""), each)
    return store


def taken(tmp_path, guests, store):
    """A snapshot of it, written and read again."""
    custom = resources_followed(**guests)
    snapshot = asyncio.run(taken_from_cluster(StoreTransport(store), "https://cluster.test", custom=custom))
    write_snapshot(snapshot, tmp_path / "s.jsonl.gz")
    return read_cluster([tmp_path / "s.jsonl.gz"])


@pytest.fixture
def snapshot(tmp_path, guests):
    return taken(tmp_path, guests, a_cluster("elasticquotas", pods=[pod("runs", "a", "2", "n1")]))


def manifest(*documents):
    return [Document(each["kind"], msgspec.json.encode(each), "asked.yaml", each["apiVersion"]) for each in documents]


def test_what_plugins_follow_is_taken_without_who_wrote_it(snapshot):
    (quota,) = snapshot.of("ElasticQuota")
    found = quota.manifest
    assert found["spec"] == QUOTA["spec"]
    assert found["metadata"]["annotations"] == {"example.com/team": "a"}
    assert "managedFields" not in found["metadata"]
    assert snapshot.header.counts["ElasticQuota"] == 1
    assert "elasticquotas.v1alpha1.scheduling.x-k8s.io" in snapshot.header.resource_versions
    missing = Missing("noderesourcetopologies.v1alpha2.topology.node.k8s.io", NOT_SERVED)
    assert missing in snapshot.header.missing


def test_of_files_it_is_kept_too_and_never_anonymized(snapshot, guests):
    assert not list(taken_from_files(snapshot).of("ElasticQuota"))
    kept = taken_from_files(snapshot, resources_followed(**guests))
    assert [each.name for each in kept.of("ElasticQuota")] == ["quota"]
    assert not list(anonymized(kept)[0].of("ElasticQuota"))


def test_the_command_takes_what_plugins_follow(tmp_path):
    given, written = tmp_path / "given.json", tmp_path / "s.jsonl.gz"
    node = make_node("n1").capacity(cpu="1").document
    given.write_bytes(msgspec.json.encode({"kind": "List", "apiVersion": "v1", "items": [node, QUOTA]}))
    plugin = "--plugin=berth_plugins.capacity.capacity_scheduling:CapacityScheduling"
    for arguments, count in (((), 0), ((plugin,), 1)):
        told = CliRunner().invoke(main, ["snapshot", str(given), "-o", str(written), *arguments])
        assert told.exit_code == 0, told.output
        assert len(list(read_cluster([written]).of("ElasticQuota"))) == count
    told = CliRunner().invoke(main, ["snapshot", str(given), "-o", str(written), plugin, "--anonymize"])
    assert told.exit_code == 2
    assert "--anonymize leaves custom resources out" in told.output


def test_a_what_if_goes_by_the_quota(snapshot, guests):
    steps = [Manifests(manifest(pod("first", "a", "1"), pod("second", "a", "1")), "two more")]
    found = what_if(snapshot, steps, **guests)
    (reason,) = found.unplaced
    assert "more than Max" in reason.message


def test_capacity_goes_by_the_quota(snapshot, guests):
    found = capacity_after(snapshot, manifest(pod("asked", "a", "1")), (), **guests)
    assert [each.fits for each in found.shapes] == [1]


async def test_the_page_goes_by_the_quota(tmp_path, guests, monkeypatch):
    store = a_cluster("elasticquotas", pods=[pod("runs", "a", "2", "n1"), pod("waits", "a", "2")])
    read = await asyncio.to_thread(taken, tmp_path, guests, store)
    monkeypatch.setattr(ConfigurationSource, "load", lambda _: (guests["config"], guests["registry"]))
    report = await cluster_file.ClusterFileSource("test", read).pending()
    (group,) = report.groups
    assert "more than Max" in group.message


@pytest.mark.parametrize(("kinds", "moves"), [((), 1), (("noderesourcetopologies",), 0)])
def test_a_plan_moves_nothing_to_where_no_zone_has_room(tmp_path, guests, kinds, moves):
    running = [pod("p1", "b", "5", "n1", "one"), pod("p2", "b", "3", "n2", "two")]
    found = rebalance(
        taken(tmp_path, guests, a_cluster(*kinds, pods=running)), RebalanceRequest(goal="empty-nodes"), **guests
    )
    assert sum(each.action == "evict" for each in found.steps) == moves
