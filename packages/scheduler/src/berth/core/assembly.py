"""Makes a core, part by part, in the order in which the parts depend on one another. Read `build_core` top down.

Called by what drives a core: the live scheduler, the extender's server, `berth bench`, recorded cases, the harness
of the tests. What differs between them is in `CoreOptions`; nobody changes a core's parts afterwards.
"""

from collections.abc import Callable

import msgspec

from berth.api.pod_resources import Counting
from berth.config.types import SchedulerConfiguration
from berth.core.core import AttemptParts, Core, CoreParts, FollowUpParts, IntakeParts
from berth.core.generation import generation_of
from berth.core.intake import Inbox, Intake
from berth.core.options import CoreOptions
from berth.core.timed_runner import TimedRunner, TimedWakeTable, TracedRunner
from berth.cycle.attempt import no_stopwatch
from berth.cycle.binding_cycle import BindingCycles
from berth.cycle.confirmation import BindingConfirmer
from berth.cycle.conflicts import Conflicts
from berth.cycle.decision import Trace
from berth.cycle.dispatcher import Dispatcher
from berth.cycle.eviction import Evictor
from berth.cycle.failure import FailureHandler, MissingNodes
from berth.cycle.groups.group_cycle import GroupCycle
from berth.cycle.groups.outcome import OutcomeTools
from berth.cycle.groups.trial import TrialTools
from berth.cycle.instrument import Instrument, Observed
from berth.cycle.pods_in_pre_bind import PodsInPreBind
from berth.cycle.reports import Reporter
from berth.cycle.schedule import DrawLots, Search
from berth.cycle.shadow import ShadowParts, ShadowProfile, Shadows
from berth.engine.build import build_profiles
from berth.engine.point_runner import PointRunner
from berth.engine.profile import Profile
from berth.engine.promise_check import PromiseCheck
from berth.extender.http_extender import build_extenders
from berth.framework.custom_resources import CustomResources
from berth.framework.handle import ClusterState, Handle, PluginActions
from berth.framework.health import HealthBook
from berth.framework.pod_events import PodEventHandlers
from berth.framework.registry import Registry
from berth.framework.status import Status
from berth.framework.work_budget import WorkBudget
from berth.plugins.preemption.by_rules import PreemptionByRules
from berth.queue.hints import WakeTable
from berth.queue.move_requests import MoveRequestQueue
from berth.queue.policy import QueuePolicy
from berth.queue.queue import SchedulingQueue
from berth.queue.sort_key import sort_key_of
from berth.state.cache import Cache
from berth.state.nominator import Nominator
from berth.state.objects import ObjectStore
from berth.state.pod_info import PodInfo
from berth.state.shards import Ownership
from berth.state.views import Memory

Stopwatch = Callable[[], float]

TRACED_PODS = 256
"""For how many recent pods the decision is kept for explaining."""


def build_core(config: SchedulerConfiguration, registry: Registry, options: CoreOptions) -> Core:
    """Return a core that is ready for its first event. Raises `ConfigError`, `RegistryError`."""
    deciding, observation = options.decisions, options.instrumentation
    instrument, stopwatch = observation.instrument, observation.stopwatch
    rules = deciding.generation or generation_of(config)
    plugins = rules.registry(registry)
    enabled = config.feature_gates.enabled
    schedules_groups = enabled("GenericWorkload")
    observer, elapsed = instrument or Instrument(), stopwatch or no_stopwatch

    # The state of the cluster, and what everybody may ask of the core.
    dispatcher = Dispatcher(options.clocks.core)
    state = ClusterState.of(Cache(rules.assumed_ttl_s, sweep_period_s=rules.assumed_sweep_period_s), ObjectStore())
    cache, nominator, waiting = state.cache, state.nominator, state.waiting
    in_pre_bind = PodsInPreBind(dispatcher)
    memos = Memory(cache, state.objects, nominator, enabled=deciding.memos)

    # Plugins, and the queue that asks them. Plugins may move a pod to the active queue, so each needs the other: the
    # only cycle there is. It is closed by a function that is not called before plugins run.
    def activate(uid: str) -> None:
        queue.activate(uid, dispatcher.now())

    def wake_after(uid: str, seconds: float) -> None:
        queue.wake_at(uid, dispatcher.now() + seconds)

    actions = PluginActions(
        activate=activate,
        wake_after=wake_after,
        reservation_changed=memos.note_reservation,
        node_changed=cache.touch,
        tell=dispatcher.tell,
        observe=observer.plugin_observed,
    )
    resources = CustomResources(state.objects, cache.touch)
    handle = Handle(
        state,
        config.feature_gates,
        dispatcher.now,
        actions=actions,
        resources=resources,
        rng=options.rng,
        wall_clock=options.clocks.wall,
        preempting=PreemptionByRules,
    )

    def runner_of(profile: str) -> PointRunner:
        if instrument is None or stopwatch is None:
            return PointRunner()
        if instrument.followed is None:
            return TimedRunner(profile, instrument, stopwatch)
        return TracedRunner(profile, instrument, stopwatch, instrument.followed)

    extenders = build_extenders(config.extenders, options.whole)
    health = HealthBook(dispatcher.now, observer.plugin_health)
    check = observation.check_promises
    made = build_profiles(
        config,
        plugins,
        handle,
        memos,
        extenders,
        make_runner=observation.make_runner or runner_of,
        report=observer.plugin_broke,
        health=health,
        promise_check=PromiseCheck(check, observer.promise_broken) if check else None,
    )
    # A shadow is no profile to anybody but `Shadows`: no pod can ask for it.
    shadows = [
        ShadowProfile(made[each.scheduler_name], each.shadow.of, each.shadow.percentage)
        for each in config.profiles
        if each.shadow is not None
    ]
    watching = {shadow.name for shadow in shadows}
    profiles = {name: profile for name, profile in made.items() if name not in watching}
    policy = rules.queue
    if deciding.unschedulable_age_s is not None:
        policy = msgspec.structs.replace(policy, unschedulable_age_s=deciding.unschedulable_age_s)
    queue = build_queue(profiles, nominator, policy, observer, stopwatch if instrument is not None else None)

    # How events are taken in, and how one pod finds a node.
    counting = Counting(enabled("PodLevelResources"), enabled("InPlacePodLevelResourcesVerticalScaling"))
    groups = state.pod_groups if schedules_groups else None
    loaded = (plugin for profile in made.values() for plugin in profile.plugins)
    handlers = PodEventHandlers(loaded, observer.plugin_broke, memos.note_reservation)
    intake = Intake(
        cache, state.objects, queue, frozenset(profiles), counting, groups, Ownership(deciding.shards), handlers,
    )  # fmt: skip
    conflicts = Conflicts(cache, waiting, in_pre_bind, dispatcher, observer)
    inbox = Inbox(intake, nominator, waiting, in_pre_bind, conflicts, dispatcher, observer, elapsed)
    tie_breaker = DrawLots(options.rng) if deciding.break_ties is None else deciding.break_ties(cache.table)
    search = Search(cache.table, tie_breaker, score_single_node=deciding.score_single_node, policy=rules.cycle)

    # What follows an attempt: it is reported, and the pod is queued again, gets room made for it, or is bound.
    trace = Trace(TRACED_PODS)
    reporter = Reporter(trace, cache.table, dispatcher, observer)
    missing = MissingNodes(cache.table, dispatcher, inbox.node_is_gone) if rules.forgets_missing_nodes else None
    failure_handler = FailureHandler(queue, nominator, dispatcher, latest=intake.latest, missing_nodes=missing)
    turn_back = in_pre_bind if rules.cancels_bindings else None
    evictor = Evictor(handle, state.evictions, nominator, queue, turn_back, dispatcher, observer, inbox.put_pod)
    confirmer = BindingConfirmer(cache, dispatcher, observer, inbox.put_pod, rules.confirm_after_s)
    binding = BindingCycles(
        cache,
        queue,
        waiting,
        failure_handler,
        dispatcher,
        reporter,
        in_pre_bind,
        confirmer,
        conflicts,
        wording=rules.permit,
        tells_expectation=enabled("NominatedNodeNameForExpectation"),
    )
    group_cycle = None
    if schedules_groups:
        tools = TrialTools(cache, nominator, search, reporter, elapsed, WorkBudget(deciding.work_limit))
        outcome_tools = OutcomeTools(handle, dispatcher, reporter, failure_handler, binding, evictor)
        group_cycle = GroupCycle(profiles, queue, tools, outcome_tools, is_wanted=intake.is_wanted)

    shadow_parts = ShadowParts(
        cache.table, rules.cycle, observer, dispatcher.now, lambda: len(queue.active), deciding.work_limit
    )
    observer.attached(Observed(rules.name, cache.table, profiles, trace))
    return options.make_core(
        CoreParts(
            generation=rules,
            dispatcher=dispatcher,
            state=state,
            intake=IntakeParts(resources=resources, inbox=inbox, intake=intake, queue=queue),
            attempts=AttemptParts(
                profiles=profiles,
                memos=memos,
                search=search,
                reporter=reporter,
                stopwatch=elapsed,
                work_limit=deciding.work_limit,
            ),
            follow_up=FollowUpParts(
                failure_handler=failure_handler, evictor=evictor, binding=binding, confirmer=confirmer
            ),
            groups=group_cycle,
            health=health,
            shadows=Shadows(shadows, shadow_parts),
        )
    )


def build_queue(
    profiles: dict[str, Profile],
    nominator: Nominator,
    policy: QueuePolicy,
    observer: Instrument,
    stopwatch: Stopwatch | None,
) -> SchedulingQueue:
    """Return the queue for these profiles, of the kind that the policy asks for; with a stopwatch its hints are timed.

    All profiles have the same QueueSort plugin, which the validation of the configuration ensures.
    """

    def pre_enqueue(pod: PodInfo, first: str) -> Status | None:
        return profiles[pod.profile_name].run_pre_enqueue(pod, first)

    tables = {name: WakeTable.of(profile) for name, profile in profiles.items()}
    if stopwatch is not None:
        tables = {name: TimedWakeTable(table, observer, stopwatch) for name, table in tables.items()}
    kind = SchedulingQueue if policy.hints else MoveRequestQueue
    sorter = next(iter(profiles.values())).queue_sort
    assert sorter is not None, "a profile without a QueueSort plugin is not valid"
    return kind(
        sort_key=sort_key_of(sorter, observer.plugin_broke),
        pre_enqueue=pre_enqueue,
        tables=tables,
        nominator=nominator,
        policy=policy,
        on_incoming=observer.queue_incoming,
        on_left=observer.queue_left,
        tenants=sorter.tenants,
    )
