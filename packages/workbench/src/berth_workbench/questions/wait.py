"""`berth wait`: how long pending pods will wait, and which pods have to end first."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from berth_workbench.planning.ends import read_durations
from berth_workbench.planning.waiting import Waits, for_what, how_long, waits_of
from berth_workbench.questions.question import Question
from berth_workbench.showing.ask import HowAsked, HowSaid
from berth_workbench.showing.numbers import number
from berth_workbench.showing.sections import KEPT, Section, Sentence, Try, VerdictSection, table
from berth_workbench.showing.words import counted
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import WorkWatch
from berth_workbench.traces.trace import durations_of, read_trace

DAY_S = 86_400.0


class WaitRequest(msgspec.Struct, frozen=True):
    """Which pods to answer for, and what is known about how long others run."""

    pods: Annotated[
        tuple[str, ...],
        HowAsked("The pods, as POD or NAMESPACE/POD; all that are pending without.", flag="POD"),
        HowSaid("{}", "all pending pods", picks="pods"),
    ] = ()
    durations: Annotated[
        dict[str, float] | None,
        HowAsked("How long pods run: seconds by workload, as namespace/name.", metavar="FILE", reads=read_durations),
        HowSaid(
            "Pods run as long as is given.",
            "Pods run until their deadlines.",
            example="default/nightly: 5400\nml/train: 86400\n",
        ),
    ] = None
    trace: Annotated[
        str,
        HowAsked("The same, from a workload over time of `berth trace`.", metavar="FILE", on_page=False,
            is_of_machine=True),
        HowSaid("Pods run as long as those of {}."),
    ] = ""  # fmt: skip
    within: Annotated[
        float,
        HowAsked("How far to look ahead.", metavar="DAYS", least=0, most=10_000),
        HowSaid("the next {} days", one="the next day"),
    ] = 7.0


def answer(situation: Situation, request: WaitRequest, watch: WorkWatch) -> Waits:
    """Play the ends of running pods until the waiting pods have places."""
    known = durations_of(read_trace(request.trace).records) if request.trace else {}
    names = [name if "/" in name else f"{situation.namespace}/{name}" for name in request.pods]
    durations = known | (request.durations or {})
    return waits_of(situation, names, durations=durations, within_s=request.within * DAY_S, watch=watch)


def told(found: Waits) -> Iterator[Section]:
    """Tell which pods wait how long, and for which."""
    yield _verdict(found)
    if any(not each.node for each in found.pods):
        yield Try("Would moving other pods make room?", "rebalance", {"goal": "place-pending"})
        yield Try("Which nodes would an autoscaler add?", "autoscale", {"changes": KEPT, "manifests": KEPT})
    known, running = found.ends_known, found.ends_known + found.without_end
    yield Sentence(f"From {found.now} on. It is known when {known:,} of {running:,} running pods end.")
    yield table(
        "",
        ("Pod", ("Waits", "number"), "Node", ("Ahead", "number"), ("For", "text")),
        (
            (each.pod, how_long(each), each.node or "-", len(each.ahead), for_what(each, found.within_s))
            for each in found.pods
        ),
    )


def _verdict(found: Waits) -> VerdictSection:
    if not found.pods:
        return VerdictSection("No pod waits.", is_good=True)
    without = [each for each in found.pods if not each.node]
    if not without:
        last = max(found.pods, key=lambda each: each.seconds or 0.0)
        which = (
            last.pod
            if len(found.pods) == 1
            else f"All {counted(len(found.pods), 'pod')} get their places; {last.pod}, the last,"
        )
        return VerdictSection(f"{which} waits {how_long(last)}.", True, how_long(last), "until the last has its place")
    if len(found.pods) == 1:
        return VerdictSection(f"{without[0].pod} gets no place: {for_what(without[0], found.within_s)}", False, 1,
            "pod gets no place")  # fmt: skip
    return VerdictSection(
        f"{len(without):,} of {counted(len(found.pods), 'pod')} get no place within "
        f"{number(found.within_s / DAY_S)} days.",
        False,
        len(without),
        "pods get no place",
    )


def _so_far(found: Waits) -> str:
    placed = sum(each.node is not None for each in found.pods)
    return f"{placed:,} of {counted(len(found.pods), 'pod')} had got their places by then." if placed else ""


QUESTION = Question(
    name="wait",
    title="Wait",
    about="""Say when pending pods get their places: all of them, or those named, as POD or NAMESPACE/POD.

    Running pods end by their deadlines, by those of their Jobs, or when such pods usually do (--durations).
    Nobody new comes meanwhile, but for the pods of -f, which wait as well.
    """,
    asks="When will {pods} get their places in {within}, after {changes}?",
    doing="ending pods",
    request=WaitRequest,
    answer=answer,
    told=told,
    so_far=_so_far,
    manifests="applied",
)
