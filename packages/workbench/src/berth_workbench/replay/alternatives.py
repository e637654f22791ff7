"""What a recording is compared with: another configuration, another generation, further plugins."""

from collections.abc import Iterable

import msgspec

from berth.config.load import default_config, legacy_default_config
from berth.config.types import PluginRef, SchedulerConfiguration
from berth.recording.configs import config_of
from berth.recording.file_format import SegmentHeader
from berth_workbench.replay.recording_comparison import ConfigOf


def this_config(config: SchedulerConfiguration) -> ConfigOf:
    """Compare every core with this configuration."""
    return lambda _header: config


def of_generation(generation: str) -> ConfigOf:
    """Compare with the default profile of a generation, for all the scheduler names that were recorded.

    A core that was recorded with this generation keeps its configuration.
    """

    def other(header: SegmentHeader) -> SchedulerConfiguration:
        recorded = config_of(header.config)
        if recorded.generation == generation:
            return recorded
        config = legacy_default_config() if generation == "v1.20" else default_config()
        (profile, *_) = config.profiles
        names = [each.scheduler_name for each in recorded.profiles]
        profiles = tuple(msgspec.structs.replace(profile, scheduler_name=name) for name in names)
        return msgspec.structs.replace(config, profiles=profiles)

    return other


def with_plugins(names: Iterable[str]) -> ConfigOf:
    """Compare with the recorded configuration, and these plugins enabled beside its own in every profile."""
    refs = tuple(map(PluginRef, names))

    def other(header: SegmentHeader) -> SchedulerConfiguration:
        recorded = config_of(header.config)
        profiles = []
        for profile in recorded.profiles:
            multi_point = profile.plugins.multi_point
            enabled = {ref.name for ref in multi_point.enabled}
            more = tuple(ref for ref in refs if ref.name not in enabled)
            multi_point = msgspec.structs.replace(multi_point, enabled=(*multi_point.enabled, *more))
            plugins = msgspec.structs.replace(profile.plugins, multi_point=multi_point)
            profiles.append(msgspec.structs.replace(profile, plugins=plugins))
        return msgspec.structs.replace(recorded, profiles=tuple(profiles))

    return other
