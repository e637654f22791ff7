"""Compares a recording with what another configuration, another version or other plugins would have decided.

Once one pod goes elsewhere, the inputs that follow are no longer those of this cluster: bindings come back that nobody
here has made. So decisions are compared one by one, each on the *recorded* cluster as it was then. Two cores follow the
recording, one with the recorded configuration and one with the other. They are told the recorded events, and after each
decision both count the pod where it was put at the time, and reserve there what it took. Neither runs a cycle of its
own: they are asked about a pod when the recording tried it, in the order of the recording.

Two decisions are the same if the recorded node is among those that draw lots here (with a seed: if it is drawn), or if
there is no node in both and room would be made on the same one. The core with the recorded configuration is the proof
that the cluster is the recorded one: where it would not decide what was recorded, the decision is not compared.
"""

import contextlib
import random
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from berth.config.types import SchedulerConfiguration
from berth.core import Core
from berth.cycle.attempt import Attempt
from berth.cycle.binding import reserve_and_permit, undo
from berth.cycle.schedule import TieBreaker, schedule_pod
from berth.engine.sums import BestRows
from berth.exchange import DividedDecision, causes
from berth.framework.blame import PluginBrokenError
from berth.framework.effects import Answer, CallExtenders
from berth.framework.registry import Registry
from berth.intake import Event, ObjectEvent, ShardsHeld
from berth.plugins.preemption.eligibility import rows_to_try
from berth.recording.calls import CallOutcome, Entrance, KnownState, Note, Written, effects_named, plain_effect
from berth.recording.file_format import Segment, SegmentHeader
from berth.recording.objects import Plain
from berth.recording.rebuilding import Rebuilt
from berth.recording.verifying import Told
from berth.state.cache import CacheError
from berth.state.pod_groups import group_of
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

MOST_EXPLAINED: Final = 500
"""For how many differences the plugin behind them is looked for; each takes two more decisions or so."""
MOST_KEPT: Final = 10_000
"""How many differences are listed; beyond that they are only counted."""

NOT_KNOWN: Final = "the pod is not known at this point of the recording"
IN_A_GROUP: Final = "it was placed together with its group"
EXTENDER: Final = "an extender would have been asked something else"
NOT_REBUILT: Final = "the recorded configuration does not decide what was recorded, either"
BROKE: Final = "a plugin broke"

ConfigOf = Callable[[SegmentHeader], SchedulerConfiguration | None]
"""Returns the other configuration for a core that was recorded; None for the recorded one."""


class DecisionChange(msgspec.Struct, frozen=True, rename="camel"):
    """A decision that would have been another; None where there is no node."""

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
    """What has become of the recorded decisions."""

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
    """False where somebody stopped it."""

    @property
    def first(self) -> DecisionChange | None:
        """The first difference."""
        return self.changes[0] if self.changes else None


class NotComparable(Exception):  # noqa: N818 - it says what is the case
    """Why a decision cannot be compared."""


class ExtendersAsked(NamedTuple):
    """What extenders were asked, as it was recorded, and what they answered."""

    calls: Plain
    answer: Answer


class FollowerDecision(msgspec.Struct, frozen=True):
    """What a core says about a pod that it is asked about."""

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
    """Lots that fall where the recorded ones did, where that is known."""

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

    def learn(self, written: Written) -> None:
        """Read an object that is known already."""
        self._rebuilt.learn(written)

    def take(self, written: Written) -> Answer | None:
        """Take in what went into the recorded core; return it if it was an answer. Raises `RecordingError`."""
        entrance, now = written.entry, written.now
        self._rebuilt.at(now)
        if entrance is Entrance.STANDING:
            self._stand(msgspec.convert(written.argument, KnownState), now)
        elif entrance is Entrance.STEP:
            self.core.step(now, begins=False)
        elif entrance in (Entrance.OBJECT, Entrance.KNOWN, Entrance.SHARDS, Entrance.ANSWER):
            event = self._rebuilt.event(written)
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

    def follow(self, written: Written) -> None:
        """Follow a call of the recorded core, without being asked about any pod. Raises `RecordingError`."""
        self.take(written)
        for note in written.outcome.notes:
            if note[0] != Note.DECIDED:
                for uid in note[1:]:
                    self.turn_back(uid)
            elif note[2] is not None and not self.is_in_group(note[1]):
                self.turn_back(note[1])
                self.count(note[1], note[2])
        self.conclude(written.outcome)

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
        attempt = self._judged[uid] = Attempt(profile, pod)
        try:
            _drive(schedule_pod(self.core.search, attempt), deque(answers))
            attempt.hold_to_budget()
        except NotComparable:
            raise
        except Exception as bug:  # as in the core: it ends the attempt
            return FollowerDecision(None, "", f"{type(bug).__name__}: {bug}")
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
        profiles = self.core.profiles
        attempt = self._judged.pop(uid, None)
        if attempt is None:
            profile = profiles.get(pod.spec.scheduler_name) or next(iter(profiles.values()))
            attempt = Attempt(profile, pod)
        attempt.found.release_columns()
        self._attempts[uid] = (attempt, node)
        with contextlib.suppress(Exception):  # what cannot be reserved here counts all the same
            reserve_and_permit(self.core.cache, attempt, node)
        self.core.nominator.withdraw(uid)

    def turn_back(self, uid: str) -> None:
        """Take a pod back whose binding has failed."""
        attempt, node = self._attempts.pop(uid, (None, ""))
        if attempt is not None:
            with contextlib.suppress(Exception):
                undo(self.core.cache, attempt, node)

    def conclude(self, outcome: CallOutcome) -> None:
        """Take over what the recorded core made known of nominations and bindings; then take in what was held back."""
        for effect in effects_named(outcome, "PatchPodStatus"):
            _, (_, _, uid), _, _, _, nominated, _ = effect
            pod = self._found(uid)
            if nominated is not None and pod is not None and uid not in self._attempts:
                self.core.nominator.nominate(pod, nominated)
        for effect in effects_named(outcome, "Bind"):
            self.count(effect[1][2], effect[2])
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
        with contextlib.suppress(CacheError):
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


def _drive(steps: Generator[Any, Any, None], answers: deque[ExtendersAsked]) -> None:
    """Run a search to its end with what extenders answered then. Raises `NotComparable` if others are asked."""
    answer: Answer | None = None
    try:
        while True:
            effect = steps.send(answer)
            answer = Answer(0)
            if isinstance(effect, CallExtenders):
                _, calls = plain_effect(effect)
                if not answers or answers[0].calls != calls:
                    raise NotComparable(EXTENDER)
                answer = answers.popleft().answer
    except StopIteration:
        return


class Judging:
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
        """`other` is what the decisions are compared with; None where only Berth itself, or the seed, is another.

        `successors` are plugins that took over the work of others (see `berth.exchange`).
        """
        self._registry, self._other_registry = registry, other_registry or registry
        self._other, self._seed, self._successors = other, seed, successors
        self._recorded: Follower | None = None
        """The core with the recorded configuration; None where there is nothing to tell it apart from the other."""
        self._now: Follower | None = None
        self._life = ""
        self._requests: dict[int, Any] = {}
        self._answers: list[ExtendersAsked] = []
        self.events = self.decisions = self.compared = self.different = 0
        self.changes: list[DecisionChange] = []
        self.kinds: Counter[str] = Counter()
        self.plugins: Counter[str] = Counter()
        self.not_compared: Counter[str] = Counter()
        self.is_cut, self.is_complete = False, True
        self.heard: Callable[[str, str | None, str | None], None] = lambda _pod, _recorded, _now: None
        """Told of each decision that is compared: the pod, the recorded node, and that of now."""

    def follow(self, segments: Iterable[Segment], told: Told = lambda _segment: None) -> RecordingComparison:
        """Go through a recording. Raises `RecordingError`, `ConfigError`."""
        for segment in segments:
            told(segment)
            goes_on = self._begin(segment.header)
            for written in segment.calls():
                if written.entry in (Entrance.KNOWN, Entrance.STANDING):
                    self._learn(written, goes_on=goes_on)
                else:
                    self.events += 1
                    self._follow(segment.header, written)
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

    def _learn(self, written: Written, *, goes_on: bool) -> None:
        for follower in self._followers():
            if not goes_on:
                follower.take(written)
            elif written.entry is Entrance.KNOWN:
                follower.learn(written)

    def _follow(self, header: SegmentHeader, written: Written) -> None:
        followers = self._followers()
        for follower in followers:
            answer = follower.take(written)
        if answer is not None and (calls := self._requests.pop(answer.ticket, None)) is not None:
            self._answers.append(ExtendersAsked(calls, answer))
        outcome = written.outcome
        for note in outcome.notes:
            if note[0] == Note.DECIDED:
                self._decided(header, written, note)
            else:
                for uid in note[1:]:
                    for follower in followers:
                        follower.turn_back(uid)
        for effect in outcome.effects:
            if effect[0] == "Request" and effect[2][0] == "CallExtenders":
                self._requests[effect[1]] = effect[2][1]
        for follower in followers:
            follower.conclude(outcome)
        if not outcome.is_open:
            self._answers.clear()

    def _decided(self, header: SegmentHeader, written: Written, note: Plain) -> None:
        _, uid, chosen, _, message, at, attempt = note
        self.decisions += 1
        assert self._now is not None, "a segment has begun"
        reference = self._recorded or self._now
        try:
            pod = reference.pod(uid)
            if reference.is_in_group(uid):
                self.not_compared[IN_A_GROUP] += 1
                return
            found = self._compared(uid, chosen, written.outcome)
        except NotComparable as why:
            self.not_compared[str(why)] += 1
            found = None
        if found is not None:
            self.compared += 1
            verdict, kind = found
            self.heard(pod.key, chosen, verdict.node)
            if kind:
                self.different += 1
                self.kinds[kind] += 1
                wall_time = header.wall_time + at - header.clock
                plugins, alone = self._causes(pod, chosen, verdict.node)
                self.plugins.update(plugins)
                if len(self.changes) < MOST_KEPT:
                    said = verdict.message or message
                    change = DecisionChange(
                        self.events, at, wall_time, pod.key, attempt, chosen, verdict.node, said, plugins, alone
                    )
                    self.changes.append(change)
        if chosen is not None:
            for follower in self._followers():
                follower.count(uid, chosen)

    def _compared(self, uid: str, chosen: str | None, outcome: CallOutcome) -> tuple[FollowerDecision, str]:
        """Return what is decided now, and how that differs, if it does. Raises `NotComparable`."""
        assert self._now is not None, "a segment has begun"
        patches = effects_named(outcome, "PatchPodStatus") if chosen is None else ()
        nominated = next((patch[5] for patch in patches if patch[1][2] == uid and patch[5]), "")
        if self._recorded is not None:
            before = self._recorded.judge(uid, chosen, nominated, self._answers)
            if before.node != chosen or (nominated and before.nominated != nominated):
                self._now.judge(uid, chosen, nominated, self._answers)  # it is counted where it was put
                raise NotComparable(NOT_REBUILT)
            nominated = before.nominated
        now = self._now.judge(uid, chosen, nominated, self._answers)
        if now.node != chosen:
            return now, "fitsNow" if chosen is None else "fitsNoMore" if now.node is None else "elsewhere"
        if chosen is None and now.nominated != nominated and (nominated or self._recorded is not None):
            return now, "preemptsElsewhere"
        return now, ""

    def _causes(self, pod: PodInfo, chosen: str | None, now: str | None) -> tuple[tuple[str, ...], bool]:
        """Return the plugins behind a difference, and whether each of them accounts for it alone."""
        if self._recorded is None or self._now is None or self._seed is not None or chosen == now:
            return (), False
        if self.different > MOST_EXPLAINED:
            return (), False

        def accounts_for(best: tuple[str, ...]) -> bool:
            return not best if now is None else now in best and chosen not in best

        try:
            before, after = (
                DividedDecision(each.core, each.pod(pod.uid), self._successors) for each in (self._recorded, self._now)
            )
            return causes(before, after, accounts_for)
        except (PluginBrokenError, NotComparable):
            return (), False
