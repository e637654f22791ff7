"""What is kept of rows that can be freed equals what a dry run finds there, however much has changed in between."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.cycle_state import CycleState
from berth.framework.status import error
from berth.plugins.preemption.budgets import Budgets
from berth.plugins.preemption.choice import Candidate, cost
from berth.plugins.preemption.columns import ColumnDryRun
from berth.plugins.preemption.dry_run import DryRun
from berth.plugins.preemption.outcomes import MAX_BUDGETS, DryRunOutcomes, KeptDryRun
from berth.plugins.preemption.ranked_pods import RankedPods
from berth.plugins.preemption.refused import LowestPriorities
from berth.testing.invariants import decide
from packages.scheduler.tests.plugins.preemption.small_clusters import cluster_of, outcome, preemptor, stir
from packages.scheduler.tests.plugins.preemption.support import budget, nodes, running
from tests.effort import examples


def replicas(cluster, builder, count):
    """Pods that share a shape, as those of one workload do."""
    found = []
    for index in range(count):
        builder.metadata.update({"name": f"new-{index}", "uid": f"default/new-{index}"})
        found.append(cluster.core.intake.info(builder.build()))
    assert len({id(pod.shape) for pod in found}) == 1
    return found


class Kept:
    """A cluster with what is kept of its rows for one shape, and which rows are tried."""

    def __init__(self, cluster, pod):
        self.cluster, self.pod, self.tried = cluster, pod, []
        self.profile, self.table = cluster.core.profiles["default-scheduler"], cluster.core.cache.table
        self.budgets = Budgets(cluster.core.objects)
        self.lowest, self.ranked = LowestPriorities(self.table), RankedPods(self.table)
        self.outcomes = DryRunOutcomes(self.table, cluster.core.nominator, self.ranked, self.budgets)

    def on_all_rows(self):
        """What is said of all rows, and the plain dry run; None where PreFilter rejects the pod or nothing is kept."""
        state, budgets = CycleState(), self.budgets.all()
        if self.profile.run_pre_filter(state, self.pod).status is not None:
            return None
        basis = self.profile.basis(state, self.pod)
        plain, what_if = DryRun(self.profile, state, self.pod, budgets), self.profile.what_if(state, self.pod)
        if basis is None or not what_if.is_possible:
            return None
        self.outcomes.catch_up(basis, self.pod.priority)
        self.tried = [self.table.names[row] for row in self.outcomes.unknown(self.table.rows()).tolist()]
        kept = KeptDryRun(
            self.outcomes,
            lambda rows: self.lowest.are_below(self.pod.priority, rows),
            lambda: ColumnDryRun(self.profile, what_if, self.ranked, self.pod, budgets, plain),
            plain,
            self.table,
        )
        return kept.on(self.table.rows()), plain


@settings(deadline=None, max_examples=examples(100))
@given(seed=st.integers(0, 2**32))
def test_row_for_row_what_is_kept_is_what_a_dry_run_finds(seed):
    rng = random.Random(seed)
    cluster = cluster_of(rng)
    kept = Kept(cluster, preemptor(rng).info())
    for _ in range(8):
        found = kept.on_all_rows()
        if found is not None:
            tried, plain = found
            for position, row in enumerate(tried.rows.tolist()):
                expected = plain.on(kept.table.view(row))
                assert tried.freed[position] == isinstance(expected, Candidate)
                if isinstance(expected, Candidate):
                    assert tried.costs.at(position) == cost(expected)
        stir(rng, cluster)


@settings(deadline=None, max_examples=examples(100))
@given(seed=st.integers(0, 2**32))
def test_replicas_preempt_as_if_nothing_were_kept(seed):
    rng = random.Random(seed)
    cluster = cluster_of(rng)
    for pod in (*replicas(cluster, preemptor(rng), 4), *replicas(cluster, preemptor(rng), 4)):
        assert outcome(cluster, pod, True, seed) == outcome(cluster, pod, False, seed)
        stir(rng, cluster)


FULL = ("n1", "n2", "n3", "n4")


def full_cluster():
    return VirtualCluster(*nodes(*FULL), *(running(f"low-{name}", name, cpu="4", app="web") for name in FULL))


def test_only_rows_that_have_changed_are_tried_again():
    cluster = full_cluster()
    kept = Kept(cluster, make_pod("new").priority(9).request(cpu="4").info())
    changes = {
        "n1": lambda: cluster.put(running("tiny", "n1", cpu="0")),
        "n2": lambda: cluster.put(make_node("n2").capacity(cpu="4", memory="9Gi", pods="10")),
        "n3": lambda: cluster.core.nominator.nominate(make_pod("promised").priority(9).info(), "n3"),
        "n4": lambda: cluster.put(running("low-n4", "n4", cpu="4", started=3, app="web")),
    }
    assert kept.on_all_rows() is not None
    assert sorted(kept.tried) == list(FULL)
    for name, change in changes.items():
        change()
        kept.on_all_rows()
        assert kept.tried == [name]
    cluster.core.nominator.withdraw("default/promised")
    kept.on_all_rows()
    assert kept.tried == ["n3"]
    kept.on_all_rows()
    assert kept.tried == []


def test_a_budget_concerns_the_rows_where_it_may_be_broken():
    cluster = full_cluster()
    cluster.put(running("front", "n2", cpu="0", app="web"))
    cluster.put(running("important", "n3", cpu="0", priority=9, app="web"))
    kept = Kept(cluster, make_pod("new").priority(9).request(cpu="4").info())

    def tried_after(*budgets):
        for one in budgets:
            cluster.put(one)
        kept.on_all_rows()
        return kept.tried

    assert tried_after() == list(FULL)
    assert tried_after(budget("all", {"app": "web"}, 0)) == list(FULL)
    assert tried_after(budget("all", {"app": "web"}, 1)) == list(FULL), "it was broken, and is not any more"
    assert tried_after(budget("all", {"app": "web"}, 2)) == ["n2"]
    assert tried_after(budget("all", {"app": "web"}, 3)) == []
    assert tried_after(budget("all", {"app": "db"}, 0), budget("else", {"app": "web"}, 0, namespace="else")) == []
    cluster.put(budget("all", {"app": "web"}, 1))
    kept.on_all_rows()
    cluster.delete("PodDisruptionBudget", "default/all")
    assert tried_after() == ["n2"]
    many = [budget(f"many-{number}", {"app": "none"}, 0) for number in range(MAX_BUDGETS + 1)]
    assert tried_after(*many) == list(FULL)


@pytest.mark.parametrize("change", ["another basis", "a larger table"])
def test_nothing_is_known_once_what_all_rows_depend_on_has_changed(change):
    cluster = full_cluster()
    kept = Kept(cluster, make_pod("new").priority(9).request(cpu="4").info())
    kept.on_all_rows()
    if change == "another basis":
        kept.outcomes.catch_up("another", kept.pod.priority)
    else:
        for index in range(kept.table.capacity):
            cluster.put(make_node(f"more-{index}").capacity(cpu="1", memory="1Gi", pods="10"))
    kept.on_all_rows()
    assert set(FULL) <= set(kept.tried)


def test_errors_are_not_kept():
    kept = Kept(full_cluster(), make_pod("new").priority(9).info())
    outcomes, rows = kept.outcomes, kept.table.rows()
    outcomes.catch_up("basis", 9)
    outcomes.refuse(rows)
    outcomes.learn_row(rows.item(0), error("broken"))
    assert outcomes.unknown(rows).tolist() == [rows.item(0)]


def test_what_is_known_takes_as_much_of_the_budget_of_work_as_trying_it_again():
    cluster = full_cluster()
    pods = replicas(cluster, make_pod("new").priority(9).request(cpu="4"), 2)
    first, second = (decide(cluster.core, pod, memos=True).state.work.spent for pod in pods)
    assert first == second > 0


def test_the_pod_that_has_just_started_goes_though_it_had_not_when_rows_were_ranked():
    """Of equal pods those that have run longest are spared; a status that says when a pod started counts at once."""
    cluster = full_cluster()
    pods = replicas(cluster, make_pod("new").priority(9).request(cpu="4"), 2)
    decide(cluster.core, pods[0], memos=True)
    for day, name in enumerate(FULL, start=1):
        cluster.put(running(f"low-{name}", name, cpu="4", started=day if name != "n2" else 20, app="web"))
    for memos in (True, False):
        found = {decide(cluster.core, pod, memos=memos).outcome.nominated_node_name for pod in pods for _ in range(5)}
        assert found == {"n2"}
