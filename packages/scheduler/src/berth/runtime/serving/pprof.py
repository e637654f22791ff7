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
from collections.abc import Iterator
from functools import lru_cache
from types import FrameType
from typing import Any, NamedTuple

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
    """The profile in pprof's format, compressed: texts, functions and places stand once, and are named by number."""
    period_ns = 1_000_000_000 // rate_hz
    texts: dict[str, int] = {"": 0}
    functions: dict[tuple[str, str], int] = {}
    places: dict[CodeLocation, int] = {}

    def text(said: str) -> int:
        return texts.setdefault(said, len(texts))

    profile = _profile_class()(
        time_nanos=int((time.time() if now is None else now) * 1e9),
        duration_nanos=int(duration_s * 1e9),
        sample_type=[
            {"type": text("samples"), "unit": text("count")},
            {"type": text("cpu"), "unit": text("nanoseconds")},
        ],
        period_type={"type": text("cpu"), "unit": text("nanoseconds")},
        period=period_ns,
    )
    for stack, count in found.items():
        numbers = [places.setdefault(place, len(places) + 1) for place in stack]
        profile.sample.add(location_id=numbers, value=[count, count * period_ns])
    for place, number in places.items():
        function = functions.setdefault((place.function, place.file), len(functions) + 1)
        profile.location.add(id=number, line=[{"function_id": function, "line": place.line}])
    for (name, file), number in functions.items():
        profile.function.add(id=number, name=text(name), system_name=text(name), filename=text(file))
    profile.string_table.extend(said.encode("utf-8", "replace") for said in texts)
    return gzip.compress(profile.SerializeToString())


@lru_cache(maxsize=1)
def _profile_class() -> Any:
    """What is used of profile.proto (github.com/google/pprof); the library is loaded when a profile is taken."""
    from berth.api.protobuf_messages import message_classes

    table = {
        "ValueType": "1 type int64, 2 unit int64",
        "Sample": "1 location_id []uint64, 2 value []int64",
        "Location": "1 id uint64, 4 line []Line",
        "Line": "1 function_id uint64, 2 line int64",
        "Function": "1 id uint64, 2 name int64, 3 system_name int64, 4 filename int64",
        "Profile": "1 sample_type []ValueType, 2 sample []Sample, 4 location []Location, 5 function []Function, "
        "6 string_table []string, 9 time_nanos int64, 10 duration_nanos int64, 11 period_type ValueType, "
        "12 period int64",
    }
    return message_classes("perftools.profiles", table)["Profile"]
