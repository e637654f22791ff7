"""Decisions compared in the course of a workload over time: a second configuration is asked beside the first.

The first configuration lives through the workload. At the beginning of some of its attempts, spread evenly over the
pods, both are asked about the pod on the cluster as it is at that moment. The second one only looks: its plugins read
the same cluster, and what the first decides is what happens.
"""

from berth.api.pod import Pod
from berth.api.pod_resources import Counting
from berth.core.core import Core
from berth.core.generation import generation_of
from berth.cycle.instrument import Instrument
from berth.decisions.exchange import Side
from berth.engine.build import build_profiles
from berth.engine.memo import Memos
from berth.engine.profile import Profile
from berth.framework.handle import Handle
from berth.plugins.preemption.by_rules import PreemptionByRules
from berth.state.pod_info import PodInfo, PodShape
from berth.state.queued_pod import QueuedPod
from berth_workbench.comparison.configurations import LoadedConfiguration
from berth_workbench.comparison.decisions import Decisions, DecisionTally
from berth_workbench.comparison.progress import Watch, unwatched
from berth_workbench.traces.run import TraceRun
from berth_workbench.traces.trace import TimedWorkload

SAMPLES = 500
"""How many pods are compared."""
STEPS = 1000


def decide_over_time(
    trace: TimedWorkload,
    a: LoadedConfiguration,
    b: LoadedConfiguration,
    *,
    seed: int = 0,
    samples: int = SAMPLES,
    watch: Watch = unwatched,
) -> Decisions:
    """Live through a workload with the first configuration, and compare decisions about `samples` of its pods.

    Ends early where `watch` says so, which is told of a run's steps. Raises `ConfigError`, `RegistryError`,
    `StuckError`, and `PluginBrokenError` for a plugin that raises.
    """
    sampler = _Sampler(every=max(1, trace.pods // samples))
    run = TraceRun(trace, config=a.config, registry=a.registry, seed=seed, instrument=sampler)
    core = run.cluster.core
    tally = DecisionTally(a, b, side_beside(core, a), side_beside(core, b))
    sampler.asks(tally)
    told = 0

    def progress(share: float) -> bool:
        nonlocal told
        done = int(share * STEPS)
        steps, told = done - told, done
        return watch(steps) or sampler.broken is not None

    run.live(progress)
    if sampler.broken is not None:
        raise sampler.broken
    return tally.result()


class _Sampler(Instrument):
    """Compares decisions where attempts begin."""

    def __init__(self, every: int) -> None:
        self.broken: Exception | None = None
        self._every = every
        self._seen: set[str] = set()
        self._tally: DecisionTally | None = None

    def asks(self, tally: DecisionTally) -> None:
        """Take what compares the decisions; it needs the core of the run that this observes."""
        self._tally = tally

    def attempting(self, queued: QueuedPod) -> None:
        """Compare what both configurations decide, where it is this pod's turn and its first attempt."""
        pod = queued.pod
        if self._tally is None or self.broken is not None or pod.key in self._seen:
            return
        self._seen.add(pod.key)
        if (len(self._seen) - 1) % self._every:
            return
        try:
            self._tally.compare(pod.pod)
        except Exception as bug:  # told at the end: here it would count as the first configuration's own
            self.broken = bug


def side_beside(core: Core, configuration: LoadedConfiguration) -> Side:
    """Return another configuration over a core's cluster. Raises `ConfigError`, `RegistryError`."""
    enabled = configuration.config.feature_gates.enabled
    counting = Counting(enabled("PodLevelResources"), enabled("InPlacePodLevelResourcesVerticalScaling"))

    def info(pod: Pod) -> PodInfo:
        # A shape of its own: what a profile prepares for a shape is filed under the profile's name, which is the same
        # in both configurations.
        return PodInfo(pod, PodShape(pod, counting))

    return Side(core, profiles_beside(core, configuration), info)


def profiles_beside(core: Core, configuration: LoadedConfiguration) -> dict[str, Profile]:
    """Return the profiles of another configuration over a core's cluster, for questions only; nothing is remembered.

    Raises `ConfigError`, `RegistryError`.
    """
    config = configuration.config
    handle = Handle(
        cache=core.cache,
        objects=core.objects,
        nominator=core.nominator,
        waiting=core.waiting,
        features=config.feature_gates,
        now=lambda: core.now,
        follow=core.resources.declare,
        poll=core.resources.poll,
        preempting=PreemptionByRules,
    )
    registry = generation_of(config).registry(configuration.registry)
    return build_profiles(config, registry, handle, Memos(core.cache, core.objects, enabled=False))
