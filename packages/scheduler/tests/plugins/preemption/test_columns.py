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
from packages.scheduler.tests.plugins.preemption.small_clusters import cluster_of, outcome, preemptor, stir
from tests.effort import examples


@settings(deadline=None, max_examples=examples(150))
@given(seed=st.integers(0, 2**32))
def test_columns_and_plain_forms_agree(seed):
    rng = random.Random(seed)
    cluster = cluster_of(rng)
    for _ in range(3):
        pod = preemptor(rng).info()
        assert outcome(cluster, pod, True, seed) == outcome(cluster, pod, False, seed)
        stir(rng, cluster)


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


def test_a_crowded_row_makes_the_roster_wider():
    node = make_node("a").capacity(cpu="20", memory="64Gi", pods="110")
    crowd = [make_pod(f"p{index}").node("a").priority(index % 3).request(cpu="500m") for index in range(40)]
    cluster = VirtualCluster(node, *crowd)
    pod = make_pod("new").priority(9).request(cpu="2").info()
    freed = outcome(cluster, pod, True, 1)
    assert freed == outcome(cluster, pod, False, 1)
    assert len(freed[2]) == 4
    assert all(int(name[1:]) % 3 == 0 for name in freed[2])
