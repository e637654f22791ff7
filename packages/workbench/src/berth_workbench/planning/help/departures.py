"""Which pod would have to go: one that is in the way, wherever it runs, the least important first.

Pods are taken off one by one, and the filters asked. One alone may be enough on its own node, or from another one where
it is kept away from, spread among, or wanted beside the pod. Budgets are respected. Pods of daemon sets and mirror pods
stay, as do those of the workload itself: they would come back. What is found is offered where it still helps once
controllers have made their pods again. Where it takes several, preemption and moves know which.
"""

from collections import Counter
from collections.abc import Hashable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.api.pod_resources import PODS
from berth.framework.status import Code
from berth.state.pod_info import PodInfo
from berth_workbench.planning.help.filters import FilterAnswer
from berth_workbench.planning.help.findings import HelpFindings
from berth_workbench.planning.help.needs import PodEdit, PodQuestion
from berth_workbench.planning.help.proposals import PRIORITY_COST, Proposal, of_pod, pod_gone
from berth_workbench.planning.help.sources.resources import PLUGIN as OF_AMOUNTS
from berth_workbench.simulation.budgets import follows_its_node

Json = dict[str, Any]
Mask = NDArray[np.bool_]

HOSTNAME = "kubernetes.io/hostname"
TRIED = 200
"""So many pods, or kinds of pods that are alike, are tried one by one."""
SYSTEM_NAMESPACE = "kube-system"
SYSTEM_PREFIX = "system-"
"""Classes whose names begin so are for what the cluster itself needs, and admitted in its namespace only."""
CLASSES_TRIED = 12
JUDGED = 24
"""So many pods are tried with everything that follows: who makes them again, and where those go."""
NEVER = "Never"


class Leaving:
    """The search for a pod that is in the way."""

    __slots__ = ("_answer", "_filters", "_findings", "_kinds", "_own", "_question", "_short",
                 "is_forbidden", "pod")  # fmt: skip

    def __init__(self, findings: HelpFindings, answer: FilterAnswer) -> None:
        self._findings = findings
        self._question = question = findings.question
        self._filters = question.filters
        self._answer = answer
        self._kinds: dict[Hashable, tuple[bool, bool]] = {}
        self._own = {pod.metadata.uid for pod in (*question.group.waiting, *question.group.running)}
        """The pods of the workload itself: whatever leaves of them is made again, and wants the same."""
        self._short = _short_of(question)
        self.pod: PodInfo | None = None
        """The pod whose going helps, if one is found."""
        self.is_forbidden = False
        """Whether a budget stands against it."""

    def run(self) -> None:
        """Find the first pod that does; those that a budget protects are tried last."""
        turns, seen = Counter[Hashable](), set[Hashable]()
        candidates = []
        for row, pod in self._candidates():
            kind = (self._place(row), id(pod.shape), pod.priority)
            if (row, kind) not in seen:  # on one node it comes to the same which of several like ones goes
                seen.add((row, kind))
                is_forbidden = self._kind(pod)[1] and not pod.is_terminating
                candidates.append((is_forbidden, not pod.is_terminating, pod.priority, turns[kind], pod.key, pod))
                turns[kind] += 1
        candidates.sort(key=lambda each: each[:-1])
        judged = 0
        for is_forbidden, *_, pod in candidates[:TRIED]:
            with self._filters.without([pod.key]):
                is_in_the_way = self._filters.ask(self._question.info).is_yes
            if is_in_the_way and is_forbidden:
                self.pod, self.is_forbidden = pod, True
                self._findings.notes.append(
                    f"it would fit if {pod.key} left, but a disruption budget stands against it"
                )
                return
            if is_in_the_way and judged < JUDGED:
                judged += 1
                if self._findings.add_first([pod_gone(pod.key)]) is not None:
                    self.pod = pod
                    return
        self._findings.is_complete &= len(candidates) <= TRIED and judged < JUDGED

    def _curable(self) -> Mask:
        """Return the rows where a pod that leaves may cure everything that is wrong."""
        found: Mask = self._question.valid.copy()
        status = self._answer.pre_filter_status
        if status is not None and status.code is not Code.UNSCHEDULABLE:
            return np.zeros_like(found)
        for need in self._findings.needs:
            found &= ~need.failing if need.may_be_freed is None else ~need.failing | need.may_be_freed
        return found

    def _may_leave(self, pod: PodInfo) -> bool:
        """Say whether it may help that a pod leaves.

        Who belongs to its node comes back at once, and whoever is of the same workload or group wants the same. One
        that has yet to start may have got its place only in memory.
        """
        asking = self._question.info
        group = asking.spec.scheduling_group
        is_mate = group is not None and (pod.spec.scheduling_group, pod.namespace) == (group, asking.namespace)
        return not (follows_its_node(pod.pod) or is_mate or pod.uid in self._own or pod.pod.status.phase == "Pending")

    def _kind(self, pod: PodInfo) -> tuple[bool, bool]:
        """Return whether a pod may be in the way by what it is, and whether a budget forbids that it leaves.

        Asked once for pods that agree in all that filters and budgets look at.
        """
        stands_alone = pod.has_pod_affinity or pod.spec.volumes or pod.spec.resource_claims
        key = (pod.label_key, id(pod.shape) if stands_alone else None, pod.host_ports)
        found = self._kinds.get(key)
        if found is None:
            is_custom = any(need.key[0] == "said" for need in self._findings.needs if isinstance(need.key, tuple))
            has_claims = bool(pod.spec.resource_claims) and bool(self._question.info.spec.resource_claims)
            has_volumes = bool(pod.spec.volumes) and bool(self._question.info.spec.volumes)
            affects = is_custom or has_claims or has_volumes or self._answer.affects(pod)
            forbidden = any(budget.allowed <= 0 and budget.selects(pod) for budget in self._filters.budgets)
            found = self._kinds[key] = (affects, forbidden)
        return found

    def _candidates(self) -> Iterator[tuple[int, PodInfo]]:
        """Yield the pods, with their rows, one of which may do by going alone.

        One may free all the amounts that its row is short of, and cure what else is wrong there. One that is in the way
        by what it is may run on a node that cannot take the pod itself; where rows are short of nothing, that may do.
        """
        curable, table, nobody = self._curable(), self._question.table, np.zeros_like(self._question.valid)
        short = np.logical_or.reduce([nobody, *(amounts > 0 for amounts in self._short.values())])
        failing = (need.failing for need in self._findings.needs if need.plugin != OF_AMOUNTS)
        otherwise = np.logical_or.reduce([nobody, *failing])
        is_anywhere = bool((curable & ~short).any())
        for row in np.flatnonzero(self._question.valid if is_anywhere else curable & short).tolist():
            lacking = {name: amount for name, amounts in self._short.items() if (amount := int(amounts[row])) > 0}
            for pod in filter(self._may_leave, table.pods[row].values()):
                affects = self._kind(pod)[0]
                frees = curable[row] and lacking and all(_frees(pod, name) >= each for name, each in lacking.items())
                if (affects and is_anywhere) or (frees and (affects or not otherwise[row])):
                    yield row, pod

    def _place(self, row: int) -> Hashable:
        """Return what of a node decides what it means that a pod there goes: its domains, and what rules it out."""
        labels = self._question.table.node(row).metadata.labels
        keys = _spoken_of(self._question.info) - {HOSTNAME}
        return (*(labels.get(key) for key in sorted(keys)), *(bool(need.failing[row]) for need in self._findings.needs))


def _spoken_of(pod: PodInfo) -> set[str]:
    """Return the labels over which a pod keeps others away, or is spread among them."""
    affinity = pod.spec.affinity and pod.spec.affinity.pod_anti_affinity
    apart = {term.topology_key for term in affinity.required} if affinity else set()
    return apart | {constraint.topology_key for constraint in pod.spec.topology_spread_constraints}


def _short_of(question: PodQuestion) -> dict[str, NDArray[np.int64]]:
    """Return how much is short on each row, by resource, and of room for one more pod."""
    table = question.table
    found: dict[str, NDArray[np.int64]] = {PODS: 1 - (table.allowed_pods - table.pod_count)}
    for resource, amount in question.info.requests.items():
        known = table.resource_index.get(resource)
        if amount > 0 and known is not None:
            found[resource] = amount - (table.allocatable[known] - table.requested[known])
    return found


def _frees(pod: PodInfo, resource: str) -> int:
    """Return how much of a resource is free once a pod has gone; of room for pods, that of one."""
    return 1 if resource == PODS else pod.requests.get(resource, 0)


def higher_priorities(question: PodQuestion) -> Iterator[Proposal]:
    """Yield the PriorityClasses of the cluster, from the least on, with which preemption would make room."""
    filters, own = question.filters, question.info.priority
    classes = sorted(filters.cluster.priority_classes.values(), key=lambda each: (each.value, each.metadata.name))
    wanted = [each for each in classes if each.value > own and each.preemption_policy != NEVER]
    if question.info.spec.preemption_policy == NEVER:
        wanted = [each for each in classes if each.value >= own and each.preemption_policy != NEVER]
    if question.pod.metadata.namespace != SYSTEM_NAMESPACE:
        wanted = [each for each in wanted if not each.metadata.name.startswith(SYSTEM_PREFIX)]
    for chosen in wanted[:CLASSES_TRIED]:
        what = f"use the PriorityClass {chosen.metadata.name} ({chosen.value}), so that preemption makes room"
        proposal = of_pod(question, PodEdit("priority", what, partial(_set_class, chosen.metadata.name), PRIORITY_COST))
        assert proposal is not None and proposal.pod is not None, "a pod of another class is a pod"
        if filters.preempts(proposal.pod) is not None:
            yield proposal


def _set_class(name: str, document: Json) -> None:
    document["spec"]["priorityClassName"] = name
    for field in ("priority", "preemptionPolicy"):  # admission fills them in from the class
        document["spec"].pop(field, None)
