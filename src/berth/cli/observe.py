"""`berth observe`: a bystander that judges what another scheduler has done, and writes nothing.

Beside a cluster it is `berth run` with cores that look on: the same flags, endpoints, decision log and recording, with
an access that needs get, list and watch alone. With `--events` it reads a stream of watch events, and needs no cluster.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from berth.cli.decision_log_flags import DecisionLogOptions, decision_log_options
from berth.cli.flags import SchedulerFlags, load_configuration, scheduler_flags
from berth.cli.output import Output, is_structured, output_option, print_structured
from berth.cli.recording_flags import RecordingOptions, recording_options
from berth.cli.run import Started, serve
from berth.cli.setup import BadConfigurationError, plugin_option, read_registry

if TYPE_CHECKING:
    from berth.agreement.observer import Observing, ObservingCore
    from berth.agreement.results import Judgement
    from berth.agreement.stream import EventStream
    from berth.config.types import SchedulerConfiguration

LOOKAHEAD_S = 0.1
"""How long a binding is held back beside a cluster: many times what one takes to reach the API server."""
MOMENT_S = 0.02
"""How long a binding is on its way there at most."""


@click.command("observe", short_help="Another scheduler's decisions, judged beside it.")
@click.option(
    "--events",
    multiple=True,
    metavar="FILE|-",
    help="Judge watch events as kubectl get --watch --output-watch-events -o json prints them, a file for each kind.",
)
@click.option(
    "--scheduler-name",
    "scheduler_names",
    multiple=True,
    metavar="NAME",
    help="Whose pods to judge; may be repeated. By default all that somebody binds.",
)
@click.option("--context", default="", metavar="NAME", help="The kubeconfig context to use.")
@decision_log_options
@recording_options
@plugin_option
@output_option
@scheduler_flags
def command(
    flags: SchedulerFlags,
    events: tuple[str, ...],
    scheduler_names: tuple[str, ...],
    context: str,
    plugins: tuple[str, ...],
    decision_log: DecisionLogOptions,
    recording: RecordingOptions,
    output: Output,
) -> None:
    """Look over another scheduler's shoulder: would its pods have gone where they went?

    Each pod that it binds is decided about here, in the states that it may have seen, and the two are compared. Every
    node is scored, so that what the other one misses by looking at a part of them is told. --config is the other
    scheduler's configuration. Nothing is written: get, list and watch are all that is asked of the cluster.
    """
    from berth.agreement.observer import Lookahead, Observing

    names = frozenset(scheduler_names)
    if not events:
        ahead = Lookahead(events=None, seconds=LOOKAHEAD_S)
        observing = Observing(ahead, scheduler_names=names, moment_s=MOMENT_S)
        serve(Started(flags, context, 1, "", plugins, decision_log, recording), observing)
        return
    from berth.agreement.results import summary_of
    from berth.agreement.stream import EventStream

    judged: list[Judgement] = []
    observing = Observing(scheduler_names=names, keeps_totals=is_structured(output), on_judged=judged.append)
    core = observed(EventStream(events), flags, plugins, observing)
    if is_structured(output):
        print_structured(summary_of(core.agreement, judged), output)
        return


def observed(
    stream: "EventStream", flags: SchedulerFlags, plugins: Sequence[str], observing: "Observing"
) -> "ObservingCore":
    """Observe a stream with the configuration that is given, or else its own, or else the default one."""
    from berth.agreement.settings import observe_recorded

    registry, named = read_registry(plugins)
    config = _configuration(stream, flags, named)
    known = () if stream.header is None else stream.header.objects
    return observe_recorded(config, registry, known, stream, observing)


def _configuration(stream: "EventStream", flags: SchedulerFlags, named: Sequence[str]) -> "SchedulerConfiguration":
    from berth.config.errors import ConfigError
    from berth.config.load import load_config

    try:
        if not flags.get("config") and stream.header is not None and stream.header.configuration:
            return load_config(stream.header.configuration, "the configuration in the stream")
        return load_configuration(flags, named)
    except ConfigError as error:
        raise BadConfigurationError(str(error)) from None
