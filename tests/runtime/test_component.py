"""What `/metrics` says beside the scheduler's own families, and the endpoints next to it.

Names, types, labels and stability: component-base and client-go of v1.36, and pkg/scheduler/metrics.
"""

import re
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families
from yarl import URL

from berth.api.errors import ConnectionLost
from berth.config.load import default_config
from berth.core.builders import make_pod
from berth.kube.credentials.sources import ClusterAccess
from berth.kube.http.client import HttpTransport
from berth.runtime.observing.component import ComponentMetrics, LeaseState
from berth.runtime.observing.pod_resources import PodResources, pod_limits
from berth.runtime.observing.rest_client import RestClientMetrics
from berth.runtime.observing.tallies import exponential_buckets
from berth.runtime.observing.work_queues import WorkQueues
from packages.scheduler.tests.kube.http.test_client import POD, Overloaded, transport_to
from tests.runtime.test_serving import at_work
from tests.runtime.world import World, configuration
from tests.waiting import until


class ExpectedMetric(NamedTuple):
    """What upstream says of a family. Labels are None where no sample comes of what the test does."""

    type: str
    labels: str | None
    stability: str
    buckets: tuple[float, ...] = ()


CYCLE, EVENT = exponential_buckets(0.001, 2, 15), exponential_buckets(0.0001, 2, 12)
PLUGIN, BATCH = exponential_buckets(0.00001, 1.5, 20), exponential_buckets(0.00001, 2, 12)
LONG, QUEUE = exponential_buckets(0.01, 2, 20), exponential_buckets(1e-8, 10, 10)
POINT = "extension_point"

FAMILIES = {
    "scheduler_schedule_attempts_total": ExpectedMetric("counter", "profile result", "STABLE"),
    "scheduler_event_handling_duration_seconds": ExpectedMetric("histogram", "event", "ALPHA", EVENT),
    "scheduler_scheduling_attempt_duration_seconds": ExpectedMetric("histogram", "profile result", "STABLE", CYCLE),
    "scheduler_scheduling_algorithm_duration_seconds": ExpectedMetric("histogram", "", "ALPHA", CYCLE),
    "scheduler_preemption_victims": ExpectedMetric("histogram", "", "STABLE", exponential_buckets(1, 2, 7)),
    "scheduler_preemption_attempts_total": ExpectedMetric("counter", "", "STABLE"),
    "scheduler_pending_pods": ExpectedMetric("gauge", "queue", "STABLE"),
    "scheduler_inflight_events": ExpectedMetric("gauge", "event", "ALPHA"),
    "scheduler_goroutines": ExpectedMetric("gauge", "operation", "BETA"),
    "scheduler_batch_attempts_total": ExpectedMetric("counter", None, "ALPHA"),
    "scheduler_batch_cache_flushed_total": ExpectedMetric("counter", None, "ALPHA"),
    "scheduler_pod_scheduling_sli_duration_seconds": ExpectedMetric("histogram", "attempts", "BETA", LONG),
    "scheduler_pod_scheduling_attempts": ExpectedMetric("histogram", "", "STABLE", exponential_buckets(1, 2, 5)),
    "scheduler_pod_scheduled_after_flush_total": ExpectedMetric("counter", "", "ALPHA"),
    "scheduler_framework_extension_point_duration_seconds": ExpectedMetric(
        "histogram", f"{POINT} profile status", "STABLE", EVENT
    ),
    "scheduler_plugin_execution_duration_seconds": ExpectedMetric(
        "histogram", f"{POINT} plugin status", "ALPHA", PLUGIN
    ),
    "scheduler_queueing_hint_execution_duration_seconds": ExpectedMetric("histogram", None, "ALPHA", PLUGIN),
    "scheduler_queue_incoming_pods_total": ExpectedMetric("counter", "event queue", "STABLE"),
    "scheduler_permit_wait_duration_seconds": ExpectedMetric("histogram", None, "BETA", CYCLE),
    "scheduler_cache_size": ExpectedMetric("gauge", "type", "ALPHA"),
    "scheduler_unschedulable_pods": ExpectedMetric("gauge", "plugin profile", "BETA"),
    "scheduler_plugin_evaluation_total": ExpectedMetric("counter", f"{POINT} plugin profile", "BETA"),
    "scheduler_preemption_goroutines_duration_seconds": ExpectedMetric("histogram", None, "ALPHA", LONG),
    "scheduler_preemption_goroutines_execution_total": ExpectedMetric("counter", None, "ALPHA"),
    "scheduler_async_api_call_execution_total": ExpectedMetric("counter", "call_type result", "ALPHA"),
    "scheduler_async_api_call_execution_duration_seconds": ExpectedMetric(
        "histogram", "call_type result", "ALPHA", CYCLE
    ),
    "scheduler_pending_async_api_calls": ExpectedMetric("gauge", "call_type", "ALPHA"),
    "scheduler_resourceclaim_creates_total": ExpectedMetric("counter", None, "ALPHA"),
    "scheduler_dra_bindingconditions_allocations_total": ExpectedMetric("counter", None, "ALPHA"),
    "scheduler_dra_bindingconditions_wait_duration_seconds": ExpectedMetric("histogram", None, "ALPHA"),
    "scheduler_get_node_hint_duration_seconds": ExpectedMetric("histogram", None, "ALPHA", BATCH),
    "scheduler_store_schedule_results_duration_seconds": ExpectedMetric("histogram", None, "ALPHA", BATCH),
    "scheduler_podgroup_schedule_attempts_total": ExpectedMetric("counter", None, "ALPHA"),
    "scheduler_podgroup_scheduling_attempt_duration_seconds": ExpectedMetric("histogram", None, "ALPHA", CYCLE),
    "scheduler_podgroup_scheduling_algorithm_duration_seconds": ExpectedMetric("histogram", "", "ALPHA", CYCLE),
    "scheduler_volume_binder_cache_requests_total": ExpectedMetric("counter", None, "ALPHA"),
    "scheduler_volume_scheduling_stage_error_total": ExpectedMetric("counter", None, "ALPHA"),
    "kubernetes_build_info": ExpectedMetric(
        "gauge",
        "build_date compiler git_commit git_tree_state git_version go_version major minor platform",
        "BETA",
    ),
    "kubernetes_feature_enabled": ExpectedMetric("gauge", "name stage", "BETA"),
    "leader_election_master_status": ExpectedMetric("gauge", "name", "ALPHA"),
    "workqueue_adds_total": ExpectedMetric("counter", "name", "BETA"),
    "workqueue_depth": ExpectedMetric("gauge", "name", "BETA"),
    "workqueue_retries_total": ExpectedMetric("counter", "name", "BETA"),
    "workqueue_unfinished_work_seconds": ExpectedMetric("gauge", "name", "BETA"),
    "workqueue_longest_running_processor_seconds": ExpectedMetric("gauge", "name", "BETA"),
    "workqueue_queue_duration_seconds": ExpectedMetric("histogram", "name", "BETA", QUEUE),
    "workqueue_work_duration_seconds": ExpectedMetric("histogram", "name", "BETA", QUEUE),
    "rest_client_requests_total": ExpectedMetric("counter", None, "ALPHA"),
    "rest_client_request_duration_seconds": ExpectedMetric("histogram", None, "ALPHA"),
    "rest_client_request_size_bytes": ExpectedMetric("histogram", None, "ALPHA"),
    "rest_client_response_size_bytes": ExpectedMetric("histogram", None, "ALPHA"),
    "rest_client_rate_limiter_duration_seconds": ExpectedMetric("histogram", None, "ALPHA"),
    "rest_client_request_retries_total": ExpectedMetric("counter", None, "ALPHA"),
}
"""The reference's list, and the families of component-base. The parser drops `_total` from the names of counters."""


def families(text):
    return {
        found.name + ("_total" if found.type == "counter" else ""): found
        for found in text_string_to_metric_families(text)
    }


def values(text):
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for found in families(text).values()
        for sample in found.samples
    }


async def test_a_live_scheduler_exposes_upstreams_families_as_they_are():
    world = World(nodes=2, cpu="1")
    world.add_pod("web")
    world.add_pod("big", cpu="5")
    async with at_work(world, configuration(leader_elect=True)) as client:
        await until(lambda: world.events("Scheduled") and world.condition("big"))
        _, text = await client.text("/metrics")
    found = families(text)
    assert FAMILIES.keys() - found.keys() == set()
    for name, told in FAMILIES.items():
        family = found[name]
        assert family.type == told.type, name
        assert family.documentation.startswith(f"[{told.stability}] "), name
        labels = {" ".join(sorted(sample.labels.keys() - {"le"})) for sample in family.samples}
        assert labels == ({told.labels} if told.labels is not None else set()), name
        bounds = {float(sample.labels["le"]) for sample in family.samples if "le" in sample.labels}
        if told.buckets and bounds:
            assert sorted(bounds) == pytest.approx([*told.buckets, float("inf")]), name
    unknown = {name for name in found if not name.startswith(("process_", "berth_"))} - FAMILIES.keys()
    assert unknown == set(), "families that upstream does not have, and that do not say they are ours"
    assert {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds"} <= found.keys()


def exposed(config, lease=None, queues=None):
    return ComponentMetrics(config.feature_gates).exposition(lease, queues or WorkQueues()).decode()


def test_the_lease_and_the_gates_are_told():
    config = default_config()
    found = values(exposed(config, LeaseState("kube-scheduler", is_ours=True)))
    assert found["leader_election_master_status", "kube-scheduler"] == 1
    assert found["kubernetes_feature_enabled", "GangScheduling", "ALPHA"] == 0
    assert found["kubernetes_feature_enabled", "SchedulerAsyncPreemption", "BETA"] == 1
    assert found["kubernetes_feature_enabled", "SchedulerQueueingHints", ""] == 1, "generally available: no stage"
    standby = values(exposed(config, LeaseState("kube-scheduler", is_ours=False)))
    assert standby["leader_election_master_status", "kube-scheduler"] == 0
    assert not re.search("^leader_election_master_status", exposed(config), flags=re.MULTILINE)


def test_a_work_queue_tells_what_waits_and_how_long_work_takes():
    now = [10.0]
    queues = WorkQueues(lambda: now[0])
    queue = queues.queue("pod_binding")
    first, _second = queue.put(), queue.put()
    now[0] += 2.0
    number = queue.begin(first)
    now[0] += 3.0
    found = values(exposed(default_config(), queues=queues))
    assert found["workqueue_adds_total", "pod_binding"] == 2
    assert found["workqueue_depth", "pod_binding"] == 1
    assert found["workqueue_queue_duration_seconds_sum", "pod_binding"] == 2.0
    assert found["workqueue_unfinished_work_seconds", "pod_binding"] == 3.0
    assert found["workqueue_longest_running_processor_seconds", "pod_binding"] == 3.0
    queue.end(number)
    found = values(exposed(default_config(), queues=queues))
    assert found["workqueue_work_duration_seconds_sum", "pod_binding"] == 3.0
    assert found["workqueue_unfinished_work_seconds", "pod_binding"] == 0


async def test_checks_count_when_they_are_asked():
    world = World()
    async with at_work(world) as client:
        assert "kubernetes_healthchecks_total{" not in (await client.text("/metrics/slis"))[1]
        await client.text("/readyz")
        await client.text("/readyz?exclude=ping")
        _, text = await client.text("/metrics/slis")
    found = values(text)
    assert found["kubernetes_healthcheck", "informer-sync", "readyz"] == 1
    assert found["kubernetes_healthchecks_total", "informer-sync", "success", "readyz"] == 2
    assert found["kubernetes_healthchecks_total", "ping", "success", "readyz"] == 1
    assert "# HELP kubernetes_healthcheck [STABLE] " in text


async def test_each_informer_tells_how_stale_it_is_and_how_often_it_listed():
    async with at_work(World()) as client:
        _, text = await client.text("/metrics")
    found = values(text)
    assert 0 <= found["berth_informer_staleness_seconds", "pods"] < 60
    assert found["berth_informer_lists_total", "pods"] == 1
    assert found["berth_informer_comparisons_total", "pods"] == found["berth_informer_repairs_total", "pods"] == 0
    assert found["berth_informer_lists_total", "resourceclaims.resource.k8s.io"] == 1


async def test_resources_of_pods_are_served_by_pod_and_node():
    world = World(nodes=1, cpu="4")
    world.add_pod("web", cpu="1500m")
    async with at_work(world) as client:
        await until(lambda: world.node_of("web"))
        _, text = await client.text("/metrics/resources")
    samples = families(text)["kube_pod_resource_request"].samples
    assert {sample.labels["resource"]: sample.value for sample in samples}["cpu"] == 1.5
    assert {sample.labels["unit"] for sample in samples if sample.labels["resource"] == "cpu"} == {"cores"}


def test_requests_and_limits_have_upstreams_labels_and_units():
    """resources_test.go, Test_podResourceCollector_Handler."""
    resources = {"requests": {"cpu": "2", "custom": "3"}, "limits": {"memory": "256Mi", "custom": "6"}}
    pod = make_pod("foo", "test").node("node-one").set_spec(containers=[{"name": "c", "resources": resources}])
    text = PodResources(lambda: [pod.info()]).exposition().decode()
    whose = 'namespace="test",node="node-one",pod="foo",priority=""'
    name = pod.build().spec.scheduler_name
    for line in (
        f'kube_pod_resource_request{{{whose},resource="cpu",scheduler="{name}",unit="cores"}} 2.0',
        f'kube_pod_resource_request{{{whose},resource="custom",scheduler="{name}",unit=""}} 3.0',
        f'kube_pod_resource_limit{{{whose},resource="memory",scheduler="{name}",unit="bytes"}} 2.68435456e+08',
        f'kube_pod_resource_limit{{{whose},resource="custom",scheduler="{name}",unit=""}} 6.0',
    ):
        assert line in text


def test_limits_add_up_like_requests_and_take_overhead_where_they_are():
    def limited(name, cpu):
        return {"name": name, "resources": {"limits": {"cpu": cpu}}}

    pod = make_pod().set_spec(
        containers=[limited("a", "1"), limited("b", "1")], initContainers=[limited("i", "5")], overhead={"cpu": "500m"}
    )
    assert pod_limits(pod.build()) == {"cpu": 5500}
    assert pod_limits(make_pod().set_spec(overhead={"cpu": "500m", "memory": "1Gi"}).build()) == {}


@pytest.mark.usefixtures("each_way")
async def test_requests_to_the_api_server_are_counted_with_their_retries():
    async def no_sleep(_seconds):
        return None

    watcher = RestClientMetrics()
    async with transport_to(Overloaded(1), sleep=no_sleep, watcher=watcher) as transport:
        host = URL(transport._access.server).authority
        await transport.get(POD, "ns", "p")
    assert watcher.requests.value(("429", host, "GET")) == 1
    assert watcher.requests.value(("200", host, "GET")) == 1
    assert watcher.retries.value(("429", "GET", host)) == 1
    assert watcher.duration.count((host, "GET")) == 2
    assert watcher.received.count((host, "GET")) == 1
    assert watcher.throttling.count((host, "GET")) == 2


@pytest.mark.usefixtures("each_way")
async def test_a_request_without_an_answer_has_the_code_of_an_error():
    watcher = RestClientMetrics()
    transport = HttpTransport(ClusterAccess("http://127.0.0.1:1"), watcher=watcher)
    with pytest.raises(ConnectionLost):
        await transport.get(POD, "ns", "p")
    await transport.close()
    assert watcher.requests.value(("<error>", "127.0.0.1:1", "GET")) == 1
