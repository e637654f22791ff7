"""Queues over time, beside what can be worked out by hand."""

import pytest

from berth_kueue.lives import Queues
from berth_kueue.simulation import Arrival, QueueSimulation
from packages.kueue.tests.clusters import GPU, cluster_queue, flavor, local_queue, namespace, workload

QUEUE = [namespace("team"), flavor("f"), local_queue("team", "team")]


def simulated(arrivals, quota=4, until_s=float("inf"), **queue):
    queues = Queues([*QUEUE, cluster_queue("team", {"f": quota}, **queue)], {"start": "2026-03-02T09:00:00Z"})
    return QueueSimulation(queues).run(arrivals, until_s=until_s)


def test_one_after_the_other_where_there_is_room_for_one():
    """Four GPUs: of three jobs with three each, the second and third wait for those before them."""
    jobs = [Arrival(number * 10.0, workload("team", f"w{number}", 1, 3, number), 100.0) for number in range(3)]
    result = simulated(jobs)
    assert [(each.started, each.ended) for each in result.lives.values()] == [(0, 100), (100, 200), (200, 300)]
    assert result.waits().workloads == 3 and result.waits().most_s == 180
    assert result.utilisation["f"][GPU] == pytest.approx(3 / 4)
    assert result.shares["team"] == pytest.approx(3 / 4)


def test_who_is_preempted_begins_again():
    preemption = {"withinClusterQueue": "LowerPriority"}
    jobs = [
        Arrival(0.0, workload("team", "low", 1, 3), 100.0),
        Arrival(40.0, workload("team", "high", 1, 3, 1, priority=10), 50.0),
    ]
    result = simulated(jobs, preemption=preemption)
    low, high = result.lives["team/low"], result.lives["team/high"]
    assert (high.started, high.ended) == (40, 90)
    assert (low.started, low.ended, low.preemptions) == (90, 190, 1)


def test_time_may_be_up_before_the_end():
    result = simulated([Arrival(0.0, workload("team", "w", 1, 4), 100.0)], until_s=50.0)
    assert result.until == 50 and result.lives["team/w"].ended is None
    assert result.utilisation["f"][GPU] == pytest.approx(1)


def test_what_ends_at_an_unknown_time_does_not_end():
    held = workload("team", "held", 1, 4, queue="team", flavor="f")
    queues = Queues([*QUEUE, cluster_queue("team", {"f": 4}), held])
    result = QueueSimulation(queues).run([Arrival(0.0, workload("team", "w", 1, 1, 5), 1.0)], until_s=1000)
    assert result.lives["team/w"].started is None and result.lives["team/held"].ended is None


def test_shares_that_are_alike_are_fair():
    result = simulated([Arrival(0.0, workload("team", "w", 1, 4), 10.0)])
    assert result.fairness == 1
    assert result._replace(shares={"a": 1.0, "b": 0.0}).fairness == 0.5
