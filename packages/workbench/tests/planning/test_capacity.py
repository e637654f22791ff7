"""Capacity against arithmetic: the numbers of columns, of placing one by one, and of a count written here alone."""

import msgspec
import pytest

from berth.config.feature_gates import feature_gates
from berth.config.load import document_enabling, load_config
from berth.core.builders import make_node, make_pod
from berth_workbench.planning.capacity import LimitedBy, capacity
from berth_workbench.planning.requested_pods import requested_pods
from berth_workbench.simulation.changes import ChangeError, parse_flag
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.workloads import ManifestError
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import Snapshot
from packages.workbench.tests.asking import WatchUntil, capacity_after

ZONE = "topology.kubernetes.io/zone"


def node(name, zone="", pool="", cpu="4", pods="110", **more):
    made = (
        make_node(name)
        .capacity({"cpu": cpu, "memory": "16Gi", "pods": pods, **more})
        .label("kubernetes.io/hostname", name)
    )
    for key, value in ((ZONE, zone), ("pool", pool)):
        if value:
            made.label(key, value)
    return made


def pod(name="asked", cpu="1", **spec):
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}, **spec.pop("container", {})}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container], **spec},
    }


def deployment(name="web", replicas=3, cpu="1", **spec):
    template = {"metadata": {"labels": {"app": name}}, "spec": pod(name, cpu, **spec)["spec"]}
    selector = {"matchLabels": {"app": name}}
    return {
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }


def documents(*manifests):
    return [Document(each["kind"], msgspec.json.encode(each), "asked.yaml") for each in manifests]


def asked(objects, *manifests, **options):
    """The capacity for some manifests, on a cluster that must be the same afterwards."""
    cluster = SimulatedCluster(
        [each.build() if hasattr(each, "build") else each for each in objects], config=options.pop("config", None)
    )
    question = requested_pods(documents(*manifests))
    for obj in question.objects:
        cluster.put(obj)
    before, table = dict(cluster.objects), cluster.core.cache.table
    load = table.requested.sum(), table.pod_count.sum()
    found = capacity(cluster, question.shapes, **options)
    assert cluster.objects == before
    assert (table.requested.sum(), table.pod_count.sum()) == load
    return found


def reasons(found):
    return {each.reason: each.nodes for each in found.limited_by}


def test_what_is_free_divided_by_what_a_pod_requests_node_by_node():
    running = make_pod("r").request(cpu="1500m").node("b")
    found = asked([node("a"), node("b"), node("c", cpu="900m"), running], pod())
    assert found.fits == 4 + 2
    assert found.limited_by == (LimitedBy("Insufficient cpu", 3),)
    assert found.shapes[0].is_counted
    assert found.is_complete


def test_the_number_of_pods_limits_what_requests_nothing():
    found = asked([node("a", pods="3"), node("b", pods="5")], pod(cpu="0"))
    assert found.fits == 8
    assert reasons(found) == {"Too many pods": 2}


def test_reasons_of_nodes_that_never_count_are_told_too():
    nodes = [node("a"), node("b").unschedulable(), node("c").taint("gpu", "yes")]
    assert reasons(asked(nodes, pod())) == {
        "Insufficient cpu": 1,
        "node(s) were unschedulable": 1,
        "node(s) had untolerated taint(s)": 1,
    }


def test_headroom_and_limits_by_pool():
    nodes = [node("a", pool="x"), node("b", pool="x", cpu="2"), node("c", pool="y").unschedulable()]
    found = asked(nodes, pod())
    assert {name: (pool.nodes, pool.fits) for name, pool in found.by_pool.items()} == {"x": (2, 6), "y": (1, 0)}
    assert found.by_pool["y"].limited_by == (LimitedBy("node(s) were unschedulable", 1),)
    by_zone = asked([node("a", "one"), node("b", "two")], pod(), pool_label=ZONE)
    assert sorted(by_zone.by_pool) == ["one", "two"]


def test_what_is_free_usable_and_stranded():
    """Nodes with 4 and 2.5 cores free hold 1 and 0 pods of 3: 3 cores can be used, 3.5 cannot."""
    running = make_pod("r").request(cpu="1500m").node("b")
    free = asked([node("a"), node("b"), running], pod(cpu="3")).fragmentation["cpu"]
    assert (free.free, free.usable, free.stranded) == (6.5, 3.0, 3.5)
    assert (free.largest_hole, free.largest_hole_on) == (4.0, "a")


@pytest.mark.parametrize("replicas", [1, 9])
def test_of_one_workload_pods_are_counted_whatever_its_replicas(replicas):
    found = asked([node("a"), node("b")], deployment(replicas=replicas))
    assert (found.fits, found.pods) == (8, 8)


def test_of_several_sets_are_counted_and_each_on_its_own():
    """A set takes 2 * 1 + 1 * 2 cores; each node of four cores holds exactly one."""
    found = asked([node("a"), node("b")], deployment("web", 2), deployment("db", 1, cpu="2"))
    assert (found.fits, found.pods) == (2, 6)
    assert [(each.shape, each.per_set, each.fits) for each in found.shapes] == [
        ("default/web", 2, 8),
        ("default/db", 1, 4),
    ]


def test_a_set_of_which_not_all_fit_does_not_count():
    found = asked([node("a", cpu="5")], deployment("web", 2), pod("db", cpu="2"))
    assert (found.fits, found.pods) == (1, 3)
    assert found.fragmentation["cpu"].usable == 4.0


def on_every_node_one():
    term = {"labelSelector": {"matchLabels": {"app": "asked"}}, "topologyKey": "kubernetes.io/hostname"}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def evenly():
    selector = {"matchLabels": {"app": "asked"}}
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [constraint]}


@pytest.mark.parametrize(
    ("spec", "expected", "reason"),
    [
        (on_every_node_one(), 3, "node(s) didn't match pod anti-affinity rules"),
        ({"container": {"ports": [{"hostPort": 80}]}}, 3, "node(s) didn't have free ports for the requested pod ports"),
        (evenly(), 4 + 5, "node(s) didn't match pod topology spread constraints"),
    ],
)
def test_constraints_between_the_pods_themselves_are_placed_one_by_one(spec, expected, reason):
    """Zone a has one node of four cores, zone b two: with a skew of one, b holds at most one more than a."""
    found = asked([node("a0", "a"), node("b0", "b"), node("b1", "b")], pod(**spec))
    assert found.fits == expected
    assert not found.shapes[0].is_counted
    assert reason in reasons(found)


def test_constraints_about_other_pods_are_counted_in_columns():
    selector = {"matchLabels": {"app": "other"}}
    term = {"labelSelector": selector, "topologyKey": ZONE}
    away = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    running = make_pod("other").label("app", "other").node("a0")
    found = asked([node("a0", "a"), node("b0", "b"), running], pod(**away))
    assert found.fits == 4
    assert found.shapes[0].is_counted
    assert reasons(found)["node(s) didn't match pod anti-affinity rules"] == 1


def test_pods_that_running_pods_keep_away_are_counted():
    selector = {"matchLabels": {"app": "asked"}}
    running = make_pod("grump").request(cpu="1").node("a0")
    running.set_spec(
        affinity={
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": selector, "topologyKey": ZONE}]
            }
        }
    )
    assert asked([node("a0", "a"), node("b0", "b"), running], pod()).fits == 4


def test_devices_are_claimed_one_by_one_and_the_claims_are_gone_afterwards():
    device_class = {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
    slices = {
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {
            "driver": "d",
            "nodeName": "a",
            "pool": {"name": "a", "resourceSliceCount": 1},
            "devices": [{"name": f"g{number}"} for number in range(3)],
        },
    }
    template = {
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "t"},
        "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}},
    }
    uses = {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "t"}]}
    found = asked([node("a", cpu="99"), node("b")], device_class, slices, template, pod(**uses))
    assert found.fits == 3
    assert not found.shapes[0].is_counted


def test_a_bound_stops_placing_and_the_result_says_so():
    found = asked([node("a", "z", cpu="99")], pod(), at_most=5, by_placing=True)
    assert (found.fits, found.is_complete, found.limited_by) == (5, False, ())


def test_whoever_watches_can_stop_it_and_keeps_what_is_done():
    told = []

    def watch(placed):
        told.append(placed)
        return len(told) > 7

    found = asked([node("a", cpu="99")], pod(), by_placing=True, watch=WatchUntil(watch))
    assert (found.fits, found.is_complete) == (7, False)


def test_a_priority_class_that_is_not_there_is_refused():
    found = asked([node("a")], pod(priorityClassName="gold"))
    assert (found.fits, found.refused) == (0, "no PriorityClass with name gold was found")


def test_what_makes_no_pods_or_one_on_each_node_is_refused():
    with pytest.raises(ChangeError, match="-f: nothing that makes pods"):
        requested_pods(documents({"kind": "Service", "metadata": {"name": "s"}}))
    daemons = {**deployment(), "kind": "DaemonSet"}
    with pytest.raises(ChangeError, match="DaemonSet default/web: has one pod on each node"):
        requested_pods(documents(daemons))
    with pytest.raises(ManifestError, match=r"spec\.selector does not match"):
        requested_pods(
            documents({**deployment(), "spec": {**deployment()["spec"], "selector": {"matchLabels": {"x": "y"}}}})
        )


def test_changes_come_before_the_count_and_pending_pods_only_if_asked():
    made = [node("a"), node("b"), make_pod("waits").request(cpu="3")]
    snapshot = Snapshot([Document(each.document["kind"], msgspec.json.encode(each.document), "c") for each in made])
    question = documents(pod())
    assert capacity_after(snapshot, question).fits == 8
    assert capacity_after(snapshot, question, pending_first=True).fits == 5
    assert capacity_after(snapshot, question, [parse_flag("addNodes", "2=a")]).fits == 13


def test_a_profile_without_the_filter_for_room_is_not_counted_without_end():
    plugins = {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}],
    }
    found = asked([node("a")], pod(), config=load_config(document, "test"), at_most=50)
    assert (found.fits, found.is_complete) == (50, False)


def test_each_copy_of_a_stateful_set_has_claims_of_its_own_and_attaches_its_own_volumes():
    """Each node attaches two volumes of the driver, whatever else it has room for."""
    limits = {
        "kind": "CSINode",
        "metadata": {"name": "a"},
        "spec": {"drivers": [{"name": "disks.test", "nodeID": "a", "allocatable": {"count": 2}}]},
    }
    waits = {
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "disks.test",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    claim = {
        "metadata": {"name": "data"},
        "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}},
    }
    sets = {**deployment("db"), "kind": "StatefulSet"}
    sets["spec"] = {**sets["spec"], "volumeClaimTemplates": [claim]}
    found = asked([node("a", cpu="99")], limits, waits, sets)
    assert found.fits == 2
    assert reasons(found) == {"node(s) exceed max volume count": 1}


def test_a_gang_counts_as_a_whole_where_the_configuration_looks_at_groups():
    """Two nodes of four cores hold eight pods of one core: two gangs of three, and two pods that are of no use."""
    group = {
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    gang = deployment(replicas=3, schedulingGroup={"podGroupName": "g"})
    gates = feature_gates({"GenericWorkload": True, "GangScheduling": True})
    looks = load_config(document_enabling({}), "test", gates)
    found = asked([node("a"), node("b")], group, gang, config=looks)
    assert (found.fits, found.pods, found.is_of_sets) == (2, 6, True)
    found = asked([node("a"), node("b")], group, gang)
    assert (found.fits, found.is_of_sets) == (8, False)
    found = asked([node("a"), node("b")], deployment(), config=looks)
    assert (found.fits, found.shapes[0].is_counted) == (8, True)


def test_gangs_that_keep_together_are_counted_rack_by_rack():
    """Racks of eight, six and three cores, gangs of three pods of one core: two, two and one, and no rest is shared."""
    spec = {"schedulingPolicy": {"gang": {"minCount": 3}}, "schedulingConstraints": {"topology": [{"key": "rack"}]}}
    group = {"kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}
    gang = deployment(replicas=3, schedulingGroup={"podGroupName": "g"})
    gates = {"GenericWorkload": True, "GangScheduling": True, "TopologyAwareWorkloadScheduling": True}
    looks = load_config(document_enabling({}), "test", feature_gates(gates))
    cores = {"a": ("4", "4"), "b": ("5", "1"), "c": ("2", "1")}
    nodes = [node(f"{rack}{i}", cpu=cpu).label("rack", rack) for rack, of in cores.items() for i, cpu in enumerate(of)]
    found = asked([*nodes, node("x", cpu="9")], group, gang, config=looks)
    assert (found.fits, found.pods, found.together_in) == (5, 15, "rack"), "nobody goes to the node without the label"
    assert {rack: (each.nodes, each.fits) for rack, each in found.by_part.items()} == {
        "a": (2, 2), "b": (2, 2), "c": (2, 1)}  # fmt: skip
    assert {each.reason for part in found.by_part.values() for each in part.limited_by} == {"Insufficient cpu"}
    assert asked([*nodes, node("x", cpu="9")], group, gang).fits == 26, "without the gates each pod counts"
