"""The configuration with which an observer decides: the other scheduler's, except for the share of nodes that it looks
at.

Every node is scored here, so that the cost of sampling is known. The share is kept separately: it says where sampling
may explain that a pod is not on the best node.
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

import msgspec

from berth.agreement.cases import CaseWriter
from berth.agreement.observer import Observing, ObservingCore
from berth.config.types import SchedulerConfiguration, Shadow
from berth.core.assembly import build_core
from berth.core.intake import ObjectEvent
from berth.core.options import Build, CoreOptions
from berth.framework.registry import Registry

ADAPTIVE = 0
"""kube-scheduler's default share: a formula's."""


def scoring_all(config: SchedulerConfiguration) -> SchedulerConfiguration:
    """Return the configuration with every node scored."""
    profiles = tuple(msgspec.structs.replace(profile, percentage_of_nodes_to_score=None) for profile in config.profiles)
    return msgspec.structs.replace(config, profiles=profiles, percentage_of_nodes_to_score=None, extenders=())


def with_candidates(
    config: SchedulerConfiguration, candidates: Mapping[str, SchedulerConfiguration]
) -> SchedulerConfiguration:
    """Return the configuration with a shadow of each profile for each candidate, which shows what that would have
    decided.

    It is the candidate's profile of the same name, or else its first.
    """
    shadows = []
    for name, candidate in candidates.items():
        for profile in config.profiles:
            own = {each.scheduler_name: each for each in candidate.profiles}
            chosen = own.get(profile.scheduler_name, candidate.profiles[0])
            called = name if len(config.profiles) == 1 else f"{name} for {profile.scheduler_name}"
            shadow = Shadow(of=profile.scheduler_name)
            shadows.append(msgspec.structs.replace(chosen, scheduler_name=called, shadow=shadow))
    return msgspec.structs.replace(config, profiles=(*config.profiles, *shadows))


def shares_of(config: SchedulerConfiguration) -> dict[str, int | None]:
    """Return by profile which share of the nodes a scheduler of this configuration looks at."""
    shared = ADAPTIVE if config.percentage_of_nodes_to_score is None else config.percentage_of_nodes_to_score
    return {
        profile.scheduler_name: shared
        if profile.percentage_of_nodes_to_score is None
        else profile.percentage_of_nodes_to_score
        for profile in config.profiles
    }


def build_observer(
    config: SchedulerConfiguration,
    registry: Registry,
    options: CoreOptions,
    *,
    observing: Observing,
    build: Build = build_core,
) -> ObservingCore:
    """Return a core that observes, as `berth.core.assembly.build_core` returns one that schedules.

    Raises `ConfigError`, `RegistryError`.
    """
    observing = observing._replace(percentages=shares_of(config), told=options.instrumentation.instrument)
    if observing.cases is not None:
        observing = observing._replace(on_otherwise=CaseWriter(observing.cases, scoring_all(config), registry))
    options = replace(options, make_core=partial(ObservingCore, observing=observing))
    config = scoring_all(with_candidates(config, observing.candidates))
    core = build(config, registry, options)
    assert isinstance(core, ObservingCore), "what makes a core uses the class that it is given"
    return core


def observe_recorded(
    config: SchedulerConfiguration,
    registry: Registry,
    known: Iterable[ObjectEvent],
    events: Iterable[tuple[ObjectEvent, float]],
    observing: Observing,
) -> ObservingCore:
    """Observe events that are over, after what was `known` before them; return the core with what has come of it."""
    core = build_observer(config, registry, CoreOptions(rng=random.Random(0)), observing=observing)
    for event in known:
        core.handle(event, core.now)
    for event, at in events:
        core.handle(event, at)
        while core.has_work:
            core.step(at)
    core.finish()
    return core
