"""Compares a recording with what another configuration, another version or other plugins would have decided.

Once one pod goes elsewhere, the inputs that follow are no longer those of this cluster: bindings come back that were
not made here. So decisions are compared one by one, each on the *recorded* cluster as it was then. Two cores follow the
recording, one with the recorded configuration and one with the other. They are told the recorded events, and after each
decision both count the pod where it was put at the time, and reserve there what it took. Neither runs a cycle of its
own: they are asked about a pod when the recording tried it, in the order of the recording.

Two decisions are the same if the recorded node is among the equally best ones here (with a seed: if it is the one
drawn), or if there is no node in both and room would be made on the same one. The core with the recorded configuration
is the proof that the cluster is the recorded one: if it would not decide what was recorded, the decision is not
compared.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from berth.api.pod import Pod
from berth.config.types import SchedulerConfiguration
from berth.cycle.difference import DECIDED_NODE, ComparedDecision, kind_of, one_node
from berth.decisions.side_by_side import DecisionComparer, Side
from berth.framework.blame import PluginBrokenError
from berth.framework.registry import Registry
from berth.recording.calls import (
    CallKind,
    CallOutcome,
    DecisionNote,
    RecordedCall,
    RoomNote,
    extender_requests_of,
    notes_of,
    status_patches_of,
)
from berth.recording.file_format import Segment, SegmentHeader
from berth.recording.objects import Plain
from berth.state.pod_info import PodInfo
from berth_workbench.replay.follower import ExtendersAsked, Follower, FollowerDecision, NotComparable
from berth_workbench.replay.verification import OnSegment

MOST_EXPLAINED: Final = 500
"""For how many differences the plugin behind them is looked for; each takes two more decisions or so."""
MOST_KEPT: Final = 10_000
"""How many differences are listed; beyond that they are only counted."""

IN_A_GROUP: Final = "it was placed together with its group"
NOT_REBUILT: Final = "the recorded configuration does not decide what was recorded, either"

ConfigOf = Callable[[SegmentHeader], SchedulerConfiguration | None]
"""Returns the other configuration for a core that was recorded; None for the recorded one."""


class DecisionChange(msgspec.Struct, frozen=True, rename="camel"):
    """A decision that would have been different; None if there is no node."""

    event: int
    """The number of the call, counted over the whole recording from 1."""
    time: float
    wall_time: float
    pod: str
    attempt: int
    recorded: str | None
    now: str | None
    message: str
    """Why there is no node now, or what was said of it then."""
    plugins: tuple[str, ...]
    """The plugins that make the difference; empty where that cannot be told."""
    alone: bool
    """Whether each of them alone accounts for it, or only all of them together."""


class RecordingComparison(msgspec.Struct, frozen=True, rename="camel"):
    """The results for the recorded decisions."""

    events: int
    decisions: int
    compared: int
    different: int
    kinds: dict[str, int]
    """`elsewhere`, `fitsNow`, `fitsNoMore`, `preemptsElsewhere`: how many of each."""
    plugins: dict[str, int]
    """How many differences each plugin causes, of those that were looked into."""
    not_compared: dict[str, int]
    """Why decisions were not compared, and how many each time."""
    changes: list[DecisionChange]
    is_cut: bool
    is_complete: bool
    """False if it was stopped."""

    @property
    def first(self) -> DecisionChange | None:
        """The first difference."""
        return self.changes[0] if self.changes else None


class RecordingComparer:
    """Follows a recording with both cores, and compares decision by decision."""

    def __init__(
        self,
        registry: Registry,
        *,
        other: ConfigOf | None = None,
        other_registry: Registry | None = None,
        seed: int | None = None,
        successors: Mapping[str, str] | None = None,
    ) -> None:
        """`other` is what the decisions are compared with; None if only Berth itself, or the seed, differs.

        `successors` are plugins that took over the work of others (see `berth.decisions.side_by_side`).
        """
        self._registry, self._other_registry = registry, other_registry or registry
        self._other, self._seed, self._successors = other, seed, successors or {}
        self._recorded: Follower | None = None
        """The core with the recorded configuration; None where there is nothing to tell it apart from the other."""
        self._now: Follower | None = None
        self._life = ""
        self._requests: dict[int, Plain] = {}
        self._answers: list[ExtendersAsked] = []
        self.events = self.decisions = self.compared = self.different = 0
        self.changes: list[DecisionChange] = []
        self.kinds: Counter[str] = Counter()
        self.plugins: Counter[str] = Counter()
        self.not_compared: Counter[str] = Counter()
        self.is_cut, self.is_complete = False, True
        self.heard: Callable[[str, str | None, str | None], None] = lambda _pod, _recorded, _now: None
        """Told of each decision that is compared: the pod, the recorded node, and that of now."""

    def follow(self, segments: Iterable[Segment], on_segment: OnSegment = lambda _segment: None) -> RecordingComparison:
        """Go through a recording. Raises `RecordingError`, `ConfigError`."""
        for segment in segments:
            on_segment(segment)
            goes_on = self._begin(segment.header)
            for recorded in segment.calls():
                if recorded.entry in (CallKind.KNOWN, CallKind.STANDING):
                    self._learn(recorded, goes_on=goes_on)
                else:
                    self.events += 1
                    self._follow(segment.header, recorded)
            self.is_cut = self.is_cut or segment.is_cut
            self.is_complete = segment.is_whole
        return self.result()

    def result(self) -> RecordingComparison:
        """Return what was found so far."""
        return RecordingComparison(
            self.events,
            self.decisions,
            self.compared,
            self.different,
            dict(self.kinds.most_common()),
            dict(self.plugins.most_common()),
            dict(self.not_compared.most_common()),
            self.changes,
            self.is_cut,
            self.is_complete,
        )

    def _begin(self, header: SegmentHeader) -> bool:
        """Begin a segment; say whether it goes on with the cores that there are."""
        if header.life == self._life:
            for follower in self._followers():
                follower.go_on(header)
            return True
        self._life = header.life
        self._requests.clear()
        self._answers.clear()
        config = self._other(header) if self._other is not None else None
        self._now = Follower(header, self._other_registry, config, self._seed)
        has_another = self._other is not None or self._seed is not None
        self._recorded = Follower(header, self._registry, None) if has_another else None
        return False

    def _followers(self) -> list[Follower]:
        return [each for each in (self._recorded, self._now) if each is not None]

    def _learn(self, recorded: RecordedCall, *, goes_on: bool) -> None:
        for follower in self._followers():
            if not goes_on:
                follower.take(recorded)
            elif recorded.entry is CallKind.KNOWN:
                follower.learn(recorded)

    def _follow(self, header: SegmentHeader, recorded: RecordedCall) -> None:
        followers = self._followers()
        for follower in followers:
            answer = follower.take(recorded)
        if answer is not None and (calls := self._requests.pop(answer.ticket, None)) is not None:
            self._answers.append(ExtendersAsked(calls, answer))
        outcome = recorded.outcome
        for note in notes_of(outcome):
            if isinstance(note, DecisionNote):
                self._decided(header, outcome, note)
            else:
                self._give_back(note)
        for request in extender_requests_of(outcome):
            self._requests[request.ticket] = request.calls
        for follower in followers:
            follower.conclude(outcome)
        if not outcome.is_open:
            self._answers.clear()

    def _give_back(self, note: RoomNote) -> None:
        for uid in note.uids:
            for follower in self._followers():
                follower.turn_back(uid)

    def _decided(self, header: SegmentHeader, outcome: CallOutcome, note: DecisionNote) -> None:
        self.decisions += 1
        reference = self._recorded or self._now
        assert reference is not None, "a segment has begun"
        try:
            pod = reference.pod(note.uid)
            if reference.is_in_group(note.uid):
                self.not_compared[IN_A_GROUP] += 1
                return
            self._compare(header, outcome, note, pod)
        except NotComparable as why:
            self.not_compared[str(why)] += 1
        if note.node is not None:
            for follower in self._followers():
                follower.count(note.uid, note.node)

    def _compare(self, header: SegmentHeader, outcome: CallOutcome, note: DecisionNote, pod: PodInfo) -> None:
        """Compare a decision with what is decided now. Raises `NotComparable`."""
        now, found = self._judged(outcome, note, pod)
        self.compared += 1
        self.heard(pod.key, note.node, now.node)
        if found.kind == "same":
            return
        self.different += 1
        self.kinds[found.kind] += 1
        found = self._explained(pod, found)
        self.plugins.update(found.plugins)
        if len(self.changes) < MOST_KEPT:
            self.changes.append(
                DecisionChange(
                    event=self.events,
                    time=note.at,
                    wall_time=header.wall_time + note.at - header.clock,
                    pod=pod.key,
                    attempt=note.attempts,
                    recorded=found.a,
                    now=found.b,
                    message=now.message or note.message,
                    plugins=found.plugins,
                    alone=found.alone,
                )
            )

    def _judged(
        self, outcome: CallOutcome, note: DecisionNote, pod: PodInfo
    ) -> tuple[FollowerDecision, ComparedDecision]:
        """Return what is decided now, and that beside what was recorded. Raises `NotComparable`."""
        assert self._now is not None, "a segment has begun"
        uid, chosen = note.uid, note.node
        nominated = _nominated(outcome, uid) if chosen is None else ""
        if self._recorded is not None:
            before = self._recorded.judge(uid, chosen, nominated, self._answers)
            if before.node != chosen or (nominated and before.nominated != nominated):
                self._now.judge(uid, chosen, nominated, self._answers)  # it is counted where it was put
                raise NotComparable(NOT_REBUILT)
            nominated = before.nominated
        now = self._now.judge(uid, chosen, nominated, self._answers)
        kind = kind_of(one_node(chosen), one_node(now.node), DECIDED_NODE)
        makes_room = chosen is None and now.nominated != nominated and (nominated or self._recorded is not None)
        if kind == "same" and makes_room:
            kind = "preemptsElsewhere"
        return now, ComparedDecision(pod.key, chosen, now.node, kind)

    def _explained(self, pod: PodInfo, found: ComparedDecision) -> ComparedDecision:
        """Return a difference with the plugins behind it, where they can be told."""
        if self._recorded is None or self._now is None or self._seed is not None or found.a == found.b:
            return found
        if self.different > MOST_EXPLAINED:
            return found
        comparer = DecisionComparer(_side(self._recorded), _side(self._now), DECIDED_NODE, self._successors)
        try:
            return comparer.explain(pod.pod, found.a, found.b)
        except (PluginBrokenError, NotComparable):
            return found


def _side(follower: Follower) -> Side:
    def info(pod: Pod) -> PodInfo:
        return follower.pod(pod.metadata.uid)

    return Side.of(follower.core, info, is_for_all=True)


def _nominated(outcome: CallOutcome, uid: str) -> str:
    """Return the node on which room is made for a pod, if it is."""
    nominated = (each.nominated_node_name for each in status_patches_of(outcome) if each.pod.uid == uid)
    return next(filter(None, nominated), "")
