"""Upgrade plans against plain counting: small random clusters, and small ones whose plan can be told by hand.

The plan's moves are made again on a table of names and numbers: room, budgets and who is pending are counted here
alone, by what the documentation of nodes and PodDisruptionBudgets says. Fewer surge nodes are tried on a fresh cluster.
"""

import random
from collections import Counter

import msgspec
import pytest

from berth.core.builders import make_node, make_pod
from berth_workbench.planning.upgrade.search import UpgradeRequest, UpgradeSearch
from berth_workbench.simulation.changes import ChangeError
from berth_workbench.simulation.watch import UNWATCHED
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import Snapshot
from packages.workbench.tests.asking import plan_upgrade, situation

SEEDS = range(15)


def node(name, cpu=4, pool="std"):
    made = make_node(name).capacity(cpu=str(cpu), memory="64Gi", pods="110")
    return made.labels({"pool": pool, "kubernetes.io/hostname": name}).document


def pod(name, on="", app="web", cpu=1, pool=""):
    made = make_pod(name).label("app", app).request(cpu=str(cpu))
    if app:
        made.owned_by("ReplicaSet", app)
    if pool:
        made.set_spec(nodeSelector={"pool": pool})
    return (made.node(on) if on else made).document


def budget(app="web", **spec):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


def replicas(app, count):
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": app, "namespace": "default", "uid": f"uid-{app}"},
        "spec": {"replicas": count, "selector": {"matchLabels": {"app": app}}},
    }


def plan_of(objects, **request):
    documents = [Document(each["kind"], each, "a test") for each in objects]
    return plan_upgrade(Snapshot(documents), UpgradeRequest(**request))


def batches(plan):
    return [step.nodes for step in plan.steps if step.action == "upgrade"]


# -- by hand ---------------------------------------------------------------------------------------------------------


def test_the_emptiest_node_goes_first_and_full_ones_follow_onto_it():
    objects = [node("full"), node("empty"), *(pod(f"p{at}", "full") for at in range(4))]
    plan = plan_of(objects, at_once=1)
    assert batches(plan) == [("empty",), ("full",)]
    assert plan.surge == 0
    assert {(move.pod, move.to) for move in plan.steps[1].moves} == {(f"default/p{at}", "empty") for at in range(4)}


def test_a_full_cluster_needs_as_many_surge_nodes_as_go_at_once():
    objects = [node(f"n{at}") for at in range(4)]
    objects += [pod(f"p{at}-{number}", f"n{at}") for at in range(4) for number in range(4)]
    for at_once in (1, 2, 4):
        plan = plan_of(objects, at_once=at_once)
        assert plan.surge == at_once
        assert plan.pools[0].is_minimal
        assert all("no node" in each.without for each in plan.pools[0].surge)
        assert [len(each) for each in batches(plan)] == [at_once] * (4 // at_once)
        assert [step.action for step in plan.steps if step.action == "removeSurge"] == ["removeSurge"] * at_once
        assert plan.pending_after == 0


def test_without_a_number_as_many_go_together_as_there_is_room_for():
    objects = [node(f"n{at}") for at in range(4)]
    objects += [pod(f"p{at}", f"n{at}") for at in range(4)]  # one node has room for all four
    assert len(batches(plan_of(objects))) < 4
    guarded = [*objects, replicas("web", 4), budget(maxUnavailable=1)]
    assert [len(each) for each in batches(plan_of(guarded))] == [1] * 4


def test_surge_is_like_the_pool_that_needs_it():
    objects = [node("a1", pool="a"), node("a2", pool="a"), node("b1", pool="b"), node("b2", pool="b")]
    objects += [pod(f"b{at}-{number}", f"b{at}", pool="b") for at in (1, 2) for number in range(4)]
    plan = plan_of(objects, at_once=1)
    assert [(each.pool, [surge.like[0] for surge in each.surge]) for each in plan.pools] == [("a", []), ("b", ["b"])]
    assert plan_of(objects, pools=("a",)).upgraded == 2
    assert batches(plan_of(objects, nodes=("pool=a", "b1"), at_once=1))[-1] == ("b1",)


@pytest.mark.parametrize(
    ("spec", "freed"),
    [
        ({"minAvailable": 2}, {"minAvailable": 1}),
        ({"maxUnavailable": 0}, {"maxUnavailable": 1}),
        ({"minAvailable": "100%"}, {"minAvailable": 1}),
    ],
)
def test_a_node_that_a_budget_blocks_is_left_out_and_what_frees_it_does(spec, freed):
    objects = [node("n1"), node("n2"), replicas("web", 2), pod("p1", "n1"), pod("p2", "n1")]
    plan = plan_of([*objects, budget(**spec)], at_once=1)
    assert [each.node for each in plan.blocked] == ["n1"]
    assert batches(plan) == [("n2",)]
    (told,) = {each.frees for each in plan.blocked[0].pods}
    (field, value), *_ = freed.items()
    assert f"{field} {value}" in told
    assert plan_of([*objects, budget(**freed)], at_once=1).blocked == ()
    if "minAvailable" in spec and spec["minAvailable"] == 2:
        assert "1 more healthy replica" in told
        assert plan_of([*objects, pod("p3", "n1"), budget(**spec)], at_once=1).blocked == ()
    else:
        assert "replica" not in told


def pinned(name, on, app="web"):
    made = pod(name, on, app)
    made["spec"]["nodeSelector"] = {"kubernetes.io/hostname": on}
    return made


def test_nodes_that_a_budget_lets_go_only_alone_go_alone():
    """Each pod waits for its own node to come back, and until then the budget lets no other go."""
    objects = [*(node(f"n{at}") for at in range(1, 7)), replicas("web", 3), budget(maxUnavailable=1)]
    objects += [pinned(f"p{at}", f"n{at}") for at in (4, 5, 6)]
    for at_once in (2, 3, 6):
        plan = plan_of(objects, at_once=at_once)
        assert plan.blocked == () and plan.upgraded == 6
        assert all(len({"n4", "n5", "n6"}.intersection(each)) <= 1 for each in batches(plan))
        assert any(len(each) > 1 for each in batches(plan))


def test_a_node_that_is_blocked_keeps_no_others_from_going_together():
    objects = [*(node(f"n{at}") for at in range(1, 7)), replicas("web", 1), budget(minAvailable=1)]
    objects += [pinned("p", "n2"), *(pod(f"w{at}", f"n{at}", "other") for at in (1, 3, 4, 5, 6))]
    plan = plan_of(objects, at_once=3)
    assert [each.node for each in plan.blocked] == ["n2"]
    assert [len(each) for each in batches(plan)] == [2, 3]


def test_a_pod_in_two_budgets_is_told_to_leave_one():
    second = budget(minAvailable=0)
    second["metadata"]["name"] = "other"
    plan = plan_of([node("n1"), node("n2"), pod("p1", "n1"), budget(minAvailable=0), second])
    assert plan.blocked[0].pods[0].frees == "leave it in one budget only"


def test_a_pod_without_a_controller_is_lost():
    plan = plan_of([node("n1"), node("n2"), pod("bare", "n1", app="")], at_once=1)
    assert [step.lost for step in plan.steps] == [(), ("default/bare",)]


def test_a_pod_that_only_its_node_takes_waits_for_it():
    bound = pod("p1", "n1")
    bound["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n1"}
    plan = plan_of([node("n1"), node("n2"), bound], at_once=1)
    assert plan.surge == 0
    assert [step.waiting for step in plan.steps] == [(), ("default/p1",)]
    assert plan.pending_after == 0


def test_without_surge_allowed_what_does_not_fit_is_left_out():
    objects = [node("n1"), node("n2"), *(pod(f"p{at}-{on}", on, cpu=4) for at, on in enumerate(("n1", "n2")))]
    plan = plan_of(objects, at_once=1, max_surge=0)
    assert {each.node for each in plan.blocked} == {"n1", "n2"}
    assert plan.pending_after == 0


def test_when_the_effort_is_spent_the_plan_is_finished_and_says_so():
    objects = [node(f"n{at}") for at in range(3)]
    objects += [pod(f"p{at}", f"n{at}", cpu=4) for at in range(3)]
    plan = plan_of(objects, at_once=1, effort=0)
    assert plan.upgraded == 3
    assert not plan.pools[0].is_minimal
    assert plan.notes


def test_pools_and_nodes_that_are_not_there_are_refused():
    with pytest.raises(ChangeError, match="pools are std"):
        plan_of([node("n1")], pools=("gpu",))
    with pytest.raises(ChangeError, match="no node 'x'"):
        plan_of([node("n1")], nodes=("x",))


# -- random ones -----------------------------------------------------------------------------------------------------


class Counted:
    """A random cluster of one resource, and what is where by plain counting."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.size = {f"n{at}": rng.randrange(3, 6) for at in range(rng.randrange(3, 6))}
        self.objects = [node(name, cpu) for name, cpu in self.size.items()]
        self.asks, self.app, self.on = {}, {}, {}
        free = dict(self.size)
        for app in ("w0", "w1", "w2"):
            for number in range(rng.randrange(1, 6)):
                cpu = rng.randrange(1, 4)
                room = [name for name in free if free[name] >= cpu]
                name = rng.choice(room) if room else ""
                if name:
                    free[name] -= cpu
                key = f"default/{app}-{number}"
                self.asks[key], self.app[key], self.on[key] = cpu, app, name
                self.objects.append(pod(f"{app}-{number}", name, app, cpu))
        self.least = {}
        for app in ("w0", "w1"):
            healthy = sum(1 for key, name in self.on.items() if name and self.app[key] == app)
            self.least[app] = max(healthy - rng.randrange(3), 0)
            self.objects.append(budget(app, minAvailable=self.least[app]))

    def start(self, plan):
        """Place what the plan's first state has placed: what was pending and has a node when the first step begins."""
        seen = {}
        for step in plan.steps:
            for move in step.moves:
                seen.setdefault(move.pod, move.node)
        self.on |= seen

    def overfull(self):
        used = Counter()
        for key, name in self.on.items():
            used[name] += self.asks[key]
        return [name for name in self.on.values() if name and used[name] > self.size[name]]


@pytest.mark.parametrize("at_once", [None, 1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_plan_holds_by_plain_counting(seed, at_once):
    world = Counted(seed)
    plan = plan_of(world.objects, at_once=at_once)
    world.start(plan)
    chosen = [name for each in batches(plan) for name in each] + [each.node for each in plan.blocked]
    assert sorted(chosen) == sorted(name for name in world.size if "-new-" not in name)
    assert plan.pending_after <= plan.pending_before
    for step in plan.steps:
        assert not step.lost
        world.size |= {name: world.size[like] for name, like in zip(step.nodes, step.like, strict=False)}
        emptied = set() if step.action == "addSurge" else set(step.nodes)
        stayed = {key for key, name in world.on.items() if name in emptied}
        gone = Counter(world.app[move.pod] for move in step.moves if move.node in emptied)
        had = Counter(world.app[key] for key, name in world.on.items() if name)
        for move in step.moves:
            assert world.on[move.pod] == move.node
            assert step.preempted or not move.node or move.node in emptied  # nobody else has to move
            world.on[move.pod] = move.to
            stayed.discard(move.pod)
        assert not (stayed and step.action == "removeSurge")
        for app, least in world.least.items():
            healthy = sum(1 for key, name in world.on.items() if name and world.app[key] == app)
            assert healthy >= least
            if step.waves == 1:  # all of them left at once
                assert not gone[app] or had[app] - gone[app] >= least
        if step.action == "removeSurge":
            assert not any(name in step.nodes for name in world.on.values())
            for name in step.nodes:
                del world.size[name]
        assert not world.overfull()
    assert sum(not name for name in world.on.values()) <= sum(not name for name in Counted(seed).on.values())


def test_no_surge_node_stays_behind_where_fewer_at_a_time_leave_none():
    """In this cluster four at a time fill one another's gaps, so that one has no place to send its pods to."""
    world = Counted(33)
    found = situation(Snapshot([Document(each["kind"], each, "a test") for each in world.objects]))
    assert UpgradeSearch(found.site(UNWATCHED), UpgradeRequest()).plan().left_behind == ("n0-new-1",)
    plan = plan_of(world.objects)
    assert (plan.surge, plan.left_behind, plan.blocked, plan.notes) == (3, (), (), ())


@pytest.mark.parametrize("at_once", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_with_one_surge_node_fewer_a_step_fails(seed, at_once):
    world = Counted(seed)
    plan = plan_of(world.objects, at_once=at_once)
    (pool,) = plan.pools
    assert pool.is_minimal
    if not pool.surge:
        return
    fewer = plan_of(world.objects, at_once=at_once, max_surge=len(pool.surge) - 1)
    assert len(fewer.blocked) > len(plan.blocked) or batches(fewer) != batches(plan)


def test_some_of_the_random_clusters_need_surge_and_some_are_blocked():
    plans = [plan_of(Counted(seed).objects, at_once=1) for seed in SEEDS]
    assert sum(bool(plan.surge) for plan in plans) > 5
    assert sum(bool(plan.blocked) for plan in plans) > 2


def test_the_same_question_gets_the_same_plan():
    first, second = (plan_of(Counted(4).objects) for _ in range(2))
    assert msgspec.json.encode(first) == msgspec.json.encode(second)
