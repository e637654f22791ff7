"""The cluster that a command is asked about, and the scheduler whose decisions count there.

One rule for all commands: what `--config` names; else, of a live cluster, what the scheduler at work there says of
itself at `/configz`, and of a snapshot, the configuration that it was taken with. Only where neither is to be had it is
the default. Which of these it is, is told in the first line of the answer: one about another scheduler's
decisions would be a wrong answer that looks right. A plugin that is not installed here is an error that names it.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from berth.cli.setup import BadConfigurationError, read_registry, read_setup, tell_odd_plugins, warn
from berth.framework.setup import Setup
from berth.runtime.observing.logs import legible
from berth_workbench.cli.cluster_input import read_cluster_given

if TYPE_CHECKING:
    from berth.api.custom import CustomResource
    from berth_workbench.comparison.configurations import ConfigurationSource, WhoDecides
    from berth_workbench.snapshot.snapshot import Snapshot


class AskedCluster(NamedTuple):
    """A cluster, and the scheduler that is to decide about it."""

    snapshot: "Snapshot"
    configuration: "ConfigurationSource"
    setup: Setup
    assumed: str
    """Whose configuration it is, in words; empty where `--config` says so."""


class _InUse(NamedTuple):
    """A configuration, and in words whose it is."""

    source: "ConfigurationSource"
    words: str


def read_asked(
    cluster: Sequence[str],
    kubeconfig: str = "",
    context: str = "",
    config_file: str = "",
    plugins: Sequence[str] = (),
    feature_gates: str = "",
    *,
    custom: "Sequence[CustomResource]" = (),
) -> AskedCluster:
    """Return what the options of a command name: `--cluster` or `--kubeconfig`, `--config`, `--plugin` and gates.

    Of a live cluster, `custom` resources are read as well. Raises `click.ClickException`, `UserError`.
    """
    snapshot = read_cluster_given(cluster, kubeconfig, context) if cluster else None
    decides = who_decides(snapshot, kubeconfig, context, config_file, plugins, feature_gates)
    if snapshot is None:
        snapshot = read_cluster_given((), kubeconfig, context, setup=decides.setup, custom=custom)
    return AskedCluster(snapshot, *decides)


def who_decides(
    snapshot: "Snapshot | None",
    kubeconfig: str = "",
    context: str = "",
    config_file: str = "",
    plugins: Sequence[str] = (),
    feature_gates: str = "",
) -> "WhoDecides":
    """Return who decides in a snapshot, or without one in the cluster of a kubeconfig.

    Raises `click.ClickException`, `UserError`.
    """
    from berth_workbench.comparison.configurations import WhoDecides

    if config_file:
        from berth_workbench.cli.load_input import read_configuration

        setup = read_setup(config_file, plugins, feature_gates)
        return WhoDecides(read_configuration(config_file, plugins, feature_gates), setup, "")
    found = _recorded_in(snapshot) if snapshot is not None else _at_work(kubeconfig, context)
    found, setup = _with(found, plugins, feature_gates)
    return WhoDecides(found.source, setup, found.words)


def tell_assumed(words: str, *, err: bool = False) -> None:
    """Print the first line of an answer: which configuration decides in it."""
    if words:
        click.echo(legible(f"Assumed: {words}."), err=err)


def warn_of_extenders(sources: "Iterable[ConfigurationSource]") -> None:
    """Say that extenders are left out, where a result has no place for notes."""
    from berth_workbench.simulation.cluster import EXTENDERS_LEFT_OUT

    if any(source.asks_extenders for source in sources):
        warn(EXTENDERS_LEFT_OUT)


def configuration_of(snapshot: "Snapshot", plugins: Sequence[str] = ()) -> "ConfigurationSource":
    """Return the configuration that a snapshot was taken with, the default one if it does not say.

    Raises `BadConfigurationError`.
    """
    return _with(_recorded_in(snapshot), plugins, "")[0].source


def configuration_at_work(kubeconfig: str, context: str) -> "ConfigurationSource | None":
    """Return the configuration of the scheduler at work in a cluster; None if no scheduler reports it."""
    found = _at_work(kubeconfig, context).source
    return found if found.document else None


def _recorded_in(snapshot: "Snapshot") -> _InUse:
    from berth_workbench.comparison.configurations import DEFAULT, ConfigurationSource

    header = snapshot.header
    if header is None or header.configuration is None:
        return _InUse(ConfigurationSource(DEFAULT), "the default configuration; --config names another")
    source = ConfigurationSource.of_document("the snapshot's", header.configuration, feature_gates=header.feature_gates)
    return _InUse(source, "the configuration that the snapshot was taken with")


def _at_work(kubeconfig: str, context: str) -> _InUse:
    """Ask the scheduler of the cluster that a kubeconfig leads to."""
    from berth.cli.scheduler_in_use import SchedulerAddress, SchedulerInUse
    from berth_workbench.comparison.configurations import DEFAULT, ConfigurationSource

    scheduler = SchedulerInUse(SchedulerAddress(kubeconfig=kubeconfig, context=context))
    try:
        told = scheduler.ask("/configz", "its configuration")
    except click.ClickException as error:
        words = f"the default configuration, since the cluster's scheduler does not tell its own ({error.message})"
        return _InUse(ConfigurationSource(DEFAULT), words)
    try:
        return _InUse(ConfigurationSource.of_configz(told), "the configuration of the cluster's scheduler")
    except ValueError as error:
        raise BadConfigurationError(str(error)) from None


def _with(found: _InUse, plugins: Sequence[str], feature_gates: str) -> tuple[_InUse, Setup]:
    """Add plugins, enabling them if necessary, and feature gates; of several for one gate the last counts."""
    import msgspec

    from berth.cli.setup import names_enabled
    from berth.config.errors import ConfigError
    from berth_workbench.comparison.configurations import enabling

    source = found.source
    registry, named = read_registry(plugins)
    gates = ",".join(filter(None, (source.feature_gates, feature_gates)))
    document = source.document
    if document:
        document = msgspec.json.encode(enabling(msgspec.json.decode(document), named)).decode()
    source = msgspec.structs.replace(source, document=document, plugins=tuple(plugins), feature_gates=gates)
    words = found.words + (f", with {', '.join(named)}" if named else "")
    try:
        setup = source.load()
    except ConfigError as error:
        raise BadConfigurationError(str(error)) from None
    _refuse_missing(names_enabled(setup.config) - set(registry.names), found.words)
    tell_odd_plugins(setup.config, registry, named)
    return _InUse(source, words), setup


def _refuse_missing(names: Iterable[str], words: str) -> None:
    """End with the plugins that a configuration enables and that are not installed here."""
    if missing := sorted(names):
        one = missing[0]
        raise BadConfigurationError(
            f"{words} enables {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed here: "
            f"install the package that has it, or give its class with --plugin FILE.py:{one}"
        )
