"""Makes the profiles of a configuration, with their plugins, from a registry.

Each plugin of a profile is made once, with its args decoded, defaulted and validated. All mistakes in the configuration
are reported together, as one `ConfigError`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from berth.config.defaults import Resolved
from berth.config.errors import ConfigError, errors_in
from berth.config.missing_plugins import not_there
from berth.config.plugin_args import decode_profile_args
from berth.config.profiles import resolve_profiles
from berth.config.types import ExtensionPoint, KubeSchedulerProfile, SchedulerConfiguration
from berth.engine.point_runner import PointRunner
from berth.engine.profile import Profile
from berth.engine.promise_check import PromiseCheck
from berth.framework.answers import wrong_events
from berth.framework.blame import contained, described
from berth.framework.extenders import Extender
from berth.framework.faces import shown
from berth.framework.guard import Report, guarded
from berth.framework.handle import Handle
from berth.framework.health import HealthBook
from berth.framework.loaded import ContractError, LoadedPlugin, loaded
from berth.framework.registry import IN_TREE, Registry
from berth.state.views import Memory


def build_profiles(
    config: SchedulerConfiguration,
    registry: Registry,
    handle: Handle,
    memos: Memory,
    extenders: Sequence[Extender] = (),
    *,
    make_runner: Callable[[str], PointRunner] = lambda _profile: PointRunner(),
    report: Report = lambda _plugin, _method, _bug: None,
    health: HealthBook | None = None,
    promise_check: PromiseCheck | None = None,
) -> dict[str, Profile]:
    """Return the profiles by scheduler name. `make_runner` makes the runner of each profile, given its name.

    `report` is called with exceptions of out-of-tree plugins, once for each place in the code that raises; `health`
    tracks optional plugins, and `promise_check` holds plugins to their promises. Shadows are made like any profile, but
    with a handle that changes nothing and without extenders. Raises `ConfigError`.
    """
    with errors_in(config.source):
        if not config.profiles:
            raise ConfigError(["at least one profile is required"])
        resolved = _resolved(config, registry)
        profiles: dict[str, Profile] = {}
        for index, profile in enumerate(config.profiles):
            points = resolved[profile.scheduler_name]
            names = {name for plugins in points.values() for name, _ in plugins}
            path = f"profiles[{index}]"
            args = decode_profile_args(profile, registry.args_types(), path, names, config.feature_gates)
            own = handle.within(partial(profiles.__getitem__, profile.scheduler_name))
            if profile.shadow is not None:
                own = own.that_changes_nothing()
            made = _made(
                registry, sorted(names), args, own, path, _Watch(profile.scheduler_name, report, health, promise_check)
            )
            # Wrapped for the observer last, so that it sees what a guard makes of a plugin's answer.
            runner = make_runner(profile.scheduler_name) if profile.shadow is None else PointRunner()
            made = {name: runner.observed(plugin) for name, plugin in made.items()}
            percentage = profile.percentage_of_nodes_to_score
            profiles[profile.scheduler_name] = Profile(
                profile.scheduler_name,
                _with_plugins(points, made),
                memos,
                handle.nominator,
                config.percentage_of_nodes_to_score if percentage is None else percentage,
                extenders if profile.shadow is None else (),
                checks_all_filters=config.checks_all_filters,
                runner=runner,
                promise_check=promise_check,
                optional=[each for each in health or () if each.profile == profile.scheduler_name],
            )
    return profiles


class _Watch(NamedTuple):
    """What watches the plugins of a profile: for exceptions, for health, and for broken promises."""

    profile: str
    report: Report
    health: HealthBook | None
    check: PromiseCheck | None


def _with_plugins(
    points: Mapping[ExtensionPoint, tuple[tuple[str, int], ...]], made: Mapping[str, LoadedPlugin]
) -> dict[ExtensionPoint, tuple[tuple[LoadedPlugin, int], ...]]:
    return {point: tuple((made[name], weight) for name, weight in plugins) for point, plugins in points.items()}


def _resolved(config: SchedulerConfiguration, registry: Registry) -> dict[str, Resolved]:
    """Return the plugins of every profile; raises `ConfigError` with all that is wrong with what it names."""
    faults: list[str] = []
    for index, profile in enumerate(config.profiles):
        faults += _unusable(profile, registry, f"profiles[{index}]")
        faults += _stray_args(profile, registry, f"profiles[{index}].pluginConfig")
    # One complaint per plugin is enough, so an unknown one counts as having every point, except that a second QueueSort
    # would be a complaint of its own.
    sorters = {
        each.name for profile in config.profiles for each in profile.plugins.at(ExtensionPoint.QUEUE_SORT).enabled
    }
    unusable = {
        name: frozenset(ExtensionPoint) - (set() if name in sorters else {ExtensionPoint.QUEUE_SORT})
        for name in (registry.unusable if faults else ())
    }
    try:
        resolved = resolve_profiles(config, {**registry.implements(), **unusable})
    except ConfigError as error:
        raise ConfigError([*faults, *error.errors]) from None
    if faults:
        raise ConfigError(faults)
    return resolved


def _unusable(profile: KubeSchedulerProfile, registry: Registry, path: str) -> Iterable[str]:
    """Say why plugins that the profile enables cannot be used."""
    sets = (profile.plugins.multi_point, *profile.plugins.points.values())
    for name in dict.fromkeys(plugin.name for enabled in sets for plugin in enabled.enabled):
        if name in registry.unusable:
            yield from (f"{path}: {told}" for told in registry.unusable[name].told(name))


def _stray_args(profile: KubeSchedulerProfile, registry: Registry, path: str) -> Iterable[str]:
    """Name the args that no plugin takes."""
    takers = registry.args_types()
    for index, name in enumerate(profile.plugin_config):
        if name not in registry and name not in registry.unusable:
            yield f"{path}[{index}].name: {not_there(name, registry.names)}"
        elif name in registry and name not in takers and profile.plugin_config[name]:
            yield f'{path}[{index}].args: plugin "{name}" takes no args (it has no args_type)'


def _made(
    registry: Registry, names: Iterable[str], args: Mapping[str, Any], handle: Handle, path: str, watch: _Watch
) -> dict[str, LoadedPlugin]:
    """Make the plugins of a profile; raises `ConfigError` with what is wrong with any of them."""
    made: dict[str, LoadedPlugin] = {}
    faults: list[str] = []
    for name in names:
        try:
            plugin = _make(registry, name, args.get(name), handle, watch)
            made[name] = record = loaded(plugin)
            if registry.origin(name) != IN_TREE:
                book = watch.health
                kept = None if book is None else book.of(registry.factory(name), name, watch.profile)
                guarded(plugin, registry.origin(name), watch.report, kept)
            if record.events is not None:
                said = f"plugin {name!r} of {registry.origin(name)}: {type(plugin).__name__}.events_to_register"
                faults += [f"{path}: {said} {fault}" for fault in wrong_events(record.events.events_to_register())]
        except ConfigError as error:
            faults += [f"{path}: {fault}" for fault in error.errors]
        except ContractError as wrong:
            faults += [f"{path}: plugin {name!r} of {registry.origin(name)} {fault}" for fault in wrong.faults]
        except BaseException as raised:
            bug = contained(raised)
            faults.append(f"{path}: {_broken(registry, name, 'events_to_register failed', bug)}")
    if faults:
        raise ConfigError(faults)
    return made


def _make(registry: Registry, name: str, args: Any, handle: Handle, watch: _Watch) -> Any:
    factory: Callable[[Any, Any], Any] = registry.factory(name)
    try:
        if registry.origin(name) == IN_TREE:
            return factory(args, handle)
        face = shown(handle)
        return factory(args, face if watch.check is None else watch.check.watched(watch.profile, name, face))
    except BaseException as raised:
        bug = contained(raised)
        if registry.origin(name) == IN_TREE and isinstance(bug, TypeError | ValueError):  # it refuses its args
            raise ConfigError([f"plugin {name!r} could not be made: {bug}"]) from bug
        raise ConfigError([_broken(registry, name, "could not be made", bug)]) from bug


def _broken(registry: Registry, name: str, what: str, bug: Exception) -> str:
    """Say what raised, in which plugin, and where in its own code."""
    return f"plugin {name!r} of {registry.origin(name)}: {what}: {described(bug)}"
