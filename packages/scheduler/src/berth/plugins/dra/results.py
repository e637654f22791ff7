"""What the search has found, in the form in which a claim's status records it.

`ClaimDevices` goes in, an `AllocationResult` comes out; the plugin makes it for the chosen node. Source:
k8s.io/dynamic-resource-allocation/structured, v1.36.
"""

from collections.abc import Callable
from typing import Any

from berth.api.dra import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from berth.api.node_selector import NAME_FIELD, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from berth.api.quantity import Quantity
from berth.plugins.dra.allocator import ClaimDevices, TakenDevice

_NANO = 10**9
_BINARY = ("Ei", 2**60), ("Pi", 2**50), ("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)


def allocation_of(
    claim: ResourceClaim,
    found: ClaimDevices,
    node_name: str,
    *,
    binding_conditions: bool,
    new_share_id: Callable[[], str],
) -> AllocationResult:
    """Return what is written into a claim's status."""
    results = tuple(_result(taken, binding_conditions, new_share_id) for taken in found.taken)
    devices = DeviceAllocationResult(results, tuple(_configs(claim, found)))
    return AllocationResult(devices=devices, node_selector=_node_selector(found.taken, node_name))


def _result(
    taken: TakenDevice, binding_conditions: bool, new_share_id: Callable[[], str]
) -> DeviceRequestAllocationResult:
    device, consumed = taken.device, taken.consumed
    return DeviceRequestAllocationResult(
        request=taken.ask.full_name,
        driver=device.id.driver,
        pool=device.id.pool,
        device=device.id.device,
        admin_access=True if taken.ask.spec.admin_access else None,
        tolerations=taken.ask.spec.tolerations,
        binding_conditions=device.spec.binding_conditions if binding_conditions else (),
        binding_failure_conditions=device.spec.binding_failure_conditions if binding_conditions else (),
        share_id=None if consumed is None else new_share_id(),
        consumed_capacity={name: quantity_of(nano) for name, nano in (consumed or {}).items()},
    )


def quantity_of(nano: int) -> Quantity:
    """Return an amount in 1e-9 units as text, with a binary suffix where it comes out even."""
    whole, rest = divmod(nano, _NANO)
    if rest:
        return f"{nano}n"
    for suffix, unit in _BINARY:
        if whole and whole % unit == 0:
            return f"{whole // unit}{suffix}"
    return str(whole)


def _configs(claim: ResourceClaim, found: ClaimDevices) -> list[dict[str, Any]]:
    """Return the configurations that apply: each class's once, then the claim's."""
    configs: list[dict[str, Any]] = []
    of_class: dict[str, list[dict[str, Any]]] = {}
    for ask in found.asks:
        name = ask.device_class.metadata.name
        if name in of_class:
            for config in of_class[name]:
                config["requests"].append(ask.full_name)
            continue
        of_class[name] = [
            {**_plain(config), "source": "FromClass", "requests": [ask.full_name]}
            for config in ask.device_class.spec.config
        ]
        configs += of_class[name]
    for config in claim.spec.devices.config:
        requests = list(config.get("requests") or ())
        if not requests or any({ask.parent or ask.name, ask.full_name} & set(requests) for ask in found.asks):
            configs.append({**_plain(config), "source": "FromClaim", "requests": requests})
    for config in configs:
        if not config["requests"] or len(config["requests"]) == len(claim.spec.devices.requests):
            del config["requests"]  # none named means all
    return configs


def _plain(config: Any) -> dict[str, Any]:
    return {key: value for key, value in dict(config).items() if key != "requests"}


def _node_selector(taken: tuple[TakenDevice, ...], node_name: str) -> NodeSelector | None:
    """Return the nodes from which all the devices can be used; None where that is all nodes."""
    expressions: list[NodeSelectorRequirement] = []
    fields: list[NodeSelectorRequirement] = []
    for device in (one.device for one in taken):
        holder = device.spec if device.slice.spec.per_device_node_selection else device.slice.spec
        if holder.node_name is not None or device.spec.binds_to_node:
            only_here = NodeSelectorRequirement(NAME_FIELD, "In", (node_name,))
            return NodeSelector((NodeSelectorTerm(match_fields=(only_here,)),))
        if holder.node_selector is not None and holder.node_selector.node_selector_terms:
            term = holder.node_selector.node_selector_terms[0]
            _add_new(expressions, term.match_expressions)
            _add_new(fields, term.match_fields)
    if not expressions and not fields:
        return None
    return NodeSelector((NodeSelectorTerm(tuple(expressions), tuple(fields)),))


def _add_new(kept: list[NodeSelectorRequirement], more: tuple[NodeSelectorRequirement, ...]) -> None:
    known = {(one.key, one.operator, frozenset(one.values)) for one in kept}
    kept += [one for one in more if (one.key, one.operator, frozenset(one.values)) not in known]
