"""Preemption for a whole group: which pods must go, anywhere in the cluster, for the group to fit?

All that may be preempted is taken off at once; if the group fits then, units are put back one by one, the most
important first and those whose eviction would break a disruption budget before the others, as long as the group still
fits on the nodes it was given. A unit is a pod, or all pods of a PodGroup whose disruptionMode is PodGroup; its
priority is that of its PodGroup, if it has one.

Source: KEP-5710; kubernetes.io "Workload-Aware Preemption" of v1.36; pkg/scheduler/framework/preemption,
PodGroupEvaluator. With the gate WorkloadAwarePreemption.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from berth.api.scheduling import PodGroup
from berth.framework.effects import Steps
from berth.framework.interface import GroupQuestion, PodGroupInfo
from berth.framework.preemption import NEVER_PREEMPTS, VICTIMS_TERMINATING
from berth.framework.readers import CacheReader, EvictionReader, NominationReader, ObjectReader
from berth.framework.status import Code, Status, error, unresolvable, unschedulable
from berth.plugins.preemption.budgets import Budget, split_by_violation
from berth.plugins.preemption.choice import start_time_s
from berth.plugins.preemption.eligibility import is_being_preempted
from berth.state.pod_groups import POD_GROUP, GroupKey, group_of
from berth.state.pod_info import PodInfo

NO_VICTIMS = "No preemption victims found for incoming preemptor"
NO_VICTIM_NEEDED = "expected at least one victim pod in the cluster"
TOGETHER = "PodGroup"
"""The disruptionMode of a group that is preempted as a whole."""


class Unit(NamedTuple):
    """Pods that are preempted together."""

    pods: tuple[PodInfo, ...]
    priority: int
    is_group: bool

    def importance(self) -> tuple[float, ...]:
        """Return the key by which units sort, the most important first; pod names break ties."""
        size = len(self.pods) if self.is_group else 0
        return (-self.priority, not self.is_group, -size, min(map(start_time_s, self.pods)))


class GroupPreemption:
    """Finds the victims for one group."""

    def __init__(
        self,
        cache: CacheReader,
        objects: ObjectReader,
        nominator: NominationReader,
        evictions: EvictionReader,
        budgets: Sequence[Budget],
        group: PodGroupInfo,
    ) -> None:
        self._cache = cache
        self._objects = objects
        self._nominator = nominator
        self._evictions = evictions
        self._budgets = budgets
        self._group = group
        self._priority = self.priority_of(group.pods[0])

    def victims(self, question: GroupQuestion) -> Steps[tuple[PodInfo, ...] | Status]:
        """Return the pods that must go, most important first, or why that would not help."""
        refusal = self._ineligibility()
        if refusal is not None:
            return refusal
        units = sorted(self._units(), key=lambda unit: (unit.importance(), unit.pods[0].key))
        if not units:
            return unresolvable(NO_VICTIMS)
        for unit in units:
            question.take(unit.pods)
        status = yield from question.schedule()
        if status is not None:
            return status
        must_go = {id(unit) for unit in self._in_turn(units) if not _spares(question, unit)}
        if not must_go:
            return error(NO_VICTIM_NEEDED)
        return tuple(pod for unit in units if id(unit) in must_go for pod in unit.pods)

    def priority_of(self, pod: PodInfo) -> int:
        """Return the priority of a pod's group, or its own where it is in none that exists."""
        found = self._find(pod)
        return pod.priority if found is None else found.spec.priority or 0

    def _ineligibility(self) -> Status | None:
        if any(pod.spec.preemption_policy == "Never" for pod in self._group.pods):
            return unschedulable(NEVER_PREEMPTS)
        nodes = {self._nominator.node_of(pod.uid) or pod.status.nominated_node_name for pod in self._group.pods}
        table = self._cache.table
        rows = [table.row_of[node] for node in nodes if node in table.row_of]
        running = (pod for row in rows for pod in table.pods[row].values())
        waits = any(
            is_being_preempted(pod, self._evictions) and self.priority_of(pod) < self._priority for pod in running
        )
        return Status(Code.PENDING, (VICTIMS_TERMINATING,)) if waits else None

    def _units(self) -> Iterable[Unit]:
        """Yield what may be preempted: of lower priority, and with a pod on a node that exists."""
        seen: set[str] = set()
        table = self._cache.table
        for row in table.rows().tolist():
            for pod in table.pods[row].values():
                if pod.uid in seen:
                    continue
                unit = self._unit_of(pod)
                seen.update(each.uid for each in unit.pods)
                if unit.priority < self._priority:
                    yield unit

    def _unit_of(self, pod: PodInfo) -> Unit:
        group = self._find(pod)
        if group is None or group.spec.disruption_mode != TOGETHER:
            return Unit((pod,), self.priority_of(pod), is_group=False)
        key = group_of(pod)
        assert key is not None, "a pod whose group was found is in one"
        return Unit(tuple(self._pods_of_groups[key]), group.spec.priority or 0, is_group=True)

    @cached_property
    def _pods_of_groups(self) -> Mapping[GroupKey, Sequence[PodInfo]]:
        """The counted pods of each group, in the order in which the cache has them."""
        found: dict[GroupKey, list[PodInfo]] = {}
        for state in self._cache.states().values():
            key = group_of(state.pod)
            if key is not None:
                found.setdefault(key, []).append(state.pod)
        return found

    def _in_turn(self, units: Sequence[Unit]) -> Sequence[Unit]:
        """Return the units in the order they are put back."""
        breaking, _ = split_by_violation([pod for unit in units for pod in unit.pods], self._budgets)
        uids = {pod.uid for pod in breaking}
        return sorted(units, key=lambda unit: not any(pod.uid in uids for pod in unit.pods))

    def _find(self, pod: PodInfo) -> PodGroup | None:
        key = group_of(pod)
        found: PodGroup | None = None if key is None else self._objects.get(POD_GROUP, key.name, key.namespace)
        return found


def _spares(question: GroupQuestion, unit: Unit) -> bool:
    """Put a unit back if the group still fits with it; say whether it does."""
    question.put_back(unit.pods)
    if question.still_fits():
        return True
    question.take(unit.pods)
    return False
