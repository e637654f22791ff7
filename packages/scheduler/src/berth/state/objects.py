"""All other objects the scheduler reads, by kind and key, with a change counter for each kind.

Plugins look up claims, services, classes and the like here; views remember the counters of the kinds they read. A
plugin notes what it is about to write in `assumed`, where `latest` looks first.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from berth.api.meta import Struct
from berth.api.read_only import make_read_only
from berth.state.assumed import Assumptions
from berth.state.ordering import put_in_order
from berth.state.pod_info import PodInfo

CHANGES_KEPT = 4096
"""At least this many changes of each kind are remembered."""


class ObjectStore:
    """Objects by kind, then by `namespace/name` (or name)."""

    __slots__ = ("_changes", "_heeded", "_objects", "_orders", "_versions", "assumed", "changes")

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, Any]] = {}
        self._orders: dict[str, tuple[str, ...]] = {}
        """The noted order of keys of each kind, until one comes or goes."""
        self._versions: dict[str, int] = {}
        self._changes: dict[str, list[str]] = {}
        self._heeded: dict[str, list[Callable[[Any | None, Any | None], None]]] = {}
        self.assumed = Assumptions()
        self.changes = 0
        """How often objects of any kind have changed."""

    def put(self, kind: str, obj: Any) -> Any | None:
        """Add or replace an object, whose maps become read-only; return the previous one."""
        make_read_only(obj if isinstance(obj, Struct) else obj.metadata)
        objects = self._objects.setdefault(kind, {})
        key = key_of(obj)
        old = objects.get(key)
        if old is None:
            self._orders.pop(kind, None)
        objects[key] = obj
        self._note(kind, key, obj)
        for heed in self._heeded.get(kind, ()):
            heed(old, obj)
        return old

    def remove(self, kind: str, obj: Any) -> Any | None:
        """Remove an object; return the one that was there."""
        key = key_of(obj)
        old = self._objects.get(kind, {}).pop(key, None)
        if old is not None:
            self._orders.pop(kind, None)
            self._note(kind, key, None)
            for heed in self._heeded.get(kind, ()):
                heed(old, None)
        return old

    def heed(self, kind: str, heed: Callable[[Any | None, Any | None], None]) -> None:
        """Register a function that is called with each changed object of a kind, as it was and as it is."""
        self._heeded.setdefault(kind, []).append(heed)

    def get(self, kind: str, name: str, namespace: str = "") -> Any | None:
        """Return an object, or None."""
        return self._objects.get(kind, {}).get(f"{namespace}/{name}" if namespace else name)

    def latest(self, kind: str, name: str, namespace: str = "") -> Any | None:
        """Return an object as it is assumed to be, otherwise as it is stored, or None."""
        return self.assumed.over(kind, f"{namespace}/{name}" if namespace else name, self.get(kind, name, namespace))

    def list(self, kind: str, namespace: str | None = None) -> Iterator[Any]:
        """Return the objects of a kind, of one namespace or of all."""
        objects: Iterable[Any] = self._objects.get(kind, {}).values()
        return (obj for obj in objects if namespace is None or obj.metadata.namespace == namespace)

    def count(self, kind: str) -> int:
        """Return how many objects of a kind there are."""
        return len(self._objects.get(kind, ()))

    def order(self) -> dict[str, tuple[str, ...]]:
        """Return the keys of the objects of each kind, in the order in which they came."""
        for kind, objects in self._objects.items():
            if kind not in self._orders:
                self._orders[kind] = tuple(objects)
        return dict(self._orders)

    def put_in_order(self, order: Mapping[str, Iterable[str]]) -> None:
        """Put objects into an earlier order."""
        for kind, keys in order.items():
            if self._orders.get(kind) is not keys:
                self._orders.pop(kind, None)
                put_in_order(self._objects[kind], keys)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of which there is or was an object."""
        return tuple(self._objects)

    def version(self, kind: str) -> int:
        """Return how often objects of this kind have changed."""
        return self._versions.get(kind, 0)

    def changed_since(self, kind: str, version: int) -> Sequence[str] | None:
        """Return the keys of objects of a kind that changed after this version; None if that is too long ago."""
        changes, ago = self._changes.get(kind, []), self.version(kind) - version
        # The version counts every change, also those that the list has forgotten, so the last `ago` entries are the
        # ones after it.
        return None if ago > len(changes) else changes[len(changes) - ago :]

    def versions(self, kinds: Iterable[str]) -> Mapping[str, int]:
        """Return the change counters of several kinds."""
        return {kind: self.version(kind) for kind in kinds}

    def _note(self, kind: str, key: str, stored: Any | None) -> None:
        """Count a change, and remember which object changed."""
        self._versions[kind] = self.version(kind) + 1
        self.changes += 1
        self.assumed.settle(kind, key, stored)
        changes = self._changes.setdefault(kind, [])
        changes.append(key)
        if len(changes) > 2 * CHANGES_KEPT:
            del changes[:CHANGES_KEPT]


def key_of(obj: Any) -> str:
    """Return the key of an object: `namespace/name`, or its name if it has no namespace."""
    if isinstance(obj, PodInfo):
        return obj.key
    meta = obj.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else str(meta.name)
