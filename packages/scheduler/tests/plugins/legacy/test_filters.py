"""The filters of v1.20: reasons, codes, and what they check. Source: release-1.20, pkg/scheduler/framework/plugins."""

import pytest

from berth.api.codec import decode
from berth.config.feature_gates import feature_gates
from berth.core.builders import expression, make_node, make_pod, make_service
from berth.framework.cycle_state import CycleState
from berth.framework.status import Code
from berth.plugins.legacy.cloud_limits import (
    AzureDiskLimits,
    CinderLimits,
    EBSLimits,
    GCEPDLimits,
)
from berth.plugins.legacy.node_affinity import LegacyNodeAffinity
from berth.plugins.legacy.node_label import NodeLabel, NodeLabelArgs
from berth.plugins.legacy.node_name import LegacyNodeName
from berth.plugins.legacy.node_resources_fit import LegacyNodeResourcesFit, LegacyNodeResourcesFitArgs
from berth.plugins.legacy.node_volume_limits import LegacyNodeVolumeLimits
from berth.plugins.legacy.service_affinity import ServiceAffinity, ServiceAffinityArgs
from berth.plugins.legacy.taint_toleration import LegacyTaintToleration
from berth.plugins.legacy.volumes import LegacyVolumeBinding, LegacyVolumeRestrictions, LegacyVolumeZone
from berth.plugins.node_affinity import NodeAffinityArgs
from berth.plugins.volumes.volume_binding import VolumeBindingArgs
from packages.scheduler.tests.plugins.support import handle_of
from packages.scheduler.tests.plugins.topology_support import cluster
from packages.scheduler.tests.plugins.volumes.world import claim, storage_class, volume
from packages.scheduler.tests.plugins.volumes.world import on as located_on


def asked(plugin, pod, handle, state=None):
    """Code and reasons for each node that is rejected; by node and by column."""
    state, table = state or CycleState(), handle.cache.table
    rows = table.rows()
    by_node = [plugin.filter(state, pod, table.view(row)) for row in rows.tolist()]
    for subset in (slice(None), rows, rows[:1], rows[::2], rows[:0]):
        codes, describe = plugin.filter_columns(state, pod, table, subset)
        numbers = list(range(table.capacity))[subset] if isinstance(subset, slice) else subset.tolist()
        said = {row: describe(code) if code else None for row, code in zip(numbers, codes.tolist(), strict=True)}
        expected = dict(zip(rows.tolist(), by_node, strict=True))
        assert {row: said[row] for row in numbers if row in expected} == {
            row: expected[row] for row in numbers if row in expected
        }
    names = [table.names[row] for row in rows.tolist()]
    return {name: (s.code, s.reasons) for name, s in zip(names, by_node, strict=True) if s is not None}


def of_v1_20(handle, **gates):
    handle.features = feature_gates(gates, "v1.20")
    return handle


def test_taints_are_named_the_first_that_is_not_tolerated():
    handle = of_v1_20(
        handle_of(
            make_node("free").build(),
            make_node("gpu").taint("soft", "x", "PreferNoSchedule").taint("dedicated", "a").taint("gpu", "b").build(),
            make_node("gpu-too").taint("gpu", "b", "NoExecute").build(),
        )
    )
    pod = make_pod().tolerate("dedicated", "a").info()
    refused = (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("node(s) had taint {gpu: b}, that the pod didn't tolerate",))
    assert asked(LegacyTaintToleration(None, handle), pod, handle) == {"gpu": refused, "gpu-too": refused}


def test_node_affinity_has_the_shorter_reason():
    handle = handle_of(make_node("a").label("disk", "ssd").build(), make_node("b").build())
    plugin = LegacyNodeAffinity(NodeAffinityArgs(), handle)
    pod = make_pod().require_node(expression("disk", "In", "ssd")).info()
    refused = (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("node(s) didn't match Pod's node affinity",))
    assert asked(plugin, pod, handle) == {"b": refused}


def test_the_reason_for_another_node_speaks_of_the_host():
    """plugins/nodename/node_name.go; v1.21 changed the words (kubernetes/kubernetes#97454)."""
    handle = handle_of(make_node("a").build(), make_node("b").build())
    refused = (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("node(s) didn't match the requested hostname",))
    assert asked(LegacyNodeName(None, handle), make_pod().node("a").info(), handle) == {"b": refused}


def fit(handle, **args):
    return LegacyNodeResourcesFit(LegacyNodeResourcesFitArgs(**args), of_v1_20(handle))


def test_a_request_of_anything_has_all_plain_resources_checked():
    """fitsRequest compares allocatable with request and requested even where the request is 0."""
    handle = handle_of(
        make_node("n").capacity(cpu="1", memory="1000").build(), make_pod("big").request(cpu="2").node("n").build()
    )
    plugin = fit(handle)
    assert asked(plugin, make_pod().request(memory="1").info(), handle) == {
        "n": (Code.UNSCHEDULABLE, ("Insufficient cpu",))
    }
    assert asked(plugin, make_pod().request({"example.com/gpu": "0"}).info(), handle) == {
        "n": (Code.UNSCHEDULABLE, ("Insufficient cpu",))
    }
    assert asked(plugin, make_pod().container().info(), handle) == {}


def test_preemption_may_always_help_and_ignored_resources_do_not_count():
    handle = handle_of(make_node("n").capacity(cpu="1", memory="1000", pods="0").build())
    pod = make_pod().request({"cpu": "4", "example.com/gpu": "1", "other.com/x": "1"}).info()
    reasons = ("Too many pods", "Insufficient cpu", "Insufficient other.com/x")
    plugin = fit(handle, ignored_resources=("example.com/gpu",))
    assert asked(plugin, pod, handle) == {"n": (Code.UNSCHEDULABLE, reasons)}


def test_node_labels_must_be_there_or_not():
    handle = handle_of(
        make_node("good").label("rack", "1").build(),
        make_node("retiring").labels({"rack": "1", "retiring": "today"}).build(),
        make_node("bare").build(),
    )
    plugin = NodeLabel(NodeLabelArgs(present_labels=("rack",), absent_labels=("retiring",)), handle)
    refused = (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("node(s) didn't have the requested labels",))
    assert asked(plugin, make_pod().info(), handle) == {"retiring": refused, "bare": refused}


def test_disks_conflict_without_pre_filter():
    disk = {"gcePersistentDisk": {"pdName": "d"}}
    handle = handle_of(
        make_node("a").build(), make_node("b").build(), make_pod("holds").volume("v", **disk).node("a").build()
    )
    plugin = LegacyVolumeRestrictions(None, handle)
    assert asked(plugin, make_pod().volume("v", **disk).info(), handle) == {
        "a": (Code.UNSCHEDULABLE, ("node(s) had no available disk",))
    }


SOURCES = {
    EBSLimits: ("attachable-volumes-aws-ebs", lambda n: {"awsElasticBlockStore": {"volumeID": n}}, 39),
    GCEPDLimits: ("attachable-volumes-gce-pd", lambda n: {"gcePersistentDisk": {"pdName": n}}, 16),
    AzureDiskLimits: ("attachable-volumes-azure-disk", lambda n: {"azureDisk": {"diskName": n, "diskURI": n}}, 16),
    CinderLimits: ("attachable-volumes-cinder", lambda n: {"cinder": {"volumeID": n}}, 256),
}


@pytest.mark.parametrize("limits", SOURCES)
def test_cloud_disks_count_once_against_what_the_node_says(limits):
    key, source, _ = SOURCES[limits]
    held = make_pod("holds").volume("a", **source("one")).volume("b", **source("two")).node("full")
    handle = of_v1_20(
        handle_of(
            make_node("full").capacity({key: "2"}).build(),
            make_node("room").capacity({key: "3"}).build(),
            make_node("zero").capacity({key: "0"}).build(),
            held.build(),
        )
    )
    plugin = limits(None, handle)
    refused = (Code.UNSCHEDULABLE, ("node(s) exceed max volume count",))
    new = make_pod().volume("x", **source("three")).info()
    assert asked(plugin, new, handle) == {"full": refused, "zero": refused}
    shared = make_pod().volume("x", **source("one")).info()
    assert asked(plugin, shared, handle) == {"zero": refused}
    assert asked(plugin, make_pod().container().info(), handle) == {}


@pytest.mark.parametrize(
    ("limits", "instance_type", "limit"),
    [(cls, "", limit) for cls, (_, _, limit) in SOURCES.items()]
    + [(EBSLimits, "m5.large", 25), (EBSLimits, "t2.micro", 39), (EBSLimits, "t3.nano", 25)],
)
def test_default_limits(limits, instance_type, limit):
    """DefaultMaxEBSVolumes and its like; EBSNitroLimitRegex."""
    source = SOURCES[limits][1]
    pod = make_pod("holds").node("n")
    for number in range(limit):
        pod.volume(f"v{number}", **source(f"d{number}"))
    node = make_node("n").label("beta.kubernetes.io/instance-type", instance_type)
    handle = of_v1_20(handle_of(node.build(), pod.build()))
    assert asked(limits(None, handle), make_pod().volume("x", **source("d0")).info(), handle) == {}
    assert asked(limits(None, handle), make_pod().volume("x", **source("more")).info(), handle) != {}


@pytest.mark.parametrize(("provisioner", "counts"), [("kubernetes.io/aws-ebs", True), ("csi.example.com", False)])
def test_claims_count_by_their_disk_or_their_class(provisioner, counts):
    handle = of_v1_20(
        cluster(
            make_node("n").capacity({"attachable-volumes-aws-ebs": "0"}),
            storage_class("fast", provisioner),
            claim("unbound", klass="fast"),
            claim("bound", klass="fast", volume="pv"),
            volume("pv", awsElasticBlockStore={"volumeID": "d"}),
        )
    )
    plugin = EBSLimits(None, handle)
    assert bool(asked(plugin, make_pod().claim("unbound").info(), handle)) is counts
    assert asked(plugin, make_pod().claim("bound").info(), handle) != {}
    assert asked(plugin, make_pod().claim("gone").info(), handle) == {}


def service_affinity(handle, *labels):
    return ServiceAffinity(ServiceAffinityArgs(affinity_labels=labels), handle)


def said_of(plugin, pod, handle):
    state = CycleState()
    plugin.pre_filter(state, pod)
    return set(asked(plugin, pod, handle, state))


@pytest.mark.parametrize(
    ("labels", "rejected"),
    [
        # service_affinity_test.go: "service pod on different node, region match" and "… region mismatch".
        (("region",), {"m3"}),
        (("region", "zone"), {"m2", "m3"}),
    ],
)
def test_pods_of_a_service_share_label_values(labels, rejected):
    objects = [
        make_node("m1").labels({"region": "r1", "zone": "z11"}),
        make_node("m2").labels({"region": "r1", "zone": "z12"}),
        make_node("m3").labels({"region": "r2", "zone": "z21"}),
        make_pod("peer").label("foo", "bar").node("m1"),
        make_service("s", {"foo": "bar"}),
    ]
    handle = cluster(*objects)
    plugin = service_affinity(handle, *labels)
    assert said_of(plugin, make_pod().label("foo", "bar").info(), handle) == rejected
    assert said_of(plugin, make_pod("elsewhere", "other").label("foo", "bar").info(), handle) == set()
    assert said_of(plugin, make_pod().label("foo", "not").info(), handle) == set()


def test_a_node_selector_fixes_the_label_and_a_removed_peer_does_not_count():
    handle = cluster(
        make_node("m1").label("region", "r1"),
        make_node("m2").label("region", "r2"),
        make_pod("peer").label("foo", "bar").node("m1"),
        make_service("s", {"foo": "bar"}),
    )
    plugin = service_affinity(handle, "region")
    fixed = make_pod().label("foo", "bar").node_selector({"region": "r2"}).info()
    assert said_of(plugin, fixed, handle) == {"m1"}
    pod, state = make_pod().label("foo", "bar").info(), CycleState()
    plugin.pre_filter(state, pod)
    (peer,) = handle.cache.table.pods[handle.cache.table.row_of["m1"]].values()
    what_if = state.clone()
    plugin.remove_pod(what_if, pod, peer, handle.cache.table.view(0))
    assert set(asked(plugin, pod, handle, what_if)) == set()
    assert set(asked(plugin, pod, handle, state)) == {"m2"}


def test_zone_labels_old_and_new_are_different_ones_and_wrong_claims_are_errors():
    """NoVolumeZoneConflict compares a volume's label with the node's of the same key only."""
    old, new = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"
    handle = cluster(
        make_node("old").label(old, "a"),
        make_node("new").label(new, "a"),
        make_node("elsewhere").label(old, "b"),
        make_node("unzoned"),
        claim("bound", volume="pv"),
        volume("pv", labels={old: "a"}),
    )
    plugin = LegacyVolumeZone(None, handle)
    refused = (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("node(s) had no available volume zone",))
    assert asked(plugin, make_pod().claim("bound").info(), handle) == {"new": refused, "elsewhere": refused}
    broken = (Code.ERROR, ('persistentvolumeclaim "gone" not found',))
    assert asked(plugin, make_pod().claim("gone").info(), handle) == dict.fromkeys(("old", "new", "elsewhere"), broken)
    assert asked(plugin, make_pod().info(), handle) == {}


def test_a_bound_volume_out_of_reach_is_told_in_the_words_of_the_time():
    handle = cluster(
        make_node("here").label("rack", "1"),
        make_node("there").label("rack", "2"),
        claim("bound", volume="pv"),
        volume("pv", affinity=located_on("rack", "1"), ref="bound"),
    )
    plugin = LegacyVolumeBinding(VolumeBindingArgs(), of_v1_20(handle))
    pod, state = make_pod().claim("bound").info(), CycleState()
    assert plugin.pre_filter(state, pod) is None
    reasons = ("node(s) had volume node affinity conflict",)
    assert asked(plugin, pod, handle, state) == {"there": (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)}


def csi_node(name, driver, count, **annotations):
    drivers = [{"name": driver, "nodeID": name, "allocatable": {"count": count}}]
    document = {"kind": "CSINode", "metadata": {"name": name, "annotations": annotations}, "spec": {"drivers": drivers}}
    return decode("CSINode", document)


@pytest.mark.parametrize(
    ("gates", "rejected"),
    [({}, set()), ({"CSIMigrationAWS": True}, {"moved"}), ({"CSIMigrationAWS": True, "CSIMigration": False}, set())],
)
def test_in_tree_disks_count_for_their_driver_only_where_they_have_moved(gates, rejected):
    driver, migrated = "ebs.csi.aws.com", {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}
    handle = of_v1_20(
        cluster(
            make_node("moved"),
            make_node("not-moved"),
            csi_node("moved", driver, 0, **migrated),
            csi_node("not-moved", driver, 0),
            claim("disk", volume="pv"),
            volume("pv", awsElasticBlockStore={"volumeID": "d"}),
        ),
        **gates,
    )
    assert set(asked(LegacyNodeVolumeLimits(None, handle), make_pod().claim("disk").info(), handle)) == rejected


def test_csi_volumes_count_once_against_their_drivers_limit():
    source = {"csi": {"driver": "csi.example.com", "volumeHandle": "one"}}
    handle = of_v1_20(
        cluster(
            make_node("n"),
            csi_node("n", "csi.example.com", 1),
            storage_class("wait"),
            claim("one", volume="pv"),
            volume("pv", **source),
            claim("two"),
            make_pod("holds").claim("one").node("n"),
        )
    )
    plugin = LegacyNodeVolumeLimits(None, handle)
    assert asked(plugin, make_pod().claim("one").info(), handle) == {}
    assert asked(plugin, make_pod().claim("gone").info(), handle) == {}
    refused = (Code.UNSCHEDULABLE, ("node(s) exceed max volume count",))
    assert asked(plugin, make_pod().claim("two").info(), handle) == {"n": refused}
