"""Dictionaries whose order says who came first."""

from collections.abc import Iterable
from typing import Any


def put_in_order(mapping: dict[Any, Any], keys: Iterable[Any]) -> bool:
    """Let the entries of a dictionary stand in the order of these keys, others behind them; say whether any moved."""
    wanted = [key for key in keys if key in mapping]
    if wanted == list(mapping)[: len(wanted)]:
        return False
    entries = {key: mapping[key] for key in wanted}
    entries.update(mapping)
    # As a map that is read-only to others is changed, too.
    dict.clear(mapping)
    dict.update(mapping, entries)
    return True
