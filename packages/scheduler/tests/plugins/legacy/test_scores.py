"""The other scores of v1.20 against the tables of its own tests (release-1.20, pkg/scheduler/framework/plugins)."""

import json

import numpy as np
import pytest

from berth.config.feature_gates import feature_gates
from berth.core.builders import make_node, make_pod, make_replica_set, make_service
from berth.framework.cycle_state import CycleState
from berth.framework.interface import FeasibleNodes
from berth.plugins.inter_pod_affinity.preferred_terms import normalized
from berth.plugins.legacy.image_locality import LegacyImageLocality
from berth.plugins.legacy.node_label import NodeLabel, NodeLabelArgs
from berth.plugins.legacy.node_prefer_avoid_pods import ANNOTATION, NodePreferAvoidPods
from berth.plugins.legacy.pod_topology_spread import LegacyPodTopologySpread, LegacyPodTopologySpreadArgs
from berth.plugins.legacy.selector_spread import SelectorSpread
from berth.plugins.legacy.service_affinity import ServiceAffinity, ServiceAffinityArgs
from packages.scheduler.tests.plugins.support import handle_of, raw_scores
from packages.scheduler.tests.plugins.topology_support import cluster, verdicts, zoned


def final_scores(plugin, pod, handle):
    """Normalised scores with all nodes feasible; both forms are compared."""
    state, table = CycleState(), handle.cache.table
    nodes = FeasibleNodes(table, table.valid)
    if hasattr(plugin, "pre_score"):
        assert plugin.pre_score(state, pod, nodes) is None
    raw = plugin.score_columns(state, pod, table, nodes.rows)
    assert raw.tolist() == [plugin.score(state, pod, view) for view in nodes.views()]
    names = [view.name for view in nodes.views()]
    return dict(zip(names, plugin.normalize_score(state, pod, raw).tolist(), strict=True))


def avoiding(kind, uid):
    entry = {"podSignature": {"podController": {"apiVersion": "v1", "kind": kind, "uid": uid, "controller": True}}}
    return json.dumps({"preferAvoidPods": [entry]})


@pytest.mark.parametrize(
    ("kind", "uid", "expected"),
    [
        ("ReplicationController", "abcdef123456", {"m1": 0, "m2": 100, "m3": 100}),
        ("ReplicaSet", "qwert12345", {"m1": 100, "m2": 0, "m3": 100}),
        ("StatefulSet", "abcdef123456", {"m1": 100, "m2": 100, "m3": 100}),
        ("ReplicaSet", "other", {"m1": 100, "m2": 100, "m3": 100}),
    ],
)
def test_nodes_avoid_the_pods_of_controllers(kind, uid, expected):
    handle = handle_of(
        make_node("m1").annotation(ANNOTATION, avoiding("ReplicationController", "abcdef123456")).build(),
        make_node("m2").annotation(ANNOTATION, avoiding("ReplicaSet", "qwert12345")).build(),
        make_node("m3").annotation(ANNOTATION, "{not json").build(),
    )
    pod = make_pod().owned_by(kind, "foo", uid=uid).info()
    plugin = NodePreferAvoidPods(None, handle)
    assert raw_scores(plugin, pod, handle) == expected
    assert set(raw_scores(plugin, make_pod().info(), handle).values()) == {100}


def test_what_a_node_avoids_is_followed():
    handle = handle_of(make_node("m1").build())
    plugin = NodePreferAvoidPods(None, handle)
    pod = make_pod().owned_by("ReplicaSet", "foo", uid="u").info()
    for annotation, score in ((avoiding("ReplicaSet", "u"), 0), (avoiding("ReplicaSet", "v"), 100)):
        handle.cache.put_node(make_node("m1").annotation(ANNOTATION, annotation).build())
        assert raw_scores(plugin, pod, handle) == {"m1": score}


def test_label_preferences_are_averaged():
    handle = handle_of(
        make_node("m1").label("foo", "1").build(),
        make_node("m2").label("bar", "1").build(),
        make_node("m3").labels({"foo": "1", "bar": "1"}).build(),
    )
    args = NodeLabelArgs(present_labels_preference=("foo", "baz"), absent_labels_preference=("bar",))
    assert raw_scores(NodeLabel(args, handle), make_pod().info(), handle) == {"m1": 66, "m2": 0, "m3": 33}


LABELS = {"foo": "bar"}


def on(node, name, labels=LABELS, namespace="default"):
    return make_pod(name, namespace).labels(labels).node(node)


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([make_service("s", LABELS)], {"m1": 100, "m2": 100}),
        ([on("m1", "p1", {}), on("m2", "p2"), make_service("s", LABELS)], {"m1": 100, "m2": 0}),
        ([on("m1", "p1"), on("m2", "p2"), on("m2", "p3"), make_service("s", LABELS)], {"m1": 50, "m2": 0}),
        ([on("m1", "p1"), on("m2", "p2", namespace="ns1"), make_service("s", LABELS)], {"m1": 0, "m2": 100}),
        ([on("m1", "p1"), on("m2", "p2", {"x": "y"}), make_replica_set("r", LABELS)], {"m1": 0, "m2": 100}),
        ([on("m1", "p1"), on("m2", "p2")], {"m1": 100, "m2": 100}),
    ],
)
def test_selector_spread_over_nodes(objects, expected):
    handle = cluster(make_node("m1"), make_node("m2"), *objects)
    pod = make_pod("new").labels(LABELS).info()
    assert final_scores(SelectorSpread(None, handle), pod, handle) == expected


def test_selector_spread_gives_two_thirds_to_zones():
    """TestZoneSelectorSpreadPriority, "two pods, 1 matching (in z2)"."""
    nodes = [zoned("m1z1", "z1"), zoned("m1z2", "z2"), zoned("m2z2", "z2"), zoned("m1z3", "z3"), zoned("m2z3", "z3")]
    handle = cluster(*nodes, on("m1z1", "p1", {"x": "y"}), on("m1z2", "p2"), make_service("s", LABELS))
    scores = final_scores(SelectorSpread(None, handle), make_pod("new").labels(LABELS).info(), handle)
    assert scores == {"m1z1": 100, "m1z2": 0, "m2z2": 33, "m1z3": 100, "m2z3": 100}


def test_selector_spread_leaves_pods_with_constraints_alone():
    handle = cluster(make_node("m1"), on("m1", "p1"), make_service("s", LABELS))
    pod = make_pod("new").labels(LABELS).spread("zone", LABELS, when="ScheduleAnyway").info()
    assert final_scores(SelectorSpread(None, handle), pod, handle) == {"m1": 0}


@pytest.mark.parametrize(
    ("peers", "expected"),
    [
        # TestServiceAntiAffinity…: "nothing scheduled", "two pods, 1 service pod", "three pods, two service pods on
        # different machines", with two nodes a zone and one without the label.
        ([], {"m01": 0, "m11": 100, "m12": 100, "m21": 100, "m22": 100}),
        ([on("m21", "p")], {"m01": 0, "m11": 100, "m12": 100, "m21": 0, "m22": 0}),
        ([on("m11", "p"), on("m21", "q")], {"m01": 0, "m11": 50, "m12": 50, "m21": 50, "m22": 50}),
    ],
)
def test_service_anti_affinity(peers, expected):
    nodes = [make_node("m01"), *(make_node(f"m{z}{n}").label("zone", f"z{z}") for z in (1, 2) for n in (1, 2))]
    handle = cluster(*nodes, *peers, make_service("s", LABELS))
    plugin = ServiceAffinity(ServiceAffinityArgs(anti_affinity_labels_preference=("zone",)), handle)
    assert final_scores(plugin, make_pod("new").labels(LABELS).info(), handle) == expected


def test_only_regular_containers_images_count():
    mb = 1 << 20
    handle = handle_of(make_node("m1").image("app:v1", size_bytes=500 * mb).build())
    plugin = LegacyImageLocality(None, handle)
    assert raw_scores(plugin, make_pod().container(image="app:v1").info(), handle) == {"m1": 48}
    # The init container's image is neither counted nor does it halve the score.
    both = make_pod().container(image="app:v1").init_container(image="app:v1").info()
    assert raw_scores(plugin, both, handle) == {"m1": 48}


def test_pod_affinity_scores_are_scaled_from_zero():
    """NormalizeScore began with a minimum and a maximum of 0."""
    scores = np.array([2, 4, 8], dtype=np.int64)
    assert normalized(scores, from_zero=True).tolist() == [25, 50, 100]
    assert normalized(-scores, from_zero=True).tolist() == [75, 50, 0]
    assert normalized(np.array([5, 5]), from_zero=True).tolist() == [100, 100]


def spread(handle, gates=None, **args):
    handle.features = feature_gates(gates or {}, "v1.20")
    return LegacyPodTopologySpread(LegacyPodTopologySpreadArgs(**args), handle)


def test_pods_in_a_domain_count_on_nodes_outside_the_affinity_too():
    """calPreFilterState counts on all nodes of the domains that the allowed nodes make."""
    handle = cluster(
        zoned("a1", "a").label("disk", "ssd"), zoned("a2", "a"), zoned("b1", "b").label("disk", "ssd"), on("a2", "p1")
    )
    pod = make_pod("new").labels(LABELS).node_selector({"disk": "ssd"})
    pod.spread("topology.kubernetes.io/zone", LABELS)
    found = verdicts(spread(handle), pod.info(), handle)
    assert {name for name, message in found.items() if message} >= {"a1"}
    assert found["b1"] is None


@pytest.mark.parametrize(
    ("gates", "args", "skips"),
    [({}, {}, False), ({"DefaultPodTopologySpread": False}, {}, True), ({}, {"defaulting_type": "List"}, True)],
)
def test_built_in_constraints_come_with_their_gate(gates, args, skips):
    handle = cluster(zoned("a", "a"), zoned("b", "b"), on("a", "p1"), make_service("s", LABELS))
    plugin, pod = spread(handle, gates, **args), make_pod("new").labels(LABELS).info()
    status = plugin.pre_score(CycleState(), pod, FeasibleNodes(handle.cache.table, handle.cache.table.valid))
    assert (status is not None) is skips
    assert plugin.promises.score_when_skipped == 100
