"""Decisions that are found zone by zone are those that are found node by node.

Expectations come from a second core of the same life and the same lots that remembers nothing, and so asks every plugin
about every node for each pod. Nodes come, go, move between zones and lose their zone; the pods spread by zone, seek
their own kind in a zone, shun it or prefer it, alone and together.
"""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.engine.sums import InDomains
from tests.effort import examples

ZONE = "topology.kubernetes.io/zone"
NODES = [f"n{index}" for index in range(14)]
SHAPES = ("plain", "near", "apart", "even", "evenly", "nearer", "both", "narrow", "crammed")


def node(rng, name):
    made = make_node(name).capacity(cpu=rng.choice("48"), memory="8Gi", pods="20")
    return made if rng.random() < 0.04 else made.zone(rng.choice("abc"))


def pod(name, shape):
    made = make_pod(name).label("app", shape).request(cpu="300m", memory="100Mi")
    own = {"app": shape}
    if shape in ("near", "crammed"):
        made.pod_affinity(ZONE, {"app": "near"})
    elif shape == "apart":
        made.pod_anti_affinity(ZONE, {"app": "near"})
    if shape in ("even", "narrow", "crammed"):
        made.spread(ZONE, own, max_skew=3 if shape == "even" else 1)
    if shape in ("evenly", "both"):
        made.spread(ZONE, own, max_skew=1, when="ScheduleAnyway")
    if shape in ("nearer", "both", "narrow"):
        made.prefer_pod_affinity(10, ZONE, {"app": "near"})
    return made


def happen(rng, clusters, index, shapes):
    """Let something happen to all of them; what is drawn is drawn once."""
    what, name = rng.randrange(12), rng.choice(NODES)
    if what == 0:
        moved = node(rng, name)
        for cluster in clusters:
            cluster.put(moved)
    elif what == 1:
        for cluster in clusters:
            if ("Node", name) in cluster.objects and len(cluster.core.cache.table) > 4:
                cluster.delete("Node", name)
    elif what == 2:
        bound = sorted(clusters[0].nodes_of())
        gone = rng.choice(bound) if bound else None
        for cluster in clusters:
            if gone is not None:
                cluster.delete("Pod", f"default/{gone}")
    else:
        shape = rng.choice(shapes)
        for cluster in clusters:
            cluster.put(pod(f"p{index}", shape))
    for cluster in clusters:
        cluster.run()


@settings(deadline=None, max_examples=examples(20))
@given(seed=st.integers(0, 2**32))
def test_what_is_found_by_zone_is_what_is_found_by_node(seed):
    rng = random.Random(seed)
    clusters = [VirtualCluster(memos=memos, seed=seed) for memos in (True, False)]
    for name in NODES:
        made = node(rng, name)
        for cluster in clusters:
            cluster.put(made)
    shapes = ("near", *rng.sample(SHAPES, 2))  # few, so that there is always something kept of them
    for index in range(60):
        happen(rng, clusters, index, shapes)
        kept, afresh = clusters
        assert kept.nodes_of() == afresh.nodes_of()
    for key, decision in kept.core.trace.items():
        other = afresh.core.trace[key]
        assert decision.message == other.message
        assert decision.feasible.tolist() == other.feasible.tolist()
        assert np.array_equal(decision.total, other.total) if decision.total is not None else other.total is None
        scored = [
            (each.plugin, np.broadcast_to(each.weighted, len(decision.feasible)).tolist()) for each in decision.scores
        ]
        assert scored == [
            (each.plugin, np.broadcast_to(each.weighted, len(other.feasible)).tolist()) for each in other.scores
        ]


@pytest.mark.parametrize("shape", ["near", "evenly", "nearer", "both", "narrow"])
def test_replicas_in_zones_are_scored_zone_by_zone(shape, monkeypatch):
    found = []
    by_zone = InDomains.best_rows
    monkeypatch.setattr(InDomains, "best_rows", lambda self: found.append(self) or by_zone(self))
    cluster = VirtualCluster()
    for index in range(9):
        cluster.put(make_node(f"n{index}").capacity(cpu="8", memory="8Gi", pods="20").zone("abc"[index % 3]))
    cluster.put(pod("other", "near"))
    for index in range(8):
        cluster.put(pod(f"p{index}", shape))
    cluster.run()
    assert len(cluster.nodes_of()) == 9
    assert len(found) >= 4, "after the first ones, whose columns are not kept yet"


@pytest.mark.parametrize("seed", range(6))
def test_domains_that_two_filters_rule_out_stay_ruled_out(seed):
    """Affinity leaves zones a and b, spreading rules out the fuller of them, and c is empty all the while."""
    cluster = VirtualCluster(seed=seed)
    for index in range(9):
        cluster.put(make_node(f"n{index}").capacity(cpu="8", memory="8Gi", pods="20").zone("abc"[index % 3]))
    for name in ("n0", "n1"):
        cluster.put(pod(f"on-{name}", "near").node(name))
    for index in range(4):
        cramped = make_pod(f"p{index}").label("app", "c").request(cpu="300m", memory="100Mi")
        cluster.put(cramped.pod_affinity(ZONE, {"app": "near"}).spread(ZONE, {"app": "c"}, max_skew=2))
        cluster.run()
    zones = ["abc"[int(cluster.nodes_of()[f"p{index}"][1:]) % 3] for index in range(4)]
    assert sorted(zones) == ["a", "a", "b", "b"]


def test_a_node_that_moves_to_another_zone_is_ranked_there():
    """Without ImageLocality, which looks at all nodes and so has everything worked out anew when one changes."""
    plugins = {"score": {"disabled": [{"name": "ImageLocality"}]}}
    profile = {"schedulerName": "default-scheduler", "plugins": plugins}
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    cluster = VirtualCluster(config={**config, "profiles": [profile]})
    sizes = {"n0": ("8", "a"), "n1": ("8", "b"), "n2": ("32", "b"), "n3": ("64", "a")}
    for name, (cpu, zone) in sizes.items():
        cluster.put(make_node(name).capacity(cpu=cpu, memory="64Gi", pods="50").zone(zone))
    for index in range(4):
        cluster.put(pod(f"p{index}", "evenly"))
        cluster.run()
    assert set(cluster.nodes_of().values()) == {"n2", "n3"}, "the emptier one of each zone"
    cluster.put(make_node("n3").capacity(cpu="64", memory="64Gi", pods="50").zone("b"))
    cluster.put(pod("late", "evenly"))
    cluster.run()
    assert cluster.nodes_of()["late"] == "n0", "nothing runs in zone a now, of which it is the only node"
