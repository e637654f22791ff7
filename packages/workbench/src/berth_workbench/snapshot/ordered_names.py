"""Replaces names by other names in the same order and composed in the same way.

`anonymizer` asks here. Decisions look at more of a name than whether it equals another: some choices among equals go
by alphabetical order, nodes are upgraded in the order in which people count, and a StatefulSet's pods, their claims and
the pods that a what-if adds have names that are made of others. So a name is cut into words, numbers and what stands
between them, and put together again of what its parts become. Then `data-db-0` becomes what `data` becomes, what
`db` becomes, and the number, without a rule of its own.

Words become `aqb`, `aqc`, … in alphabetical order: what no word of any language is part of. The few words of
Kubernetes' own names stay, and others are on the same side of them afterwards as before. Numbers get other digits, as
few as there are: of `shop-42` and `shop-77`, 10 and 20 are left. Alphabetical and numerical order are both kept, since
digits that follow the same digits change places with no others. Behind the name of an owner of pods numbers stay as
they are.
"""

import bisect
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

_PIECES = re.compile(r"[0-9]+|[^0-9./-]+|[./-]+")
_LETTERS = "bcdfghjklmnprstvwxz"
_STAYING = ("default", "false", "kube", "metadata", "rbd", "system", "true")
"""Words that stay, also as parts of names, in alphabetical order."""
_STARTS = ("a", "e", "g", "l", "o", "rz", "sz", "u")
"""How words begin that come before the first of these, between the first and the second, …, and after the last."""
_BEFORE_DIGITS = "aq"
"""What names that begin with a digit begin with: they come before all others, and none is a mere number."""


class OrderedNames:
    """Names for all of some texts; `numbered` are the names behind which numbers stay."""

    __slots__ = ("_numbers", "_words")

    def __init__(self, texts: Iterable[str], numbered: Iterable[str] = ()) -> None:
        words: set[str] = set()
        numbers: defaultdict[str, set[str]] = defaultdict(set)
        for text in texts:
            for piece, before in _pieces(text):
                if piece[0].isdecimal():
                    numbers[before].add(piece)
                elif piece[0] not in "./-":
                    words.add(piece)
        staying = {before for name in numbered for piece, before in _pieces(f"{name}-0")}
        self._words = _in_order(words)
        self._numbers = {
            before: {each: each for each in found} if before in staying else with_few_digits(found)
            for before, found in numbers.items()
        }

    def of(self, text: str) -> str:
        """Return what one of the texts becomes."""
        parts = [
            self._numbers[before][piece] if piece[0].isdecimal() else self._words.get(piece, piece)
            for piece, before in _pieces(text)
        ]
        return "".join([_BEFORE_DIGITS if text[:1].isdecimal() else "", *parts])


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a text, each with what stands before it from the last word on.

    That is the same wherever a name is put in front of another: the 0 of `data-db-0` is one that follows `db-`.
    """
    start = 0
    for found in _PIECES.finditer(text):
        yield found[0], text[start : found.start()]
        if not found[0][0].isdecimal() and found[0][0] not in "./-":
            start = found.start()


def _in_order(words: set[str]) -> dict[str, str]:
    others = sorted(words.difference(_STAYING))
    width = 1
    while len(_LETTERS) ** width < len(others):
        width += 1
    return {
        word: f"{_STARTS[bisect.bisect_left(_STAYING, word)]}q{_written(number, width)}"
        for number, word in enumerate(others)
    }


def _written(number: int, width: int) -> str:
    letters = ""
    for _ in range(width):
        number, letter = divmod(number, len(_LETTERS))
        letters = _LETTERS[letter] + letters
    return letters


def with_few_digits(numbers: Iterable[str]) -> Mapping[str, str]:
    """Return other numbers, as long as they were, for some: in the same order as texts and as numbers.

    A zero at the beginning stays one, and nothing else becomes one, so that lengths go on meaning what they do.
    """
    following: defaultdict[str, set[str]] = defaultdict(set)
    for number in numbers:
        for at, digit in enumerate(number):
            following[number[:at]].add(digit)
    ranks = {
        before: {digit: str(rank) for rank, digit in enumerate(sorted(found), _first(before, found))}
        for before, found in following.items()
    }
    return {number: "".join(ranks[number[:at]][digit] for at, digit in enumerate(number)) for number in numbers}


def _first(before: str, following: set[str]) -> int:
    is_beginning = not before.strip("0")
    return 1 if is_beginning and "0" not in following else 0
