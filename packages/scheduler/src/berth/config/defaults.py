"""The default profile, how a document's plugin sets change it, and what runs at each extension point as a result.

`default_plugins` gives kube-scheduler's own profile; `merge_plugins` lays a document's sets over it while
the document is converted; `resolve_plugins` is called by the framework once the registry is known, and turns
`multiPoint` and the single points into one ordered list of plugins and weights a point. Behaviour follows
kube-scheduler v1.36.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from berth.config.errors import ConfigError
from berth.config.feature_gates import FeatureGates
from berth.config.missing_plugins import not_there
from berth.config.types import MULTI_POINT, ExtensionPoint, PluginRef, Plugins, PluginSet

Resolved = dict[ExtensionPoint, tuple[tuple[str, int], ...]]
"""The plugins of each extension point in the order they run; the weight is 0 wherever nothing is scored."""

DISABLE_ALL: Final = "*"
MAX_NODE_SCORE: Final = 100
MAX_TOTAL_SCORE: Final = 2**63 - 1

_DEFAULT_MULTI_POINT: Final = (
    PluginRef("SchedulingGates"),
    PluginRef("PrioritySort"),
    PluginRef("NodeUnschedulable"),
    PluginRef("NodeName"),
    PluginRef("TaintToleration", 3),
    PluginRef("NodeAffinity", 2),
    PluginRef("NodePorts"),
    PluginRef("NodeResourcesFit", 1),
    PluginRef("VolumeRestrictions"),
    PluginRef("NodeVolumeLimits"),
    PluginRef("VolumeBinding"),
    PluginRef("VolumeZone"),
    PluginRef("PodTopologySpread", 2),
    PluginRef("InterPodAffinity", 2),
    PluginRef("DynamicResources", 2),
    PluginRef("DefaultPreemption"),
    PluginRef("NodeResourcesBalancedAllocation", 1),
    PluginRef("ImageLocality", 1),
    PluginRef("DefaultBinder"),
    PluginRef("NodeDeclaredFeatures"),
    PluginRef("GangScheduling"),
    PluginRef("TopologyPlacementGenerator"),
    PluginRef("PodGroupPodsCount", 1),
)

# A plugin named here is in the default profile only while its gate is on.
_GATE_OF_PLUGIN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "DynamicResources": "DynamicResourceAllocation",
        "NodeDeclaredFeatures": "NodeDeclaredFeatures",
        "GangScheduling": "GangScheduling",
        "TopologyPlacementGenerator": "TopologyAwareWorkloadScheduling",
        "PodGroupPodsCount": "TopologyAwareWorkloadScheduling",
    }
)

# The points that give a score, and so the only ones where weights count.
_SCORED: Final = frozenset({ExtensionPoint.SCORE, ExtensionPoint.PLACEMENT_SCORE})


def default_plugins(gates: FeatureGates | None = None) -> Plugins:
    """The plugins that run where a document says nothing: all through `multiPoint`."""
    gates = gates or FeatureGates()
    enabled = tuple(
        plugin
        for plugin in _DEFAULT_MULTI_POINT
        if plugin.name not in _GATE_OF_PLUGIN or gates.enabled(_GATE_OF_PLUGIN[plugin.name])
    )
    return Plugins(multi_point=PluginSet(enabled=enabled))


def merge_plugins(defaults: Plugins, custom: Plugins | None) -> Plugins:
    """Lay a document's plugin sets over the defaults, point by point."""
    if custom is None:
        return defaults
    points = {
        point: merge_plugin_set(defaults.at(point), custom.at(point))
        for point in ExtensionPoint
        if point in defaults.points or point in custom.points
    }
    return Plugins(multi_point=merge_plugin_set(defaults.multi_point, custom.multi_point), points=points)


def merge_plugin_set(default: PluginSet, custom: PluginSet) -> PluginSet:
    """Merge one point: defaults enabled again keep their place, disabled ones go, the rest follow.

    What is disabled is kept in the result, because `multiPoint` must not bring it back at this point.
    """
    disabled = custom.disabled + default.disabled
    disabled_names = {plugin.name for plugin in disabled}
    kept = () if DISABLE_ALL in disabled_names else default.enabled
    kept = tuple(plugin for plugin in kept if plugin.name not in disabled_names)
    # Of several mentions in the document the last replaces the default. The others are appended, so that the
    # expansion finds them and reports the repetition.
    replacing = {plugin.name: index for index, plugin in enumerate(custom.enabled)}
    used = {replacing[plugin.name] for plugin in kept if plugin.name in replacing}
    merged = tuple(custom.enabled[replacing[plugin.name]] if plugin.name in replacing else plugin for plugin in kept)
    added = tuple(plugin for index, plugin in enumerate(custom.enabled) if index not in used)
    return PluginSet(enabled=merged + added, disabled=disabled)


def resolve_plugins(
    plugins: Plugins, implements: Mapping[str, frozenset[ExtensionPoint]], path: str = "plugins"
) -> Resolved:
    """List the plugins of every extension point, in order, with their weights.

    `implements` tells the points of every plugin in the registry; `path` is where in the document the sets
    stand. Raises ConfigError with everything that is wrong: plugins that do not exist, that do not implement
    the point where they are enabled or are enabled there twice, no or several queueSort plugins, no bind
    plugin.
    """
    errors = [*_unknown(plugins, implements, path), *_misplaced(plugins, implements, path)]
    errors += _repeated(plugins, implements, path)
    if errors:
        raise ConfigError(errors)
    names = {point: _ordered_names(plugins, point, implements) for point in ExtensionPoint}
    errors = [*_missing(names, path), *_overflow(plugins, names[ExtensionPoint.SCORE], path)]
    if errors:
        raise ConfigError(errors)
    return {point: tuple((name, _weight(plugins, point, name)) for name in names[point]) for point in names}


def _ordered_names(
    plugins: Plugins, point: ExtensionPoint, implements: Mapping[str, frozenset[ExtensionPoint]]
) -> tuple[str, ...]:
    """The order at one point: explicit plugins also in multiPoint, multiPoint's, other explicit ones."""
    here = plugins.at(point)
    explicit = [plugin.name for plugin in here.enabled]
    disabled = {plugin.name for plugin in here.disabled}
    if DISABLE_ALL in disabled:
        return tuple(explicit)
    expanded = [
        plugin.name
        for plugin in plugins.multi_point.enabled
        if point in implements[plugin.name] and plugin.name not in disabled
    ]
    overriding = [name for name in explicit if name in expanded]
    from_multi_point = [name for name in expanded if name not in explicit]
    others = [name for name in explicit if name not in expanded]
    return tuple(overriding + from_multi_point + others)


def _weight(plugins: Plugins, point: ExtensionPoint, name: str) -> int:
    """The weight the point gives, else multiPoint's; unset counts 1."""
    if point not in _SCORED:
        return 0
    for plugin in (*plugins.at(point).enabled, *plugins.multi_point.enabled):
        if plugin.name == name:
            return plugin.weight or 1
    return 1


def _sets(plugins: Plugins) -> Iterable[tuple[str, PluginSet]]:
    """Every plugin set with its name in the document."""
    yield MULTI_POINT, plugins.multi_point
    yield from plugins.points.items()


def _unknown(plugins: Plugins, implements: Mapping[str, frozenset[ExtensionPoint]], path: str) -> Iterable[str]:
    """Report plugins that are enabled but not registered."""
    for where, plugin_set in _sets(plugins):
        for plugin in plugin_set.enabled:
            if plugin.name not in implements:
                yield f"{path}.{where}.enabled: {not_there(plugin.name, implements)}"


def _misplaced(plugins: Plugins, implements: Mapping[str, frozenset[ExtensionPoint]], path: str) -> Iterable[str]:
    """Report plugins that are enabled at a point they do not implement. (Through multiPoint they are skipped there.)"""
    for point, plugin_set in plugins.points.items():
        for plugin in plugin_set.enabled:
            points = implements.get(plugin.name)
            if points is not None and point not in points:
                able = ", ".join(each for each in ExtensionPoint if each in points) or "none"
                yield (
                    f'{path}.{point}.enabled: plugin "{plugin.name}" does not extend '
                    f"{interface_name(point)} plugin; the points it implements: {able}"
                )


def _repeated(plugins: Plugins, implements: Mapping[str, frozenset[ExtensionPoint]], path: str) -> Iterable[str]:
    """Report plugins that are enabled twice in one set."""
    for where, plugin_set in _sets(plugins):
        counts = Counter(plugin.name for plugin in plugin_set.enabled)
        for name in (name for name, count in counts.items() if count > 1):
            points = [ExtensionPoint(where)] if where != MULTI_POINT else list(ExtensionPoint)
            first = next((point for point in points if point in implements.get(name, frozenset())), None)
            if first is not None:
                yield (
                    f'{path}.{where}.enabled: plugin "{name}" already registered as '
                    f'"{interface_name(first)}"; name it once'
                )


def _missing(names: Mapping[ExtensionPoint, tuple[str, ...]], path: str) -> Iterable[str]:
    """Report the points that every profile needs and that nothing is enabled at."""
    sorts = names[ExtensionPoint.QUEUE_SORT]
    if len(sorts) != 1:
        found = f"{len(sorts)} ({', '.join(sorts)})" if sorts else "0"
        yield f"{path}.queueSort: only one queue sort plugin required, but got {found}"
    if not names[ExtensionPoint.BIND]:
        yield f"{path}.bind: at least one bind plugin is needed; the default one is DefaultBinder"


def _overflow(plugins: Plugins, scorers: tuple[str, ...], path: str) -> Iterable[str]:
    """Report weights so large that a node's total might not fit 64 bits."""
    total = sum(_weight(plugins, ExtensionPoint.SCORE, name) for name in scorers) * MAX_NODE_SCORE
    if total > MAX_TOTAL_SCORE:
        yield f"{path}.score: total score of Score plugins could overflow; use smaller weights"


def interface_name(point: ExtensionPoint) -> str:
    """The name of a point's interface upstream, as its messages give it: `preFilter` is `PreFilterPlugin`."""
    return f"{point[0].upper()}{point[1:]}Plugin"
