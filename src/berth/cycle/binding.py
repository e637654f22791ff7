"""From a chosen node to a bound pod: Reserve and Permit in the scheduling cycle, the rest beside the next cycles.

`bind_pod` is a generator: it yields what it must wait for (Permit, PreBind's writes, the Binding) and returns None
when the pod is bound, or the status that stopped it. Undoing what was reserved is its caller's duty.
"""

from collections.abc import Callable, Generator
from typing import Any

from berth.config.types import ExtensionPoint as Point
from berth.cycle.attempt import Attempt
from berth.cycle.extending import bind_by_extender
from berth.engine.profile import Profile
from berth.framework.blame import PluginBrokenError, ask, blamed
from berth.framework.effects import WaitUntil
from berth.framework.status import Code, Status, error, is_success
from berth.framework.waiting_pods import TODAYS_WORDING, PermitWording, WaitingPod
from berth.state.cache import Cache

BindSteps = Generator[Any, Any, Status | None]

UNSUPPORTED = (
    'PreBindPreFlight {plugin} returned "{code}", which is unsupported. '
    "It is supposed to return Success, Skip, or Error status"
)


def reserve_and_permit(
    cache: Cache, attempt: Attempt, node_name: str, wording: PermitWording = TODAYS_WORDING
) -> tuple[Status | None, dict[str, float]]:
    """Assume the pod, then run Reserve and Permit. Return a failure, or Permit's timeouts where the pod must wait."""
    profile, state, pod = attempt.profile, attempt.state, attempt.pod
    cache.assume(pod, node_name)
    status = profile.run_reserve(state, pod, node_name)
    if status is not None:
        return status, {}
    permitted = profile.run_permit(state, pod, node_name)
    if permitted.status is None or permitted.status.code is Code.WAIT:
        return None, dict(permitted.timeouts_s)
    return wording.of_rejection(permitted.status, pod), {}


def undo(cache: Cache, attempt: Attempt, node_name: str) -> None:
    """Give back what was reserved, in reverse order, and forget the pod."""
    try:
        attempt.profile.run_unreserve(attempt.state, attempt.pod, node_name)
    finally:  # whatever a plugin does, the room is given back
        cache.forget(attempt.pod.uid)


def bind_pod(
    attempt: Attempt,
    node_name: str,
    waiting: WaitingPod | None,
    permit_over: Callable[[Status | None], None],
    wording: PermitWording = TODAYS_WORDING,
) -> BindSteps:
    """Wait for Permit, then PreBind, and Bind by an extender or by plugins; `permit_over` is told Permit's verdict."""
    if waiting is not None:
        while not waiting.is_settled:
            yield WaitUntil(lambda: waiting.is_settled, min(waiting.deadlines.values()))
        permit_over(waiting.verdict)
        if waiting.verdict is not None:
            return wording.of_wait(waiting.verdict, attempt.pod)
    else:
        permit_over(None)
    status = yield from _pre_bind(attempt, node_name)
    if status is None:
        status = yield from _bind(attempt, node_name)
    return status


def will_wait(profile: Profile, attempt: Attempt, node_name: str) -> Status | bool:
    """Say whether any PreBind plugin announces work for this pod, or the status of a pre-flight that failed.

    Those that have none are noted, and left out of PreBind.
    """
    announced = False
    for plugin in profile.busy(Point.PRE_BIND, attempt.state):
        pre_flight = getattr(plugin, "pre_bind_pre_flight", None)
        if pre_flight is None:
            announced = True
            continue
        status = ask("PreBindPreFlight", plugin, pre_flight, attempt.state, attempt.pod, node_name)
        if status is not None and status.code is Code.SKIP:
            attempt.state.skip_pre_bind.add(plugin.name)
        elif is_success(status):
            announced = True
        elif status.code is Code.ERROR:
            return blamed("PreBindPreFlight", plugin.name, status)
        else:
            return error(UNSUPPORTED.format(plugin=plugin.name, code=status.code.label))
    return announced


def _pre_bind(attempt: Attempt, node_name: str) -> BindSteps:
    for plugin in attempt.profile.busy(Point.PRE_BIND, attempt.state):
        if plugin.name in attempt.state.skip_pre_bind:
            continue
        status = yield from _run("PreBind", plugin, plugin.pre_bind, attempt, node_name)
        if not is_success(status) and status is not None and status.code is not Code.SKIP:
            return blamed("PreBind", plugin.name, status)
    return None


def _bind(attempt: Attempt, node_name: str) -> BindSteps:
    if attempt.profile.extenders:
        is_taken, status = yield from bind_by_extender(attempt, node_name)
        if is_taken:
            return status
    return (yield from bind_by_plugins(attempt, node_name))


def bind_by_plugins(attempt: Attempt, node_name: str) -> BindSteps:
    """Bind by the first plugin that does not Skip."""
    for plugin in attempt.profile.at(Point.BIND):
        status = yield from _run("Bind", plugin, plugin.bind, attempt, node_name)
        if status is not None and status.code is Code.SKIP:
            continue
        return None if is_success(status) or status is None else blamed("Bind", plugin.name, status)
    return error("no Bind plugin took the pod: enable DefaultBinder, or another that does not Skip")


def _run(point: str, plugin: Any, method: Callable[..., Any], attempt: Attempt, node_name: str) -> BindSteps:
    try:
        answer = method(attempt.state, attempt.pod, node_name)
        if isinstance(answer, Generator):
            answer = yield from answer
        return answer  # type: ignore[no-any-return]
    except Exception as bug:
        raise PluginBrokenError(point, plugin.name, bug) from bug
