"""kube-scheduler's metrics, by its names, labels and buckets: an observer of the core, and gauges read when scraped.

`Metrics` is the core's instrument; the health server gives out `exposition()`. What the process itself reports (leases,
feature gates, requests) is in `component`. Families without a mechanism behind them exist and stay empty: the views of
`berth.engine` replace opportunistic batching for all pods, without hints that could be used or not, and since its cache
of decisions was removed, no code upstream counts requests to the volume binder's cache.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, assert_never

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from berth.agreement.observer import ObservingCore
from berth.agreement.results import LOST_POINTS_BUCKETS, share_of
from berth.core.core import Core
from berth.cycle.decision import Decision
from berth.cycle.instrument import Times
from berth.cycle.schedule import NO_NODES
from berth.decisions.by_plugins import PluginFigure, figures_of
from berth.engine.promise_check import BrokenPromise
from berth.framework.health import PluginHealth
from berth.framework.observations import DevicesAwaited, Observation, VolumeStageFailed
from berth.runtime.observing.cycle_log import SchedulerLog
from berth.runtime.observing.tallies import CounterTally, HistogramTally, SummaryTally, exponential_buckets
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod

if TYPE_CHECKING:
    from berth.runtime.scheduler import LiveScheduler

PREFIX = "scheduler_"
STABLE, BETA, ALPHA = "STABLE", "BETA", "ALPHA"
"""How far one may rely on a metric, as Kubernetes says it in the help text."""
MOST_ATTEMPTS_TOLD_APART = 15

CYCLE_BUCKETS = exponential_buckets(0.001, 2, 15)
EVENT_BUCKETS = exponential_buckets(0.0001, 2, 12)
PLUGIN_BUCKETS = exponential_buckets(0.00001, 1.5, 20)
BATCH_BUCKETS = exponential_buckets(0.00001, 2, 12)


class Metrics(SchedulerLog, Collector):
    """Counts what the core does, and reads its state when scraped."""

    def __init__(self, stopwatch: Callable[[], float] = time.perf_counter) -> None:
        self._stopwatch = stopwatch
        self._scheduler: LiveScheduler | None = None
        self._started: dict[str, tuple[float, str]] = {}
        """When each attempt whose binding is under way began, and its profile, by pod uid."""
        self.attempts = counter(
            STABLE, "schedule_attempts", "Attempts to schedule pods, by result and profile.", "result", "profile"
        )
        self.attempt_duration = histogram(
            STABLE,
            "scheduling_attempt_duration_seconds",
            "Scheduling attempt latency in seconds (scheduling algorithm + binding).",
            CYCLE_BUCKETS,
            "result",
            "profile",
        )
        self.algorithm_duration = histogram(
            ALPHA, "scheduling_algorithm_duration_seconds", "Scheduling algorithm latency in seconds.", CYCLE_BUCKETS
        )
        self.event_handling = histogram(
            ALPHA, "event_handling_duration_seconds", "Event handling latency in seconds.", EVENT_BUCKETS, "event"
        )
        self.extension_points = histogram(
            STABLE,
            "framework_extension_point_duration_seconds",
            "Latency of running all plugins of an extension point.",
            EVENT_BUCKETS,
            "extension_point",
            "status",
            "profile",
        )
        self.plugins = histogram(
            ALPHA,
            "plugin_execution_duration_seconds",
            "Duration of running a plugin at an extension point, of one attempt in ten.",
            PLUGIN_BUCKETS,
            "plugin",
            "extension_point",
            "status",
        )
        self._evaluations: dict[tuple[str, str, tuple[str, ...]], Times] = {}
        self.sli_duration = histogram(
            BETA,
            "pod_scheduling_sli_duration_seconds",
            "Latency of a pod from when it first enters the active queue to its binding, by the attempts that it took.",
            exponential_buckets(0.01, 2, 20),
            "attempts",
        )
        self.pod_attempts = histogram(
            STABLE, "pod_scheduling_attempts", "Attempts until a pod was scheduled.", exponential_buckets(1, 2, 5)
        )
        self.incoming = counter(
            STABLE, "queue_incoming_pods", "Pods added to scheduling queues, by event and queue.", "queue", "event"
        )
        self.hints = histogram(
            ALPHA,
            "queueing_hint_execution_duration_seconds",
            "Latency of a plugin's queueing hint, by the event and what it said.",
            PLUGIN_BUCKETS,
            "plugin",
            "event",
            "hint",
        )
        self.permit_wait = histogram(
            BETA, "permit_wait_duration_seconds", "Duration of waiting on permit.", CYCLE_BUCKETS, "result"
        )
        self.after_flush = counter(
            ALPHA, "pod_scheduled_after_flush", "Pods scheduled after a flush of the unschedulable by age."
        )
        self.victims = histogram(
            STABLE, "preemption_victims", "Pods chosen to be preempted.", exponential_buckets(1, 2, 7)
        )
        self.preemption_duration = histogram(
            ALPHA,
            "preemption_goroutines_duration_seconds",
            "Duration of preemptions beside the scheduling cycles, until the last victim is asked to go.",
            exponential_buckets(0.01, 2, 20),
            "result",
        )
        self.preemptions = counter(
            ALPHA, "preemption_goroutines_execution", "Preemptions beside the scheduling cycles, by result.", "result"
        )
        self.api_calls = counter(
            ALPHA, "async_api_call_execution", "Requests to the API server, by type and result.", "call_type", "result"
        )
        self.api_call_duration = histogram(
            ALPHA,
            "async_api_call_execution_duration_seconds",
            "Duration of requests to the API server, with their retries, by type and result.",
            CYCLE_BUCKETS,
            "call_type",
            "result",
        )
        self.claims = counter(
            ALPHA, "resourceclaim_creates", "ResourceClaims created for pods' extended resources, by status.", "status"
        )
        self.group_attempts = counter(
            ALPHA,
            "podgroup_schedule_attempts",
            "Attempts to schedule pod groups, by result and profile.",
            "result",
            "profile",
        )
        self.group_attempt_duration = histogram(
            ALPHA,
            "podgroup_scheduling_attempt_duration_seconds",
            "Pod group scheduling attempt latency in seconds.",
            CYCLE_BUCKETS,
            "result",
            "profile",
        )
        self.group_algorithm_duration = histogram(
            ALPHA,
            "podgroup_scheduling_algorithm_duration_seconds",
            "Pod group scheduling algorithm latency in seconds.",
            CYCLE_BUCKETS,
        )
        self.device_waits = counter(
            ALPHA,
            "dra_bindingconditions_allocations",
            "Attempts that waited for devices with binding conditions, by driver and how they ended.",
            "profile",
            "driver",
            "status",
        )
        self.device_wait_duration = histogram(
            ALPHA,
            "dra_bindingconditions_wait_duration_seconds",
            "Time that PreBind waited for binding conditions.",
            exponential_buckets(0.1, 2, 14),
            "profile",
            "driver",
            "status",
        )
        self.volume_errors = counter(
            ALPHA, "volume_scheduling_stage_error", "Errors of stages of volume scheduling.", "operation"
        )
        self.conflicts = Counter[str]()
        """Conflicts with other schedulers that the core has found, by kind."""
        self.lookups = CounterTally(
            "berth_unconfirmed_bindings",
            "Bound pods that no watch confirmed in time and that were read, by where they were found.",
            ("found",),
        )
        self.shadow_decisions = CounterTally(
            "berth_shadow_decisions",
            "Decisions of shadow profiles, by what would have become of the pod (berth.cycle.shadow).",
            ("shadow", "profile", "kind"),
        )
        self.shadow_causes = CounterTally(
            "berth_shadow_differences",
            "Decisions that a shadow profile would have made otherwise, by each plugin that made the difference.",
            ("shadow", "kind", "plugin"),
        )
        self.shadow_skips = CounterTally(
            "berth_shadow_skipped", "Attempts that a shadow profile did not look at, by reason.", ("shadow", "reason")
        )
        self.observed_pods = CounterTally(
            "berth_observed_pods",
            "Pods that another scheduler has bound, by how that agrees with what is decided here (docs/observe.md).",
            ("result",),
        )
        self.lost_points = HistogramTally(
            "berth_observed_lost_points",
            "By how many points the best node was better than the one that a sample of the nodes had led to.",
            tuple(map(float, LOST_POINTS_BUCKETS)),
        )
        self.plugins_out = CounterTally(
            "berth_plugin_out",
            "Times that an optional plugin was taken out, since it kept failing.",
            ("plugin", "profile"),
        )
        self.broken_promises = CounterTally(
            "berth_plugin_broken_promises",
            "Faults that checks of promises have found (--check-promises): a plugin answers by more than it promises.",
            ("plugin",),
        )
        self._with_core = True
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)

    def observe(self, scheduler: "LiveScheduler") -> None:
        """Read the gauges from this scheduler."""
        self._scheduler = scheduler

    def exposition(self, *, with_core: bool = True) -> bytes:
        """Everything in Prometheus' text format.

        Without the core, which may be busy, only what was counted. Each count has one writer, and is read atomically.
        """
        self._with_core = with_core
        return generate_latest(self.registry)

    # -- told by the core ----------------------------------------------------------------------------------

    def decided(self, decision: Decision, seconds: float) -> None:
        """A chosen node is half an attempt: the binding is the rest."""
        super().decided(decision, seconds)
        self.algorithm_took(decision, seconds)
        if decision.chosen is not None:
            self._started[decision.pod.uid] = (self._stopwatch() - seconds, decision.profile)
        else:
            # A cluster without nodes is not an error, although the attempt ends where errors do.
            result = "unschedulable" if decision.message == NO_NODES else decision.outcome
            self._ended(result, decision.profile, seconds)

    def algorithm_took(self, decision: Decision, seconds: float) -> None:
        """The search for a node is over, whatever it found (schedule_one.go, schedulingAlgorithm)."""
        self.algorithm_duration.observe(seconds)

    def group_decided(self, profile: str, result: str, seconds: float, algorithm_seconds: float) -> None:
        """The cycle of a group has ended."""
        labels = (result, profile)
        self.group_attempts.add(labels)
        self.group_attempt_duration.observe(seconds, labels)
        self.group_algorithm_duration.observe(algorithm_seconds)

    def bound(self, queued: QueuedPod, node_name: str, now: float) -> None:
        """The attempt is over, and so is the pod's way through the queues."""
        super().bound(queued, node_name, now)
        uid = queued.pod.uid
        started = self._started.pop(uid, None)
        if started is not None:
            self._ended("scheduled", started[1], self._stopwatch() - started[0])
        self.pod_attempts.observe(queued.attempts)
        if queued.initial_attempt is not None:
            self.sli_duration.observe(now - queued.initial_attempt, (attempts_label(queued.attempts),))
        if queued.was_flushed:
            self.after_flush.add()

    def binding_failed(self, pod: PodInfo, reason: str, *, is_rejection: bool = False, is_gone: bool = False) -> None:
        """The attempt has failed."""
        super().binding_failed(pod, reason, is_rejection=is_rejection, is_gone=is_gone)
        started = self._started.pop(pod.uid, None)
        if started is not None:
            result = "unschedulable" if is_rejection else "error"
            self._ended(result, started[1], self._stopwatch() - started[0])

    def extension_point(self, profile: str, point: str, status: str, seconds: float) -> None:
        """A point has been run."""
        self.extension_points.observe(seconds, (point, status, profile))

    def plugin_run(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """A plugin of a sampled attempt."""
        self.plugins.observe(seconds, (plugin, point, status))

    def evaluations(self, profile: str, point: str, plugins: tuple[str, ...]) -> Times:
        """Return the number of these plugins, which is read when scraped."""
        return self._evaluations.setdefault((profile, point, plugins), Times())

    def hinted(self, pod: PodInfo, plugin: str, event: str, hint: str, seconds: float) -> None:
        """A hint was asked."""
        self.hints.observe(seconds, (plugin, event, hint))

    def hinted_alike(self, pods: Sequence[PodInfo], plugin: str, event: str, hint: str) -> None:
        """An answer was reused for other pods, which took no time."""
        self.hints.observe(0.0, (plugin, event, hint), len(pods))

    def queue_incoming(self, queue: str, event: str, queued: QueuedPod) -> None:
        """A pod entered a queue."""
        self.incoming.add((queue, event))

    def waited_on_permit(self, result: str, seconds: float) -> None:
        """Permit's wait is over."""
        self.permit_wait.observe(seconds, (result,))

    def making_room(self, preemptor: PodInfo, victims_on: Mapping[str, Sequence[PodInfo]]) -> None:
        """Nodes were chosen to be freed of these pods."""
        self.victims.observe(sum(map(len, victims_on.values())))

    def room_made(self, has_failed: bool, seconds: float) -> None:
        """The victims are on their way, or one of them stays."""
        result = ("error" if has_failed else "success",)
        self.preemption_duration.observe(seconds, result)
        self.preemptions.add(result)

    def api_called(self, call_type: str, *, has_failed: bool, seconds: float) -> None:
        """A request is over."""
        labels = (call_type, "error" if has_failed else "success")
        self.api_calls.add(labels)
        self.api_call_duration.observe(seconds, labels)

    def claim_created(self, *, has_failed: bool) -> None:
        """Creating a claim has succeeded or failed."""
        self.claims.add(("failure" if has_failed else "success",))

    def plugin_observed(self, observation: Observation) -> None:
        """Devices were waited for, or volumes were not bound."""
        match observation:
            case DevicesAwaited(profile=profile, drivers=drivers, status=status, seconds=seconds):
                for driver in drivers:
                    self.device_waits.add((profile, driver, status))
                    self.device_wait_duration.observe(seconds, (profile, driver, status))
            case VolumeStageFailed(stage=stage):
                self.volume_errors.add((stage,))
            case _:
                assert_never(observation)

    def conflicted(self, pod: PodInfo, how: str) -> None:
        """Another scheduler was faster."""
        super().conflicted(pod, how)
        self.conflicts[how] += 1

    def looked_for(self, pod: PodInfo, found: str, detail: str) -> None:
        """A bound pod was read, since no watch confirmed it."""
        super().looked_for(pod, found, detail)
        self.lookups.add((found,))

    def shadowed(self, shadow: str, of: str, kind: str, plugins: Sequence[str]) -> None:
        """A shadow has decided."""
        self.shadow_decisions.add((shadow, of, kind))
        for plugin in plugins:
            self.shadow_causes.add((shadow, kind, plugin))

    def shadow_skipped(self, shadow: str, reason: str) -> None:
        """A shadow has skipped a pod."""
        self.shadow_skips.add((shadow, reason))

    def observed(self, result: str, points: int) -> None:
        """A pod was judged that another scheduler has bound."""
        self.observed_pods.add((result,))
        if result == "sampled":
            self.lost_points.observe(float(points))

    def plugin_health(self, health: PluginHealth) -> None:
        """A plugin goes, is tried, or comes back."""
        super().plugin_health(health)
        if health.state == "out":
            self.plugins_out.add((health.name, health.profile))

    def promise_broken(self, broken: BrokenPromise) -> None:
        """A promise was broken."""
        super().promise_broken(broken)
        self.broken_promises.add((broken.plugin,))

    def event_handled(self, event: str, seconds: float) -> None:
        """An event was taken in."""
        self.event_handling.observe(seconds, (event,))

    def _ended(self, result: str, profile: str, seconds: float) -> None:
        """An attempt is over, with its binding where it had one."""
        labels = (result, profile)
        self.attempts.add(labels)
        self.attempt_duration.observe(seconds, labels)

    # -- read at the scrape --------------------------------------------------------------------------------

    def _tallies(self) -> Iterator[CounterTally | HistogramTally | SummaryTally]:
        """Yield every tally among the attributes, which are not listed once more, so that none can be forgotten."""
        for value in tuple(vars(self).values()):
            if isinstance(value, CounterTally | HistogramTally | SummaryTally):
                yield value
        yield from without_mechanism()

    def collect(self) -> Iterator[Metric]:
        """All families."""
        for tally in self._tallies():
            yield from tally.collect()
        yield plugin_evaluations(self._evaluations)
        if self._scheduler is not None and self._with_core:
            core = self._scheduler.core
            if isinstance(core, ObservingCore):
                yield from agreement_lately(core)
            yield goroutines(len(self._started))
            yield preemption_attempts(core)
            yield pending_pods(core)
            yield cache_size(core)
            yield unschedulable_pods(core)
            yield inflight_events(core)
            yield pending_calls(self._scheduler.pending_calls)
            yield fenced_writes(self._scheduler.fenced_writes)
            yield conflicts(self.conflicts, self._scheduler.lost_races)
            yield node_calls(core)
            yield from plugin_figures(figures_of(core.profiles.values()))


def attempts_label(attempts: int) -> str:
    """A number of attempts as a label; large numbers share one."""
    return str(attempts) if attempts < MOST_ATTEMPTS_TOLD_APART else f"{MOST_ATTEMPTS_TOLD_APART}+"


def counter(stability: str, name: str, help_text: str, *labels: str) -> CounterTally:
    """A counter with the scheduler's prefix; `name` is without `_total`."""
    return CounterTally(PREFIX + name, f"[{stability}] {help_text}", labels)


def histogram(stability: str, name: str, help_text: str, bounds: Iterable[float], *labels: str) -> HistogramTally:
    """A histogram with the scheduler's prefix."""
    return HistogramTally(PREFIX + name, f"[{stability}] {help_text}", tuple(bounds), labels)


def without_mechanism() -> tuple[CounterTally | HistogramTally, ...]:
    """The families in which nothing is ever counted, since there is no mechanism behind them."""
    return (
        counter(ALPHA, "batch_attempts", "Attempts to use the results of an equal pod.", "profile", "result"),
        counter(ALPHA, "batch_cache_flushed", "Results of equal pods thrown away, by reason.", "profile", "reason"),
        histogram(
            ALPHA,
            "get_node_hint_duration_seconds",
            "Latency of getting a node hint.",
            BATCH_BUCKETS,
            "hinted",
            "profile",
        ),
        histogram(
            ALPHA,
            "store_schedule_results_duration_seconds",
            "Latency of storing scheduling results.",
            BATCH_BUCKETS,
            "profile",
        ),
        counter(ALPHA, "volume_binder_cache_requests", "Requests to the cache of volume bindings.", "operation"),
    )


def plugin_evaluations(evaluations: Mapping[tuple[str, str, tuple[str, ...]], Times]) -> Metric:
    """How often each plugin was evaluated at the points that match pods with nodes."""
    text = f"[{BETA}] Times that a plugin had its say in an attempt, at PreFilter, Filter, PreScore and Score."
    counts: Counter[tuple[str, str, str]] = Counter()
    for (profile, point, plugins), times in tuple(evaluations.items()):
        for plugin in plugins:
            counts[plugin, point, profile] += times.count
    family = CounterMetricFamily(PREFIX + "plugin_evaluation", text, labels=("plugin", "extension_point", "profile"))
    for labels, count in counts.items():
        family.add_metric(labels, count)
    return family


# -- how many there are of what, now -------------------------------------------------------------------------------


def gauge(stability: str, name: str, help_text: str, label: str, values: Iterable[tuple[str, float]]) -> Metric:
    """A gauge with the scheduler's prefix, of these values now."""
    family = GaugeMetricFamily(PREFIX + name, f"[{stability}] {help_text}", labels=(label,))
    for value, amount in values:
        family.add_metric((value,), amount)
    return family


def goroutines(bindings: int) -> Metric:
    """Binding cycles: they run beside the scheduling cycles, if not as goroutines."""
    text = "Number of binding cycles and the like that run beside the scheduling cycles, by operation."
    return gauge(BETA, "goroutines", text, "operation", [("binding", bindings)])


def agreement_lately(core: ObservingCore) -> Iterator[Metric]:
    """An observer's results in the last hour, and what it has not looked at."""
    share = share_of(core.agreement.lately(core.now))
    if share is not None:
        text = "Share of the pods of the last hour that agree, or agree with what could have been seen."
        yield GaugeMetricFamily("berth_observed_agreement_ratio", text, value=share)
    text = "What was not judged, since the observer did not keep up, by what it was."
    skipped = CounterMetricFamily("berth_observed_skipped", text, labels=("kind",))
    for kind, count in core.agreement.skipped.items():
        skipped.add_metric((kind,), count)
    yield skipped


def preemption_attempts(core: Core) -> Metric:
    text = f"[{STABLE}] Attempts to preempt other pods in the cluster till now."
    return CounterMetricFamily(f"{PREFIX}preemption_attempts", text, value=core.evictions.searches)


def queue_counts(core: Core) -> dict[str, int]:
    """Return how many pods are pending, by the queue they are in."""
    queue = core.queue
    gated = sum(queued.is_gated for queued in queue.unschedulable.values())
    return {
        "active": len(queue.active),
        "backoff": len(queue.backoff) + len(queue.error_backoff),
        "unschedulable": len(queue.unschedulable) - gated,
        "gated": gated,
    }


def pending_pods(core: Core) -> Metric:
    counts = queue_counts(core).items()
    return gauge(STABLE, "pending_pods", "Pending pods, by the queue they are in.", "queue", counts)


def cache_size(core: Core, name: str = "cache_size") -> Metric:
    """How many nodes and pods the cache holds."""
    assumed = core.cache.assumed_count
    sizes = {"nodes": len(core.cache.table), "pods": len(core.cache), "assumed_pods": assumed}
    return gauge(ALPHA, name, "Number of nodes, pods, and assumed (bound) pods in the cache.", "type", sizes.items())


def unschedulable_pods(core: Core) -> Metric:
    counts: Counter[tuple[str, str]] = Counter()
    queue = core.queue
    for pods in (queue.active, queue.backoff, queue.error_backoff, queue.unschedulable.values()):
        for queued in pods:
            counts.update((plugin, queued.pod.profile_name) for plugin in queued.unschedulable_plugins)
    text = f"[{BETA}] Unschedulable pods, by the plugin that rejected them."
    family = GaugeMetricFamily(PREFIX + "unschedulable_pods", text, labels=("plugin", "profile"))
    for labels, count in counts.items():
        family.add_metric(labels, count)
    return family


def node_calls(core: Core) -> Metric:
    """How often plain forms were called: a plugin that promises nothing is asked about every node for every pod."""
    text = "Calls of a plugin's filter and score, one for each node that it was asked about."
    family = CounterMetricFamily("berth_plugin_node_calls", text, labels=("plugin", "extension_point", "profile"))
    for profile in core.profiles.values():
        for point, runners in (("Filter", profile.filters), ("Score", profile.scorers)):
            for runner in runners:
                if runner.node_calls:
                    family.add_metric((runner.name, point, profile.name), runner.node_calls)
    return family


def plugin_figures(figures: Iterable[PluginFigure]) -> Iterator[Metric]:
    """The figures of plugins, a family for each name; if plugins share a name, each has the labels of all."""
    by_name: dict[str, list[PluginFigure]] = {}
    for each in figures:
        by_name.setdefault(each.figure.name, []).append(each)
    for name, found in by_name.items():
        own = list(dict.fromkeys(label for each in found for label in each.figure.labels))
        text = f"[{ALPHA}] What a plugin has noted, as its own documentation says."
        family = GaugeMetricFamily(f"{PREFIX}plugin_{name}", text, labels=("plugin", "profile", *own))
        for profile, plugin, figure in found:
            values = (figure.labels.get(label, "") for label in own)
            family.add_metric((plugin, profile, *values), figure.value)
        yield family


def inflight_events(core: Core) -> Metric:
    """Upstream keeps the pods in flight in the same list, so they count as events too."""
    counts = core.queue.in_flight.counts()
    counts["PodPopped"] = len(core.queue.in_flight)
    return gauge(ALPHA, "inflight_events", "Events kept because pods are being scheduled.", "event", counts.items())


def pending_calls(pending: dict[str, int]) -> Metric:
    text = "Requests to the API server that are under way or wait, by kind of call."
    return gauge(ALPHA, "pending_async_api_calls", text, "call_type", pending.items())


def fenced_writes(counts: Mapping[str, int]) -> Metric:
    text = "Writes that were not sent (refused) or cut off because the lease was not held."
    family = CounterMetricFamily("berth_fenced_writes", text, labels=("how",))
    for how, count in counts.items():
        family.add_metric((how,), count)
    return family


def conflicts(found: Mapping[str, int], bound_elsewhere: int) -> Metric:
    """Conflicts with other schedulers: those that the core has found, and bindings that came too late."""
    text = "Conflicts with other schedulers on the same nodes, found after the fact (berth.cycle.conflicts)."
    family = CounterMetricFamily("berth_conflicts", text, labels=("how",))
    for how, count in {**found, "bound_elsewhere": bound_elsewhere}.items():
        family.add_metric((how,), count)
    return family
