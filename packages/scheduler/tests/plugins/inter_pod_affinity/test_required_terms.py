"""Required pod affinity and anti-affinity, against the behaviour documented for inter-pod affinity."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.core.builders import make_namespace, make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.status import Code
from berth.plugins.inter_pod_affinity import InterPodAffinity, InterPodAffinityArgs
from berth.plugins.inter_pod_affinity.required_terms import REASON_AFFINITY, REASON_ANTI_AFFINITY, REASON_EXISTING
from packages.scheduler.tests.plugins.topology_support import (
    HOST,
    SKIPPED,
    ZONE,
    cluster,
    prepared,
    rejected,
    verdicts,
    zoned,
)
from tests.effort import examples

WEB, DB = {"app": "web"}, {"app": "db"}
NODES = (zoned("a1", "a"), zoned("a2", "a"), zoned("b1", "b"))
EVERY = {"a1", "a2", "b1"}
NAMESPACES = (
    make_namespace("default"),
    make_namespace("prod", {"env": "prod"}),
    make_namespace("dev", {"env": "dev"}),
)


def running(name, node, labels=WEB, namespace="default"):
    return make_pod(name, namespace).labels(labels).node(node)


def plugin_of(handle):
    return InterPodAffinity(InterPodAffinityArgs(), handle)


def rejected_in(handle, pod):
    return rejected(plugin_of(handle), pod.info(), handle)


def test_affinity_wants_a_matching_pod_in_the_domain():
    handle = cluster(*NODES, running("w", "a1"))
    found = verdicts(plugin_of(handle), make_pod().pod_affinity(ZONE, WEB).info(), handle)
    assert found == {"a1": None, "a2": None, "b1": REASON_AFFINITY}
    assert rejected_in(handle, make_pod().pod_affinity(HOST, WEB)) == {"a2", "b1"}


def test_all_terms_must_match_one_and_the_same_pod():
    pod = make_pod().pod_affinity(ZONE, WEB).pod_affinity(ZONE, {"tier": "gold"})
    apart = cluster(*NODES, running("w", "a1"), running("g", "a1", {"tier": "gold"}))
    assert rejected_in(apart, pod) == EVERY
    together = cluster(*NODES, running("w", "a1", {**WEB, "tier": "gold"}))
    assert rejected_in(together, pod) == {"b1"}


def test_every_topology_key_must_be_on_the_node():
    handle = cluster(*NODES, make_node("nowhere"), running("w", "nowhere"))
    assert rejected_in(handle, make_pod().pod_affinity(ZONE, WEB)) == {*EVERY, "nowhere"}
    handle = cluster(*NODES, make_node("nowhere"), running("w", "a1"))
    assert rejected_in(handle, make_pod().pod_affinity(ZONE, WEB)) == {"b1", "nowhere"}


def test_the_first_pod_of_a_series_may_go_anywhere_that_has_the_keys():
    handle = cluster(*NODES, make_node("nowhere"))
    assert rejected_in(handle, make_pod().labels(WEB).pod_affinity(ZONE, WEB)) == {"nowhere"}
    assert rejected_in(handle, make_pod().labels(DB).pod_affinity(ZONE, WEB)) == {*EVERY, "nowhere"}
    elsewhere = make_pod().labels(WEB).pod_affinity(ZONE, WEB, namespaces=["prod"])
    assert rejected_in(handle, elsewhere) == {*EVERY, "nowhere"}


def test_one_matching_pod_anywhere_ends_that_privilege():
    handle = cluster(*NODES, running("w", "b1"))
    assert rejected_in(handle, make_pod().labels(WEB).pod_affinity(ZONE, WEB)) == {"a1", "a2"}


def test_a_matching_pod_outside_every_domain_does_not_end_it():
    handle = cluster(*NODES, make_node("nowhere"), running("w", "nowhere"))
    assert rejected_in(handle, make_pod().labels(WEB).pod_affinity(ZONE, WEB)) == {"nowhere"}


def test_anti_affinity_avoids_the_domain_and_ignores_nodes_without_the_key():
    handle = cluster(*NODES, make_node("nowhere"), running("w", "a1"), running("x", "nowhere"))
    found = verdicts(plugin_of(handle), make_pod().pod_anti_affinity(ZONE, WEB).info(), handle)
    assert found == {"a1": REASON_ANTI_AFFINITY, "a2": REASON_ANTI_AFFINITY, "b1": None, "nowhere": None}


def test_each_anti_affinity_term_stands_alone():
    handle = cluster(*NODES, running("w", "a1"), running("d", "b1", DB))
    pod = make_pod().pod_anti_affinity(HOST, WEB).pod_anti_affinity(ZONE, DB)
    assert rejected_in(handle, pod) == {"a1", "b1"}


def test_running_pods_keep_others_off_with_their_own_anti_affinity():
    handle = cluster(*NODES, running("w", "a1", DB).pod_anti_affinity(ZONE, WEB))
    found = verdicts(plugin_of(handle), make_pod().labels(WEB).info(), handle)
    assert found == {"a1": REASON_EXISTING, "a2": REASON_EXISTING, "b1": None}
    assert verdicts(plugin_of(handle), make_pod().labels(DB).info(), handle) == SKIPPED


def test_of_several_reasons_affinity_comes_first_then_the_pods_own_anti_affinity():
    handle = cluster(*NODES, running("w", "a1", WEB).pod_anti_affinity(ZONE, WEB))
    pod = make_pod().labels(WEB).pod_anti_affinity(HOST, WEB)
    assert verdicts(plugin_of(handle), pod.info(), handle) == {
        "a1": REASON_ANTI_AFFINITY,
        "a2": REASON_EXISTING,
        "b1": None,
    }
    pod.pod_affinity(HOST, DB)
    assert set(verdicts(plugin_of(handle), pod.info(), handle).values()) == {REASON_AFFINITY}


def test_only_missing_affinity_cannot_be_cured_by_preemption():
    handle = cluster(zoned("a1", "a"), running("w", "a1", WEB).pod_anti_affinity(ZONE, DB))
    plugin, view = plugin_of(handle), handle.cache.table.view(0)
    codes = []
    for pod in (
        make_pod().pod_affinity(ZONE, DB),
        make_pod().pod_anti_affinity(ZONE, WEB),
        make_pod().labels(DB),
    ):
        info = pod.info()
        codes.append(plugin.filter(prepared(plugin, info), info, view).code)
    assert codes == [Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, EVERY),
        ({"namespaces": ["prod"]}, {"b1"}),
        ({"namespaces": ["dev", "prod"]}, {"b1"}),
        ({"namespaceSelector": {"matchLabels": {"env": "prod"}}}, {"b1"}),
        ({"namespaceSelector": {"matchLabels": {"env": "dev"}}}, EVERY),
        ({"namespaceSelector": {"matchLabels": {"env": "dev"}}, "namespaces": ["prod"]}, {"b1"}),
        ({"namespaceSelector": {}}, {"b1"}),
    ],
)
def test_terms_speak_of_the_own_namespace_those_listed_and_those_selected(more, expected):
    handle = cluster(*NODES, *NAMESPACES, running("w", "a1", WEB, "prod"))
    assert rejected_in(handle, make_pod().pod_affinity(ZONE, WEB, **more)) == expected


def test_a_namespace_nobody_knows_is_selected_by_the_empty_selector_only():
    handle = cluster(*NODES, *NAMESPACES, running("w", "a1", WEB, "ghost"))
    absent = {"matchExpressions": [{"key": "env", "operator": "DoesNotExist"}]}
    assert rejected_in(handle, make_pod().pod_affinity(ZONE, WEB, namespaceSelector=absent)) == EVERY
    assert rejected_in(handle, make_pod().pod_affinity(ZONE, WEB, namespaceSelector={})) == {"b1"}


def test_running_pods_terms_select_the_incoming_pods_namespace():
    selector = {"matchLabels": {"env": "prod"}}
    carrier = running("w", "a1", DB).pod_anti_affinity(ZONE, WEB, namespaceSelector=selector)
    handle = cluster(*NODES, *NAMESPACES, carrier)
    assert rejected_in(handle, make_pod("p", "prod").labels(WEB)) == {"a1", "a2"}
    assert rejected_in(handle, make_pod("p", "dev").labels(WEB)) == set()
    handle.cache.set_namespace("dev", {"env": "prod"})
    assert rejected_in(handle, make_pod("p", "dev").labels(WEB)) == {"a1", "a2"}


def test_a_term_without_a_selector_matches_no_pod():
    handle = cluster(*NODES, running("w", "a1"))
    assert rejected_in(handle, make_pod().pod_affinity(ZONE, None)) == EVERY
    assert rejected_in(handle, make_pod().pod_anti_affinity(ZONE, None)) == set()


def test_pods_being_deleted_still_count():
    handle = cluster(*NODES, running("w", "a1").terminating())
    assert rejected_in(handle, make_pod().pod_anti_affinity(ZONE, WEB)) == {"a1", "a2"}


def test_pods_that_nothing_speaks_of_are_skipped():
    handle = cluster(*NODES, running("w", "a1"))
    assert prepared(plugin_of(handle), make_pod().info()) == SKIPPED
    assert prepared(plugin_of(handle), make_pod().prefer_pod_affinity(1, ZONE, WEB).info()) == SKIPPED


def test_a_selector_that_cannot_be_read_is_unresolvable():
    selector = {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["x"]}]}
    status = prepared(plugin_of(cluster(*NODES)), make_pod().pod_affinity(ZONE, selector).info())
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message.startswith("parsing pod: ")


def test_what_if_a_pod_goes():
    handle = cluster(*NODES, running("w", "a1").pod_anti_affinity(ZONE, DB))
    plugin, table = plugin_of(handle), handle.cache.table
    view = table.view(table.row_of["a1"])
    gone = next(iter(view.pods.values()))
    for pod in (make_pod().pod_anti_affinity(ZONE, WEB), make_pod().labels(DB)):
        info = pod.info()
        state = prepared(plugin, info)
        what_if = state.clone()
        plugin.remove_pod(what_if, info, gone, view)
        assert plugin.filter(what_if, info, view.without_pod(gone)) is None
        assert not plugin.filter_columns(what_if, info, table, table.rows()).codes.any()
        assert plugin.filter(state, info, view) is not None


def test_what_if_a_pod_comes():
    handle = cluster(*NODES, running("d", "b1", DB))
    plugin, table = plugin_of(handle), handle.cache.table
    view, other = table.view(table.row_of["a1"]), table.view(table.row_of["b1"])
    wanted = make_pod("w").labels(WEB).pod_anti_affinity("rack", {"none": "such"}).info()
    near = make_pod().pod_affinity(ZONE, WEB).info()
    state = prepared(plugin, near)
    plugin.add_pod(state, near, wanted, view)
    assert plugin.filter(state, near, view) is None
    assert plugin.filter(state, near, other) is not None
    assert plugin.filter_columns(state, near, table, table.rows()).codes.tolist() == [0, 0, 3]
    away = make_pod().labels(WEB).pod_anti_affinity(HOST, WEB).info()
    state = prepared(plugin, away)
    plugin.add_pod(state, away, make_pod("x").labels(WEB).pod_anti_affinity(ZONE, WEB).info(), view)
    found = plugin.filter_columns(state, away, table, table.rows()).codes.tolist()
    assert found == [2, 1, 0]
    assert [plugin.filter(state, away, table.view(row)) is not None for row in range(3)] == [True, True, False]


def test_what_if_the_last_pod_of_a_series_goes():
    handle = cluster(*NODES, running("w", "a1"))
    plugin, table = plugin_of(handle), handle.cache.table
    view, other = table.view(table.row_of["a1"]), table.view(table.row_of["b1"])
    info = make_pod().labels(WEB).pod_affinity(ZONE, WEB).info()
    state = prepared(plugin, info)
    assert plugin.filter(state, info, other) is not None
    plugin.remove_pod(state, info, next(iter(view.pods.values())), view)
    assert plugin.filter(state, info, other) is None
    assert not plugin.filter_columns(state, info, table, table.rows()).codes.any()


def test_equal_demands_have_equal_signatures():
    plugin = plugin_of(cluster(*NODES))
    signatures = [
        plugin.signature(pod.info())
        for pod in (
            make_pod("p").labels(WEB).pod_affinity(ZONE, WEB),
            make_pod("q").labels(WEB).pod_affinity(ZONE, WEB),
            make_pod("r").labels(WEB).pod_anti_affinity(ZONE, WEB),
            make_pod("s").labels(DB).pod_affinity(ZONE, WEB),
            make_pod("t").labels(WEB),
        )
    ]
    assert signatures[0] == signatures[1]
    assert len(set(signatures)) == 4


def expected_rejections(nodes, running_pods, pod):
    """What the documentation says, worked out pair by pair; pods are (labels, affinity, anti-affinity) by app."""

    def together(node, other, key):
        return key in nodes[node] and nodes[node][key] == nodes[other].get(key)

    app, affinity, anti = pod
    matching = [node for node, (other, _, _) in running_pods if affinity and other == affinity[0]]
    found = set()
    for name in nodes:
        if affinity:
            key = affinity[1]
            is_first = affinity[0] == app and not any(key in nodes[node] for node in matching)
            near = any(together(name, node, key) for node in matching)
            if key not in nodes[name] or not (near or is_first):
                found.add(name)
        if anti and any(other == anti[0] and together(name, node, anti[1]) for node, (other, _, _) in running_pods):
            found.add(name)
        if any(
            theirs and theirs[0] == app and together(name, node, theirs[1]) for node, (_, _, theirs) in running_pods
        ):
            found.add(name)
    return found


LABELS = st.fixed_dictionaries({}, optional={"zone": st.sampled_from("ab"), "rack": st.sampled_from("xyz")})
APPS = st.sampled_from(["web", "db"])
TERM = st.none() | st.tuples(APPS, st.sampled_from(["zone", "rack"]))
POD = st.tuples(APPS, TERM, TERM)


def built(name, pod):
    app, affinity, anti = pod
    builder = make_pod(name).label("app", app)
    if affinity:
        builder.pod_affinity(affinity[1], {"app": affinity[0]})
    if anti:
        builder.pod_anti_affinity(anti[1], {"app": anti[0]})
    return builder


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(LABELS, min_size=1, max_size=6), st.lists(st.tuples(st.integers(0, 5), POD), max_size=7), POD)
def test_both_forms_say_what_the_documentation_says(labels, placed, pod):
    nodes = {f"n{i}": found for i, found in enumerate(labels)}
    running_pods = [(f"n{place % len(nodes)}", other) for place, other in placed]
    handle = cluster(
        *(make_node(name).labels(found) for name, found in nodes.items()),
        *(built(f"p{i}", other).node(node) for i, (node, other) in enumerate(running_pods)),
    )
    assert rejected_in(handle, built("new", pod)) == expected_rejections(nodes, running_pods, pod)


def test_a_term_that_had_no_domain_counts_once_its_node_has_the_label():
    """A plugin that skipped pods of a shape must not go on when a node's label gives a running pod's term a domain."""
    found = VirtualCluster(make_node("n").capacity(cpu="64", memory="64Gi"), make_namespace("default"))
    found.put(make_pod("guard").request(cpu="1").pod_anti_affinity(ZONE, {"app": "web"}).node("n"))
    for number in range(4):
        found.put(make_pod(f"p{number}").label("app", "web").request(cpu="1"))
    found.run()
    assert len(found.core.cache.states()) == 5
    found.put(make_node("n").capacity(cpu="64", memory="64Gi").zone("a"))
    found.put(make_pod("late").label("app", "web").request(cpu="1"))
    found.run()
    assert "didn't satisfy existing pods anti-affinity rules" in found.patches("late")[0].message
