"""JSON that anybody may have written: what reading it can raise, and reading what is nested deeply.

The codec, the wire formats and the extender protocol read with these. msgspec counts nesting against the interpreter's
recursion limit, also in parts that it skips; Go's decoder, and with it an API server, lets 10000 levels through. Who
may create a pod may write as many into its `managedFields`, and must not keep a whole list from being read by that.
"""

import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import msgspec

Read = TypeVar("Read")
Args = ParamSpec("Args")

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for a document that is no JSON, not of the wanted type, no UTF-8, or too deep."""
MAX_DEPTH = 10_000
"""encoding/json of Go gives up beyond it."""


def read_deep(decode: Callable[Args, Read], *args: Args.args, **options: Args.kwargs) -> Read:
    """Return what `decode` reads; where that is nested deeply, with as much stack as Go would allow."""
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
    """Say in words what is wrong with a document, for one of `UNREADABLE`."""
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
