"""A crowd of pods that fit nowhere: what is remembered of it changes nothing, neither an answer nor a life.

What decides is what the same core says, or a core of the same life does, that remembers nothing. The pods are of few
shapes, most of which fit nowhere; nodes come, go, change and run pods of lower and higher priority, so that some of the
crowd may preempt at times, and budgets spare some.
"""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.testing.invariants import check, decide
from packages.scheduler.tests.plugins.preemption.support import budget
from tests.effort import examples

NODES, WAITING = [f"n{index}" for index in range(12)], [f"w{index}" for index in range(30)]


def node(rng, name):
    made = make_node(name).capacity(cpu=rng.choice("246"), memory="8Gi", pods="10").zone(rng.choice("ab"))
    if rng.random() < 0.3:
        made.taint("dedicated", "others")
    return made.unschedulable() if rng.random() < 0.1 else made


def running(rng, name):
    pod = make_pod(name).node(rng.choice(NODES)).label("app", rng.choice("xy"))
    return pod.priority(rng.choice((-5, 0, 20))).request(cpu=rng.choice(("500m", "1", "2")))


def waiting(rng, name):
    shape = rng.randrange(6)
    pod = make_pod(name).priority((0, 0, 10, 10, 30, 30)[shape]).request(cpu=("3", "7", "3", "5", "7", "4")[shape])
    if shape == 2:
        pod.host_port(80)
    if shape == 4:
        pod.node_selector({"topology.kubernetes.io/zone": rng.choice(("a", "nowhere"))})
    return pod


def happen(rng, cluster):
    """Let something happen; draws the same for each cluster that is given the same generator."""
    what, name = rng.randrange(10), f"r{rng.randrange(20)}"
    key = f"default/{name}"
    if what < 4:
        if ("Pod", key) in cluster.objects:
            cluster.delete("Pod", key)
        else:
            cluster.put(running(rng, name))
    elif what < 6:
        cluster.put(node(rng, rng.choice(NODES)))
    elif what == 6 and ("Node", gone := rng.choice(NODES)) in cluster.objects:
        cluster.delete("Node", gone)
    elif what == 7:
        cluster.put(budget("b", {"app": rng.choice("xy")}, rng.randrange(2)))
    elif what == 8:
        name = rng.choice(WAITING)
        if ("Pod", f"default/{name}") in cluster.objects:
            cluster.delete("Pod", f"default/{name}")
        else:
            cluster.put(waiting(rng, name))
    cluster.run()
    cluster.advance(rng.choice((0.1, 1.0, 11.0)))


def said(cluster, pod, *, memos):
    """What is said of a pod now, and whether somebody could make way for it; which node it is, is drawn by lot."""
    outcome = decide(cluster.core, pod, memos=memos).outcome
    return outcome.message, bool(outcome.victims), outcome.fits


@settings(deadline=None, max_examples=examples(15))
@given(seed=st.integers(0, 2**32))
def test_the_answer_is_the_same_with_memos(seed):
    rng = random.Random(seed)
    cluster = filled(rng, seed, memos=True)
    crowd = [cluster.core.intake.info(waiting(rng, f"asking-{index}").build()) for index in range(8)]
    for _ in range(30):
        happen(rng, cluster)
        for pod in crowd:
            assert said(cluster, pod, memos=True) == said(cluster, pod, memos=False)


def filled(rng, seed, *, memos, generation=None):
    cluster = VirtualCluster(memos=memos, seed=seed, generation=generation)
    for name in NODES:
        cluster.put(node(rng, name))
    for index in range(20):
        cluster.put(running(rng, f"r{index}"))
    return cluster


def life(seed, *, memos, generation=None):
    rng = random.Random(seed)
    cluster = filled(rng, seed, memos=memos, generation=generation)
    for name in WAITING:
        cluster.put(waiting(rng, name))
    cluster.run()
    for _ in range(40):
        happen(rng, cluster)
        check(cluster.core)
    return cluster


@pytest.mark.parametrize("generation", [None, "v1.20"])
@settings(deadline=None, max_examples=examples(6))
@given(seed=st.integers(0, 2**32))
def test_memos_change_no_effect(generation, seed):
    with_memos, without = (life(seed, memos=memos, generation=generation) for memos in (True, False))
    assert with_memos.effects == without.effects
    kept, fresh = ({queued.pod.key: queued.attempts for queued in found.core.queue} for found in (with_memos, without))
    assert kept == fresh
    assert with_memos.rng.getstate() == without.rng.getstate(), "the same lots were drawn"
