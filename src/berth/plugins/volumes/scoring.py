"""Scores of VolumeBinding: how much of its storage a node would have in use, by storage class.

Only with the feature gate StorageCapacityScoring. Upstream's `volumebinding` scorer, v1.36: static volumes count where
there are any, else what is to be provisioned; classes weigh the same, and their mean is rounded half up.
"""

from collections.abc import Sequence

from berth.api.quantity import value
from berth.config.shape import MAX_UTILIZATION
from berth.plugins.volumes.binder import PodVolumes
from berth.plugins.volumes.claims import STORAGE, class_name_of
from berth.plugins.volumes.matching import requested


def storage_score(volumes: PodVolumes, table: Sequence[int]) -> int:
    """Return the score of a node for what a pod would get there; `table` has the score of each percentage in use."""
    uses = _static_uses(volumes) if volumes.bindings else _provisioned_uses(volumes)
    if not uses:
        return 0
    total = sum(table[_percent(asked, has)] for asked, has in uses.values())
    return (2 * total + len(uses)) // (2 * len(uses))


def _percent(asked_bytes: int, has_bytes: int) -> int:
    return MAX_UTILIZATION if has_bytes == 0 or asked_bytes > has_bytes else asked_bytes * MAX_UTILIZATION // has_bytes


def _static_uses(volumes: PodVolumes) -> dict[str, tuple[int, int]]:
    """Return by class how much is asked for, and how much the volumes have."""
    uses: dict[str, tuple[int, int]] = {}
    for claim, volume in volumes.bindings:
        name = volume.spec.storage_class_name
        asked, has = uses.get(name, (0, 0))
        uses[name] = asked + value(requested(claim)), has + value(volume.spec.capacity.get(STORAGE, 0))
    return uses


def _provisioned_uses(volumes: PodVolumes) -> dict[str, tuple[int, int]]:
    """Return by class how much is asked for, and how much there is to take it from."""
    uses: dict[str, tuple[int, int]] = {}
    for claim, capacity in volumes.provisions:
        if capacity is not None and capacity.capacity is not None:
            name = class_name_of(claim)
            asked, _ = uses.get(name, (0, 0))
            uses[name] = asked + value(requested(claim)), value(capacity.capacity)
    return uses
