"""`berth tune`: the weights that serve an objective best on a cluster or a workload, and the trade-off between two."""

from pathlib import Path
from typing import Any

import click

from berth.cli.option_rules import never_with
from berth.cli.output import Output, is_structured, output_option
from berth.cli.setup import config_option, gates_option, plugin_option
from berth_workbench.cli.asked import read_asked, warn_of_extenders
from berth_workbench.cli.asking import answered, asks, request_values, tell
from berth_workbench.cli.cluster_input import cluster_options, manifests_option
from berth_workbench.cli.load_input import load_on, load_options, read_configuration, read_workload, refuse_beside_trace
from berth_workbench.cli.plot_flag import plot_option
from berth_workbench.comparison.loads import Load
from berth_workbench.questions.tune import QUESTION, TuneRequest, as_yaml


@asks(
    QUESTION,
    never_with("dask", "jobs", because="whose workers do the work"),
    cluster_options,
    manifests_option,
    load_options,
    config_option,
    click.option(
        "--plugins", "tuned", default="", metavar="NAME,...", help="Tune these only. [default: all that score]"
    ),
    click.option("--write", default="", metavar="FILE", help="Write the best configuration into this file."),
    plugin_option,
    gates_option,
    output_option,
    plot_option,
)
def command(
    cluster: tuple[str, ...],
    kubeconfig: str,
    context: str,
    manifests: tuple[str, ...],
    trace: str,
    events: tuple[str, ...],
    replace_all: bool,
    config_file: str,
    tuned: str,
    write: str,
    plugins: tuple[str, ...],
    feature_gates: str,
    output: Output,
    plot: str,
    **typed: Any,
) -> None:
    """Search, and write or print the best configuration."""
    refuse_beside_trace(trace or events, cluster, kubeconfig, context, manifests, replaces_all=replace_all)
    load: Load
    assumed = ""
    if trace or events:
        base, load = read_configuration(config_file or "default", plugins, feature_gates), read_workload(trace, events)
    else:
        snapshot, base, _, assumed = read_asked(cluster, kubeconfig, context, config_file, plugins, feature_gates)
        load = load_on(snapshot, manifests, replaces_all=replace_all)
    warn_of_extenders([base])
    named = tuple(name for name in tuned.split(",") if name)
    request = TuneRequest(base=base, load=load, tuned=named, **request_values(QUESTION, typed))
    found = answered(QUESTION, None, request)
    if write:
        try:
            Path(write).write_text(as_yaml(found.document))
        except OSError as error:
            raise click.ClickException(f"--write {write}: {error.strerror or error}") from None
    tell(QUESTION, request, found, output, plot, assumed)
    if not write and not is_structured(output):
        click.echo(f"---\n{as_yaml(found.document)}", nl=False)
