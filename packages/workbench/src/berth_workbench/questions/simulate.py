"""`berth simulate`: a workload over time, played with a scheduler in virtual time."""

from collections.abc import Iterator, Sequence
from typing import Annotated, NamedTuple

import msgspec

from berth.framework.setup import Setup
from berth_workbench.questions.question import Question
from berth_workbench.showing.ask import HowAsked, HowSaid
from berth_workbench.showing.numbers import number
from berth_workbench.showing.sections import Lines, Section, Sentence, VerdictSection, table
from berth_workbench.showing.words import counted, listed
from berth_workbench.simulation.cluster import EXTENDERS_LEFT_OUT
from berth_workbench.simulation.measures import WaitingTimes
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import WorkWatch
from berth_workbench.traces.result import SimulatedTime, TimedBinding, TimeLine
from berth_workbench.traces.run import STEPS, TraceRun
from berth_workbench.traces.trace import TimedWorkload


class SimulateRequest(msgspec.Struct, frozen=True):
    """A workload over time, and its scheduler."""

    workload: Annotated[TimedWorkload, HowSaid(words=lambda given: given.header.source)]
    setup: Setup
    seed: Annotated[int, HowAsked("How ties between equally good nodes are broken.")] = 0
    sample_s: Annotated[
        float,
        HowAsked("How often the cluster is measured, in its own time.", flag="--sample", metavar="SECONDS", least=1),
        HowSaid("{} seconds", one="second"),
    ] = 300.0


class LivedThrough(NamedTuple):
    """The result for the workload, and what every node carried over time."""

    result: SimulatedTime
    time_line: TimeLine
    placements: Sequence[TimedBinding]
    """Who was bound where, by time."""
    notes: tuple[str, ...]
    is_complete: bool = True
    """False where it was stopped: the answer is about the time up to then, which it tells."""


def answer(_situation: Situation | None, request: SimulateRequest, watch: WorkWatch) -> LivedThrough:
    """Live through the workload; it has nodes and pods of its own, whatever the situation."""
    config, registry = request.setup
    run = TraceRun(request.workload, config=config, registry=registry, seed=request.seed, sample_s=request.sample_s)
    watch.begin("living through the workload", STEPS)
    result = run.live(watch)
    notes = (EXTENDERS_LEFT_OUT,) if run.cluster.leaves_out_extenders else ()
    return LivedThrough(result, run.time_line, run.placements, notes, not watch.is_stopped)


def told(result: SimulatedTime) -> Iterator[Section]:
    """Tell what became of the pods, how long they waited, and how full the cluster was over time."""
    yield VerdictSection(_verdict(result))
    ended = f"{result.finished:,} finished, {result.failed:,} failed, {result.preempted:,} preempted"
    yield Sentence(f"{counted(result.made, 'pod')} made, {result.bound:,} bound, {ended}.")
    shares = {"CPU": result.cpu, "memory": result.memory, **result.resources}
    used = listed([f"{name} {number(100 * share)}%" for name, share in shares.items()])
    cost = f"; the nodes cost {number(result.cost)}" if result.cost else ""
    yield Sentence(f"{used} requested on average; fairness {number(result.fairness)}{cost}.")
    if result.stranded:
        lost = listed([f"{number(100 * share)}% of {name}" for name, share in result.stranded.items()])
        yield Sentence(f"Of what was free, {lost} was of no use to the pods that ask for it.")
    if result.evicted_again_and_again:
        again = "would come back and be evicted again and again by the same other; they waited until it had a node"
        yield Sentence(f"{counted(result.evicted_again_and_again, 'pod')} {again}.")
    numbers = tuple((each, "number") for each in ("Pods", "Mean", "Half", "90%", "99%", "Longest"))
    by_namespace = [("all", result.waits), *result.waits_by_namespace.items()]
    yield table(
        "How long pods waited for a node, in seconds",
        ("Namespace", *numbers),
        ((name, *_waited(waits)) for name, waits in by_namespace),
    )
    yield table(
        "Why pods waited at the end",
        (("Pods", "number"), ("Reason", "text")),
        ((count, message) for message, count in result.messages.items()),
    )
    yield from _over_time(result)


def _verdict(result: SimulatedTime) -> str:
    longest = f"99 of 100 pods wait at most {number(result.waits.p99)} seconds"
    waits = longest if result.waits.count else "no pod got a node"
    return f"{result.source}: {number(result.seconds / 3600)} hours, {waits}; {result.waiting:,} wait at the end."


def _so_far(lived: LivedThrough) -> str:
    return f"Of the time up to then: {_verdict(lived.result)}"


def _waited(waits: WaitingTimes) -> tuple[str | int, ...]:
    return (waits.count, *(number(each) for each in (waits.mean, waits.p50, waits.p90, waits.p99, waits.max)))


def _over_time(result: SimulatedTime) -> Iterator[Section]:
    samples = result.samples
    hours = tuple(sample.at / 3600 for sample in samples)
    shares = {"CPU": tuple(100 * each.cpu for each in samples), "memory": tuple(100 * each.memory for each in samples)}
    shares |= {name: tuple(100 * each.resources.get(name, 0.0) for each in samples) for name in result.resources}
    yield Lines("Requested", hours, shares, unit="%")
    running, waiting = (tuple(float(getattr(each, name)) for each in samples) for name in ("running", "waiting"))
    yield Lines("Pods", hours, {"running": running, "waiting": waiting})
    yield Lines("Fairness between namespaces", hours, {"Jain's index": tuple(each.fairness for each in samples)})


QUESTION = Question(
    name="simulate",
    title="Simulate",
    about="""Live through TRACE, a file of `berth trace`, with the scheduler that `berth run` is.

    Pods start, run, fail, are scaled and preempted in virtual time, thousands of times faster than they would in a
    cluster. The same trace, configuration and seed give the same result. Ctrl-C ends it early and tells what there is.
    """,
    asks="Live through {workload}, and look at the cluster every {sample_s}.",
    doing="simulating",
    request=SimulateRequest,
    answer=answer,
    told=lambda lived: told(lived.result),
    so_far=_so_far,
    takes_changes=False,
    document=lambda lived: lived.result,
)
