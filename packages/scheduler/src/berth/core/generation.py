"""Which release's rules apply, as one value to ask instead of branching on the release.

A generation consists of its in-tree plugins and the policies of queue, cache and cycle. Its default profile and feature
gates live in `berth.config`, which names it in `SchedulerConfiguration.generation`: the document's apiVersion decides.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from berth.config.types import GenerationName, SchedulerConfiguration
from berth.framework.cycle_policy import CyclePolicy
from berth.framework.registry import Registry
from berth.framework.waiting_pods import TODAYS_WORDING, PermitWording
from berth.plugins.legacy.registry import with_legacy_plugins
from berth.queue.policy import V1_20_QUEUE, QueuePolicy


class Generation(msgspec.Struct, frozen=True):
    """The plugins and policies of one generation."""

    name: GenerationName
    registry: Callable[[Registry], Registry]
    """Turns a registry of today's plugins and out-of-tree ones into this generation's. Raises `RegistryError`."""
    queue: QueuePolicy
    cycle: CyclePolicy
    assumed_ttl_s: float | None
    """How long an assumed pod counts after its binding has finished; None: until the watch says otherwise."""
    assumed_sweep_period_s: float = 0.0
    """How often to look for overdue assumed pods; 0: each is found the moment it is overdue."""
    confirm_after_s: float | None = None
    """How long the watch may take to confirm an assumed pod before it is read from the API server; None: forever."""
    permit: PermitWording = TODAYS_WORDING
    """The wording of a rejection by Permit."""
    cancels_bindings: bool = True
    """Whether preemption puts a pod that is being bound back into the queue, rather than having it deleted."""
    forgets_missing_nodes: bool = False
    """Whether a node that an attempt's error names as not found leaves the cache, if the API server confirms it."""


V1_36: Final = Generation(
    name="v1.36",
    registry=lambda todays: todays,
    queue=QueuePolicy(),
    cycle=CyclePolicy(),
    assumed_ttl_s=None,
    confirm_after_s=30.0,  # a watch that is so far behind is most likely broken; v1.20 gave pods up after this time
)

V1_20: Final = Generation(
    name="v1.20",
    registry=with_legacy_plugins,
    queue=V1_20_QUEUE,
    cycle=CyclePolicy(
        one_node_without_scores=False,
        nominated_node_first=False,
        error_ends_search=True,
        pre_filter_counts_nodes=True,
        tells_post_filter=False,
        filter_error='running "{plugin}" filter plugin for pod "{pod}": {message}',
    ),
    assumed_ttl_s=30.0,
    assumed_sweep_period_s=1.0,
    permit=PermitWording(
        rejected='rejected pod "{pod}" by permit plugin "{plugin}": {message}',
        while_waiting='pod "{pod}" rejected while waiting on permit: {message}',
    ),
    cancels_bindings=False,
    forgets_missing_nodes=True,
)
"""v1.17 to v1.20: pkg/scheduler/scheduler.go (30 s), internal/cache/cache.go (cleanAssumedPeriod), framework.go."""

GENERATIONS: Final[Mapping[str, Generation]] = MappingProxyType({each.name: each for each in (V1_36, V1_20)})


def generation_of(config: SchedulerConfiguration) -> Generation:
    """Return the generation that a configuration selects, with the configuration's own times."""
    generation = GENERATIONS[config.generation]
    pops_from_backoff = config.feature_gates.enabled("SchedulerPopFromBackoffQ")
    queue = msgspec.structs.replace(
        generation.queue,
        initial_backoff_s=config.pod_initial_backoff_s,
        max_backoff_s=config.pod_max_backoff_s,
        pop_from_backoff=generation.queue.pop_from_backoff and pops_from_backoff,
    )
    return msgspec.structs.replace(generation, queue=queue)


def with_rules_of(config: SchedulerConfiguration, name: GenerationName) -> Generation:
    """Return all policies of another generation, with the plugins of the configuration's own."""
    rules = generation_of(msgspec.structs.replace(config, generation=name))
    return msgspec.structs.replace(rules, registry=generation_of(config).registry)
