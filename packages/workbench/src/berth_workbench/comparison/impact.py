"""Finds what moving from v1.20 to v1.36 changes: both generations decide about the same cluster, pod by pod, and why.

A case (see `berth_workbench.cases.cases`) goes in, and one change comes out for each pod that the two place otherwise.
Both decide about the same cluster: after each pod, v1.20's choice is what stands in both. Ties go to the smallest name.

A plugin is named for a change if v1.20's decision, with that plugin's part taken from v1.36, is v1.36's (see
`berth.cycle.difference`). Called by `berth impact`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from berth.api.codec import decode
from berth.cycle.difference import FIRST_BY_NAME, ComparedDecision
from berth.cycle.difference_kinds import DIFFERENCE_WORDS
from berth.decisions.side_by_side import SUCCESSORS, DecisionComparer, Side
from berth.framework.registry import Registry
from berth_workbench.cases.cases import case_for, check_new, core_of, documents
from berth_workbench.showing.words import because

OLD: Final = "v1.20"
NEW: Final = "v1.36"


class CaseImpact(msgspec.Struct, frozen=True):
    """What changes in one case: the pods that the two generations place differently."""

    name: str
    pods: int
    changes: tuple[ComparedDecision, ...]


def impact(case: Mapping[str, Any], registry: Registry) -> CaseImpact:
    """Return what changes in a case. Raises `CaseError`, `ConfigError` or `ObjectError`."""
    old, new = (core_of(case_for(case, generation), registry, memos=False) for generation in (OLD, NEW))
    comparer = DecisionComparer(Side.of(old, is_for_all=True), Side.of(new, is_for_all=True), FIRST_BY_NAME, SUCCESSORS)
    pods = documents(case, "pods")
    changes = []
    for document in pods:
        pod = decode("Pod", document)
        check_new(old, old.intake.info(pod))
        found = comparer.compare(pod, stands=True)
        if found.kind != "same":
            changes.append(found)
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
            kinds[DIFFERENCE_WORDS[change.kind]] += 1
            blamed.update(change.plugins)
            why = because(change.plugins, is_alone=change.alone)
            lines.append(f"  {change.pod}: {change.a or 'no node'} → {change.b or 'no node'}  because of {why}")
    changed = sum(kinds.values())
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    lines.append(f"{changed} of {pods} pods decided differently by {OLD} and {NEW}" + (f": {told}" if told else ""))
    lines += [f"  {count:>5}  {plugin}" for plugin, count in blamed.most_common()]
    return "\n".join(lines)
