"""A plugin's answer about a pod or a node: a value, never an exception. `None` stands for success everywhere."""

from collections.abc import Iterable, Sequence
from enum import IntEnum

import msgspec


class Code(IntEnum):
    """The kinds of status; `label` is the name used in messages, metrics and records."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6

    @property
    def label(self) -> str:
        """The code's name as Kubernetes writes it."""
        return _LABELS[self]

    @property
    def is_rejection(self) -> bool:
        """Say whether the code means "not here" or "not now", as opposed to an error."""
        return self in _REJECTIONS


_LABELS = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}
_REJECTIONS = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})


class Status(msgspec.Struct, frozen=True):
    """A code, why, and the plugin that said so (filled in by the framework)."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    lacking: tuple[str, ...] = ()
    """The resources of which the node has too little left, if that is among the reasons; `pods` is room for another
    pod.
    """
    in_general: tuple[str, ...] = ()
    """The same reasons without the node's name, if they contain it: shown when many nodes are rejected like this."""

    @property
    def without_names(self) -> "Status":
        """The same status with its reasons in general terms, if it has any such."""
        return msgspec.structs.replace(self, reasons=self.in_general, in_general=()) if self.in_general else self

    @property
    def message(self) -> str:
        """The reasons as one text."""
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> "Status":
        """Return the same status, said by `plugin`."""
        return msgspec.structs.replace(self, plugin=plugin)


SKIP = Status(Code.SKIP)


def unschedulable(*reasons: str, in_general: tuple[str, ...] = ()) -> Status:
    """The pod does not fit now; room may be made by removing pods."""
    return Status(Code.UNSCHEDULABLE, reasons, in_general=in_general)


def unresolvable(*reasons: str, in_general: tuple[str, ...] = ()) -> Status:
    """The pod does not fit, and removing pods would not help."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons, in_general=in_general)


def error(*reasons: str) -> Status:
    """Something is broken; the pod is tried again after a backoff."""
    return Status(Code.ERROR, reasons)


def merged(statuses: Sequence[Status]) -> Status:
    """Merge what several plugins say about one node: an error alone, otherwise all reasons under the gravest code.

    Source: pkg/scheduler/framework, PluginToStatus.Merge, v1.20. `statuses` holds at least one; the result names the
    first one's plugin.
    """
    broken = next((status for status in statuses if not status.code.is_rejection), None)
    if broken is not None:
        return broken
    grave = any(status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE for status in statuses)
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if grave else Code.UNSCHEDULABLE
    lacking = tuple(name for status in statuses for name in status.lacking)
    names_node = any(status.in_general for status in statuses)
    in_general = _reasons(status.without_names for status in statuses) if names_node else ()
    return Status(code, _reasons(statuses), statuses[0].plugin, lacking, in_general)


def _reasons(statuses: Iterable[Status]) -> tuple[str, ...]:
    return tuple(reason for status in statuses for reason in status.reasons)


def is_success(status: Status | None) -> bool:
    """Say whether a status means success."""
    return status is None or status.code is Code.SUCCESS
