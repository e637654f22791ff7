"""The decision log: the stories of pods on disk, within a bound, for as long as the pods live.

Lines are appended to one file. Once that is large it is sealed: sorted by pod and compressed (`segments`). When all
files together exceed the bound, the oldest segments are merged into one that keeps only pods that still exist
(`make_room`), each story condensed. So the log holds everything recent, and the story of every existing pod however
old, unless these alone exceed half of the bound: then those that have gone longest without news are dropped, and the
log says so.

Trouble with the files is reported once, and affects nothing else: nothing here raises. The methods may be called from
any thread; one runs at a time, and each may take as long as the disk does.
"""

import logging
import threading
from collections.abc import Iterable, Iterator, Set
from heapq import merge
from itertools import groupby

import msgspec

from berth.api.untrusted import UNREADABLE
from berth.decisions.log_segments import (
    KEPT,
    DamagedSegmentError,
    InMemory,
    Sealed,
    SegmentStorage,
    compressed,
    numbered,
    suffix_of,
)
from berth.decisions.stories import LogEntry, Story, StoryStep, condensed

DEFAULT_BYTES = 128 * 1024 * 1024
LEAST_BYTES = 64 * 1024
SEAL_BYTES = 8 * 1024 * 1024
"""How large the growing file becomes, unless the bound is small."""
UNWRITTEN_BYTES = 4 * 1024 * 1024
"""How much is held in memory while the file cannot be written."""
SHARE_OF_THE_LIVING = 0.5
FILL_TO = 0.9
"""How full the log is after making room, so that this is not necessary at every segment."""

_log = logging.getLogger("berth.scheduler")
_entries = msgspec.json.Decoder(LogEntry)


class DecisionLog:
    """Keeps stories within a bound."""

    __slots__ = ("_lock", "_next", "_problem", "_sealed", "_storage", "_unwritten", "_was_short", "limit", "lost")

    def __init__(self, storage: SegmentStorage | None = None, limit_bytes: int = DEFAULT_BYTES) -> None:
        """Continue with what is in the storage; without one, keep everything in memory."""
        self.limit = max(limit_bytes, LEAST_BYTES)
        self.lost = 0
        """How many lines could not be written."""
        self._storage = storage or InMemory()
        self._lock = threading.Lock()
        self._unwritten = b""
        self._problem = ""
        self._was_short = False
        self._sealed: dict[str, Sealed] = {}
        self._next = 1
        try:
            for suffix in self._storage.suffixes():
                if suffix:
                    self._sealed[suffix] = Sealed(self._storage, suffix)
                    self._next = max(self._next, numbered(suffix) + 1)
        except OSError as error:
            self._failed(error)

    @property
    def size(self) -> int:
        """How many bytes the files have."""
        return sum(self._storage.size(suffix) for suffix in ("", *self._sealed))

    @property
    def seal_bytes(self) -> int:
        """How large the growing file may be: at most a quarter of the bound."""
        return min(SEAL_BYTES, self.limit // 4)

    def is_full(self) -> bool:
        """Say whether room has to be made."""
        try:
            with self._lock:
                return self.size > self.limit
        except OSError:
            return False

    def write(self, entries: Iterable[LogEntry]) -> None:
        """Append what happened, and seal the file once it is large."""
        text = b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
        with self._lock:
            self._unwritten += text
            if not self._unwritten:
                return
            try:
                self._storage.append(self._unwritten)
                self._unwritten = b""
                if self._problem:
                    _log.warning("the decision log is written again")
                    self._problem = ""
                if self._storage.size("") >= self.seal_bytes:
                    self._seal()
            except OSError as error:
                self._failed(error)
                self._hold_back()

    def find(self, key: str) -> list[Story]:
        """Return what is known about a pod, for each of its lives, latest last."""
        prefix = b'{"pod":' + msgspec.json.encode(key) + b","
        with self._lock:
            lines = [line for sealed in self._sealed.values() for line in self._lines_in(sealed, prefix)]
            try:
                latest = self._storage.read("") + self._unwritten
            except OSError as error:
                self._failed(error)
                latest = self._unwritten
        lines += _lines_with(latest, prefix)
        steps: dict[str, list[StoryStep]] = {}
        for entry in _decoded(lines):
            steps.setdefault(entry.uid, []).extend(entry.steps)
        lives = [Story(key, uid, condensed(sorted(told, key=_time))) for uid, told in steps.items() if told]
        return sorted(lives, key=lambda story: story.steps[0].at)

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            self._storage.close()

    def _lines_in(self, sealed: Sealed, prefix: bytes) -> list[bytes]:
        try:
            return sealed.find(prefix)
        except (DamagedSegmentError, OSError) as error:
            self._failed(error)
            return []

    def _hold_back(self) -> None:
        """Keep what could not be written for a while; the oldest goes first."""
        if len(self._unwritten) > UNWRITTEN_BYTES:
            cut = self._unwritten.find(b"\n", len(self._unwritten) - UNWRITTEN_BYTES // 2) + 1
            self.lost += self._unwritten.count(b"\n", 0, cut)
            self._unwritten = self._unwritten[cut:]

    def _failed(self, error: Exception) -> None:
        """Report a problem, once."""
        if not self._problem:
            _log.warning("the decision log cannot be used; scheduling goes on without it: %s", error)
        self._problem = str(error)

    # -- sealing and merging -----------------------------------------------------------------------------------------

    def _seal(self) -> None:
        lines = sorted(self._storage.read("").splitlines(keepends=True))
        suffix = suffix_of(self._next)
        self._storage.replace(suffix, compressed(lines))
        self._storage.remove("")
        self._sealed[suffix] = Sealed(self._storage, suffix)
        self._next += 1

    def make_room(self, living: Set[str]) -> None:
        """Bring the log below its bound: from the oldest segments, only the stories of these pods (by uid) are kept."""
        with self._lock:
            try:
                if self.size > self.limit:
                    self._merge(living)
            except (DamagedSegmentError, OSError) as error:
                self._failed(error)
                self._drop_damaged(error)

    def _merge(self, living: Set[str]) -> None:
        old = sorted((suffix for suffix in self._sealed if suffix != KEPT), key=numbered)
        if not old:
            self._seal()
            old = sorted((suffix for suffix in self._sealed if suffix != KEPT), key=numbered)
        while old and self.size > self.limit * FILL_TO:
            going = _oldest(old, self._storage, self.size - self.limit * FILL_TO)
            old = old[len(going) :]
            sources = [self._sealed[suffix] for suffix in (KEPT, *going) if suffix in self._sealed]
            self._storage.replace(KEPT, compressed(_kept(merge(*sources), living)))
            self._sealed[KEPT] = Sealed(self._storage, KEPT)
            for suffix in going:
                del self._sealed[suffix]
                self._storage.remove(suffix)
        self._bound_the_living()

    def _bound_the_living(self) -> None:
        """Drop the pods that have gone longest without news, if existing pods alone take too much."""
        room = self.limit * SHARE_OF_THE_LIVING
        size = self._storage.size(KEPT)
        if size <= room:
            return
        times = sorted(entry.steps[-1].at for entry in _decoded(self._sealed[KEPT]))
        least = times[int(len(times) * (1 - FILL_TO * room / size))] if times else 0.0
        kept = self._sealed[KEPT]
        lines = (line for line in kept if any(entry.steps[-1].at > least for entry in _decoded([line])))
        self._storage.replace(KEPT, compressed(lines))
        self._sealed[KEPT] = Sealed(self._storage, KEPT)
        if not self._was_short:
            self._was_short = True
            _log.warning(
                "the decision log is too small for the stories of all pods that live, so the oldest are dropped; "
                "--decision-log-size sets its size (%d bytes)",
                self.limit,
            )

    def _drop_damaged(self, error: Exception) -> None:
        """Drop a segment that cannot be read, so that it is not in the way forever."""
        if not isinstance(error, DamagedSegmentError):
            return
        for suffix, sealed in tuple(self._sealed.items()):
            try:
                for _ in sealed:
                    pass
            except DamagedSegmentError:
                del self._sealed[suffix]
                self._storage.remove(suffix)


def _oldest(suffixes: list[str], storage: SegmentStorage, excess: float) -> list[str]:
    """Return as many of the oldest segments as hold this many bytes."""
    going: list[str] = []
    for suffix in suffixes:
        if excess <= 0:
            break
        going.append(suffix)
        excess -= storage.size(suffix)
    return going or suffixes[:1]


def _kept(lines: Iterable[bytes], living: Set[str]) -> Iterator[bytes]:
    """Yield one line for each existing pod, merged from all of its lines; damaged lines are left out."""
    for head, group in groupby(lines, key=_head):
        uid = head[7].decode("utf-8", "replace") if len(head) > 7 else ""
        if uid not in living:
            continue
        told = list(group)
        if len(told) == 1 and len(told[0]) < SEAL_BYTES:
            yield told[0]
            continue
        entries = list(_decoded(told))
        if entries:
            steps = sorted((step for entry in entries for step in entry.steps), key=_time)
            entry = LogEntry(entries[0].pod, entries[0].uid, list(condensed(steps)))
            yield msgspec.json.encode(entry) + b"\n"


def _head(line: bytes) -> list[bytes]:
    """Split the beginning of a line at quotation marks: the fourth part is the pod, the eighth the uid."""
    return line.split(b'"', 8)[:8]


def _lines_with(text: bytes, prefix: bytes) -> list[bytes]:
    """Return the lines of a text that begin like this."""
    found, at = [], 0
    while (at := text.find(prefix, at)) >= 0:
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end
        if at == 0 or text[at - 1 : at] == b"\n":
            found.append(text[at:end])
        at = end
    return found


def _decoded(lines: Iterable[bytes]) -> Iterator[LogEntry]:
    for line in lines:
        try:
            entry = _entries.decode(line)
        except UNREADABLE:
            continue
        if entry.steps:
            yield entry


def _time(step: StoryStep) -> float:
    return step.at
