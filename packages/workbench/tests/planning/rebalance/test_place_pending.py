"""Room for what is pending: on tiny random clusters, against all that one or two moves can come to.

Each plan is followed step by step, by plain rules and by a scheduler. Then what is told of it, and workloads in `-f`.
"""

import json

import pytest

from berth.core.builders import make_node, make_pod
from berth_workbench.planning.rebalance.request import RebalanceRequest
from berth_workbench.questions.rebalance import headline
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import Snapshot
from packages.workbench.tests.asking import rebalance
from packages.workbench.tests.planning.mixed_worlds import looks_at_groups
from packages.workbench.tests.planning.rebalance.test_movability import documents
from packages.workbench.tests.planning.rebalance.test_rebalance import done_by_the_scheduler
from packages.workbench.tests.planning.rebalance.worlds import ABOVE_MOVES, best_total, follow, random_world
from tests.effort import looks_everywhere

SEEDS = range(300 if looks_everywhere() else 20)
MOVES = 2


def world_for(seed, least=1):
    """A world with pods that wait for room: some alike, some not."""
    while True:
        world = random_world(seed, machines=2 + seed % 3, workers=6, newcomers=1 + seed % 3)
        waiting = world.waiting()
        if len(waiting) >= least:
            return world._replace(newcomers=waiting)
        seed += 1000


def placed(plan):
    return {each.pod.removeprefix("default/"): each.node or "" for each in plan.shapes}


@pytest.mark.parametrize("seed", SEEDS)
def test_as_many_get_a_place_as_one_or_two_moves_can_make_room_for(seed):
    world = world_for(seed)
    plan = rebalance(world.documents(has_newcomers=True), RebalanceRequest("place-pending", max_moves=MOVES))
    moved = follow(world, plan, max_moves=MOVES)
    best = best_total(world, "place-pending", max_moves=MOVES)
    without = sum(not node for node in placed(plan).values())
    assert without * ABOVE_MOVES + plan.moves == best
    for again in (1, 2):
        there = done_by_the_scheduler(world, plan, again)
        assert {name: there[f"default/{name}"] for name in moved} == moved
        assert sum(not there[f"default/{newcomer.name}"] for newcomer in world.newcomers) == without
    greedy = rebalance(
        world.documents(has_newcomers=True), RebalanceRequest("place-pending", max_moves=MOVES, method="greedy")
    )
    follow(world, greedy, max_moves=MOVES)
    done_by_the_scheduler(world, greedy, 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_pod_gets_room_only_behind_those_that_are_pending(seed):
    world = world_for(seed, least=2)
    new = world.newcomers[-1]
    pending = world._replace(newcomers=world.newcomers[:-1])
    request = RebalanceRequest("free-shape", pods=(world.builder(new).build(),), max_moves=MOVES)
    plan = rebalance(pending.documents(has_newcomers=True), request)
    follow(world, plan, max_moves=MOVES)
    best = best_total(world, "free-shape", max_moves=MOVES, wanted=(new,))
    assert (not placed(plan)[new.name]) * ABOVE_MOVES + plan.moves == best


# --- what is told, and of whom ----------------------------------------------------------------------------------------


def running(name, cpu, node, app="web"):
    pod = make_pod(name).label("app", app).request(cpu=cpu, memory="64Mi").node(node).owned_by("ReplicaSet", app)
    return pod.phase("Running")


def two_half_full_nodes():
    """Moving the pod of either node to the other frees 4 CPUs; nobody fits who asks for more than 2."""
    nodes = [make_node(name).capacity(cpu="4", memory="8Gi") for name in "ab"]
    return [*nodes, running("x", "2", "a").priority(9), running("y", "2", "b").priority(9)]


def waiting(name, cpu="4"):
    return make_pod(name).label("app", "big").request(cpu=cpu).owned_by("ReplicaSet", "big")


def test_pending_pods_of_the_same_shape_are_told_to_come_first():
    new = make_pod("new").request(cpu="4").build()
    plan = rebalance(documents(*two_half_full_nodes(), waiting("w")), RebalanceRequest("free-shape", pods=(new,)))
    assert (plan.moves, placed(plan)) == (0, {"new": ""})
    (first,) = plan.taken_first
    assert (first.workload, first.pods, first.placed) == ("default/ReplicaSet/big", 1, 0)
    pending = rebalance(documents(*two_half_full_nodes(), waiting("w")), RebalanceRequest("place-pending"))
    assert (pending.moves, placed(pending)["w"] in "ab", pending.taken_first) == (1, True, ())


def test_pending_pods_that_could_not_take_the_room_are_not_in_the_way():
    new = make_pod("new").request(cpu="4").build()
    elsewhere = waiting("w").node_selector({"pool": "gpu"})
    held = waiting("v").gate("quota")
    plan = rebalance(documents(*two_half_full_nodes(), elsewhere, held), RebalanceRequest("free-shape", pods=(new,)))
    assert (plan.moves, plan.taken_first) == (1, ())
    assert placed(plan)["new"] in ("a", "b")


def test_the_more_important_of_two_that_wait_gets_the_room():
    objects = [*two_half_full_nodes(), waiting("minor").priority(1), waiting("major").priority(5)]
    plan = rebalance(documents(*objects), RebalanceRequest("place-pending"))
    assert plan.moves == 1
    assert (placed(plan)["minor"], placed(plan)["major"] != "") == ("", True)


def workload(kind, replicas=1, **spec):
    template = {"metadata": {"labels": {"app": "new"}}, "spec": {"containers": [
        {"name": "c", "resources": {"requests": {"cpu": "4"}}}]}}  # fmt: skip
    sized = (
        {"parallelism": replicas}
        if kind == "Job"
        else {"replicas": replicas, "selector": {"matchLabels": {"app": "new"}}}
    )
    version = "batch/v1" if kind == "Job" else "apps/v1"
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "new"},
        "spec": {**sized, "template": template, **spec},
    }


def manifest(document):
    name, namespace = document["metadata"]["name"], document["metadata"].get("namespace", "")
    return Document(document["kind"], json.dumps(document).encode(), "a test", document["apiVersion"], namespace, name)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet", "Job"])
def test_room_is_made_for_a_workload_of_any_kind(kind):
    request = RebalanceRequest("free-shape", manifests=(manifest(workload(kind, 2)),), namespace="shop")
    plan = rebalance(documents(*two_half_full_nodes()), request)
    assert plan.moves == 1
    assert all(each.pod.startswith("shop/new-") for each in plan.shapes)
    assert sorted(each.node is None for each in plan.shapes) == [False, True], "there is room for one of the two"
    (step,) = (step for step in plan.steps if step.action == "create")
    assert step.workload.startswith(("ReplicaSet/new-", f"{kind}/new")) and step.to


def test_of_a_workload_that_the_cluster_has_its_own_pods_are_meant():
    named = {**workload("StatefulSet", 2), "kind": "StatefulSet"}
    own = [make_pod(f"new-{i}").label("app", "new").request(cpu="4").owned_by("StatefulSet", "new") for i in range(2)]
    objects = [*two_half_full_nodes(), make_node("c").capacity(cpu="4", memory="8Gi"), own[0].node("c"), own[1]]
    plan = rebalance(documents(*objects), RebalanceRequest("free-shape", manifests=(manifest(named),)))
    assert list(placed(plan)) == ["new-1"]
    assert (plan.moves, plan.taken_first, [step for step in plan.steps if step.action == "create"]) == (1, (), [])


def test_where_no_pod_runs_no_moves_are_left_out():
    """Two of four pods of a gang find room one by one, which the scheduler does not follow: that is no move."""
    policy = {"gang": {"minCount": 4}}
    group = {"apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "PodGroup", "spec": {"schedulingPolicy": policy}}
    group["metadata"] = {"name": "g", "namespace": "default", "uid": "g"}
    pods = [waiting(f"w{i}").set_spec(schedulingGroup={"podGroupName": "g"}) for i in range(4)]
    nodes = [make_node(name).capacity(cpu="4", memory="8Gi") for name in "ab"]
    given = [*documents(*nodes, *pods).documents, manifest(group)]
    plan = rebalance(Snapshot(given), RebalanceRequest("place-pending"), config=looks_at_groups())
    assert headline(plan) == "No moves: there is no running pod that may be moved."
    assert [note.partition(":")[0] for note in plan.notes] == ["4 pods are of gangs"]
    alone = rebalance(documents(*nodes, waiting("w", "5")), RebalanceRequest("place-pending"))
    assert (headline(alone), alone.notes) == (headline(plan), ())
