"""The recorded decisions of the stock scheduler, and how ours are held against them."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def cases(path: str) -> Iterator[dict[str, Any]]:
    """Yield the cases of one recording, such as `v1.36/taints`."""
    with gzip.open(HERE / f"{path}.jsonl.gz", "rt") as lines:
        for line in lines:
            yield json.loads(line)


def differences(recorded: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """Return every field in which our decision differs from the recorded one; absent and empty mean the same."""
    found = [
        f"{key}: recorded {recorded.get(key)!r}, ours {ours.get(key)!r}"
        for key in sorted((recorded.keys() | ours.keys()) - {"preemption"})
        if (recorded.get(key) or None) != (ours.get(key) or None)
    ]
    return found + _preemption_differences(recorded, ours)


def _preemption_differences(recorded: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    choices, choice = recorded.get("preemption"), ours.get("preemption")
    if not choices and not choice:
        return []
    ok = bool(choices) and bool(choice) and choice[0] in choices
    return [] if ok else [f"preemption: recorded any of {choices!r}, ours {choice!r}"]
