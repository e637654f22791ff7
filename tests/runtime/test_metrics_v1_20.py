"""That time's metrics beside today's.

Names, labels, buckets: pkg/scheduler/metrics/metrics.go of release-1.20 (the last three names: of release-1.18).
"""

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from berth.config.load import default_config
from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.status import unschedulable
from berth.runtime.observing.metrics import Metrics
from berth.runtime.observing.metrics_v1_20 import MetricsV120, metrics_for
from packages.scheduler.tests.support import document, plugin
from tests.runtime.world import World, of_generation, scheduling
from tests.waiting import until

V1_20 = "v1.20"
NAMES = {
    "schedule_attempts_total",
    "e2e_scheduling_duration_seconds",
    "scheduling_algorithm_duration_seconds",
    "scheduling_algorithm_preemption_evaluation_seconds",
    "binding_duration_seconds",
    "preemption_victims",
    "preemption_attempts_total",
    "pending_pods",
    "scheduler_goroutines",
    "pod_scheduling_duration_seconds",
    "pod_scheduling_attempts",
    "framework_extension_point_duration_seconds",
    "plugin_execution_duration_seconds",
    "queue_incoming_pods_total",
    "permit_wait_duration_seconds",
    "scheduler_cache_size",
    "scheduling_duration_seconds",
    "scheduling_algorithm_predicate_evaluation_seconds",
    "scheduling_algorithm_priority_evaluation_seconds",
}


class Steady:
    """A stopwatch that shows a second more each time."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


def samples(metrics):
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def node(name):
    return make_node(name).capacity(cpu="1", memory="8Gi")


def low(name, node_name):
    return make_pod(name).request(cpu="900m").priority(0).node(node_name)


def cluster(*objects, **options):
    metrics = MetricsV120(Steady())
    found = VirtualCluster(*objects, generation=V1_20, instrument=metrics, stopwatch=Steady(), **options)
    return found, metrics


@pytest.mark.parametrize(("generation", "kind"), [(V1_20, MetricsV120), ("v1.36", Metrics)])
def test_the_generation_decides_which_names_there_are(generation, kind):
    assert type(metrics_for(msgspec.structs.replace(default_config(), generation=generation))) is kind


async def test_every_name_of_that_time_is_exposed_beside_todays():
    config = of_generation(V1_20)
    world, metrics = World(nodes=2, cpu="1"), metrics_for(config)
    world.add_pod("web")
    world.add_pod("big", cpu="5")
    async with scheduling(world, config, instrument=metrics) as scheduler:
        metrics.observe(scheduler)
        await until(lambda: world.node_of("web") and world.condition("big"))
        await until(lambda: metrics.binding_duration.count() and not scheduler.core.cache.assumed_count)
        metrics.waited_on_permit("Success", 1.0)
        families = list(text_string_to_metric_families(metrics.exposition().decode()))
    exposed = {family.name for family in families} | {f"{family.name}_total" for family in families}
    assert {f"scheduler_{name}" for name in NAMES} - exposed == set()
    assert {"scheduler_scheduling_attempt_duration_seconds", "scheduler_cache_size"} <= exposed
    sizes = next(family for family in families if family.name == "scheduler_scheduler_cache_size")
    work = next(family for family in families if family.name == "scheduler_scheduler_goroutines")
    assert {sample.labels["work"] for sample in work.samples} == {"binding", "prioritizing_extender"}
    assert {sample.labels["type"]: sample.value for sample in sizes.samples} == {
        "nodes": 2, "pods": 1, "assumed_pods": 0,
    }  # fmt: skip


def test_the_parts_of_a_cycle_are_timed():
    found, metrics = cluster(node("n1"), node("n2"), make_pod("first").request(cpu="100m"))
    found.run()  # in the first attempt the plugins are timed too, which takes more looks at the stopwatch
    before = samples(metrics)
    found.put(make_pod("a").request(cpu="100m"))
    found.run()
    seen = {name: value - before.get(name, 0) for name, value in samples(metrics).items()}
    # Each look at the stopwatch is a second after the one before: two at each point, and one when each step is done.
    assert seen["scheduler_scheduling_algorithm_predicate_evaluation_seconds_sum", ()] == 2 * (2 + 1)
    assert seen["scheduler_scheduling_algorithm_priority_evaluation_seconds_sum", ()] == 2 * (2 + 1)
    assert seen["scheduler_scheduling_duration_seconds_sum", (("operation", "predicate_evaluation"),)] == 2 * (2 + 1)
    assert seen["scheduler_scheduling_duration_seconds_count", (("operation", "binding"),)] == 1
    assert seen["scheduler_binding_duration_seconds_count", ()] == 1
    labels = (("profile", "default-scheduler"), ("result", "scheduled"))
    assert seen["scheduler_e2e_scheduling_duration_seconds_count", labels] == 1
    assert seen["scheduler_pod_scheduling_duration_seconds_count", (("attempts", "1"),)] == 1


def test_preemption_is_counted_with_its_victims():
    found, metrics = cluster(node("n1"), low("x", "n1"), make_pod("urgent").request(cpu="900m").priority(9))
    found.run()
    seen = samples(metrics)
    assert seen["scheduler_preemption_victims_sum", ()] == 1
    assert seen["scheduler_preemption_victims_bucket", (("le", "5"),)] == 1
    assert seen["scheduler_preemption_victims_bucket", (("le", "+Inf"),)] == 1
    assert sum(name == "scheduler_preemption_victims_bucket" for name, _ in seen) == 11, "LinearBuckets(5, 5, 10)"
    assert seen["scheduler_scheduling_algorithm_preemption_evaluation_seconds_count", ()] >= 1


def test_bindings_under_way_are_counted():
    found, metrics = cluster(node("n1"), make_pod("a").request(cpu="100m"), make_pod("b").request(cpu="100m"))
    found.answers_binds = False
    found.run()
    binding = ("scheduler_scheduler_goroutines", (("work", "binding"),))
    assert samples(metrics)[binding] == 2
    found.answer(found.requests[0], error="refused")
    found.answer(found.requests[0])
    assert samples(metrics)[binding] == 0


def test_incoming_pods_carry_that_times_events():
    found, metrics = cluster(node("n1"), make_pod("big").request(cpu="4"))
    found.run()
    found.put(node("n1").label("new", "label"))
    found.advance(2.0)
    seen = samples(metrics)
    assert {
        (labels[1][1], labels[0][1]): value
        for (name, labels), value in seen.items()
        if name == "scheduler_queue_incoming_pods_total"
    } == {
        ("active", "PodAdd"): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 2,
        ("backoff", "NodeLabelChange"): 1,
        ("active", "BackoffComplete"): 1,
    }


def test_a_pod_that_permit_turns_away_is_not_being_bound():
    rejecting = plugin("No", permit=lambda *_: (unschedulable("no"), 0.0))
    found, metrics = cluster(node("n1"), plugins={"No": rejecting}, config=document("No"))
    found.put(make_pod("a"))
    found.run()
    assert samples(metrics)["scheduler_scheduler_goroutines", (("work", "binding"),)] == 0
