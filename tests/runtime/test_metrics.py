"""What the observer counts of what the core tells it."""

from types import SimpleNamespace

import pytest

from berth.runtime.observing.logs import as_text
from berth.runtime.observing.metrics import Metrics
from berth.state.queued_pod import QueuedPod
from berth.testing.builders import make_node, make_pod
from berth.testing.virtual import VirtualCluster

PROFILE = "default-scheduler"


class Stopwatch:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def stopwatch():
    return Stopwatch()


@pytest.fixture
def metrics(stopwatch):
    return Metrics(stopwatch)


def decision(pod, chosen, outcome="scheduled"):
    return SimpleNamespace(
        pod=pod, chosen=chosen, outcome=outcome, profile=PROFILE, attempts=1, message="no", started=0.0, laps=[]
    )


def queued(pod, attempts, since=0.0):
    made = QueuedPod(pod, 0.0)
    made.attempts, made.initial_attempt = attempts, since
    return made


def test_an_attempt_ends_with_the_binding(metrics, stopwatch):
    pod = make_pod("web").info()
    metrics.decided(decision(pod, "n1"), 0.5)
    assert metrics.attempts.value(("scheduled", PROFILE)) == 0
    stopwatch.now += 1.5
    metrics.bound(queued(pod, 1), "n1", 10.0)
    assert metrics.attempts.value(("scheduled", PROFILE)) == 1
    text = metrics.exposition().decode()
    duration = 'scheduler_scheduling_attempt_duration_seconds_sum{profile="default-scheduler",result="scheduled"} 2.0'
    assert duration in text
    assert "scheduler_scheduling_algorithm_duration_seconds_sum 0.5" in text
    assert 'scheduler_pod_scheduling_sli_duration_seconds_sum{attempts="1"} 10.0' in text


def test_a_binding_that_fails_is_an_error(metrics):
    pod = make_pod("web").info()
    metrics.decided(decision(pod, "n1"), 0.5)
    metrics.binding_failed(pod, "refused")
    metrics.binding_failed(pod, "told twice")
    assert metrics.attempts.value(("error", PROFILE)) == 1
    assert metrics.attempts.value(("scheduled", PROFILE)) == 0


@pytest.mark.parametrize("outcome", ["unschedulable", "error"])
def test_an_attempt_without_a_node_ends_at_once(metrics, outcome):
    metrics.decided(decision(make_pod("web").info(), None, outcome), 0.25)
    assert metrics.attempts.value((outcome, PROFILE)) == 1
    assert metrics.algorithm_duration.count() == 0


@pytest.mark.parametrize(("attempts", "label"), [(1, "1"), (14, "14"), (15, "15+"), (99, "15+")])
def test_attempts_are_told_apart_up_to_fifteen(metrics, attempts, label):
    metrics.bound(queued(make_pod("web").info(), attempts), "n1", 1.0)
    assert metrics.sli_duration.count((label,)) == 1


def test_a_pod_that_a_flush_saved_is_counted(metrics):
    saved = queued(make_pod("web").info(), 2)
    saved.was_flushed = True
    metrics.bound(saved, "n1", 1.0)
    assert "scheduler_pod_scheduled_after_flush_total 1.0" in metrics.exposition().decode()


def test_names_and_buckets_are_upstreams(metrics):
    metrics.event_handled("NodeAdded", 0.0001)
    metrics.waited_on_permit("Success", 3.0)
    metrics.queue_incoming("active", "PodAdd")
    text = metrics.exposition().decode()
    assert 'scheduler_event_handling_duration_seconds_bucket{event="NodeAdded",le="0.0001"} 1.0' in text
    assert 'scheduler_event_handling_duration_seconds_bucket{event="NodeAdded",le="0.2048"} 1.0' in text
    assert 'scheduler_permit_wait_duration_seconds_bucket{le="16.384",result="Success"} 1.0' in text
    assert 'scheduler_queue_incoming_pods_total{event="PodAdd",queue="active"} 1.0' in text


def test_what_has_no_labels_is_there_from_the_start(metrics):
    """So has every counter of client_golang without labels: a first rise from nothing would be no rate."""
    text = metrics.exposition().decode()
    assert "scheduler_pod_scheduled_after_flush_total 0.0" in text
    assert "scheduler_preemption_victims_count 0.0" in text
    assert "scheduler_schedule_attempts_total{" not in text


def test_a_hint_is_counted_and_its_bug_is_logged(metrics, caplog):
    metrics.hinted("NodeResourcesFit", "NodeAdd", "Queue", 0.5)
    text = metrics.exposition().decode()
    labels = 'event="NodeAdd",hint="Queue",plugin="NodeResourcesFit"'
    assert f"scheduler_queueing_hint_execution_duration_seconds_sum{{{labels}}} 0.5" in text
    metrics.hint_broke(make_pod("web").info(), "Mine", "NodeAdd", RuntimeError("a hint's bug"))
    (line,) = map(as_text, caplog.records)
    assert line.startswith('"QueueingHintFn returns error" err="RuntimeError: a hint\'s bug" event="NodeAdd"')
    assert line.endswith(' plugin="Mine" pod="default/web"')


def test_what_is_counted_is_logged_too(metrics, caplog):
    caplog.set_level("DEBUG", "berth.scheduler")
    pod = make_pod("web").info()
    metrics.bound(queued(pod, 1), "n1", 1.0)
    metrics.binding_failed(pod, "the node is gone")
    assert caplog.messages == [
        "Successfully bound pod to node",
        "Error scheduling pod; retrying",
    ]


def test_preemption_is_counted_by_upstreams_names(metrics):
    low = [make_pod(f"v{n}").request(cpu="1").node("n1") for n in range(2)]
    node = make_node("n1").capacity(cpu="2", memory="8Gi")
    cluster = VirtualCluster(node, *low, make_pod("never").request(cpu="2").priority(5, "Never"), instrument=metrics)
    cluster.answers_evictions = False
    cluster.run()
    cluster.put(make_pod("new").request(cpu="2").priority(10))
    cluster.run()
    cluster.now += 0.5
    while cluster.requests:
        cluster.answer(cluster.requests[0])
    metrics.observe(SimpleNamespace(core=cluster.core, pending_calls={}))
    text = metrics.exposition().decode()
    assert "scheduler_preemption_attempts_total 2.0" in text
    assert "scheduler_preemption_victims_sum 2.0" in text
    assert 'scheduler_preemption_victims_bucket{le="64"} 1.0' in text
    assert 'scheduler_preemption_goroutines_execution_total{result="success"} 1.0' in text
    assert 'scheduler_preemption_goroutines_duration_seconds_sum{result="success"} 0.5' in text
