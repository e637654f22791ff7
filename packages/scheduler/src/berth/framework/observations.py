"""What plugins report to observers: things that only they see, and for which kube-scheduler has metrics.

A plugin calls `Handle.observe` with one of these. Nothing comes back, and no decision depends on it.
"""

from typing import Literal, TypeAlias

import msgspec

DevicesStatus: TypeAlias = Literal["success", "failure", "timeout", "error"]
VolumeStage: TypeAlias = Literal["predicate", "assume", "bind"]
"""Upstream's names for the volume binder's work in Filter, Reserve and PreBind."""


class DevicesAwaited(msgspec.Struct, frozen=True):
    """PreBind no longer waits for the binding conditions of a pod's devices."""

    profile: str
    drivers: tuple[str, ...]
    """The drivers whose devices have binding conditions, each once."""
    status: DevicesStatus
    """`failure` if a device failed, `error` if something else ended the wait early."""
    seconds: float
    """How long it waited, by the core's time."""


class VolumeStageFailed(msgspec.Struct, frozen=True):
    """An error, not a rejection, has ended the volume binder's work for a pod."""

    stage: VolumeStage


Observation: TypeAlias = DevicesAwaited | VolumeStageFailed
