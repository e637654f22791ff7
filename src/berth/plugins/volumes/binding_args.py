"""The args of VolumeBinding: how long binding may take, and how storage in use makes a node's score."""

from collections.abc import Iterable
from itertools import pairwise

import msgspec

from berth.config.errors import invalid
from berth.config.feature_gates import FeatureGates
from berth.config.shape import MAX_SHAPE_SCORE, MAX_UTILIZATION
from berth.plugins.resources.args import ShapePoint

SCORING_GATE = "StorageCapacityScoring"

DEFAULT_SHAPE = (ShapePoint(0, MAX_SHAPE_SCORE), ShapePoint(MAX_UTILIZATION, 0))
"""Where StorageCapacityScoring is on: the more storage is left, the better."""


class VolumeBindingArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How long binding may take, and how nodes are scored by the capacity of their storage."""

    bind_timeout_seconds: int = 600
    shape: tuple[ShapePoint, ...] | None = None
    """None while the gate StorageCapacityScoring is off: the field does not exist then."""

    def gate_faults(self, path: str, gates: FeatureGates) -> Iterable[str]:
        """Refuse a shape while storage is not scored."""
        if self.shape is not None and not gates.enabled(SCORING_GATE):
            shape = msgspec.to_builtins(self.shape)
            detail = f"unexpected field `shape`, remove it or turn on the feature gate {SCORING_GATE}"
            yield invalid(f"{path}.shape", shape, detail)

    def defaulted_by_gates(self, gates: FeatureGates) -> "VolumeBindingArgs":
        """Fill in the shape where storage is scored."""
        if self.shape or not gates.enabled(SCORING_GATE):
            return self
        return VolumeBindingArgs(self.bind_timeout_seconds, DEFAULT_SHAPE)

    def validate(self, path: str) -> Iterable[str]:
        """Refuse a negative timeout and a shape that is no rising function."""
        if self.bind_timeout_seconds < 0:
            detail = "invalid BindTimeoutSeconds, should not be a negative value"
            yield invalid(f"{path}.bindTimeoutSeconds", self.bind_timeout_seconds, detail)
        yield from _shape_faults(self.shape or (), f"{path}.shape")


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
