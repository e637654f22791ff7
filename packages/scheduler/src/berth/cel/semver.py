"""Semantic versions, as device attributes and CEL selectors have them.

Text goes in, ordered values come out; `cel.py` offers them to selectors, `constraints.py` compares attributes.
Source of the rules: semver.org 2.0.0, and for normalising k8s.io/apiserver/pkg/cel/library.
"""

import re
from functools import lru_cache, total_ordering

from berth.api.untrusted import shortened

_NUMBER = r"(?:0|[1-9][0-9]*)"
_TAG = r"(?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_TAG}(?:\.{_TAG})*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?",
    re.ASCII,
)

MAX_CHARACTERS = 256
"""Far more than an attribute may have, and few enough for numbers that take up all of them."""


class SemverError(ValueError):
    """The text is not a semantic version."""


@total_ordering
class Semver:
    """A version; build metadata does not count in comparisons."""

    __slots__ = ("major", "minor", "patch", "pre_release", "text")

    def __init__(self, text: str, major: int, minor: int, patch: int, pre_release: tuple[str, ...]) -> None:
        self.text = text
        self.major, self.minor, self.patch = major, minor, patch
        self.pre_release = pre_release

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._key() == other._key()

    def __lt__(self, other: "Semver") -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        # A release comes after its pre-releases; numeric identifiers come before others and count as numbers.
        tags = tuple((0, int(tag), "") if tag.isdigit() else (1, 0, tag) for tag in self.pre_release)
        return self.major, self.minor, self.patch, not self.pre_release, tags


@lru_cache(maxsize=4096)
def parse_semver(text: str) -> Semver:
    """Return the version that a text in its strict form names. Raises `SemverError`."""
    match = _VERSION.fullmatch(text) if len(text) <= MAX_CHARACTERS else None
    if match is None:
        shown = repr(shortened(text))
        raise SemverError(f"{shown} is not a semantic version: expected MAJOR.MINOR.PATCH, like 1.2.3 or 1.2.3-rc.1")
    major, minor, patch, pre_release, _ = match.groups()
    return Semver(text, int(major), int(minor), int(patch), tuple(pre_release.split(".")) if pre_release else ())


def normalized(text: str) -> str:
    """Return a version in strict form: without `v` and leading zeros, with minor and patch. Raises `SemverError`."""
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and re.search(r"[+-]", parts[-1]):
        raise SemverError("short version cannot contain PreRelease/Build meta data")
    return ".".join(parts + ["0"] * (3 - len(parts)))


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped[:1].isdigit() else "0" + stripped
