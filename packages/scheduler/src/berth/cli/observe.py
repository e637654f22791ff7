"""`berth observe`: a bystander that judges what another scheduler has done, and writes nothing.

Beside a cluster it is `berth run` with cores that look on: the same flags, endpoints, decision log and recording, with
an access that needs get, list and watch alone. With `--events` it reads a stream of watch events, and needs no cluster.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click
import msgspec

from berth.cli.decision_log_flags import DecisionLogOptions, decision_log_options
from berth.cli.flags import SchedulerFlags, load_configuration, scheduler_flags
from berth.cli.option_rules import only_with
from berth.cli.output import Output, is_structured, output_option, print_structured
from berth.cli.recording_flags import RecordingOptions, recording_options
from berth.cli.run import Started, serve
from berth.cli.scheduler_in_use import SchedulerAddress, SchedulerInUse
from berth.cli.setup import BadConfigurationError, plugin_option, read_registry
from berth.decisions.stories import rfc3339
from berth.framework.setup import Setup
from berth.runtime.observing.logs import legible

if TYPE_CHECKING:
    from berth.agreement.observer import Observing, ObservingCore
    from berth.agreement.report import AgreementReport
    from berth.agreement.results import Judgement
    from berth.agreement.stream import EventStream, StreamError
    from berth.config.types import SchedulerConfiguration

LOOKAHEAD_S = 0.1
"""How long a binding is held back beside a cluster: many times what one takes to reach the API server."""
COMPLETE_REPORT = "berth.cli.observe.complete"
"""Under this name the context of the command may have a function that is given the report of a stream, whose setup was
observed, and the candidates; it returns the report with more."""
AFTER_REPORT = "berth.cli.observe"
"""Under this name the context of the command may have a function to be called with the report when it was printed."""
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
@click.option(
    "--candidate",
    "candidates",
    multiple=True,
    metavar="FILE",
    help="A configuration that decides about the same pods beside; may be repeated. --plugin loads its plugins, too.",
)
@click.option(
    "--cases",
    type=click.File("wb"),
    default=None,
    metavar="FILE",
    help="Write the first hundred pods that went otherwise into this file, for berth decide.",
)
@click.option("--report", "reports", is_flag=True, help="Tell what the observer in use has come to, and end.")
@click.option("--server", default="", metavar="URL", help="With --report: where the observer serves, if elsewhere.")
@click.option("--certificate-authority", default="", metavar="FILE", help="With an https:// --server: its certificate.")
@click.option("--context", default="", metavar="NAME", help="The kubeconfig context to use.")
@decision_log_options
@recording_options
@plugin_option
@output_option
@scheduler_flags
@only_with(server="reports", certificate_authority="server", output=("events", "reports"))
def command(
    flags: SchedulerFlags,
    events: tuple[str, ...],
    scheduler_names: tuple[str, ...],
    candidates: tuple[str, ...],
    cases: BinaryIO | None,
    reports: bool,
    server: str,
    certificate_authority: str,
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
    from berth.agreement.report import AgreementReport, report_of
    from berth.agreement.results import summary_of
    from berth.agreement.stream import EventStream

    if reports and not events:
        address = SchedulerAddress(server, certificate_authority, flags.get("kubeconfig", ""), context)
        found = SchedulerInUse(address).ask("/debug/agreement", "what it has observed")
        tell(msgspec.convert(found, AgreementReport, str_keys=True), output)
        return
    configured = {Path(file).stem: _candidate(file) for file in candidates}
    observing = Observing(scheduler_names=frozenset(scheduler_names), candidates=configured, cases=cases)
    if not events:
        ahead = Lookahead(events=None, seconds=LOOKAHEAD_S)
        observing = observing._replace(lookahead=ahead, moment_s=MOMENT_S)
        serve(
            Started(flags=flags, context=context, plugins=plugins, decision_log=decision_log, recording=recording),
            observing,
        )
        return
    judged: list[Judgement] = []
    keeps = is_structured(output) and not reports
    observing = observing._replace(keeps_totals=keeps, on_judged=judged.append if keeps else observing.on_judged)
    core, setup = observed(EventStream(events, _tell_cut), flags, plugins, observing)
    if keeps:
        print_structured(summary_of(core.agreement, judged), output)
        return
    complete = click.get_current_context().meta.get(COMPLETE_REPORT, lambda report, *_: report)
    tell(complete(report_of(core, rfc3339), setup, configured), output)


def tell(report: "AgreementReport", output: Output) -> None:
    """Print what an observer has come to."""
    from berth.agreement.report import told, verdict

    if is_structured(output):
        print_structured(report, output)
    else:
        for line in (verdict(report), *told(report)):
            click.echo(legible(line))
    click.get_current_context().meta.get(AFTER_REPORT, lambda _report: None)(report)


def _tell_cut(error: "StreamError") -> None:
    click.echo(f"Warning: {error}; what could be read is judged", err=True)


def _candidate(file: str) -> "SchedulerConfiguration":
    from berth.config.errors import ConfigError
    from berth.config.load import load_config_file

    try:
        return load_config_file(file)
    except ConfigError as error:
        raise BadConfigurationError(str(error)) from None


def observed(
    stream: "EventStream", flags: SchedulerFlags, plugins: Sequence[str], observing: "Observing"
) -> "tuple[ObservingCore, Setup]":
    """Observe a stream with the configuration that is given, or else its own, or else the default one; return it."""
    from berth.agreement.settings import observe_recorded
    from berth.config.errors import ConfigError
    from berth.config.load import load_config

    registry, named = read_registry(plugins)
    header = stream.header
    try:
        if header is not None and header.configuration and not flags.get("config"):
            config = load_config(header.configuration, "the configuration in the stream")
        else:
            config = load_configuration(flags, named)
        known = () if header is None else header.objects
        return observe_recorded(config, registry, known, stream, observing), Setup(config, registry)
    except ConfigError as error:
        where = error.source or flags.get("config", "") or "the configuration"
        raise BadConfigurationError(str(error.located(where))) from None
