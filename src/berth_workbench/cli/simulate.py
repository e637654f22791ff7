"""`berth simulate`: a workload over time, lived through with a scheduler in virtual time."""

from pathlib import Path

import click

from berth.cli.numbers import FiniteFloatRange
from berth.cli.output import Output, output_option
from berth.cli.setup import config_option, gates_option, plugin_option, read_setup
from berth_workbench.cli.asking import answered, tell
from berth_workbench.cli.plot_flag import plot_option


@click.command("simulate", short_help="Live through a workload in virtual time: waits, utilisation, fairness.")
@click.argument("trace", type=click.Path(path_type=Path))
@config_option
@plugin_option
@gates_option
@click.option("--seed", default=0, show_default=True, help="How ties between equally good nodes are broken.")
@click.option(
    "--sample",
    "sample_s",
    default=300.0,
    show_default=True,
    type=FiniteFloatRange(1.0),
    metavar="SECONDS",
    help="How often the cluster is measured, in its own time.",
)
@click.option("--timeline", default="", metavar="FILE", help="Write what every node carried over time, for `berth ui`.")
@plot_option
@output_option
def command(
    trace: Path,
    config_file: str,
    plugins: tuple[str, ...],
    feature_gates: str,
    seed: int,
    sample_s: float,
    timeline: str,
    plot: str,
    output: Output,
) -> None:
    """Live through TRACE, a file of `berth trace`, with the scheduler that `berth run` is.

    Pods start, run, fail, are scaled and preempted in virtual time, thousands of times faster than they would in a
    cluster. The same trace, configuration and seed give the same result. Ctrl-C ends it early and tells what there is.
    """
    from berth_workbench.questions.simulate import QUESTION, SimulateRequest
    from berth_workbench.traces.trace import read_trace

    setup = read_setup(config_file, plugins, feature_gates)
    lived = answered(QUESTION, None, SimulateRequest(read_trace(trace), setup, seed, sample_s))
    if timeline:
        try:
            lived.time_line.write(timeline, lived.result)
        except OSError as error:
            raise click.ClickException(f"--timeline {timeline}: cannot be written: {error.strerror}") from None
    tell(QUESTION, lived, output, plot)
