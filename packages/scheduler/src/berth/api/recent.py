"""Stores that drop what was asked for least recently: bounded in number, and in how much their keys say.

What is kept under something that people write into objects needs both bounds. Most objects say a kilobyte, so that a
number would do; but an object may say a megabyte, and a thousand of those are a gigabyte. So the caller that puts
something into a store says how large it is, in bytes of JSON, in which each object can be measured. In memory it takes
up about ten times as much.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Any, Generic, TypeVar

import msgspec

LARGE_BYTES = 32 << 10
"""Nothing is kept under what is larger than this; a pod with a hundred containers is smaller."""
BYTES_AT_MOST = 8 << 20
"""How much the keys of one store may say: those of four thousand pods of two kilobytes."""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Recent(Generic[K, T]):
    """Things by key. The one that was put there last is always kept, however large it is."""

    __slots__ = ("_bytes", "_entries", "at_most", "bytes_at_most")

    def __init__(self, at_most: int, bytes_at_most: int | None = None) -> None:
        """At most `at_most` things are kept, of together `bytes_at_most`."""
        self._entries: OrderedDict[K, tuple[T, int]] = OrderedDict()
        self._bytes = 0
        self.at_most = at_most
        self.bytes_at_most = BYTES_AT_MOST if bytes_at_most is None else bytes_at_most

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def get(self, key: K) -> T | None:
        """Return what is there under a key, or None; it is now the one asked for most recently."""
        found = self._entries.get(key)
        if found is None:
            return None
        self._entries.move_to_end(key)
        return found[0]

    def put(self, key: K, thing: T, size: int) -> Iterable[T]:
        """Keep a thing whose key, or which itself, says so many bytes; return what was dropped to make room."""
        entries = self._entries
        known = entries.pop(key, None)
        if known is not None:
            self._bytes -= known[1]
        entries[key] = thing, size
        self._bytes += size
        if len(entries) <= self.at_most and self._bytes <= self.bytes_at_most:
            return ()
        return self._make_room()

    def pop(self, key: K) -> T | None:
        """Forget a thing and return it, or None."""
        found = self._entries.pop(key, None)
        if found is None:
            return None
        self._bytes -= found[1]
        return found[0]

    def values(self) -> Iterable[T]:
        """Return the things, the one asked for least recently first."""
        return (thing for thing, _ in self._entries.values())

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._bytes = 0

    def _make_room(self) -> list[T]:
        dropped = []
        while len(self._entries) > 1 and (len(self._entries) > self.at_most or self._bytes > self.bytes_at_most):
            _, (thing, size) = self._entries.popitem(last=False)
            self._bytes -= size
            dropped.append(thing)
        return dropped


_ENCODER = msgspec.json.Encoder(enc_hook=lambda unknown: repr(type(unknown)))


def json_size(said: Any) -> int:
    """Return how many bytes something is as JSON, apart from objects that JSON knows nothing of."""
    return len(_ENCODER.encode(said))
