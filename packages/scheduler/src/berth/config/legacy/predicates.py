"""Turns a Policy's predicates and priorities into the plugins of a profile, with their order, weights and args.

Called for every profile of a configuration with a Policy. Predicates come in a fixed order, whatever that of the
document; two are always there. Source: release-1.20, pkg/scheduler/framework/plugins/legacy_registry.go and
pkg/scheduler/factory.go.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from berth.api.near_names import nearest
from berth.config.errors import ConfigError
from berth.config.feature_gates import FeatureGates
from berth.config.legacy.policy import Policy, PredicateDoc, PriorityDoc
from berth.config.legacy.providers import SPREAD_GATE
from berth.config.types import ExtensionPoint as Point
from berth.config.types import PluginRef, Plugins, PluginSet

_Uses = tuple[tuple[str, tuple[Point, ...]], ...]
"""Plugins, and the points at which each is enabled."""

_FILTER = (Point.FILTER,)
_BOTH = (Point.PRE_FILTER, Point.FILTER)
_VOLUME_BINDING = (Point.PRE_FILTER, Point.FILTER, Point.RESERVE, Point.PRE_BIND)

LABEL_PRESENCE: Final = "CheckNodeLabelPresence"
SERVICE_AFFINITY: Final = "CheckServiceAffinity"

PREDICATES: Final[Mapping[str, _Uses]] = MappingProxyType(
    {
        "CheckNodeUnschedulable": (("NodeUnschedulable", _FILTER),),
        "GeneralPredicates": (
            ("NodeResourcesFit", _BOTH),
            ("NodeName", _FILTER),
            ("NodePorts", _BOTH),
            ("NodeAffinity", _FILTER),
        ),
        "HostName": (("NodeName", _FILTER),),
        "PodFitsHostPorts": (("NodePorts", _BOTH),),
        "MatchNodeSelector": (("NodeAffinity", _FILTER),),
        "PodFitsResources": (("NodeResourcesFit", _BOTH),),
        "NoDiskConflict": (("VolumeRestrictions", _FILTER),),
        "PodToleratesNodeTaints": (("TaintToleration", _FILTER),),
        LABEL_PRESENCE: (("NodeLabel", _FILTER),),
        SERVICE_AFFINITY: (("ServiceAffinity", _BOTH),),
        "MaxEBSVolumeCount": (("EBSLimits", _FILTER),),
        "MaxGCEPDVolumeCount": (("GCEPDLimits", _FILTER),),
        "MaxCSIVolumeCountPred": (("NodeVolumeLimits", _FILTER),),
        "MaxAzureDiskVolumeCount": (("AzureDiskLimits", _FILTER),),
        "MaxCinderVolumeCount": (("CinderLimits", _FILTER),),
        "CheckVolumeBinding": (("VolumeBinding", _VOLUME_BINDING),),
        "NoVolumeZoneConflict": (("VolumeZone", _FILTER),),
        "EvenPodsSpread": (("PodTopologySpread", _BOTH),),
        "MatchInterPodAffinity": (("InterPodAffinity", _BOTH),),
    }
)
"""Every predicate, in the order in which they run."""

MANDATORY: Final = frozenset({"PodToleratesNodeTaints", "CheckNodeUnschedulable"})

DEFAULT_PREDICATES: Final = frozenset(
    {
        "NoVolumeZoneConflict",
        "MaxEBSVolumeCount",
        "MaxGCEPDVolumeCount",
        "MaxAzureDiskVolumeCount",
        "MaxCSIVolumeCountPred",
        "MatchInterPodAffinity",
        "NoDiskConflict",
        "GeneralPredicates",
        "PodToleratesNodeTaints",
        "CheckVolumeBinding",
        "CheckNodeUnschedulable",
        "EvenPodsSpread",
    }
)

_OLDER_PREDICATES: Final = MappingProxyType({"PodFitsPorts": "PodFitsHostPorts"})
_BY_TAINTS: Final = "the node gets a taint instead, which PodToleratesNodeTaints checks; leave this one out"
_GONE: Final = MappingProxyType(
    {
        "PodToleratesNodeNoExecuteTaints": (
            "it went with v1.17; PodToleratesNodeTaints checks NoExecute taints too: use that instead"
        ),
        "CheckNodeCondition": _BY_TAINTS,
        "CheckNodeMemoryPressure": _BY_TAINTS,
        "CheckNodeDiskPressure": _BY_TAINTS,
        "CheckNodePIDPressure": _BY_TAINTS,
    }
)

SELECTOR_SPREAD: Final = "SelectorSpreadPriority"
EVEN_PODS_SPREAD: Final = "EvenPodsSpreadPriority"
INTER_POD_AFFINITY: Final = "InterPodAffinityPriority"
EQUAL: Final = "EqualPriority"

_SCORE = (Point.SCORE,)
_PREPARED_SCORE = (Point.PRE_SCORE, Point.SCORE)

PRIORITIES: Final[Mapping[str, tuple[str, tuple[Point, ...]]]] = MappingProxyType(
    {
        "LeastRequestedPriority": ("NodeResourcesLeastAllocated", _SCORE),
        "MostRequestedPriority": ("NodeResourcesMostAllocated", _SCORE),
        "BalancedResourceAllocation": ("NodeResourcesBalancedAllocation", _SCORE),
        "RequestedToCapacityRatio": ("RequestedToCapacityRatio", _SCORE),
        "ResourceLimitsPriority": ("NodeResourceLimits", _PREPARED_SCORE),
        SELECTOR_SPREAD: ("PodTopologySpread", _PREPARED_SCORE),
        EVEN_PODS_SPREAD: ("PodTopologySpread", _PREPARED_SCORE),
        INTER_POD_AFFINITY: ("InterPodAffinity", _PREPARED_SCORE),
        "NodeAffinityPriority": ("NodeAffinity", _SCORE),
        "TaintTolerationPriority": ("TaintToleration", _PREPARED_SCORE),
        "ImageLocalityPriority": ("ImageLocality", _SCORE),
        "NodePreferAvoidPodsPriority": ("NodePreferAvoidPods", _SCORE),
        "NodeLabel": ("NodeLabel", _SCORE),
        "ServiceAffinity": ("ServiceAffinity", _SCORE),
    }
)
"""Every priority, and the three names under which those with arguments are counted."""

DEFAULT_PRIORITIES: Final[Mapping[str, int]] = MappingProxyType(
    {
        SELECTOR_SPREAD: 1,
        INTER_POD_AFFINITY: 1,
        "LeastRequestedPriority": 1,
        "BalancedResourceAllocation": 1,
        "NodePreferAvoidPodsPriority": 10000,
        "NodeAffinityPriority": 1,
        "TaintTolerationPriority": 1,
        "ImageLocalityPriority": 1,
        EVEN_PODS_SPREAD: 2,
    }
)
_OLDER_PRIORITIES: Final = MappingProxyType({"ServiceSpreadingPriority": SELECTOR_SPREAD})


class PolicyPlugins(NamedTuple):
    """The plugins and args that a Policy gives every profile."""

    plugins: Plugins
    plugin_config: Mapping[str, Any]


class _Enabled:
    """Plugins by point, in the order in which they are named first."""

    def __init__(self) -> None:
        self._refs: dict[Point, dict[str, PluginRef]] = {}
        self.args: dict[str, Any] = {}

    def add(self, name: str, points: Sequence[Point], weight: int = 0) -> None:
        for point in points:
            ref = PluginRef(name, weight if point is Point.SCORE else 0)
            self._refs.setdefault(point, {}).setdefault(name, ref)

    def plugins(self) -> Plugins:
        return Plugins(points={point: PluginSet(tuple(refs.values())) for point, refs in self._refs.items()})


def policy_plugins(policy: Policy, gates: FeatureGates) -> PolicyPlugins:
    """Return the plugins and args that a Policy asks for; raises ConfigError that names the entries it cannot."""
    enabled = _Enabled()
    enabled.add("PrioritySort", (Point.QUEUE_SORT,))
    enabled.add("DefaultPreemption", (Point.POST_FILTER,))
    enabled.add("DefaultBinder", (Point.BIND,))
    predicates, faults = _predicates(policy.predicates, enabled.args)
    priorities, more_faults = _priorities(policy.priorities, enabled.args)
    if faults or more_faults:
        raise ConfigError(faults + more_faults)
    for name, uses in PREDICATES.items():
        for plugin, points in uses if name in predicates | MANDATORY else ():
            enabled.add(plugin, points)
    for name in sorted(priorities):
        _enable_priority(name, priorities[name], enabled, gates)
    if policy.hard_pod_affinity_symmetric_weight and INTER_POD_AFFINITY in priorities:
        enabled.args["InterPodAffinity"] = {"hardPodAffinityWeight": policy.hard_pod_affinity_symmetric_weight}
    return PolicyPlugins(enabled.plugins(), enabled.args)


def _enable_priority(name: str, weight: int, enabled: _Enabled, gates: FeatureGates) -> None:
    plugin, points = PRIORITIES[name]
    if name == SELECTOR_SPREAD and not gates.enabled(SPREAD_GATE):
        plugin = "SelectorSpread"
    elif name == SELECTOR_SPREAD:
        enabled.args[plugin] = {"defaultingType": "System"}
    elif name == EVEN_PODS_SPREAD and gates.enabled(SPREAD_GATE):
        enabled.args.setdefault(plugin, {"defaultingType": "List"})
    enabled.add(plugin, points, weight)


def _predicates(given: tuple[PredicateDoc, ...] | None, args: dict[str, Any]) -> tuple[frozenset[str], list[str]]:
    """Return the names of the predicates, and what is wrong; fill in the args of those that take some."""
    if given is None:
        return DEFAULT_PREDICATES, []
    found, faults = set(), []
    for index, predicate in enumerate(given):
        name = _OLDER_PREDICATES.get(predicate.name, predicate.name)
        if name in PREDICATES and (predicate.argument is None or name not in (LABEL_PRESENCE, SERVICE_AFFINITY)):
            found.add(name)
        elif predicate.argument is not None:
            found.add(_custom_predicate(predicate, args))
        else:
            faults.append(
                _unknown("predicates", index, predicate.name, PREDICATES, "serviceAffinity or labelsPresence")
            )
    return frozenset(found), faults


def _custom_predicate(predicate: PredicateDoc, args: dict[str, Any]) -> str:
    argument = predicate.argument
    assert argument is not None
    if argument.service_affinity is not None:
        _extend(args, "ServiceAffinity", "affinityLabels", argument.service_affinity.labels)
        return SERVICE_AFFINITY
    assert argument.labels_presence is not None, "the policy was checked"
    field = "presentLabels" if argument.labels_presence.presence else "absentLabels"
    _extend(args, "NodeLabel", field, argument.labels_presence.labels)
    return LABEL_PRESENCE


def _priorities(given: tuple[PriorityDoc, ...] | None, args: dict[str, Any]) -> tuple[Mapping[str, int], list[str]]:
    """Return the weights of the priorities, and what is wrong; fill in the args of those that take some."""
    if given is None:
        return DEFAULT_PRIORITIES, []
    found: dict[str, int] = {}
    faults = []
    for index, priority in enumerate(given):
        name = _OLDER_PRIORITIES.get(priority.name, priority.name)
        if name == EQUAL:
            continue
        if priority.argument is not None and (name not in PRIORITIES or name in _CUSTOM):
            custom = _custom_priority(priority, args)
            added = 0 if custom == "RequestedToCapacityRatio" else found.get(custom, 0)
            found[custom] = added + priority.weight
        elif name in PRIORITIES and name not in _CUSTOM:
            found[name] = priority.weight
        else:
            known = [each for each in PRIORITIES if each not in _CUSTOM]
            takes = "serviceAntiAffinity, labelPreference or requestedToCapacityRatioArguments"
            faults.append(_unknown("priorities", index, priority.name, known, takes))
    return found, faults


_CUSTOM: Final = frozenset({"NodeLabel", "ServiceAffinity", "RequestedToCapacityRatio"})


def _custom_priority(priority: PriorityDoc, args: dict[str, Any]) -> str:
    argument = priority.argument
    assert argument is not None
    if argument.service_anti_affinity is not None:
        label = argument.service_anti_affinity.label
        _extend(args, "ServiceAffinity", "antiAffinityLabelsPreference", (label,))
        return "ServiceAffinity"
    if argument.label_preference is not None:
        preference = argument.label_preference
        field = "presentLabelsPreference" if preference.presence else "absentLabelsPreference"
        _extend(args, "NodeLabel", field, (preference.label,))
        return "NodeLabel"
    ratio = argument.requested_to_capacity_ratio_arguments
    assert ratio is not None, "the policy was checked"
    args["RequestedToCapacityRatio"] = msgspec.json.decode(msgspec.json.encode(ratio))
    return "RequestedToCapacityRatio"


def _extend(args: dict[str, Any], plugin: str, field: str, labels: Sequence[str]) -> None:
    args.setdefault(plugin, {}).setdefault(field, []).extend(labels)


def _unknown(where: str, index: int, name: str, known: Sequence[str] | Mapping[str, Any], takes: str) -> str:
    what = "Predicate" if where == "predicates" else "Priority"
    head = f'{where}[{index}].name: Invalid configuration: {what} type not found for "{name}"'
    if name in _GONE:
        return f"{head}: {_GONE[name]}"
    hint = nearest(name, known) or f"; the known ones: {', '.join(known)}"
    return f"{head}{hint}; one of your own needs an argument ({takes})"
