"""All in-tree plugins of today's generation by name, alone or together with those that are installed."""

from berth.framework.loader import installed_plugins
from berth.framework.registry import Registry
from berth.plugins.default_binder import DefaultBinder
from berth.plugins.dra.plugin import DynamicResources
from berth.plugins.gang_scheduling import GangScheduling
from berth.plugins.image_locality import ImageLocality
from berth.plugins.inter_pod_affinity import InterPodAffinity
from berth.plugins.node_affinity import NodeAffinityPlugin
from berth.plugins.node_declared_features import NodeDeclaredFeatures
from berth.plugins.node_name import NodeName
from berth.plugins.node_ports import NodePorts
from berth.plugins.node_unschedulable import NodeUnschedulable
from berth.plugins.pod_group_pods_count import PodGroupPodsCount
from berth.plugins.pod_topology_spread import PodTopologySpread
from berth.plugins.preemption import DefaultPreemption
from berth.plugins.priority_sort import PrioritySort
from berth.plugins.resources.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from berth.plugins.resources.node_resources_fit import NodeResourcesFit
from berth.plugins.scheduling_gates import SchedulingGates
from berth.plugins.taint_toleration import TaintToleration
from berth.plugins.topology_placement import TopologyPlacementGenerator
from berth.plugins.volumes.limits import NodeVolumeLimits
from berth.plugins.volumes.restrictions import VolumeRestrictions
from berth.plugins.volumes.volume_binding import VolumeBinding
from berth.plugins.volumes.zone import VolumeZone


def in_tree_registry() -> Registry:
    """Return the plugins that Berth itself brings."""
    return Registry(
        {
            "SchedulingGates": SchedulingGates,
            "PrioritySort": PrioritySort,
            "NodeUnschedulable": NodeUnschedulable,
            "NodeName": NodeName,
            "TaintToleration": TaintToleration,
            "NodeAffinity": NodeAffinityPlugin,
            "NodePorts": NodePorts,
            "NodeResourcesFit": NodeResourcesFit,
            "VolumeRestrictions": VolumeRestrictions,
            "NodeVolumeLimits": NodeVolumeLimits,
            "VolumeBinding": VolumeBinding,
            "VolumeZone": VolumeZone,
            "PodTopologySpread": PodTopologySpread,
            "InterPodAffinity": InterPodAffinity,
            "DynamicResources": DynamicResources,
            "DefaultPreemption": DefaultPreemption,
            "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocation,
            "ImageLocality": ImageLocality,
            "DefaultBinder": DefaultBinder,
            "NodeDeclaredFeatures": NodeDeclaredFeatures,
            "GangScheduling": GangScheduling,
            "TopologyPlacementGenerator": TopologyPlacementGenerator,
            "PodGroupPodsCount": PodGroupPodsCount,
        }
    )


def full_registry(named: Registry | None = None) -> Registry:
    """Return the in-tree plugins, those that installed distributions offer, and those in `named`.

    Raises `RegistryError` where two have one name. Of the installed ones, those that cannot be used are in `unusable`.
    """
    found = in_tree_registry().merge(installed_plugins())
    return found if named is None else found.merge(named)
