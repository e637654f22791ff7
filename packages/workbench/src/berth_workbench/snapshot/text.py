"""Bytes of files, bounded: what a small compressed file may unpack to, and what a text file plainly is not.

`documents` reads everything through `read_bytes` or, line by line, through `opened`.
"""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from berth.api.user_error import UserError

GZIP = b"\x1f\x8b"
MAX_BYTES = 4 << 30
"""No file may hold more than this once unpacked: 100,000 pods as kubectl prints them are about a quarter of it."""
FREE_BYTES = 256 << 20
MAX_RATIO = 200
"""A compressed file of b bytes may unpack to `FREE_BYTES` + `MAX_RATIO` b. The snapshot of a cluster whose pods are all
the same unpacks to about 50 times its size, zeros to 1,030 times."""
MAX_LINE = 32 << 20
"""An object of a snapshot may have this many bytes; API servers take 3 MiB."""

_FOREIGN = (
    (b"PK\x03\x04", "a zip archive"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd"),
    (b"\xfd7zXZ\x00", "compressed with xz"),
    (b"BZh", "compressed with bzip2"),
    (b"PAR1", "a Parquet file"),
    (b"SQLite format 3\x00", "an SQLite database"),
)
_TAR_MAGIC = slice(257, 262)
_BOLT_MAGIC = slice(16, 20)


class SnapshotError(UserError, ValueError):
    """What was given cannot be read as objects; the message is one line that says which file, which object, and why."""


class Bounded(io.RawIOBase):
    """Reads from a stream, and raises `SnapshotError` where more comes than the bound allows."""

    def __init__(self, stream: BinaryIO, limit: int, source: str) -> None:
        self._stream = stream
        self._left = limit
        self.limit = limit
        self._source = source

    def readable(self) -> bool:
        """It is for reading."""
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Read what there is, as much as the buffer takes."""
        try:
            count = self._stream.readinto(buffer)  # type: ignore[attr-defined]
        except (OSError, EOFError, zlib.error) as error:
            raise SnapshotError(f"{self._source}: {_reason(error)}") from None
        self._left -= count
        if self._left < 0:
            raise SnapshotError(
                f"{self._source}: it unpacks to more than {self.limit >> 20} MiB, which no cluster's objects do"
                if self.limit < MAX_BYTES
                else f"{self._source}: it holds more than {MAX_BYTES >> 30} GiB"
            )
        return int(count)


def _reason(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "the compressed file is cut short"
    if isinstance(error, zlib.error | gzip.BadGzipFile):
        return f"the compressed file is damaged: {error}"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


@contextmanager
def opened(file: Path) -> Iterator[io.BufferedReader]:
    """Open a file for reading its bytes, unpacked where it is compressed. Raises `SnapshotError`, reading does too."""
    try:
        with file.open("rb") as raw:
            yield unpacked(raw, str(file), file.stat().st_size)
    except OSError as error:
        raise SnapshotError(f"{file}: {_reason(error)}") from None


def unpacked(given: BinaryIO, source: str, size: int | None = None) -> io.BufferedReader:
    """Return a stream of the bytes unpacked, within the bounds; `size` is that of the stream, where it is known."""
    stream = io.BufferedReader(given)  # type: ignore[type-var]
    if stream.peek(2)[:2] != GZIP:
        return io.BufferedReader(Bounded(stream, MAX_BYTES, source), 1 << 20)
    limit = MAX_BYTES if size is None else min(MAX_BYTES, FREE_BYTES + MAX_RATIO * size)
    packed = gzip.GzipFile(fileobj=stream)
    return io.BufferedReader(Bounded(packed, limit, source), 1 << 20)  # type: ignore[arg-type]


def room_of(stream: io.BufferedReader) -> int:
    """Return how many bytes what a stream of `unpacked` holds may take, with all that is made of it."""
    return stream.raw.limit if isinstance(stream.raw, Bounded) else MAX_BYTES


def refuse_foreign(start: bytes, source: str) -> None:
    """Raise `SnapshotError` for what is plainly no text, from the start of a file; say what it is where that shows."""
    found = next((what for magic, what in _FOREIGN if start.startswith(magic)), "")
    if not found and start[_TAR_MAGIC] == b"ustar":
        found = "a tar archive; give the directory that it unpacks to"
    if not found and start[_BOLT_MAGIC] in (b"\xed\xda\x0c\xed", b"\xed\x0c\xda\xed"):
        found = "a database of etcd; restore it, and take the snapshot from its API server"
    if found or b"\0" in start:
        raise SnapshotError(f"{source}: neither JSON nor YAML{f', but {found}' if found else ': it is binary'}")
