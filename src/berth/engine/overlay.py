"""Nominated pods laid over the verdicts of one pod: would it still fit beside those it must make way for?

Worked out by column where the filters allow it and there are many such nodes, else node by node through the plain
forms. The verdicts themselves are of the nodes as they are; a pod must pass both.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from berth.engine.nominated_load import RivalLoad
from berth.engine.verdicts import Verdicts
from berth.engine.what_if import WhatIf
from berth.framework.cycle_state import CycleState
from berth.framework.interface import RowLoad
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

if TYPE_CHECKING:
    from berth.engine.profile import Profile

RowArray = NDArray[np.intp]

FEW_ROWS = 3
"""So many rows are asked about one by one, which is faster than the fixed cost of columns."""


def lay_over(
    verdicts: Verdicts, rivals: RivalLoad, profile: "Profile", state: CycleState, pod: PodInfo, table: NodeTable
) -> None:
    """Fill in `verdicts.overlay` for the searched rows that have rivals."""
    rows = rivals.rows()
    rows = rows[verdicts.searched[rows]]
    if len(rows) > FEW_ROWS and profile.memos.enabled and not profile.checks_all_filters:
        what_if = profile.what_if(state, pod)
        if what_if.is_possible:
            rows = _by_column(verdicts, rivals, what_if, rows, profile, pod)
    for row in rows.tolist():
        there = profile.rivals_on(table.names[row], pod)
        status = profile.run_filter_with(there, state, pod, table.view(row))
        verdicts.overlay.add(status, np.array([row], dtype=np.intp))


def _by_column(
    verdicts: Verdicts, rivals: RivalLoad, what_if: WhatIf, rows: RowArray, profile: "Profile", pod: PodInfo
) -> RowArray:
    """Fill in what can be worked out by column; return the rows that cannot."""
    left: list[int] = []
    if what_if.looks_at_single_pods:
        names = profile.memos.table.names
        left = [row for row in rows.tolist() if any(map(what_if.is_affected_by, profile.rivals_on(names[row], pod)))]
        rows = np.setdiff1d(rows, left)
    load = with_rivals(what_if, rows, rivals)
    filters = what_if.on(rows)
    fits = filters.passing(load)
    verdicts.overlay.add(None, rows[fits])
    for status, positions in filters.refusals(load, ~fits):
        verdicts.overlay.add(status, rows[positions])
    return np.array(left, dtype=np.intp)


def with_rivals(what_if: WhatIf, rows: RowArray, rivals: RivalLoad) -> RowLoad:
    """Return the load of some rows with nominated pods counted in, in arrays of the caller's own."""
    load = what_if.load(rows)
    load.pods[:] += rivals.pods[rows]
    for resource, amounts in load.requested.items():
        amounts += rivals.requested(resource)[rows]
    return load
