"""Decisions compared in the course of a workload over time: a second configuration is asked alongside the first.

The first configuration lives through the workload. At the beginning of some of its attempts, spread evenly over the
pods, both are asked about the pod on the cluster as it is at that moment. The second one is a core of its own that is
told of the same nodes and pods and counts each pod where the first has put it, so that its plugins know what they would
know if these were its own decisions. It schedules nothing: the first one's decisions are carried out.
"""

import random
from collections.abc import Callable

from berth.api.pod import Pod
from berth.core.assembly import build_core
from berth.core.intake import ObjectEvent
from berth.core.options import CoreOptions
from berth.core.questions import find, search_beside
from berth.cycle.attempt import Attempt
from berth.cycle.binding_cycle import reserve_and_permit, undo
from berth.cycle.decision import Decision
from berth.cycle.instrument import Instrument
from berth.decisions.side_by_side import Side
from berth.framework.blame import ask
from berth.framework.setup import Setup
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod
from berth_workbench.comparison.decisions import Decisions, DecisionTally
from berth_workbench.simulation.watch import UNWATCHED, WorkWatch
from berth_workbench.traces.run import TraceRun
from berth_workbench.traces.trace import TimedWorkload

SAMPLES = 500
"""How many pods are compared."""
STEPS = 1000


def decide_over_time(
    trace: TimedWorkload,
    a: Setup,
    b: Setup,
    *,
    seed: int = 0,
    samples: int = SAMPLES,
    watch: WorkWatch = UNWATCHED,
) -> Decisions:
    """Live through a workload with the first configuration, and compare decisions about `samples` of its pods.

    Ends early where it is stopped. Raises `ConfigError`, `RegistryError`,
    `StuckError`, and `PluginBrokenError` for a plugin that raises.
    """
    run = _ComparedRun(trace, a, b, seed, every=max(1, trace.pods // samples))
    run.live(watch)
    if run.sampler.broken is not None:
        raise run.sampler.broken
    return run.tally.result()


class _CoreBeside:
    """A core that follows another one without scheduling: it is told the same, and counts pods where that puts them."""

    def __init__(self, configuration: Setup, now: Callable[[], float]) -> None:
        """Raises `ConfigError`, `RegistryError`."""
        self._now = now
        options = CoreOptions(rng=random.Random(0))
        self.core = build_core(configuration.config, configuration.registry, options)
        self._binding: dict[str, tuple[Attempt, str]] = {}
        """The pods that the other core is binding, by uid: with what was reserved here, and where."""

    def catch_up(self) -> None:
        """Let as much time pass as has passed for the other core."""
        self.core.step(self._now(), begins=False)

    def take(self, event: ObjectEvent) -> None:
        """Take in what the other core is told; acting on it is left to that one."""
        self.core.handle(event, self._now())

    def place(self, pod: PodInfo, node_name: str) -> None:
        """Count a pod on a node, and reserve there what it takes here. Raises `PluginBrokenError`."""
        own = self.core.intake.pod(pod.key)
        if own is None:
            return
        # The filters have stored what Reserve needs to know about the pod, whatever they say about the node.
        attempt = find(self.core, own, search=search_beside(self.core))
        attempt.found.release_columns()
        self._binding[pod.uid] = attempt, node_name
        reserve_and_permit(self.core.cache, attempt, node_name)  # which counts it in any case, and first of all
        self.core.nominator.withdraw(pod.uid)

    def give_back(self, pod: PodInfo) -> None:
        """Stop counting a pod that could not be bound. Raises `PluginBrokenError`."""
        attempt, node_name = self._binding.pop(pod.uid, (None, ""))
        if attempt is not None:
            undo(self.core.cache, attempt, node_name)

    def conclude(self, pod: PodInfo) -> None:
        """Take note that a pod is bound. Raises `PluginBrokenError`."""
        attempt, node_name = self._binding.pop(pod.uid, (None, ""))
        if attempt is not None:
            for plugin in attempt.profile.post_bind:
                ask("PostBind", plugin, plugin.post_bind, attempt.state, attempt.pod, node_name)


class _Sampler(Instrument):
    """Compares decisions where attempts begin, and lets the core beside follow the outcome."""

    def __init__(self, beside: _CoreBeside, compare: Callable[[Pod], None], every: int) -> None:
        self.broken: Exception | None = None
        self._beside, self._compare, self._every = beside, compare, every
        self._seen: set[str] = set()

    def attempting(self, queued: QueuedPod) -> None:
        """Compare what both configurations decide, where it is this pod's turn and its first attempt."""
        pod = queued.pod
        if pod.key in self._seen:
            return
        self._seen.add(pod.key)
        if (len(self._seen) - 1) % self._every == 0:
            self.follow(self._compare, pod.pod)

    def decided(self, decision: Decision, seconds: float) -> None:
        """Count a pod where it goes."""
        if decision.chosen is not None:
            self.follow(self._beside.place, decision.pod, decision.chosen)

    def binding_failed(self, pod: PodInfo, reason: str, *, is_rejection: bool = False, is_gone: bool = False) -> None:
        """Stop counting a pod that does not go there after all."""
        self.follow(self._beside.give_back, pod)

    def bound(self, queued: QueuedPod, node_name: str, now: float) -> None:
        """Note that a pod is bound."""
        self.follow(self._beside.conclude, queued.pod)

    def follow(self, act: Callable[..., object], *given: object) -> None:
        """Do something in the core beside, unless something raised there before."""
        if self.broken is not None:
            return
        try:
            self._beside.catch_up()
            act(*given)
        except Exception as bug:  # told at the end: here it would count as the first configuration's own
            self.broken = bug


class _ComparedRun(TraceRun):
    """A run with another core beside it, which is told of everything that the run's own core is told."""

    def __init__(self, trace: TimedWorkload, a: Setup, b: Setup, seed: int, every: int) -> None:
        """Raises `ConfigError`, `RegistryError`."""
        self._beside = _CoreBeside(b, lambda: self.cluster.now)
        self.sampler = _Sampler(self._beside, lambda pod: self.tally.compare(pod), every)
        super().__init__(trace, config=a.config, registry=a.registry, seed=seed, instrument=self.sampler)
        self.tally = DecisionTally(a, b, Side.of(self.cluster.core), Side.of(self._beside.core))

    def heard(self, event: ObjectEvent) -> None:
        """Tell the core beside of what the run's own is about to take in."""
        self.sampler.follow(self._beside.take, event)
