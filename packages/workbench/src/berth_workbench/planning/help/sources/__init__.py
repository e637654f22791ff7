"""What of a pod can rule nodes out: one source of needs for each group of plugins, in this table."""

from berth_workbench.planning.help.needs import NeedSource
from berth_workbench.planning.help.sources.attached import DeviceNeeds, PortNeeds, VolumeNeeds
from berth_workbench.planning.help.sources.companions import CompanionNeeds
from berth_workbench.planning.help.sources.holds import HoldingNeeds
from berth_workbench.planning.help.sources.node_selection import SelectingNeeds
from berth_workbench.planning.help.sources.resources import LesserRequestNeeds, ResourceNeeds
from berth_workbench.planning.help.sources.taints import TaintNeeds
from berth_workbench.planning.help.sources.topology_spread import SpreadingNeeds

SOURCES: tuple[NeedSource, ...] = (
    HoldingNeeds(),
    TaintNeeds(),
    SelectingNeeds(),
    PortNeeds(),
    ResourceNeeds(),
    SpreadingNeeds(),
    CompanionNeeds(),
    VolumeNeeds(),
    DeviceNeeds(),
    LesserRequestNeeds(),
)
"""In-tree sources. Plugins that none of them names are told in their own words, and only nodes and pods can change."""
