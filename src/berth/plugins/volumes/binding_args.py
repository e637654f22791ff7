"""The args of VolumeBinding: how long binding may take, and how storage in use makes a node's score."""

from collections.abc import Iterable
from itertools import pairwise

import msgspec

from berth.config.errors import invalid
from berth.config.shape import MAX_SHAPE_SCORE, MAX_UTILIZATION
from berth.plugins.resources.args import ShapePoint

DEFAULT_SHAPE = (ShapePoint(0, MAX_SHAPE_SCORE), ShapePoint(MAX_UTILIZATION, 0))
"""Where StorageCapacityScoring is on: the more storage is left, the better."""


class VolumeBindingArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How long binding may take, and how nodes are scored by the capacity of their storage."""

    bind_timeout_seconds: int = 600
    shape: tuple[ShapePoint, ...] = ()

    def validate(self, path: str) -> Iterable[str]:
        """Refuse a negative timeout and a shape that is no rising function."""
        if self.bind_timeout_seconds < 0:
            detail = "invalid BindTimeoutSeconds, should not be a negative value"
            yield invalid(f"{path}.bindTimeoutSeconds", self.bind_timeout_seconds, detail)
        yield from _shape_faults(self.shape, f"{path}.shape")


def _shape_faults(shape: tuple[ShapePoint, ...], path: str) -> Iterable[str]:
    for index, (before, point) in enumerate(pairwise(shape), start=1):
        if before.utilization >= point.utilization:
            where = f"{path}[{index}].utilization"
            yield invalid(where, point.utilization, "values must be sorted in increasing order")
            break
    for index, point in enumerate(shape):
        if not 0 <= point.utilization <= MAX_UTILIZATION:
            yield invalid(f"{path}[{index}].utilization", point.utilization, "not in valid range [0, 100]")
        if not 0 <= point.score <= MAX_SHAPE_SCORE:
            yield invalid(f"{path}[{index}].score", point.score, f"not in valid range [0, {MAX_SHAPE_SCORE}]")
