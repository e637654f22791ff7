"""`berth compare`: two configurations on the same pods: which pods go elsewhere and why, and which measures are
better.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from berth.agreement.report import FigureCompared
from berth.cycle.difference_kinds import DIFFERENCE_WORDS
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.comparison.loads import ClusterLoad, Load, notes_of
from berth_workbench.comparison.two_configurations import ConfigurationsCompared, compare
from berth_workbench.questions.question import NamedThings, Question
from berth_workbench.showing.ask import HowAsked, HowSaid, NodePrices
from berth_workbench.showing.figures import SHARES, in_words, shown_figure
from berth_workbench.showing.sections import Bars, Section, Sentence, VerdictSection, table
from berth_workbench.showing.words import because, counted, listed
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import WorkWatch

TOLD_BETTER = 3
"""So many measures of each configuration are named in the verdict."""


def load_in_words(load: Load) -> str:
    """Return whose places are looked for."""
    return counted(len(load.pods), "pod") if isinstance(load, ClusterLoad) else "the workload over time"


class CompareRequest(msgspec.Struct, frozen=True):
    """Two configurations, the pods that both place, and how often."""

    a: Annotated[ConfigurationSource, HowSaid("configuration A ({})", words=lambda given: given.name)]
    b: Annotated[ConfigurationSource, HowSaid("configuration B ({})", words=lambda given: given.name)]
    load: Annotated[Load, HowSaid(words=load_in_words)]
    seeds: Annotated[
        int, HowAsked("How often each one runs.", least=1, most=1000), HowSaid("{} times each", one="once each")
    ] = 3
    prices: NodePrices = None


def answer(_situation: Situation | None, request: CompareRequest, watch: WorkWatch) -> ConfigurationsCompared:
    """Have both place the same pods; the load is all there is, whatever the situation."""
    seeds = range(request.seeds)
    found = compare(request.load, request.a, request.b, seeds=seeds, prices=request.prices, watch=watch)
    return msgspec.structs.replace(found, notes=(*found.notes, *notes_of(request.load)))


def told(found: ConfigurationsCompared) -> Iterator[Section]:
    """Tell what differs, which measures are better, and which pods go elsewhere because of which plugin."""
    decisions = found.decisions
    yield _verdict(found)
    kinds: Counter[str] = Counter(change.kind for change in decisions.changes)
    parts = [f"{kinds[kind]:,} {words}" for kind, words in DIFFERENCE_WORDS.items() if kinds[kind]]
    if parts:
        yield Sentence(f"Of the pods that are decided differently, {listed(parts)}.")
    for reason, count in decisions.left_out.items():
        yield Sentence(f"{count:,} left out: {reason}.")
    yield Bars("How many changes each plugin causes", tuple(found.causes), {"changes": tuple(found.causes.values())})
    several = len(found.seeds) > 1
    if found.measures:
        differing = [each for each in found.measures if each.difference]
        yield from measured(differing, "Each on its own" + (f", mean of {len(found.seeds)} seeds" if several else ""))
        if several and differing:
            yield Sentence("±: the standard deviation of the difference over the seeds. Better: in every seed.")
        same = [
            (in_words(each.name), shown_figure(each.name, each.a)) for each in found.measures if not each.difference
        ]
        yield table("Measures that are the same", ("Measure", ("Both", "number")), same, is_folded=True)
    yield table(
        "Pods that are decided differently",
        ("Pod", f"A: {found.a}", f"B: {found.b}", ("Because of", "text")),
        (
            (
                each.pod,
                each.a or "no node",
                each.b or "no node",
                each.note or because(each.plugins, is_alone=each.alone),
            )
            for each in decisions.changes
        ),
    )


def measured(figures: Sequence[FigureCompared], title: str) -> Iterator[Section]:
    """Tell of measures of A and B: shares as bars, and all of them in a table."""
    shares = [each for each in figures if each.name.split(".")[0] in SHARES and each.a is not None]
    series = {
        name.upper(): tuple(None if (value := getattr(each, name)) is None else 100 * value for each in shares)
        for name in ("a", "b")
    }
    yield Bars("Shares", tuple(in_words(each.name) for each in shares), series, unit="%")
    several = any(each.deviation is not None for each in figures)
    numbers = ("A", "B", "B - A", *(("±",) if several else ()))
    rows = []
    for each in figures:
        cells = [shown_figure(each.name, value) for value in (each.a, each.b, each.difference)]
        cells += [shown_figure(each.name, each.deviation) if each.deviation else ""] if several else []
        rows.append((in_words(each.name), *cells, each.better.upper()))
    yield table(title, ("Measure", *((name, "number") for name in numbers), "Better"), rows)


def _verdict(found: ConfigurationsCompared) -> VerdictSection:
    changes, decided = len(found.decisions.changes), counted(found.decisions.decided, "pod")
    differ = f"{changes:,} of {decided} decided differently"
    better = {side: [in_words(each.name) for each in found.measures if each.better == side] for side in "ab"}
    parts = [
        f"{side.upper()} ({getattr(found, side)}) is better in {listed(names, shown=TOLD_BETTER)}"
        for side, names in better.items()
        if names
    ]
    if not parts and found.measures:
        parts = ["neither is better in any measure with every seed"]
    return VerdictSection("; ".join((differ, *parts)) + ".", None, changes, "pods decided differently")


def _so_far(found: ConfigurationsCompared) -> str:
    changes = len(found.decisions.changes)
    are = "is" if changes == 1 else "are"
    return f"At least {counted(changes, 'pod')} {are} decided differently." if changes else ""


QUESTION = Question(
    name="compare",
    title="Compare",
    about="""Try two configurations on the same pods.

    A.yaml and B.yaml are scheduler configurations, or the word `default`. The pods are those of the cluster that are
    pending, and those of -f; with --replace-all also those that run, by priority and creation.

    The decisions are compared one by one, A's choice standing in both: which pods go elsewhere, no longer fit or fit
    now, and the plugin that, taken from B, makes A decide like it. Then each places everything on its own, once for
    each seed, and the measures stand side by side. With --trace, each lives through the workload in virtual time.
    """,
    asks="Place {load} by {a} and by {b}, {seeds}.",
    doing="comparing",
    request=CompareRequest,
    answer=answer,
    told=told,
    so_far=_so_far,
    is_parallel=True,
    takes_changes=False,
    names=NamedThings("the pods that are decided differently", lambda found: (e.pod for e in found.decisions.changes)),
)
