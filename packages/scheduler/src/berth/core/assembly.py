"""Makes a core, part by part, in the order in which the parts depend on one another. Read `build_core` top down.

Called by what drives a core: the live scheduler, the extender's server, `berth bench`, recorded cases, the harness
of the tests. What differs between them is an argument here; nobody changes a core's parts afterwards.
"""

import random
import time
from collections.abc import Callable

import msgspec

from berth.api.pod_resources import Counting
from berth.config.types import SchedulerConfiguration
from berth.core.core import Core, CoreParts
from berth.core.generation import Generation, generation_of
from berth.core.intake import Inbox, Intake
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
from berth.cycle.schedule import DrawLots, Search, TieBreaker
from berth.cycle.shadow import ShadowParts, ShadowProfile, Shadows
from berth.engine.build import build_profiles
from berth.engine.memo import Memos
from berth.engine.point_runner import PointRunner
from berth.engine.profile import Profile
from berth.engine.promise_check import PromiseCheck
from berth.extender.http_extender import Whole, as_known, build_extenders
from berth.framework.custom_resources import CustomResources
from berth.framework.evictions import Evictions
from berth.framework.handle import Handle
from berth.framework.health import HealthBook
from berth.framework.pod_events import PodEventHandlers
from berth.framework.registry import Registry
from berth.framework.status import Status
from berth.framework.waiting_pods import WaitingPods
from berth.framework.work_budget import DEFAULT_STEPS, WorkBudget
from berth.plugins.preemption.by_rules import PreemptionByRules
from berth.queue.hints import WakeTable
from berth.queue.move_requests import MoveRequestQueue
from berth.queue.policy import QueuePolicy
from berth.queue.queue import SchedulingQueue
from berth.queue.sort_key import sort_key_of
from berth.state.cache import Cache
from berth.state.nominator import Nominator
from berth.state.objects import ObjectStore
from berth.state.pod_groups import PodGroups
from berth.state.pod_info import PodInfo
from berth.state.shards import Ownership
from berth.state.table import NodeTable

Stopwatch = Callable[[], float]

TRACED_PODS = 256
"""How many recent pods' decisions are kept for explaining."""


def build_core(
    config: SchedulerConfiguration,
    registry: Registry,
    *,
    rng: random.Random,
    memos: bool = True,
    instrument: Instrument | None = None,
    stopwatch: Stopwatch | None = None,
    whole: Whole = as_known,
    generation: Generation | None = None,
    unschedulable_age_s: float | None = None,
    break_ties: Callable[[NodeTable], TieBreaker] | None = None,
    score_single_node: bool = False,
    shards: int = 1,
    clock: Callable[[], float] | None = None,
    work_limit: int = DEFAULT_STEPS,
    wall_clock: Callable[[], float] = time.time,
    make_core: Callable[[CoreParts], Core] = Core,
    check_promises: int = 0,
    make_runner: Callable[[str], PointRunner] | None = None,
) -> Core:
    """Return a core that is ready for its first event. Raises `ConfigError`, `RegistryError`.

    `rng` decides between equally good nodes. With a stopwatch, the instrument hears how long plugins take;
    without a stopwatch all its durations are 0. `whole` gives pods and nodes as JSON for extenders, where the caller
    keeps their full objects beside the structs. The generation is the configuration's own unless another is given, and
    so is the age in seconds at which an unschedulable pod is tried again whatever happened. `break_ties` replaces the
    draw among the best nodes of a table; `score_single_node` has a node scored even where it is the only one. With
    several `shards`, no pod is scheduled before a `ShardsHeld` event says which of them are ours. `clock` is the one
    that the core's times are read from, where it is a real one: after an attempt, which may take a while, the core
    reads it itself. `work_limit` is how many steps of work one attempt may take. `wall_clock` is for plugins that
    compare with timestamps of objects. `make_core` puts the parts together, for a core that is recorded. One attempt in
    `check_promises` is used to hold other people's plugins to what they promise of their answers; 0 is for none.
    `make_runner` makes what runs the points and plugins of a profile, in place of what would with these instruments.
    """
    rules = generation or generation_of(config)
    plugins = rules.registry(registry)
    enabled = config.feature_gates.enabled
    schedules_groups = enabled("GenericWorkload")
    observer, elapsed = instrument or Instrument(), stopwatch or no_stopwatch

    # The state of the cluster, and what everybody may ask of the core.
    dispatcher = Dispatcher(clock)
    cache = Cache(rules.assumed_ttl_s, sweep_period_s=rules.assumed_sweep_period_s)
    objects, nominator, waiting = ObjectStore(), Nominator(), WaitingPods()
    in_pre_bind = PodsInPreBind(dispatcher)
    kept = Memos(cache, objects, enabled=memos)

    # Plugins, and the queue that asks them. Plugins may move a pod to the active queue, so each needs the other: the
    # one circle there is. It is closed by a function that is not called before plugins are at work.
    def activate(uid: str) -> None:
        queue.activate(uid, dispatcher.now())

    def wake_after(uid: str, seconds: float) -> None:
        queue.wake_at(uid, dispatcher.now() + seconds)

    resources = CustomResources(objects, cache.touch)
    pod_groups, evictions = PodGroups(cache), Evictions(cache)
    handle = Handle(
        cache=cache,
        objects=objects,
        nominator=nominator,
        waiting=waiting,
        pod_groups=pod_groups,
        evictions=evictions,
        features=config.feature_gates,
        now=dispatcher.now,
        activate=activate,
        wake_after=wake_after,
        reservation_changed=kept.note_reservation,
        node_changed=cache.touch,
        rng=rng,
        tell=dispatcher.tell,
        observe=observer.plugin_observed,
        follow=resources.declare,
        poll=resources.poll,
        wall_clock=wall_clock,
        preempting=PreemptionByRules,
    )

    def runner_of(profile: str) -> PointRunner:
        if instrument is None or stopwatch is None:
            return PointRunner()
        if instrument.followed is None:
            return TimedRunner(profile, instrument, stopwatch)
        return TracedRunner(profile, instrument, stopwatch, instrument.followed)

    extenders = build_extenders(config.extenders, whole)
    health = HealthBook(dispatcher.now, observer.plugin_health)
    made = build_profiles(
        config, plugins, handle, kept, extenders, make_runner=make_runner or runner_of, report=observer.plugin_broke,
        health=health, promise_check=PromiseCheck(check_promises, observer.promise_broken) if check_promises else None,
    )  # fmt: skip
    # A shadow is no profile to anybody but `Shadows`: no pod can ask for it.
    shadows = [
        ShadowProfile(made[each.scheduler_name], each.shadow.of, each.shadow.percentage)
        for each in config.profiles
        if each.shadow is not None
    ]
    watching = {shadow.name for shadow in shadows}
    profiles = {name: profile for name, profile in made.items() if name not in watching}
    policy = rules.queue
    if unschedulable_age_s is not None:
        policy = msgspec.structs.replace(policy, unschedulable_age_s=unschedulable_age_s)
    queue = build_queue(profiles, nominator, policy, observer, stopwatch if instrument is not None else None)

    # What an event means, and how one pod finds a node.
    counting = Counting(enabled("PodLevelResources"), enabled("InPlacePodLevelResourcesVerticalScaling"))
    groups = pod_groups if schedules_groups else None
    loaded = (plugin for profile in made.values() for plugin in profile.plugins)
    handlers = PodEventHandlers(loaded, observer.plugin_broke, kept.note_reservation)
    intake = Intake(
        cache, objects, queue, frozenset(profiles), counting, groups, Ownership(shards), handlers,
    )  # fmt: skip
    conflicts = Conflicts(cache, waiting, in_pre_bind, dispatcher, observer)
    inbox = Inbox(intake, nominator, waiting, in_pre_bind, conflicts, dispatcher, observer, elapsed)
    tie_breaker = DrawLots(rng) if break_ties is None else break_ties(cache.table)
    search = Search(cache.table, tie_breaker, score_single_node=score_single_node, policy=rules.cycle)

    # What follows an attempt: it is reported, and the pod is queued again, given room, or bound.
    trace = Trace(TRACED_PODS)
    reporter = Reporter(trace, cache.table, dispatcher, observer)
    missing = MissingNodes(cache.table, dispatcher, inbox.node_is_gone) if rules.forgets_missing_nodes else None
    failure_handler = FailureHandler(queue, nominator, dispatcher, latest=intake.latest, missing_nodes=missing)
    turn_back = in_pre_bind if rules.cancels_bindings else None
    evictor = Evictor(handle, evictions, nominator, queue, turn_back, dispatcher, observer, inbox.put_pod)
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
        tools = TrialTools(cache, nominator, search, reporter, elapsed, WorkBudget(work_limit))
        outcome_tools = OutcomeTools(handle, dispatcher, reporter, failure_handler, binding, evictor)
        group_cycle = GroupCycle(profiles, queue, tools, outcome_tools, is_wanted=intake.is_wanted)

    shadow_parts = ShadowParts(
        cache.table, rules.cycle, observer, dispatcher.now, lambda: len(queue.active), work_limit
    )  # fmt: skip
    observer.attached(Observed(rules.name, cache.table, profiles, trace))
    return make_core(
        CoreParts(
            rules, dispatcher, cache, objects, resources, nominator, waiting, kept, evictions, profiles,
            queue, intake, inbox, search, reporter, failure_handler, evictor, binding, confirmer, group_cycle, elapsed,
            work_limit, health, Shadows(shadows, shadow_parts),
        )
    )  # fmt: skip


def build_queue(
    profiles: dict[str, Profile],
    nominator: Nominator,
    policy: QueuePolicy,
    observer: Instrument,
    stopwatch: Stopwatch | None,
) -> SchedulingQueue:
    """Return the queue of these profiles, of the kind that the policy asks for; with a stopwatch its hints are timed.

    All profiles have the same QueueSort plugin, which the configuration's validation sees to.
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
