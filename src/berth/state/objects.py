"""All other objects the scheduler reads, by kind and key, with a change counter for each kind.

Plugins look claims, services, classes and the like up here; memos remember the counters of the kinds they read.
What a plugin is about to write it notes in `assumed`, where `latest` looks first.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from berth.state.assumed import Assumptions
from berth.state.pod_info import PodInfo


class ObjectStore:
    """Objects by kind, then by `namespace/name` (or name)."""

    __slots__ = ("_objects", "_versions", "assumed")

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, Any]] = {}
        self._versions: dict[str, int] = {}
        self.assumed = Assumptions()

    def put(self, kind: str, obj: Any) -> Any | None:
        """Add or replace an object; return the one that was there before."""
        objects = self._objects.setdefault(kind, {})
        key = key_of(obj)
        old = objects.get(key)
        objects[key] = obj
        self._versions[kind] = self.version(kind) + 1
        return old

    def remove(self, kind: str, obj: Any) -> Any | None:
        """Take an object out; return the one that was there."""
        old = self._objects.get(kind, {}).pop(key_of(obj), None)
        if old is not None:
            self._versions[kind] = self.version(kind) + 1
        return old

    def get(self, kind: str, name: str, namespace: str = "") -> Any | None:
        """Return an object, or None."""
        return self._objects.get(kind, {}).get(f"{namespace}/{name}" if namespace else name)

    def latest(self, kind: str, name: str, namespace: str = "") -> Any | None:
        """Return an object as it is assumed to be, else as it is stored, or None."""
        return self.assumed.over(kind, f"{namespace}/{name}" if namespace else name, self.get(kind, name, namespace))

    def list(self, kind: str, namespace: str | None = None) -> Iterator[Any]:
        """Return the objects of a kind, of one namespace or of all."""
        objects: Iterable[Any] = self._objects.get(kind, {}).values()
        return (obj for obj in objects if namespace is None or obj.metadata.namespace == namespace)

    def version(self, kind: str) -> int:
        """Return how often objects of this kind have changed."""
        return self._versions.get(kind, 0)

    def versions(self, kinds: Iterable[str]) -> Mapping[str, int]:
        """Return the change counters of several kinds."""
        return {kind: self.version(kind) for kind in kinds}


def key_of(obj: Any) -> str:
    """Return the key of an object: `namespace/name`, or its name where it has no namespace."""
    if isinstance(obj, PodInfo):
        return obj.key
    meta = obj.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else str(meta.name)
