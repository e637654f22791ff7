"""Which kube-scheduler's meanings apply, as one value that the engine asks instead of branching.

Chosen by the configuration's apiVersion (`config.generation`); the registry and the default profile differ too.
"""

import msgspec

from berth.config.types import SchedulerConfiguration
from berth.framework.waiting_pods import TODAYS_WORDING, PermitWording
from berth.queue.policy import V1_20_QUEUE, QueuePolicy


class Generation(msgspec.Struct, frozen=True):
    """The policies of one generation."""

    name: str
    queue: QueuePolicy
    assumed_ttl_s: float | None
    """How long an assumed pod is counted after its binding finished; None: until the watch says otherwise."""
    assumed_sweep_period_s: float = 0.0
    """How often overdue assumed pods are looked for; 0: each is found the moment that it is overdue."""
    permit: PermitWording = TODAYS_WORDING
    """How a rejection by Permit is told."""
    forgets_missing_nodes: bool = False
    """Whether a node that an attempt's error says is not found leaves the cache, if the API server agrees."""


V1_20 = Generation(
    name="v1.20",
    queue=V1_20_QUEUE,
    assumed_ttl_s=30.0,
    assumed_sweep_period_s=1.0,
    permit=PermitWording(
        rejected='rejected pod "{pod}" by permit plugin "{plugin}": {message}',
        while_waiting='pod "{pod}" rejected while waiting on permit: {message}',
    ),
    forgets_missing_nodes=True,
)
"""v1.17 to v1.20: pkg/scheduler/scheduler.go (30 s), internal/cache/cache.go (cleanAssumedPeriod), framework.go."""


def generation_of(config: SchedulerConfiguration) -> Generation:
    """Return the generation that a configuration selects, with the configuration's own times."""
    found = V1_20 if config.generation == V1_20.name else _today(config)
    own = {"initial_backoff_s": config.pod_initial_backoff_s, "max_backoff_s": config.pod_max_backoff_s}
    return msgspec.structs.replace(found, queue=msgspec.structs.replace(found.queue, **own))


def _today(config: SchedulerConfiguration) -> Generation:
    queue = QueuePolicy(pop_from_backoff=config.feature_gates.enabled("SchedulerPopFromBackoffQ"))
    return Generation(name=config.generation, queue=queue, assumed_ttl_s=None)
