"""`berth observe`: a bystander that judges what another scheduler has done, and writes nothing.

With `--events` it reads a stream of watch events, and needs no cluster and no rights.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from berth.cli.output import Output, is_structured, output_option, print_structured
from berth.cli.setup import config_option, gates_option, plugin_option, read_registry

if TYPE_CHECKING:
    from berth.agreement.observer import Observing, ObservingCore
    from berth.agreement.results import Judgement
    from berth.agreement.stream import EventStream
    from berth.config.types import SchedulerConfiguration


@click.command("observe", short_help="Another scheduler's decisions, judged beside it.")
@click.option(
    "--events",
    multiple=True,
    metavar="FILE|-",
    help="Watch events as kubectl get --watch --output-watch-events -o json prints them; may be repeated, one a kind.",
)
@click.option(
    "--scheduler-name",
    "scheduler_names",
    multiple=True,
    metavar="NAME",
    help="Whose pods to look at; may be repeated. All that somebody binds, by default.",
)
@plugin_option
@config_option
@gates_option
@output_option
def command(
    events: tuple[str, ...],
    scheduler_names: tuple[str, ...],
    plugins: tuple[str, ...],
    config_file: str,
    feature_gates: str,
    output: Output,
) -> None:
    """Look over another scheduler's shoulder.

    Each pod that it binds is decided about here, in the state that it may have seen, and the two are compared.
    """
    from berth.agreement.observer import Observing
    from berth.agreement.results import summary_of
    from berth.agreement.stream import EventStream

    judged: list[Judgement] = []
    observing = Observing(
        scheduler_names=frozenset(scheduler_names), keeps_totals=is_structured(output), on_judged=judged.append
    )
    core = observed(EventStream(events), config_file, plugins, feature_gates, observing)
    if is_structured(output):
        print_structured(summary_of(core.agreement, judged), output)


def observed(
    stream: "EventStream", config_file: str, plugins: Sequence[str], feature_gates: str, observing: "Observing"
) -> "ObservingCore":
    """Observe a stream with the configuration of a file, or else its own, or else the default one."""
    from berth.agreement.settings import observe_recorded

    registry, named = read_registry(plugins)
    config = _configuration(stream, config_file, named, feature_gates)
    known = () if stream.header is None else stream.header.objects
    return observe_recorded(config, registry, known, stream, observing)


def _configuration(
    stream: "EventStream", config_file: str, named: Sequence[str], feature_gates: str
) -> "SchedulerConfiguration":
    from berth.cli.setup import BadConfigurationError, scheduler_configuration
    from berth.config.errors import ConfigError
    from berth.config.load import load_config

    try:
        if not config_file and stream.header is not None and stream.header.configuration:
            return load_config(stream.header.configuration, "the configuration in the stream")
        return scheduler_configuration(config_file, named, feature_gates)
    except ConfigError as error:
        raise BadConfigurationError(str(error)) from None
