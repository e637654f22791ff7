"""The files of the decision log: one that grows, and sealed ones beside it, compressed and sorted.

For a log `decisions.jsonl` these are

    decisions.jsonl                 the latest lines, as they came
    decisions.jsonl.000007.gz       a sealed segment: lines sorted by pod, in compressed blocks
    decisions.jsonl.kept.gz         what is left of the oldest segments: lines of pods that still exist

Sealed files are plain gzip, so that `zcat` reads them. Each block is a gzip member whose header says how long it is (as
bgzip does), so that the blocks with one pod's lines are found by binary search, and nothing else is decompressed. Lines
are sorted as bytes; each begins with pod and uid (`stories.LogEntry`).
"""

import contextlib
import fcntl
import os
import re
import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

BLOCK_BYTES = 64 * 1024
"""How much text is compressed together: enough to compress well, little enough to read for one pod."""
_MEMBER = struct.Struct("<4sLBBH2sHL")
_MAGIC = b"\x1f\x8b\x08\x04"  # gzip, deflate, with an extra field
_SUBFIELD = b"BE"
_EXTRA_BYTES = 8
_TRAILER = struct.Struct("<LL")
_NUMBERED = re.compile(r"\.(\d{6,})\.gz")
KEPT = ".kept.gz"


class DamagedSegmentError(ValueError):
    """A sealed file that is not what was written."""


class SegmentStorage(Protocol):
    """Files by suffix, `""` for the growing one. Every method may raise OSError."""

    def suffixes(self) -> list[str]:
        """Return which there are."""

    def size(self, suffix: str) -> int:
        """Return how many bytes a file has, 0 if there is none."""

    def read(self, suffix: str, offset: int = 0, count: int = -1) -> bytes:
        """Return part of a file, or all of it; nothing if there is none."""

    def append(self, data: bytes) -> None:
        """Append to the growing file."""

    def replace(self, suffix: str, parts: Iterable[bytes]) -> None:
        """Replace a file as a whole; on failure, the old one is still there."""

    def remove(self, suffix: str) -> None:
        """Remove a file, if it exists."""

    def close(self) -> None:
        """Give the files up."""


class LogInUseError(OSError):
    """Another process writes this log."""


class Files:
    """The files of one log, which one process writes; only its user may read them, for messages quote objects."""

    __slots__ = ("_lock", "path")

    def __init__(self, path: Path) -> None:
        """Take the log over. Raises OSError, and `LogInUseError` if another process has it."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path = path
        self._lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._end_last_line()
        except BlockingIOError:
            os.close(self._lock)
            raise LogInUseError(f"another scheduler writes {path}") from None
        except OSError:
            os.close(self._lock)
            raise

    def suffixes(self) -> list[str]:
        """Return which there are; temporary files of a process that died are not among them."""
        name = self.path.name
        found = [entry.name.removeprefix(name) for entry in self.path.parent.iterdir() if entry.name.startswith(name)]
        return sorted(suffix for suffix in found if suffix in ("", KEPT) or _NUMBERED.fullmatch(suffix))

    def size(self, suffix: str) -> int:
        """Return a file's size."""
        try:
            return self._at(suffix).stat().st_size
        except FileNotFoundError:
            return 0

    def read(self, suffix: str, offset: int = 0, count: int = -1) -> bytes:
        """Return part of a file."""
        try:
            with self._at(suffix).open("rb") as file:
                file.seek(offset)
                return file.read(count)
        except FileNotFoundError:
            return b""

    def append(self, data: bytes) -> None:
        """Append, or leave the file as it was if that fails half way."""
        with os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab", buffering=0) as file:
            before = os.fstat(file.fileno()).st_size
            written = 0
            try:
                while written < len(data):
                    written += file.write(data[written:])
            except OSError:
                with contextlib.suppress(OSError):
                    file.truncate(before)
                raise

    def replace(self, suffix: str, parts: Iterable[bytes]) -> None:
        """Write beside the old file and rename."""
        temporary = self._at(f"{suffix}.tmp")
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                for part in parts:
                    file.write(part)
            temporary.rename(self._at(suffix))
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise

    def remove(self, suffix: str) -> None:
        """Remove a file."""
        self._at(suffix).unlink(missing_ok=True)

    def close(self) -> None:
        """Release the log; no other method may be called afterwards."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def _at(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)

    def _end_last_line(self) -> None:
        """Cut off the half-written line of a process that died."""
        size = self.size("")
        if not size or self.read("", size - 1) == b"\n":
            return
        whole = self.read("")
        with self.path.open("r+b") as file:
            file.truncate(whole.rfind(b"\n") + 1)


class InMemory:
    """The same in memory, for when no files can be written."""

    __slots__ = ("_files",)

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    def suffixes(self) -> list[str]:
        """Return which there are."""
        return sorted(self._files)

    def size(self, suffix: str) -> int:
        """Return how much there is."""
        return len(self._files.get(suffix, b""))

    def read(self, suffix: str, offset: int = 0, count: int = -1) -> bytes:
        """Return part of it."""
        whole = self._files.get(suffix, b"")
        return whole[offset:] if count < 0 else whole[offset : offset + count]

    def append(self, data: bytes) -> None:
        """Append."""
        self._files[""] = self._files.get("", b"") + data

    def replace(self, suffix: str, parts: Iterable[bytes]) -> None:
        """Write anew."""
        self._files[suffix] = b"".join(parts)

    def remove(self, suffix: str) -> None:
        """Remove."""
        self._files.pop(suffix, None)

    def close(self) -> None:
        """Nothing to do."""


def numbered(suffix: str) -> int:
    """Return the number of a sealed segment, 0 for other files."""
    found = _NUMBERED.fullmatch(suffix)
    return int(found[1]) if found else 0


def suffix_of(number: int) -> str:
    """Return the suffix of a sealed segment."""
    return f".{number:06}.gz"


# --- blocks -----------------------------------------------------------------------------------------------------------


def compressed(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Return sorted lines, each with its newline, as gzip members."""
    block: list[bytes] = []
    size = 0
    for line in lines:
        block.append(line)
        size += len(line)
        if size >= BLOCK_BYTES:
            yield _member(b"".join(block))
            block, size = [], 0
    if block:
        yield _member(b"".join(block))


def _member(text: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = packer.compress(text) + packer.flush()
    size = _MEMBER.size + len(body) + _TRAILER.size
    head = _MEMBER.pack(_MAGIC, 0, 0, 255, _EXTRA_BYTES, _SUBFIELD, 4, size)
    return head + body + _TRAILER.pack(zlib.crc32(text), len(text) & 0xFFFFFFFF)


class _Block(NamedTuple):
    offset: int
    size: int


class Sealed:
    """A sealed file and where its blocks begin, read on first use."""

    __slots__ = ("_blocks", "_firsts", "_storage", "suffix")

    def __init__(self, storage: SegmentStorage, suffix: str) -> None:
        self._storage = storage
        self.suffix = suffix
        self._blocks: list[_Block] | None = None
        self._firsts: list[bytes] = []

    def find(self, prefix: bytes) -> list[bytes]:
        """Return the lines that begin like this. Raises `DamagedSegmentError`, OSError."""
        blocks = self._indexed()
        found: list[bytes] = []
        at = max(0, bisect_left(self._firsts, prefix) - 1)
        while at < len(blocks) and (self._firsts[at] <= prefix or self._firsts[at].startswith(prefix)):
            found += [line for line in self._lines(blocks[at]) if line.startswith(prefix)]
            at += 1
        return found

    def __iter__(self) -> Iterator[bytes]:
        """Yield all lines in order, each with its newline."""
        for block in self._indexed():
            yield from self._lines(block)

    def _lines(self, block: _Block) -> list[bytes]:
        return self._text(block).splitlines(keepends=True)

    def _text(self, block: _Block, at_most: int = 0) -> bytes:
        data = self._storage.read(self.suffix, block.offset, block.size)
        try:
            return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(data, at_most)
        except zlib.error as error:
            raise DamagedSegmentError(f"{self.suffix}: {error}") from None

    def _indexed(self) -> list[_Block]:
        if self._blocks is None:
            self._blocks = list(self._walk())
            # The beginning of the first line of each block is enough to locate a pod's lines.
            self._firsts = [self._text(block, at_most=1024).partition(b"\n")[0] for block in self._blocks]
        return self._blocks

    def _walk(self) -> Iterator[_Block]:
        offset, end = 0, self._storage.size(self.suffix)
        while offset < end:
            head = self._storage.read(self.suffix, offset, _MEMBER.size)
            if len(head) < _MEMBER.size:
                raise DamagedSegmentError(f"{self.suffix} ends in the middle of a block")
            magic, *_, extra, field, _, size = _MEMBER.unpack(head)
            if (magic, extra, field) != (_MAGIC, _EXTRA_BYTES, _SUBFIELD) or not _MEMBER.size < size <= end - offset:
                raise DamagedSegmentError(f"{self.suffix} has no block at byte {offset}")
            yield _Block(offset, size)
            offset += size
