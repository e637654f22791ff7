"""Why the next member of a gang has no place beside the others: node by node, counted, with what each kind lacks.

The filters' answer about the pod goes in, as the cluster was during it (`lacks_of`). Each node counts once, for what
the scheduler says of it first, as in the pod's condition; so the numbers add up to the nodes of the cluster.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from berth.core.questions import decision_of
from berth.decisions.shortfall import amount
from berth.framework.diagnosis import RejectedNodes
from berth.framework.status import Status
from berth.state.pod_info import PodInfo
from berth_workbench.planning.help.filters import FilterAnswer, FilterQuestions
from berth_workbench.planning.help.group import Group
from berth_workbench.planning.help.result import Lack, PartPlaces

OUTSIDE = "outside {key} {part}"
UNLABELLED = "no node has the label {key}"


def lacks_of(filters: FilterQuestions, group: Group, answer: FilterAnswer) -> tuple[Lack, ...]:
    """Return why nodes do not take the pod that a question is about, the reason of most nodes first."""
    if answer.refusal is not None or answer.is_yes:
        return ()
    found = sorted(_lacks(filters, answer, filters.info(group.pod)), key=lambda each: (-each.nodes, each.reason))
    outside = int(np.count_nonzero(filters.table.valid & ~filters.valid))
    if outside and group.gang is not None:
        found.append(Lack(outside, OUTSIDE.format(key=group.gang.topology, part=group.parts[0].name), ""))
    return tuple(found)


def _lacks(filters: FilterQuestions, answer: FilterAnswer, pod: PodInfo) -> Iterator[Lack]:
    status = answer.pre_filter_status
    if status is not None:
        yield Lack(int(np.count_nonzero(filters.valid)), status.message, status.plugin)
        return
    by_reason: dict[tuple[str, str], list[RejectedNodes]] = {}
    for each in decision_of(filters.core, answer.attempt).rejected:
        told = ", ".join(each.status.reasons) or each.status.message
        by_reason.setdefault((told, each.status.plugin), []).append(each)
    for (reason, plugin), groups in by_reason.items():
        rows = np.concatenate([each.rows for each in groups])
        yield _lack(filters, pod, groups[0].status, reason, plugin, rows)


def _lack(
    filters: FilterQuestions, pod: PodInfo, status: Status, reason: str, plugin: str, rows: NDArray[np.intp]
) -> Lack:
    table, resource = filters.table, next(iter(status.lacking), "")
    known = table.resource_index.get(resource)
    if known is None or not pod.requests.get(resource):
        return Lack(len(rows), reason, plugin)
    free = table.allocatable[known][rows] - table.requested[known][rows]
    best = int(free.argmax())
    needs, most = amount(resource, pod.requests[resource]), amount(resource, max(int(free[best]), 0))
    return Lack(len(rows), reason, plugin, resource, needs, most, table.names[int(rows[best])])


def parts_of(filters: FilterQuestions, group: Group) -> tuple[PartPlaces, ...]:
    """Return the parts of the cluster to which a gang may go as a whole; nothing where it may go anywhere."""
    valid = filters.table.valid
    return tuple(
        PartPlaces(each.name, int(np.count_nonzero(valid & each.rows)), each.places + len(group.running))
        for each in group.parts
        if each.name and each.rows is not None
    )
