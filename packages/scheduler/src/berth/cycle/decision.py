"""The trace of one attempt: why each node was or was not chosen, readable after the columns have moved on.

Made from an `Attempt` when it ends. Making one must cost next to nothing, since most are never read: it holds
snapshots, and computes answers on demand. `berth.decisions.explanation` turns it into words.

Rows are those of the node table at the time. Nodes come and go, and a row may hold a different node later, so a
decision keeps the names by row and never consults the table again.
"""

from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from berth.cycle.attempt import Attempt, LeftOut, SearchResult
from berth.cycle.extender_calls import rejected_by_extenders
from berth.engine.scores import PluginScores
from berth.engine.verdicts import Findings, Mask
from berth.framework.diagnosis import RejectedNodes, overruled
from berth.framework.extenders import ExtenderCallRecord
from berth.framework.status import Status
from berth.state.lazy import lazy
from berth.state.table import NodeTable

TRACED_BYTES = 2 << 20
"""How large the pods of the kept decisions may be together, in bytes of JSON: 8 kB each if there are 256."""


class Decision:
    """What was decided about a pod, and everything needed to explain it."""

    def __init__(
        self,
        attempt: Attempt,
        names: tuple[str, ...],
        node_count: int,
        at: float,
        attempts: int,
        present: Mask | None = None,
    ) -> None:
        """`present` says which rows have a name, if the caller knows; it is not written to."""
        self._present = present
        self.pod = attempt.pod
        self.profile = attempt.profile.name
        self.laps = attempt.laps
        """The steps of the cycle, each with the stopwatch's reading at its end."""
        self.started = attempt.started
        self.at = at
        self.attempts = attempts
        self.names = names
        """Names by row; empty where a row held no node."""
        self.node_count = node_count
        """How many nodes could have been chosen; if a placement of the pod's group was tried, only its nodes."""
        found, outcome = attempt.found, attempt.outcome
        self.chosen_row = outcome.chosen_row
        self.chosen = names[outcome.chosen_row] if outcome.chosen_row is not None else None
        self.outcome = "scheduled" if outcome.fits else ("error" if outcome.error else "unschedulable")
        self.message = outcome.message
        self.is_held_back = bool(outcome.held_back)
        """Whether there is a node for it, but it waits for other members of its group."""
        self.beside = outcome.beside
        """The members that were held back on nodes when the pod found none."""
        self.size = attempt.pod.size + len(self.message)
        """The size of pod and message, in bytes of JSON."""
        self.pre_filter = found.pre_filtered
        self.post_filter = outcome.post_filter_status
        self.nominated = outcome.nominated_node_name or ""
        """The node on which PostFilter makes room for the pod, if any."""
        self.findings = found.verdicts.findings if found.verdicts is not None else Findings()
        """What the filters said about each row."""
        self._has_findings = found.verdicts is not None
        self._scored = None if found.scored is None else found.scored.to_be_read()
        self._sampled = found.sampled
        self._within = attempt.within
        self.asked: list[ExtenderCallRecord] = attempt.state.asked
        """The calls to extenders and their results; grows until the pod is bound."""
        self._narrowed = found.narrowed
        self.left_out: dict[int, LeftOut] = found.left_out
        """The nodes that extenders ruled out, by row."""
        self.was_promised = outcome.fits and not self._has_findings and found.sampled is not None
        """Whether the pod fits on the node it was nominated to, so that no other was looked at."""

        self.fresh: SearchResult | None = None
        """What the search found, while the columns are still in that state; see `Reporter.record`."""

    @lazy
    def candidates(self) -> Mask:
        """The rows of all nodes that could have been chosen."""
        mask = self._present
        if mask is None:
            mask = np.array([bool(name) for name in self.names], dtype=np.bool_)
        return mask if self._within is None else mask & self._within

    @lazy
    def searched(self) -> Mask:
        """The rows that PreFilter left for Filter."""
        pre = self.pre_filter
        if pre is None or pre.node_names is None:
            is_rejected = pre is not None and pre.status is not None
            return np.zeros_like(self.candidates) if is_rejected else self.candidates
        return self.candidates & np.array([name in pre.node_names for name in self.names], dtype=np.bool_)

    @lazy
    def looked_at(self) -> Mask:
        """The rows that Filter was asked about: fewer than `searched` if enough nodes were found before the end."""
        # After an error it is all of them, since the node concerned may lie beyond the end of the search.
        if self._sampled is None or self.outcome == "error":
            return self.searched if self._has_findings else np.zeros_like(self.searched)
        mask = np.zeros_like(self.searched)
        mask[self._sampled.feasible] = mask[self._sampled.failed] = True
        return mask

    @lazy
    def rejected(self) -> list[RejectedNodes]:
        """The rows that were ruled out, by the status that counts for each: the basis of the pod's condition.

        The condition leaves out nodes that an extender dropped without a reason; here they are under its name.
        """
        groups = self.findings.rejected(self.looked_at)
        left = overruled(groups, rejected_by_extenders(self.left_out)) if self.left_out else groups
        return [*left, *self.narrowed, *self._absent()]

    @lazy
    def narrowed(self) -> list[RejectedNodes]:
        """Of the rows looked at, those that pass all filters but that a plugin dropped in favour of others."""
        looked_at = [RejectedNodes(status, rows[self.looked_at[rows]]) for status, rows in self._narrowed]
        return [group for group in looked_at if len(group.rows)]

    def _absent(self) -> Iterator[RejectedNodes]:
        """Yield the rows that PreFilter ruled out, under the names of all plugins that did so."""
        status = self.pre_filter.absent_status if self.pre_filter is not None else None
        if status is None or self.pre_filter is None:
            return
        rows = np.flatnonzero(self.candidates & ~self.searched)
        if len(rows):
            plugins = status.plugin or ", ".join(self.pre_filter.narrowing_plugins)
            yield RejectedNodes(status.by(plugins), rows)

    @lazy
    def feasible(self) -> NDArray[np.intp]:
        """The rows that were left for scoring, ascending."""
        if self._sampled is not None:
            return np.setdiff1d(self._sampled.feasible, list(self.left_out))
        mask = self.findings.passing(self.looked_at)
        mask[list(self.left_out)] = False
        for _, rows in self._narrowed:
            mask[rows] = False
        return np.flatnonzero(mask)

    @property
    def evaluated_count(self) -> int:
        """How many nodes were looked at."""
        if self._sampled is not None:
            return len(self._sampled.feasible) + len(self._sampled.failed)
        return int(self.searched.sum()) if self._has_findings else 0

    @property
    def scores(self) -> list[PluginScores]:
        """Each plugin's weighted scores over `feasible`; a single number if all are the same."""
        return [] if self._scored is None else self._scored.by_plugin(self.feasible)

    @property
    def total(self) -> NDArray[np.int64] | None:
        """The sum of the weighted scores over `feasible`; None if nothing had to be scored."""
        return None if self._scored is None else self._scored.total(self.feasible)

    def forget_worked_out(self) -> None:
        """Drop what was computed for readers; it is computed again on demand."""
        for name, value in vars(type(self)).items():
            if isinstance(value, lazy):
                self.__dict__.pop(name, None)

    def statuses(self, row: int) -> list[Status]:
        """Return every status against a row that was looked at, plugin by plugin; the one that counts comes first."""
        said = [status for status, rows in self.narrowed if row in rows] + self.findings.statuses(row)
        left_out = self.left_out.get(row)
        return said if left_out is None else [left_out.status.by(left_out.extender), *said]


class Trace(OrderedDict[str, Decision]):
    """The last decision about each recent pod, by `namespace/name`, oldest first.

    A decision keeps its pod, which may be gone by now. If pods are very large, fewer decisions are kept, but always
    one.
    """

    def __init__(self, pods: int, bytes_at_most: int = TRACED_BYTES) -> None:
        super().__init__()
        self._pods = pods
        self.bytes_at_most = bytes_at_most
        """How large these pods may be together, in bytes of JSON."""
        self._bytes = 0
        self._names: tuple[int, tuple[str, ...], Mask] = (-1, (), np.zeros(0, dtype=np.bool_))

    def note(self, attempt: Attempt, table: NodeTable, at: float, attempts: int) -> Decision:
        """Keep what an attempt has decided, dropping the oldest if necessary."""
        node_count = len(table) if attempt.within is None else int(np.count_nonzero(attempt.within))
        names, present = self._nodes(table)
        decision = Decision(attempt, names, node_count, at, attempts, present)
        key = attempt.pod.key
        # Removed first, so that it goes to the end: the order is that of the latest decisions.
        before = self.pop(key, None)
        self._bytes += decision.size - (0 if before is None else before.size)
        self[key] = decision
        while len(self) > self._pods or (self._bytes > self.bytes_at_most and len(self) > 1):
            _, oldest = self.popitem(last=False)
            self._bytes -= oldest.size
        return decision

    def forget(self, key: str) -> None:
        """Forget a pod, by `namespace/name`."""
        before = self.pop(key, None)
        self._bytes -= 0 if before is None else before.size

    def _nodes(self, table: NodeTable) -> tuple[tuple[str, ...], Mask]:
        """Return the names by row, and which rows have one; recomputed only when nodes come or go."""
        known, names, present = self._names
        position = table.node_log.position
        if known != position:
            changed = table.node_log.since(known) if len(names) == table.capacity else None
            # Most changes to nodes change no name, so thousands of decisions share one tuple.
            if changed is None or any(names[row] != _name(table, row) for row in changed):
                names = tuple([_name(table, row) for row in range(table.capacity)])
                present = np.array([bool(name) for name in names], dtype=np.bool_)
            self._names = (position, names, present)
        return names, present


def _name(table: NodeTable, row: int) -> str:
    """Return the name of the node in a row; empty if there is none."""
    return table.names[row] if table.valid.item(row) else ""
