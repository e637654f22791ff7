"""The results of observing: one for each pod, how often each occurred, and what sampling has cost."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

Result = Literal["agrees", "couldHaveSeen", "sampled", "otherwise"]
RESULTS: Final[tuple[Result, ...]] = ("agrees", "couldHaveSeen", "sampled", "otherwise")


class ObservedDecision(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that another scheduler has bound, and what would have been decided here."""

    pod: str
    node: str
    """The node that it was bound to."""
    result: Result
    best: tuple[str, ...]
    """The best nodes, sorted by name; none if it fits nowhere."""
    totals: Mapping[str, int]
    """The total of each node that it fits on."""
    lag_ms: int
    """How long before the binding the state by which the pod is judged was."""


class Weighing(msgspec.Struct, frozen=True, rename="camel"):
    """Two nodes by what each plugin gives them."""

    node: str
    scores: Mapping[str, int]
    rejected_by: Mapping[str, tuple[str, ...]] = {}
    """The plugins that reject the node, with their reasons."""


class Judgement(msgspec.Struct, frozen=True, rename="camel"):
    """A decision with everything worth saying about it."""

    decision: ObservedDecision
    uid: str
    scheduler: str
    at: float
    """When the pod was bound, on the core's clock."""
    states: int = 1
    """In how many states it was tried."""
    points: int = 0
    """By how many points the best node was better."""
    plugins: tuple[str, ...] = ()
    """The plugins that make it better, the strongest first; or those that reject the node."""
    theirs: Weighing | None = None
    ours: Weighing | None = None
    message: str = ""
    """Why the pod fits nowhere, if it does not."""


FailureResult = Literal["agrees", "couldHaveSeen", "otherwise"]


class JudgedPreemption(msgspec.Struct, frozen=True, rename="camel"):
    """The room made for a pod, by the other scheduler and here."""

    node: str
    victims: tuple[str, ...]
    our_node: str
    our_victims: tuple[str, ...]
    is_same: bool
    is_as_good: bool
    """Whether it costs the same by upstream's criteria."""


class JudgedFailure(msgspec.Struct, frozen=True, rename="camel"):
    """A pod for which the other scheduler found no node."""

    pod: str
    uid: str
    result: FailureResult
    at: float
    message: str
    """What its condition says."""
    our_message: str
    """What it would say here."""
    our_node: str = ""
    """The node on which it fits here, if any."""
    preemption: JudgedPreemption | None = None
    """Set if room was made for it; then this is what is compared."""
    lag_ms: int = 0
    plugins: tuple[str, ...] = ()
    """The plugins that reject it here."""


KEPT: Final = 256
"""How many of the latest judgements worth looking at are kept, of each kind."""
LOST_POINTS_BUCKETS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500)
BUCKET_S: Final = 60.0
HOUR_BUCKETS: Final = 60


class Agreement:
    """The results of observing so far; bounded, however many pods there are."""

    def __init__(self) -> None:
        self.pods = 0
        self.results: Counter[Result] = Counter()
        self.failures: Counter[FailureResult] = Counter()
        self.preemptions: Counter[FailureResult] = Counter()
        self.skipped: Counter[str] = Counter()
        """Pods that were not looked at, by reason."""
        self.lost_points: Counter[int] = Counter()
        """What sampling has cost: points, and for how many pods."""
        self.lost_by: Counter[str] = Counter()
        """The plugins whose points were lost."""
        self.otherwise_by: Counter[str] = Counter()
        self.latest: deque[Judgement] = deque(maxlen=KEPT)
        """The latest pods that were decided differently."""
        self.latest_sampled: deque[Judgement] = deque(maxlen=KEPT)
        self.latest_failures: deque[JudgedFailure] = deque(maxlen=KEPT)
        """The latest pods whose condition says something that would not be said here."""
        self.lags_ms: Counter[int] = Counter()
        self._minutes: deque[tuple[int, Counter[Result]]] = deque(maxlen=HOUR_BUCKETS)

    def note(self, judged: Judgement) -> None:
        """Count a pod that was bound."""
        result = judged.decision.result
        self.pods += 1
        self.results[result] += 1
        minute = int(judged.at // BUCKET_S)
        if not self._minutes or self._minutes[-1][0] != minute:
            self._minutes.append((minute, Counter()))
        self._minutes[-1][1][result] += 1
        if result == "couldHaveSeen":
            self.lags_ms[_rounded(judged.decision.lag_ms)] += 1
        elif result == "sampled":
            self.lost_points[judged.points] += 1
            self.lost_by.update(judged.plugins[:1])
            self.latest_sampled.append(judged)
        elif result == "otherwise":
            self.otherwise_by.update(judged.plugins[:1])
            self.latest.append(judged)

    def note_failure(self, judged: JudgedFailure) -> None:
        """Count a pod that fits nowhere, or room that was made for one."""
        counts = self.failures if judged.preemption is None else self.preemptions
        counts[judged.result] += 1
        if judged.result == "otherwise":
            self.latest_failures.append(judged)

    def lately(self, now: float) -> Counter[Result]:
        """Return the results of the last hour."""
        first = int(now // BUCKET_S) - HOUR_BUCKETS
        return sum((counts for minute, counts in self._minutes if minute > first), start=Counter())


def share_of(results: Mapping[Result, int]) -> float | None:
    """Return the share of pods that agree, or agree with what could have been seen; None if there are none."""
    pods = sum(results.values())
    return (results.get("agrees", 0) + results.get("couldHaveSeen", 0)) / pods if pods else None


def _rounded(lag_ms: int) -> int:
    """Round a lag up to a power of two, to keep the number of different ones small."""
    return 1 << (lag_ms - 1).bit_length() if lag_ms > 0 else 0


class ObservedSummary(msgspec.Struct, frozen=True, rename="camel"):
    """What `berth observe --events FILE -o json` prints."""

    pods: int
    agrees: int
    could_have_seen: int
    sampled: int
    otherwise: int
    decisions: tuple[ObservedDecision, ...]


def summary_of(agreement: Agreement, judged: Iterable[Judgement]) -> ObservedSummary:
    """Return the counts, and each decision in the order in which pods were judged."""
    counts = agreement.results
    return ObservedSummary(
        agreement.pods,
        counts["agrees"],
        counts["couldHaveSeen"],
        counts["sampled"],
        counts["otherwise"],
        tuple(each.decision for each in judged),
    )
