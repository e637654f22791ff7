"""What in a cluster needs attention: lines with the number that matters, each with the question that explains it.

These are questions that the page answers in full. Here they are asked within bounds, so that they may be asked of any
cluster that somebody looks at; where a bound was reached, the sentence says so.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from berth.api.pools import pool_of
from berth.decisions.pending import PendingReport
from berth_workbench.planning.autoscale import USED_AT_MOST, removable_nodes
from berth_workbench.planning.help.result import Help
from berth_workbench.planning.help.search import help_for_all
from berth_workbench.planning.node_groups import NodeGroupSpec, groups_in
from berth_workbench.planning.quotas import quotas_of
from berth_workbench.planning.survival import Kind, survival
from berth_workbench.questions.survive import told
from berth_workbench.showing.sections import VerdictSection
from berth_workbench.showing.words import counted, listed
from berth_workbench.simulation.measures import is_pending, stranded, usual_requests
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import WorkWatch
from berth_workbench.sources.times import lasting

POD_LOADS: Final = 200_000
"""How many pods may be looked at in all for one finding: of a small cluster all failures, of a large one the worst."""
MOST_TRIED: Final = 200
NAMES_SHOWN: Final = 4
LOST: Final[tuple[Kind, ...]] = ("node", "zone")


class Finding(NamedTuple):
    """One line."""

    figure: str
    says: str
    asks: str
    """The address of the question that tells more."""
    name: str
    """What it is called there."""


def of_pending(report: PendingReport) -> list[Finding]:
    """Return what is pending, as a finding."""
    if not report.pods:
        return []
    first = report.groups[0] if report.groups else None
    since = lasting(min((group.since for group in report.groups), default=""))
    why = f"; {first.title}: {first.missing[:1].lower()}{first.missing[1:]}" if first is not None else "."
    longest = f", the longest{since}" if since else ""
    says = f"pending, of {counted(len(report.groups), 'workload')}{longest}{why}"
    return [Finding(counted(report.pods, "pod"), says, "/workloads", "Workloads")]


def _helps(situation: Situation, watch: WorkWatch) -> Mapping[str, Help]:
    """What would help, by each pod that it is about."""
    return {pod: found for found in help_for_all(situation, watch) for pod in (found.pod, *found.pods)}


def _lost(situation: Situation, watch: WorkWatch) -> list[Finding]:
    site = situation.site(watch)
    found = survival(site, kinds=LOST, simulated_at_most=_tried(len(site.cluster.pods)), watch=watch)
    if not any(each.survived < each.failures for each in found.kinds):
        return []
    verdict = next(each for each in told(found) if isinstance(each, VerdictSection)).text
    lost = [
        f"{each.failures - each.survived - each.unknown:,} of {counted(each.failures, each.kind)}"
        for each in reversed(found.kinds)
        if each.survived + each.unknown < each.failures
    ]
    says = verdict.removeprefix("No: ").partition(". ")[0].removesuffix(".")
    asked = f"/survive?{urlencode({'kinds': ', '.join(LOST)})}"
    return (
        [Finding(listed(lost), f"cannot be lost: {says}.", asked, "Survive")]
        if lost
        else [Finding("Unknown", f"{says}.", asked, "Survive")]
    )


def _stranded(situation: Situation, watch: WorkWatch) -> list[Finding]:
    cluster = situation.site(watch).cluster
    pending = (cluster.core.intake.info(pod) for pod in cluster.pods.values() if is_pending(pod))
    found = stranded(cluster.core.cache.table, usual_requests(cluster.core.cache.table, pending))
    told = []
    for name, (free, nodes) in found.items():
        where = listed(sorted(nodes), shown=NAMES_SHOWN)
        says = f"stranded, of {free:,} free: too little CPU or memory is left beside them on {where}."
        if nodes:
            told.append(Finding(f"{sum(nodes.values()):,} {name}", says, f"/map?{urlencode({'colour': name})}", "Map"))
    return told


def _removable(situation: Situation, watch: WorkWatch) -> list[Finding]:
    site = situation.site(watch)
    site.settle()
    nodes = site.cluster.nodes.values()
    pools = sorted({pool for node in nodes if (pool := pool_of(node.metadata.labels))})
    groups = groups_in([NodeGroupSpec(pool) for pool in pools], nodes)
    found, tried = removable_nodes(site, groups, USED_AT_MOST, _tried(len(site.cluster.pods)), watch)
    if not found:
        return []
    names = listed([each.node for each in found], shown=NAMES_SHOWN)
    says = f"could go, of {tried:,} that are half empty, and every pod on them has another place: {names}."
    asked = urlencode({"groups": json.dumps({"groups": [{"name": pool} for pool in pools]})})
    return [Finding(counted(len(found), "node"), says, f"/autoscale?{asked}", "Autoscale")]


def _quotas(situation: Situation, _watch: WorkWatch) -> list[Finding]:
    full = [
        each for each in quotas_of(situation.snapshot).lines if each.most is not None and each.used >= each.most > 0
    ]
    if not full:
        return []
    names = [f"{each.resource} in {each.namespace or 'all namespaces'}" for each in full]
    binds = "binds" if len(full) == 1 else "bind"
    says = f"{binds}: nothing is left of {listed(names, shown=NAMES_SHOWN)}."
    return [Finding(counted(len(full), "quota"), says, "/quotas", "Quotas")]


def _tried(pods: int) -> int:
    return max(5, min(MOST_TRIED, POD_LOADS // max(pods, 1)))


WORKS: Final[Mapping[str, Callable[[Situation, WorkWatch], Any]]] = {
    "quotas": _quotas,
    "stranded": _stranded,
    "lost": _lost,
    "removable": _removable,
    "help": _helps,
}
TOLD_AS: Final[Mapping[str, str]] = {
    "quotas": "which quotas bind",
    "stranded": "which devices are stranded",
    "lost": "which nodes and zones can be lost",
    "removable": "which nodes could go",
    "help": "what would help pending pods",
}
"""What each of them is about, to go on with `could not be worked out`."""
FINDINGS: Final = ("lost", "stranded", "removable", "quotas")
"""Of these, the ones that are lists of findings, in the order in which they are told."""
