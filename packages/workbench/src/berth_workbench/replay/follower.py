"""A core that follows a recording, and is asked about its pods when the recorded core tried them.

It is told the recorded events and runs no cycles of its own. After each decision it counts the pod where the recorded
core put it, and reserves there what it takes; so its cluster stays the recorded one. What comes in are the calls of a
recording (`berth.recording.calls`); it is used by the comparison with another configuration, and by the export of a
part, which only needs to know which objects existed.
"""

import contextlib
import random
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from berth.config.types import SchedulerConfiguration
from berth.core.core import Core
from berth.core.intake import Event, ObjectEvent, ShardsHeld
from berth.core.questions import attempt_for, decide
from berth.cycle.attempt import Attempt
from berth.cycle.binding_cycle import reserve_and_permit
from berth.cycle.schedule import TieBreaker
from berth.engine.sums import BestRows
from berth.framework.blame import PluginBrokenError
from berth.framework.effects import Answer, CallExtenders
from berth.framework.registry import Registry
from berth.plugins.preemption.eligibility import rows_to_try
from berth.recording.calls import (
    CallKind,
    CallOutcome,
    KnownState,
    RecordedCall,
    RoomNote,
    bindings_of,
    notes_of,
    plain_effect,
    status_patches_of,
)
from berth.recording.file_format import SegmentHeader
from berth.recording.objects import Plain
from berth.state.pod_groups import group_of
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable
from berth_workbench.replay.reconstruction import Rebuilt

NOT_KNOWN: Final = "the pod is not known at this point of the recording"
EXTENDER: Final = "an extender would have been asked something else"


class NotComparable(Exception):  # noqa: N818 - it says what is the case
    """Why a decision cannot be compared."""


class ExtendersAsked(NamedTuple):
    """The recorded calls to extenders, and their answers."""

    calls: Plain
    answer: Answer


class _AnswersThen:
    """Answers a cycle with what extenders answered then, and with nothing once they are asked something else."""

    __slots__ = ("_answers", "are_others_asked")

    def __init__(self, answers: Iterable[ExtendersAsked]) -> None:
        self._answers = deque(answers)
        self.are_others_asked = False

    def __call__(self, effect: Any) -> Answer | None:
        if not isinstance(effect, CallExtenders):
            return Answer(0)
        _, calls = plain_effect(effect)
        if self._answers and self._answers[0].calls == calls:
            return self._answers.popleft().answer
        self.are_others_asked = True
        return None


def _worded(bug: BaseException) -> str:
    """Turn a plugin's bug into an error that, as in the core, ends the attempt."""
    if isinstance(bug, Exception):
        return f"{type(bug).__name__}: {bug}"
    raise bug


class FollowerDecision(msgspec.Struct, frozen=True):
    """A core's decision about a pod that it is asked about."""

    node: str | None
    nominated: str
    message: str


class _Preferring:
    """Breaks ties in favour of the recorded node; without it among the best, the first by name stands for all."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self.wanted: str | None = None

    def __call__(self, rows: BestRows) -> int:
        names = self._table.names
        row = self._table.row_of.get(self.wanted or "")
        if row is not None and row in rows:
            return row
        return min((int(each) for each in rows), key=names.__getitem__)


class _Lots(random.Random):
    """Random draws with the recorded results, where these are known."""

    start: int | None = None

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """Draw a number, or return the one that is known."""
        if self.start is not None and stop is None:
            return min(self.start, start - 1)
        return super().randrange(start, stop, step)


class Follower:
    """A core that follows a recording without scheduling, and is asked about its pods."""

    def __init__(
        self, header: SegmentHeader, registry: Registry, config: SchedulerConfiguration | None, seed: int | None = None
    ) -> None:
        """`config` takes the recorded one's place; with a seed, lots are drawn.

        Raises `ConfigError`, `RecordingError`.
        """
        self._ties: _Preferring | None = None
        self._lots = _Lots(header.seed if seed is None else seed)
        prefer = self._prefer if seed is None else None
        self._rebuilt = Rebuilt(header, registry, config=config, rng=self._lots, break_ties=prefer)
        self.core: Core = self._rebuilt.core
        self._attempts: dict[str, tuple[Attempt, str]] = {}
        """The pods whose binding is under way, by uid: with what was reserved, and where."""
        self._keys: dict[str, str] = {}
        """The names of pending pods, by uid."""
        self._judged: dict[str, Attempt] = {}
        """The last attempts, whose results are still to be counted."""
        self.shards: list[int] | None = None
        """The shards that were ours last, where there are several."""
        self._is_open = False
        self._held: list[tuple[Event, float]] = []
        """What came while a cycle was open; the recorded core did not see it before its end, either."""

    def _prefer(self, table: NodeTable) -> TieBreaker:
        self._ties = _Preferring(table)
        return self._ties

    def go_on(self, header: SegmentHeader) -> None:
        """Go on with the next segment of the same core."""
        self._rebuilt.go_on(header)

    def learn(self, recorded: RecordedCall) -> None:
        """Read an object that is known already."""
        self._rebuilt.learn(recorded)

    def take(self, recorded: RecordedCall) -> Answer | None:
        """Take in what went into the recorded core; return it if it was an answer. Raises `RecordingError`."""
        kind, now = recorded.entry, recorded.now
        self._rebuilt.at(now)
        if kind is CallKind.STANDING:
            self._stand(msgspec.convert(recorded.argument, KnownState), now)
        elif kind is CallKind.STEP:
            self.core.step(now, begins=False)
        elif kind in (CallKind.OBJECT, CallKind.KNOWN, CallKind.SHARDS, CallKind.ANSWER):
            event = self._rebuilt.event(recorded)
            if isinstance(event, Answer):
                return event
            if self._is_open:
                self._held.append((event, now))
            else:
                self._handle(event, now)
        return None

    @property
    def is_open(self) -> bool:
        """Whether the recorded core has a cycle open."""
        return self._is_open

    def follow(self, recorded: RecordedCall) -> None:
        """Follow a call of the recorded core, without being asked about any pod. Raises `RecordingError`."""
        self.take(recorded)
        for note in notes_of(recorded.outcome):
            if isinstance(note, RoomNote):
                for uid in note.uids:
                    self.turn_back(uid)
            elif note.node is not None and not self.is_in_group(note.uid):
                self.turn_back(note.uid)
                self.count(note.uid, note.node)
        self.conclude(recorded.outcome)

    def is_in_group(self, uid: str) -> bool:
        """Say whether a pod is placed together with others."""
        pod = self._found(uid)
        return pod is not None and group_of(pod) is not None and self.core.schedules_groups

    def pod(self, uid: str) -> PodInfo:
        """Return a pending pod. Raises `NotComparable`."""
        found = self._found(uid)
        if found is None:
            raise NotComparable(NOT_KNOWN)
        return found

    def _found(self, uid: str) -> PodInfo | None:
        pod = self.core.intake.pod(self._keys.get(uid, ""))
        return pod if pod is not None and pod.uid == uid and not pod.node_name else None

    def judge(
        self, uid: str, recorded: str | None, nominated: str, answers: Iterable[ExtendersAsked]
    ) -> FollowerDecision:
        """Return what is decided here about a pod, in favour of what was recorded where lots decide.

        `answers` are those of extenders. Raises `NotComparable`.
        """
        verdict = self._judge(uid, recorded, answers)
        if nominated and verdict.node is None and verdict.nominated != nominated and self._ties is not None:
            diagnosis = self._judged[uid].outcome.diagnosis if uid in self._judged else None
            row = self.core.cache.table.row_of.get(nominated)
            if diagnosis is not None and row is not None:
                # Preemption takes the first of equally good nodes, counted from one that is drawn.
                self._lots.start = int((rows_to_try(diagnosis, self.core.cache.table) < row).sum())
                verdict = self._judge(uid, recorded, answers)
                self._lots.start = None
        return verdict

    def _judge(self, uid: str, recorded: str | None, answers: Iterable[ExtendersAsked]) -> FollowerDecision:
        self.turn_back(uid)
        pod = self.pod(uid)
        profile = self.core.profiles.get(pod.spec.scheduler_name)
        if profile is None:
            return FollowerDecision(None, "", f"there is no profile {pod.spec.scheduler_name!r}")
        if self._ties is not None:
            self._ties.wanted = recorded
        answer = _AnswersThen(answers)
        attempt = self._judged[uid] = decide(self.core, pod, answer, on_bug=_worded)
        if answer.are_others_asked:
            raise NotComparable(EXTENDER)
        outcome = attempt.outcome
        row = outcome.chosen_row
        if row is not None:
            return FollowerDecision(self.core.cache.table.names[row], "", "")
        return FollowerDecision(None, outcome.nominated_node_name or "", outcome.message)

    def count(self, uid: str, node: str) -> None:
        """Count a pod where the recorded core put it, and reserve there what it takes."""
        pod = self._found(uid)
        if pod is None or self.core.cache.state_of(uid) is not None:
            return
        attempt = self._judged.pop(uid, None) or attempt_for(self.core, pod)
        attempt.found.release_columns()
        self._attempts[uid] = (attempt, node)
        with contextlib.suppress(PluginBrokenError):  # the pod is assumed first, so it counts all the same
            reserve_and_permit(self.core.cache, attempt, node)
        self.core.nominator.withdraw(uid)

    def turn_back(self, uid: str) -> None:
        """Take a pod back whose binding has failed."""
        attempt, node = self._attempts.pop(uid, (None, ""))
        if attempt is None:
            return
        # What plugins raise here ends nothing, as in the core, which frees the room regardless.
        attempt.profile.unreserve(attempt.state, attempt.pod, node)
        self.core.cache.forget(uid)

    def conclude(self, outcome: CallOutcome) -> None:
        """Take over what the recorded core made known of nominations and bindings; then take in what was held back."""
        for patch in status_patches_of(outcome):
            pod = self._found(patch.pod.uid)
            if patch.nominated_node_name is not None and pod is not None and pod.uid not in self._attempts:
                self.core.nominator.nominate(pod, patch.nominated_node_name)
        for binding in bindings_of(outcome):
            self.count(binding.pod.uid, binding.node_name)
        self._judged.clear()
        self._is_open = outcome.is_open
        while self._held and not self._is_open:
            self._handle(*self._held.pop(0))

    def _handle(self, event: Event, now: float) -> None:
        if isinstance(event, ShardsHeld):
            self.shards = sorted(event.shards)
        if isinstance(event, ObjectEvent) and event.kind == "Pod":
            pod = event.obj
            if pod.spec.node_name or event.type == "DELETED":
                self._attempts.pop(pod.metadata.uid, None)
                self._keys.pop(pod.metadata.uid, None)
            else:
                self._keys[pod.metadata.uid] = pod.key
        self.core.handle(event, now)

    def _stand(self, known: KnownState, now: float) -> None:
        if known.shards is not None:
            self._handle(ShardsHeld(frozenset(known.shards)), now)
        for uid, node in known.assumed:
            self.count(uid, node)
        for uid, node in known.nominated:
            pod = self._found(uid)
            if pod is not None:
                self.core.nominator.nominate(pod, node)
        self.core.search.begin_at(known.start_index)
