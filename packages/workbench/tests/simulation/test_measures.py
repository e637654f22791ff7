"""The measures, on clusters small enough to work them out by hand."""

import math

import numpy as np
import pytest

from berth.api.pools import pool_of
from berth.core.builders import make_node, make_pod
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.measures import (
    HIGHER,
    LOWER,
    NEITHER,
    better,
    dominant_shares,
    evenness,
    figures,
    fragmentation,
    jain_index,
    measure,
    usual_requests,
    waiting_times,
)
from berth_workbench.simulation.prices import PriceError, Prices


def node(name, cpu="4", memory="8Gi", zone="", **labels):
    built = make_node(name).capacity(cpu=cpu, memory=memory, pods="10").labels(labels)
    return (built.zone(zone) if zone else built).build()


def pod(name, on="", owner=None, namespace="default", **requests):
    built = make_pod(name, namespace=namespace).request(**requests).node(on)
    return (built.owned_by(*owner, uid="/".join(owner)) if owner else built).build()


def measured(*objects, **more):
    return measure(SimulatedCluster(objects), **more)


def test_utilisation_is_what_is_requested_of_what_is_there_by_zone_and_by_pool():
    found = measured(
        node("a", zone="z1", pool="x"),
        node("b", zone="z2", pool="x"),
        node("c", cpu="8", zone="z2", pool="y"),
        pod("p", "a", cpu="2", memory="1Gi"),
        pod("q", "c", cpu="2", memory="2Gi"),
    )
    assert found.utilisation == {"cpu": 4 / 16, "memory": 3 / 24, "pods": 2 / 30}
    assert found.utilisation_by_zone["z1"] == {"cpu": 2 / 4, "memory": 1 / 8, "pods": 1 / 10}
    assert found.utilisation_by_zone["z2"] == {"cpu": 2 / 12, "memory": 2 / 16, "pods": 1 / 20}
    assert found.utilisation_by_pool == {
        "x": {"cpu": 2 / 8, "memory": 1 / 16, "pods": 1 / 20},
        "y": {"cpu": 2 / 8, "memory": 2 / 8, "pods": 1 / 10},
    }
    assert found.packing == {"cpu": 4 / 12, "memory": 3 / 16, "pods": 2 / 20}
    assert (found.nodes, found.nodes_used, found.pods, found.pending) == (3, 2, 2, 0)


def test_pods_that_follow_their_node_do_not_use_it():
    daemon, mirror = ("DaemonSet", "agent"), ("Node", "b")
    found = measured(node("a"), node("b"), pod("d", "a", daemon, cpu="1"), pod("m", "b", mirror, cpu="1"))
    assert (found.nodes_used, found.pods, found.utilisation["cpu"], found.packing) == (0, 2, 2 / 8, {})
    assert found.fragmentation == {}


def test_free_capacity_that_the_usual_pods_cannot_use_is_fragmented():
    # Free: a 1 CPU and 6 Gi, b 3 CPU and 0 Gi, c 4 CPU and 8 Gi.
    cluster = SimulatedCluster(
        [
            node("a"),
            node("b"),
            node("c"),
            pod("p", "a", cpu="3", memory="2Gi"),
            pod("q", "b", cpu="1", memory="8Gi"),
        ]
    )
    table = cluster.core.cache.table
    one_gi = {"memory": 2**30}
    small = tuple(sorted({"cpu": 1000, **one_gi}.items()))
    large = tuple(sorted({"cpu": 2000, **one_gi}.items()))
    # The small one can use a and c; the 3 CPU of b are stranded for want of memory.
    assert fragmentation(table, {small: 1}) == {"cpu": 3 / 8, "memory": 0.0}
    # The large one can use c only.
    assert fragmentation(table, {large: 1}) == {"cpu": 4 / 8, "memory": 6 / 14}
    assert fragmentation(table, {small: 3, large: 1})["cpu"] == pytest.approx((3 * 3 / 8 + 4 / 8) / 4)
    # Who does not ask for memory says nothing of it, and asking for what nobody has leaves nothing usable.
    assert fragmentation(table, {(("cpu", 500),): 5, small: 1}) == {"cpu": 3 / 8 / 6, "memory": 0.0}
    assert fragmentation(table, {(("cpu", 500), ("gpu", 1)): 1}) == {"cpu": 1.0}
    assert usual_requests(table) == {
        (("cpu", 1000), ("memory", 8 * 2**30)): 1,
        (("cpu", 3000), ("memory", 2 * 2**30)): 1,
    }


def test_a_cordoned_or_full_node_has_nothing_free():
    cordoned = make_node("a").capacity(cpu="4", memory="8Gi", pods="10").unschedulable().build()
    full = make_node("b").capacity(cpu="4", memory="8Gi", pods="1").build()
    found = measured(cordoned, full, pod("p", "b", cpu="1"))
    assert found.fragmentation == {"cpu": 1.0}
    assert measured(cordoned, pod("p", "a", cpu="1")).fragmentation == {}


def test_the_same_may_be_asked_about_some_of_the_nodes():
    cluster = SimulatedCluster([node("a"), node("b"), pod("p", "a", cpu="3")])
    table = cluster.core.cache.table
    requests = usual_requests(table)
    for names, expected in ((("a",), 1.0), (("b",), 0.0), (("a", "b"), 1 / 5)):
        rows = np.array([table.row_of[name] for name in names], dtype=np.intp)
        assert fragmentation(table, requests, rows) == {"cpu": expected}


def test_what_pending_pods_ask_for_counts_too():
    found = measured(node("a"), pod("p", "a", cpu="1"), pod("big", cpu="9"))
    assert found.fragmentation == {"cpu": (1 * 0 + 1 * 1) / 2}
    assert found.pending == 1


def test_spread_is_skew_and_evenness_of_each_workload():
    zones = [node(f"n{i}", zone="abc"[i % 3]) for i in range(6)]
    rs, even = ("ReplicaSet", "web"), ("ReplicaSet", "db")
    # web: 3 in a (two of them on n0), 1 in b. db: one in each zone.
    where = ["n0", "n0", "n3", "n1"]
    pods = [pod(f"w{i}", name, rs, cpu="100m") for i, name in enumerate(where)]
    pods += [pod(f"d{i}", f"n{i}", even, cpu="100m") for i in range(3)]
    pods += [pod("lone", "n0", ("ReplicaSet", "lone"), cpu="100m"), pod("bare", "n0", cpu="100m")]
    found = measured(*zones, *pods).spread
    zone, by_node = found["zone"], found["node"]
    assert (zone.workloads, zone.max_skew, zone.mean_skew) == (2, 3, 1.5)
    entropy = -(3 / 4 * math.log(3 / 4) + 1 / 4 * math.log(1 / 4))
    best = -(2 / 4 * math.log(2 / 4) + 2 * (1 / 4) * math.log(1 / 4))
    assert zone.evenness == pytest.approx((entropy / best + 1) / 2)
    assert (zone.worst, by_node.worst) == ("default/ReplicaSet/web", "default/ReplicaSet/web")
    assert (by_node.max_skew, by_node.mean_skew) == (2, 1.5)
    assert evenness([4], 3) == 0.0
    assert evenness([2, 2, 1], 3) == pytest.approx(1.0)
    assert measured(node("a", zone="z"), *pods[:2]).spread == {}


def test_cost_counts_used_nodes_by_name_type_or_default():
    big = node("a", **{"node.kubernetes.io/instance-type": "big"})
    nodes = [big, node("b"), node("c"), node("empty")]
    pods = [pod(f"p{i}", on, cpu="1") for i, on in enumerate("abc")]
    prices = Prices.of_document({"types": {"big": 3.5}, "nodes": {"b": 1}})
    found = measured(*nodes, *pods, prices=prices)
    assert (found.cost, found.unpriced_nodes) == (4.5, 1)
    assert measured(*nodes, *pods, prices=Prices.of_document({"big": 3.5, "b": 1, "empty": 100})).cost == 4.5
    assert measured(*nodes, *pods, prices=Prices(default=2.0)).cost == 6.0
    assert measured(*nodes, *pods).cost is None


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([1], "must be a mapping"),
        ({"big": "much"}, "Expected `float`, got `str`"),
        ({"types": {"big": -1}}, "big costs -1"),
        ({"types": {}, "kinds": {}}, "'kinds' is not known beside nodes, types, label, default"),
    ],
)
def test_prices_that_cannot_be_used(document, problem):
    with pytest.raises(PriceError, match=problem):
        Prices.of_document(document)


def test_fairness_is_jains_index_of_dominant_shares():
    cluster = SimulatedCluster(
        [
            node("a", cpu="10", memory="10Gi"),
            pod("p", "a", namespace="x", cpu="4", memory="1Gi"),
            pod("q", "a", namespace="y", cpu="1", memory="2Gi"),
            pod("r", "a", namespace="y", cpu="0", memory="2Gi"),
            pod("s", "a", namespace="also-idle", cpu="0"),
        ]
    )
    waiting = [
        cluster.core.intake.info(pod(name, namespace=name, cpu=cpu)) for name, cpu in (("z", "1"), ("idle", "0"))
    ]
    shares = dominant_shares(cluster.core.cache.table, waiting)
    assert shares == {"x": 0.4, "y": 0.4, "z": 0.0}
    assert jain_index(shares.values()) == pytest.approx(0.8**2 / (3 * 2 * 0.4**2))
    assert jain_index([3, 3, 3]) == pytest.approx(1.0)
    assert jain_index([5, 0, 0, 0]) == pytest.approx(0.25)
    assert (jain_index([]), jain_index([0, 0])) == (None, 1.0)


def test_waiting_times_are_percentiles_by_rank():
    found = waiting_times([float(second) for second in range(100, 0, -1)])
    assert (found.count, found.mean, found.p50, found.p90, found.p99, found.max) == (100, 50.5, 50, 90, 99, 100)
    one = waiting_times([7.0])
    assert (one.p50, one.p99, one.max) == (7, 7, 7)
    assert waiting_times([]) is None


def test_preempted_pods_are_counted():
    low, high = (make_pod(name).request(cpu="4").priority(p) for name, p in (("low", 0), ("high", 9)))
    cluster = SimulatedCluster([node("a"), low.node("a").build(), high.build()])
    cluster.settle()
    assert measure(cluster).preemptions == 1


def test_figures_are_flat_and_know_which_way_is_better():
    cluster = SimulatedCluster([node("a", zone="x"), node("b", zone="y"), *(pod(f"p{i}", cpu="3") for i in range(3))])
    cluster.settle()
    found = figures(measure(cluster, prices=Prices(default=1.0), waited_s=[1.0, 3.0]))
    assert found["utilisation.cpu"] == 6 / 8
    assert (found["pods"], found["pending"], found["cost"], found["waiting.max"]) == (2, 1, 2.0, 3.0)
    ways = {name: better(name) for name in found}
    assert {name for name, way in ways.items() if way == NEITHER} == {"nodes"}
    assert {name for name in ways if name.split(".")[0] in ("utilisation", "packing", "pods", "fairness")} == {
        name for name, way in ways.items() if way == HIGHER
    }
    assert better("spread.zone.maxSkew") == LOWER
    assert better("spread.zone.evenness") == HIGHER


def test_the_pool_of_a_node():
    labels = {"node.kubernetes.io/instance-type": "m5", "eks.amazonaws.com/nodegroup": "g", "team": "t"}
    assert (pool_of(labels), pool_of(labels, "team"), pool_of({})) == ("g", "t", "")
    assert pool_of({"node.kubernetes.io/instance-type": "m5"}) == "m5"
