"""What the commands that compare configurations share: where these come from, and the loads they are tried on.

What was typed becomes values; what cannot be used ends the command with one line.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from berth.cli.option_rules import never_with
from berth.cli.setup import BadConfigurationError
from berth_workbench.cli.cluster_input import read_manifests

if TYPE_CHECKING:
    from berth_workbench.comparison.configurations import ConfigurationSource
    from berth_workbench.comparison.loads import ClusterLoad
    from berth_workbench.snapshot.snapshot import Snapshot
    from berth_workbench.traces.trace import TimedWorkload

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT = "default"
"""What stands for the configuration that applies without a file."""


def events_option(command: Command) -> Command:
    """`--events`, received as `events: tuple[str, ...]`."""
    decorate = click.option(
        "--events",
        multiple=True,
        metavar="FILE|-",
        help="Watch events as `berth observe` reads them, as a workload over time; a file for each kind.",
    )
    return decorate(command)


def load_options(command: Command) -> Command:
    """`--trace`, `--events` and `--replace-all`, received as `trace: str`, `events: tuple` and `replace_all: bool`."""
    for decorate in (
        never_with("trace", "events", because="which is a workload, too"),
        click.option("--replace-all", is_flag=True, help="Place all running pods anew that a controller owns."),
        click.option(
            "--trace", default="", metavar="FILE", help="A workload over time, of `berth trace`, instead of a cluster."
        ),
        events_option,
    ):
        command = decorate(command)
    return command


def refuse_beside_trace(
    own: object, cluster: Sequence[str], kubeconfig: str, context: str, manifests: Sequence[str], *, replaces_all: bool
) -> None:
    """Raise `click.UsageError` for options that a workload over time already determines."""
    if own and (cluster or kubeconfig or context or manifests or replaces_all):
        raise click.UsageError(
            "--trace has nodes and pods of its own, and so has --events: leave out --cluster, -f and --replace-all"
        )


def read_configuration(path: str, plugins: Sequence[str], feature_gates: str) -> "ConfigurationSource":
    """Return the configuration of a file, or the default one for `default`. Raises `BadConfigurationError`."""
    from berth.config.errors import ConfigError
    from berth_workbench.comparison.configurations import ConfigurationSource

    try:
        if path == DEFAULT and not Path(path).exists():
            found = ConfigurationSource(DEFAULT, plugins=tuple(plugins), feature_gates=feature_gates)
            found.load()
            return found
        return ConfigurationSource.of_file(path, plugins, feature_gates)
    except ConfigError as error:
        raise BadConfigurationError(str(error)) from None


def read_workload(path: str, events: Sequence[str] = ()) -> "TimedWorkload":
    """Return the workload over time of a trace, or else of watch events. Raises `click.ClickException`, `UserError`."""
    from berth_workbench.traces.recorded import recorded_workload
    from berth_workbench.traces.trace import TraceError, read_trace

    if events:
        return recorded_workload(events)
    try:
        return read_trace(path)
    except TraceError as error:
        raise click.ClickException(f"--trace {error}") from None


def load_on(snapshot: "Snapshot", manifests: Sequence[str], *, replaces_all: bool) -> "ClusterLoad":
    """Return a cluster with the pods to place. Raises `click.ClickException`, `UserError`."""
    from berth_workbench.comparison.loads import ClusterLoad

    load = ClusterLoad.of(snapshot, read_manifests(manifests), replaces_all=replaces_all)
    if not load.pods and load.refused:
        raise click.ClickException(f"there are no pods to place: all of -f are {next(iter(load.refused))}")
    if not load.pods:
        raise click.ClickException(
            "there are no pods to place: none is pending, and -f gives none; --replace-all places the running ones anew"
        )
    return load
