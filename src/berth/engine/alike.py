"""What a decision leaves for the next pod of the same shape, where pods of a workload stand in a row.

A pod like the one before, tried right after it, meets the same cluster but for the rows that have changed since: as a
rule one, on which that one was placed. So there is nothing to ask but those plugins whose answers go by the pods of a
row, about these rows, and nothing to do but to rank them again.

The invariant: `AlikeRun.best_rows` returns what a whole attempt would find, or None where it cannot know. It writes the
answers to where an attempt keeps them, so that whichever way the next pod takes, it finds them.
"""

from typing import Any

from berth.config.types import ExtensionPoint as Point
from berth.engine.memo import FEW_ROWS, RowForm, SlotSet
from berth.engine.memo_entry import MemoEntry
from berth.engine.profile import Profile
from berth.engine.scores import Scored
from berth.engine.sums import UNRANKED, BestRows, Ranking
from berth.engine.verdicts import Verdicts
from berth.framework.blame import contained
from berth.framework.cycle_state import CycleState
from berth.state.pod_info import PodInfo


class AlikeRun:
    """A run of alike pods, after one of them was decided in whole; made by `run_after`."""

    __slots__ = (
        "_codes", "_memos", "_moving", "_profile", "_ranking", "_seen", "_shares", "_standing", "_state",
    )  # fmt: skip

    def __init__(
        self,
        profile: Profile,
        state: CycleState,
        ranking: Ranking,
        codes: list[MemoEntry],
        shares: list[tuple[MemoEntry, int]],
        moving: list[tuple[Any, RowForm, MemoEntry]],
    ) -> None:
        """`codes` and `shares` are the kept columns that say which rows fit and what they are worth, `moving` those of
        them that go by the pods of a row, with who is asked about it."""
        self._state = state
        self._profile = profile
        self._memos = profile.memos
        self._ranking = ranking
        self._codes = codes
        self._shares = shares
        self._moving = moving
        self._standing = self._stands()
        self._seen = self._memos.table.pod_log.position

    def _stands(self) -> tuple[object, ...]:
        """All that must be as it was, beside rows whose pods have changed."""
        memos = self._memos
        table = memos.table
        return (
            table.node_log.position, table.capacity, memos.drops, memos.epochs, memos.world, memos.enabled,
            len(self._profile.nominator),
        )  # fmt: skip

    def best_rows(self, pod: PodInfo) -> BestRows | None:
        """Return the rows that are best for one more pod of the shape; None where that takes an attempt."""
        if self._standing != self._stands() or pod.status.nominated_node_name:
            return None
        table = self._memos.table
        rows = table.pod_log.since(self._seen)
        if rows is None or len(rows) > FEW_ROWS or not self._ask_about(rows, pod):
            return None
        valid, ranking = table.valid, self._ranking
        for row in rows:
            fits = valid.item(row) and not any([entry.column.item(row) for entry in self._codes])  # noqa: C419
            total = sum([entry.column.item(row) * weight for entry, weight in self._shares]) if fits else UNRANKED
            ranking.put(row, total)
        self._seen = table.pod_log.position
        best = ranking.best_rows()
        return None if ranking.highest() == UNRANKED else best

    def _ask_about(self, rows: list[int], pod: PodInfo) -> bool:
        """Have the answers about some rows brought up to date; False where one of them is not to be relied on."""
        state, table = self._state, self._memos.table
        for runner, form, entry in self._moving:
            for row in rows:
                try:
                    value = form(state, pod, table, row)
                except BaseException as raised:  # the attempt will meet it, too, and says whose bug it is
                    contained(raised)
                    return False
                if entry.column.item(row) != value:
                    entry.repair_row(row, value)
                    runner.note(entry.extra, value)
        return not any([entry.extra.any_out_of_range for entry, _ in self._shares])  # noqa: C419 (a list is faster)


def run_after(
    profile: Profile, pod: PodInfo, state: CycleState, verdicts: Verdicts | None, scored: Scored | None
) -> AlikeRun | None:
    """Return the run that begins with a pod that was just decided; None where the next one may fare otherwise.

    So it is where plugins have to be asked in PreFilter or PreScore, where a filter or score goes by more than single
    rows, and where anything but the plugins takes part.
    """
    ranking = None if scored is None else scored.kept_ranking
    standing = None if verdicts is None else verdicts.standing
    if verdicts is None or scored is None or ranking is None or standing is None or standing.domains is not None:
        return None
    is_asked = any(profile.asks(point, pod) for point in (Point.PRE_FILTER, Point.PRE_SCORE))
    if is_asked or profile.extenders or profile.narrowing or profile.percentage_of_nodes_to_score is not None:
        return None
    sets = profile.kept_slots(state, pod)
    if sets is None or state.taken_out or len(profile.nominator) or not profile.memos.enabled:
        return None
    filters, scores = sets
    shares = scored.kept_shares(scores)
    moving = _moving(filters, scores)
    if shares is None or moving is None:
        return None
    return AlikeRun(profile, state, ranking, filters.entries, shares, moving)


def _moving(*sets: SlotSet) -> list[tuple[Any, RowForm, MemoEntry]] | None:
    """Return who is asked about rows whose pods have changed; None where somebody cannot be asked so."""
    found: list[tuple[Any, RowForm, MemoEntry]] = []
    for slots in sets:
        for place, slot in slots.moving:
            entry, needs, form = slots.entries[place], slot.dependencies, slot.runner.row_form
            if not entry.is_kept or needs.reservations or needs.pods_anywhere:
                return None
            # What goes by nodes or objects alone is as it was, or the run is over.
            if needs.pods_on_node and (form is None or needs.all_nodes):
                return None
            if needs.pods_on_node:
                found.append((slot.runner, form, entry))
    return found
