"""Reading JSON that anybody may have written: what that can raise, and how to read what is nested deeply.

The codec, the wire formats and the extender protocol read with these functions. msgspec counts nesting against the
interpreter's recursion limit, even in parts that it skips, while Go's decoder, and with it an API server, accepts
10000 levels. A user who may create a pod may write that many into its `managedFields`; that must not keep us from
reading the whole list of pods. From Python 3.12 on the limit of what is written in C cannot be raised, and is lower in
some releases, so what is nested too deeply to be of use is left out there.
"""

import re
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import msgspec

Read = TypeVar("Read")
Args = ParamSpec("Args")

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for a document that is not JSON or UTF-8, not of the wanted type, or nested too deeply."""
MAX_DEPTH = 10_000
"""The depth beyond which Go's encoding/json gives up."""
KEPT_DEPTH = 500
"""The depth from which values may be left out: every Python reads that deeply, and nobody looks at what lies below."""
_TOKENS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[][{}"]', re.DOTALL)
"""Strings and brackets, and a quotation mark without its counterpart."""


def read_deep(decode: Callable[Args, Read], *args: Args.args, **options: Args.kwargs) -> Read:
    """Return what `decode` reads; where the document is nested deeply, try again with as much depth as Go allows."""
    try:
        return decode(*args, **options)
    except RecursionError:
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(before + MAX_DEPTH)
        try:
            return decode(*args, **options)
        except RecursionError:
            shallow: Any = [_shallow(each) if isinstance(each, bytes | msgspec.Raw) else each for each in args]
            return decode(*shallow, **options)
        finally:
            sys.setrecursionlimit(before)


def _shallow(document: bytes | msgspec.Raw) -> bytes:
    """Return a document with `null` in place of whatever is `KEPT_DEPTH` levels deep.

    Raises `RecursionError` where it has more levels than Go reads, or does not close what it opens.
    """
    text = bytes(document)
    kept: list[bytes] = []
    depth = kept_to = 0
    for token in _TOKENS.finditer(text):
        mark = text[token.start() : token.start() + 1]
        if mark in b"[{":
            depth += 1
            if depth == KEPT_DEPTH:
                kept += (text[kept_to : token.start()], b"null")
            if depth > MAX_DEPTH:
                break
        elif mark in b"]}":
            if depth == KEPT_DEPTH:
                kept_to = token.end()
            depth -= 1
        elif token.end() - token.start() == 1:
            break
    else:
        if depth == 0:
            return b"".join((*kept, text[kept_to:]))
    raise RecursionError("nested too deeply")


def problem_of(error: Exception) -> str:
    """Return in words what is wrong with a document that raised one of `UNREADABLE`."""
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def shortened(text: str, limit: int = 200) -> str:
    """Return a text for an error message: the start of it where it is long, which says how long it was."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
