"""What the observer counts of what the core tells it."""

from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from berth.api.codec import decode
from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.effects import ApiCall
from berth.framework.events import Action, label_of
from berth.framework.status import Code, Status, error, unschedulable
from berth.runtime.observing.logs import as_text
from berth.runtime.observing.metrics import Metrics
from berth.state.queued_pod import QueuedPod
from packages.scheduler.tests.plugins.dra.support import claim, device, device_class, resource_slice
from packages.scheduler.tests.plugins.volumes.world import claim as volume_claim
from packages.scheduler.tests.plugins.volumes.world import storage_class
from packages.scheduler.tests.support import document, once, plugin

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


def counted(metrics, family):
    """The values of a family's samples by their labels' values."""
    text = metrics.exposition().decode()
    found = next(found for found in text_string_to_metric_families(text) if found.name == f"scheduler_{family}")
    return {
        tuple(value for label, value in sorted(sample.labels.items()) if label != "profile"): sample.value
        for sample in found.samples
        if sample.name.endswith(("_total", "_count", family))
    }


def small(name="n1"):
    return make_node(name).capacity(cpu="1", memory="8Gi", pods="10")


def test_without_nodes_a_pod_is_unschedulable_and_nothing_went_wrong(metrics):
    """schedule_one.go, handleSchedulingFailure: ErrNoNodesAvailable comes as a rejection."""
    VirtualCluster(make_pod("web"), instrument=metrics).run()
    assert counted(metrics, "schedule_attempts") == {("unschedulable",): 1}
    assert counted(metrics, "scheduling_attempt_duration_seconds") == {("unschedulable",): 1}
    assert metrics.algorithm_duration.count() == 1


@pytest.mark.parametrize(("answer", "result"), [(unschedulable("no"), "unschedulable"), (error("oh"), "error")])
def test_a_rejection_by_permit_is_no_error(metrics, answer, result):
    plugins = {"Says": plugin("Says", permit=lambda *_: (answer, 0.0))}
    VirtualCluster(small(), make_pod("web"), plugins=plugins, config=document("Says"), instrument=metrics).run()
    assert counted(metrics, "schedule_attempts") == {(result,): 1}
    assert counted(metrics, "scheduling_attempt_duration_seconds") == {(result,): 1}


def test_a_rejection_while_permit_is_waited_for_is_no_error(metrics):
    plugins = {"Waits": plugin("Waits", permit=lambda *_: (Status(Code.WAIT), 5.0))}
    cluster = VirtualCluster(small(), make_pod("web"), plugins=plugins, config=document("Waits"), instrument=metrics)
    cluster.run()
    cluster.advance(6.0)
    assert counted(metrics, "schedule_attempts") == {("unschedulable",): 1}


def sli_seconds(metrics):
    text = metrics.exposition().decode()
    lines = [line for line in text.splitlines() if line.startswith("scheduler_pod_scheduling_sli_duration_seconds_sum")]
    return [float(line.split()[-1]) for line in lines]


def test_the_wait_before_the_first_attempt_counts(metrics):
    """scheduling_queue.go, moveToActiveQ: InitialAttemptTimestamp is when the pod first enters the active queue."""
    cluster = VirtualCluster(small(), instrument=metrics)
    cluster.put(make_pod("web"))
    cluster.now += 45.0
    cluster.run()
    assert sli_seconds(metrics) == [45.0]


def test_the_time_behind_gates_does_not_count(metrics):
    cluster = VirtualCluster(small(), make_pod("web").gate("wait"), instrument=metrics)
    cluster.run()
    cluster.now += 100.0
    cluster.put(make_pod("web"))
    cluster.now += 3.0
    cluster.run()
    assert sli_seconds(metrics) == [3.0]


def incoming(metrics):
    return {tuple(reversed(labels)): times for labels, times in counted(metrics, "queue_incoming_pods").items()}


def test_pods_enter_queues_under_upstreams_names(metrics):
    """backend/queue/scheduling_queue.go; framework/events.go."""
    cluster = VirtualCluster(small(), instrument=metrics)
    cluster.put(make_pod("gated").gate("wait"))
    cluster.put(make_pod("big").request(cpu="2").node_selector({"disk": "ssd"}))
    cluster.run()
    cluster.put(small().label("disk", "ssd"))
    cluster.run()
    assert incoming(metrics) == {
        ("unschedulable", "UnschedulablePodAdd"): 1,
        ("active", "UnschedulablePodAdd"): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 2,
        ("backoff", "NodeUpdateNodeLabel"): 1,
        ("active", "PopFromBackoffQ"): 1,
    }


def test_a_backoff_that_is_over_is_called_so(metrics):
    failing = plugin("Fails", reserve=once(error("oh")), unreserve=lambda *_: None)
    cluster = VirtualCluster(
        small(), make_pod("web"), plugins={"Fails": failing}, config=document("Fails"), instrument=metrics
    )
    cluster.run()
    cluster.advance(3.0)
    assert incoming(metrics) == {
        ("active", "UnschedulablePodAdd"): 1,
        ("backoff", "ScheduleAttemptFailure"): 1,
        ("active", "BackoffComplete"): 1,
    }


def test_events_are_handled_under_upstreams_names(metrics):
    """eventhandlers.go: an update of a pod counts under its general name too, one of a node only by its changes."""
    cluster = VirtualCluster(instrument=metrics)
    pod = make_pod("web").node("n1")
    changes = [
        (small(), {"NodeAdd"}),
        (small().label("a", "b").taint("c"), {"NodeUpdateNodeLabel", "NodeUpdateNodeTaint"}),
        (small().label("a", "b").taint("c"), set()),
        (make_pod("other").scheduler("another"), set()),
        (make_pod("gated").gate("wait"), {"UnschedulablePodAdd"}),
        (make_pod("gated").gate("wait").label("a", "b"), {"UnschedulablePodUpdate", "UnschedulablePodUpdatePodLabel"}),
        (make_pod("gated").gate("wait").label("a", "b").annotation("c", "d"), {"UnschedulablePodUpdate"}),
        (pod, {"AssignedPodAdd"}),
        (make_pod("web").node("n1").label("a", "b"), {"AssignedPodUpdate", "AssignedPodUpdatePodLabel"}),
    ]
    for change, expected in changes:
        before = set(counted(metrics, "event_handling_duration_seconds").items())
        cluster.put(change)
        after = counted(metrics, "event_handling_duration_seconds")
        assert {label for (label,), _ in set(after.items()) - before} == expected
    cluster.delete("Pod", "default/gated")
    cluster.delete("Pod", "default/web")
    cluster.delete("Node", "n1")
    assert {"UnschedulablePodDelete", "AssignedPodDelete", "NodeDelete"} <= {
        label for (label,) in counted(metrics, "event_handling_duration_seconds")
    }


@pytest.mark.parametrize(
    ("kind", "label"),
    [
        ("PersistentVolumeClaim", "PersistentVolumeClaimAdd"),
        ("StorageClass", "storage.k8s.io/StorageClassAdd"),
        ("CSINode", "storage.k8s.io/CSINodeAdd"),
        ("ResourceClaim", "resource.k8s.io/ResourceClaimAdd"),
    ],
)
def test_other_kinds_carry_their_groups(kind, label):
    assert label_of(kind, Action.ADD) == label


@pytest.mark.parametrize("outcome", ["unschedulable", "error"])
def test_an_attempt_without_a_node_ends_at_once(metrics, outcome):
    metrics.decided(decision(make_pod("web").info(), None, outcome), 0.25)
    assert metrics.attempts.value((outcome, PROFILE)) == 1
    assert metrics.algorithm_duration.count() == 1, "a search in vain takes its time too"


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
    metrics.event_handled("NodeAdd", 0.0001)
    metrics.waited_on_permit("Success", 3.0)
    metrics.queue_incoming("active", "UnschedulablePodAdd", None)
    text = metrics.exposition().decode()
    assert 'scheduler_event_handling_duration_seconds_bucket{event="NodeAdd",le="0.0001"} 1.0' in text
    assert 'scheduler_event_handling_duration_seconds_bucket{event="NodeAdd",le="0.2048"} 1.0' in text
    assert 'scheduler_permit_wait_duration_seconds_bucket{le="16.384",result="Success"} 1.0' in text
    assert 'scheduler_queue_incoming_pods_total{event="UnschedulablePodAdd",queue="active"} 1.0' in text


def test_what_has_no_labels_is_there_from_the_start(metrics):
    """So has every counter of client_golang without labels: a first rise from nothing would be no rate."""
    text = metrics.exposition().decode()
    assert "scheduler_pod_scheduled_after_flush_total 0.0" in text
    assert "scheduler_preemption_victims_count 0.0" in text
    assert "scheduler_schedule_attempts_total{" not in text


def test_a_hint_is_counted_and_its_bug_is_logged(metrics, caplog):
    metrics.hinted(make_pod("web").info(), "NodeResourcesFit", "NodeAdd", "Queue", 0.5)
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
    metrics.observe(SimpleNamespace(core=cluster.core, pending_calls={}, fenced_writes={}, lost_races=0))
    text = metrics.exposition().decode()
    assert "scheduler_preemption_attempts_total 2.0" in text
    assert "scheduler_preemption_victims_sum 2.0" in text
    assert 'scheduler_preemption_victims_bucket{le="64"} 1.0' in text
    assert 'scheduler_preemption_goroutines_execution_total{result="success"} 1.0' in text
    assert 'scheduler_preemption_goroutines_duration_seconds_sum{result="success"} 0.5' in text


def test_waits_for_devices_are_counted_by_driver(metrics):
    """KEP-5007, Monitoring: both metrics by profile, driver and status."""
    meta = {"name": "p", "namespace": "default", "uid": "uid-p"}
    uses = [{"name": "c", "resourceClaimName": "c"}]
    pod = decode("Pod", {"metadata": meta, "spec": {"containers": [{"name": "c0"}], "resourceClaims": uses}})
    slow = resource_slice("s", device("d0", bindingConditions=["Ready"]), node="n1")
    stored = claim("c", finalizers=["resource.kubernetes.io/delete-protection"])
    cluster = VirtualCluster(small(), device_class(), slow, stored, pod, instrument=metrics).run()
    (write,) = [request for request in cluster.requests if isinstance(request.effect, ApiCall)]
    given = {"metadata": {"name": "c", "namespace": "default", "uid": "uid-c"}, "spec": {"devices": {}}}
    status = {key: value for key, value in write.effect.body["status"].items() if value is not None}
    cluster.answer(write, result={**given, "status": status})
    cluster.advance(599.0)
    assert counted(metrics, "dra_bindingconditions_allocations") == {}
    cluster.advance(1.0)
    assert counted(metrics, "dra_bindingconditions_allocations") == {("gpu.example.com", "timeout"): 1}
    labels = f'driver="gpu.example.com",profile="{PROFILE}",status="timeout"'
    text = metrics.exposition().decode()
    assert f"scheduler_dra_bindingconditions_wait_duration_seconds_sum{{{labels}}} 600.0" in text


def test_volumes_that_could_not_be_bound_are_counted(metrics):
    """BindPodVolumes counts an error under `bind`."""
    pod = make_pod("p").volume("d", persistentVolumeClaim={"claimName": "d"})
    cluster = VirtualCluster(small(), storage_class("wait"), volume_claim("d"), pod, instrument=metrics).run()
    (write,) = [request for request in cluster.requests if isinstance(request.effect, ApiCall)]
    assert counted(metrics, "volume_scheduling_stage_error") == {}
    cluster.answer(write, error="no")
    assert counted(metrics, "volume_scheduling_stage_error") == {("bind",): 1}


# The rows and modes of TestPreemptionExecutionDurationMetric (preemption/executor_test.go of a later release),
# asked of the metrics of v1.36, which count only what happens beside the cycles.
@pytest.mark.parametrize(("result", "refusal"), [("success", ""), ("error", "delete failed")])
@pytest.mark.parametrize("is_async", [True, False])
def test_preemption_execution_duration_metric(metrics, result, refusal, is_async):
    victim = make_pod("victim").request(cpu="2").node("node1").priority(100)
    gates = {"SchedulerAsyncPreemption": is_async}
    cluster = VirtualCluster(
        make_node("node1").capacity(cpu="2", memory="8Gi"), victim, instrument=metrics, gates=gates
    )
    cluster.answers_evictions = False
    cluster.put(make_pod("preemptor").request(cpu="2").priority(1000))
    cluster.run()
    (asked,) = cluster.requests
    cluster.answer(asked, refusal)
    for each in ("success", "error"):
        assert metrics.preemptions.value((each,)) == (is_async and each == result)
