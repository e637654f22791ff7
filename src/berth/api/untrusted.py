"""Reading JSON that anybody may have written: what that can raise, and how to read what is nested deeply.

The codec, the wire formats and the extender protocol read with these functions. msgspec counts nesting against the
interpreter's recursion limit, even in parts that it skips, while Go's decoder, and with it an API server, accepts
10000 levels. A user who may create a pod may write that many into its `managedFields`; that must not keep us from
reading the whole list of pods.
"""

import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import msgspec

Read = TypeVar("Read")
Args = ParamSpec("Args")

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for a document that is not JSON or UTF-8, not of the wanted type, or nested too deeply."""
MAX_DEPTH = 10_000
"""The depth beyond which Go's encoding/json gives up."""


def read_deep(decode: Callable[Args, Read], *args: Args.args, **options: Args.kwargs) -> Read:
    """Return what `decode` reads; where the document is nested deeply, try again with as much depth as Go allows."""
    try:
        return decode(*args, **options)
    except RecursionError:
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(before + MAX_DEPTH)
        try:
            return decode(*args, **options)
        finally:
            sys.setrecursionlimit(before)


def problem_of(error: Exception) -> str:
    """Return in words what is wrong with a document that raised one of `UNREADABLE`."""
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def shortened(text: str, limit: int = 200) -> str:
    """Return a text for an error message: the start of it where it is long, which says how long it was."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
