"""Finds what moving from v1.20 to v1.36 changes: both generations decide about the same cluster, pod by pod, and why.

A case (see `berth.cases`) goes in, one `PlacementChange` comes out for each pod that the two place differently. Both
decide about the same cluster: after each pod, v1.20's choice is what stands in both. Ties go to the smallest name.

The cause of a change is found by exchange (see `berth.exchange`): a plugin is named if v1.20's decision, with that
plugin's part taken from v1.36, is v1.36's. Plugins that took over the work of others are counted with them
(`SUCCESSORS`). Called by `berth impact`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from berth.api.codec import decode
from berth.cases import case_for, check_new, core_of, documents
from berth.exchange import DividedDecision, assume, causes, decided
from berth.framework.registry import Registry

OLD: Final = "v1.20"
NEW: Final = "v1.36"

SUCCESSORS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "NodeResourcesLeastAllocated": "NodeResourcesFit",
        "NodeResourcesMostAllocated": "NodeResourcesFit",
        "RequestedToCapacityRatio": "NodeResourcesFit",
        "EBSLimits": "NodeVolumeLimits",
        "GCEPDLimits": "NodeVolumeLimits",
        "AzureDiskLimits": "NodeVolumeLimits",
        "CinderLimits": "NodeVolumeLimits",
        "SelectorSpread": "PodTopologySpread",
    }
)
"""Today's plugin that does what an older one did, where the names differ."""


class PlacementChange(msgspec.Struct, frozen=True):
    """A pod that the two generations place differently; None where it fits on no node."""

    pod: str
    old: str | None
    new: str | None
    plugins: tuple[str, ...]
    """The plugins that caused it."""
    alone: bool
    """Whether each of them alone accounts for the difference, or only all of them together."""


class CaseImpact(msgspec.Struct, frozen=True):
    """What changes in one case."""

    name: str
    pods: int
    changes: tuple[PlacementChange, ...]


def impact(case: Mapping[str, Any], registry: Registry) -> CaseImpact:
    """Return what changes in a case. Raises `CaseError`, `ConfigError` or `ObjectError`."""
    old, new = (core_of(case_for(case, generation), registry, memos=False) for generation in (OLD, NEW))
    changes = []
    pods = documents(case, "pods")
    for document in pods:
        before, after = (
            DividedDecision(core, core.intake.info(decode("Pod", document)), SUCCESSORS) for core in (old, new)
        )
        check_new(old, before.pod)
        chosen, now = decided(before), decided(after)
        if chosen != now:
            plugins, alone = causes(before, after)
            changes.append(PlacementChange(before.pod.key, chosen, now, plugins, alone))
        if chosen is not None:
            for side in (before, after):
                assume(side, chosen)
    return CaseImpact(str(case.get("name", "")), len(pods), tuple(changes))


def report(cases: Iterable[CaseImpact]) -> str:
    """Return what changed in words: every change, then the sums."""
    lines: list[str] = []
    pods = 0
    blamed: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for case in cases:
        pods += case.pods
        if case.changes:
            lines.append(f"{case.name or 'case'}:")
        for change in case.changes:
            kinds[_kind(change)] += 1
            blamed.update(change.plugins)
            lines.append(f"  {change.pod}: {_place(change.old)} → {_place(change.new)}  because of {_because(change)}")
    changed = sum(kinds.values())
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    lines.append(f"{changed} of {pods} pods decided differently by {OLD} and {NEW}" + (f": {told}" if told else ""))
    lines += [f"  {count:>5}  {plugin}" for plugin, count in blamed.most_common()]
    return "\n".join(lines)


def _place(node: str | None) -> str:
    return "no node" if node is None else node


def _kind(change: PlacementChange) -> str:
    if change.old is None:
        return "fit now"
    return "fit no more" if change.new is None else "go elsewhere"


def _because(change: PlacementChange) -> str:
    if not change.plugins:
        return "what cannot be told plugin by plugin"
    if change.alone:
        return " or ".join(change.plugins) + (", either alone" if len(change.plugins) > 1 else "")
    return " and ".join(change.plugins) + ", together"
