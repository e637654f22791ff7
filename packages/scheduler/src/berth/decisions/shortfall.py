"""What nodes lack, in numbers: "needs 9 CPU; of the 3 nodes rejected for it, n3 has the most free: 5 of 8".

kube-scheduler's messages name the resource only. For each resource that a rejection says is lacking, this looks up in
the node table what the pod needs and the most that one of the nodes rejected for it has left. Numbers are Kubernetes
quantities. A sentence speaks of these nodes only, and says so: another node may have more, and be ruled out by
something else.
"""

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.api.pod_resources import CPU, PODS
from berth.cycle.decision import Decision
from berth.engine.profile import Profile
from berth.framework.work_budget import STEPS_TO_TELL, WorkBudget
from berth.plugins.dra.plugin import DynamicResources
from berth.state.table import NodeTable

DEVICES = "deviceclass.resource.kubernetes.io/"
"""The prefix of a class name when its devices are requested as a resource, as in Kubernetes."""
SELECTORS_TOLD = 100
"""If selectors are longer than this together, they are only mentioned."""
_BINARY = ((1 << 60, "Ei"), (1 << 50, "Pi"), (1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


class Shortfall(msgspec.Struct, frozen=True, rename="camel"):
    """A resource of which nodes have too little left for a pod."""

    resource: str
    needs: str
    most_free: str
    """The most that one of these nodes has left, not counting what members of the pod's group waiting for it take."""
    of: str
    """What that node has in total."""
    node: str
    nodes: int
    """How many nodes were rejected for this."""
    fits_now: bool = False
    """Whether that node has enough by now."""
    request: str = ""
    """The request of a claim that asks for devices, `namespace/claim/request`; empty for other resources."""
    selectors: tuple[str, ...] = ()
    """What the request demands of the devices of its class."""

    @property
    def _need(self) -> str:
        if self.request:
            told = " and ".join(self.selectors)
            told = told if len(told) <= SELECTORS_TOLD else "as its selectors say"
            which = f" ({told})" if told else ""
            devices = f"device{'' if self.needs == '1' else 's'} of the class {self.resource.removeprefix(DEVICES)}"
            return f"needs {self.needs} {devices}{which}"
        if self.resource == PODS:
            return "needs room for one more pod"
        return f"needs {self.needs} {'CPU' if self.resource == CPU else self.resource}"

    @property
    def in_short(self) -> str:
        """Say it about the best node alone, as a clause."""
        if self.of == "0":
            return f"{self._need}, and no node has any that it could be on"
        would_do = ", which would do now" if self.fits_now else ""
        return f"{self._need} on one node, and {self.node} has the most free, {self.most_free} of {self.of}{would_do}"

    @property
    def sentence(self) -> str:
        """Say it in words."""
        if self.nodes == 1:
            free = f"{self.node}, the only node rejected for it, has {self.most_free} of {self.of} free"
        else:
            free = f"of the {self.nodes} nodes rejected for it, {self.node} has the most free: "
            free += f"{self.most_free} of {self.of}"
        return f"{self._need}; {free}" + ("; that would do now" if self.fits_now else "")


def shortfalls(
    decision: Decision, table: NodeTable, profile: Profile | None, work: WorkBudget | None = None
) -> Iterator[Shortfall]:
    """Yield what the nodes that a decision rejected lack, in the order of the reasons; nothing if one of them has room.

    The plugins of the profile that made the decision are asked which devices there are, while `work` has anything left;
    callers that ask about several pods give them one budget.
    """
    if decision.is_held_back:
        return
    rows_of: dict[str, list[NDArray[np.intp]]] = {}
    for status, rows in decision.rejected:
        for resource in status.lacking:
            rows_of.setdefault(resource, []).append(rows)
    for resource, parts in rows_of.items():
        found = _shortfall(decision, table, resource, np.concatenate(parts))
        if found is not None:
            yield found
    if not decision.beside:  # what devices members of its group would take is no longer known
        yield from _devices(decision, table, profile, work or WorkBudget(STEPS_TO_TELL))


def _devices(decision: Decision, table: NodeTable, profile: Profile | None, work: WorkBudget) -> Iterator[Shortfall]:
    for plugin in () if profile is None else profile.plugins:
        if not isinstance(plugin.plugin, DynamicResources):
            continue
        rows = [row for status, part in decision.rejected if status.plugin == plugin.name for row in part.tolist()]
        nodes = [table.node(row) for row in _there(decision, table, rows)]
        for each in plugin.plugin.shortages(decision.pod, nodes, work) if nodes else ():
            free, of = str(each.room.free), str(each.room.matching)
            resource = f"{DEVICES}{each.device_class}"
            count, request = str(each.needed), each.request
            yield Shortfall(resource, count, free, of, each.node, len(nodes), request=request, selectors=each.selectors)


def _shortfall(decision: Decision, table: NodeTable, resource: str, rows: NDArray[np.intp]) -> Shortfall | None:
    there = _there(decision, table, rows.tolist())
    if not there:
        return None
    rows = np.array(there, dtype=np.intp)
    if resource == PODS:
        needs, has, taken = 1, table.allowed_pods[rows], table.pod_count[rows]
    else:
        needs = decision.pod.requests.get(resource, 0)
        index = table.resource_index.get(resource)
        has = np.zeros(len(rows), dtype=np.int64) if index is None else table.allocatable[index][rows]
        taken = np.zeros(len(rows), dtype=np.int64) if index is None else table.requested[index][rows]
    free = has - taken - _beside(decision, table, resource)[rows]
    best = int(np.lexsort((-has, -free))[0])
    return Shortfall(
        resource,
        amount(resource, needs),
        amount(resource, int(free[best])),
        amount(resource, int(has[best])),
        table.names[there[best]],
        len(rows),
        bool(free[best] >= needs),
    )


def _there(decision: Decision, table: NodeTable, rows: Iterable[int]) -> list[int]:
    """Return the rows that still hold the nodes of a decision."""
    return [row for row in rows if row < table.capacity and table.names[row] == decision.names[row]]


def _beside(decision: Decision, table: NodeTable, resource: str) -> NDArray[np.int64]:
    """Return what members of the pod's group that were placed before it and then held back take on each row."""
    found = np.zeros(table.capacity, dtype=np.int64)
    for node_name, pod in decision.beside:
        row = table.row_of.get(node_name)
        if row is not None and pod.uid not in table.pods[row]:
            found[row] += 1 if resource == PODS else pod.requests.get(resource, 0)
    return found


def amount(resource: str, count: int) -> str:
    """Return an amount as the scheduler counts it (milli-CPUs, bytes, pieces) as a quantity that people can read."""
    if resource == CPU:
        return f"{count / 1000:.10g}" if count % 1000 == 0 or abs(count) > 1000 else f"{count}m"
    if resource != PODS and abs(count) >= 1 << 20:
        unit, suffix = next((unit, suffix) for unit, suffix in _BINARY if abs(count) >= unit)
        return f"{count / unit:.1f}".removesuffix(".0") + suffix
    return str(count)
