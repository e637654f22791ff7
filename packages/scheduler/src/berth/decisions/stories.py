"""The story of one pod: what happened to it from its arrival on, step by step, each with its time.

A `StoryStep` is what the decision log keeps about one thing that happened; a `Story` has all of them for one life of a
pod, since names are reused. `condensed` makes a long story short, `sentence` puts a step into words. Pure.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from berth.decisions.explanation import Explanation

QUEUED, DECIDED, PERMIT, BOUND, NOT_BOUND = (
    "queued", "decided", "waitsOnPermit", "bound", "notBound",
)  # fmt: skip
MAKES_ROOM, EVICTED, SPARED, LEFT, CONFLICT, NOT_WOKEN = (
    "makesRoom", "evicted", "notEvicted", "left", "conflict", "notWoken",
)  # fmt: skip
GOING, GONE = "going", "gone"
ARRIVALS = ("UnschedulablePodAdd", "PodAdd")
"""The queue's events for a new pod."""
AFTER_ATTEMPT = "ScheduleAttemptFailure"
STEPS_KEPT = 40
"""How many steps a condensed story has at most."""
FIRST_KEPT = 8
VICTIMS_NAMED = 5


class StoryStep(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One thing that happened to a pod. Which fields are used depends on `what`."""

    at: float
    """Seconds since 1970."""
    what: str
    queue: str = ""
    """`queued`: active, backoff, or unschedulable."""
    event: str = ""
    """`queued`: what brought it there."""
    by: str = ""
    """A plugin that holds the pod back, or the pod that it makes way for."""
    node: str = ""
    message: str = ""
    pods: tuple[str, ...] = ()
    """`makesRoom`: the victims."""
    events: dict[str, int] = {}
    """`notWoken`: how often a plugin said that an event does not help, by `plugin: event`."""
    until: float = 0.0
    """`waitsOnPermit`: the deadline."""
    attempts: int = 0
    decision: Explanation | None = None
    """`decided`: what the attempt found; left out if it says the same as the one before."""
    times: int = 1
    """How many steps in a row this one stands for, from `at` to `last`."""
    last: float = 0.0


class LogEntry(msgspec.Struct, frozen=True):
    """A line of the log: some steps of one pod. The order of the fields is the order in which lines are sorted."""

    pod: str
    uid: str
    steps: list[StoryStep]


class Story(NamedTuple):
    """One life of a pod, as far as it is remembered."""

    pod: str
    uid: str
    steps: tuple[StoryStep, ...]

    @property
    def decision(self) -> Explanation | None:
        """What the last attempt found, with the time and number of that attempt; None if none is remembered."""
        decided = [step for step in self.steps if step.what == DECIDED]
        detailed = next((step.decision for step in reversed(decided) if step.decision is not None), None)
        if not decided:
            return None
        last = decided[-1]
        if detailed is None:
            detailed = _without_details(self, last)
        return msgspec.structs.replace(detailed, time=rfc3339(last.last or last.at), attempts=last.attempts)


def _without_details(story: Story, step: StoryStep) -> Explanation:
    """Return what is known about a decision whose scores were not kept."""
    outcome = "scheduled" if step.node else "unschedulable"
    went = f"goes to {step.node}" if step.node else f"could not be scheduled: {step.message}"
    return Explanation(
        pod=story.pod, uid=story.uid, profile="", outcome=outcome, node=step.node or None,
        summary=f"{story.pod} {went} (scores were not kept, since many pods were decided at a time)",
        message=step.message, attempts=step.attempts, node_count=0, feasible_count=0, weights={}, best=(), rejected=(),
        nominated_node=step.by,
    )  # fmt: skip


class StoryLine(msgspec.Struct, frozen=True, rename="camel"):
    """A step for people and programs; `time` is RFC 3339, `times` how often it happened in a row."""

    time: str
    what: str
    text: str
    times: int = 1


def rfc3339(at: float) -> str:
    """Return a time as the API writes it."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def lines_of(steps: Iterable[StoryStep]) -> tuple[StoryLine, ...]:
    """Return the steps in words."""
    return tuple(StoryLine(rfc3339(step.at), step.what, sentence(step), step.times) for step in steps)


# --- shorter ----------------------------------------------------------------------------------------------------------


def condensed(steps: Sequence[StoryStep], at_most: int = STEPS_KEPT) -> tuple[StoryStep, ...]:
    """Return a story with repetitions folded, and with the middle of a long one left out.

    The first steps say how it began, the last ones how things are now; the last decision is kept.
    """
    short = list(_without_repetitions(steps))
    if len(short) > at_most:
        left_out = len(short) - at_most + 1
        middle = short[FIRST_KEPT : FIRST_KEPT + left_out]
        gap = StoryStep(middle[0].at, "leftOut", times=sum(step.times for step in middle), last=middle[-1].at)
        rest = short[FIRST_KEPT + left_out :]
        if all(step.decision is None for step in rest):
            rest = _with_decision(rest, next((s.decision for s in reversed(middle) if s.decision is not None), None))
        short = [*short[:FIRST_KEPT], gap, *rest]
    return tuple(_with_one_decision(short))


def _without_repetitions(steps: Sequence[StoryStep]) -> Iterator[StoryStep]:
    """Fold repeated rounds of the same steps: an attempt, what followed, and what woke the pod."""
    kept: list[StoryStep] = []
    for step in steps:
        for back in (1, 2, 3, 4):
            if len(kept) >= back and _says_the_same(kept[-back], step):
                known = kept[-back]
                kept[-back] = msgspec.structs.replace(
                    known,
                    times=known.times + step.times,
                    last=step.last or step.at,
                    attempts=step.attempts or known.attempts,
                    until=step.until or known.until,
                    events={k: known.events.get(k, 0) + step.events.get(k, 0) for k in {**known.events, **step.events}},
                    decision=step.decision or known.decision,
                )
                break
        else:
            kept.append(step)
    yield from kept


def _says_the_same(one: StoryStep, other: StoryStep) -> bool:
    return (one.what, one.queue, one.event, one.by, one.node, one.message, one.pods) == (
        other.what, other.queue, other.event, other.by, other.node, other.message, other.pods,
    )  # fmt: skip


def _with_decision(steps: list[StoryStep], decision: Explanation | None) -> list[StoryStep]:
    last = next((i for i in reversed(range(len(steps))) if steps[i].what == DECIDED), None)
    if last is None or decision is None:
        return steps
    return [*steps[:last], msgspec.structs.replace(steps[last], decision=decision), *steps[last + 1 :]]


def _with_one_decision(steps: list[StoryStep]) -> Iterator[StoryStep]:
    """Keep the details of the last decision only: those of earlier ones are in their messages."""
    last = next((i for i in reversed(range(len(steps))) if steps[i].decision is not None), None)
    for index, step in enumerate(steps):
        yield step if index == last or step.decision is None else msgspec.structs.replace(step, decision=None)


# --- in words ---------------------------------------------------------------------------------------------------------


def sentence(step: StoryStep) -> str:
    """Say what happened, for people."""
    said = _sentence(step)
    if step.times == 1:
        return said
    if step.what == DECIDED:
        return (
            f"attempts {step.attempts - step.times + 1} to {step.attempts}"
            + said.removeprefix(f"attempt {step.attempts}")
            + f" (the last at {rfc3339(step.last)})"
        )
    return f"{said} ({step.times} times until {rfc3339(step.last)})"


def _sentence(step: StoryStep) -> str:
    match step.what:
        case "queued":
            return _queued(step)
        case "decided":
            if step.node:
                return f"attempt {step.attempts}: goes to {step.node}"
            room = f"; nominated to {step.by}" if step.by else ""
            return f"attempt {step.attempts}: {step.message}{room}"
        case "waitsOnPermit":
            return f"waits on Permit for {step.node}, held by {step.message}, until {rfc3339(step.until)}"
        case "bound":
            return f"bound to {step.node}"
        case "notBound":
            return f"not bound after all: {step.message}"
        case "makesRoom":
            named = ", ".join(step.pods[:VICTIMS_NAMED])
            more = f" and {len(step.pods) - VICTIMS_NAMED} more" if len(step.pods) > VICTIMS_NAMED else ""
            return f"preempts {named}{more} on {step.node}"
        case "evicted":
            return f"evicted from {step.node} to make room for {step.by}"
        case "notEvicted":
            return f"was to make room for {step.by} on {step.node}, but the eviction was refused: {step.message}"
        case "left":
            return "left the queue: it is gone or going, bound by somebody else, or no longer this scheduler's"
        case "conflict":
            return f"another scheduler was faster: {step.message}"
        case "notWoken":
            events = "; ".join(f"{event} (x{count})" for event, count in sorted(step.events.items()))
            return f"not woken, since these did not help: {events}"
        case "going":
            return f"is being deleted, {step.message}" if step.message else "is being deleted"
        case "gone":
            return step.message
        case "leftOut":
            return "more steps, left out here"
    return step.what


def _queued(step: StoryStep) -> str:
    if step.by:
        held = f"held back by {step.by}" + (f": {step.message}" if step.message else "")
        return f"arrived; {held}" if step.event in ARRIVALS else f"{held} (after {step.event})"
    if step.event in ARRIVALS:
        return "arrived"
    if step.event == AFTER_ATTEMPT:
        where = {"unschedulable": "waits for an event that helps", "backoff": "waits out its backoff"}
        return where.get(step.queue, "is to be tried again at once")
    if step.event == "BackoffComplete":
        return "backoff over; to be tried again"
    if step.event == "PopFromBackoffQ":
        return "taken out of backoff early, since nothing else was to be tried"
    then = "in backoff first" if step.queue == "backoff" else "to be tried again"
    return f"woken by {step.event}; {then}"
