"""What the callers of `berth.core.assembly.build_core` may want different of a core, by what it is about."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from berth.config.types import SchedulerConfiguration
from berth.core.core import Core, CoreParts
from berth.core.generation import Generation
from berth.cycle.instrument import Instrument
from berth.cycle.schedule import TieBreaker
from berth.engine.point_runner import PointRunner
from berth.extender.http_extender import Whole, as_known
from berth.framework.registry import Registry
from berth.framework.work_budget import DEFAULT_STEPS
from berth.state.table import NodeTable


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionOptions:
    """What a core decides by beside its configuration."""

    memos: bool = True
    """Whether answers of plugins are kept; decisions are the same without."""
    generation: Generation | None = None
    """Whose rules apply; those that the configuration names where it is None."""
    unschedulable_age_s: float | None = None
    """The age at which an unschedulable pod is tried again whatever happened; the generation's where it is None."""
    break_ties: Callable[[NodeTable], TieBreaker] | None = None
    """Chooses among the best nodes of a table in place of lots."""
    score_single_node: bool = False
    """Whether a node is scored even where it is the only one."""
    shards: int = 1
    """With several, no pod is scheduled before a `ShardsHeld` event says which of them are ours."""
    work_limit: int = DEFAULT_STEPS
    """How many steps of work one attempt may take (`berth.framework.work_budget`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """What tells a core and its plugins the time."""

    core: Callable[[], float] | None = None
    """The clock that the core's times are read from, where it is a real one: after an attempt, which may take a while,
    the core reads it itself."""
    wall: Callable[[], float] = time.time
    """For plugins that compare with timestamps of objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrumentation:
    """Who watches a core at work."""

    instrument: Instrument | None = None
    stopwatch: Callable[[], float] | None = None
    """With one, the instrument hears how long plugins take; without one all its durations are 0."""
    make_runner: Callable[[str], PointRunner] | None = None
    """Makes what runs the points and plugins of a profile, by name, in place of what would with this instrument."""
    check_promises: int = 0
    """In one attempt of so many, other people's plugins are held to what they promise of their answers; 0 is never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreOptions:
    """What may be different from one core to another of the same configuration and plugins."""

    rng: random.Random
    """Decides between equally good nodes."""
    decisions: DecisionOptions = DecisionOptions()
    clocks: Clocks = Clocks()
    instrumentation: Instrumentation = Instrumentation()
    whole: Whole = as_known
    """Gives pods and nodes as JSON for extenders, where the caller keeps their full objects beside the structs."""
    make_core: Callable[[CoreParts], Core] = Core
    """Puts the parts together: a core that is recorded, or one that observes."""


Build = Callable[[SchedulerConfiguration, Registry, CoreOptions], Core]
"""Makes a core, as `build_core` does."""


def with_changed_options(build: Build, change: Callable[[CoreOptions], CoreOptions]) -> Build:
    """Return what makes cores as `build` does, of options that are changed first."""

    def build_changed(config: SchedulerConfiguration, registry: Registry, options: CoreOptions) -> Core:
        return build(config, registry, change(options))

    return build_changed
