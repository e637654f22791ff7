"""Binding by an extender, instead of the Bind plugins. Source of the rules: pkg/scheduler/schedule_one.go.

What an extender reports about its binding is not trusted: the watch or the API server tells where the pod is.
"""

from berth.cycle.attempt import Attempt
from berth.cycle.confirmation import BindingConfirmer
from berth.framework.effects import PodRead, PodRef, ReadPod, Steps, WaitUntil, call
from berth.framework.extenders import ExtenderCallRecord, consult, interested, note
from berth.framework.status import Status, error
from berth.state.pod_info import PodInfo

FIRST_LOOK_AGAIN_S, LONGEST_LOOK_AGAIN_S = 1.0, 30.0
"""When to read a pod that an extender was to bind again, if it was on no node yet or could not be read."""


def bind_by_extender(
    attempt: Attempt, node_name: str, confirmer: BindingConfirmer
) -> Steps[tuple[bool, Status | None]]:
    """Let an extender that binds such pods bind it. Return whether one took it, and why it failed."""
    pod = attempt.pod
    for extender in interested(attempt.profile.extenders, "bind", pod):
        found = yield from consult(extender.bind_call(pod, node_name), extender.read_bind)
        problem = found.problem
        # A failure is taken at its word; that it bound the pod, or may have, is verified.
        if not problem or found.is_unknown:
            problem = yield from _verified(attempt.pod, node_name, problem, confirmer)
        note(attempt.state, ExtenderCallRecord(extender.name, "bind", problem, bool(problem) and extender.is_ignorable))
        if not problem:
            return True, None
        if not extender.is_ignorable:
            return True, error(problem)
    return False, None


def _verified(pod: PodInfo, node_name: str, problem: str, confirmer: BindingConfirmer) -> Steps[str]:
    """Find out whether an extender has bound the pod. With a `problem` that is unknown; without one, the extender
    claims it has.

    Return why not; empty if the pod is on the node. Only the watch or the API server is trusted. If neither can be
    asked, an extender that reports success is taken at its word, and `BindingConfirmer` comes back to the pod later.
    """
    delay_s, looks = FIRST_LOOK_AGAIN_S, 0
    while not confirmer.is_settled(pod.uid):
        answer = yield from call(ReadPod(PodRef.of(pod)))
        looks += 1
        if not answer.error:
            found: PodRead = answer.result
            if found.is_gone or found.node_name:
                yield from confirmer.take_in(pod, found)
                return _misplaced(found.node_name, node_name)
            # If the result was unknown, this settles it. After a success the Binding may be a moment late, so the pod
            # is read twice.
            if problem or looks > 1:
                return problem or f"it reports success, but pod {pod.key} is on no node"
        elif not problem:
            return ""
        # It may have answered before it bound the pod, or the API server cannot be asked: look again.
        yield WaitUntil(lambda: confirmer.is_settled(pod.uid), confirmer.now() + delay_s)
        delay_s = min(2 * delay_s, LONGEST_LOOK_AGAIN_S)
    return _misplaced(confirmer.node_of(pod.uid), node_name)


def _misplaced(found: str, node_name: str) -> str:
    if found == node_name:
        return ""
    return f"the pod is on node {found} instead" if found else "the pod is gone"
