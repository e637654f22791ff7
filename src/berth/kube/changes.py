"""What a reflector tells its consumer: one struct for each kind of change."""

from typing import Any

import msgspec

from berth.api.resources import Resource


class Added(msgspec.Struct, frozen=True, gc=False):
    """An object that was not known before."""

    object: Any


class Modified(msgspec.Struct, frozen=True, gc=False):
    """A known object in a new state."""

    object: Any
    old: Any


class Deleted(msgspec.Struct, frozen=True, gc=False):
    """An object is gone, or no longer selected: its last state, as far as we saw it."""

    object: Any


class InvalidObject(msgspec.Struct, frozen=True):
    """An object that cannot be read, told once for each problem it has; it is otherwise left out.

    `old` is its last good state, which stays in force until it can be read again (`Modified`) or is deleted;
    None when it was never good, in which case a later good state comes as `Added`.
    """

    resource: Resource
    namespace: str
    name: str
    uid: str
    problem: str
    old: Any = None


class Synced(msgspec.Struct, frozen=True):
    """The first list is through: everything that exists has been told."""

    resource: Resource


Change = Added | Modified | Deleted | InvalidObject | Synced
