"""The input from which a scheduler is made."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # commands import it before it is known whether they schedule anything
    from berth.config.types import SchedulerConfiguration
    from berth.framework.registry import Registry


class Setup(NamedTuple):
    """A checked configuration, and the plugins that it may name."""

    config: "SchedulerConfiguration"
    registry: "Registry"
