"""Decisions compared in the course of a workload over time: a second configuration is asked beside the first.

The first configuration lives through the workload. At the beginning of some of its attempts, spread evenly over the
pods, both are asked about the pod on the cluster as it is at that moment. The second one only looks: its plugins read
the same cluster, and what the first decides is what happens.
"""

from collections import Counter

from berth.api.pod_resources import Counting
from berth.comparing.configurations import LoadedConfiguration
from berth.comparing.decisions import NOT_OURS, Decisions, PodChange, change_of
from berth.comparing.stopping import Watch, unwatched
from berth.config.types import SchedulerConfiguration
from berth.core import Core
from berth.cycle.instrument import Instrument
from berth.engine.build import build_profiles
from berth.engine.memo import Memos
from berth.engine.profile import Profile
from berth.exchange import DividedDecision
from berth.framework.handle import Handle
from berth.generation import generation_of
from berth.impact import SUCCESSORS
from berth.state.pod_info import PodInfo, PodShape
from berth.state.queued_pod import QueuedPod
from berth.traces.running import TraceRun
from berth.traces.trace import TimedWorkload

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
    sampler.begin(run.cluster.core, a, b)
    told = 0

    def progress(share: float) -> bool:
        nonlocal told
        done = int(share * STEPS)
        steps, told = done - told, done
        return watch(steps) or sampler.broken is not None

    run.live(progress)
    if sampler.broken is not None:
        raise sampler.broken
    return Decisions(sampler.asked, tuple(sampler.changes), dict(sampler.left_out))


class _Sampler(Instrument):
    """Compares decisions where attempts begin."""

    def __init__(self, every: int) -> None:
        self.asked = 0
        self.changes: list[PodChange] = []
        self.left_out: Counter[str] = Counter()
        self.broken: Exception | None = None
        self._every = every
        self._seen: set[str] = set()
        self._core: Core | None = None
        self._sides: list[tuple[dict[str, Profile], Counting]] = []
        self._renamed: dict[str, str] = {}

    def begin(self, core: Core, a: LoadedConfiguration, b: LoadedConfiguration) -> None:
        """Take the core whose attempts are to be compared."""
        self._core = core
        self._sides = [(profiles_beside(core, each), _counting(each.config)) for each in (a, b)]
        self._renamed = dict(SUCCESSORS) if a.config.generation != b.config.generation else {}

    def attempting(self, queued: QueuedPod) -> None:
        """Compare what both configurations decide, where it is this pod's turn and its first attempt."""
        pod = queued.pod
        if self._core is None or self.broken is not None or pod.key in self._seen:
            return
        self._seen.add(pod.key)
        if (len(self._seen) - 1) % self._every:
            return
        try:
            self._compare(self._core, pod)
        except Exception as bug:  # told at the end: here it would count as the first configuration's own
            self.broken = bug

    def _compare(self, core: Core, pod: PodInfo) -> None:
        name = pod.spec.scheduler_name
        served = [name in profiles for profiles, _ in self._sides]
        if not any(served):
            self.left_out[NOT_OURS] += 1
            return
        divided = []
        for profiles, counting in self._sides:
            # A shape of its own: what a profile prepares for a shape is filed under the profile's name, which is the
            # same in both configurations.
            own = PodInfo(pod.pod, PodShape(pod.pod, counting))
            profile = profiles.get(name) or next(iter(profiles.values()))
            divided.append(DividedDecision(core, own, self._renamed, profile))
        self.asked += 1
        change, _ = change_of(pod.key, divided, served)
        if change is not None:
            self.changes.append(change)


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
    )
    registry = generation_of(config).registry(configuration.registry)
    return build_profiles(config, registry, handle, Memos(core.cache, core.objects, enabled=False))


def _counting(config: SchedulerConfiguration) -> Counting:
    enabled = config.feature_gates.enabled
    return Counting(enabled("PodLevelResources"), enabled("InPlacePodLevelResourcesVerticalScaling"))
