"""Another number of replicas: as many as can run at once, or as many as a gang needs to begin at all."""

from collections.abc import Iterator
from shlex import quote

import numpy as np

from berth_workbench.planning.help.findings import HelpFindings
from berth_workbench.planning.help.needs import PodQuestion
from berth_workbench.planning.help.proof import Proposal
from berth_workbench.planning.help.result import Change
from berth_workbench.simulation.budgets import Owner
from berth_workbench.simulation.workloads import REPLICATED

TRIED = 24
"""So many numbers are tried from above; then the number of those that run."""
FEWER_COST = 3.0
HOSTNAME = "kubernetes.io/hostname"
PLACES = {HOSTNAME: "nodes", "topology.kubernetes.io/zone": "zones", "topology.kubernetes.io/region": "regions"}


def fewer_replicas(findings: HelpFindings) -> Iterator[Proposal]:
    """Yield the numbers of replicas that a workload could have instead, the largest first."""
    group = findings.question.group
    if group.owner is None or group.owner[0] not in REPLICATED or not group.running:
        return
    total, running, places = group.size, len(group.running), places_apart(findings)
    numbers = [*range(total - 1, max(running, total - TRIED) - 1, -1), running]
    for number in dict.fromkeys(numbers):
        why = f", one for each of the {places[1]}" if places is not None and places[0] == number else ""
        yield _scaled(group.owner, total, number, why)


def enough_replicas(question: PodQuestion) -> Iterator[Proposal]:
    """Yield the number of replicas with which a gang has as many pods as it needs, where it has too few."""
    group, gang = question.group, question.group.gang
    if gang is not None and group.size < gang.needed and group.owner is not None and group.owner[0] in REPLICATED:
        number = group.own_size + gang.needed - group.size
        yield _scaled(group.owner, group.own_size, number, f", as many as {gang.field} asks for")


def _scaled(owner: Owner, total: int, number: int, why: str) -> Proposal:
    kind, (namespace, _, name) = owner[0], owner[1].partition("/")
    change = Change(
        on="cluster",
        what=f"run {number} replica{'' if number == 1 else 's'} instead of {total}{why}",
        patch={"spec": {"replicas": number}},
        fits_on=(),
        patch_type="merge",
        target=f"{kind}/{owner[1]}",
        kind="replicas",
        cost=round(FEWER_COST + abs(total - number) / total, 6),
        command=f"kubectl -n {quote(namespace)} scale {kind.lower()} {quote(name)} --replicas {number}",
    )
    return Proposal(change, replicas=number)


def places_apart(findings: HelpFindings) -> tuple[int, str] | None:
    """Return how many places there are for pods that keep each other out of them, in a number and in words.

    None where the pods do not, or there are enough. A place counts where nothing but such pods rules a node of it out.
    """
    question: PodQuestion = findings.question
    namespaces = question.prover.core.cache.index.namespaces.get(question.info.namespace, {})
    rows = question.valid.copy()
    for need in findings.needs:
        if need.plugin != "InterPodAffinity":
            rows &= ~need.failing
    labels = [question.table.node(row).metadata.labels for row in np.flatnonzero(rows).tolist()]
    found = []
    for term in question.info.required_anti_affinity_terms:
        count = len({each[term.topology_key] for each in labels if term.topology_key in each})
        if count < question.group.size and term.matches(question.info, namespaces):
            found.append((count, f"{count} {PLACES.get(term.topology_key, f'values of {term.topology_key}')}"))
    return min(found, default=None)
