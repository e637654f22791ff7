"""The trace of one attempt: why each node was or was not chosen, kept after the columns have moved on.

Made from an `Attempt` when it ends. Making one must cost nothing: it holds snapshots, and whatever is asked for is
worked out when it is asked for. Turned into words by `berth.explain`.
"""

from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from berth.cycle.attempt import Attempt, LeftOut
from berth.engine.scores import PluginScores, Scored
from berth.engine.verdicts import Mask, Overlay, Verdict
from berth.framework.extenders import Asked
from berth.framework.status import Status
from berth.state.lazy import lazy
from berth.state.table import NodeTable


class Decision:
    """What was decided for a pod, and everything needed to explain it."""

    def __init__(self, attempt: Attempt, names: tuple[str, ...], node_count: int, at: float, attempts: int) -> None:
        self.pod = attempt.pod
        self.profile = attempt.profile.name
        self.laps = attempt.laps
        """The steps of the cycle, and what the stopwatch showed when each was done."""
        self.started = attempt.started
        self.at = at
        self.attempts = attempts
        self.names = names
        """Names by row; empty where a row held no node."""
        self.node_count = node_count
        found, outcome = attempt.found, attempt.outcome
        self.chosen = names[outcome.chosen_row] if outcome.chosen_row is not None else None
        self.outcome = "scheduled" if outcome.fits else ("error" if outcome.error else "unschedulable")
        self.message = outcome.message
        self.pre_filter = found.pre_filtered
        self.post_filter = outcome.post_filter_status
        self.verdicts: list[Verdict] = found.verdicts.by_plugin if found.verdicts is not None else []
        self.overlay = found.verdicts.overlay if found.verdicts is not None else Overlay()
        self._scored: Scored | None = found.scored
        self._sampled = found.sampled
        self._within = attempt.within if self.pre_filter is not None and self.pre_filter.status is None else None
        self.asked: list[Asked] = attempt.state.asked
        """What extenders were asked and what came of it; grows until the pod is bound."""
        self.left_out: dict[int, LeftOut] = found.left_out
        """The nodes that extenders ruled out, by row."""
        self.was_promised = outcome.fits and found.verdicts is None
        """Whether the pod fits the node it was nominated to, so that no other was looked at."""

    @lazy
    def searched(self) -> Mask:
        """The rows that were looked at."""
        wanted = self.pre_filter.node_names if self.pre_filter is not None else None
        mask = np.array([bool(name) and (wanted is None or name in wanted) for name in self.names], dtype=np.bool_)
        return mask if self._within is None else mask & self._within[: len(mask)]

    @lazy
    def feasible(self) -> NDArray[np.intp]:
        """The rows that were left for scoring, ascending."""
        if self._sampled is not None:
            return np.setdiff1d(self._sampled.feasible, list(self.left_out))
        mask = self.searched.copy() if self.verdicts else np.zeros(len(self.names), dtype=np.bool_)
        for verdict in self.verdicts:
            mask &= verdict.codes == 0
        for row, status in self.overlay.items():
            mask[row] &= status is None
        mask[list(self.left_out)] = False
        return np.flatnonzero(mask)

    @property
    def evaluated_count(self) -> int:
        """How many nodes were looked at."""
        if self._sampled is not None:
            return len(self._sampled.feasible) + len(self._sampled.failed)
        return int(self.searched.sum()) if self.verdicts else 0

    @property
    def scores(self) -> list[PluginScores]:
        """Each plugin's weighted scores over `feasible`; one number where all are the same."""
        return [] if self._scored is None else self._scored.by_plugin(self.feasible)

    @property
    def total(self) -> NDArray[np.int64] | None:
        """The sum of the weighted scores over `feasible`; None where nothing had to be scored."""
        return None if self._scored is None else self._scored.total(self.feasible)

    def rejection(self, row: int) -> list[Status]:
        """Return what each Filter plugin that failed said of a row, in order."""
        said = [status for verdict in self.verdicts if (status := verdict.status(row)) is not None]
        if row in self.left_out:
            said.append(self.left_out[row].status.by(self.left_out[row].extender))
        nominated = self.overlay.get(row)
        return said or ([nominated] if nominated is not None else [])


class Trace(OrderedDict[str, Decision]):
    """The last decision about each of the latest pods, by `namespace/name`, the oldest first."""

    def __init__(self, pods: int) -> None:
        super().__init__()
        self._pods = pods
        self._names: tuple[int, tuple[str, ...]] = (-1, ())

    def note(self, attempt: Attempt, table: NodeTable, at: float, attempts: int) -> Decision:
        """Keep what an attempt has decided, in place of the oldest."""
        decision = Decision(attempt, self._node_names(table), len(table), at, attempts)
        key = attempt.pod.key
        self.pop(key, None)
        self[key] = decision
        if len(self) > self._pods:
            self.popitem(last=False)
        return decision

    def _node_names(self, table: NodeTable) -> tuple[str, ...]:
        """Return the names by row, made once for each change of nodes."""
        position = table.node_log.position
        if self._names[0] != position:
            self._names = (position, tuple(n if ok else "" for n, ok in zip(table.names, table.valid, strict=True)))
        return self._names[1]
