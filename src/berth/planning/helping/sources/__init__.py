"""What of a pod can rule nodes out: one source of needs for each group of plugins, in this table."""

from berth.planning.helping.needs import NeedSource
from berth.planning.helping.sources.companions import CompanionNeeds
from berth.planning.helping.sources.devices import DeviceNeeds
from berth.planning.helping.sources.holding import HoldingNeeds
from berth.planning.helping.sources.ports import PortNeeds
from berth.planning.helping.sources.resources import ResourceNeeds
from berth.planning.helping.sources.selecting import SelectingNeeds
from berth.planning.helping.sources.spreading import SpreadingNeeds
from berth.planning.helping.sources.taints import TaintNeeds
from berth.planning.helping.sources.volumes import VolumeNeeds

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
)
"""In-tree sources. Plugins that none of them names are told in their own words, and only nodes and pods can change."""
