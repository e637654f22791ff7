"""All plugins of the v1.20 generation by name, and how today's registry is turned into one of that generation."""

from berth.framework.registry import Registry
from berth.plugins.default_binder import DefaultBinder
from berth.plugins.legacy.balanced_allocation import LegacyBalancedAllocation
from berth.plugins.legacy.cloud_limits import AzureDiskLimits, CinderLimits, EBSLimits, GCEPDLimits
from berth.plugins.legacy.image_locality import LegacyImageLocality
from berth.plugins.legacy.inter_pod_affinity import LegacyInterPodAffinity
from berth.plugins.legacy.node_affinity import LegacyNodeAffinity
from berth.plugins.legacy.node_label import NodeLabel
from berth.plugins.legacy.node_name import LegacyNodeName
from berth.plugins.legacy.node_prefer_avoid_pods import NodePreferAvoidPods
from berth.plugins.legacy.node_resources_allocated import (
    NodeResourcesLeastAllocated,
    NodeResourcesMostAllocated,
    RequestedToCapacityRatio,
)
from berth.plugins.legacy.node_resources_fit import LegacyNodeResourcesFit
from berth.plugins.legacy.node_volume_limits import LegacyNodeVolumeLimits
from berth.plugins.legacy.pod_topology_spread import LegacyPodTopologySpread
from berth.plugins.legacy.resource_limits import NodeResourceLimits
from berth.plugins.legacy.selector_spread import SelectorSpread
from berth.plugins.legacy.service_affinity import ServiceAffinity
from berth.plugins.legacy.taint_toleration import LegacyTaintToleration
from berth.plugins.legacy.volumes import (
    LegacyVolumeBinding,
    LegacyVolumeRestrictions,
    LegacyVolumeZone,
)
from berth.plugins.node_ports import NodePorts
from berth.plugins.node_unschedulable import NodeUnschedulable
from berth.plugins.preemption import DefaultPreemption
from berth.plugins.priority_sort import PrioritySort


def legacy_registry() -> Registry:
    """Return the in-tree plugins of v1.20, and NodeResourceLimits, which had just gone."""
    return Registry(
        {
            plugin.name: plugin
            for plugin in (
                PrioritySort,
                LegacyNodeResourcesFit,
                NodePorts,
                LegacyNodeName,
                NodeUnschedulable,
                LegacyTaintToleration,
                LegacyNodeAffinity,
                LegacyVolumeRestrictions,
                EBSLimits,
                GCEPDLimits,
                LegacyNodeVolumeLimits,
                AzureDiskLimits,
                CinderLimits,
                LegacyVolumeBinding,
                LegacyVolumeZone,
                LegacyPodTopologySpread,
                LegacyInterPodAffinity,
                DefaultPreemption,
                LegacyBalancedAllocation,
                LegacyImageLocality,
                NodeResourcesLeastAllocated,
                NodeResourcesMostAllocated,
                RequestedToCapacityRatio,
                NodeResourceLimits,
                NodePreferAvoidPods,
                SelectorSpread,
                NodeLabel,
                ServiceAffinity,
                DefaultBinder,
            )
        }
    )


def with_legacy_plugins(todays: Registry) -> Registry:
    """Return the plugins of v1.20 with the out-of-tree ones of `todays`. Raises `RegistryError`."""
    return legacy_registry().merge(todays.out_of_tree())
