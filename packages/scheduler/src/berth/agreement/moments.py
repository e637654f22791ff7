"""The last moments of a cluster: what has changed, and how to stand in a state that is over.

The observer's core notes each change that decisions depend on. A state of the recent past is the present one with some
of these changes taken back for as long as a question takes: by a journal and not by copies, so that it costs what has
changed. The same way leads to states that never were in the API server and yet were in the other scheduler's cache,
which has the pods that it has assumed and not what happened a moment ago.

Nodes and pods are in the journal. Other objects (claims, volumes, budgets) are taken as they are now.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from berth.api.node import Node
from berth.core.core import Core
from berth.state.pod_info import PodInfo


class Shift(Protocol):
    """One step from the present state to another, and back."""

    def make(self, core: Core) -> bool:
        """Change the state; say whether there was anything to change."""

    def take_back(self, core: Core) -> None:
        """Restore what `make` has changed; called in the opposite order, and only where there was something."""

    def touches(self, core: Core) -> tuple[PodInfo | None, tuple[str, ...]]:
        """Return the pod that it moves, if it does, and the nodes that are otherwise by it than they are now."""


class CountedOtherwise:
    """A pod is counted otherwise: on a node that it had before or is assumed on, as it was before, or not at all."""

    __slots__ = ("_node", "_pod", "_replaced", "uid")

    def __init__(self, uid: str, pod: PodInfo | None = None, node: str = "") -> None:
        """Without `pod` it is not counted."""
        self.uid = uid
        self._pod = pod
        self._node = node
        self._replaced: tuple[PodInfo, str] | None = None
        """How an earlier shift has it counted, if one does."""

    def make(self, core: Core) -> bool:
        """Count the pod so; where the other node is unknown all stays as it is."""
        cache, state = core.cache, core.cache.state_of(self.uid)
        if self._pod is not None and self._node not in cache.table.row_of:
            return False
        if state is None:
            if self._pod is None:
                return False
        elif state.assumed:  # this core assumes nothing of its own, so another shift has
            self._replaced = state.pod, cache.table.names[state.row]
            cache.forget(self.uid)
        else:
            cache.lift(self.uid)
        if self._pod is not None:
            cache.assume(self._pod, self._node)
        return True

    def take_back(self, core: Core) -> None:
        """Count it as before."""
        if self._pod is not None:
            core.cache.forget(self.uid)
        if self._replaced is not None:
            core.cache.assume(*self._replaced)
            self._replaced = None
        else:
            core.cache.put_back(self.uid)

    def touches(self, core: Core) -> tuple[PodInfo | None, tuple[str, ...]]:
        """Return the pod, and the node that it is on now with the one that it is counted on instead."""
        state = core.cache.state_of(self.uid)
        if state is None:
            return self._pod, (self._node,)
        return state.pod, (core.cache.table.names[state.row], self._node)


class NodeAsBefore:
    """A node is as it was before a change, or where it was not there before, is not there."""

    __slots__ = ("_name", "_node", "_replaced")

    def __init__(self, name: str, node: Node | None) -> None:
        self._name = name
        self._node = node
        self._replaced: Node | None = None

    def make(self, core: Core) -> bool:
        """Put the former object in the latter's place.

        Rows are taken and given back like a stack's places, and shifts are taken back in the opposite order: so a node
        that comes back has the row that it had, and pods that are put back find it there.
        """
        table = core.cache.table
        row = table.row_of.get(self._name)
        self._replaced = None if row is None else table.nodes[row]
        _exchange(core, self._name, self._node)
        return True

    def take_back(self, core: Core) -> None:
        """Put the latter in the former's place."""
        _exchange(core, self._name, self._replaced)

    def touches(self, core: Core) -> tuple[PodInfo | None, tuple[str, ...]]:
        """Return the node."""
        return None, (self._name,)


def _exchange(core: Core, name: str, node: Node | None) -> None:
    if node is not None:
        core.cache.put_node(node)
    else:
        core.cache.remove_node(name)


class Nominated:
    """A pod is nominated to another node than now, or with "" to none."""

    __slots__ = ("_node", "_pod", "_promised")

    def __init__(self, pod: PodInfo, node: str) -> None:
        self._pod = pod
        self._node = node
        self._promised: tuple[PodInfo, str] = (pod, "")

    def make(self, core: Core) -> bool:
        """Change what the pod is promised."""
        nominator, uid = core.nominator, self._pod.uid
        node = nominator.node_of(uid) or ""
        pod = next((each for each in nominator.pods_on(node) if each.uid == uid), self._pod)
        self._promised = (pod, node)
        return self._promise(core, self._pod, self._node)

    def take_back(self, core: Core) -> None:
        """Promise it again what it was promised."""
        self._promise(core, *self._promised)

    def touches(self, core: Core) -> tuple[PodInfo | None, tuple[str, ...]]:
        """Return the pod, and the node that it is promised now with the one that it was promised before."""
        return self._pod, (self._node, core.nominator.node_of(self._pod.uid) or "")

    @staticmethod
    def _promise(core: Core, pod: PodInfo, node: str) -> bool:
        core.nominator.nominate(pod, node)
        core.nominator.take_released()  # nobody is to be woken by what is only tried
        return True


def standing_in(core: Core, shifts: Sequence[Shift]) -> contextlib.AbstractContextManager[None]:
    """Have the core's cluster be another one until the end of the block. No cycle of it may be open.

    Afterwards nodes and the pods of each stand in the order in which they came, too: it decides among equal victims.
    """
    return _shifted(core, shifts) if shifts else PRESENT


PRESENT: Final = contextlib.nullcontext()


@contextlib.contextmanager
def _shifted(core: Core, shifts: Sequence[Shift]) -> Iterator[None]:
    made: list[Shift] = []
    order = core.cache.table.note_order()
    try:
        made.extend(shift for shift in shifts if shift.make(core))
        yield
    finally:
        for shift in reversed(made):
            shift.take_back(core)
        core.cache.table.put_in_order(order)


class Moment(NamedTuple):
    """When something happened: its place in the order of events, its revision, and the time in seconds."""

    order: int
    revision: int
    """0 where it is not known."""
    at: float


class NotedChange(NamedTuple):
    """Something that decisions depend on has changed."""

    moment: Moment
    undone: Shift
    """What leads from the state after the change to the one before it."""
    bound: str = ""
    """The uid of the pod, where a pod that had been pending was bound."""
