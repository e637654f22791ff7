"""Which kube-scheduler's meanings apply, as one value that the engine asks instead of branching.

Chosen by the configuration's apiVersion (`config.generation`); the registry and the default profile differ too.
"""

import msgspec

from berth.config.types import SchedulerConfiguration
from berth.queue.policy import QueuePolicy


class Generation(msgspec.Struct, frozen=True):
    """The policies of one generation."""

    name: str
    queue: QueuePolicy
    assumed_ttl_s: float | None
    """How long an assumed pod is counted after its binding finished; None: until the watch says otherwise."""


def generation_of(config: SchedulerConfiguration) -> Generation:
    """Return the generation that a configuration selects, with the configuration's own times."""
    queue = QueuePolicy(
        initial_backoff_s=config.pod_initial_backoff_s,
        max_backoff_s=config.pod_max_backoff_s,
        pop_from_backoff=config.feature_gates.enabled("SchedulerPopFromBackoffQ"),
    )
    return Generation(name=config.generation, queue=queue, assumed_ttl_s=None)
