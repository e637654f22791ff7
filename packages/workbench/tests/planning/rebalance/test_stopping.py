"""A search for moves ends where it is told to, and where its effort is used up: counted in questions, not in seconds.

A plugin that lets every pod pass counts how often the scheduler is asked about one. Both clusters have moves with more
orders than anybody can try, and one pod that never comes along, so that no placement that CP-SAT proposes is reached.
"""

import threading
from contextlib import suppress
from typing import ClassVar

import pytest

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth_workbench.planning.rebalance.pace import QUESTION_S
from berth_workbench.planning.rebalance.request import RebalanceRequest
from berth_workbench.simulation.watch import StoppedError, WorkWatch
from packages.workbench.tests.asking import rebalance
from packages.workbench.tests.planning.rebalance.test_movability import documents

NODES, STRAYS, MAX_MOVES = 16, 12, 20
DISKS = ("slow", "fast")
HOSTNAME = "kubernetes.io/hostname"
KEPT = ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false")


class Questions:
    """Counts the questions that are asked, and stops the search at one of them."""

    def __init__(self, stop_at=None):
        self.count = 0
        self.stop_at = stop_at
        self.watch = WorkWatch()
        self._stop_in_time()

    def _stop_in_time(self):
        if self.stop_at is not None and self.count >= self.stop_at:
            self.watch.stop()

    def plugin(self):
        asked = self

        class Counting:
            name: ClassVar[str] = "Counting"

            def __init__(self, args, handle):
                pass

            def pre_filter(self, state, pod):
                asked.count += 1
                asked._stop_in_time()

        return Counting


def strays():
    """Pods that belong on fast disks and run on slow ones. All but one, which stays beside a pod there, can move."""
    nodes = [make_node(f"n{i:02}").capacity(cpu="16", memory="64Gi").label("disk", DISKS[i % 2]) for i in range(NODES)]
    pods = [replica(f"stray-{i}").node(f"n{i % 4 * 2:02}").node_selector({"disk": "fast"}) for i in range(STRAYS)]
    stuck = replica("stuck").node("n00").node_selector({"disk": "fast"}).pod_affinity(HOSTNAME, {"app": "anchor"})
    return documents(*nodes, *pods, stuck, replica("anchor").node("n00"))


def crowd():
    """One node that would be empty without some pods, all but one of which can go elsewhere, in any order.

    The last one has to be in a zone with a pod that stays, which is nothing that CP-SAT's model could say.
    """
    nodes = [make_node(f"n{i:02}").capacity(cpu="16", memory="64Gi").zone("there") for i in range(NODES)]
    nodes += [make_node(name).capacity(cpu="16", memory="64Gi").zone("here") for name in ("crowded", "full")]
    stay = [replica(f"stays-{i}").node(f"n{i:02}").annotation(*KEPT) for i in range(NODES)]
    anchor = replica("anchor").node("full").request(cpu="15500m").annotation(*KEPT)
    stuck = replica("stuck").node("crowded").pod_affinity("topology.kubernetes.io/zone", {"app": "anchor"})
    return documents(*nodes, *stay, anchor, stuck, *(replica(f"p-{i}").node("crowded") for i in range(STRAYS)))


def replica(name):
    app = name.partition("-")[0]
    pod = make_pod(name).label("app", app).owned_by("ReplicaSet", app).phase("Running")
    return pod.request(cpu="500m", memory="512Mi")


def plan_with(questions, goal="empty-nodes", cluster=crowd, **more):
    made = VirtualCluster(plugins=[questions.plugin()])
    return rebalance(
        cluster(),
        RebalanceRequest(goal, max_moves=MAX_MOVES, **more),
        config=made.config,
        registry=made.registry,
        watch=questions.watch,
    )


AFTERWARDS = STRAYS + MAX_MOVES * (NODES + STRAYS)
"""So many questions may follow the one at which somebody stops the search: who breaks a rule in the end, and for each
move which nodes have to be cordoned for it, and who is placed when a node is opened again."""


@pytest.mark.parametrize(
    ("goal", "cluster"),
    [("repair-spread", strays), ("even-out", strays), ("empty-nodes", strays), ("empty-nodes", crowd)],
)
def test_a_search_that_is_stopped_asks_no_more_than_it_takes_to_prove_what_it_has(goal, cluster):
    whole = Questions()
    plan_with(whole, goal, cluster, effort_s=0.2)
    for part in range(1, 6):
        questions, plan = Questions(stop_at=whole.count * part // 6), None
        with suppress(StoppedError):  # in the first part there is nothing yet
            plan = plan_with(questions, goal, cluster, effort_s=0.2)
        assert questions.count - questions.stop_at <= AFTERWARDS, part
        assert plan is None or plan.after.violations <= plan.before.violations


@pytest.mark.parametrize("effort_s", [0.02, 0.2, 1.0])
def test_putting_moves_in_order_is_paid_out_of_the_effort(effort_s):
    """The moves of twelve pods have more orders than a day has seconds, and none of them brings the last one along."""
    without, whole = Questions(), Questions()
    plan_with(without, effort_s=0.0)
    plan = plan_with(whole, effort_s=effort_s)
    assert (plan.method, plan.moves, plan.proven_best) == ("cp-sat", 0, False)
    assert 0 < whole.count - without.count <= effort_s / QUESTION_S + AFTERWARDS


def test_the_solvers_thread_has_ended_when_there_is_a_plan():
    whole = Questions()
    plan_with(whole, effort_s=0.2)
    for part in range(1, 4):
        plan_with(Questions(stop_at=whole.count * part // 4), effort_s=0.2)
        assert "cp-sat" not in [thread.name for thread in threading.enumerate()]
