"""Gangs in upgrade plans: how often each is stopped, counted again from the moves, and once where that can be."""

import random
from collections import Counter

from berth.config.feature_gates import feature_gates
from berth.config.load import load_config
from berth.core.builders import make_node, make_pod
from berth_workbench.planning.upgrade.search import UpgradeRequest, UpgradeSearch
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import Snapshot
from packages.workbench.tests.asking import plan_upgrade
from packages.workbench.tests.planning.mixed_worlds import worlds

PLAIN = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
LOOKS_AT_GROUPS = load_config(PLAIN, "a test", feature_gates({"GenericWorkload": True, "GangScheduling": True}))


def node(name, cpu=4):
    return make_node(name).capacity(cpu=str(cpu), memory="64Gi", pods="110").document


def gang(name, nodes, needed, cpu=4):
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    policy = {"schedulingPolicy": {"gang": {"minCount": needed}}}
    owner = {"kind": "ReplicaSet", "metadata": metadata, "spec": {"replicas": len(nodes), "selector": {}}}
    pods = [
        make_pod(f"{name}-{at}").request(cpu=str(cpu)).group(name).owned_by("ReplicaSet", name).node(on).document
        for at, on in enumerate(nodes)
    ]
    return [{"kind": "PodGroup", "metadata": metadata, "spec": policy}, owner, *pods]


def plan_of(objects, config=LOOKS_AT_GROUPS, **request):
    documents = [Document(each["kind"], each, "a test") for each in objects]
    return plan_upgrade(Snapshot(documents), UpgradeRequest(**request), config=config)


def stops_by_moves(plan, needed, placed):
    """Count from the moves alone in how many steps a gang has too few of its pods on nodes."""
    where, counts = dict(placed), Counter()
    for step in plan.steps:
        for name, least in needed.items():
            mine = [on for pod, on in where.items() if pod.startswith(f"default/{name}-") and on]
            drained = () if step.action == "addSurge" else step.nodes
            if len(mine) >= least > sum(on not in drained for on in mine):
                counts[name] += 1
        assert not step.lost
        # A pod that waits for its node is on it again in the end, and has not moved.
        where |= {move.pod: move.to for move in step.moves}
    return {f"default/{name}": count for name, count in counts.items()}


def test_the_nodes_of_a_gang_go_together_so_that_it_is_stopped_once():
    a, b = ["n0", "n2"], ["n1", "n3"]
    objects = [*(node(f"n{at}") for at in range(4)), *(node(f"free-{at}") for at in range(4))]
    plan = plan_of([*objects, *gang("a", a, 2), *gang("b", b, 2)])
    assert plan.gang_stops == {"default/a": 1, "default/b": 1}
    assert plan.surge == 0
    for nodes in (a, b):
        assert any(set(nodes) <= set(step.nodes) for step in plan.steps)
    alone = plan_of([*objects, *gang("a", a, 2), *gang("b", b, 2)], at_once=1)
    assert alone.gang_stops == {"default/a": 2, "default/b": 2}


def test_a_gang_that_needs_fewer_pods_than_it_has_is_not_stopped_by_one_that_moves():
    objects = [node("n0"), node("n1"), node("free"), *gang("a", ["n0", "n1"], 1)]
    assert plan_of(objects, at_once=1).gang_stops == {}


def test_a_gang_for_which_there_is_room_only_one_by_one_is_drained_so_and_that_is_told():
    objects = [*(node(f"n{at}") for at in range(3)), node("free"), *gang("a", ["n0", "n1", "n2"], 3)]
    plan = plan_of(objects, max_surge=0)
    assert not plan.blocked
    assert plan.gang_stops == {"default/a": 3}


@worlds(20)
def test_stops_are_those_that_the_moves_make_and_fewer_than_where_gangs_are_not_looked_at(seeds, monkeypatch):
    stopped = fewer = 0
    for seed in seeds:
        rng = random.Random(seed)
        names = [f"n{at}" for at in range(rng.randint(4, 8))]
        objects, needed, placed, free = [node(name) for name in names], {}, {}, dict.fromkeys(names, 4)
        for group in ("a", "b", "c")[: rng.randint(1, 3)]:
            cpu = rng.choice((1, 2, 4))
            nodes = [name for name in names if free[name] >= cpu and rng.random() < 0.4]
            if nodes:
                needed[group] = rng.randint(1, len(nodes))
                objects += gang(group, nodes, needed[group], cpu)
                placed |= {f"default/{group}-{at}": on for at, on in enumerate(nodes)}
                free |= {name: free[name] - cpu for name in nodes}
        plan, one_by_one, story = plan_of(objects), plan_of(objects, at_once=1), f"seed {seed}"
        with monkeypatch.context() as patched:
            patched.setattr(UpgradeSearch, "_with_gangs", lambda _, left, size: list(left[:size]))
            apart = plan_of(objects)
        for each in (plan, one_by_one, apart):
            assert each.upgraded + len(each.blocked) == len(names), story
            assert each.gang_stops == stops_by_moves(each, needed, placed), story
        stopped += sum(plan.gang_stops.values())
        fewer += sum(apart.gang_stops.values()) - sum(plan.gang_stops.values())
    assert stopped
    assert fewer > 0
