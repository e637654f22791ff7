"""Plans against every plan there is, on small random clusters; and followed step by step, by rules and by scheduler."""

import msgspec
import pytest

from berth_workbench.planning.rebalance.proof import cordoned, uncordoned
from berth_workbench.planning.rebalance.request import RebalanceRequest
from berth_workbench.simulation.cluster import SimulatedCluster, pending_again
from berth_workbench.simulation.prices import Prices
from tests.effort import examples
from tests.workbench.asking import rebalance
from tests.workbench.planning.rebalance.worlds import PLACING, best_total, follow, random_world, total

GOALS = ("empty-nodes", "even-out", "repair-spread", "free-shape", "place-pending")
MAX_MOVES = 4


def request_for(world, goal, **more):
    guests = tuple(world.builder(guest).build() for guest in world.guests) if goal == "free-shape" else ()
    prices = Prices(nodes={machine.name: float(machine.price) for machine in world.machines})
    return RebalanceRequest(goal, pods=guests, max_moves=MAX_MOVES, prices=prices, **more)


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
            (guest,) = (each for each in world.guests if step.pod == f"default/{each.name}")
            cluster.put(world.builder(guest).build())
            cluster.settle()
            assert cluster.placements[step.pod] == step.to, (step, seed)
        else:
            change = cordoned if step.action == "cordon" else uncordoned
            cluster.put(change(cluster.objects["Node", step.node]))
            cluster.settle()
    assert not cluster.evictions
    return cluster.placements


def world_for(goal, seed):
    guests = seed % 2 + 1 if goal in PLACING else 0
    world = random_world(seed, machines=3 + seed % 2, workers=6, guests=guests)
    if goal != "place-pending":
        return world
    waiting = world.waiting()
    return world._replace(guests=waiting) if waiting else world_for(goal, seed + 1000)


def documents(world, goal):
    return world.documents(has_guests=goal == "place-pending")


@pytest.mark.parametrize("goal", GOALS)
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
