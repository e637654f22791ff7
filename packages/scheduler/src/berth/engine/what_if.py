"""Asks filters about many rows as if other pods ran there: for nominated pods, and for preemption.

Most filters never look at the pods on a row, some only at pods that affect them, and some only at how much all pods
take together (`RowLoad`). If every filter that does not skip a pod is of one of these kinds, what-ifs are computed by
column. That is exact on rows where no pod in question affects a filter: their answers can change only through the load.
Rows with such a pod are left to the plain forms, node by node.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.engine.verdicts import FilterPlan, Mask, rejected_rows
from berth.framework.cycle_state import CycleState
from berth.framework.diagnosis import RejectedNodes
from berth.framework.interface import FilterColumn, RowLoad
from berth.framework.loaded import LoadedPlugin
from berth.framework.profile_view import NominatedClaims
from berth.framework.promises import NEVER_KEPT, Dependency
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable
from berth.state.views import Memory

RowArray = NDArray[np.intp]

LOOKS_AT_PODS = frozenset(
    {Dependency.PODS_ON_NODE, Dependency.PODS_ANYWHERE, Dependency.FEASIBLE_SET, Dependency.UNKNOWN}
)


class _Steady(NamedTuple):
    """A filter whose answer does not depend on the load, and that answer for some rows."""

    name: str
    column: FilterColumn


class WhatIf:
    """The filters that do not skip one pod."""

    __slots__ = ("_by_pod", "_loaded", "_memos", "_plan", "_pod", "_state", "_table", "is_possible", "resources")

    def __init__(self, plan: FilterPlan, memos: Memory, state: CycleState, pod: PodInfo) -> None:
        self._plan = plan
        self._memos = memos
        self._state = state
        self._pod = pod
        self._table: NodeTable = memos.table
        runners = plan.runners
        self._loaded = [one for runner in runners if (one := runner.plugin.filter_under_load) is not None]
        self._by_pod = [each for runner in runners if (each := runner.plugin.filter_by_pods) is not None]
        self.is_possible = memos.enabled and all(_has_columns(runner.plugin) for runner in runners)
        """Whether what-ifs about this pod can be computed by column."""
        self.resources: Sequence[str] = tuple(
            dict.fromkeys(name for plugin in self._loaded for name in plugin.resources_read(pod))
        )
        """The resources that a `RowLoad` has to cover."""

    @property
    def looks_at_single_pods(self) -> bool:
        """Say whether any filter looks at single pods."""
        return bool(self._by_pod)

    @property
    def answers_key(self) -> Hashable | None:
        """Equal for two pods only if all filters say the same about both; None if that is not known."""
        return self._plan.kept if self._plan.all_kept else None

    def is_affected_by(self, other: PodInfo) -> bool:
        """Say whether adding or removing `other` may change more than the load of its row."""
        return any(plugin.is_affected_by(self._state, self._pod, other) for plugin in self._by_pod)

    def load(self, rows: RowArray, rivals: NominatedClaims | None = None) -> RowLoad:
        """Return what the pods on some rows take, nominated ones included if given; the arrays are the caller's own."""
        table = self._table
        # Indexing by an array copies, so what is added below is not added in the table.
        pods = table.pod_count[rows]
        requested = {name: _requested(table, name)[rows] for name in self.resources}
        if rivals is not None:
            pods += rivals.pods[rows]
            for resource, amounts in requested.items():
                amounts += rivals.requested(resource)[rows]
        return RowLoad(pods, requested)

    def on(self, rows: RowArray) -> "WhatIfRows":
        """Return the filters over some rows that hold nodes, for any load."""
        plan, asking = self._plan, (self._state, self._pod)
        steady: list[_Steady | None] = []
        for runner, column in zip(plan.runners, plan.columns, strict=True):
            if runner.plugin.filter_under_load is not None:
                # It looks at the load: asked in its turn, and only for loads that are tried.
                steady.append(None)
                continue
            if column is None:
                verdict = runner.of_pod(*asking, self._table, by_domain=True)
            else:
                verdict = self._memos.bring(column, asking).snapshot()
            steady.append(_Steady(runner.name, FilterColumn(verdict.codes[rows], verdict.describe)))
        return WhatIfRows(self, rows, steady)

    def limits(self, rows: RowArray) -> list[RowLoad]:
        """Return the most that pods may take of some rows, one `RowLoad` for each filter that looks at the load."""
        return [plugin.load_limits(self._state, self._pod, self._table, rows) for plugin in self._loaded]

    def loaded_columns(self, rows: RowArray, load: RowLoad) -> Iterator[tuple[str, FilterColumn]]:
        """Yield the answers of the filters that look at the load, in order."""
        for plugin in self._loaded:
            yield plugin.name, plugin.filter_loaded_columns(self._state, self._pod, self._table, rows, load)


class WhatIfRows:
    """Filters over some rows; those that do not depend on the load are asked once."""

    __slots__ = ("_limits", "_rows", "_steady", "_steady_mask", "_what_if")

    def __init__(self, what_if: WhatIf, rows: RowArray, steady: list[_Steady | None]) -> None:
        self._what_if = what_if
        self._rows = rows
        self._steady = steady
        self._limits = what_if.limits(rows)
        self._steady_mask: Mask = np.ones(len(rows), dtype=np.bool_)
        for found in steady:
            if found is not None and found.column.codes.any():
                # Compared once for the many loads that preemption tries on the same rows.
                self._steady_mask &= found.column.codes == 0

    def passing(self, load: RowLoad) -> Mask:
        """Return, bool of shape (rows,), where the pod fits under a load; the caller may write to it."""
        mask = self._steady_mask.copy()
        for limits in self._limits:
            mask &= load.pods <= limits.pods
            for resource, most in limits.requested.items():
                mask &= load.requested[resource] <= most
        return mask

    def refusals(self, load: RowLoad, wanted: Mask) -> Iterator[RejectedNodes]:
        """Yield each status of the first failing filter, with the positions within `rows` that it rejects.

        `wanted` is bool of shape (rows,): the positions to answer for. A filter that looks at the load is asked only
        when its turn comes, and not at all if those before it reject everything.
        """
        return rejected_rows(wanted, self._said(load))

    def _said(self, load: RowLoad) -> Iterator[tuple[str, FilterColumn]]:
        """Yield each filter's answer in the order of the profile: steady ones as they are, the others under the
        load.
        """
        # Both sequences are in the plan's order, so the next of `loaded` belongs to the filter without a steady answer.
        loaded = self._what_if.loaded_columns(self._rows, load)
        for found in self._steady:
            yield found if found is not None else next(loaded)


def _has_columns(plugin: LoadedPlugin) -> bool:
    """Say whether the filter's answers under other loads can be computed from columns: its own, or cached plain
    answers.

    They can if the filter says which loads or pods change its answer, or if its answer for a node depends on no pod. A
    filter that follows pods (`add_pod`, `remove_pod`) without saying which is asked in its plain form.
    """
    if plugin.filter_columns is None and (plugin.signature is None or plugin.promises.filter_depends_on & NEVER_KEPT):
        return False
    if plugin.filter_by_pods is not None or plugin.filter_under_load is not None:
        return True
    return plugin.pre_filter_extensions is None and not (plugin.promises.filter_depends_on & LOOKS_AT_PODS)


def _requested(table: NodeTable, resource: str) -> NDArray[np.int64]:
    index = table.resource_index.get(resource)
    return np.zeros(table.capacity, dtype=np.int64) if index is None else table.requested[index]
