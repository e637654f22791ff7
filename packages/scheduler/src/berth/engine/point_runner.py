"""What a profile's points and plugins are run with.

A profile is given one. This one runs everything as it is; `berth.core.timed_runner` has one that tells an observer how
long points and plugins take, so that nothing is measured where nobody wants to know.
"""

from collections.abc import Callable, Sequence, Set
from typing import TypeVar, TypeVarTuple

from berth.engine.scores import ScoreRunner
from berth.engine.verdicts import FilterRunner, Verdicts
from berth.framework.blame import Named
from berth.framework.cycle_state import CycleState
from berth.framework.effects import Steps
from berth.framework.loaded import LoadedPlugin
from berth.framework.status import Status
from berth.state.pod_info import PodInfo

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class PointRunner:
    """Runs points and plugins, and tells nobody."""

    __slots__ = ()

    def run(self, point: str, method: Callable[[*Arguments], Result], *args: *Arguments) -> Result:
        """Run a point."""
        return method(*args)

    def steps(self, point: str, steps: Steps[Result], pod: PodInfo) -> Steps[Result]:
        """Return the steps of a point that may have to wait for answers."""
        return steps

    def observed(self, plugin: LoadedPlugin) -> LoadedPlugin:
        """Return the plugin as the profile is to call it."""
        return plugin

    def filter_runner(self, plugin: LoadedPlugin) -> FilterRunner:
        """Return what asks a Filter plugin."""
        return FilterRunner(plugin)

    def score_runner(self, plugin: LoadedPlugin, weight: int) -> ScoreRunner:
        """Return what asks a Score plugin."""
        return ScoreRunner(plugin, weight)

    def pre_enqueue_begins(self) -> None:
        """PreEnqueue is about to be run."""

    def attempt_begins(self, state: CycleState) -> None:
        """PreFilter is about to be run, the first point of an attempt."""

    def asked(
        self, point: str, plugins: Sequence[Named], skipped: Set[str], ended: Status | None = None, times: int = 1
    ) -> None:
        """These plugins had their say so many times: all that did not skip, up to the one that said `ended`."""

    def asked_about_nodes(self, verdicts: Verdicts, nodes: int) -> None:
        """The Filter plugins had their say about all searched nodes; `nodes` is the position in the log of nodes."""
