"""The waiting members of a gang, each on the node that it would have if it did not have to wait for the others.

The filters are asked about one pod. Of a gang that is the next one, with as many of the others placed as there is room
for; asked about alone, each of them fits. Nobody is preempted for them. What is tried on the whole cluster is tried
without them: there the gang comes as it is, all of it pending (`lifted`).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from berth.api.pod import Pod
from berth.core.questions import Trial, profile_of
from berth.cycle.groups.placements import ALL_NODES, generate
from berth.engine.verdicts import Mask
from berth.framework.blame import PluginBrokenError
from berth.framework.interface import Placement, PodGroupInfo
from berth.framework.status import Status
from berth.framework.work_budget import OutOfBudgetError
from berth.state.pod_groups import POD_GROUP, GroupKey
from berth_workbench.planning.help.filters import FilterQuestions
from berth_workbench.simulation.gangs import Gang

MAX_MEMBERS = 500
"""Of a gang so many members are placed, to see for how many there is room."""
MAX_PARTS = 40
"""So many of the parts of the cluster are looked at to which a gang may have to go as a whole."""


class StandingMembers:
    """Members that stand on nodes for the length of a block."""

    __slots__ = ("_filters", "_gang", "_members", "_part", "_trial", "nodes")

    def __init__(self, filters: FilterQuestions, gang: Gang, members: Sequence[Pod]) -> None:
        """`members` are those that wait, in the order in which they are tried."""
        self._filters = filters
        self._gang = gang
        self._members = members[:MAX_MEMBERS]
        self._trial: Trial | None = None
        self._part: Mask | None = None
        self.nodes: dict[str, str] = {}
        """Where they stand, by `namespace/name`."""

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Let members stand wherever most of them have room, for the length of a block."""
        best: dict[str, str] | None = None
        for part in self._parts():
            nodes = self._place(part)
            self._lift()
            if best is None or len(nodes) > len(best):
                best, self._part = nodes, part
        if best is None:
            yield  # there is no part of the cluster to which it might go
            return
        self.nodes = self._place(self._part)
        try:
            yield
        finally:
            self._lift()

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Let nobody stand anywhere, for the length of a block."""
        stood = self._trial is not None
        self._lift()
        try:
            yield
        finally:
            if stood:
                self._place(self._part)

    def _parts(self) -> list[Mask | None]:
        """Return the rows of each part of the cluster to which the gang may go as a whole; None for all of them."""
        core = self._filters.core
        profile = profile_of(core, self._members[0])
        if self._gang.kind != POD_GROUP or not profile.placement_generate:
            return [None]
        namespace, _, name = self._gang.key.partition("/")
        group = PodGroupInfo(GroupKey(namespace, name), tuple(self._filters.info(each) for each in self._members))
        found = generate(profile, group, Placement(ALL_NODES, core.cache.table.rows()))
        if isinstance(found, Status):
            return []
        parts: list[Mask | None] = []
        for placement in found[:MAX_PARTS]:
            rows = np.zeros(core.cache.table.capacity, dtype=np.bool_)
            rows[placement.rows] = True
            parts.append(rows)
        return parts

    def _place(self, within: Mask | None) -> dict[str, str]:
        # Whom Permit holds has a node already, which nobody else is given.
        held = {waiting.pod.uid: waiting.node_name for waiting in self._filters.core.waiting}
        nodes = {each.key: held[each.metadata.uid] for each in self._members if each.metadata.uid in held}
        self._trial = trial = Trial(self._filters.core)
        for member in (each for each in self._members if each.key not in nodes):
            try:
                node, _ = trial.place(self._filters.info(member), within)
            except (PluginBrokenError, OutOfBudgetError):
                node = None
            if node is not None:
                nodes[member.key] = node
        return nodes

    def _lift(self) -> None:
        trial, self._trial = self._trial, None
        if trial is not None:
            trial.undo()
