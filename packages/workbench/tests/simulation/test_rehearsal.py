"""What is tried on a site and taken back leaves no trace: what comes after it is as if nothing had been tried.

Held against a second cluster of the same objects and seed on which nothing was tried.
"""

import random

import pytest

from berth.core.builders import make_node, make_pod
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.rehearsal import Rehearsal
from berth_workbench.simulation.site import Site

SEEDS = range(12)


def random_site(seed):
    """Some nodes, pods that run, and more that wait than fit."""
    lots = random.Random(seed)
    nodes = [make_node(f"n{at}").zone(lots.choice("ab")).capacity(cpu=lots.choice("124"), pods=9) for at in range(4)]
    pods = [random_pod(lots, f"p{at}") for at in range(40)]
    site = Site(SimulatedCluster([each.build() for each in nodes + pods], seed=seed))
    site.settle()
    return site


def random_pod(lots, name):
    pod = make_pod(name).label("app", app := lots.choice("xyz")).owned_by("ReplicaSet", app)
    pod.request(cpu=lots.choice(("250m", "500m", "1"))).priority(lots.choice((0, 0, 0, 10)))
    return pod.prefer_pod_anti_affinity(10, "topology.kubernetes.io/zone", {"app": app}) if app == "z" else pod


def try_something(site, lots):
    """Nodes come and take pods that wait; a node goes, and its pods come back; a pod leaves for good."""
    for at in range(lots.randrange(1, 4)):
        site.cluster.put(make_node(f"new-{at}").zone("b").capacity(cpu="4", pods=9).build())
    site.settle()
    for node in lots.sample(["n0", "n1", "new-0"], 2):
        for pod in site.pods_on(node):
            site.send_away(pod, "a trial")
    site.cluster.delete("Node", "n2")
    site.cluster.delete("Pod", lots.choice(sorted(site.cluster.pods)))
    site.settle()


def what_follows(site, seed):
    """Let more come and go; return all that is seen of it."""
    lots, cluster = random.Random(1000 + seed), site.cluster
    told = [_seen(cluster)]
    cluster.put(make_node("late").zone("a").capacity(cpu="2", pods=9).build())
    cluster.add([random_pod(lots, f"late-{at}").build() for at in range(4)])
    site.settle()
    told.append(_seen(cluster))
    cluster.delete("Pod", lots.choice(sorted(cluster.pods)))
    site.settle()
    return [*told, _seen(cluster)]


def _seen(cluster):
    table = cluster.core.cache.table
    return (
        cluster.placements,
        dict(cluster.messages),
        [(each.pod, each.by) for each in cluster.evictions],
        [(table.names[row], list(table.pods[row])) for row in table.rows().tolist()],
        [(each.pod.key, each.attempts, each.unschedulable_count) for each in cluster.core.queue],
        [pod.key for pod in cluster.without_node],
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_taken_back_never_was(seed):
    tried, untouched = random_site(seed), random_site(seed)
    assert tried.cluster.without_node, "somebody waits, whom a trial can give a place"
    for number in range(3):
        with Rehearsal(tried):
            try_something(tried, random.Random(number))
            with Rehearsal(tried):
                try_something_more(tried, random.Random(10 + number))
    assert what_follows(tried, seed) == what_follows(untouched, seed)


def try_something_more(site, lots):
    site.cluster.put(make_node("more").zone("a").capacity(cpu="4", pods=9).build())
    site.cluster.add([random_pod(lots, f"more-{at}").build() for at in range(3)])
    site.settle()
