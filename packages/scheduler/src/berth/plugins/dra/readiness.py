"""Whether the devices of a claim are ready for a pod to be bound: what their binding conditions say.

Takes a claim and returns a verdict, which Filter, PreBind and PostFilter use. Source: the plugin's
isClaimReadyForBinding and isClaimTimeout, v1.36.
"""

from collections.abc import Iterable
from datetime import datetime

from berth.api.dra import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim
from berth.api.meta import Condition


def needs_binding(claim: ResourceClaim) -> bool:
    """Say whether any device of the claim must be made ready."""
    return any(result.binding_conditions for result in _results(claim))


def drivers_to_await(claims: Iterable[ResourceClaim]) -> tuple[str, ...]:
    """Return the drivers that must make devices of these claims ready, each once, in the order of the claims."""
    results = (result for claim in claims for result in _results(claim))
    return tuple(dict.fromkeys(result.driver for result in results if result.binding_conditions))


def failure(claim: ResourceClaim) -> Condition | None:
    """Return the condition by which a device of the claim has failed, or None."""
    for result in _results(claim):
        status = _status(claim, result)
        if not result.binding_conditions:
            continue
        if status is None:
            return None
        for name in result.binding_failure_conditions:
            condition = _condition(status, name)
            if condition is not None and condition.status == "True":
                return condition
        if not _is_bound(status, result):
            return None
    return None


def has_failed(claim: ResourceClaim) -> bool:
    """Say whether a device of the claim has failed."""
    return failure(claim) is not None


def is_ready(claim: ResourceClaim) -> bool:
    """Say whether all devices that need it are ready, and none has failed."""
    if claim.status.allocation is None or has_failed(claim):
        return False
    return all(
        (status := _status(claim, result)) is not None and _is_bound(status, result)
        for result in _results(claim)
        if result.binding_conditions
    )


def has_timed_out(claim: ResourceClaim, now: float, timeout_s: float) -> bool:
    """Say whether the devices of the claim have had their time; `now` in seconds since the epoch."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None or not needs_binding(claim):
        return False
    return datetime.fromisoformat(allocation.allocation_timestamp).timestamp() + timeout_s < now


def _results(claim: ResourceClaim) -> tuple[DeviceRequestAllocationResult, ...]:
    allocation = claim.status.allocation
    return () if allocation is None else allocation.devices.results


def _status(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> AllocatedDeviceStatus | None:
    wanted = result.driver, result.pool, result.device
    return next((s for s in claim.status.devices if (s.driver, s.pool, s.device) == wanted), None)


def _condition(status: AllocatedDeviceStatus, name: str) -> Condition | None:
    return next((condition for condition in status.conditions if condition.type == name), None)


def _is_bound(status: AllocatedDeviceStatus, result: DeviceRequestAllocationResult) -> bool:
    conditions = (_condition(status, name) for name in result.binding_conditions)
    return all(condition is not None and condition.status == "True" for condition in conditions)
