"""Objects as they will be once pending writes have been carried out.

Plugins that decide about objects other than pods (claims, volumes) note here what they are about to write, so that the
next pod's decision takes it into account; `ObjectStore.latest` looks here first. An assumption holds for one state of
the object: once the watch brings another, the watch is right.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from berth.api.read_only import make_read_only


class _Assumption(NamedTuple):
    base: Any
    """The object that the assumption changes."""
    obj: Any


class Assumptions:
    """Assumed objects by kind and key."""

    __slots__ = ("_by_kind",)

    def __init__(self) -> None:
        self._by_kind: dict[str, dict[str, _Assumption]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_kind.values()))

    def put(self, kind: str, key: str, base: Any, obj: Any) -> None:
        """Assume `obj` in place of `base`, the stored object; its maps are read-only from then on."""
        make_read_only(obj)
        self._by_kind.setdefault(kind, {})[key] = _Assumption(base, obj)

    def drop(self, kind: str, key: str) -> None:
        """Drop the assumption about an object."""
        self._by_kind.get(kind, {}).pop(key, None)

    def keys(self, kind: str) -> Iterable[str]:
        """Return the keys of a kind's objects for which there is an assumption."""
        return self._by_kind.get(kind, {}).keys()

    def settle(self, kind: str, key: str, stored: Any | None) -> None:
        """Forget an assumption whose base the store no longer holds: the newer object is right."""
        assumed = self._by_kind.get(kind, {}).get(key)
        if assumed is not None and (stored is None or not _is_same_state(assumed.base, stored)):
            self.drop(kind, key)

    def over(self, kind: str, key: str, stored: Any | None) -> Any | None:
        """Return the assumed object if the assumption's base is what is stored, otherwise what is stored."""
        assumed = self._by_kind.get(kind, {}).get(key)
        if assumed is None or stored is None or not _is_same_state(assumed.base, stored):
            return stored
        return assumed.obj


def _is_same_state(base: Any, stored: Any) -> bool:
    if base is stored:
        return True
    before, now = base.metadata, stored.metadata
    # Two objects without a version may be in different states, so they count as the same only if they are identical.
    return bool(before.resource_version) and (before.uid, before.resource_version) == (now.uid, now.resource_version)
