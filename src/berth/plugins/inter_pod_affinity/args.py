"""InterPodAffinityArgs. Source: pkg/scheduler/apis/config, v1.36."""

from collections.abc import Iterable

import msgspec

from berth.config.errors import invalid

MAX_HARD_WEIGHT = 100


class InterPodAffinityArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How much running pods' terms count in scoring.

    `hard_pod_affinity_weight` is what a running pod's required term adds where it matches the incoming pod;
    `ignore_preferred_terms_of_existing_pods` leaves scoring out for pods without preferred terms of their own.
    """

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def validate(self, path: str) -> Iterable[str]:
        """Name a weight out of range."""
        if not 0 <= self.hard_pod_affinity_weight <= MAX_HARD_WEIGHT:
            where = f"{path}.hardPodAffinityWeight"
            yield invalid(where, self.hard_pod_affinity_weight, f"not in valid range [0, {MAX_HARD_WEIGHT}]")
