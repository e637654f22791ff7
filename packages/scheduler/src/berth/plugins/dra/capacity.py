"""Consumable capacity: how much of a device a request takes, and whether that much is left.

Takes what a request asks for and a device's policy; returns amounts in 1e-9 units to `allocator.py`. Source:
k8s.io/dynamic-resource-allocation/structured, v1.36.
"""

from collections.abc import Hashable, Mapping
from typing import Any, TypeVar

from berth.api.dra import CapacityRequirements, DeviceCapacity
from berth.api.quantity import Quantity, nano_value, value

Consumed = dict[str, int]
"""Amounts by the capacity's name, in 1e-9 units."""

_NANO = 10**9

Device = TypeVar("Device", bound=Hashable)


def consumed_by(request: CapacityRequirements | None, capacities: Mapping[str, DeviceCapacity]) -> Consumed:
    """Return what a request takes of each capacity: what it asks for, rounded up, else the default, else all."""
    wanted = request.requests if request is not None else {}
    return {name: _consumed(wanted.get(name), capacity) for name, capacity in capacities.items()}


def fits(
    request: CapacityRequirements | None,
    capacities: Mapping[str, DeviceCapacity],
    allocated: Mapping[str, int],
    allocating: Mapping[str, int],
) -> bool:
    """Say whether a request keeps to a device's policies, and fits into its capacity with what others take."""
    if request is not None and not request.requests.keys() <= capacities.keys():
        return False
    for name, consumed in consumed_by(request, capacities).items():
        if _violates(consumed, capacities[name].request_policy):
            return False
        if consumed + allocated.get(name, 0) + allocating.get(name, 0) > nano_value(capacities[name].value):
            return False
    return True


def _consumed(wanted: Quantity | None, capacity: DeviceCapacity) -> int:
    policy: Mapping[str, Any] = capacity.request_policy or {}
    if wanted is None:
        default = policy.get("default")
        return nano_value(capacity.value if default is None else default)
    valid_range = policy.get("validRange") or {}
    if valid_range.get("min") is not None:
        return _rounded_to_step(wanted, valid_range)
    for valid in policy.get("validValues") or ():
        if nano_value(wanted) <= nano_value(valid):
            return nano_value(valid)
    return nano_value(wanted)


def _rounded_to_step(wanted: Quantity, valid_range: Mapping[str, Any]) -> int:
    if nano_value(wanted) < nano_value(valid_range["min"]):
        return nano_value(valid_range["min"])
    if valid_range.get("step") is None:
        return nano_value(wanted)
    least, step = value(valid_range["min"]), value(valid_range["step"])
    return (least - (least - value(wanted)) // step * step) * _NANO


def _violates(consumed: int, policy: Mapping[str, Any] | None) -> bool:
    if not policy or (policy.get("default") is not None and consumed == nano_value(policy["default"])):
        return False
    valid_range = policy.get("validRange")
    if valid_range is not None:
        return _is_outside(consumed, valid_range)
    valid_values = policy.get("validValues") or ()
    return bool(valid_values) and all(consumed != nano_value(valid) for valid in valid_values)


def _is_outside(consumed: int, valid_range: Mapping[str, Any]) -> bool:
    if valid_range.get("max") is not None and consumed > nano_value(valid_range["max"]):
        return True
    if valid_range.get("step") is None:
        return False
    least, step = value(valid_range.get("min") or 0), value(valid_range["step"])
    return bool((-(-consumed // _NANO) - least) % step)


def consume(consuming: dict[Device, Consumed], device: Device, consumed: Consumed, sign: int) -> None:
    """Note that `consumed` is taken of a device, or, with a sign of -1, given back."""
    kept = consuming.setdefault(device, {})
    for name, amount in consumed.items():
        kept[name] = kept.get(name, 0) + sign * amount
    if not any(kept.values()):
        del consuming[device]
