"""The columnar dry run equals the plain one: the same nodes, the same victims, the same words."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.cycle_state import CycleState
from berth.plugins.preemption.budgets import Budgets
from berth.plugins.preemption.choice import Candidate, cost
from berth.plugins.preemption.columns import ColumnDryRun
from berth.plugins.preemption.dry_run import DryRun
from berth.plugins.preemption.ranked_pods import RankedPods
from berth.testing.invariants import decide
from tests.effort import examples
from tests.plugins.preemption.support import budget

APPS = ("web", "db", "batch")
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def small_node(rng, index):
    size = {"cpu": f"{rng.choice((2, 3, 4))}", "memory": f"{rng.choice((2, 4))}Gi", "pods": f"{rng.choice((3, 5, 9))}"}
    node = make_node(f"n{index}").capacity(size).label(ZONE, f"z{index % 3}")
    return node.taint("dedicated", "x", "NoSchedule") if rng.random() < 0.1 else node


def small_pod(rng, name, priorities):
    pod = make_pod(name).priority(rng.choice(priorities)).label("app", rng.choice(APPS))
    pod.request(cpu=f"{rng.choice((100, 500, 1000, 1500))}m", memory=f"{rng.choice((100, 500, 1000))}Mi")
    if rng.random() < 0.15:
        pod.host_port(rng.choice((80, 443)))
    if rng.random() < 0.1:
        pod.pod_anti_affinity(rng.choice((HOST, ZONE)), {"app": rng.choice(APPS)})
    return pod


def cluster_of(rng):
    count = rng.randint(1, 7)
    cluster = VirtualCluster(*(small_node(rng, index) for index in range(count)), seed=rng.randint(0, 99))
    for index in range(rng.randint(0, 4 * count)):
        pod = small_pod(rng, f"run-{index}", (-5, 0, 0, 3, 7, 50)).node(f"n{rng.randrange(count)}")
        if rng.random() < 0.8:
            pod.set_status(startTime=f"2026-01-0{rng.randint(1, 4)}T00:00:00Z")
        cluster.put(pod)
    for index in range(rng.randint(0, 3)):
        disrupted = [f"run-{rng.randint(0, 9)}"] if rng.random() < 0.3 else []
        cluster.put(budget(f"b{index}", {"app": rng.choice(APPS)}, rng.randint(0, 2), disrupted=disrupted))
    for index in range(rng.choice((0, 0, 1, 2, 8))):
        promised = small_pod(rng, f"promised-{index}", (3, 10, 50)).info()
        cluster.core.nominator.nominate(promised, f"n{rng.randrange(count)}")
    return cluster


def preemptor(rng):
    pod = small_pod(rng, "new", (1, 5, 10)).request(cpu=f"{rng.choice((0, 1, 2))}")
    if rng.random() < 0.25:
        pod.spread(rng.choice((HOST, ZONE)), {"app": rng.choice(APPS)})
    if rng.random() < 0.15:
        pod.pod_affinity(ZONE, {"app": rng.choice(APPS)})
    return pod


def outcome(cluster, pod, memos, seed):
    cluster.rng.seed(seed)
    attempt = decide(cluster.core, pod, memos=memos)
    victims = [victim.name for victim in attempt.outcome.victims]
    return attempt.outcome.fits, attempt.outcome.nominated_node_name, victims, attempt.outcome.message


@settings(deadline=None, max_examples=examples(150))
@given(seed=st.integers(0, 2**32))
def test_columns_and_plain_forms_agree(seed):
    rng = random.Random(seed)
    cluster = cluster_of(rng)
    for _ in range(3):
        pod = preemptor(rng).info()
        assert outcome(cluster, pod, True, seed) == outcome(cluster, pod, False, seed)
        _stir(rng, cluster)


@settings(deadline=None, max_examples=examples(150))
@given(seed=st.integers(0, 2**32))
def test_row_for_row_both_say_the_same(seed):
    """The search confirms what it chooses, and would hide a difference; here every row is looked at."""
    rng = random.Random(seed)
    cluster = cluster_of(rng)
    pod = preemptor(rng).info()
    profile, state = cluster.core.profiles["default-scheduler"], CycleState()
    table, budgets = cluster.core.cache.table, Budgets(cluster.core.objects).all()
    if profile.run_pre_filter(state, pod).status is not None:
        return
    plain = DryRun(profile, state, pod, budgets)
    columns = ColumnDryRun(profile, profile.what_if(state, pod), RankedPods(table), pod, budgets, plain)
    assert columns.is_possible
    tried = columns.on(table.rows())
    why_not = {row: status for status, rows in tried.refusals() for row in rows.tolist()}
    for position, row in enumerate(tried.rows.tolist()):
        expected = plain.on(table.view(row))
        if isinstance(expected, Candidate):
            assert tried.freed[position]
            assert tuple(cost(expected)) == tuple(column.item(position) for column in tried.costs)
        else:
            assert not tried.freed[position]
            assert why_not[row] == expected


def _stir(rng, cluster):
    """Change something, so that what is kept must be brought up to date."""
    pods = [key for kind, key in cluster.objects if kind == "Pod"]
    nodes = [key for kind, key in cluster.objects if kind == "Node"]
    change = rng.randrange(5)
    if change == 0 and pods:
        cluster.delete("Pod", rng.choice(pods))
    elif change == 1:
        cluster.put(small_pod(rng, f"late-{rng.random()}", (0, 3)).node(rng.choice(nodes)))
    elif change == 2 and len(nodes) > 1:
        cluster.delete("Node", rng.choice(nodes))
    elif change == 3:
        cluster.put(make_node(f"late-{rng.randint(0, 9)}").capacity(cpu="3", memory="4Gi", pods="4").label(ZONE, "z0"))
    else:
        cluster.core.nominator.nominate(small_pod(rng, "promised-0", (3, 50)).info(), rng.choice(nodes))


def test_a_crowded_row_makes_the_roster_wider():
    node = make_node("a").capacity(cpu="20", memory="64Gi", pods="110")
    crowd = [make_pod(f"p{index}").node("a").priority(index % 3).request(cpu="500m") for index in range(40)]
    cluster = VirtualCluster(node, *crowd)
    pod = make_pod("new").priority(9).request(cpu="2").info()
    freed = outcome(cluster, pod, True, 1)
    assert freed == outcome(cluster, pod, False, 1)
    assert len(freed[2]) == 4
    assert all(int(name[1:]) % 3 == 0 for name in freed[2])
