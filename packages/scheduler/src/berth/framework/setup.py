"""What a scheduler is made from."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # commands name it before it is known whether they schedule anything
    from berth.config.types import SchedulerConfiguration
    from berth.framework.registry import Registry


class Setup(NamedTuple):
    """A configuration that was read and checked, and the plugins that it may name."""

    config: "SchedulerConfiguration"
    registry: "Registry"
