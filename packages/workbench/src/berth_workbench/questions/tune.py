"""`berth tune`: the weights that serve an objective best, and what they cost."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Annotated, Any

import msgspec

from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.comparison.executors import workers
from berth_workbench.comparison.loads import Load, hash_of, notes_of, packed
from berth_workbench.comparison.objectives import Objective
from berth_workbench.comparison.results import ResultsDirectory
from berth_workbench.comparison.settings import SettingSpace
from berth_workbench.comparison.tune import Tuner, TuningResult, tune
from berth_workbench.questions.compare import load_in_words, measured
from berth_workbench.questions.question import Question
from berth_workbench.showing.ask import HowAsked, HowSaid, NodePrices
from berth_workbench.showing.figures import in_words, shown_figure
from berth_workbench.showing.sections import Points, Section, Sentence, VerdictSection, table
from berth_workbench.showing.words import counted, listed
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import WorkWatch


class TuneRequest(msgspec.Struct, frozen=True):
    """What is to be better, for which pods, and how much may be tried."""

    objectives: Annotated[
        tuple[str, ...],
        HowAsked("What to improve: a measure of `berth compare`, such as cost, packing.cpu or min:nodesUsed, or a sum "
            "such as cost:2,waiting.p99:1. Given twice, the trade-off between both is searched.", flag="--objective",
            metavar="MEASURE"),
        HowSaid(),
    ]  # fmt: skip
    base: Annotated[ConfigurationSource, HowSaid("the configuration {}", words=lambda given: given.name)]
    load: Annotated[Load, HowSaid(words=load_in_words)]
    tuned: tuple[str, ...] = ()
    """Plugins; all that score without any."""
    budget: Annotated[int, HowAsked("How many runs.", least=1, most=100_000), HowSaid("{} runs", one="1 run")] = 100
    seeds: Annotated[
        int,
        HowAsked("How often each one runs.", least=1, most=100),
        HowSaid("Each runs {} times.", one="Each runs once."),
    ] = 3
    seed: Annotated[
        int,
        HowAsked("The first of the seeds, and of the search."),
        HowSaid("The first seed is {}.", "The first seed is 0."),
    ] = 0
    prices: NodePrices = None
    dask: Annotated[
        str,
        HowAsked(
            "Run on this Dask cluster, such as tcp://10.0.0.1:8786.",
            metavar="ADDRESS",
            on_page=False,
            is_of_machine=True,
        ),
        HowSaid("Run on the Dask cluster {}."),
    ] = ""


def answer(_situation: Situation | None, request: TuneRequest, watch: WorkWatch) -> TuningResult:
    """Search; the load is all there is, whatever the situation. Raises `ObjectiveError`, `SpaceError`, `TaskError`."""
    wanted = [Objective.parse(text) for text in request.objectives]
    space = SettingSpace(request.base, request.tuned)
    content = packed(request.load)
    name = hash_of(content)
    watch.begin("trying configurations", request.budget)
    with ExitStack() as stack:
        kept = ResultsDirectory(stack.enter_context(tempfile.TemporaryDirectory())).keep_input(name, content)
        carry = stack.enter_context(workers({name: kept}, dask=request.dask))
        tuner = Tuner(space, carry, name, seeds=request.seeds, seed=request.seed, prices=request.prices, watch=watch)
        found = tune(tuner, wanted, request.base.name, budget=request.budget, load=request.load)
        return msgspec.structs.replace(found, notes=(*found.notes, *notes_of(request.load)))


def told(found: TuningResult) -> Iterator[Section]:
    """Tell how much better the best is, what it costs, and the front between two objectives."""
    yield _verdict(found)
    yield Sentence(f"{counted(found.tried, 'configuration')} tried in {counted(found.runs, 'run')}.")
    checked = [each for each in found.outcomes if each.a is not None and each.b is not None]
    if checked:
        yield from measured(checked, "The objectives, now (A) and with the best (B)")
    yield from measured(found.worse, "What it costs, with each of these seeds")
    for sentence in found.given_up:
        yield Sentence(f"It gives up something that no measure shows: {sentence}")
    yield _tried(found)
    if len(found.objectives) == 2:
        yield table(
            "The front: nothing that was tried beats these in both",
            (*((each, "number") for each in found.objectives), ("Changes", "text")),
            (
                (
                    *(_cell(each.objective, each.mean, each.deviation) for each in point.outcomes),
                    described(point.changes),
                )
                for point in sorted(found.front, key=lambda point: point.outcomes[0].mean)
            ),
        )


def _verdict(found: TuningResult) -> VerdictSection:
    if not found.best:
        return VerdictSection(f"Nothing was found that is better than {found.base}.")
    seeds = (
        f"{found.check_seeds} seeds that the search has not seen" if found.check_seeds else "the seeds of the search"
    )
    gains = [
        f"{in_words(each.name)} {shown_figure(each.name, each.a)} → {shown_figure(each.name, each.b)}"
        for each in found.outcomes
    ]
    if found.is_better:
        return VerdictSection(
            f"Better than {found.base} with each of {seeds}: {described(found.best)} ({listed(gains)}).", is_good=True
        )
    return VerdictSection(
        f"Not better than {found.base} with each of {seeds}: what was found, {described(found.best)}, may be luck, so "
        "keep the base."
    )


def _so_far(found: TuningResult) -> str:
    """Nothing is certain before it was checked with seeds that the search has not seen."""
    best = f": {described(found.best)}, which was not checked" if found.best else ", the base"
    return f"The best of {counted(found.tried, 'configuration')} by then{best}."


def _tried(found: TuningResult) -> Points:
    """What was tried: two objectives against each other, or one in the order of the search."""
    points: dict[str, list[tuple[str, float, float]]] = {"tried": [], "nothing beats these": [], "now": []}
    for number, point in enumerate(found.points):
        kind = "now" if number == 0 else "nothing beats these" if point.is_on_front else "tried"
        values = [outcome.mean for outcome in point.outcomes]
        across, up = values if len(values) == 2 else (float(number), values[0])
        points[kind].append((described(point.changes), across, up))
    series = {kind: tuple(some) for kind, some in points.items()}
    axes = (
        found.objectives
        if len(found.objectives) == 2
        else ("configurations, in the order of the search", found.objectives[0])
    )
    return Points("What was tried", axes[0], axes[1], series)


def _cell(objective: str, mean: float, deviation: float | None) -> str:
    name = objective.removeprefix("min:").removeprefix("max:").partition(":")[0] if "," not in objective else ""
    return shown_figure(name, mean) + (f" ±{shown_figure(name, deviation)}" if deviation else "")


def described(changes: Mapping[str, int | str]) -> str:
    """Return what differs from the base, in words."""
    return ", ".join(f"{name} {value}" for name, value in changes.items()) or "nothing"


def as_yaml(document: Mapping[str, Any]) -> str:
    """Return a configuration as people keep it."""
    import yaml

    return yaml.safe_dump(dict(document), sort_keys=False, default_flow_style=False)


QUESTION = Question(
    name="tune",
    title="Tune",
    about="""Search weights that serve an objective best, and print the configuration.

    The weights of the plugins that score are tuned, and whether NodeResourcesFit prefers empty or full nodes, from the
    configuration that is given or the default one. The best is run again with seeds that the search has not seen, and
    what is told of it comes from there. A configuration that leaves more pods without a node is never the best.
    """,
    asks="Search weights that are best for {objectives}, from {base} and for {load}, in {budget}.",
    doing="tuning",
    request=TuneRequest,
    answer=answer,
    told=told,
    so_far=_so_far,
    is_parallel=True,
    takes_changes=False,
)
