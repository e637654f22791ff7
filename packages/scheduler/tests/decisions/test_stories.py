"""Stories stay short, and their sentences say what happened."""

import pytest

from berth.decisions import stories
from berth.decisions.stories import STEPS_KEPT, Story, StoryStep, condensed, sentence
from packages.scheduler.tests.decisions.explanations import explanation


def rounds(count, message="0/1 nodes are available: 1 Insufficient cpu."):
    """Attempt after attempt that ends in the same way."""
    for number in range(count):
        at = 100.0 * number
        yield StoryStep(at, stories.DECIDED, message=message, attempts=number + 1)
        yield StoryStep(at + 1, stories.QUEUED, queue="unschedulable", event="ScheduleAttemptFailure")
        yield StoryStep(at + 2, stories.QUEUED, queue="active", event="UnschedulableTimeout")


def test_the_same_over_and_over_is_told_once():
    first = StoryStep(-1.0, stories.QUEUED, queue="active", event="PodAdd")
    short = condensed([first, *rounds(500)])
    assert len(short) == 4
    assert [(step.what, step.times) for step in short] == [
        ("queued", 1), ("decided", 500), ("queued", 500), ("queued", 500),
    ]  # fmt: skip
    assert (short[1].at, short[1].last, short[1].attempts) == (0.0, 49_900.0, 500)


def test_condensing_in_parts_counts_the_same():
    steps = list(rounds(300))
    in_parts = condensed([*condensed(steps[:450]), *steps[450:]])
    assert [(step.what, step.times, step.last) for step in in_parts] == [
        (step.what, step.times, step.last) for step in condensed(steps)
    ]


def test_a_long_story_keeps_how_it_began_and_how_it_stands():
    steps = [StoryStep(float(number), stories.CONFLICT, message=f"{number}") for number in range(1000)]
    steps[500] = StoryStep(500.0, stories.DECIDED, message="no", attempts=7, decision=explanation("no"))
    steps[990] = StoryStep(990.0, stories.DECIDED, message="no", attempts=8)
    short = condensed(steps)
    assert len(short) == STEPS_KEPT
    assert (short[0].at, short[-1].at) == (0.0, 999.0)
    assert sum(step.times for step in short) == 1000
    story = Story("default/web", "u", short)
    assert story.decision.message == "no" and story.decision.attempts == 8


def test_details_are_kept_of_the_last_decision_only():
    steps = [
        StoryStep(
            float(number), stories.DECIDED, message=f"m{number}", attempts=number, decision=explanation(f"m{number}")
        )
        for number in range(5)
    ]
    short = condensed(steps)
    assert [step.decision is not None for step in short] == [False] * 4 + [True]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (StoryStep(0.0, "queued", queue="active", event="UnschedulablePodAdd"), "arrived"),
        (
            StoryStep(
                0.0, "queued", queue="unschedulable", event="UnschedulablePodAdd", by="SchedulingGates", message="w"
            ),
            "arrived; held back by SchedulingGates: w",
        ),
        (StoryStep(0.0, "queued", queue="backoff", event="NodeAdd"), "woken by NodeAdd; in backoff first"),
        (StoryStep(0.0, "decided", node="n1", attempts=2), "attempt 2: goes to n1"),
        (StoryStep(0.0, "decided", message="no room", by="n2", attempts=1), "attempt 1: no room; nominated to n2"),
        (
            StoryStep(0.0, "waitsOnPermit", node="n1", message="Licence: none", until=60.0),
            "waits on Permit for n1, held by Licence: none, until 1970-01-01T00:01:00Z",
        ),
        (
            StoryStep(0.0, "makesRoom", node="n1", pods=tuple(f"d/{number}" for number in range(7))),
            "preempts d/0, d/1, d/2, d/3, d/4 and 2 more on n1",
        ),
        (StoryStep(0.0, "evicted", node="n1", by="d/high"), "evicted from n1 to make room for d/high"),
        (
            StoryStep(0.0, "bound", node="n1", times=2, last=60.0),
            "bound to n1 (2 times until 1970-01-01T00:01:00Z)",
        ),
    ],
)
def test_sentences(step, said):
    assert sentence(step) == said
