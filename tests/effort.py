"""How far property tests look (`make test` less far than `make test-all`, which sets `HYPOTHESIS_PROFILE=all`), and how
much work something is."""

import os
import sys
from collections.abc import Callable
from typing import Any

SHARE = 3


def looks_everywhere():
    return os.environ.get("HYPOTHESIS_PROFILE", "") in ("all", "soak")


def examples(count):
    """So many examples in `make test-all`, and a third of them in `make test`."""
    return count if looks_everywhere() else max(1, count // SHARE)


def instructions(does: Callable[[], object]) -> int:
    """How many bytecode instructions a function makes, which are the same on every machine."""
    counted = 0

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal counted
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        counted += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        does()
    finally:
        sys.settrace(before)
    return counted
