"""PreBind: what must be done before a pod is bound, by one plugin after the other or by several at once.

Each plugin is first asked whether it has anything to do (PreBindPreFlight). Plugins that follow one another in the
profile and all allow it run side by side, so that a pod with volumes and devices waits for the slower of the two rather
than for both in turn. If one of them fails, the others are called off. Called by the binding cycle. Source:
PreBindPreFlightResult of pkg/scheduler/framework, v1.36.
"""

import math
from collections.abc import Callable, Generator, Iterator
from typing import Any

from msgspec.structs import force_setattr

from berth.cycle.attempt import Attempt
from berth.cycle.dispatcher import THROWN_IN, Dispatcher, Interruption
from berth.engine.profile import Profile
from berth.framework.blame import Named, PluginBrokenError, ask, blamed, contained
from berth.framework.effects import Steps, WaitUntil
from berth.framework.interface import PreBindPlugin, PreBindPreFlightResult
from berth.framework.status import Code, Status, error, is_success

UNSUPPORTED = (
    'PreBindPreFlight {plugin} returned "{code}", which is unsupported. '
    "It is supposed to return Success, Skip, or Error status"
)
OTHER_FAILED = "another PreBind plugin has failed"


def will_wait(profile: Profile, attempt: Attempt, node_name: str) -> Status | bool:
    """Return whether any PreBind plugin announces work for this pod, or the status of a failed pre-flight.

    Plugins without work are noted and left out of PreBind; plugins that may run in parallel are noted as well.
    """
    announced = False
    for plugin in profile.pre_bind(attempt.state):
        pre_flight = profile.pre_flights.get(plugin.name)
        # It cannot be asked, so assume that it has work.
        if pre_flight is None:
            announced = True
            continue
        status = ask("PreBindPreFlight", plugin, pre_flight.pre_bind_pre_flight, attempt.state, attempt.pod, node_name)
        if isinstance(status, PreBindPreFlightResult):
            if status.allow_parallel:
                force_setattr(attempt.state, "parallel_pre_bind", attempt.state.parallel_pre_bind | {plugin.name})
            announced = True
            continue
        if status is not None and status.code is Code.SKIP:
            force_setattr(attempt.state, "skip_pre_bind", attempt.state.skip_pre_bind | {plugin.name})
        elif status is None or is_success(status):
            announced = True
        elif status.code is Code.ERROR:
            return blamed("PreBindPreFlight", plugin.name, status)
        else:
            return error(UNSUPPORTED.format(plugin=plugin.name, code=status.code.label))
    return announced


def run_pre_bind(dispatcher: Dispatcher, attempt: Attempt, node_name: str) -> Steps[Status | None]:
    """Run PreBind of all plugins that have something to do; return the first failure."""
    for plugins in _in_turn(attempt):
        if len(plugins) == 1:
            status = yield from _pre_bind(plugins[0], attempt, node_name)
        else:
            status = yield from _ParallelPreBind(dispatcher, attempt, node_name).run(plugins)
        if status is not None:
            return status
    return None


def _in_turn(attempt: Attempt) -> Iterator[list[PreBindPlugin]]:
    """Yield the plugins in the profile's order, grouping neighbours that all allow running in parallel."""
    together: list[PreBindPlugin] = []
    for plugin in attempt.profile.pre_bind(attempt.state):
        if plugin.name in attempt.state.skip_pre_bind:
            continue
        if plugin.name in attempt.state.parallel_pre_bind:
            together.append(plugin)
            continue
        if together:
            yield together
        together = []
        yield [plugin]
    if together:
        yield together


def _pre_bind(plugin: PreBindPlugin, attempt: Attempt, node_name: str) -> Steps[Status | None]:
    try:
        status = yield from run_plugin("PreBind", plugin, plugin.pre_bind, attempt, node_name)
    except Interruption as called_off:
        return blamed("PreBind", plugin.name, error(str(called_off)))
    if status is None or is_success(status) or status.code is Code.SKIP:
        return None
    return blamed("PreBind", plugin.name, status)


class _ParallelPreBind:
    """PreBind of several plugins at once: a generator for each, and one that waits for all of them.

    The invariant: `run` does not end, and nothing is undone, before the last of the others has ended. So if the pod is
    called off, or one plugin fails, the others are interrupted where they wait, and `run` still waits for them.
    """

    __slots__ = ("_attempt", "_bug", "_dispatcher", "_failure", "_left", "_node_name")

    def __init__(self, dispatcher: Dispatcher, attempt: Attempt, node_name: str) -> None:
        self._dispatcher = dispatcher
        self._attempt = attempt
        self._node_name = node_name
        self._left: dict[str, Steps[Any]] = {}
        """What has not ended, by plugin."""
        self._failure: Status | None = None
        """The first failure."""
        self._bug: PluginBrokenError | None = None

    def run(self, plugins: list[PreBindPlugin]) -> Steps[Status | None]:
        """Start them in order, and wait until all have ended; return the first failure."""
        for plugin in plugins:
            if self._has_failed:
                break
            # `start` runs it until it has to wait, so it may have failed before the next one starts.
            steps = self._left[plugin.name] = self._run_one(plugin)
            self._dispatcher.start(steps)
        while self._left:
            try:
                yield WaitUntil(lambda: not self._left, math.inf)
            except Interruption as called_off:
                if not self._has_failed:
                    self._failure = blamed("PreBind", next(iter(self._left)), error(str(called_off)))
                # Not the end yet: the others are interrupted where they wait, and the loop goes on until they have
                # ended.
                self._call_off(str(called_off))
        if self._bug is not None:
            raise self._bug
        return self._failure

    @property
    def _has_failed(self) -> bool:
        return self._failure is not None or self._bug is not None

    def _run_one(self, plugin: PreBindPlugin) -> Steps[Any]:
        failure: Status | None = None
        try:
            failure = yield from _pre_bind(plugin, self._attempt, self._node_name)
        except PluginBrokenError as bug:
            self._bug = self._bug or bug
        finally:
            del self._left[plugin.name]
        if not self._has_failed:
            self._failure = failure
        if self._has_failed:
            self._call_off(OTHER_FAILED)

    def _call_off(self, reason: str) -> None:
        for steps in self._left.values():
            self._dispatcher.interrupt(steps, Interruption(reason))


def run_plugin(
    point: str, plugin: Named, method: Callable[..., Any], attempt: Attempt, node_name: str
) -> Steps[Status | None]:
    """Call a plugin's method that may have to wait, and return its status; whatever it raises names the plugin."""
    try:
        answer = method(attempt.state, attempt.pod, node_name)
        if isinstance(answer, Generator):
            answer = yield from answer
        return answer  # type: ignore[no-any-return]
    except BaseException as raised:
        # What the dispatcher throws in is not a bug of the plugin, and passes on to the binding cycle.
        bug = contained(raised, THROWN_IN)
        raise PluginBrokenError(point, plugin.name, bug) from bug
