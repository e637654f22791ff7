"""`berth observe … --plot FILE`: what an observer has come to in pictures."""

import copy
from typing import Any

import click

from berth.agreement.report import AgreementReport
from berth.cli.observe import AFTER_REPORT
from berth_workbench.cli.plot_flag import checked_plot


def extend(observe: click.Command) -> click.Command:
    """`berth observe` with `--plot`."""
    looks_on = observe.callback
    assert looks_on is not None

    def with_pictures(*, plot: str, **given: Any) -> None:
        context = click.get_current_context()
        if plot:
            if not (given["events"] or given["reports"]):
                raise click.UsageError(
                    "--plot goes with --report or --events: beside a cluster there is no end to draw"
                )
            context.meta[AFTER_REPORT] = lambda report: draw(plot, report)
        looks_on(**given)

    extended = copy.copy(observe)
    extended.callback = with_pictures
    option = click.Option(
        ["--plot"],
        default="",
        metavar="FILE.svg|png|html",
        callback=checked_plot,
        help="With --report or --events: draw what came of it into this file.",
    )
    extended.params = [*observe.params, option]
    return extended


def draw(path: str, report: AgreementReport) -> None:
    """Draw a report."""
    from berth_workbench.showing.agreement import sections_of
    from berth_workbench.showing.drawing import draw_sections

    draw_sections(path, sections_of(report), "Beside another scheduler")
