"""The algorithm providers of v1.20, and how a profile's plugins are laid over the one that was chosen.

Called by the conversion of documents. Source: release-1.20, pkg/scheduler/algorithmprovider/registry.go.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from berth.config.defaults import DISABLE_ALL, interface_name
from berth.config.errors import ConfigError, unsupported
from berth.config.feature_gates import FeatureGates
from berth.config.types import ExtensionPoint as Point
from berth.config.types import PluginRef, Plugins, PluginSet

GENERATION: Final = "v1.20"

DEFAULT_PROVIDER: Final = "DefaultProvider"
CLUSTER_AUTOSCALER_PROVIDER: Final = "ClusterAutoscalerProvider"
PROVIDERS: Final = (DEFAULT_PROVIDER, CLUSTER_AUTOSCALER_PROVIDER)

SPREAD_GATE: Final = "DefaultPodTopologySpread"

_LEAST: Final = "NodeResourcesLeastAllocated"
_MOST: Final = "NodeResourcesMostAllocated"

_UNWEIGHTED: Final[Mapping[Point, tuple[str, ...]]] = MappingProxyType(
    {
        Point.QUEUE_SORT: ("PrioritySort",),
        Point.PRE_FILTER: ("NodeResourcesFit", "NodePorts", "PodTopologySpread", "InterPodAffinity", "VolumeBinding"),
        Point.FILTER: (
            "NodeUnschedulable",
            "NodeName",
            "TaintToleration",
            "NodeAffinity",
            "NodePorts",
            "NodeResourcesFit",
            "VolumeRestrictions",
            "EBSLimits",
            "GCEPDLimits",
            "NodeVolumeLimits",
            "AzureDiskLimits",
            "VolumeBinding",
            "VolumeZone",
            "PodTopologySpread",
            "InterPodAffinity",
        ),
        Point.POST_FILTER: ("DefaultPreemption",),
        Point.PRE_SCORE: ("InterPodAffinity", "PodTopologySpread", "TaintToleration"),
        Point.RESERVE: ("VolumeBinding",),
        Point.PRE_BIND: ("VolumeBinding",),
        Point.BIND: ("DefaultBinder",),
    }
)
_SCORE: Final = (
    PluginRef("NodeResourcesBalancedAllocation", 1),
    PluginRef("ImageLocality", 1),
    PluginRef("InterPodAffinity", 1),
    PluginRef(_LEAST, 1),
    PluginRef("NodeAffinity", 1),
    PluginRef("NodePreferAvoidPods", 10000),
    PluginRef("PodTopologySpread", 2),
    PluginRef("TaintToleration", 1),
)


def provider_plugins(name: str, gates: FeatureGates, path: str = "algorithmSource.provider") -> Plugins:
    """Return the plugins of a provider; raises ConfigError with the known ones if there is none of that name."""
    if name not in PROVIDERS:
        raise ConfigError([f"{unsupported(path, name, PROVIDERS)}: algorithm provider {name!r} is not registered"])
    pre_score = [PluginRef(plugin) for plugin in _UNWEIGHTED[Point.PRE_SCORE]]
    score = [PluginRef(_MOST, ref.weight) if _swaps(name, ref) else ref for ref in _SCORE]
    if not gates.enabled(SPREAD_GATE):
        pre_score.append(PluginRef("SelectorSpread"))
        score.append(PluginRef("SelectorSpread", 1))
    points = {point: PluginSet(tuple(map(PluginRef, plugins))) for point, plugins in _UNWEIGHTED.items()}
    return Plugins(
        points={**points, Point.PRE_SCORE: PluginSet(tuple(pre_score)), Point.SCORE: PluginSet(tuple(score))}
    )


def _swaps(provider: str, ref: PluginRef) -> bool:
    return provider == CLUSTER_AUTOSCALER_PROVIDER and ref.name == _LEAST


def applied(provider: Plugins, custom: Plugins | None) -> Plugins:
    """Lay a profile's plugins over the provider's: disabled ones go, enabled ones are appended.

    One that the provider enables already is then there twice, which is an error when the profile is expanded, unless
    the profile disables it first: that was the way to change a weight or the order.
    """
    if custom is None:
        return provider
    return Plugins(
        points={
            point: _applied(provider.at(point), custom.at(point))
            for point in Point
            if point in provider.points or point in custom.points
        }
    )


def duplicates(provider: Plugins, custom: Plugins | None, path: str) -> Iterable[str]:
    """Say which plugins a profile enables where the provider does already; `path` is where its plugins stand."""
    for point, custom_set in custom.points.items() if custom is not None else ():
        disabled = {plugin.name for plugin in custom_set.disabled}
        there = {ref.name for ref in provider.at(point).enabled if ref.name not in disabled}
        for index, plugin in enumerate(custom_set.enabled if DISABLE_ALL not in disabled else ()):
            if plugin.name in there:
                yield (
                    f'{path}.{point}.enabled[{index}]: plugin "{plugin.name}" already registered as '
                    f'"{interface_name(point)}", by the provider: list it under disabled too, to enable it anew'
                )


def _applied(default: PluginSet, custom: PluginSet) -> PluginSet:
    disabled = {plugin.name for plugin in custom.disabled}
    kept = () if DISABLE_ALL in disabled else tuple(ref for ref in default.enabled if ref.name not in disabled)
    return PluginSet(enabled=kept + custom.enabled)
