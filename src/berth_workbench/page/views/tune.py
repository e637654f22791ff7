"""Tune: search weights that serve an objective best on this cluster, and see what each try came to."""

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from berth.api.codec import ObjectError
from berth.config.errors import ConfigError
from berth.framework.blame import PluginBrokenError
from berth_workbench.comparison.executors import workers
from berth_workbench.comparison.loads import ClusterLoad, hash_of, packed
from berth_workbench.comparison.objectives import PARTED, WHOLE, Objective
from berth_workbench.comparison.results import ResultsDirectory
from berth_workbench.comparison.settings import SettingSpace
from berth_workbench.comparison.tune import Tuner, TuningResult, tune
from berth_workbench.page.jobs import Jobs, Watch
from berth_workbench.page.source import Source, SourceError
from berth_workbench.page.views.compare import comparison_bars, figure_text, measures_table
from berth_workbench.page.views.elements import TrialForm, point_chart, table, tag
from berth_workbench.page.views.frame import Frame
from berth_workbench.page.views.trials import TrialPanel, result_place
from berth_workbench.simulation.cluster import StuckError

REFUSED = (ConfigError, ObjectError, PluginBrokenError, StuckError, ValueError)
MOST_RUNS = 500
ABOUT = (
    "Weights are tried on the pods of this cluster, in memory. What is told of the best comes from seeds that the "
    "search has not seen."
)
HINT = (
    f"One a line, at most two: {', '.join(WHOLE)}, {', '.join(f'{name}.cpu' for name in list(PARTED)[:2])} and so on."
)


class TuneView:
    """Makes the page."""

    __slots__ = ("_frame", "_jobs", "_source")

    def __init__(self, source: Source, frame: Frame, jobs: Jobs) -> None:
        self._source = source
        self._frame = frame
        self._jobs = jobs

    async def build(self) -> None:
        """The form, and below it what came of it."""
        async with self._frame.page("Tune", "/tune"):
            tag("p", ABOUT, "soft")
            with tag("section", classes="panel"):
                form = TrialForm(
                    "Search weights",
                    "Search",
                    [
                        {"name": "objectives", "label": "Objectives", "kind": "area", "rows": 2,
                         "value": "packing.cpu\nfragmentation.cpu", "hint": HINT},
                        {"name": "budget", "label": "Runs", "kind": "number", "value": "60"},
                        {"name": "all", "label": "Place running pods anew, too", "kind": "check", "value": True,
                         "hint": "Those that a controller owns; otherwise only what is pending is placed."},
                    ],
                )  # fmt: skip
            TrialPanel(form, result_place(), self._jobs, REFUSED, steps="runs").runs(self._prepare, _show)

    async def _prepare(self, values: dict[str, Any]) -> Callable[[Watch], TuningResult]:
        objectives = [Objective.parse(line) for line in str(values.get("objectives", "")).split() if line]
        budget = str(values.get("budget", ""))
        if not budget.isdecimal() or not 0 < int(budget) <= MOST_RUNS:
            raise ValueError(f"runs: a number up to {MOST_RUNS} is expected, not {budget!r}")
        snapshot, configuration = await self._source.snapshot(), await self._source.configuration()
        replaces_all = bool(values.get("all"))

        def work(watch: Watch) -> TuningResult:
            def told(runs: int) -> None:
                watch(runs)

            load = ClusterLoad.of(snapshot, replaces_all=replaces_all)
            if not load.pods:
                raise SourceError("there are no pods to place: none is pending; place the running ones anew, too")
            content = packed(load)
            name = hash_of(content)
            with ExitStack() as stack:
                directory = stack.enter_context(tempfile.TemporaryDirectory())
                kept = ResultsDirectory(directory).keep_input(name, content)
                carry = stack.enter_context(workers({name: kept}, jobs=os.cpu_count() or 1, dask=""))
                space = SettingSpace(configuration, ())
                tuner = Tuner(space, carry, name, told=told, is_stopped=lambda: watch(0))
                return tune(tuner, objectives, configuration.name, budget=int(budget), load=load)

        return work


def described(changes: Mapping[str, int | str]) -> str:
    """What differs from the base, in words."""
    return ", ".join(f"{name} {value}" for name, value in changes.items()) or "as it is now"


def _show(found: TuningResult) -> None:
    if not found.is_complete:
        tag("p", "Stopped before the end; this is the best that was found by then.", "warn")
    with tag("section", classes="panel", aria_label="Best"):
        better = "Better" if found.is_better else "Not better"
        seeds = f"with each of {found.check_seeds} fresh seeds" if found.check_seeds else "so far"
        tag("p", f"{better} than {found.base} {seeds}: {described(found.best)}.", "summary")
        tag("p", f"{found.tried:,} configurations in {found.runs:,} runs.", "soft")
        for said in found.given_up:
            tag("p", f"It gives up: {said}", "warn")
        comparison_bars(found.outcomes)
    if len(found.objectives) == 2:
        with tag("section", classes="panel", aria_label="Front"):
            _front(found)
    with tag("section", classes="panel", aria_label="Measures"), tag("details"):
        tag("summary", "All measures, now (A) and with the best (B)")
        measures_table(found.check)
    with tag("section", classes="panel", aria_label="Configuration"), tag("details"):
        tag("summary", "The configuration, ready for use")
        tag("pre", _yaml(found.document), "mono")


def _front(found: TuningResult) -> None:
    points: dict[str, list[tuple[str, float, float]]] = {"tried": [], "nothing beats these in both": [], "now": []}
    for number, point in enumerate(found.points):
        kind = "now" if number == 0 else "nothing beats these in both" if point.is_on_front else "tried"
        across, up = (outcome.mean for outcome in point.outcomes)
        points[kind].append((described(point.changes), across, up))
    point_chart("What was tried", (found.objectives[0], found.objectives[1]), points)
    rows = [
        [described(point.changes), *(figure_text(each.objective, each.mean) for each in point.outcomes)]
        for point in found.front
    ]
    table("What no other beats in both", ["Changes", *((each, "number") for each in found.objectives)], rows)


def _yaml(document: Mapping[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(dict(document), sort_keys=False, default_flow_style=False)
