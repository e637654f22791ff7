"""DoNotSchedule constraints, against the behaviour documented for pod topology spread constraints."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.core.builders import expression, make_node, make_pod
from berth.framework.cycle_state import CycleState
from berth.framework.status import Code, error
from berth.plugins.pod_topology_spread import PodTopologySpread, PodTopologySpreadArgs
from berth.plugins.pod_topology_spread.hard_constraints import REASON_LABEL, REASON_SKEW
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

WEB = {"app": "web"}
NODES = (zoned("a1", "a"), zoned("a2", "a"), zoned("b1", "b"), zoned("b2", "b"))


def running(name, node, namespace="default", **labels):
    return make_pod(name, namespace).labels(labels or WEB).node(node)


def plugin_of(handle):
    return PodTopologySpread(PodTopologySpreadArgs(), handle)


def rejected_in(handle, pod):
    return rejected(plugin_of(handle), pod.info(), handle)


UNEVEN = (running("w1", "a1"), running("w2", "a2"), running("w3", "b1"))


@pytest.mark.parametrize(
    ("max_skew", "pods", "expected"),
    [
        (1, (), set()),
        (1, (running("w1", "a1"),), {"a1", "a2"}),
        (2, (running("w1", "a1"),), set()),
        (1, UNEVEN, {"a1", "a2"}),
        (1, (*UNEVEN, running("w4", "b2")), set()),
        (1, (running("other", "a1", app="db"), running("elsewhere", "a1", "prod")), set()),
        (1, (running("leaving", "a1").terminating(),), set()),
    ],
)
def test_no_zone_may_exceed_the_emptiest_by_more_than_max_skew(max_skew, pods, expected):
    handle = cluster(*NODES, *pods)
    pod = make_pod().labels(WEB).spread(ZONE, WEB, max_skew=max_skew)
    assert rejected_in(handle, pod) == expected


def test_a_pod_that_does_not_match_its_own_selector_adds_nothing_to_the_skew():
    handle = cluster(*NODES, running("w1", "a1"))
    assert rejected_in(handle, make_pod().spread(ZONE, WEB)) == set()
    assert rejected_in(handle, make_pod().labels(WEB).spread(ZONE, WEB)) == {"a1", "a2"}


def test_nodes_without_the_label_are_out_of_the_question_and_do_not_count():
    handle = cluster(*NODES, make_node("nowhere"), running("w1", "nowhere"), running("w2", "a1"))
    found = verdicts(plugin_of(handle), make_pod().labels(WEB).spread(ZONE, WEB).info(), handle)
    assert found == {"a1": REASON_SKEW, "a2": REASON_SKEW, "b1": None, "b2": None, "nowhere": REASON_LABEL}


def test_a_missing_label_cannot_be_cured_by_preemption_but_skew_can():
    handle = cluster(zoned("a1", "a"), zoned("b1", "b"), make_node("nowhere"), running("w1", "a1"))
    plugin, pod = plugin_of(handle), make_pod().labels(WEB).spread(ZONE, WEB).info()
    state, table = prepared(plugin, pod), handle.cache.table
    codes = {name: plugin.filter(state, pod, table.view(table.row_of[name])) for name in ("a1", "nowhere")}
    assert codes["a1"].code is Code.UNSCHEDULABLE
    assert codes["nowhere"].code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_the_first_constraint_that_fails_is_the_one_named():
    handle = cluster(make_node("n1").label("rack", "r1"), make_node("n2").label("rack", "r2"), running("w1", "n1"))
    pod = make_pod().labels(WEB).spread("rack", WEB).spread(ZONE, WEB)
    # No node has both labels, so none counts and the racks have no skew; the zone is what fails.
    assert verdicts(plugin_of(handle), pod.info(), handle) == {"n1": REASON_LABEL, "n2": REASON_LABEL}
    handle = cluster(zoned("n1", "a").label("rack", "r1"), zoned("n2", "b").label("rack", "r2"), running("w1", "n1"))
    handle.cache.put_node(make_node("n3").label("rack", "r1").build())
    assert verdicts(plugin_of(handle), pod.info(), handle) == {"n1": REASON_SKEW, "n2": None, "n3": REASON_SKEW}


@pytest.mark.parametrize(("min_domains", "expected"), [(None, set()), (2, set()), (3, {"a1", "a2", "b1", "b2"})])
def test_with_fewer_domains_than_min_domains_the_emptiest_counts_as_empty(min_domains, expected):
    handle = cluster(*NODES, running("w1", "a1"), running("w2", "b1"))
    more = {} if min_domains is None else {"minDomains": min_domains}
    assert rejected_in(handle, make_pod().labels(WEB).spread(ZONE, WEB, **more)) == expected


@pytest.mark.parametrize(("policy", "expected"), [("Honor", set()), ("Ignore", {"a1", "a2"})])
def test_nodes_that_node_affinity_excludes_count_only_where_the_policy_ignores_it(policy, expected):
    handle = cluster(*NODES, running("w1", "a1"))
    pod = make_pod().labels(WEB).spread(ZONE, WEB, nodeAffinityPolicy=policy)
    assert rejected_in(handle, pod.require_node(expression(ZONE, "In", "a"))) == expected
    assert rejected_in(handle, pod.node_selector({ZONE: "a"})) == expected


@pytest.mark.parametrize(("policy", "expected"), [("Honor", set()), ("Ignore", {"a1", "a2"})])
def test_tainted_nodes_count_unless_the_policy_honors_taints(policy, expected):
    tainted = (zoned("b1", "b").taint("gpu"), zoned("b2", "b").taint("gpu", effect="NoExecute"))
    handle = cluster(*NODES[:2], *tainted, running("w1", "a1"))
    pod = make_pod().labels(WEB).spread(ZONE, WEB, nodeTaintsPolicy=policy)
    assert rejected_in(handle, pod) == expected
    assert rejected_in(handle, pod.copy().tolerate("gpu")) == {"a1", "a2"}


def test_prefer_no_schedule_taints_exclude_no_node():
    handle = cluster(zoned("a1", "a"), zoned("b1", "b").taint("slow", effect="PreferNoSchedule"), running("w1", "a1"))
    assert rejected_in(handle, make_pod().labels(WEB).spread(ZONE, WEB, nodeTaintsPolicy="Honor")) == {"a1"}


def test_match_label_keys_narrow_the_selector_to_the_pods_own_values():
    handle = cluster(*NODES, running("old", "a1", app="web", hash="1"))
    pod = make_pod().labels({**WEB, "hash": "2"})
    assert rejected_in(handle, pod.copy().spread(ZONE, WEB)) == {"a1", "a2"}
    assert rejected_in(handle, pod.copy().spread(ZONE, WEB, matchLabelKeys=["hash", "absent"])) == set()


def test_match_label_keys_mean_nothing_with_the_gate_off():
    gates = {"MatchLabelKeysInPodTopologySpread": False, "MatchLabelKeysInPodTopologySpreadSelectorMerge": False}
    handle = cluster(*NODES, running("old", "a1", app="web", hash="1"), gates=gates)
    pod = make_pod().labels({**WEB, "hash": "2"}).spread(ZONE, WEB, matchLabelKeys=["hash"])
    assert rejected_in(handle, pod) == {"a1", "a2"}


@pytest.mark.parametrize("selector", [None, {"matchLabels": {}}])
def test_without_a_selector_no_pod_is_counted(selector):
    handle = cluster(*NODES, running("w1", "a1"), running("w2", "a2"))
    assert rejected_in(handle, make_pod().labels(WEB).spread(ZONE, selector)) == set()


def test_pods_without_hard_constraints_are_skipped():
    handle = cluster(*NODES)
    plugin = plugin_of(handle)
    assert prepared(plugin, make_pod().info()) == SKIPPED
    assert prepared(plugin, make_pod().spread(ZONE, WEB, when="ScheduleAnyway").info()) == SKIPPED


def test_a_selector_that_cannot_be_read_is_an_error():
    handle = cluster(*NODES)
    selector = {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["x"]}]}
    status = prepared(plugin_of(handle), make_pod("odd").spread(ZONE, selector).info())
    assert status.code is Code.ERROR
    assert "Near" in status.message


def test_a_what_if_changes_its_own_copy_only():
    handle = cluster(*NODES, running("w1", "a1"))
    plugin, pod = plugin_of(handle), make_pod().labels(WEB).spread(ZONE, WEB).info()
    state, view = prepared(plugin, pod), handle.cache.table.view(handle.cache.table.row_of["a1"])
    gone = next(iter(view.pods.values()))
    what_if = state.clone()
    plugin.remove_pod(what_if, pod, gone, view)
    assert plugin.filter(what_if, pod, view.without_pod(gone)) is None
    assert plugin.filter(state, pod, view) is not None
    plugin.add_pod(what_if, pod, gone, view)
    assert plugin.filter(what_if, pod, view) is not None


def test_pods_of_other_namespaces_and_on_nodes_that_do_not_count_change_nothing_in_a_what_if():
    handle = cluster(*NODES, make_node("nowhere"), running("w1", "a1"))
    plugin, pod = plugin_of(handle), make_pod().labels(WEB).spread(ZONE, WEB).info()
    table, state = handle.cache.table, prepared(plugin, pod)
    b1, nowhere = table.view(table.row_of["b1"]), table.view(table.row_of["nowhere"])
    plugin.add_pod(state, pod, make_pod("x", "prod").labels(WEB).info(), b1)
    plugin.add_pod(state, pod, make_pod("y").labels(WEB).info(), nowhere)
    assert plugin.filter(state, pod, table.view(table.row_of["a1"])) is not None
    plugin.add_pod(state, pod, make_pod("z").labels(WEB).info(), b1)
    assert plugin.filter(state, pod, table.view(table.row_of["a1"])) is None


def test_counts_follow_the_cluster():
    handle = cluster(*NODES)
    plugin, pod = plugin_of(handle), make_pod().labels(WEB).spread(ZONE, WEB).info()
    cache = handle.cache
    assert rejected(plugin, pod, handle) == set()
    cache.add_pod(running("w1", "a1").info())
    assert rejected(plugin, pod, handle) == {"a1", "a2"}
    cache.put_node(zoned("a1", "b").build())
    assert rejected(plugin, pod, handle) == {"a1", "b1", "b2"}
    cache.put_node(zoned("c1", "c").build())
    cache.add_pod(running("w2", "a2").info())
    assert rejected(plugin, pod, handle) == {"a1", "a2", "b1", "b2"}
    cache.remove_node("c1")
    assert rejected(plugin, pod, handle) == set()


def test_equal_demands_have_equal_signatures():
    handle = cluster(*NODES)
    plugin = plugin_of(handle)
    pods = [make_pod(name).labels(WEB).spread(ZONE, WEB).info() for name in ("p", "q")]
    assert plugin.signature(pods[0]) == plugin.signature(pods[1])
    assert hash(plugin.signature(pods[0])) == hash(plugin.signature(pods[1]))
    assert plugin.signature(pods[0]) != plugin.signature(make_pod().labels(WEB).spread(HOST, WEB).info())
    assert plugin.signature(pods[0]) != plugin.signature(make_pod().spread(ZONE, WEB).info())


def expected_rejections(nodes, pods, skews):
    """What the documentation says, worked out naively for a pod labelled app=web: node → rejected."""
    keys = list(skews)
    counting = {n: labels for n, labels in nodes.items() if all(key in labels for key in keys)}
    found = {}
    for name, labels in nodes.items():
        found[name] = False
        for key, skew in skews.items():
            if key not in labels:
                found[name] = True
                break
            domains = {other[key]: 0 for other in counting.values()}
            for node, app in pods:
                if node in counting and app == "web":
                    domains[counting[node][key]] += 1
            if domains.get(labels[key], 0) + 1 - min(domains.values(), default=0) > skew:
                found[name] = True
                break
    return {name for name, is_rejected in found.items() if is_rejected}


LABELS = st.fixed_dictionaries({}, optional={"zone": st.sampled_from("abc"), "rack": st.sampled_from("xyz")})
SKEWS = st.dictionaries(st.sampled_from(["zone", "rack"]), st.integers(1, 3), min_size=1)


@settings(max_examples=examples(80), deadline=None)
@given(st.data())
def test_both_forms_say_what_the_documentation_says(data):
    labels = data.draw(st.lists(LABELS, min_size=1, max_size=7))
    nodes = {f"n{i}": found for i, found in enumerate(labels)}
    placed = data.draw(st.lists(st.tuples(st.sampled_from(sorted(nodes)), st.sampled_from(["web", "db"])), max_size=9))
    skews = data.draw(SKEWS)
    handle = cluster(
        *(make_node(name).labels(found) for name, found in nodes.items()),
        *(make_pod(f"p{i}").label("app", app).node(node) for i, (node, app) in enumerate(placed)),
    )
    pod = make_pod().labels(WEB)
    for key, skew in skews.items():
        pod.spread(key, WEB, max_skew=skew)
    assert rejected_in(handle, pod) == expected_rejections(nodes, placed, skews)


def test_the_state_is_written_for_this_cycle_only():
    handle = cluster(*NODES)
    plugin = plugin_of(handle)
    # getPreFilterState in podtopologyspread/filtering.go.
    said = error('reading "PreFilterPodTopologySpread" from cycleState: not found')
    assert plugin.filter(CycleState(), make_pod().info(), handle.cache.table.view(0)) == said
