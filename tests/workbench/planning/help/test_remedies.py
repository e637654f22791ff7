"""What plugins say would help: tried on the cluster before it is told. A quota of a guest, and a plugin of a test."""

import json

import pytest

from berth.config.load import load_config
from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import document_enabling
from berth.framework.registry import Registry
from berth.plugin import CustomResource, Remedy, unschedulable
from berth.plugins.registry import in_tree_registry
from berth.testing.invariants import check
from berth_workbench.planning.help.remedies import merged
from berth_workbench.planning.help.search import what_would_help
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.snapshot.documents import parse_documents
from berth_workbench.snapshot.snapshot import Snapshot
from tests.guests import registry_with_guests

QUOTAS = CustomResource("example.com", "v1", "teamquotas", "TeamQuota")


class Seats:
    """Lets pods pass while the quota of the test has more seats than pods."""

    name = "Seats"

    def __init__(self, args, handle):
        self._quotas = handle.follow(QUOTAS)

    def pre_filter(self, state, pod):
        return None if self._quotas.get("quota")["spec"]["seats"] > 1 else unschedulable("no seat")

    def remedies(self, pod):
        in_vain = Remedy(QUOTAS, "", "quota", {"spec": {"colour": "red"}}, "paint it red")
        nowhere = Remedy(QUOTAS, "", "gone", {"spec": {"seats": 2}}, "raise seats")
        return [in_vain, nowhere, Remedy(QUOTAS, "", "quota", {"spec": {"seats": 2}}, "raise seats from 1 to 2")]


def quota(namespace, least, most):
    spec = {"min": {"cpu": least, "memory": "1Ti"}, "max": {"cpu": most, "memory": "1Ti"}}
    metadata = {"name": "quota", "namespace": namespace, "uid": namespace}
    return {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": metadata, "spec": spec}


@pytest.fixture
def cluster():
    """A cluster read from documents, in which a quota is used up."""
    plugins = {"multiPoint": {"enabled": [{"name": "CapacityScheduling"}], "disabled": [{"name": "DefaultPreemption"}]}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": plugins}],
    }
    items = [
        make_node("n1").capacity(cpu="16", memory="64Gi").document,
        make_pod("runs", "a").request(cpu="2").node("n1").document,
        make_pod("waits", "a").request(cpu="1").document,
        quota("a", "2", "2"),
    ]
    snapshot = Snapshot(list(parse_documents(json.dumps({"kind": "List", "items": items}).encode(), "a test")))
    found = SimulatedCluster(config=load_config(config, "a test"), registry=registry_with_guests())
    found.add(snapshot.structs())
    found.add_followed(snapshot.documents)
    return found


def test_a_quota_that_would_have_to_be_raised_is_told_with_a_patch(cluster):
    found = what_would_help(cluster, cluster.pods["a/waits"])
    assert "ElasticQuota a is more than Max" in found.message
    (change,) = [each for each in found.changes if each.kind == "object"]
    assert change.what == "raise max.cpu from 2 to 3 and min.cpu from 2 to 3 of the ElasticQuota a/quota"
    assert (change.patch_type, change.target, change.fits_on) == ("merge", "ElasticQuota/a/quota", ("n1",))
    assert change.command == (
        "kubectl -n a patch elasticquotas.scheduling.x-k8s.io quota --type merge "
        '-p \'{"spec":{"max":{"cpu":"3"},"min":{"cpu":"3"}}}\''
    )
    check(cluster.core)


def test_pods_that_would_have_to_go_are_found_where_a_plugin_counts_them_itself(cluster):
    found = what_would_help(cluster, cluster.pods["a/waits"])
    gone = next(each for each in found.changes if each.kind == "podsGone")
    assert (gone.patch, gone.fits_on) == ({"pods": ["a/runs"]}, ("n1",))
    again = what_would_help(cluster, cluster.pods["a/waits"])
    assert again == found, "what was tried has left something behind"


def test_only_what_helps_is_told():
    found = SimulatedCluster([make_node("n1").capacity(cpu="1", memory="1Gi").build()], **enabling(Seats))
    found.put(QUOTAS.read({"metadata": {"name": "quota", "uid": "q"}, "spec": {"seats": 1}}))
    found.put(make_pod("p").build())
    told = [each.what for each in what_would_help(found, found.pods["default/p"]).changes if each.kind == "object"]
    assert told == ["raise seats from 1 to 2 of the TeamQuota quota"]


def enabling(plugin):
    registry = in_tree_registry().merge(Registry({plugin.name: plugin}, "a test"))
    return {"config": load_config(document_enabling([plugin.name]), "a test"), "registry": registry}


def test_a_merge_patch_is_that_of_rfc_7386():
    assert merged({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": None, "e": {"f": None}}, "d": [2]}) == {
        "a": {"c": 2, "e": {}},
        "d": [2],
    }
