"""The pods of a case that have got a node: held back by Permit, let go, thrown out again, or bound.

`decide.py` calls it after each choice. Nothing is asked of an API server: a pod that Permit approves stays assumed or,
where the case says `bound`, is bound at once, and plugins hear of it as they would from a watch.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from berth.core.core import Core
from berth.core.intake import ObjectEvent
from berth.cycle.attempt import Attempt
from berth.cycle.binding_cycle import undo
from berth.engine.profile import Permitted
from berth.framework.blame import contained, status_of
from berth.framework.status import Code, Status
from berth.framework.waiting_pods import WaitingPod, of_one_node
from berth.state.pod_info import PodInfo
from berth_workbench.cases.cases import Json


class Taken(NamedTuple):
    """The result of a choice: what Permit said if it was asked, or a refusal that leaves nothing behind."""

    refusal: Status | None = None
    permitted: Permitted | None = None
    reserved: Status | None = None
    """Reserve's refusal, in its own words."""


class Settled(NamedTuple):
    """The waits that a step has ended: pods let go, by key, and those thrown out, with plugin and reason."""

    allowed: Sequence[str] = ()
    rejected: Sequence[Json] = ()

    def shown(self) -> Json:
        """Return what a decision shows of it."""
        return {"allowed": sorted(self.allowed), "rejected": sorted(self.rejected, key=lambda each: each["pod"])}


class Placements:
    """The pods that have a node."""

    __slots__ = ("_binds", "_core", "_waits")

    def __init__(self, core: Core, *, binds: bool = False) -> None:
        self._core = core
        self._binds = binds
        self._waits: dict[str, tuple[Attempt, WaitingPod]] = {}
        """Those that wait, by uid, in the order in which they began. The core takes those whose wait is over out of its
        own list whenever it is told of anything, so that list is not all there is."""

    def standing(self, pod: PodInfo) -> str:
        """Say whether a pod is `placed` or `waiting`; "" where it has no node."""
        if pod.uid in self._waits:
            return "waiting"
        return "" if self._core.cache.state_of(pod.uid) is None else "placed"

    def take(self, attempt: Attempt, node_name: str) -> Taken:
        """Put a pod in its place, where it stays if Permit holds it."""
        profile, pod, state = attempt.profile, attempt.pod, attempt.state
        permitted: Permitted | None = None
        reserved: Status | None = None
        try:
            self._core.cache.assume(pod, node_name)
            refusal = reserved = profile.run_reserve(state, pod, node_name)
            if refusal is None:
                permitted = profile.run_permit(state, pod, node_name)
                refusal = _refusal_of(permitted)
        except BaseException as raised:
            refusal = status_of(contained(raised))
        if refusal is not None:
            self._undo(attempt, node_name)
            return Taken(of_one_node(refusal), permitted, reserved)
        self._core.nominator.withdraw(pod.uid)
        if permitted is not None and permitted.timeouts_s:
            now = self._core.now
            deadlines = {plugin: now + timeout_s for plugin, timeout_s in permitted.timeouts_s.items()}
            waiting = WaitingPod(pod, node_name, deadlines, now, permitted.words)
            self._core.waiting.add(waiting)
            self._waits[pod.uid] = attempt, waiting
        else:
            self._bind(attempt, node_name)
        return Taken(None, permitted)

    def time_out(self) -> str:
        """End the wait of the pod that waits longest, whose time is up; return its key, or "" where nobody waits."""
        if not self._waits:
            return ""
        _, waiting = next(iter(self._waits.values()))
        waiting.time_out(min(waiting.deadlines.values()))
        return waiting.pod.key

    def settle(self) -> Settled:
        """Carry out what plugins have said of pods that wait; what Unreserve says of others is carried out as well."""
        allowed, rejected = [], []
        while settled := [(attempt, waiting) for attempt, waiting in self._waits.values() if waiting.is_settled]:
            for attempt, waiting in settled:
                del self._waits[waiting.pod.uid]
                self._core.waiting.remove(waiting.pod.uid)
                if (verdict := waiting.verdict) is None:
                    allowed.append(waiting.pod.key)
                    self._bind(attempt, waiting.node_name)
                else:
                    rejected.append({"pod": waiting.pod.key, "plugin": verdict.plugin, "reason": verdict.message})
                    self._undo(attempt, waiting.node_name)
        return Settled(allowed, rejected)

    def _bind(self, attempt: Attempt, node_name: str) -> None:
        """Bind a pod, where the case says so."""
        if not self._binds:
            return
        pod = attempt.pod.pod
        for plugin in attempt.profile.post_bind:
            plugin.post_bind(attempt.state, attempt.pod, node_name)
        bound = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node_name))
        self._core.handle(ObjectEvent("MODIFIED", "Pod", bound), self._core.now)

    def _undo(self, attempt: Attempt, node_name: str) -> None:
        try:
            undo(self._core.cache, attempt, node_name)
        except BaseException as raised:  # the place is free even so
            contained(raised)


def permit_of(permitted: Permitted) -> Json:
    """Return what a decision shows of Permit."""
    status, timeouts_s = permitted.status, permitted.timeouts_s
    if status is None:
        return {"code": Code.SUCCESS.label}
    shown: Json = {"code": status.code.label, "plugin": status.plugin, "reasons": sorted(status.reasons)}
    if timeouts_s:
        # The first to run out ends the wait.
        plugin = min(timeouts_s, key=timeouts_s.__getitem__)
        shown |= {"plugin": plugin, "timeoutSeconds": int(timeouts_s[plugin])}
    return {key: value for key, value in shown.items() if value}


def _refusal_of(permitted: Permitted) -> Status | None:
    status = permitted.status
    return None if status is None or status.code is Code.WAIT else status
