"""The changes that a reflector hands to its sink: one struct for each kind."""

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
    """An object that is gone, or no longer selected, in the last state that was handed on."""

    object: Any


class InvalidObject(msgspec.Struct, frozen=True):
    """An object that cannot be read; reported once for each problem with it.

    `old` is its last good state, which stays in force until the object can be read again (`Modified`) or is deleted. It
    is None if no state could ever be read; a later good state then comes as `Added`.
    """

    resource: Resource
    namespace: str
    name: str
    uid: str
    problem: str
    old: Any = None
    resource_version: str = ""


class Custom(msgspec.Struct, frozen=True, gc=False):
    """A change of an object of a custom resource, which the object's type does not identify."""

    resource: str
    change: Added | Modified | Deleted


class Synced(msgspec.Struct, frozen=True):
    """Everything that existed when the first list was made has been handed on."""

    resource: Resource


Change = Added | Modified | Deleted | Custom | InvalidObject | Synced
