"""Failures of small random clusters, each asked on its own: alone, after others, and as a what-if of a fresh cluster.

`mixed_worlds` has what makes failures depend on one another. How many nodes it takes is tried, and one fewer; how many
at least is held against trying all fewer ones.
"""

from itertools import combinations_with_replacement

import msgspec

from berth.api.pod import Pod
from berth.testing.invariants import check
from berth_workbench.planning.survival import loss_of, survival
from berth_workbench.planning.whatif import WhatIfRun
from berth_workbench.simulation.budgets import is_active, owner_of
from berth_workbench.simulation.changes import RemoveNodes
from berth_workbench.simulation.node_changes import add_nodes_like, remove_nodes
from packages.workbench.tests.planning.mixed_worlds import ZONE, MixedWorld, worlds

EVERYWHERE = 10_000


def lost_nodes(world, failure):
    if failure.kind == "node":
        return list(failure.names)
    labels = {each["metadata"]["name"]: each["metadata"]["labels"] for each in world.nodes}
    return [name for name, has in labels.items() if has[ZONE] in failure.names]


def answer(failure):
    """What must be the same however a failure is asked."""
    return msgspec.structs.replace(failure, kind="pool", names=("x",))


def reasons(result, reason):
    return {each.name for each in result.broken if each.reason == reason}


@worlds(7)
def test_a_failure_is_what_a_whatif_says_whatever_was_asked_before(seeds):
    asked = lost = preempted = 0
    for seed in seeds:
        world = MixedWorld(seed)
        site = world.at_rest()
        before = dict(site.cluster.objects)
        found = survival(site, kinds=("node", "zone"), simulated_at_most=EVERYWHERE)
        again = survival(site, kinds=("zone", "node"), simulated_at_most=EVERYWHERE)
        assert found.failures == again.failures, f"seed {seed}"
        assert before == dict(site.cluster.objects)
        check(site.cluster.core)
        for failure in found.failures:
            story = f"seed {seed}: {failure.names}"
            names = lost_nodes(world, failure)
            (alone,) = loss_of(world.at_rest(), {"x": names}, simulated_at_most=EVERYWHERE)
            fresh = world.at_rest()
            evicted, there = len(fresh.cluster.evictions), set(fresh.cluster.pods)
            told = WhatIfRun(fresh).run([RemoveNodes(names)])
            if failure.answered != "alike":
                assert answer(failure) == alone, story
            assert failure.unplaced == len(reasons(told, "NoLongerRuns")), story
            assert failure.gone == len(reasons(told, "PodLost") & there), story
            assert failure.preempted == len(fresh.cluster.evictions) - evicted, story
            assert {each.name for each in failure.budgets if each.is_lasting} == reasons(told, "BudgetViolated"), story
            asked, lost, preempted = asked + 1, lost + bool(failure.unplaced), preempted + bool(failure.preempted)
    assert asked > 3 * len(seeds) and lost > asked / 5 and preempted > asked / 20


def has_places(world, lost, added, *, first, seed):
    """Whether everybody who ran has a place without some nodes, where others come, before or after."""
    site = world.at_rest(seed)
    cluster = site.cluster
    ran = [pod.key for pod in cluster.of(Pod) if pod.spec.node_name and pod.metadata.deletion_timestamp is None]
    models = [cluster.objects["Node", name] for name in added]
    for is_addition in (first, not first):
        if is_addition:
            for model in models:
                add_nodes_like(site, model, 1)
        else:
            remove_nodes(site, lost, "the loss of {}")
        site.settle()
    return all((pod := cluster.objects.get(("Pod", key))) is None or pod.spec.node_name for key in ran)


@worlds(20)
def test_fewer_nodes_than_it_takes_at_least_never_do(seeds):
    tried = 0
    for seed in seeds:
        world = MixedWorld(seed, largest=5)
        found = survival(world.at_rest(), kinds=("node",), simulated_at_most=EVERYWHERE)
        for failure in found.failures:
            fewer = 0 if failure.more is None else failure.more.at_least - 1
            left = [name for each in world.nodes if (name := each["metadata"]["name"]) not in failure.names]
            for added in combinations_with_replacement(left, fewer) if fewer > 0 else ():
                tried += 1
                for first in (True, False):
                    does = has_places(world, failure.names, added, first=first, seed=tried)
                    assert not does, f"seed {seed}: {failure.names} and {added}"
    assert tried


def left_with(world, failure, counts):
    """How many of those that a failure leaves without a place, or who make way for them, have none with more nodes."""
    site = world.at_rest()
    cluster = site.cluster
    ran = {pod.key for pod in cluster.of(Pod) if pod.spec.node_name and is_active(pod) and owner_of(pod) is not None}
    remove_nodes(site, lost_nodes(world, failure), "the loss of {}")
    site.settle()
    for name, count in counts.items():
        add_nodes_like(site, cluster.objects["Node", name], count)
    site.settle()
    return sum(not cluster.objects["Pod", key].spec.node_name for key in ran if ("Pod", key) in cluster.objects)


@worlds(7)
def test_it_takes_the_nodes_that_are_told_and_not_one_fewer(seeds):
    asked = beside_pending = 0
    for seed in seeds:
        world = MixedWorld(seed)
        found = survival(world.at_rest(), kinds=("node", "zone"), simulated_at_most=EVERYWHERE)
        for failure in found.failures:
            if failure.more is None:
                continue
            story = f"seed {seed}: {failure.names} {failure.more}"
            counts = {each.like: each.count for each in failure.more.nodes}
            assert left_with(world, failure, counts) == failure.more.left, story
            assert failure.more.one_fewer_fails, story
            for name, count in counts.items():
                assert left_with(world, failure, {**counts, name: count - 1}) > failure.more.left, story
            asked, beside_pending = asked + bool(counts), beside_pending + bool(counts and found.pending)
    assert asked > len(seeds) / 2 and beside_pending
