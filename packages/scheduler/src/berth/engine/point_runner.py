"""Runs the extension points and plugins of a profile.

Each profile is given a runner. This one adds nothing; the one in `berth.core.timed_runner` reports to an observer how
long points and plugins take, so that nothing is measured unless somebody wants to know.
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
    """Runs points and plugins, and reports nothing."""

    __slots__ = ()

    def run(self, point: str, method: Callable[[*Arguments], Result], *args: *Arguments) -> Result:
        """Run a point."""
        return method(*args)

    def steps(self, point: str, steps: Steps[Result], pod: PodInfo) -> Steps[Result]:
        """Return the steps of a point that may have to wait for an answer."""
        return steps

    def observed(self, plugin: LoadedPlugin) -> LoadedPlugin:
        """Return the plugin in the form in which the profile calls it."""
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
        """PreFilter, the first point of an attempt, is about to be run."""

    def asked(
        self, point: str, plugins: Sequence[Named], skipped: Set[str], ended: Status | None = None, times: int = 1
    ) -> None:
        """These plugins were called so many times: all that did not skip, up to the one that returned `ended`."""

    def asked_about_nodes(self, verdicts: Verdicts, nodes: int) -> None:
        """The Filter plugins have answered for all searched nodes; `nodes` is the position in the log of nodes."""
