"""Plans against every plan there is, on small random clusters; and followed step by step, by rules and by scheduler."""

import msgspec
import pytest

from berth.planning.rebalancing.proving import cordoned, uncordoned
from berth.planning.rebalancing.rebalance import rebalance
from berth.planning.rebalancing.request import RebalanceRequest
from berth.simulation.cluster import SimulatedCluster, pending_again
from tests.planning.rebalancing.worlds import best_total, follow, random_world, total

GOALS = ("empty-nodes", "even-out", "repair-spread", "free-shape")
MAX_MOVES = 4


def request_for(world, goal, **more):
    guests = tuple(world.builder(guest).build() for guest in world.guests) if goal == "free-shape" else ()
    prices = {machine.name: float(machine.price) for machine in world.machines}
    return RebalanceRequest(goal, pods=guests, max_moves=MAX_MOVES, prices=prices, **more)


def done_by_the_scheduler(world, plan, seed):
    """Do what the plan says, with a scheduler that draws other lots; returns where the scheduler has put everything."""
    cluster = SimulatedCluster(world.documents().structs(), seed=seed)
    cluster.settle()
    for step in plan.steps:
        if step.action == "evict":
            pod = cluster.objects["Pod", step.pod]
            assert pod.spec.node_name == step.node
            cluster.delete("Pod", step.pod)
            cluster.put(pending_again(pod))
            cluster.settle()
            assert cluster.placements[step.pod] == step.to, (step, seed)
        else:
            change = cordoned if step.action == "cordon" else uncordoned
            cluster.put(change(cluster.objects["Node", step.node]))
            cluster.settle()
    for guest in world.guests if plan.goal == "free-shape" else ():
        cluster.put(world.builder(guest).build())
        cluster.settle()
    assert not cluster.evictions
    return cluster.placements


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("seed", range(12))
def test_a_greedy_plan_is_valid_in_order_and_no_worse_than_nothing(goal, seed):
    world = random_world(seed, machines=3 + seed % 2, workers=6, guests=seed % 2 + 1 if goal == "free-shape" else 0)
    plan = rebalance(world.documents(), request_for(world, goal, method="greedy"))
    check(world, goal, plan)


def check(world, goal, plan):
    """Follow a plan; return its total."""
    placement = follow(world, plan, max_moves=MAX_MOVES)
    assert world.broken(placement) <= world.broken(world.start())
    assert plan.after.violations == len(world.broken(placement))
    for seed in (1, 2):
        placed = done_by_the_scheduler(world, plan, seed)
        assert {name: placed[f"default/{name}"] for name in placement} == placement
    for each in plan.shapes:
        placement[each.pod.removeprefix("default/")] = each.node or ""
    found = total(world, goal, placement, plan.moves)
    nothing = total(world, goal, world.start(), 0)
    assert best_total(world, goal, max_moves=MAX_MOVES) <= found <= nothing
    return found


def test_the_same_arguments_give_the_same_plan():
    world = random_world(3, machines=4, workers=6)
    plans = {msgspec.json.encode(rebalance(world.documents(), request_for(world, "empty-nodes"))) for _ in range(2)}
    assert len(plans) == 1
