"""Device taints and what tolerates them.

Source: k8s.io/dynamic-resource-allocation/resourceclaim, v1.36; the allocator asks.
"""

from collections.abc import Sequence

from berth.api.dra import DeviceTaint, DeviceToleration

PREVENTING_EFFECTS = ("NoSchedule", "NoExecute")


def prevents(taints: Sequence[DeviceTaint], tolerations: Sequence[DeviceToleration]) -> bool:
    """Say whether a taint keeps a device from being allocated."""
    return any(
        taint.effect in PREVENTING_EFFECTS and not any(tolerates(t, taint) for t in tolerations) for taint in taints
    )


def tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Say whether a toleration covers a taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"
