"""`berth plugins`: which plugins there are, where each comes from, which profiles use it, and whether it works.

A table, or with `-o json` one object for each plugin. What is wrong with a plugin stands below the table in whole
sentences, as does what it could promise so that it costs less. With `-o json` what is wrong with no plugin that there
is goes to standard error. Exit code 2 where the profiles cannot be made.
"""

import random
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import click
import msgspec

from berth.cli.output import Output, console_for, is_structured, output_option_naming, print_structured
from berth.cli.setup import EXIT_BAD_CONFIGURATION, config_option, gates_option, plugin_option, read_setup
from berth.cli.table import Table, TableColumn
from berth.framework.setup import Setup

if TYPE_CHECKING:
    from rich.console import Console

    from berth.config.types import ExtensionPoint

IN_TREE_SHOWN = "in-tree"
NODES_IN_EXAMPLE = 5000
"""What a form costs that is asked node by node is told for a cluster of so many."""


class PluginListing(msgspec.Struct, frozen=True, rename="camel"):
    """One plugin as it is listed; `origin` is where it comes from, in words."""

    name: str
    points: tuple[str, ...]
    origin: str
    profiles: tuple[str, ...]
    """The scheduler names of the profiles that enable it."""
    healthy: bool
    problems: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    """What would make it cost less."""


@click.command("plugins", short_help="Which plugins there are, and whether they work.")
@config_option
@plugin_option
@gates_option
@output_option_naming("the plugins")
def command(config_file: str, plugins: tuple[str, ...], feature_gates: str, output: Output) -> None:
    """List the plugins there are: points, origin, the profiles that enable them, and whether they work.

    Plugins of other people come first. Those that a profile of --config (or the default one) enables are made, to see
    whether that works.
    """
    setup = read_setup(config_file, plugins, feature_gates)
    problems = problems_of(setup)
    listed = listing(setup, problems)
    if is_structured(output):
        print_structured(listed, output, (each.name for each in listed))
    else:
        _print(listed, console_for(output), single=len(setup.config.profiles) == 1)
    told = [problem for each in listed for problem in each.problems]
    for problem in problems:
        if not any(problem.endswith(each) for each in told):
            click.echo(f"\n{setup.config.source}: {problem}", err=is_structured(output))
    if problems:
        sys.exit(EXIT_BAD_CONFIGURATION)


def problems_of(setup: Setup) -> tuple[str, ...]:
    """Return what keeps the profiles from being made."""
    from berth.config.errors import ConfigError
    from berth.core.assembly import build_core
    from berth.core.options import CoreOptions

    try:
        build_core(setup.config, setup.registry, CoreOptions(rng=random.Random(0)))
    except ConfigError as error:
        return error.errors
    return ()


def listing(setup: Setup, problems: Iterable[str] = ()) -> list[PluginListing]:
    """Return what is known of every plugin, those of other people first."""
    from berth.config.types import ExtensionPoint
    from berth.core.generation import generation_of
    from berth.framework.registry import IN_TREE

    registry = generation_of(setup.config).registry(setup.registry)
    points = registry.implements()
    by_profile = _names_by_profile(setup, points)
    found = []
    for name in (*registry.names, *registry.unusable):
        told = [problem for problem in problems if f"plugin {name!r} of " in problem]
        if name in registry.unusable:
            told = registry.unusable[name].told(name)
        found.append(
            PluginListing(
                name,
                tuple(str(point) for point in ExtensionPoint if point in points.get(name, ())),
                IN_TREE_SHOWN if registry.origin(name) == IN_TREE else registry.origin(name),
                tuple(profile for profile, names in by_profile.items() if name in names),
                not told,
                tuple(told),
                () if told or registry.origin(name) == IN_TREE else advice(name, registry.factory(name)),
            )
        )
    return sorted(found, key=lambda each: each.origin == IN_TREE_SHOWN)


def advice(name: str, plugin: object) -> tuple[str, ...]:
    """Return what a plugin that is asked node by node for every pod could promise."""
    from berth.framework.loaded import asked_each_time

    each_time = asked_each_time(plugin) if isinstance(plugin, type) else {}
    if not each_time:
        return ()
    lacking = list(dict.fromkeys(lack for lacks in each_time.values() for lack in lacks))
    forms, calls = " and ".join(each_time), len(each_time) * NODES_IN_EXAMPLE
    said = " and ".join(filter(None, (", ".join(lacking[:-1]), lacking[-1])))
    verb = "are" if len(each_time) > 1 else "is"
    cost = f"{forms} {verb} asked about each node for each pod, with {NODES_IN_EXAMPLE:,} nodes {calls:,} calls a pod"
    return (f"{name}: {cost}; promise {said}, and only nodes that have changed are asked about",)


def _names_by_profile(setup: Setup, implements: "Mapping[str, frozenset[ExtensionPoint]]") -> dict[str, frozenset[str]]:
    """Return which plugins each profile enables, or where the profiles cannot be made, which ones they name."""
    from berth.config.errors import ConfigError
    from berth.config.profiles import names_enabled_in, resolve_profiles

    try:
        made = resolve_profiles(setup.config, implements)
    except ConfigError:
        return {profile.scheduler_name: names_enabled_in(profile) for profile in setup.config.profiles}
    return {
        profile: frozenset(name for plugins in points.values() for name, _ in plugins)
        for profile, points in made.items()
    }


def _print(listed: list[PluginListing], console: "Console", *, single: bool) -> None:
    """Print tables, then what is wrong with single plugins; of a `single` profile no row says the name."""
    theirs = [each for each in listed if each.origin != IN_TREE_SHOWN]
    if theirs:
        _table(theirs, with_origin=True, single=single).print(console)
        console.print()
    ours = [each for each in listed if each.origin == IN_TREE_SHOWN]
    _table(ours, with_origin=False, single=single).print(console)
    for problem in dict.fromkeys(problem for each in listed for problem in each.problems):
        click.echo(f"\n{problem}")
    for said in (said for each in theirs if each.profiles for said in each.advice):
        click.echo(f"\n{said}")


def _table(listed: list[PluginListing], *, with_origin: bool, single: bool) -> Table:
    name = "Plugin" if with_origin else "Berth's own plugins"
    origins = [TableColumn("From", "text")] if with_origin else []
    enabled = "Enabled" if single else TableColumn("Enabled in", "text")
    table = Table(name, "State", enabled, TableColumn("Points", "text"), *origins)
    for each in listed:
        origin = [each.origin.removeprefix("the distribution ").removeprefix("the ")] if with_origin else []
        state, style = ("ok", "") if each.healthy else ("broken", "bold red")
        where = "yes" if single and each.profiles else ", ".join(each.profiles) or "no"
        table.add(each.name, state, where, ", ".join(each.points), *origin, style=style)
    return table
