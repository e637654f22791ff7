"""Which pods would have to go: the least set on one node, or in one domain of pods that keep this one away.

Rows are ranked by a rough count of what would have to leave, and the best are tried: the pods are taken off, the
filters asked, and every pod that is not in the way is put back, the most important first. So no proper subset of what
is left would do. Where that leaves several pods or none, single pods are tried one after the other, wherever they run:
one alone may be enough where no node's own pods are in the way, or where all of them together are needed by others.
Budgets are respected. Pods of daemon sets and mirror pods stay, as do those of the workload itself: they would come
back. What of the sets that are found helps once controllers have made their pods again is offered.
"""

import copy
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.api.pod_resources import PODS
from berth.framework.status import Code
from berth.plugins.preemption.budgets import split_by_violation
from berth.state.pod_info import PodInfo
from berth_workbench.planning.help.findings import HelpFindings
from berth_workbench.planning.help.needs import PodQuestion
from berth_workbench.planning.help.proof import ChangeProver, FilterAnswer, Proposal
from berth_workbench.planning.help.proposals import PRIORITY_COST, of_pod_document, pods_gone
from berth_workbench.planning.help.result import Change
from berth_workbench.planning.help.sources.resources import PLUGIN as OF_AMOUNTS
from berth_workbench.planning.help.words import names_in_words
from berth_workbench.simulation.budgets import follows_its_node

Mask = NDArray[np.bool_]

HOSTNAME = "kubernetes.io/hostname"
ROWS_TRIED = 8
GROUPS_TRIED = 12
MAX_GROUP = 60
"""Larger sets of pods that keep the pod away from a whole domain are not tried."""
ALONE_TRIED = 200
"""So many pods, or kinds of pods that are alike, are tried one by one."""
SYSTEM_NAMESPACE = "kube-system"
SYSTEM_PREFIX = "system-"
"""Classes whose names begin so are for what the cluster itself needs, and admitted in its namespace only."""
CLASSES_TRIED = 12
JUDGED = 24
"""So many sets of pods are tried with everything that follows: who makes them again, and where those go."""
NEVER = "Never"


class Gone(NamedTuple):
    """A set of pods whose leaving lets the pod in."""

    pods: tuple[PodInfo, ...]
    fits_on: tuple[str, ...]
    breaks: tuple[str, ...]
    """The disruption budgets that stand against it."""

    @property
    def rank(self) -> tuple[int, int, int]:
        """What the set is chosen by, the least first: budgets, priority, how many."""
        highest = max((pod.priority for pod in self.pods if not pod.is_terminating), default=-(2**31))
        return len(self.breaks), highest, len(self.pods)


class Leaving:
    """The search for pods that are in the way."""

    __slots__ = ("_answer", "_budgets", "_changes", "_findings", "_kinds", "_needs", "_own", "_prover", "_question",
                 "_short", "best", "fewest")  # fmt: skip

    def __init__(self, findings: HelpFindings, answer: FilterAnswer) -> None:
        self._findings = findings
        self._question = question = findings.question
        self._prover: ChangeProver = question.prover
        self._needs = findings.needs
        self._answer = answer
        self._budgets = self._prover.budgets
        self._kinds: dict[Hashable, tuple[bool, bool]] = {}
        self._own = {pod.metadata.uid for pod in (*question.group.waiting, *question.group.running)}
        """The pods of the workload itself: whatever leaves of them is made again, and wants the same."""
        self._changes: dict[tuple[PodInfo, ...], Change | None] = {}
        """The sets that were tried with everything that follows; None where that is no help."""
        self._short = _short_of(question)
        self.best: Gone | None = None
        self.fewest: Gone | None = None
        """A set of fewer pods than the best, if there is one that breaks no budget either."""

    def run(self) -> None:
        """Find the best set, if there is one."""
        try:
            self._look()
            if self.fewest is None or len(self.fewest.pods) > 1:
                self._look_for_one()
        finally:
            self._tell()

    def _tell(self) -> None:
        best, fewest = self.best, self.fewest
        if best is not None and best.breaks:
            names, budgets = names_in_words([pod.key for pod in best.pods]), names_in_words(best.breaks)
            self._findings.notes.append(
                f"it would fit if {names} left, but a disruption budget stands against {budgets}"
            )
        for gone in dict.fromkeys((best, fewest)):
            if gone is not None and not gone.breaks and (change := self._changes.get(gone.pods)) is not None:
                self._findings.changes.append(change)

    def _look(self) -> None:
        curable = self._curable()
        ranked = sorted(
            estimate for row in np.flatnonzero(curable).tolist() if (estimate := self._estimate(row)) is not None
        )
        for cost, row, chosen in ranked[:ROWS_TRIED]:
            if self.best is not None and not self.best.breaks and self.best.rank[1:] <= cost[1:]:
                break  # as good as the rest can be expected to be
            self._note(self._tried(self._on_row(row), chosen))
        if self.best is None:
            for group in self._groups(curable)[:GROUPS_TRIED]:
                self._note(self._tried(group, ()))

    def _note(self, gone: Gone | None) -> bool:
        """Take note of a set that lets the pod in; say whether it helps once controllers have made their pods again."""
        if gone is None:
            return False
        is_better = self.best is None or gone.rank < self.best.rank
        is_fewer = not gone.breaks and (self.fewest is None or len(gone.pods) < len(self.fewest.pods))
        if not (is_better or is_fewer) or not (gone.breaks or self._helps(gone)):
            return False
        if is_better:
            self.best = gone
        if is_fewer:
            self.fewest = gone
        return not gone.breaks

    def _helps(self, gone: Gone) -> bool:
        if gone.pods not in self._changes:
            if len(self._changes) >= JUDGED:
                self._findings.is_complete = False
                return False
            proposal = Proposal(pods_gone(gone.pods, gone.fits_on))
            self._changes[gone.pods] = self._findings.judged(proposal)
        return self._changes[gone.pods] is not None

    def _curable(self) -> Mask:
        """Return the rows where pods that leave may cure everything that is wrong."""
        found: Mask = self._question.valid.copy()
        status = self._answer.pre_filter_status
        if status is not None and status.code is not Code.UNSCHEDULABLE:
            return np.zeros_like(found)
        for need in self._needs:
            found &= ~need.failing if need.may_be_freed is None else ~need.failing | need.may_be_freed
        return found

    # -- one row -----------------------------------------------------------------------------------------------------

    def _on_row(self, row: int) -> list[PodInfo]:
        pods = self._prover.state_of_row(row).values()
        return [pod for pod in pods if self._may_leave(pod)]

    def _may_leave(self, pod: PodInfo) -> bool:
        """Say whether it may help that a pod leaves.

        Who belongs to its node comes back at once, and whoever is of the same workload or group wants the same. One
        that has yet to start may have got its place only in memory.
        """
        asking = self._question.info
        group = asking.spec.scheduling_group
        is_mate = group is not None and (pod.spec.scheduling_group, pod.namespace) == (group, asking.namespace)
        return not (follows_its_node(pod.pod) or is_mate or pod.uid in self._own or pod.pod.status.phase == "Pending")

    def _estimate(self, row: int) -> tuple[tuple[int, int, int], int, tuple[str, ...]] | None:
        """Return roughly what freeing a row costs, the row, and who would leave where only amounts are short."""
        short = {name: amount for name, amounts in self._short.items() if (amount := int(amounts[row])) > 0}
        pods = self._on_row(row)
        if not short:
            in_the_way = [pod for pod in pods if self._kind(pod)[0]]
            if not in_the_way:
                return None
            highest = max(pod.priority for pod in in_the_way)
            cost = (sum(self._kind(pod)[1] for pod in in_the_way), highest, len(in_the_way))
            return cost, row, tuple(pod.uid for pod in in_the_way)

        def gain(pod: PodInfo) -> float:
            return sum(min(_frees(pod, name) / amount, 1.0) for name, amount in short.items())

        chosen: list[PodInfo] = []
        left = dict(short)
        for pod in sorted(pods, key=lambda pod: (not pod.is_terminating, self._kind(pod)[1], pod.priority, -gain(pod))):
            if all(amount <= 0 for amount in left.values()):
                break
            if any(amount > 0 and _frees(pod, name) > 0 for name, amount in left.items()):
                chosen.append(pod)
                for name in left:
                    left[name] -= _frees(pod, name)
        if any(amount > 0 for amount in left.values()):
            return None
        highest = max((pod.priority for pod in chosen if not pod.is_terminating), default=-(2**31))
        cost = (sum(self._kind(pod)[1] for pod in chosen), highest, len(chosen))
        return cost, row, tuple(pod.uid for pod in chosen)

    def _kind(self, pod: PodInfo) -> tuple[bool, bool]:
        """Return whether a pod may be in the way by what it is, and whether a budget forbids that it leaves.

        Asked once for pods that agree in all that filters and budgets look at.
        """
        stands_alone = pod.has_pod_affinity or pod.spec.volumes or pod.spec.resource_claims
        key = (pod.label_key, id(pod.shape) if stands_alone else None, pod.host_ports)
        found = self._kinds.get(key)
        if found is None:
            is_custom = any(need.key[0] == "said" for need in self._needs if isinstance(need.key, tuple))
            has_claims = bool(pod.spec.resource_claims) and bool(self._question.info.spec.resource_claims)
            has_volumes = bool(pod.spec.volumes) and bool(self._question.info.spec.volumes)
            affects = is_custom or has_claims or has_volumes or self._answer.affects(pod)
            forbidden = any(budget.allowed <= 0 and budget.selects(pod) for budget in self._budgets)
            found = self._kinds[key] = (affects, forbidden)
        return found

    # -- pods of a whole domain --------------------------------------------------------------------------------------

    def _groups(self, curable: Mask) -> list[list[PodInfo]]:
        """Return the pods that are in the way in each domain of the labels that terms and constraints name."""
        table, found = self._question.table, dict[tuple[str, str], list[PodInfo]]()
        own = _spoken_of(self._question.info)
        for row in np.flatnonzero(self._question.valid).tolist():
            labels = table.node(row).metadata.labels
            for pod in self._on_row(row):
                if not self._kind(pod)[0]:
                    continue
                for key in own | _topology_keys(pod):
                    if key in labels:
                        found.setdefault((key, labels[key]), []).append(pod)
        groups = [pods for (key, value), pods in found.items() if self._has_curable(curable, key, value)]
        return sorted((pods for pods in groups if len(pods) <= MAX_GROUP), key=len)

    def _has_curable(self, curable: Mask, key: str, value: str) -> bool:
        table = self._question.table
        return any(table.node(row).metadata.labels.get(key) == value for row in np.flatnonzero(curable).tolist())

    # -- one pod alone -----------------------------------------------------------------------------------------------

    def _look_for_one(self) -> None:
        """Try pods one by one until one is enough: the least important first, and unlike ones before like ones."""
        turns, seen = Counter[Hashable](), set[Hashable]()
        candidates = []
        for row, pod in chain(self._enough_for_their_rows(), self._in_the_way_anywhere()):
            kind = (self._place(row), id(pod.shape), pod.priority)
            if (row, kind) not in seen:  # on one node it comes to the same which of several like ones goes
                seen.add((row, kind))
                candidates.append((not pod.is_terminating, pod.priority, turns[kind], pod.key, pod))
                turns[kind] += 1
        candidates.sort(key=lambda each: each[:-1])
        for *_, pod in candidates[:ALONE_TRIED]:
            with self._prover.without([pod.uid]):
                names = self._prover.ask(self._question.info).node_names
            if names and self._note(Gone((pod,), names, self._broken((pod,)))):
                return
        self._findings.is_complete &= len(candidates) <= ALONE_TRIED

    def _enough_for_their_rows(self) -> Iterator[tuple[int, PodInfo]]:
        """Yield the pods that free all the amounts that their row is short of, and may cure what else is wrong there.

        Nobody frees an amount on another node.
        """
        otherwise = [need for need in self._needs if need.plugin != OF_AMOUNTS]
        for row in np.flatnonzero(self._curable() & self._is_short()).tolist():
            short = {name: amount for name, amounts in self._short.items() if (amount := int(amounts[row])) > 0}
            has_to_affect = any(need.failing[row] for need in otherwise)
            for pod in self._on_row(row):
                affects, is_forbidden = self._kind(pod)
                is_enough = all(_frees(pod, name) >= amount for name, amount in short.items())
                if is_enough and not is_forbidden and (affects or not has_to_affect):
                    yield row, pod

    def _in_the_way_anywhere(self) -> Iterator[tuple[int, PodInfo]]:
        """Yield the pods that may be in the way by what they are, also from nodes that cannot take the pod themselves.

        They free no amounts but on their own node, so this is for rows that are short of none.
        """
        if not (self._curable() & ~self._is_short()).any():
            return
        for row in np.flatnonzero(self._question.valid).tolist():
            for pod in self._on_row(row):
                affects, is_forbidden = self._kind(pod)
                if affects and not is_forbidden:
                    yield row, pod

    def _place(self, row: int) -> Hashable:
        """Return what of a node decides what it means that a pod there goes: its domains, and what rules it out."""
        labels = self._question.table.node(row).metadata.labels
        keys = _spoken_of(self._question.info) - {HOSTNAME}
        return (*(labels.get(key) for key in sorted(keys)), *(bool(need.failing[row]) for need in self._needs))

    def _is_short(self) -> Mask:
        found = np.zeros_like(self._question.valid)
        for amounts in self._short.values():
            found |= amounts > 0
        return found

    # -- trying ------------------------------------------------------------------------------------------------------

    def _tried(self, pods: Sequence[PodInfo], chosen: Sequence[str]) -> Gone | None:
        """Take pods off, put back all that are not in the way; None where even all of them are not enough."""
        by_uid = {pod.uid: pod for pod in pods}
        for uids in (chosen, [pod.uid for pod in pods if not self._kind(pod)[1]], list(by_uid)):
            if not uids:
                continue
            with self._prover.without(uids) as leave:
                if not self._prover.ask(self._question.info).is_yes:
                    continue
                by_worth = sorted((by_uid[uid] for uid in uids), key=self._worth, reverse=True)
                leave.shrink([pod.uid for pod in by_worth], lambda: self._prover.ask(self._question.info).is_yes)
                names = self._prover.ask(self._question.info).node_names
                gone = tuple(sorted(leave.away.values(), key=lambda pod: pod.key))
            return Gone(gone, names, self._broken(gone))
        return None

    def _worth(self, pod: PodInfo) -> tuple[bool, bool, int, int]:
        """Return what is put back first: what budgets want kept, what is important, and small pods last."""
        frees = sum(_frees(pod, name) for name in self._short)
        return not pod.is_terminating, self._kind(pod)[1], pod.priority, -frees

    def _broken(self, pods: Iterable[PodInfo]) -> tuple[str, ...]:
        staying = [pod for pod in pods if not pod.is_terminating]
        violating, _ = split_by_violation(staying, self._budgets)
        return tuple(sorted(pod.key for pod in violating))


def _topology_keys(pod: PodInfo) -> set[str]:
    """Return the labels over which a pod keeps others away."""
    affinity = pod.spec.affinity and pod.spec.affinity.pod_anti_affinity
    return {term.topology_key for term in affinity.required} if affinity else set()


def _spoken_of(pod: PodInfo) -> set[str]:
    """Return the labels over which a pod keeps others away, or is spread among them."""
    return _topology_keys(pod) | {constraint.topology_key for constraint in pod.spec.topology_spread_constraints}


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
    prover, own = question.prover, question.info.priority
    classes = sorted(prover.cluster.priority_classes.values(), key=lambda each: (each.value, each.metadata.name))
    wanted = [each for each in classes if each.value > own and each.preemption_policy != NEVER]
    if question.info.spec.preemption_policy == NEVER:
        wanted = [each for each in classes if each.value >= own and each.preemption_policy != NEVER]
    if question.pod.metadata.namespace != SYSTEM_NAMESPACE:
        wanted = [each for each in wanted if not each.metadata.name.startswith(SYSTEM_PREFIX)]
    for chosen in wanted[:CLASSES_TRIED]:
        after = copy.deepcopy(question.document)
        after["spec"]["priorityClassName"] = chosen.metadata.name
        for field in ("priority", "preemptionPolicy"):  # admission fills them in from the class
            after["spec"].pop(field, None)
        proposal = of_pod_document(question, after, "", "priority", PRIORITY_COST)
        assert proposal is not None and proposal.pod is not None, "a pod of another class is a pod"
        freed = prover.preempts(proposal.pod)
        if freed is not None:
            what = f"use the PriorityClass {chosen.metadata.name} ({chosen.value}), so that preemption makes room"
            yield proposal._replace(change=msgspec.structs.replace(proposal.change, what=what, fits_on=(freed[0],)))
