"""What may become of a pod where something else decides about it, and how that is said to people.

The one set of kinds of whoever compares decisions: shadows, observers, recordings, configurations and releases. Apart
from `difference.py`, since `berth explain` says the words without the engine.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

DifferenceKind = Literal["same", "elsewhere", "fitsNoMore", "fitsNow", "preemptsElsewhere", "error"]
"""The same, another node, no node any more, a node after all, room on another node; or the other one has failed."""

DIFFERENCE_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "elsewhere": "go elsewhere",
        "fitsNoMore": "no longer fit",
        "fitsNow": "fit now",
        "preemptsElsewhere": "make room elsewhere",
        "error": "end in an error",
    }
)
"""What so many pods do, by kind."""
