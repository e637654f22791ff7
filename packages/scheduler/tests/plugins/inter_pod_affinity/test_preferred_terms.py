"""Preferred pod affinity and anti-affinity, and what running pods' terms add."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.config.errors import ConfigError
from berth.config.plugin_args import decode_plugin_args
from berth.core.builders import make_node, make_pod
from berth.plugins.inter_pod_affinity import InterPodAffinity, InterPodAffinityArgs
from berth.plugins.inter_pod_affinity.preferred_terms import normalized
from packages.scheduler.tests.plugins.topology_support import HOST, SKIPPED, ZONE, cluster, normal_scores, scores, zoned
from tests.effort import examples

WEB, DB = {"app": "web"}, {"app": "db"}
NODES = (zoned("a1", "a"), zoned("a2", "a"), zoned("b1", "b"), zoned("c1", "c"))


def running(name, node, labels=WEB):
    return make_pod(name).labels(labels).node(node)


def raw_scores(handle, pod, **args):
    plugin = InterPodAffinity(InterPodAffinityArgs(**args), handle)
    found = scores(plugin, pod.info(), handle)
    return found if found == SKIPPED else {name: raw for name, (raw, _) in found.items() if raw}


def test_preferred_terms_add_and_subtract_their_weight_for_each_matching_pod():
    handle = cluster(*NODES, running("w1", "a1"), running("w2", "a2"), running("d", "b1", DB))
    pod = make_pod().prefer_pod_affinity(5, ZONE, WEB).prefer_pod_anti_affinity(2, HOST, DB)
    assert raw_scores(handle, pod) == {"a1": 10, "a2": 10, "b1": -2}


def test_running_pods_preferences_count_the_other_way_round():
    handle = cluster(
        *NODES,
        running("w1", "a1", {}).prefer_pod_affinity(7, ZONE, WEB),
        running("w2", "b1", {}).prefer_pod_anti_affinity(3, ZONE, WEB),
    )
    assert raw_scores(handle, make_pod().labels(WEB)) == {"a1": 7, "a2": 7, "b1": -3}
    assert raw_scores(handle, make_pod().labels(DB)) == SKIPPED


@pytest.mark.parametrize(("weight", "expected"), [(1, {"a1": 1, "a2": 1}), (50, {"a1": 50, "a2": 50}), (0, SKIPPED)])
def test_running_pods_required_affinity_counts_with_the_hard_weight(weight, expected):
    handle = cluster(*NODES, running("w", "a1", {}).pod_affinity(ZONE, WEB))
    assert raw_scores(handle, make_pod().labels(WEB), hard_pod_affinity_weight=weight) == expected


def test_running_pods_terms_can_be_ignored_for_pods_without_preferences():
    handle = cluster(*NODES, running("w", "a1", DB).prefer_pod_affinity(7, ZONE, WEB))
    ignoring = {"ignore_preferred_terms_of_existing_pods": True}
    assert raw_scores(handle, make_pod().labels(WEB), **ignoring) == SKIPPED
    assert raw_scores(handle, make_pod().labels(WEB).pod_affinity(ZONE, DB), **ignoring) == SKIPPED
    with_own = make_pod().labels(WEB).prefer_pod_affinity(1, ZONE, DB)
    assert raw_scores(handle, with_own, **ignoring) == {"a1": 8, "a2": 8}


def test_pods_are_skipped_where_no_term_finds_a_domain():
    handle = cluster(*NODES, make_node("nowhere"), running("w", "nowhere"))
    assert raw_scores(handle, make_pod()) == SKIPPED
    assert raw_scores(handle, make_pod().prefer_pod_affinity(1, ZONE, WEB)) == SKIPPED


def test_pods_on_nodes_without_the_key_give_those_nodes_nothing():
    handle = cluster(*NODES, make_node("nowhere"), running("w1", "nowhere"), running("w2", "b1"))
    assert raw_scores(handle, make_pod().prefer_pod_affinity(5, ZONE, WEB)) == {"b1": 5}


def test_weights_that_cancel_out_are_not_skipped():
    handle = cluster(*NODES, running("w", "a1"))
    pod = make_pod().prefer_pod_affinity(5, ZONE, WEB).prefer_pod_anti_affinity(5, ZONE, WEB)
    assert raw_scores(handle, pod) == {}


def test_terms_about_other_namespaces_count_there_only():
    handle = cluster(*NODES, make_pod("w", "prod").labels(WEB).node("a1"))
    assert raw_scores(handle, make_pod().prefer_pod_affinity(5, ZONE, WEB)) == SKIPPED
    pod = make_pod().prefer_pod_affinity(5, ZONE, WEB, namespaces=["prod"])
    assert raw_scores(handle, pod) == {"a1": 5, "a2": 5}


def test_the_best_gets_100_and_the_worst_0():
    handle = cluster(*NODES, running("w1", "a1"), running("w2", "a2"), running("w3", "b1"))
    plugin = InterPodAffinity(InterPodAffinityArgs(), handle)
    pod = make_pod().prefer_pod_affinity(1, ZONE, WEB).info()
    assert normal_scores(plugin, pod, handle) == {"a1": 100, "a2": 100, "b1": 50, "c1": 0}
    assert normal_scores(plugin, pod, handle, {"b1", "a1"}) == {"a1": 100, "b1": 0}
    assert normal_scores(plugin, pod, handle, {"a1", "a2"}) == {"a1": 0, "a2": 0}
    avoiding = make_pod().prefer_pod_anti_affinity(1, ZONE, WEB).info()
    assert normal_scores(plugin, avoiding, handle) == {"a1": 0, "a2": 0, "b1": 50, "c1": 100}


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.integers(-3000, 3000), min_size=1, max_size=30))
def test_normalising_scales_to_the_range_and_truncates(raw):
    least, most = min(raw), max(raw)
    expected = [0 if least == most else int(100.0 * ((score - least) / (most - least))) for score in raw]
    assert normalized(np.array(raw, dtype=np.int64)).tolist() == expected


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_scores_are_the_sum_over_pods_and_terms(data):
    keys, weights = st.sampled_from([ZONE, HOST]), st.integers(1, 100)
    terms = st.lists(st.tuples(st.sampled_from([1, -1]), weights, keys), max_size=2)
    zones = data.draw(st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=5))
    names = [f"n{i}" for i in range(len(zones))]
    placed = data.draw(st.lists(st.tuples(st.sampled_from(names), terms), max_size=5))
    own = data.draw(terms)
    place = dict(zip(names, zones, strict=True))

    def preferring(builder, of):
        for sign, weight, key in of:
            add = builder.prefer_pod_affinity if sign > 0 else builder.prefer_pod_anti_affinity
            add(weight, key, WEB)
        return builder

    handle = cluster(
        *(zoned(name, zone) for name, zone in place.items()),
        *(preferring(running(f"w{i}", node), theirs) for i, (node, theirs) in enumerate(placed)),
    )
    expected = {
        name: sum(
            sign * weight
            for other, theirs in placed
            for sign, weight, key in (*own, *theirs)
            if (place[other] == place[name] if key == ZONE else other == name)
        )
        for name in names
    }
    found = raw_scores(handle, preferring(make_pod().labels(WEB), own))
    if found == SKIPPED:
        assert not placed or not (own or any(theirs for _, theirs in placed))
    else:
        assert found == {name: score for name, score in expected.items() if score}


@pytest.mark.parametrize("weight", [-1, 101])
def test_a_hard_weight_out_of_range_is_refused(weight):
    with pytest.raises(ConfigError, match=r"args.hardPodAffinityWeight: Invalid value: -?\d+: not in valid range"):
        decode_plugin_args("InterPodAffinity", {"hardPodAffinityWeight": weight}, InterPodAffinityArgs, "args")


def test_args_have_the_documented_defaults():
    found = decode_plugin_args("InterPodAffinity", None, InterPodAffinityArgs, "args")
    assert (found.hard_pod_affinity_weight, found.ignore_preferred_terms_of_existing_pods) == (1, False)
