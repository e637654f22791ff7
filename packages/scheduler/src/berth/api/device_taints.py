"""Device taints, what tolerates them, and which devices rules put them on.

Called by the allocator. Source: k8s.io/dynamic-resource-allocation/resourceclaim and resourceslice/tracker, v1.36.
"""

from collections.abc import Sequence

from berth.api.dra import DeviceTaint, DeviceTaintRule, DeviceToleration

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


def is_for(rule: DeviceTaintRule, driver: str, pool: str, device: str) -> bool:
    """Say whether a rule puts its taint on a device: an empty selector selects every device, no selector none."""
    selector = rule.spec.device_selector
    if selector is None:
        return False
    pairs = ((selector.driver, driver), (selector.pool, pool), (selector.device, device))
    return all(wanted in (None, found) for wanted, found in pairs)
