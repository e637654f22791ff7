"""Why nodes were rejected, in sentences with the numbers of now, and how much less a pod could ask for to fit one.

Asked for when somebody wants to know, about nodes that the plugin has rejected.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from berth.plugin import Node
from berth_plugins.numa.alignment import Verdict, ZoneLack, lack
from berth_plugins.numa.requests import Amounts, Ask, Part
from berth_plugins.numa.topology import Topology

MOST_LOOKED_AT = 1000
"""Of more nodes than this only so many are looked at."""
BINARY = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


class RejectedNode(NamedTuple):
    """A node, what was said of it, and what is known of its zones."""

    node: Node
    verdict: Verdict
    topology: Topology | None
    reserved: int
    """For how many pods something is taken from all zones."""
    stale_because: str


def sentences(ask: Ask, rejected: Sequence[RejectedNode]) -> Iterator[str]:
    """Yield what stands behind the rejections: where amounts are lacking, and nodes that cannot be relied on."""
    lacking = [each for each in rejected if each.verdict in _LACKING and each.topology is not None]
    if lacking:
        yield _of_nearest(ask, lacking)
    by_reason: dict[str, list[str]] = {}
    for each in rejected:
        if each.verdict is Verdict.STALE:
            by_reason.setdefault(each.stale_because, []).append(each.node.metadata.name)
    for reason, names in by_reason.items():
        yield f"{_nodes(names)} not used: {reason}"


_LACKING = (Verdict.POD, Verdict.CONTAINER, Verdict.INIT_CONTAINER, Verdict.SIDECAR)


def _of_nearest(ask: Ask, rejected: Sequence[RejectedNode]) -> str:
    """Say what the pod needs, and what the node lacks that comes nearest."""
    found = []
    for number, each in enumerate(rejected[:MOST_LOOKED_AT]):
        lacks = None if each.topology is None else lack(ask, each.topology, each.node.status.allocatable)
        if lacks is not None:
            missing = sum((needed - lacks.free[name]) / needed for name, needed in lacks.needs.items())
            found.append((missing, number, each, lacks))
    if not found:
        return "some node would do now"
    _, _, nearest, lacks = min(found, key=lambda each: each[:2])
    whose = f"{'an' if lacks.kind[0] == 'i' else 'a'} {lacks.kind}" if lacks.kind != "pod" else "the pod"
    need = f"{whose} needs {_listed(lacks.needs)} in one NUMA zone"
    count = len(rejected)
    which = "the only node rejected for it" if count == 1 else f"the nearest of {count} nodes rejected for it"
    return f"{need}; {nearest.node.metadata.name}, {which}, has {_zones(nearest, lacks)}"


def _zones(nearest: RejectedNode, lacks: ZoneLack) -> str:
    """Say what is free of the lacking resources in each zone, the nearest first."""
    assert nearest.topology is not None, "a node without zones lacks nothing"
    zones = list(nearest.topology.zones)
    zones.insert(0, zones.pop(lacks.zone))
    told = [f"{_listed({name: zone.free.get(name, 0) for name in lacks.needs})} free in {zone.name}" for zone in zones]
    pods = f"{nearest.reserved} pod{'s' if nearest.reserved > 1 else ''}"
    return "; ".join(told) + (f", without what is reserved for {pods}" if nearest.reserved else "")


def _nodes(names: Sequence[str]) -> str:
    return f"{names[0]} is" if len(names) == 1 else f"{len(names)} nodes, {names[0]} among them, are"


def _listed(amounts: Mapping[str, int]) -> str:
    words = [in_words(name, amount) for name, amount in amounts.items()]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def in_words(resource: str, amount: int) -> str:
    """Return an amount as people say it: `1.5 CPU`, `2Gi memory`."""
    if resource == "cpu":
        return f"{amount / 1000:g} CPU"
    if "/" not in resource:
        for unit, suffix in BINARY:
            if amount >= unit:
                return f"{amount / unit:.4g}{suffix} {resource}"
    return f"{amount} {resource}"


def lesser_requests(ask: Ask, topology: Topology, node: Node) -> dict[str, int]:
    """Return how much of each resource the whole pod could request at most, where less of it would let it pass."""
    wanted, found = dict(ask.whole), ask
    for _ in range(2 * len(ask.parts) + 1):
        lacks = lack(found, topology, node.status.allocatable)
        if lacks is None:
            now = dict(found.whole)
            return {name: now.get(name, 0) for name in wanted if now.get(name, 0) < wanted[name]}
        found = _without(found, lacks)
    return {}


def _without(ask: Ask, lacks: ZoneLack) -> Ask:
    """Return what is asked for if the part that lacks something asked for what there is."""
    if lacks.kind == "pod":
        return ask._replace(whole=_lowered(ask.whole, lacks))
    meant = next(number for number, part in enumerate(ask.parts) if _is_meant(part, lacks))
    parts = [part._replace(asks=_lowered(part.asks, lacks)) if number == meant else part
             for number, part in enumerate(ask.parts)]  # fmt: skip
    less = {name: needed - lacks.free[name] for name, needed in lacks.needs.items()}
    whole = tuple((name, max(0, amount - less.get(name, 0))) for name, amount in ask.whole)
    return ask._replace(parts=tuple(parts), whole=whole)


def _is_meant(part: Part, lacks: ZoneLack) -> bool:
    asked = dict(part.asks)
    return part.kind == lacks.kind and all(asked.get(name) == needed for name, needed in lacks.needs.items())


def _lowered(asks: Amounts, lacks: ZoneLack) -> Amounts:
    return tuple((name, lacks.free[name] if name in lacks.needs else amount) for name, amount in asks)
