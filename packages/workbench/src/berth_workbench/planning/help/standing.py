"""The waiting members of a gang, each on the node that it would have if it did not have to wait for the others.

The filters are asked about one pod. Of a gang that is the next one, with as many of the others placed as there is room
for; asked about alone, each of them fits. Nobody is preempted for them. What is tried on the whole cluster is tried
without them: there the gang comes as it is, all of it pending (`lifted`). Where the gang has to go as a whole to one
part of the cluster, the filters are asked about the nodes of that part for which most members have a place.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

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
MAX_PLACED = 8000
"""So many members are placed at most, over all parts of the cluster to which their gang may have to go as a whole."""


class GangPart(NamedTuple):
    """A part of the cluster to which a gang may go as a whole: the nodes that share the value of a label."""

    name: str
    """The value; empty where the gang may go anywhere."""
    rows: Mask | None
    """Its rows; None for all."""
    places: int
    """For how many of the members that wait there is room, as things are."""


class StandingMembers:
    """Members that stand on nodes for the length of a block."""

    __slots__ = ("_best", "_filters", "_gang", "_members", "_trial", "is_cut", "nodes", "parts")

    def __init__(self, filters: FilterQuestions, gang: Gang, members: Sequence[Pod]) -> None:
        """`members` are those that wait, in the order in which they are tried."""
        self._filters = filters
        self._gang = gang
        self._members = members[:MAX_MEMBERS]
        self._trial: Trial | None = None
        self._best: GangPart | None = None
        self.nodes: dict[str, str] = {}
        """Where they stand, by `namespace/name`."""
        self.parts: tuple[GangPart, ...] = ()
        """The parts to which the gang might go, that with most places first."""
        self.is_cut = False
        """Whether there are more parts than were looked at."""

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Let members stand wherever most of them have room, for the length of a block."""
        tried = []
        for name, rows in self._divided():
            tried.append(GangPart(name, rows, len(self._place(rows))))
            self._lift()
        self.parts = tuple(sorted(tried, key=lambda part: -part.places))
        if not self.parts:
            yield  # there is no part of the cluster to which it might go
            return
        self._best = self.parts[0]
        self.nodes = self._stand()
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
                self._stand()

    def _stand(self) -> dict[str, str]:
        assert self._best is not None, "there is a part to stand in"
        nodes = self._place(self._best.rows)
        self._filters.within = self._best.rows
        return nodes

    def without_place(self, part: GangPart) -> list[Pod]:
        """Return the members that would have no place in a part, as things are; nobody stands anywhere meanwhile."""
        with self.stood_in(part) as nodes:
            return [pod for pod in self._members if not pod.spec.node_name and pod.key not in nodes]

    @contextmanager
    def stood_in(self, part: GangPart) -> Iterator[dict[str, str]]:
        """Let the members that wait stand in a part as things are, for the length of a block."""
        known = (self._filters.cluster.objects.get(("Pod", each.key)) for each in self._members)
        self._members = [pod for pod in known if pod is not None]
        nodes = self._place(part.rows)
        try:
            yield nodes
        finally:
            self._lift()

    def _divided(self) -> list[tuple[str, Mask | None]]:
        """Return each part of the cluster to which the gang may go as a whole, by name; None for all of it."""
        core = self._filters.core
        profile = profile_of(core, self._members[0])
        if self._gang.kind != POD_GROUP or not profile.placement_generate:
            return [("", None)]
        namespace, _, name = self._gang.key.partition("/")
        group = PodGroupInfo(GroupKey(namespace, name), tuple(self._filters.info(each) for each in self._members))
        found = generate(profile, group, Placement(ALL_NODES, core.cache.table.rows()))
        if isinstance(found, Status):
            return []
        parts: list[tuple[str, Mask | None]] = []
        most = max(MAX_PLACED // len(self._members), 4)
        self.is_cut = len(found) > most
        for placement in found[:most]:
            rows = np.zeros(core.cache.table.capacity, dtype=np.bool_)
            rows[placement.rows] = True
            parts.append(("" if placement.name == ALL_NODES else placement.name, rows))
        return parts

    def _place(self, within: Mask | None) -> dict[str, str]:
        # Whom Permit holds has a node already, which nobody else is given.
        held = {waiting.pod.uid: waiting.node_name for waiting in self._filters.core.waiting}
        nodes = {each.key: held[each.metadata.uid] for each in self._members if each.metadata.uid in held}
        self._trial = trial = Trial(self._filters.core)
        waiting = (each for each in self._members if each.key not in nodes and not each.spec.node_name)
        refused = set[int]()  # of shapes that have no room; nothing has changed for them until another is placed
        for member in waiting:
            info = self._filters.info(member)
            if id(info.shape) in refused:
                continue
            try:
                node, _ = trial.place(info, within)
            except (PluginBrokenError, OutOfBudgetError):
                node = None
            if node is not None:
                nodes[member.key] = node
                refused.clear()
            else:
                refused.add(id(info.shape))
        return nodes

    def _lift(self) -> None:
        trial, self._trial, self._filters.within = self._trial, None, None
        if trial is not None:
            trial.undo()
