"""The parts of args that the resource plugins share: weighted resources and the points of a scoring function.

Decoded from a profile's pluginConfig, checked by the args structs of NodeResourcesFit and
NodeResourcesBalancedAllocation.
"""

from collections.abc import Iterable, Iterator

import msgspec

from berth.api.pod_resources import CPU, MEMORY
from berth.config.errors import invalid

MAX_WEIGHT = 100


class ResourceSpec(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A resource and how much it weighs; a weight of 0 means 1."""

    name: str
    weight: int = 0


class ShapePoint(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The score, 0 to 10, of a node used to so many percent."""

    utilization: int
    score: int = 0


DEFAULT_RESOURCES = (ResourceSpec(CPU, 1), ResourceSpec(MEMORY, 1))


def defaulted_resources(resources: Iterable[ResourceSpec]) -> tuple[ResourceSpec, ...]:
    """Fill in weights that are absent, and CPU and memory where no resource is named."""
    given = tuple(spec if spec.weight else ResourceSpec(spec.name, 1) for spec in resources)
    return given or DEFAULT_RESOURCES


def resource_errors(resources: Iterable[ResourceSpec], path: str) -> Iterator[str]:
    """Say which weights are out of range."""
    for index, spec in enumerate(resources):
        if not 0 < spec.weight <= MAX_WEIGHT:
            detail = f"resource weight of {spec.name} not in valid range (0, {MAX_WEIGHT}]"
            yield invalid(f"{path}[{index}].weight", spec.weight, detail)
