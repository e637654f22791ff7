"""The first line of a snapshot file: which format it is in, when and of what it was taken, and what is missing."""

import re
from typing import Any

import msgspec

from berth.api.untrusted import UNREADABLE, problem_of, read_deep
from berth_workbench.snapshot.text import SnapshotError

KIND = "BerthSnapshot"
FORMAT = 2
"""The format that is written. A change that older versions of Berth would misread makes it one more."""


MAX_HEADER = 256 << 10
"""A header may have this many bytes."""


NOT_SERVED, MAY_NOT, NOT_GIVEN = "not served", "may not be listed", "not in the files"
"""Why a kind is missing."""


class Missing(msgspec.Struct, frozen=True, rename="camel"):
    """A kind that the snapshot does not hold though decisions may depend on it."""

    kind: str = ""
    reason: str = ""


class Header(msgspec.Struct, frozen=True, rename="camel"):
    """What a snapshot says of itself."""

    kind: str = KIND
    format: int = FORMAT
    taken: str = ""
    """When, RFC 3339; empty for a snapshot made of files."""
    berth_version: str = ""
    server_version: str = ""
    """Of the API server, `v1.36.0`; empty for a snapshot made of files."""
    anonymized: bool = False
    counts: dict[str, int] = {}
    """How many objects there are of each kind."""
    resource_versions: dict[str, str] = {}
    """The version of the list of each kind. Lists are taken one after the other, so these differ."""
    missing: tuple[Missing, ...] = ()
    configuration: dict[str, Any] | None = None
    """That of the scheduler at work in the cluster, as a KubeSchedulerConfiguration; None where it is not known."""
    feature_gates: str = ""
    """With which that scheduler runs, as `--feature-gates` has them."""


class _Maker(msgspec.Struct, rename="camel"):
    format: int = 0
    berth_version: str = ""


_MARK = re.compile(rb'\s*\{\s*"kind"\s*:\s*"%s"' % KIND.encode())


def header_of(start: bytes, source: str) -> Header | None:
    """Return the header that a file starts with, None where it is something else.

    Raises `SnapshotError` for a header that cannot be read, and for one of a newer format.
    """
    line = start.partition(b"\n")[0]
    if not _MARK.match(line):
        return None
    try:
        maker = read_deep(msgspec.json.decode, line, type=_Maker)
        if maker.format > FORMAT:
            by = f" by Berth {maker.berth_version}" if maker.berth_version else ""
            raise SnapshotError(
                f"{source}: a snapshot of format {maker.format}, written{by}; "
                f"this version of Berth reads formats up to {FORMAT}: upgrade it"
            )
        return read_deep(msgspec.json.decode, line, type=Header)
    except UNREADABLE as error:
        raise SnapshotError(f"{source}:1: not readable as the header of a snapshot: {problem_of(error)}") from None
