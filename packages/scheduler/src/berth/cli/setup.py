"""What the commands that schedule have in common: which plugins there are, and which configuration applies.

`@plugin_option`, `@config_option` and `@gates_option` are their flags, in the same words everywhere. `read_setup` turns
what was typed into a `Setup`: the configuration and the registry. What cannot be used is raised as
`BadConfigurationError`, which click prints, with exit code 2; warnings go to standard error.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from berth.framework.setup import Setup
from berth.runtime.observing.logs import legible

if TYPE_CHECKING:
    from berth.config.feature_gates import FeatureGates
    from berth.config.load import NamedPlugins
    from berth.config.types import SchedulerConfiguration
    from berth.framework.registry import Registry

Command = TypeVar("Command", bound=Callable[..., Any])

EXIT_BAD_CONFIGURATION = 2


class BadConfigurationError(click.ClickException):
    """A configuration or a plugin that cannot be used."""

    exit_code = EXIT_BAD_CONFIGURATION


def plugin_option(command: Command) -> Command:
    """`--plugin`, received as `plugins: tuple[str, ...]`."""
    decorate = click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="MODULE:CLASS|FILE.py:CLASS",
        help="Load a plugin that is not installed; may be repeated. Without a configuration it is enabled as well.",
    )
    return decorate(command)


def config_option(command: Command) -> Command:
    """`--config`, received as `config_file: str`."""
    decorate = click.option(
        "--config", "config_file", default="", metavar="FILE", help="A scheduler configuration: profiles and plugins."
    )
    return decorate(command)


def gates_option(command: Command) -> Command:
    """`--feature-gates`, received as `feature_gates: str`."""
    decorate = click.option(
        "--feature-gates", default="", metavar="NAME=true,...", help="Features of the scheduler to switch on or off."
    )
    return decorate(command)


def read_setup(config_file: str = "", plugins: Sequence[str] = (), feature_gates: str = "") -> Setup:
    """Return the configuration of a file, or else the default one, and the plugins. Raises `BadConfigurationError`."""
    from berth.config.errors import ConfigError
    from berth.config.feature_gates import gate_warnings

    registry, named = read_registry(plugins)
    try:
        config = scheduler_configuration(config_file, named, feature_gates)
    except ConfigError as error:
        raise BadConfigurationError(str(error)) from None
    for warning in gate_warnings(config.feature_gates):
        warn(warning)
    tell_odd_plugins(config, registry, named)
    return Setup(config, registry)


def scheduler_configuration(config_file: str, named: "NamedPlugins", feature_gates: str) -> "SchedulerConfiguration":
    """Return the configuration of a file, or else the default one with the plugins named. Raises `ConfigError`."""
    from berth.config.feature_gates import parse_feature_gates
    from berth.config.load import load_config_file

    gates = parse_feature_gates(feature_gates)
    return load_config_file(config_file, gates=gates) if config_file else config_enabling(named, gates)


def read_registry(plugins: Sequence[str] = ()) -> "tuple[Registry, NamedPlugins]":
    """Return all plugins there are, and those that `--plugin` names. Raises `BadConfigurationError`."""
    from berth.config.errors import ConfigError

    try:
        return registry_of(plugins)
    except ConfigError as error:
        raise BadConfigurationError(str(error)) from None


def registry_of(plugins: Sequence[str]) -> "tuple[Registry, NamedPlugins]":
    """Return all plugins there are, and those that are named here. Raises `RegistryError`."""
    from berth.framework.loader import plugins_named
    from berth.plugins.registry import full_registry

    named = plugins_named(plugins)
    return full_registry(named), named.implements()


def tell_odd_plugins(config: "SchedulerConfiguration", registry: "Registry", named: Iterable[str]) -> None:
    """Warn of unusable plugins, and of those that `--plugin` has named, where no profile enables them."""
    enabled = names_enabled(config)
    for name, unusable in registry.unusable.items():
        if name not in enabled:  # else it is an error that says as much
            warn(f"{unusable.told(name)[0]}; no profile enables it")
    for name in named:
        if name not in enabled:
            warn(f"--plugin: no profile of the configuration enables {name}; add it to its plugins.multiPoint.enabled")


def names_enabled(config: "SchedulerConfiguration") -> frozenset[str]:
    """Return the names of the plugins that any profile enables at any point."""
    from berth.config.profiles import names_enabled as names_enabled_by

    return names_enabled_by(config)


def config_enabling(named: "NamedPlugins", gates: "FeatureGates | None" = None) -> "SchedulerConfiguration":
    """Return the default configuration, with these plugins beside the default ones."""
    from berth.config.load import DEFAULT_SOURCE, document_enabling, load_config

    return load_config(document_enabling(named), DEFAULT_SOURCE, gates)


def warn(message: str) -> None:
    """Print a warning on standard error."""
    click.echo(legible(f"warning: {message}"), err=True)
