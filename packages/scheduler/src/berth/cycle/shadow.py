"""Shadow profiles: what another profile would have decided about a pod, worked out alongside the decision that counts.

The core calls `Shadows.look` once a cycle has found a node or found none, while the cluster is still as the cycle saw
it. The shadow filters and scores the same nodes with its own plugins, by the same code as a cycle, and stops there:
nothing is reserved, permitted, evicted, bound or reported, extenders are not asked, and the shadow's plugins have a
handle that changes nothing. Results are counted and the latest differences are kept; no decision depends on them.

Its cost is bounded: only the configured share of pods is looked at (by their uids), none while many others wait to be
tried, and with a quarter of an attempt's budget of work. Pods of groups, and pods about which extenders were asked, are
left out, since their decisions do not rest on filters and scores alone.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple
from zlib import crc32

import msgspec

from berth.cycle.attempt import Attempt, SearchResult
from berth.cycle.difference import DECIDED_NODE, ComparedDecision, FoundParts, compared, one_node
from berth.cycle.instrument import Instrument
from berth.cycle.schedule import Search, choose_node
from berth.engine.profile import Profile
from berth.framework.blame import PluginBrokenError, contained, status_of
from berth.framework.cycle_policy import CyclePolicy
from berth.framework.status import Code
from berth.framework.work_budget import WorkBudget
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

BUSY_PODS = 100
"""While this many pods are ready to be tried, shadows do not look, so that no pod waits for them."""
DIFFERENCES_KEPT = 256
SHARE_OF_WORK = 4
"""A shadow's attempt may cost this fraction (one in so many) of what a real attempt may."""


class ShadowDecision(NamedTuple):
    """A decision that a shadow would have made otherwise."""

    found: ComparedDecision
    """Where the pod goes (`a`), where the shadow would have it go (`b`), and why (`note`)."""
    uid: str
    at: float
    """When, on the core's clock."""


class ShadowProfile:
    """One shadow: its profile, whose pods it looks at, and its results so far."""

    __slots__ = ("causes", "differences", "kinds", "of", "percentage", "profile", "skipped")

    def __init__(self, profile: Profile, of: str, percentage: float) -> None:
        self.profile = profile
        self.of = of
        self.percentage = percentage
        self.kinds = Counter[str]()
        """How many attempts it has looked at, by what it would have done."""
        self.causes = Counter[tuple[str, str]]()
        """By kind and plugin, how often the plugin made the difference."""
        self.skipped = Counter[str]()
        """Attempts at pods of its share that it did not look at, by reason."""
        self.differences: deque[ShadowDecision] = deque(maxlen=DIFFERENCES_KEPT)
        """The latest decisions that it would have made differently."""

    @property
    def name(self) -> str:
        """Its scheduler name, which no pod can ask for."""
        return self.profile.name

    def samples(self, pod: PodInfo) -> bool:
        """Say whether a pod belongs to its share."""
        return self.percentage >= 100 or crc32(b"shadow/" + pod.uid.encode()) % 10_000 < self.percentage * 100


class ShadowParts(NamedTuple):
    """The parts of a core that shadows need."""

    table: NodeTable
    policy: CyclePolicy
    instrument: Instrument
    now: Callable[[], float]
    waiting_pods: Callable[[], int]
    """How many pods are ready to be tried."""
    work_limit: int


class Shadows:
    """All shadow profiles of a core."""

    __slots__ = ("_by_profile", "_parts")

    def __init__(self, shadows: Sequence[ShadowProfile], parts: ShadowParts) -> None:
        self._by_profile: Mapping[str, tuple[ShadowProfile, ...]] = {
            each.of: tuple(other for other in shadows if other.of == each.of) for each in shadows
        }
        self._parts = parts

    def __bool__(self) -> bool:
        return bool(self._by_profile)

    def __iter__(self) -> Iterator[ShadowProfile]:
        return (each for shadows in self._by_profile.values() for each in shadows)

    def look(self, attempt: Attempt, start_index: int) -> None:
        """Have the shadows of an attempt's profile decide about its pod; the search began at `start_index`."""
        for shadow in self._by_profile.get(attempt.profile.name, ()):
            if not shadow.samples(attempt.pod):
                continue
            reason = self._reason_to_skip(attempt)
            if reason:
                shadow.skipped[reason] += 1
                self._parts.instrument.shadow_skipped(shadow.name, reason)
            else:
                self._note(shadow, attempt.pod, self._decide(shadow, attempt, start_index))

    def _reason_to_skip(self, attempt: Attempt) -> str:
        if self._parts.waiting_pods() > BUSY_PODS:
            return "busy"
        if attempt.outcome.error is not None:
            return "error"
        return "extenders" if attempt.state.asked else ""

    def _note(self, shadow: ShadowProfile, pod: PodInfo, found: ComparedDecision) -> None:
        shadow.kinds[found.kind] += 1
        if found.kind != "same":
            shadow.differences.append(ShadowDecision(found, pod.uid, self._parts.now()))
            shadow.causes.update((found.kind, plugin) for plugin in found.plugins)
        self._parts.instrument.shadowed(shadow.name, shadow.of, found.kind, found.plugins)

    def _decide(self, shadow: ShadowProfile, attempt: Attempt, start_index: int) -> ComparedDecision:
        """Return what the shadow would have decided; `error` where it fails, with the plugins that have failed."""
        parts, pod = self._parts, attempt.pod
        search = Search(parts.table, lambda rows: int(rows[0]), policy=parts.policy)
        search.begin_at(start_index)
        beside = Attempt(shadow.profile, pod, work=WorkBudget(parts.work_limit // SHARE_OF_WORK))
        try:
            choose_node(search, beside)
            beside.hold_to_budget()
            if beside.outcome.error is None:
                return self._compared(attempt, beside)
            plugins, why = _erring(beside.found), beside.outcome.error
        except BaseException as raised:  # a shadow's bug is worth a count, and nothing else
            bug = contained(raised)
            plugins = (bug.plugin,) if isinstance(bug, PluginBrokenError) else ()
            why = status_of(bug).message
        return ComparedDecision(pod.key, self._name(attempt), None, "error", plugins, note=why)

    def _compared(self, attempt: Attempt, beside: Attempt) -> ComparedDecision:
        a, b, table = attempt.outcome.chosen_row, beside.outcome.chosen_row, self._parts.table
        pod, of_a, of_b = attempt.pod.key, self._name(attempt), self._name(beside)
        if a == b or (a is not None and _is_among_best(beside.found, a)):
            return ComparedDecision(pod, of_a, of_b, "same")
        rows = [row for row in (a, b) if row is not None]
        ours, theirs = FoundParts(attempt, table, rows), FoundParts(beside, table, rows)
        found = compared(pod, ours, theirs, DECIDED_NODE, (one_node(of_a), one_node(of_b)))
        why = beside.outcome.message
        if found.kind == "elsewhere":
            why = f"{of_b} is not rejected" if ours.rejects[1] else "the scores differ"
            why = f"{of_a} is rejected" if theirs.rejects[0] else why
        return msgspec.structs.replace(found, note=why)

    def _name(self, attempt: Attempt) -> str | None:
        row = attempt.outcome.chosen_row
        return None if row is None else self._parts.table.names[row]


def _is_among_best(found: SearchResult, row: int) -> bool:
    """Say whether a row is among the equally best ones, so that it might have been drawn."""
    return found.scored is not None and row in found.scored.best_rows()


def _erring(found: SearchResult) -> tuple[str, ...]:
    """Return the plugins whose filters returned an error."""
    if found.verdicts is None:
        return ()
    return tuple({status.plugin: None for status, _ in found.verdicts.rejected() if status.code is Code.ERROR})
