"""`/debug/pprof/`: where the process spends its time, and what each thread is doing, as Go's programs show it.

The CPU profile is taken by a thread of its own, which looks at the stacks of all others a hundred times a second. It
comes as pprof's protobuf, which `go tool pprof` and speedscope open, or with `?debug=1` as text: one stack a line, with
a count, which flame graph tools read. Only names of files and functions are in it.
"""

import asyncio
import gzip
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import NamedTuple

RATE_HZ = 100
DEFAULT_S = 30.0
MAX_S = 120.0
MAX_DEPTH = 200
_MAX_STACKS = 50_000

INDEX = """<html>
<head>
<title>/debug/pprof/</title>
</head>
<body>
/debug/pprof/<br>
<br>
profiles:<br>
<table>
<tr><td><a href="goroutine?debug=2">goroutine</a></td><td>the stacks of all threads</td></tr>
<tr><td><a href="profile?seconds=30">profile</a></td><td>where time goes, for go tool pprof; ?debug=1 is text</td></tr>
<tr><td><a href="cmdline">cmdline</a></td><td>the command line</td></tr>
</table>
</body>
</html>
"""


class CodeLocation(NamedTuple):
    """A line of code."""

    function: str
    file: str
    line: int


Stack = tuple[CodeLocation, ...]
"""From the innermost call outwards."""


class ProfileBusy(RuntimeError):  # noqa: N818 - it says what is the matter
    """A profile is being taken already."""


class CpuProfiler:
    """Takes one profile at a time."""

    __slots__ = ("_is_busy",)

    def __init__(self) -> None:
        self._is_busy = False

    async def sample(self, seconds: float, rate_hz: int = RATE_HZ) -> Counter[Stack]:
        """How often each stack was seen; raises `ProfileBusy`. Nothing waits for it meanwhile."""
        if self._is_busy:
            raise ProfileBusy("cpu profiling already in use")
        self._is_busy = True
        ended = threading.Event()
        found: Counter[Stack] = Counter()
        thread = threading.Thread(target=_look, args=(found, ended, rate_hz), name="profiler", daemon=True)
        thread.start()
        try:
            await asyncio.sleep(seconds)
        finally:
            ended.set()
            thread.join(1.0)
            self._is_busy = False
        return found


def _look(found: "Counter[Stack]", ended: threading.Event, rate_hz: int) -> None:
    own = threading.get_ident()
    while not ended.wait(1 / rate_hz):
        for number, frame in sys._current_frames().items():  # noqa: SLF001 - there is no other way, as its docs say
            if number != own:
                stack = tuple(_places(frame))
                if stack in found or len(found) < _MAX_STACKS:
                    found[stack] += 1


def _places(frame: FrameType | None) -> Iterator[CodeLocation]:
    for _ in range(MAX_DEPTH):
        if frame is None:
            return
        yield CodeLocation(frame.f_code.co_qualname, frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back


def as_text(found: "Counter[Stack]") -> str:
    """One stack a line, outermost call first, and how often it was seen."""
    lines = (f"{';'.join(_named(place) for place in reversed(stack))} {count}" for stack, count in found.most_common())
    return "".join(f"{line}\n" for line in lines)


def _named(place: CodeLocation) -> str:
    return f"{place.function} ({place.file.rpartition('/')[2]}:{place.line})"


def thread_stacks() -> str:
    """What each thread is doing, in the words of Go's dumps: the innermost call first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for number, frame in sys._current_frames().items():  # noqa: SLF001 - as above
        lines = [f"thread {number} [{names.get(number, 'unknown')}]:"]
        lines += [f"{place.function}(...)\n\t{place.file}:{place.line}" for place in _places(frame)]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def as_pprof(found: "Counter[Stack]", duration_s: float, now: float | None = None, rate_hz: int = RATE_HZ) -> bytes:
    """The profile in pprof's format (github.com/google/pprof, profile.proto), compressed."""
    return gzip.compress(
        _Encoder(1_000_000_000 // rate_hz).profile(found, duration_s, time.time() if now is None else now)
    )


class _Encoder:
    """Writes profile.proto; texts, functions and places are told once and referred to by number."""

    __slots__ = ("_functions", "_period_ns", "_places", "_texts")

    def __init__(self, period_ns: int) -> None:
        self._period_ns = period_ns
        self._texts: dict[str, int] = {"": 0}
        self._functions: dict[tuple[str, str], int] = {}
        self._places: dict[CodeLocation, int] = {}

    def profile(self, found: "Counter[Stack]", duration_s: float, now: float) -> bytes:
        """The whole message."""
        samples, cpu = self._value_type("samples", "count"), self._value_type("cpu", "nanoseconds")
        parts = [_field(1, samples), _field(1, cpu)]
        parts += [_field(2, self._sample(stack, count)) for stack, count in found.items()]
        parts += [_field(4, self._location(place, number)) for place, number in self._places.items()]
        parts += [_field(5, self._function(*names, number)) for names, number in self._functions.items()]
        period = _field(11, cpu) + _number(12, self._period_ns)
        texts = [_field(6, text.encode("utf-8", "replace")) for text in self._texts]
        times = _number(9, int(now * 1e9)) + _number(10, int(duration_s * 1e9))
        return b"".join([*parts, *texts, times, period])

    def _value_type(self, kind: str, unit: str) -> bytes:
        return _number(1, self._text(kind)) + _number(2, self._text(unit))

    def _sample(self, stack: Stack, count: int) -> bytes:
        return _packed(1, [self._place(place) for place in stack]) + _packed(2, [count, count * self._period_ns])

    def _place(self, place: CodeLocation) -> int:
        number = self._places.setdefault(place, len(self._places) + 1)
        self._functions.setdefault((place.function, place.file), len(self._functions) + 1)
        return number

    def _location(self, place: CodeLocation, number: int) -> bytes:
        line = _number(1, self._functions[place.function, place.file]) + _number(2, place.line)
        return _number(1, number) + _field(4, line)

    def _function(self, name: str, file: str, number: int) -> bytes:
        name_at = self._text(name)
        return _number(1, number) + _number(2, name_at) + _number(3, name_at) + _number(4, self._text(file))

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _packed(field: int, values: Sequence[int]) -> bytes:
    return _field(field, b"".join(map(_varint, values)))
