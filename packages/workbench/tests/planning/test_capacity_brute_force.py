"""Capacity on small random clusters, against arithmetic that knows nothing of this program."""

import random

import msgspec
import pytest

from berth.core.questions import Trial
from berth_workbench.planning.capacity import capacity
from berth_workbench.planning.requested_pods import requested_pods
from berth_workbench.simulation.admission import with_priority
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import Snapshot
from packages.workbench.tests.asking import capacity_after
from packages.workbench.tests.planning import checker
from packages.workbench.tests.planning.worlds import bound, is_independent, random_pod, random_world
from tests.effort import examples

WORLDS = examples(150)


def document(manifest):
    return Document(manifest["kind"], msgspec.json.encode(manifest), "world")


def snapshot_of(nodes, running):
    return Snapshot([document(each) for each in (*nodes, *(bound(pod, node) for pod, node in running))])


def question(seed):
    rng = random.Random(seed)
    nodes, running = random_world(rng)
    return nodes, running, random_pod(rng, "asked", "asked")


def test_copies_that_look_at_their_own_node_only_are_as_many_as_arithmetic_says():
    counted = 0
    for seed in range(WORLDS):
        nodes, running, pod = question(seed)
        if not is_independent(pod):
            continue
        if any(checker.anti_affinity(other) and checker.app(other) == "asked" for other, _ in running):
            continue  # they keep the copies away from nodes other than their own
        found = capacity_after(snapshot_of(nodes, running), [document(pod)])
        assert found.fits == checker.independent_count(pod, nodes, running), f"seed {seed}"
        counted += found.shapes[0].is_counted
    assert counted > WORLDS / 3


def test_columns_and_placing_one_by_one_give_the_same_answer():
    kinds = set()
    for seed in range(WORLDS):
        nodes, running, pod = question(seed)
        cluster = SimulatedCluster(snapshot_of(nodes, running).structs())
        shapes = requested_pods([document(pod)]).shapes
        found = capacity(cluster, shapes)
        placed = capacity(cluster, shapes, by_placing=True)
        kinds.add(found.shapes[0].is_counted)
        assert placed.shapes[0].is_counted is False
        if found.shapes[0].is_counted:
            assert found.fits == placed.fits, f"seed {seed}"
            assert found.by_pool == placed.by_pool, f"seed {seed}"
            assert found.limited_by == placed.limited_by, f"seed {seed}"
            assert found.fragmentation == placed.fragmentation, f"seed {seed}"
    assert kinds == {True, False}


def test_every_placement_is_allowed_and_when_it_ends_no_node_is_left():
    """For pods whose constraints are among themselves: each step held against rules written down a second time."""
    tried = 0
    for seed in range(WORLDS):
        nodes, running, pod = question(seed)
        if is_independent(pod):
            continue
        tried += 1
        cluster = SimulatedCluster(snapshot_of(nodes, running).structs())
        (shape,) = requested_pods([document(pod)]).shapes
        found = capacity(cluster, [shape])
        now = list(running)
        with Trial(cluster.core) as trial:
            for copy, _ in shape.pods(cluster.pods):
                name, _ = trial.place(with_priority(copy, {}))
                if name is None:
                    break
                node = next(each for each in nodes if each["metadata"]["name"] == name)
                assert checker.fits(pod, node, nodes, now), f"seed {seed}: {name}"
                now.append((pod, name))
        assert not [node for node in nodes if checker.fits(pod, node, nodes, now)], f"seed {seed}"
        is_one_way = "affinity" in pod["spec"] or len(nodes) == 1
        if is_one_way:  # with anti-affinity alone any order comes to the same number of nodes or zones
            assert found.fits == len(now) - len(running), f"seed {seed}"
    assert tried > WORLDS / 5


@pytest.mark.parametrize("seed", range(20))
def test_the_count_does_not_depend_on_how_ties_are_broken(seed):
    nodes, running, pod = question(seed)
    if is_independent(pod):
        counts = {capacity_after(snapshot_of(nodes, running), [document(pod)], seed=each).fits for each in range(3)}
        assert len(counts) == 1
