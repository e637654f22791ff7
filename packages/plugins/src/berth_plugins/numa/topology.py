"""What a NodeResourceTopology says of a node: how its kubelet aligns pods, and what is free in each NUMA zone.

Agents on the nodes write these objects (`topology.node.k8s.io/v1alpha2`). Amounts are counted as pods' requests are:
cpu in milli-units, all else in units.

Zones are in the order of their ids. Upstream goes by the order in which they are listed, which is the same in all that
agents write. A zone whose name is not `node-ID`, or whose id is 64 or more, counts for nothing.
"""

from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

from berth.plugin import CustomResource, ObjectMeta, Quantity, milli_value, value

SINGLE_NUMA_NODE = "single-numa-node"
POLICIES = ("none", "best-effort", "restricted", SINGLE_NUMA_NODE)
CONTAINER, POD = "container", "pod"
DEFAULT_MAX_ZONES, LIMIT_MAX_ZONES = 8, 1024
IDS = 64
"""Zones have ids below this."""
ZONE_NAME = "node-"
NUMA_ZONE = "Node"
"""The type of those zones that are NUMA zones."""
MAX_AMOUNT = 1 << 46
"""More of a resource counts as this much, 70 TB of memory: so percentages of it are exact in floating point."""

FREE = "free"
"""What comes before what is free in the signature of a zone."""

SCOPE_ATTRIBUTE = "topologyManagerScope"
POLICY_ATTRIBUTE = "topologyManagerPolicy"
MAX_ZONES_ATTRIBUTE = "topologyManagerMaxNUMANodes"


class Attribute(msgspec.Struct, frozen=True):
    """A name and a value."""

    name: str = ""
    value: str = ""


class Cost(msgspec.Struct, frozen=True):
    """How far away another zone is."""

    name: str = ""
    value: int = 0


class ZoneResource(msgspec.Struct, frozen=True):
    """What a zone has of a resource."""

    name: str = ""
    available: Quantity = 0
    allocatable: Quantity = 0


class Zone(msgspec.Struct, frozen=True):
    """A zone: a NUMA node, or a part of the hardware that this plugin does not look at."""

    name: str = ""
    type: str = ""
    costs: tuple[Cost, ...] | None = None
    resources: tuple[ZoneResource, ...] | None = None


class NodeResourceTopology(msgspec.Struct, frozen=True, rename="camel"):
    """A NodeResourceTopology, as far as this plugin reads it; it has the name of its node."""

    metadata: ObjectMeta
    topology_policies: tuple[str, ...] | None = None
    zones: tuple[Zone, ...] | None = None
    attributes: tuple[Attribute, ...] | None = None

    def attribute(self, name: str) -> str | None:
        """Return the first value of an attribute, or None."""
        return next((each.value for each in self.attributes or () if each.name == name), None)


TOPOLOGIES = CustomResource(
    "topology.node.k8s.io",
    "v1alpha2",
    "noderesourcetopologies",
    "NodeResourceTopology",
    namespaced=False,
    struct=NodeResourceTopology,
)


class Alignment(NamedTuple):
    """How the kubelet of a node aligns: by which policy, whole pods or container by container, and up to which size."""

    policy: str = "none"
    scope: str = CONTAINER
    max_zones: int = DEFAULT_MAX_ZONES

    @property
    def is_single(self) -> bool:
        """Say whether everything of a pod, or of a container, must come from one zone."""
        return self.policy == SINGLE_NUMA_NODE


class NumaZone(NamedTuple):
    """A NUMA zone: what is free there of each resource that it lists, and how far the others are."""

    number: int
    free: Mapping[str, int]
    costs: Mapping[int, int]
    size: Mapping[str, int]
    """What there is in all, for explanations."""

    @property
    def name(self) -> str:
        """What the object calls it."""
        return f"{ZONE_NAME}{self.number}"


class Topology(NamedTuple):
    """What is known of a node."""

    alignment: Alignment
    zones: tuple[NumaZone, ...]

    @property
    def is_regular(self) -> bool:
        """Say whether the ids of the zones are 0, 1, 2 and so on, each once."""
        return all(zone.number == place for place, zone in enumerate(self.zones))

    @property
    def signature(self) -> Hashable:
        """Equal for topologies of which everything is equal."""
        zones = ((zone.number, *zone.costs.items(), FREE, *zone.free.items()) for zone in self.zones)
        return self.alignment, tuple(zones)

    def less(self, taken: Mapping[str, int]) -> "Topology":
        """Return it with this much taken from every zone, as far as there is so much."""
        if not taken:
            return self
        zones = []
        for zone in self.zones:
            free = {name: max(0, amount - taken.get(name, 0)) for name, amount in zone.free.items()}
            zones.append(zone._replace(free=free))
        return self._replace(zones=tuple(zones))


def topology_of(found: NodeResourceTopology) -> Topology:
    """Read an object."""
    zones = [
        NumaZone(
            number,
            {each.name: amount_of(each.name, each.available) for each in zone.resources or ()},
            {other: cost.value for cost in zone.costs or () if (other := zone_number(cost.name)) is not None},
            {each.name: amount_of(each.name, each.allocatable) for each in zone.resources or ()},
        )
        for zone in found.zones or ()
        if zone.type == NUMA_ZONE and (number := zone_number(zone.name)) is not None
    ]
    return Topology(alignment_of(found), tuple(sorted(zones, key=lambda zone: zone.number)))


def alignment_of(found: NodeResourceTopology) -> Alignment:
    """Return how a node aligns: by its attributes, else by the deprecated first policy; unknown values count for
    nothing."""
    alignment = by_policy(found.topology_policies or ())
    for attribute in found.attributes or ():
        if attribute.name == SCOPE_ATTRIBUTE and attribute.value in (CONTAINER, POD):
            alignment = alignment._replace(scope=attribute.value)
        elif attribute.name == POLICY_ATTRIBUTE and attribute.value in POLICIES:
            alignment = alignment._replace(policy=attribute.value)
        elif attribute.name == MAX_ZONES_ATTRIBUTE and (most := whole_number(attribute.value)) > 1:
            alignment = alignment._replace(max_zones=min(most, LIMIT_MAX_ZONES))
    return alignment


def by_policy(policies: Iterable[str]) -> Alignment:
    """Return what the first of the deprecated policies says, such as `SingleNUMANodePodLevel`."""
    first = next(iter(policies), "")
    for scope, suffix in ((POD, "PodLevel"), (CONTAINER, "ContainerLevel")):
        policy = _POLICY_OF.get(first.removesuffix(suffix))
        if policy is not None and first.endswith(suffix):
            return Alignment(policy, scope)
    return Alignment()


_POLICY_OF = {"SingleNUMANode": SINGLE_NUMA_NODE, "BestEffort": "best-effort", "Restricted": "restricted"}


def zone_number(name: str) -> int | None:
    """Return the id in the name of a zone; None where it has none that counts."""
    if not name.startswith(ZONE_NAME):
        return None
    number = whole_number(name.removeprefix(ZONE_NAME))
    return number if 0 <= number < IDS else None


def whole_number(text: str) -> int:
    """Return a number as Go reads it; -1 where it is none."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 19 else -1


@lru_cache(maxsize=4096)
def amount_of(resource: str, quantity: Quantity) -> int:
    """Return an amount as it is counted, at least 0; one that cannot be read is nothing."""
    try:
        amount = (milli_value if resource == "cpu" else value)(quantity)
    except ValueError:
        return 0
    return max(0, min(amount, MAX_AMOUNT))
