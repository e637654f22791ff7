"""What keeps watch over plugins that a changed configuration has brought, for their first minute at work.

`Reconfiguration` makes a `Probation` where a plugin of other people's is new to a profile, has other args, or comes
from code that was loaded afresh. One that raises, or uses up attempts' budgets, in more than a small share of the
attempts that call it has its whole set put back.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from berth.config.profiles import names_enabled_in
from berth.config.types import KubeSchedulerProfile, SchedulerConfiguration
from berth.core.core import Core
from berth.framework.registry import IN_TREE, Registry

PROBATION_S: Final = 60.0
"""How long new plugins are watched, while we lead."""
LOOK_EVERY_S: Final = 1.0
FAILURES: Final = 5
"""So many failing attempts are no accident…"""
SHARE: Final = 0.1
"""…if they are more than this share of the attempts that called the plugin."""

PluginInProfile = tuple[str, str]
"""The name of a profile and that of a plugin in it."""


class Condemned(NamedTuple):
    """A plugin that is broken, and how that shows."""

    plugin: str
    why: str


class Probation:
    """The new plugins of one core."""

    __slots__ = ("_core", "_left_s", "_new")

    def __init__(self, core: Core, new: frozenset[PluginInProfile]) -> None:
        self._core = core
        self._new = new
        self._left_s = PROBATION_S

    @property
    def is_over(self) -> bool:
        """Whether they were watched for long enough."""
        return self._left_s <= 0

    def pass_time(self, seconds: float) -> None:
        """Note that they were at work for so long."""
        self._left_s -= seconds

    def condemned(self) -> Condemned | None:
        """Return the plugin that is broken, if one is. Reads counts that the core's thread may be adding to."""
        for health in self._core.health:
            if (health.profile, health.name) not in self._new:
                continue
            worst = health.worst
            if worst.failures >= FAILURES and worst.share > SHARE:
                told = f"failed in {worst.failures} of {worst.calls} attempts that called it"
                return Condemned(health.name, f"{told}, the last time with {health.last_failure}")
        return None


def new_plugins(
    old: SchedulerConfiguration, old_registry: Registry, new: SchedulerConfiguration, registry: Registry
) -> frozenset[PluginInProfile]:
    """Return other people's plugins that are not what they were: their code, their args, or that they are there."""
    before: Mapping[str, KubeSchedulerProfile] = {profile.scheduler_name: profile for profile in old.profiles}
    found = set()
    for profile in new.profiles:
        was = before.get(profile.scheduler_name)
        for name in names_enabled_in(profile):
            if name not in registry or registry.origin(name) == IN_TREE:
                continue
            is_known = was is not None and name in names_enabled_in(was) and name in old_registry
            if not (
                is_known
                and old_registry.factory(name) is registry.factory(name)
                and _args(was, name) == _args(profile, name)
            ):
                found.add((profile.scheduler_name, name))
    return frozenset(found)


def _args(profile: KubeSchedulerProfile | None, name: str) -> Any:
    return None if profile is None else profile.plugin_config.get(name) or None
