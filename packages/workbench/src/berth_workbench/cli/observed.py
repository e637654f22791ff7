"""`berth observe … --plot FILE --measures`: what an observer has come to in pictures, and what others would come to."""

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import click
import msgspec

from berth.agreement.report import AgreementReport
from berth.cli.observe import AFTER_REPORT, COMPLETE_REPORT
from berth.cli.output import is_structured
from berth.config.types import SchedulerConfiguration
from berth.framework.setup import Setup
from berth_workbench.cli.plot_flag import checked_plot

SEEDS = range(3)
"""As many as `berth compare` runs with."""


def extend(observe: click.Command) -> click.Command:
    """`berth observe` with `--plot` and `--measures`."""
    looks_on = observe.callback
    assert looks_on is not None

    def with_more(*, plot: str, measures: bool, **given: Any) -> None:
        context = click.get_current_context()
        if plot:
            if not (given["events"] or given["reports"]):
                raise click.UsageError(
                    "--plot goes with --report or --events: beside a cluster there is no end to draw"
                )
            context.meta[AFTER_REPORT] = lambda report: draw(plot, report)
        if measures:
            events: Sequence[str] = given["events"]
            if not (events and given["candidates"]) or "-" in events:
                raise click.UsageError(
                    "--measures goes with --candidate and with --events of files, which are read twice"
                )
            if is_structured(given["output"]) and not given["reports"]:
                raise click.UsageError(
                    "--measures is of the report: -o json without --report tells each decision; add --report"
                )
            context.meta[COMPLETE_REPORT] = partial(_measured, events)
        looks_on(**given)

    extended = copy.copy(observe)
    extended.callback = with_more
    drawing = click.Option(
        ["--plot"],
        default="",
        metavar="FILE.svg|png|html",
        callback=checked_plot,
        help="With --report or --events: draw what came of it into this file.",
    )
    measuring = click.Option(
        ["--measures"],
        is_flag=True,
        help="With --events and --candidate: report the cluster's measures if each had decided about all pods.",
    )
    extended.params = [*observe.params, drawing, measuring]
    return extended


def draw(path: str, report: AgreementReport) -> None:
    """Draw a report."""
    from berth_workbench.showing.agreement import sections_of
    from berth_workbench.showing.drawing import draw_sections

    draw_sections(path, sections_of(report), "Beside another scheduler")


def _measured(
    events: Sequence[str], report: AgreementReport, theirs: Setup, candidates: Mapping[str, SchedulerConfiguration]
) -> AgreementReport:
    """Add the measures of both for each candidate, as `berth compare` has them, each with placements of its own."""
    from berth_workbench.comparison.run import run
    from berth_workbench.comparison.two_configurations import compared
    from berth_workbench.traces.recorded import recorded_workload

    workload = recorded_workload(events)

    def lived(setup: Setup) -> list[dict[str, float]]:
        return [run(workload, setup, seed).figures for seed in SEEDS]

    first = lived(theirs)
    found = {name: compared(first, lived(Setup(config, theirs.registry))) for name, config in candidates.items()}
    return msgspec.structs.replace(report, measures=found)
