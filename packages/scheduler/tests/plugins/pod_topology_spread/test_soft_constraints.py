"""ScheduleAnyway constraints: raw scores and normalising, worked out by hand from the documented formula.

A node's raw score is, summed over constraints, `pods * log(domains + 2) + maxSkew - 1`, rounded; the normal one is
`100 * (max + min - raw) / max`, truncated.
"""

from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.core.builders import expression, make_node, make_pod, make_service
from berth.plugins.pod_topology_spread import PodTopologySpread, PodTopologySpreadArgs
from berth.plugins.pod_topology_spread.args import DefaultConstraint
from berth.plugins.pod_topology_spread.soft_constraints import normalized
from packages.scheduler.tests.plugins.topology_support import HOST, SKIPPED, ZONE, cluster, normal_scores, scores, zoned
from tests.effort import examples

WEB = {"app": "web"}
SOFT = {"when": "ScheduleAnyway"}
NODES = (zoned("a1", "a"), zoned("a2", "a"), zoned("b1", "b"))


def running(name, node):
    return make_pod(name).labels(WEB).node(node)


def plugin_of(handle, *defaults):
    args = PodTopologySpreadArgs(defaults, "List") if defaults else PodTopologySpreadArgs()
    return PodTopologySpread(args, handle)


def test_zones_with_fewer_matching_pods_score_higher():
    handle = cluster(*NODES, running("w1", "a1"), running("w2", "a1"), running("w3", "b1"))
    pod = make_pod().labels(WEB).spread(ZONE, WEB, **SOFT).info()
    # Two zones: a pod weighs log 4. Zone a: round(2 log 4) = 3, zone b: round(log 4) = 1.
    expected = {"a1": (3, 33), "a2": (3, 33), "b1": (1, 100)}
    assert scores(plugin_of(handle), pod, handle) == expected


def test_max_skew_less_one_is_added_and_dampens_differences():
    handle = cluster(*NODES, running("w1", "a1"), running("w2", "a1"), running("w3", "b1"))
    pod = make_pod().labels(WEB).spread(ZONE, WEB, max_skew=5, **SOFT).info()
    # 3 + 4 and 1 + 4 (2.77 + 4 rounds to 7, 1.39 + 4 to 5).
    assert scores(plugin_of(handle), pod, handle) == {"a1": (7, 71), "a2": (7, 71), "b1": (5, 100)}


def test_only_domains_of_feasible_nodes_are_counted_but_pods_of_all_nodes():
    handle = cluster(*NODES, running("w1", "a1"), running("w2", "b1"))
    pod = make_pod().labels(WEB).spread(ZONE, WEB, **SOFT).info()
    # One zone is left: a pod weighs log 3, and the one on a1 counts for a2.
    assert scores(plugin_of(handle), pod, handle, feasible={"a2"}) == {"a2": (round(log(3)), 100)}


def test_hosts_count_their_own_pods():
    handle = cluster(*NODES, running("w1", "a1"), running("w2", "a1"), running("w3", "b1"))
    pod = make_pod().labels(WEB).spread(HOST, WEB, **SOFT).info()
    # Three hosts: a pod weighs log 5.
    expected = {"a1": round(2 * log(5)), "a2": 0, "b1": round(log(5))}
    assert {name: raw for name, (raw, _) in scores(plugin_of(handle), pod, handle).items()} == expected


def test_nodes_that_lack_a_label_get_nothing_and_do_not_set_the_scale():
    handle = cluster(*NODES, make_node("nowhere"), running("w1", "a1"))
    pod = make_pod().labels(WEB).spread(ZONE, WEB, **SOFT).info()
    assert normal_scores(plugin_of(handle), pod, handle) == {"a1": 0, "a2": 0, "b1": 100, "nowhere": 0}


def test_domains_of_nodes_that_lack_another_label_are_not_counted():
    """plugins/podtopologyspread/scoring.go, initPreScoreState: ignored nodes set up no domain."""
    nodes = (make_node("a").zone("a").label("rack", "r1"), make_node("b").zone("b").label("rack", "r2"))
    handle = cluster(*nodes, make_node("c").zone("c"), running("w1", "a"))
    pod = make_pod().labels(WEB).spread(ZONE, WEB, **SOFT).spread("rack", {"app": "db"}, **SOFT).info()
    # Every node has a zone, but two zones count: log 4 rounds to 1, where log 5 would round to 2.
    assert scores(plugin_of(handle), pod, handle) == {"a": (1, 0), "b": (0, 100), "c": (0, 0)}


def test_all_nodes_are_alike_where_nothing_matches():
    handle = cluster(*NODES)
    pod = make_pod().labels(WEB).spread(ZONE, WEB, **SOFT).info()
    assert set(normal_scores(plugin_of(handle), pod, handle).values()) == {100}


@pytest.mark.parametrize(
    ("policy", "expected"), [("Honor", {"a1": 100, "a2": 100}), ("Ignore", {"a1": 100, "a2": 100})]
)
def test_pods_on_nodes_that_do_not_count_are_left_out(policy, expected):
    handle = cluster(*NODES, make_node("a3").zone("a").taint("gpu"), running("w1", "a3"), running("w2", "a3"))
    pod = make_pod().labels(WEB).spread(ZONE, WEB, nodeTaintsPolicy=policy, **SOFT).info()
    raw = {name: found for name, (found, _) in scores(plugin_of(handle), pod, handle, {"a1", "a2"}).items()}
    assert raw == dict.fromkeys(("a1", "a2"), 0 if policy == "Honor" else round(2 * log(3)))
    assert normal_scores(plugin_of(handle), pod, handle, {"a1", "a2"}) == expected


def test_node_affinity_limits_what_is_counted():
    handle = cluster(zoned("a1", "a").label("disk", "ssd"), zoned("a2", "a"), zoned("b1", "b"), running("w1", "a2"))
    pod = make_pod().labels(WEB).spread(ZONE, WEB, **SOFT)
    assert scores(plugin_of(handle), pod.info(), handle, {"a1"}) == {"a1": (round(log(3)), 100)}
    pod = pod.require_node(expression("disk", "In", "ssd"))
    assert scores(plugin_of(handle), pod.info(), handle, {"a1"}) == {"a1": (0, 100)}


def test_pods_without_soft_constraints_are_skipped():
    handle = cluster(*NODES)
    assert scores(plugin_of(handle), make_pod().info(), handle) == SKIPPED
    assert scores(plugin_of(handle), make_pod().labels(WEB).spread(ZONE, WEB).info(), handle) == SKIPPED


def test_system_defaults_spread_the_pods_of_a_service_and_take_nodes_without_a_zone():
    handle = cluster(*NODES, make_node("nowhere"), make_service("web", WEB), running("w1", "a1"))
    found = scores(plugin_of(handle), make_pod().labels(WEB).info(), handle)
    host, zone = log(4 + 2), log(3 + 2)  # four hosts; zones a, b and none
    expected = {
        "a1": host + 2 + zone + 4,
        "a2": 2 + zone + 4,
        "b1": 2 + 4,
        "nowhere": 2,
    }
    assert {name: raw for name, (raw, _) in found.items()} == {n: round(score) for n, score in expected.items()}


def test_system_defaults_spread_by_host_alone_where_no_node_has_a_zone():
    handle = cluster(make_node("n1"), make_node("n2"), make_service("web", WEB), running("w1", "n1"))
    found = scores(plugin_of(handle), make_pod().labels(WEB).info(), handle)
    assert {name: raw for name, (raw, _) in found.items()} == {"n1": round(log(2 + 2) + 2), "n2": 2}


def test_listed_defaults_need_every_label():
    handle = cluster(*NODES, make_node("nowhere"), make_service("web", WEB), running("w1", "a1"))
    default = DefaultConstraint(max_skew=1, topology_key=ZONE, when_unsatisfiable="ScheduleAnyway")
    found = normal_scores(plugin_of(handle, default), make_pod().labels(WEB).info(), handle)
    assert found == {"a1": 0, "a2": 0, "b1": 100, "nowhere": 0}


def test_own_constraints_leave_the_defaults_out():
    handle = cluster(*NODES, make_service("web", WEB), running("w1", "a1"))
    assert scores(plugin_of(handle), make_pod().labels(WEB).spread(ZONE, WEB).info(), handle) == SKIPPED


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.integers(0, 5000), min_size=1, max_size=40), st.data())
def test_normalising_divides_as_integers_do(raw, data):
    ignored = data.draw(st.lists(st.booleans(), min_size=len(raw), max_size=len(raw)))
    counted = [score for score, is_ignored in zip(raw, ignored, strict=True) if not is_ignored]
    found = normalized(np.array(raw, dtype=np.int64), np.array(ignored) if any(ignored) else None).tolist()
    most, least = max(counted, default=0), min(counted, default=0)
    expected = [
        0 if is_ignored else 100 if most == 0 else 100 * (most + least - score) // most
        for score, is_ignored in zip(raw, ignored, strict=True)
    ]
    assert found == expected


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_both_forms_agree_on_random_clusters(data):
    zones = data.draw(st.lists(st.sampled_from(["a", "b", None]), min_size=1, max_size=6))
    nodes = [make_node(f"n{i}") if zone is None else zoned(f"n{i}", zone) for i, zone in enumerate(zones)]
    places = data.draw(st.lists(st.integers(0, len(zones) - 1), max_size=8))
    handle = cluster(*nodes, *(running(f"w{i}", f"n{place}") for i, place in enumerate(places)))
    pod = make_pod().labels(WEB)
    for key in data.draw(st.lists(st.sampled_from([ZONE, HOST]), min_size=1, unique=True)):
        pod.spread(key, WEB, max_skew=data.draw(st.integers(1, 4)), **SOFT)
    feasible = {f"n{i}" for i in data.draw(st.sets(st.integers(0, len(zones) - 1), min_size=1))}
    found = scores(plugin_of(handle), pod.info(), handle, feasible)
    assert all(0 <= normal <= 100 for _, normal in found.values())
