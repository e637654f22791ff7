"""Expands all profiles of a configuration, and checks what the expanded profiles must have in common.

The engine calls `resolve_profiles` with the registry's extension points when it starts.
"""

from collections.abc import Mapping

from berth.config.defaults import Resolved, resolve_plugins
from berth.config.errors import ConfigError, invalid
from berth.config.types import ExtensionPoint, KubeSchedulerProfile, SchedulerConfiguration


def resolve_profiles(
    config: SchedulerConfiguration, implements: Mapping[str, frozenset[ExtensionPoint]]
) -> dict[str, Resolved]:
    """The plugins of every profile by scheduler name; raises ConfigError with the faults of all profiles."""
    found: dict[str, Resolved] = {}
    errors: list[str] = []
    for index, profile in enumerate(config.profiles):
        try:
            path = f"profiles[{index}].plugins"
            found[profile.scheduler_name] = resolve_plugins(profile.plugins, implements, path)
        except ConfigError as error:
            errors += error.errors
    if not errors:
        errors += _queue_sorts_that_differ(config, found)
    if errors:
        raise ConfigError(errors)
    return found


def names_enabled(config: SchedulerConfiguration) -> frozenset[str]:
    """Return the names of the plugins that any profile enables at any point."""
    return frozenset[str]().union(*map(names_enabled_in, config.profiles))


def names_enabled_in(profile: KubeSchedulerProfile) -> frozenset[str]:
    """Return the names of the plugins that a profile enables at any point."""
    sets = (profile.plugins.multi_point, *profile.plugins.points.values())
    return frozenset(plugin.name for each in sets for plugin in each.enabled)


def _queue_sorts_that_differ(config: SchedulerConfiguration, found: Mapping[str, Resolved]) -> list[str]:
    """Report profiles that sort the queue differently: there is one queue, even where `multiPoint` names its plugin."""
    errors = []
    first = config.profiles[0]
    sort = found[first.scheduler_name][ExtensionPoint.QUEUE_SORT][0][0]
    for index, profile in enumerate(config.profiles[1:], start=1):
        here = found[profile.scheduler_name][ExtensionPoint.QUEUE_SORT][0][0]
        if here != sort:
            detail = f'different queue sort plugins for profile "{profile.scheduler_name}": "{here}", first: "{sort}"'
            errors.append(invalid(f"profiles[{index}].plugins.queueSort", here, detail))
        elif (profile.plugin_config.get(sort) or {}) != (first.plugin_config.get(sort) or {}):
            detail = f'different queue sort plugin args for profile "{profile.scheduler_name}"'
            errors.append(invalid(f"profiles[{index}].pluginConfig", sort, detail))
    return errors
