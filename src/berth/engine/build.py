"""From a configuration and a registry to profiles with their plugins made.

Every plugin of a profile is made once, with its args decoded, defaulted and validated. All faults of the
configuration are reported together as `ConfigError`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from berth.config.errors import ConfigError
from berth.config.plugin_args import decode_profile_args
from berth.config.profiles import resolve_profiles
from berth.config.types import ExtensionPoint, SchedulerConfiguration
from berth.engine.memo import Memos
from berth.engine.profile import Profile
from berth.framework.extenders import Extender
from berth.framework.handle import Handle
from berth.framework.registry import Registry


def build_profiles(
    config: SchedulerConfiguration,
    registry: Registry,
    handle: Handle,
    memos: Memos,
    extenders: Sequence[Extender] = (),
) -> dict[str, Profile]:
    """Return the profiles by scheduler name. Raises `ConfigError`."""
    if not config.profiles:
        raise ConfigError(["at least one profile is required"])
    resolved = resolve_profiles(config, registry.implements())
    profiles: dict[str, Profile] = {}
    for index, profile in enumerate(config.profiles):
        points = resolved[profile.scheduler_name]
        names = {name for plugins in points.values() for name, _ in plugins}
        path = f"profiles[{index}]"
        args = decode_profile_args(profile, registry.args_types(), path, names, config.feature_gates)
        own = handle.within(partial(profiles.__getitem__, profile.scheduler_name))
        made = {name: _make(registry, name, args.get(name), own, path) for name in sorted(names)}
        percentage = profile.percentage_of_nodes_to_score
        profiles[profile.scheduler_name] = Profile(
            profile.scheduler_name,
            _with_plugins(points, made),
            memos,
            handle.nominator,
            config.percentage_of_nodes_to_score if percentage is None else percentage,
            extenders,
            checks_all_filters=config.checks_all_filters,
        )
    return profiles


def _with_plugins(
    points: Mapping[ExtensionPoint, tuple[tuple[str, int], ...]], made: Mapping[str, Any]
) -> dict[ExtensionPoint, tuple[tuple[Any, int], ...]]:
    return {point: tuple((made[name], weight) for name, weight in plugins) for point, plugins in points.items()}


def _make(registry: Registry, name: str, args: Any, handle: Handle, path: str) -> Any:
    factory: Callable[[Any, Handle], Any] = registry.factory(name)
    try:
        return factory(args, handle)
    except (TypeError, ValueError) as error:
        raise ConfigError([f"{path}: plugin {name!r} could not be made: {error}"]) from error
