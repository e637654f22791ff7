"""The time line of a simulation, as `berth simulate --timeline FILE` has written it."""

import base64
import binascii
from pathlib import Path

import msgspec

from berth.api.untrusted import UNREADABLE, problem_of, read_deep
from berth_workbench.traces.result import SimulatedTime

KIND, VERSION = "BerthTimeLine", 1
MAX_BYTES = 256 * 1024 * 1024


class TimeLineError(ValueError):
    """A file that holds no time line; the message is one line for people."""


class NodesFrom(msgspec.Struct, frozen=True, rename={"start": "from"}):
    """From which sample on the nodes are these."""

    start: int
    names: tuple[str, ...]


class SimulatedTimeLine(msgspec.Struct, frozen=True):
    """What became of a simulation, and what each node carried at each sample."""

    result: SimulatedTime
    times: tuple[float, ...]
    """In seconds since the beginning."""
    nodes: tuple[NodesFrom, ...]
    levels: tuple[str, ...]
    """For each sample, a byte for each node in base64: what is requested of its scarcest resource, in 1/255."""
    kind: str = ""
    version: int = 0


def read_time_line(path: str | Path) -> SimulatedTimeLine:
    """Read a time line, and check that it is whole. Raises `TimeLineError`."""
    try:
        if Path(path).stat().st_size > MAX_BYTES:
            raise TimeLineError(f"{path}: too large for the page, which shows up to {MAX_BYTES >> 20} MiB")
        content = Path(path).read_bytes()
        found = read_deep(msgspec.json.decode, content, type=SimulatedTimeLine)
    except OSError as error:
        raise TimeLineError(f"{path}: {error.strerror or error}") from None
    except UNREADABLE as error:
        raise TimeLineError(f"{path}: not a time line of `berth simulate --timeline`: {problem_of(error)}") from None
    if found.kind != KIND or found.version != VERSION:
        raise TimeLineError(f"{path}: not a time line of `berth simulate --timeline`, version {VERSION}")
    problem = _problem(found)
    if problem:
        raise TimeLineError(f"{path}: damaged: {problem}")
    return found


def _problem(found: SimulatedTimeLine) -> str:
    """What does not go together; empty where all does."""
    if not len(found.times) == len(found.levels) == len(found.result.samples):
        return f"{len(found.times)} times, {len(found.levels)} states of the nodes, {len(found.result.samples)} samples"
    starts = [each.start for each in found.nodes]
    if found.times and (
        not starts or starts[0] != 0 or starts != sorted(set(starts)) or starts[-1] >= len(found.times)
    ):
        return "the names of the nodes do not begin with the first sample"
    names, changes = 0, list(reversed(found.nodes))
    for at, levels in enumerate(found.levels):
        while changes and changes[-1].start <= at:
            names = len(changes.pop().names)
        try:
            count = len(base64.b64decode(levels, validate=True))
        except (binascii.Error, ValueError):
            return f"the state of the nodes at sample {at} is not base64"
        if count != names:
            return f"{names} nodes, but {count} values at sample {at}"
    return ""
