"""`berth simulate`: a workload over time, lived through with a scheduler in virtual time."""

import csv
from pathlib import Path
from typing import Any

import click

from berth.cli.output import Output, output_option
from berth.cli.setup import config_option, gates_option, plugin_option, read_setup
from berth_workbench.cli.asking import answered, asks, request_values, tell
from berth_workbench.cli.load_input import events_option
from berth_workbench.cli.plot_flag import plot_option
from berth_workbench.questions.simulate import QUESTION, SimulateRequest
from berth_workbench.traces.recorded import recorded_workload
from berth_workbench.traces.result import TimedBinding
from berth_workbench.traces.trace import read_trace


@asks(
    QUESTION,
    click.argument("trace", default="", metavar="[TRACE]"),
    events_option,
    config_option,
    plugin_option,
    gates_option,
    click.option(
        "--timeline", default="", metavar="FILE", help="Write what every node carried over time, for `berth ui`."
    ),
    click.option("--placements", default="", metavar="FILE", help="Write who was bound where and when, as CSV."),
    plot_option,
    output_option,
    short_help="Live through a workload in virtual time: waits, utilisation, fairness.",
)
def command(
    trace: str,
    events: tuple[str, ...],
    config_file: str,
    plugins: tuple[str, ...],
    feature_gates: str,
    timeline: str,
    placements: str,
    plot: str,
    output: Output,
    **typed: Any,
) -> None:
    """Live through the workload of a file."""
    if bool(trace) == bool(events):
        raise click.UsageError("which workload? Give either TRACE or --events")
    setup = read_setup(config_file, plugins, feature_gates)
    workload = recorded_workload(events) if events else read_trace(trace)
    request = SimulateRequest(workload, setup, **request_values(QUESTION, typed))
    lived = answered(QUESTION, None, request)
    if timeline:
        try:
            lived.time_line.write(timeline, lived.result)
        except OSError as error:
            raise click.ClickException(f"--timeline {timeline}: cannot be written: {error.strerror}") from None
    if placements:
        try:
            with Path(placements).open("w", newline="") as file:
                csv.writer(file).writerows([TimedBinding._fields, *lived.placements])
        except OSError as error:
            raise click.ClickException(f"--placements {placements}: cannot be written: {error.strerror}") from None
    tell(QUESTION, request, lived, output, plot)
