"""What plugins say would help: tried on the cluster before it is told. A quota of a guest, and a plugin of a test."""

import json

import pytest

from berth.config.load import load_config
from berth.core.api_calls import merged
from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import document_enabling
from berth.framework.registry import Registry
from berth.plugin import CustomResource, Remedy, unschedulable
from berth.plugins.registry import in_tree_registry
from berth.testing.invariants import check
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
    return read(config, items)


def read(config, items):
    """Return a cluster of these documents, with the guests."""
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


def with_guest(name, in_place_of=None):
    """Return the default profile with a guest."""
    points = {"enabled": [{"name": name}], "disabled": [{"name": in_place_of}] if in_place_of else []}
    profiles = [{"plugins": {"multiPoint": points}}]
    return {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": profiles}


def objects_told(cluster, key):
    return [change for change in what_would_help(cluster, cluster.pods[key]).changes if change.kind == "object"]


def pod_group(spec):
    metadata = {"name": "g", "namespace": "a"}
    return {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def test_a_group_that_would_have_to_ask_for_fewer_members_is_told_with_a_patch():
    group = pod_group({"minMember": 3, "minResources": {"cpu": "1"}})
    members = [make_pod(name, "a").label("scheduling.x-k8s.io/pod-group", "g").document for name in ("one", "two")]
    node = make_node("n1").capacity(cpu="16", memory="64Gi").document
    found = read(with_guest("Coscheduling", "PrioritySort"), [node, *members, group])
    (fewer,) = objects_told(found, "a/one")
    assert fewer.what == "lower minMember from 3 to 2 of the PodGroup a/g" and fewer.fits_on == ("n1",)
    check(found.core)


def test_a_group_of_coscheduling_is_helped_as_a_whole():
    members = [make_pod(f"m{i}", "a").request(cpu="10").label("scheduling.x-k8s.io/pod-group", "g") for i in range(4)]
    nodes = [make_node(f"n{i}").capacity(cpu="16", memory="64Gi").document for i in range(2)]
    documents = [*nodes, *(each.document for each in members), pod_group({"minMember": 4})]
    cluster = read(with_guest("Coscheduling", "PrioritySort"), documents)
    found = what_would_help(cluster, cluster.pods["a/m0"])
    assert (found.group, found.needed, found.have_place, found.replicas) == ("PodGroup/a/g", 4, 2, 4)
    (node,) = [change for change in found.changes if change.kind == "node"]
    assert (len(node.patch["manifests"]), node.still_pending) == (2, 0)


def test_resources_that_a_group_asks_for_beforehand_are_told_where_leaving_them_out_helps():
    group = pod_group({"minMember": 1, "minResources": {"cpu": "17"}})
    member = make_pod("one", "a").label("scheduling.x-k8s.io/pod-group", "g").document
    node = make_node("n1").capacity(cpu="16", memory="64Gi").document
    found = read(with_guest("Coscheduling", "PrioritySort"), [node, member, group])
    (change,) = objects_told(found, "a/one")
    assert change.what == "leave out minResources of the PodGroup a/g"


def test_a_cost_that_would_have_to_be_allowed_is_told_where_it_helps():
    zone, group = "topology.kubernetes.io/zone", "appgroup.diktyo.x-k8s.io"
    costs = [{"origin": "z2", "costList": [{"destination": "z1", "networkCost": 20}]}]
    topology = {
        "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1", "kind": "NetworkTopology",
        "metadata": {"name": "nt-default", "namespace": "default"},
        "spec": {"weights": [{"name": "UserDefined", "topologyList": [{"topologyKey": zone, "originList": costs}]}]},
    }  # fmt: skip
    needs = [{"workload": {"selector": "db"}, "maxNetworkCost": 5}]
    app = {
        "apiVersion": f"{group}/v1alpha1", "kind": "AppGroup", "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"workloads": [{"workload": {"selector": "web"}, "dependencies": needs}]},
    }  # fmt: skip
    web, db = (
        make_pod(name).label(group, "shop").label(f"{group}.workload", name).request(cpu="1") for name in ("web", "db")
    )
    nodes = [
        make_node(name).capacity(cpu=cpu, memory="64Gi").label(zone, where).label("topology.kubernetes.io/region", "r1")
        for name, cpu, where in (("full", "1", "z1"), ("far", "8", "z2"))
    ]
    items = [*(each.document for each in (*nodes, web, db.node("full"))), topology, app]
    found = read(with_guest("NetworkOverhead"), items)
    (change,) = objects_told(found, "default/web")
    assert change.what == "raise maxNetworkCost of web from 5 to 20 for db of the AppGroup default/shop"
    assert change.fits_on == ("far",)


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
    return {"config": load_config(document_enabling({plugin.name: ()}), "a test"), "registry": registry}


def test_a_merge_patch_is_that_of_rfc_7386():
    assert merged({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": None, "e": {"f": None}}, "d": [2]}) == {
        "a": {"c": 2, "e": {}},
        "d": [2],
    }
