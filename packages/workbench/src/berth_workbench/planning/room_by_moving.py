"""Room for pods that have no place, made by moving a few others that have.

Called by `berth autoscale` before it says what to buy, and by the search for what would help a pending pod. A small
search: nodes are examined one after another, least used first, for the fewest pods that would have to leave so that a
pod without a place fits. The moves are made on the simulated cluster: the node is cordoned, the pods are evicted within
their budgets, and once the scheduler has placed all of them without preempting, the node is uncordoned. So whatever is
found works, and can be repeated step by step with `berth whatif`; finding nothing does not mean that nothing works.
`berth rebalance` is the real planner of moves, and its rules about which pods stay apply here too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.api.pod import Pod
from berth.core.questions import judge
from berth.state.pod_info import PodInfo
from berth_workbench.planning.more_nodes import MoreNodes
from berth_workbench.planning.rebalance.movability import LocalVolumes, reason_to_stay
from berth_workbench.simulation.node_changes import evict_allowed, set_unschedulable
from berth_workbench.simulation.rehearsal import Rehearsal
from berth_workbench.simulation.site import Site

SHAPES = 8
"""So many shapes of pods without a place are looked after at a time."""
TRIES = 100
"""So often a node is looked at or moves are made, all in all."""


class PodMoved(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that makes way, and where it goes."""

    pod: str
    """`namespace/name`."""
    before: str
    after: str


class RoomByMoving(msgspec.Struct, frozen=True, rename="camel"):
    """Moves, and the pods that get a place by them."""

    moves: tuple[PodMoved, ...]
    """In this order; the pods that leave the same node leave it together, while it is cordoned."""
    placed: int
    """How many pods have a place then that had none."""
    more: MoreNodes = MoreNodes()
    """What it takes then for the others."""


def moved(site: Site, moves: Sequence[PodMoved]) -> bool:
    """Make moves on a cluster as they were found; say whether every pod that had to leave has another place."""
    for name, some in groupby(moves, key=lambda each: each.before):
        keys = [each.pod for each in some]
        pods = [pod for pod in site.pods_on(name) if pod.key in keys]
        if len(pods) < len(keys):
            return False
        set_unschedulable(site, name, unschedulable=True)
        if evict_allowed(site, pods, f"room on {name}"):
            return False
        site.settle()
        set_unschedulable(site, name, unschedulable=False)
        if not all(site.cluster.objects["Pod", key].spec.node_name for key in keys):
            return False
        site.settle()
    return True


class Together(NamedTuple):
    """How pods are placed that have to have their places at the same time."""

    rows: NDArray[np.bool_] | None
    """The only rows where they may be; None for all."""
    standing: Callable[[], AbstractContextManager[object]]
    """Lets those of them that have room stand there, for the length of a block in which the cluster stays as it is."""


class MoveSearch:
    """Looks for moves, and makes them on the cluster of a site."""

    __slots__ = ("_hopeless", "_left", "_local", "_moved", "_site", "_together", "_wanting")

    def __init__(
        self,
        site: Site,
        wanting: Callable[[], list[Pod]],
        local: Mapping[str, LocalVolumes],
        tries: int = TRIES,
        together: Together | None = None,
    ) -> None:
        """`wanting` returns the pods that have no place yet; `local` the local volumes of pods, by `namespace/name`.

        Of pods that are placed `together`, `wanting` returns those that have none beside the others.
        """
        self._site = site
        self._wanting = wanting
        self._local = local
        self._left = tries
        self._together = together
        self._hopeless: set[tuple[object, str]] = set()
        self._moved: dict[str, PodMoved] = {}

    def run(self) -> RoomByMoving | None:
        """Make moves as long as another pod gets a place by them; return them, or None if there are none."""
        at_first = len(self._wanting())
        while self._makes_room():
            pass
        if not self._moved:
            return None
        return RoomByMoving(tuple(self._moved.values()), at_first - len(self._wanting()))

    def _makes_room(self) -> bool:
        """Make the first moves that help one of the pods; say whether there were any."""
        infos = {info.shape: info for pod in self._wanting() for info in (self._site.cluster.core.intake.info(pod),)}
        for shape, info in list(infos.items())[:SHAPES]:
            with nullcontext() if self._together is None else self._together.standing():
                names = list(self._candidates(info))
            for name in names:
                for leaving in self._in_the_way(info, name) if (shape, name) not in self._hopeless else ():
                    if self._move(name, leaving):
                        return True
                self._hopeless.add((shape, name))
        return False

    def _candidates(self, info: PodInfo) -> Iterator[str]:
        """Yield the nodes that have enough of everything for a pod, and too little of it free; the emptiest first."""
        table = self._site.cluster.core.cache.table
        rows = []
        ready = ~table.unschedulable[table.rows()]
        if self._together is not None and self._together.rows is not None:
            ready &= self._together.rows[table.rows()]
        for row in table.rows()[ready].tolist():
            free = has = True
            used = 0.0
            for name, amount in info.requests.items():
                index = table.resource_index.get(name)
                whole = 0 if index is None else int(table.allocatable[index, row])
                taken = 0 if index is None else int(table.requested[index, row])
                has = has and amount <= whole
                free = free and amount <= whole - taken
                used = max(used, taken / whole if whole else 0.0)
            if has and not free:
                rows.append((used, table.names[row]))
        return (name for _, name in sorted(rows))

    def _movable(self, name: str) -> list[Pod]:
        scheduled = self._site.cluster.core.profiles
        return [
            pod
            for pod in self._site.pods_on(name)
            if pod.key not in self._moved
            and not reason_to_stay(
                pod,
                also_move=(),
                local=self._local.get(pod.key),
                on_local_volume=False,  # the simulation knows where its volume lets it go
                scheduler_names=scheduled,
            )
        ]

    def _in_the_way(self, info: PodInfo, name: str) -> Iterator[list[Pod]]:
        """Yield pods without which a pod fits on a node, each time as few as will do: the large ones, then the small.

        Few are moved where the large ones go, but small ones find another place sooner.
        """
        core = self._site.cluster.core
        movable = sorted(self._movable(name), key=lambda pod: self._size(pod, info))
        row = core.cache.table.row_of[name]
        waiting = len(self._wanting()) if self._together is not None else 0

        def is_enough() -> bool:
            return bool(judge(core, info).fits[row]) if self._together is None else len(self._wanting()) < waiting

        tried: list[list[Pod]] = []
        for order in (movable, movable[::-1]):
            if not movable or self._left <= 0:
                return
            self._left -= 1
            with Rehearsal(self._site):
                for pod in order:
                    self._site.cluster.delete("Pod", pod.key)
                if not is_enough():
                    return
                leaving = []
                for pod in order:
                    self._site.cluster.put(pod)
                    if not is_enough():
                        self._site.cluster.delete("Pod", pod.key)
                        leaving.append(pod)
            if leaving and leaving not in tried:
                tried.append(leaving)
                yield leaving

    def _size(self, pod: Pod, info: PodInfo) -> float:
        """How much of what a pod needs another one has, at most."""
        requests = self._site.cluster.core.intake.info(pod).requests
        return max((requests.get(name, 0) / amount for name, amount in info.requests.items() if amount), default=0.0)

    def _move(self, name: str, leaving: Sequence[Pod]) -> bool:
        """Move pods from a node; keep that only if all of them and one more pod than before have a place."""
        if self._left <= 0:
            return False
        self._left -= 1
        site, cluster = self._site, self._site.cluster
        waiting, preempted = len(self._wanting()), len(cluster.evictions)
        with Rehearsal(site) as rehearsal:
            set_unschedulable(site, name, unschedulable=True)
            if evict_allowed(site, leaving, f"room on {name}"):
                return False
            site.settle()
            set_unschedulable(site, name, unschedulable=False)
            # One that has ended, or that another has preempted for good, is gone: that is no move.
            again = {pod.key: cluster.objects.get(("Pod", pod.key)) for pod in leaving}
            places = {key: pod.spec.node_name for key, pod in again.items() if pod is not None}
            if not all(places.get(pod.key) for pod in leaving):
                return False
            site.settle()
            if len(cluster.evictions) > preempted or len(self._wanting()) >= waiting:
                return False
            rehearsal.keep()
        self._moved |= {key: PodMoved(key, name, place) for key, place in places.items()}
        return True
