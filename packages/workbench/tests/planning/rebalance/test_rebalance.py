"""Plans against every plan there is, on small random clusters; and followed step by step, by rules and by scheduler.

In mixed worlds, with gangs, spreading, budgets and pending pods, all that is told is done in a fresh simulation.
"""

import copy

import msgspec
import pytest

from berth.api.pod import Pod
from berth.framework.setup import Setup
from berth_workbench.planning.capacity import capacity
from berth_workbench.planning.rebalance import optimizer
from berth_workbench.planning.rebalance.proof import cordoned, uncordoned
from berth_workbench.planning.rebalance.request import SOLVED, RebalanceRequest
from berth_workbench.planning.requested_pods import RequestedShape
from berth_workbench.simulation.cluster import BACKOFF_S, SimulatedCluster, pending_again
from berth_workbench.simulation.measures import is_pending
from berth_workbench.simulation.prices import Prices
from berth_workbench.simulation.site import Site
from berth_workbench.snapshot.documents import Document
from packages.workbench.tests.asking import rebalance
from packages.workbench.tests.planning.mixed_worlds import registry, worlds
from packages.workbench.tests.planning.rebalance.worlds import PLACING, best_total, follow, random_world, total
from packages.workbench.tests.planning.test_autoscale_oracle import Backlog
from tests.effort import examples

GOALS = ("empty-nodes", "even-out", "repair-spread", "free-shape", "place-pending")
MAX_MOVES = 4


def request_for(world, goal, **more):
    newcomers = tuple(world.builder(newcomer).build() for newcomer in world.newcomers) if goal == "free-shape" else ()
    prices = Prices(nodes={machine.name: float(machine.price) for machine in world.machines})
    return RebalanceRequest(goal, pods=newcomers, max_moves=MAX_MOVES, prices=prices, **more)


def done_by_the_scheduler(world, plan, seed):
    """Do what the plan says, with a scheduler that draws other lots; returns where the scheduler has put everything."""
    cluster = SimulatedCluster(documents(world, plan.goal).structs(), seed=seed)
    cluster.settle()
    for step in plan.steps:
        if step.action == "evict":
            pod = cluster.objects["Pod", step.pod]
            assert pod.spec.node_name == step.node
            cluster.delete("Pod", step.pod)
            cluster.put(pending_again(pod))
            cluster.settle()
            assert cluster.placements[step.pod] == step.to, (step, seed)
        elif step.action == "create":
            (newcomer,) = (each for each in world.newcomers if step.pod == f"default/{each.name}")
            cluster.put(world.builder(newcomer).build())
            cluster.settle()
            assert cluster.placements[step.pod] == step.to, (step, seed)
        else:
            change = cordoned if step.action == "cordon" else uncordoned
            cluster.put(change(cluster.objects["Node", step.node]))
            cluster.settle()
    assert not cluster.evictions
    return cluster.placements


def world_for(goal, seed):
    newcomers = seed % 2 + 1 if goal in PLACING else 0
    world = random_world(seed, machines=3 + seed % 2, workers=6, newcomers=newcomers)
    if goal != "place-pending":
        return world
    waiting = world.waiting()
    return world._replace(newcomers=waiting) if waiting else world_for(goal, seed + 1000)


def documents(world, goal):
    return world.documents(has_newcomers=goal == "place-pending")


@pytest.mark.parametrize("goal", SOLVED)
@pytest.mark.parametrize("seed", range(200, 200 + examples(10)))
def test_no_plan_is_better_than_cp_sats_and_the_greedy_one_is_valid(goal, seed):
    world, limit = world_for(goal, seed), 1 + seed % 3 if seed % 2 else None
    limits = {"max_moves": MAX_MOVES, "max_per_workload": limit}
    greedy = rebalance(documents(world, goal), request_for(world, goal, method="greedy", max_per_workload=limit))
    optimal = rebalance(documents(world, goal), request_for(world, goal, method="cp-sat", max_per_workload=limit))
    best = best_total(world, goal, **limits)
    assert check(world, goal, greedy, **limits) >= best
    assert check(world, goal, optimal, **limits) == best
    assert optimal.proven_best


@pytest.mark.parametrize("goal", ["even-out", "repair-spread"])
def test_the_greedy_search_gets_most_of_what_there_is_where_it_is_alone(goal):
    before = after = best = 0
    for seed in range(200, 200 + examples(10)):
        world, limit = world_for(goal, seed), 1 + seed % 3 if seed % 2 else None
        limits = {"max_moves": MAX_MOVES, "max_per_workload": limit}
        plan = rebalance(documents(world, goal), request_for(world, goal, max_per_workload=limit))
        assert (plan.method, plan.proven_best) == ("greedy", False)
        before += total(world, goal, world.start(), 0)
        after += check(world, goal, plan, **limits)
        best += best_total(world, goal, **limits)
    assert best <= after
    assert before - after >= 0.8 * (before - best) > 0


def test_in_a_cluster_too_large_for_cp_sat_the_greedy_plan_is_the_plan(monkeypatch):
    world = random_world(3, machines=4, workers=6)
    greedy = rebalance(world.documents(), request_for(world, "empty-nodes", method="greedy"))
    monkeypatch.setattr(optimizer, "MAX_PAIRS", 4 * 6 - 1)
    plan = rebalance(world.documents(), request_for(world, "empty-nodes"))
    assert plan.notes == ("the cluster is too large for CP-SAT, so the search is greedy",)
    assert (plan.method, plan.steps) == ("greedy", greedy.steps)


def check(world, goal, plan, **limits):
    """Follow a plan; return its total."""
    placement = follow(world, plan, **limits)
    assert world.broken(placement) <= world.broken(world.start())
    assert plan.after.violations == len(world.broken(placement))
    for seed in (1, 2):
        placed = done_by_the_scheduler(world, plan, seed)
        assert {name: placed[f"default/{name}"] for name in placement} == placement
    for each in plan.shapes:
        placement[each.pod.removeprefix("default/")] = each.node or ""
    found = total(world, goal, placement, plan.moves)
    assert found <= total(world, goal, world.start(), 0)
    return found


def test_the_same_arguments_give_the_same_plan():
    world = random_world(3, machines=4, workers=6)
    plans = {msgspec.json.encode(rebalance(world.documents(), request_for(world, "empty-nodes"))) for _ in range(2)}
    assert len(plans) == 1


# -- mixed worlds ------------------------------------------------------------------------------------------------------


def newcomer(world):
    """A pod that a world has none of, like one of its own."""
    model = copy.deepcopy(world.rng.choice(world.pods))
    model["metadata"] = {"name": "new", "namespace": "default", "uid": "new", "labels": {"app": "new"}}
    for field in ("nodeName", "schedulingGroup", "schedulingGates"):
        model["spec"].pop(field, None)
    return Document("Pod", msgspec.json.encode({**model, "status": {}}), "a test").struct()


def carried_out(world, plan, new):
    """Do what a plan says in a fresh simulation; return it."""
    cluster = world.at_rest().cluster
    evicted = len(cluster.evictions)
    for step in plan.steps:
        if step.action == "evict":
            assert cluster.placements[step.pod] == step.node
            assert not cluster.budgets.refusal(cluster.objects["Pod", step.pod])[1]
            cluster.now += BACKOFF_S
            cluster.settle()
            cluster.send_back(step.pod)
        elif step.action == "create":
            cluster.put(new)
        else:
            change = cordoned if step.action == "cordon" else uncordoned
            cluster.put(change(cluster.objects["Node", step.node]))
        cluster.settle()
        assert not step.to or cluster.placements[step.pod] == step.to, step
    assert len(cluster.evictions) == evicted
    return cluster


@worlds(4)
def test_in_mixed_worlds_moves_come_out_as_told(seeds):
    moved = fit = 0
    for seed in seeds:
        world = Backlog(seed)
        new = newcomer(world)
        for goal in GOALS:
            story = f"seed {seed}, {goal}"
            request = RebalanceRequest(goal, pods=(new,) if goal == "free-shape" else (), method="greedy")
            plan = rebalance(world.snapshot(), request, config=world.config)
            cluster = carried_out(world, plan, new)
            there = {pod.spec.node_name for pod in cluster.of(Pod)}
            assert not there & set(plan.emptied), story
            if plan.fits_now is not None:
                site = Site.of(world.snapshot(), Setup(world.config, registry()))
                shape = RequestedShape(new, 1, {})
                assert plan.fits_now == capacity(site.cluster, [shape], by_placing=True).fits, story
            if not plan.moves and all(each.node for each in plan.shapes) and goal == "free-shape":
                cluster.put(new)
                cluster.settle()
            nodes = {each.pod: each.node for each in plan.shapes}
            assert {key: cluster.placements.get(key) or None for key in nodes} == nodes, story
            waiting = sum(is_pending(pod) for pod in cluster.of(Pod))
            created = goal == "free-shape" and any(step.action == "create" for step in plan.steps)
            assert waiting == plan.after.pending or (goal == "free-shape" and not created), story
            moved, fit = moved + bool(plan.moves), fit + (plan.fits_now is not None)
    assert moved > len(seeds) / 4 and (fit or len(seeds) < 10)
