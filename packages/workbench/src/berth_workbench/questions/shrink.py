"""`berth shrink`: which workloads request more than they use, and what shrinking them would free."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from berth_workbench.planning.shrink import MARGIN_PERCENT, Amounts, Shrinking, shrinking
from berth_workbench.planning.usage import Usage
from berth_workbench.questions.question import Question
from berth_workbench.showing.ask import HowAsked, HowSaid
from berth_workbench.showing.numbers import amount
from berth_workbench.showing.sections import Section, Sentence, VerdictSection, table
from berth_workbench.showing.words import counted
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import WorkWatch


class ShrinkRequest(msgspec.Struct, frozen=True):
    """What pods use, and how much more than that they are to request."""

    usage: Usage
    margin: Annotated[
        float,
        HowAsked("How much more than its highest usage a container is to request.", metavar="PERCENT",
            least=0, most=1000),
        HowSaid("{}% more than", "no more than"),
    ] = MARGIN_PERCENT  # fmt: skip


def answer(situation: Situation, request: ShrinkRequest, watch: WorkWatch) -> Shrinking:
    """Hold usage against requests."""
    return shrinking(situation.site(watch), request.usage, request.margin, watch)


def told(found: Shrinking) -> Iterator[Section]:
    """Tell what would be freed, for which pods, and by which commands."""
    count = len(found.workloads)
    if not count:
        yield VerdictSection("No workload requests more than it uses, with the margin.", is_good=True)
    else:
        who = "1 workload requests" if count == 1 else f"{count:,} workloads request"
        cpu, memory = _cells(found.freed)
        yield VerdictSection(f"{who} too much, by {cpu} CPU and {memory} of memory.")
    if found.pending and found.fit_now is not None and found.fit_then is not None:
        pending = counted(found.pending, "pending pod")
        yield Sentence(f"Of {pending} {found.fit_now:,} fit now, {found.fit_then:,} would fit then.")
    if found.not_measured:
        yield Sentence(f"No usage is known of {counted(len(found.not_measured), 'workload')}.")
    yield table(
        "",
        ("Workload", ("Pods", "number"), ("CPU", "number"), ("Memory", "number")),
        ((f"{each.kind} {each.name}", each.pods, *_cells(each.freed)) for each in found.workloads),
    )
    for each in found.workloads:
        if each.loses_guaranteed:
            yield Sentence(f"{each.kind} {each.name}: its pods would be Burstable, and are Guaranteed.")
    yield table("", (("What shrinks them", "name"),), ((each.command,) for each in found.workloads))


def _so_far(found: Shrinking) -> str:
    who = counted(len(found.workloads), "workload")
    return f"{who} {'requests' if len(found.workloads) == 1 else 'request'} too much." if found.workloads else ""


def _cells(amounts: Amounts) -> tuple[str, str]:
    return amount("cpu", amounts["cpu"]), amount("memory", amounts["memory"])


QUESTION = Question(
    name="shrink",
    title="Shrink",
    about="""Say which workloads request more than they use, and what shrinking them frees.

    Usage is held against requests with a margin, the highest of a workload's pods. Tells what would be freed, a command
    for each workload, and how many of the pending pods would then fit. Nothing is changed.
    """,
    asks="What would be free if containers requested {margin} the most that they use, after {changes}?",
    doing="placing what is pending",
    request=ShrinkRequest,
    answer=answer,
    told=told,
    so_far=_so_far,
)
