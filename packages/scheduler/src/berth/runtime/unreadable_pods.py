"""Objects that cannot be read: each is logged once and, if it is a pod, reported to its owner by an event."""

import logging
from collections.abc import Callable

from berth.api.meta import ObjectReference
from berth.kube.changes import InvalidObject
from berth.kube.events import EventRecorder

_log = logging.getLogger("berth.scheduler")


class UnreadablePods:
    """The pods that cannot be read and whose owners have not been told, since nothing is written before we lead."""

    __slots__ = ("_may_write", "_recorder", "_untold")

    def __init__(self, recorder: EventRecorder, may_write: Callable[[], bool]) -> None:
        self._recorder = recorder
        self._may_write = may_write
        self._untold: dict[str, InvalidObject] = {}

    def set_aside(self, invalid: InvalidObject) -> None:
        """Log once that an object cannot be read; for a pod, also emit an event that its owner sees."""
        where = f"{invalid.namespace}/{invalid.name}" if invalid.namespace else invalid.name
        kept = "its last good state is used" if invalid.old is not None else "it is left out"
        _log.warning("%s %s cannot be read, so %s: %s", invalid.resource.kind, where, kept, invalid.problem)
        if invalid.resource.kind == "Pod":
            self._untold[where] = invalid
            self.tell()

    def tell(self) -> None:
        """Emit an event about each pod whose owner has not been told, if we may."""
        while self._may_write() and self._untold:
            invalid = self._untold.pop(next(iter(self._untold)))
            self._recorder.record(
                ObjectReference("v1", "Pod", invalid.namespace, invalid.name, invalid.uid),
                type="Warning",
                reason="FailedScheduling",
                action="Scheduling",
                note=f"the pod cannot be read by the scheduler: {invalid.problem}",
            )
