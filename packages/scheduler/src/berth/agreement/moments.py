"""The recent past of a cluster: what has changed, and how to go back to an earlier state for a while.

The observer's core notes each change that decisions depend on. A recent state is the present one with some of these
changes taken back for the length of a question: by a journal rather than by copies, so that the cost depends on what
has changed. This also gives states that never existed in the API server but did in the other scheduler's cache, which
has the pods that it has assumed but not what happened a moment ago.

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
        """Return the pod that it moves, if any, and the nodes that it makes different from now."""


class CountedOtherwise:
    """Counts a pod differently: on an earlier or assumed node, in an earlier state, or not at all."""

    __slots__ = ("_node", "_pod", "_replaced", "uid")

    def __init__(self, uid: str, pod: PodInfo | None = None, node: str = "") -> None:
        """Without `pod` it is not counted."""
        self.uid = uid
        self._pod = pod
        self._node = node
        self._replaced: tuple[PodInfo, str] | None = None
        """How an earlier shift counts it, if one does."""

    def make(self, core: Core) -> bool:
        """Count the pod like this; if the other node is unknown, nothing changes."""
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
    """Puts a node back as it was before a change, or removes it if it did not exist."""

    __slots__ = ("_name", "_node", "_replaced")

    def __init__(self, name: str, node: Node | None) -> None:
        self._name = name
        self._node = node
        self._replaced: Node | None = None

    def make(self, core: Core) -> bool:
        """Put the earlier object back.

        Rows are taken and given back like a stack, and shifts are taken back in the opposite order: so a node that
        comes back gets its old row, and pods that are put back find it there.
        """
        table = core.cache.table
        row = table.row_of.get(self._name)
        self._replaced = None if row is None else table.nodes[row]
        _exchange(core, self._name, self._node)
        return True

    def take_back(self, core: Core) -> None:
        """Put the later object back."""
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
    """Nominates a pod to a different node than now, or with "" to none."""

    __slots__ = ("_node", "_pod", "_promised")

    def __init__(self, pod: PodInfo, node: str) -> None:
        self._pod = pod
        self._node = node
        self._promised: tuple[PodInfo, str] = (pod, "")

    def make(self, core: Core) -> bool:
        """Change the nomination."""
        nominator, uid = core.nominator, self._pod.uid
        node = nominator.node_of(uid) or ""
        pod = next((each for each in nominator.pods_on(node) if each.uid == uid), self._pod)
        self._promised = (pod, node)
        return self._promise(core, self._pod, self._node)

    def take_back(self, core: Core) -> None:
        """Restore the nomination."""
        self._promise(core, *self._promised)

    def touches(self, core: Core) -> tuple[PodInfo | None, tuple[str, ...]]:
        """Return the pod, and the node that it is promised now with the one that it was promised before."""
        return self._pod, (self._node, core.nominator.node_of(self._pod.uid) or "")

    @staticmethod
    def _promise(core: Core, pod: PodInfo, node: str) -> bool:
        core.nominator.nominate(pod, node)
        core.nominator.take_released()  # a mere trial must not wake any pod
        return True


def standing_in(core: Core, shifts: Sequence[Shift]) -> contextlib.AbstractContextManager[None]:
    """Put the core's cluster into another state until the end of the block. No cycle may be open.

    Afterwards even the order of nodes and of the pods on each is restored, since it decides among equal victims.
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
    """The shift from the state after the change to the one before it."""
    bound: str = ""
    """The uid of the pod, if a pending pod was bound."""
