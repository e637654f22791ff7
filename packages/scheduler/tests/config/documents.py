"""Documents and small registries that the tests of the configuration share."""

from typing import Any

from berth.config.types import ExtensionPoint

POINT = ExtensionPoint


def v1_document(**fields: Any) -> dict[str, Any]:
    """A v1 document with these fields."""
    return {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", **fields}


def profile_document(plugins: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A v1 document with one profile of these plugin sets."""
    return v1_document(profiles=[{"plugins": plugins, **fields}])


def names(*plugins: str) -> list[dict[str, str]]:
    """A list of plugins as documents write it."""
    return [{"name": plugin} for plugin in plugins]


# The points that kube-scheduler's own plugins implement, as far as the tests look at them.
IN_TREE: dict[str, frozenset[ExtensionPoint]] = {
    "SchedulingGates": frozenset({POINT.PRE_ENQUEUE}),
    "PrioritySort": frozenset({POINT.QUEUE_SORT}),
    "NodeUnschedulable": frozenset({POINT.FILTER}),
    "NodeName": frozenset({POINT.FILTER}),
    "TaintToleration": frozenset({POINT.FILTER, POINT.PRE_SCORE, POINT.SCORE}),
    "NodeAffinity": frozenset({POINT.PRE_FILTER, POINT.FILTER, POINT.PRE_SCORE, POINT.SCORE}),
    "NodePorts": frozenset({POINT.PRE_FILTER, POINT.FILTER}),
    "NodeResourcesFit": frozenset({POINT.PRE_FILTER, POINT.FILTER, POINT.PRE_SCORE, POINT.SCORE}),
    "VolumeRestrictions": frozenset({POINT.PRE_FILTER, POINT.FILTER}),
    "NodeVolumeLimits": frozenset({POINT.PRE_FILTER, POINT.FILTER}),
    "VolumeBinding": frozenset({POINT.PRE_FILTER, POINT.FILTER, POINT.RESERVE, POINT.PRE_BIND}),
    "VolumeZone": frozenset({POINT.PRE_FILTER, POINT.FILTER}),
    "PodTopologySpread": frozenset({POINT.PRE_FILTER, POINT.FILTER, POINT.PRE_SCORE, POINT.SCORE}),
    "InterPodAffinity": frozenset({POINT.PRE_FILTER, POINT.FILTER, POINT.PRE_SCORE, POINT.SCORE}),
    "DynamicResources": frozenset({POINT.PRE_FILTER, POINT.FILTER, POINT.POST_FILTER, POINT.SCORE}),
    "DefaultPreemption": frozenset({POINT.POST_FILTER}),
    "NodeResourcesBalancedAllocation": frozenset({POINT.PRE_SCORE, POINT.SCORE}),
    "ImageLocality": frozenset({POINT.SCORE}),
    "DefaultBinder": frozenset({POINT.BIND}),
    "NodeDeclaredFeatures": frozenset({POINT.PRE_FILTER, POINT.FILTER}),
}
