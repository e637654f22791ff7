"""A core whose own work is measured: API server and controllers are played while the clock stands still.

Used by `berth bench`, for a workload and for those of scheduler_perf.
"""

from collections.abc import Callable
from typing import Any

from berth.core.intake import ObjectEvent, ShardsHeld
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.effects import Answer, Effect
from berth_workbench.simulation.api_calls import ApiCalls


class MeasuredCluster(VirtualCluster):
    """A virtual cluster that counts how long the core has worked, with claims that get their volumes."""

    def __init__(self, stopwatch: Callable[[], float], **options: Any) -> None:
        """`stopwatch` says what the core's work takes; `options` are those of `VirtualCluster`."""
        super().__init__(**options)
        self.answer_api = ApiCalls(self)
        self.seconds = 0.0
        self._stopwatch = stopwatch

    def handle(self, event: ObjectEvent | ShardsHeld | Answer) -> None:
        """Give the core an event; what it asks for is carried out while the clock stands still."""
        began = self._stopwatch()
        effects = self.core.handle(event, self.now)
        self.worked(self._stopwatch() - began)
        self.taken_in(event)
        self._carry_out(effects)

    def step(self) -> None:
        """Let the core take one step."""
        began = self._stopwatch()
        effects = self.core.step(self.now)
        self.worked(self._stopwatch() - began)
        self._carry_out(effects)

    def taken_in(self, event: ObjectEvent | ShardsHeld | Answer) -> None:
        """Take note of what the core has heard."""

    def worked(self, seconds: float) -> None:
        """Count what the core's work has taken."""
        self.seconds += seconds

    def carried_out(self, effect: Effect) -> None:
        """Keep nothing."""
