"""Tracks pods in PreBind, whose binding can still be called off.

PreBind may take minutes (volumes, devices). If the pod is deleted meanwhile, or a pod of higher priority needs its
room, there is no need to involve the API server: the binding cycle is interrupted where it waits, and releases the
room. One that waits for the answer to a write receives it first, so that what was written counts; if PreBind ends with
that answer, `end` says why the pod is still not bound. A pod past PreBind can no longer be called off; its Binding may
be on its way.
"""

from typing import Any

from berth.cycle.dispatcher import Dispatcher, Interruption
from berth.framework.effects import Steps


class PodsInPreBind:
    """Binding cycles that are in PreBind, by the pod's uid."""

    __slots__ = ("_called_off", "_dispatcher", "_steps")

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._steps: dict[str, Steps[Any]] = {}
        self._called_off: dict[str, tuple[Steps[Any], str]] = {}
        """Why a binding cycle is to be interrupted, by the pod's uid."""

    def __contains__(self, uid: str) -> bool:
        return uid in self._steps

    def uids(self) -> tuple[str, ...]:
        """The pods whose binding can be called off."""
        return tuple(self._steps)

    def begin(self, uid: str) -> None:
        """Note that the running generator is the binding cycle of this pod, and that its PreBind begins."""
        running = self._dispatcher.running
        if running is not None:
            self._steps[uid] = running

    def end(self, uid: str) -> str:
        """Note that PreBind is over, however it ended; return why the pod was called off, empty if it was not."""
        self._steps.pop(uid, None)
        steps, reason = self._called_off.pop(uid, (None, ""))
        if steps is not None:
            # PreBind has ended before the interruption reached it; it must not hit what comes next: cleaning up, or
            # Bind.
            self._dispatcher.let_go_on(steps)
        return reason

    def cancel(self, uid: str, reason: str) -> bool:
        """Call a binding off, as soon as nothing else is running; say whether there was one to call off."""
        # Removed at once, so that only one caller can call a pod off and be told so.
        steps = self._steps.pop(uid, None)
        if steps is None:
            return False
        self._called_off[uid] = (steps, reason)
        self._dispatcher.interrupt(steps, Interruption(reason))
        return True
