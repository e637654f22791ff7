"""Asks a core about a pod without changing anything: where it fits, why not elsewhere, and where it would go.

The pod need not be in the cluster. Its filters run as in a scheduling cycle, over all nodes, with what is nominated
counted in; preemption, Reserve and Permit are not asked. `Trial` goes one step further and counts pods in for a while.
"""

from collections.abc import Iterator
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from berth.api.pod import Pod
from berth.core import Core
from berth.cycle.attempt import Attempt
from berth.cycle.binding import reserve_and_permit, undo
from berth.cycle.decision import Decision
from berth.cycle.schedule import find_nodes, score_nodes, select_node
from berth.engine.profile import Profile
from berth.engine.verdicts import Mask
from berth.explain import Rejected, rejected_nodes
from berth.framework.status import Status
from berth.state.pod_info import PodInfo


class Judgement:
    """What the filters say of one pod."""

    __slots__ = ("_core", "attempt", "decision", "fits", "message")

    def __init__(self, core: Core, attempt: Attempt) -> None:
        self._core = core
        self.attempt = attempt
        nodes = attempt.found.nodes
        table = core.cache.table
        self.fits: Mask = nodes.mask.copy() if nodes is not None else np.zeros(table.capacity, dtype=np.bool_)
        """The rows of the nodes that the pod fits on."""
        self.message = attempt.outcome.message
        """Why it fits nowhere, in the words of its condition; empty where it fits."""
        names = tuple(name if ok else "" for name, ok in zip(table.names, table.valid, strict=True))
        self.decision = Decision(attempt, names, len(table), core.now, 0)

    @property
    def rows(self) -> NDArray[np.intp]:
        """The rows of the nodes that the pod fits on, ascending."""
        return np.flatnonzero(self.fits)

    @property
    def node_names(self) -> list[str]:
        """The names of these nodes, sorted."""
        names = self._core.cache.table.names
        return sorted(names[row] for row in self.rows.tolist())

    def rejected(self) -> Iterator[Rejected]:
        """The other nodes by reason, the largest group first."""
        return rejected_nodes(self.decision)


def profile_of(core: Core, pod: Pod | PodInfo) -> Profile:
    """Return the profile that schedules a pod, or the first one where none does."""
    return core.profiles.get(pod.spec.scheduler_name) or next(iter(core.profiles.values()))


def judge(core: Core, pod: Pod | PodInfo) -> Judgement:
    """Run a pod's filters."""
    info = pod if isinstance(pod, PodInfo) else core.intake.info(pod)
    attempt = Attempt(profile_of(core, info), info)
    failure = find_nodes(core.search, attempt)
    if failure is not None:
        attempt.outcome = failure
    return Judgement(core, attempt)


class Trial:
    """Places pods one after the other as the scheduler would, and takes all of it back at the end.

    A context manager. While it is open the core must not be used otherwise. Placed pods are assumed and reserved, so
    the next one sees them; what a Permit plugin would hold back counts as placed.
    """

    __slots__ = ("_core", "_placed")

    def __init__(self, core: Core) -> None:
        self._core = core
        self._placed: list[tuple[Attempt, str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        while self._placed:
            undo(self._core.cache, *self._placed.pop())

    def place(self, pod: Pod | PodInfo) -> tuple[str | None, str]:
        """Place a pod that is not in the cluster; return its node, or None and why it fits nowhere."""
        core = self._core
        info = pod if isinstance(pod, PodInfo) else core.intake.info(pod)
        attempt = Attempt(profile_of(core, info), info)
        failure = find_nodes(core.search, attempt)
        if failure is not None:
            return None, failure.message
        nodes = attempt.found.nodes
        assert nodes is not None, "a search that did not fail has found nodes"
        scored = score_nodes(core.search, attempt, nodes)
        if isinstance(scored, Status):
            return None, scored.message
        node_name = core.cache.table.names[select_node(core.search, attempt, nodes, scored)]
        attempt.found.release_columns()
        status, _ = reserve_and_permit(core.cache, attempt, node_name)
        self._placed.append((attempt, node_name))
        if status is not None:
            undo(core.cache, *self._placed.pop())
            return None, status.message
        return node_name, ""

    @property
    def placed(self) -> int:
        """How many pods are placed now."""
        return len(self._placed)
