"""`berth observe … --plot FILE --measures`: what an observer has come to in pictures, and what others would come to."""

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import click
import msgspec

from berth.agreement.report import AgreementReport
from berth.cli.observe import AFTER_REPORT, COMPLETE_REPORT
from berth.cli.output import console_for, is_structured
from berth.config.types import SchedulerConfiguration
from berth.framework.setup import Setup
from berth_workbench.cli.plot_flag import checked_plot
from berth_workbench.showing.sections import Section


def extend(observe: click.Command) -> click.Command:
    """`berth observe` with `--plot` and `--measures`."""
    looks_on = observe.callback
    assert looks_on is not None

    def with_more(*, plot: str, measures: bool, **given: Any) -> None:
        context, events = click.get_current_context(), given["events"]
        if plot and not (events or given["reports"]):
            raise click.UsageError("--plot goes with --report or --events: beside a cluster there is no end to draw")
        if measures:
            if not (given["candidates"] and events) or "-" in events:
                raise click.UsageError(
                    "--measures goes with --candidate and with --events of files, which are read twice"
                )
            if is_structured(given["output"]) and not given["reports"]:
                raise click.UsageError("--measures are of the report: add --report")
            context.meta[COMPLETE_REPORT] = partial(_measured, events)

        def tell_more(report: AgreementReport) -> None:
            sections = list(_sections(report))
            if sections and not is_structured(given["output"]):
                from berth_workbench.showing.terminal import print_sections

                print_sections(sections, console_for(given["output"]), None)
            if plot:
                draw(plot, report, sections)

        context.meta[AFTER_REPORT] = tell_more
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
        help="With --events and --candidate: what the cluster's measures would be if each had decided about all pods.",
    )
    extended.params = [*observe.params, drawing, measuring]
    return extended


def draw(path: str, report: AgreementReport, more: Sequence[Section] = ()) -> None:
    """Draw a report."""
    from berth_workbench.showing.agreement import sections_of
    from berth_workbench.showing.drawing import draw_sections

    draw_sections(path, [*sections_of(report), *more], "Beside another scheduler")


def _measured(
    events: Sequence[str], report: AgreementReport, theirs: Setup, candidates: Mapping[str, SchedulerConfiguration]
) -> AgreementReport:
    """Add the measures of both for each candidate, as `berth compare` has them, each with placements of its own."""
    from berth_workbench.comparison.comparison import compared
    from berth_workbench.comparison.run import run
    from berth_workbench.questions.compare import CompareRequest
    from berth_workbench.traces.recorded import recorded_workload

    workload = recorded_workload(events)
    seeds = range(msgspec.structs.fields(CompareRequest)[3].default)

    def lived(setup: Setup) -> list[dict[str, float]]:
        return [run(workload, setup, seed).figures for seed in seeds]

    first = lived(theirs)
    found = {name: compared(first, lived(Setup(config, theirs.registry))) for name, config in candidates.items()}
    return msgspec.structs.replace(report, measures={name: msgspec.to_builtins(each) for name, each in found.items()})


def _sections(report: AgreementReport) -> Sequence[Section]:
    from berth_workbench.comparison.comparison import FigureCompared
    from berth_workbench.questions.compare import measured

    return [
        section
        for name, figures in report.measures.items()
        for section in measured(
            [each for each in msgspec.convert(figures, tuple[FigureCompared, ...]) if each.difference],
            f"If it had decided all of them: A is the observed configuration, B {name}",
        )
    ]
