"""The parts that answers are told in. Each renderer knows all of them, and nothing of the answers.

The order is that in which people read: the verdict, the figures that matter, then the tables. Text may come from a
cluster or a file; the renderers show control characters in it as such.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, cast

import msgspec

from berth.decisions.node_columns import NodeGroups


class Behind(msgspec.Struct, frozen=True):
    """A text in our words, and what somebody else said behind it, for those who want to know."""

    text: str
    behind: str


Cell = str | int | tuple[str, ...] | Behind
"""A number is shown with its thousands apart; of several names the first few, and how many more there are."""
Kind = Literal["name", "number", "text"]


class VerdictSection(msgspec.Struct, frozen=True):
    """The sentence that answers the question."""

    text: str
    is_good: bool | None = None
    """None where the answer is neither what people hope for nor what they fear."""
    figure: int | str = ""
    """The number that matters most, and below it what it counts; where people look at the answer."""
    counts: str = ""


class Sentence(msgspec.Struct, frozen=True):
    """What else people want to know at once."""

    text: str


KEPT = "\0"
"""Stands for what is typed now, in what is to be typed."""


class Try(msgspec.Struct, frozen=True):
    """What can be done about it: a question that tries it, by its name and what is typed there."""

    text: str
    question: str
    typed: Mapping[str, str]


class NoteSection(msgspec.Struct, frozen=True):
    """What has to be known to read the answer right."""

    text: str


class TableHead(msgspec.Struct, frozen=True):
    """A column of a table: its heading, and whether its cells are names, numbers or sentences."""

    heading: str
    kind: Kind = "name"


class TableSection(msgspec.Struct, frozen=True):
    """Rows under headings; the first cell names what a row is about."""

    title: str
    columns: tuple[TableHead, ...]
    rows: tuple[tuple[Cell, ...], ...]
    is_folded: bool = False
    """Whether it is for those who want to know more: closed on the page, and in the terminal with `-o wide` only."""


class Bars(msgspec.Struct, frozen=True):
    """Bars by label, one for each series, side by side or one behind the other."""

    title: str
    labels: tuple[str, ...]
    series: Mapping[str, Sequence[float | None]]
    is_stacked: bool = False
    unit: str = ""
    """`%` for shares in percent, of 100 at most."""


class Points(msgspec.Struct, frozen=True):
    """Points, each with a name, across and up."""

    title: str
    across: str
    up: str
    series: Mapping[str, Sequence[tuple[str, float, float]]]


class Lines(msgspec.Struct, frozen=True):
    """Lines over time."""

    title: str
    hours: tuple[float, ...]
    """Since the beginning."""
    series: Mapping[str, Sequence[float]]
    unit: str = ""


class Moves(msgspec.Struct, frozen=True):
    """Every node before and after, and how many pods went from which to which.

    Each list has an element for each node that was or is there, by name.
    """

    label: str
    names: list[str]
    pools: NodeGroups
    zones: NodeGroups
    before: list[float | None]
    """What part of its pool's scarcest resource was requested; None where the node was not there."""
    after: list[float | None]
    left: list[int]
    """How many pods left it."""
    came: list[int]
    moves: list[tuple[int, int, int]]
    """From which node to which, by number, and how many pods; -1 is nowhere."""
    steps: tuple[str, ...] = ()
    """Each move in words, where they are made one after the other."""
    scarcest: Mapping[str, str] = {}
    """Which resource that is, by pool."""
    flows: Mapping[str, Sequence[tuple[str, str, int]]] = {}
    """How many pods went from which pool to which, and from which zone; `nowhere` stands for no node."""


Section = VerdictSection | Sentence | Try | NoteSection | TableSection | Bars | Points | Lines | Moves


def table(
    title: str, columns: Iterable[str | tuple[str, str]], rows: Iterable[Iterable[Cell]], *, is_folded: bool = False
) -> TableSection:
    """Return a table; a column is a heading, or that and its kind."""
    heads = tuple(
        TableHead(each) if isinstance(each, str) else TableHead(each[0], cast("Kind", each[1])) for each in columns
    )
    return TableSection(title, heads, tuple(map(tuple, rows)), is_folded)
