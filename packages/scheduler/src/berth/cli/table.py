"""The one table of all commands: as wide as the terminal, and no name in it ever broken.

A cell of a column of names or numbers is printed whole, so that it can be copied. Sentences take the room that is left;
where that is too little, they stand under their row, indented, and so do names and numbers for which the terminal is
too narrow, each behind its heading. So a table can be read at 40 columns as at 200.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from berth.runtime.observing.logs import legible

if TYPE_CHECKING:
    from rich.console import Console

GAP = 2
INDENT = 4
LEAST_TEXT = 24
"""How much room a column of sentences needs; with less they stand under their row."""
MOST_LINES = 3
"""Sentences that take more lines than that beside their row stand under it, too."""

Kind = Literal["name", "number", "text"]


class TableColumn(NamedTuple):
    """A column: what heads it, and whether its cells are names, numbers or sentences."""

    heading: str
    """May be of several lines, which make one word where they stand in one line."""
    kind: Kind = "name"


class Row(NamedTuple):
    """The cells of a row, and a style of Rich's for all of it."""

    cells: tuple[str, ...]
    style: str = ""


class Table:
    """Rows under headings. Cells may come from a cluster or a file: control characters in them are shown as such."""

    __slots__ = ("columns", "rows", "title")

    def __init__(self, *columns: TableColumn | str, title: str = "") -> None:
        """Make an empty table; a heading alone stands for a column of names."""
        self.title = title
        self.columns = [TableColumn(each) if isinstance(each, str) else each for each in columns]
        self.rows: list[Row] = []

    def add(self, *cells: object, style: str = "") -> None:
        """Add a row, with a cell for each column."""
        if len(cells) != len(self.columns):
            raise ValueError(f"{len(cells)} cells for {len(self.columns)} columns")
        self.rows.append(Row(tuple(_one_line(str(cell)) for cell in cells), style))

    def print(self, console: "Console", shown: int | None = None, more: str = "-o wide lists all of them") -> None:
        """Print the first `shown` rows, all without it; `more` says how to see the others."""
        rows = self.rows[:shown]
        if self.title:
            _put(console, self.title, "bold")
        for line, style in _laid_out(self.columns, rows, console.width):
            _put(console, line, style)
        if len(rows) < len(self.rows):
            _put(console, f"… and {len(self.rows) - len(rows):,} more; {more}", "dim")


def _one_line(text: str) -> str:
    return " ".join(legible(text).split("\n\t"))


def wrapped(text: str, width: int, indent: int = 0) -> list[str]:
    """Break a sentence between words into lines of at most `width`; a longer word stays whole."""
    space = " " * indent
    return textwrap.wrap(
        text,
        max(width, indent + 1),
        initial_indent=space,
        subsequent_indent=space,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]


def _put(console: "Console", line: str, style: str) -> None:
    console.print(line.rstrip(), style=style, markup=False, highlight=False, soft_wrap=True)


# -- the layout: which columns stand in the row, how wide, and what stands under it ------------------------------------


def _laid_out(columns: Sequence[TableColumn], rows: Sequence[Row], width: int) -> Iterator[tuple[str, str]]:
    """Yield each line and its style."""
    natural = [_natural(column, [row.cells[at] for row in rows]) for at, column in enumerate(columns)]
    beside = _beside(columns, natural, width)
    if any(columns[at].heading for at in beside):
        yield from ((line, "bold") for line in _headings([columns[at] for at in beside], list(beside.values())))
    under = [at for at in range(len(columns)) if at not in beside]
    for row in rows:
        cells = [
            wrapped(row.cells[at], size) if _is_text(columns[at]) else [row.cells[at]] for at, size in beside.items()
        ]
        for number in range(max(map(len, cells))):
            line = [lines[number] if number < len(lines) else "" for lines in cells]
            yield _joined(line, [columns[at] for at in beside], list(beside.values())), row.style
        yield from ((line, row.style) for line in _under(columns, row.cells, under, width))


def _beside(columns: Sequence[TableColumn], natural: Sequence[int], width: int) -> dict[int, int]:
    """Return the columns that stand in the row, and their widths: the first, and others for which there is room."""
    fixed: dict[int, int] = {}
    used = -GAP
    for at, column in enumerate(columns):
        if not _is_text(column) and (not fixed or used + GAP + natural[at] <= width):
            fixed[at] = natural[at]
            used += GAP + natural[at]
    texts = {at: natural[at] for at, column in enumerate(columns) if _is_text(column)}
    while texts:
        room = _shared_out(texts, width - used - GAP * len(texts))
        if all(room[at] >= min(wanted, LEAST_TEXT) and wanted <= MOST_LINES * room[at] for at, wanted in texts.items()):
            return dict(sorted({**fixed, **room}.items()))
        del texts[max(texts, key=lambda at: texts[at])]
    return fixed or {0: min(natural[0], width)}


def _shared_out(wanted: Mapping[int, int], room: int) -> dict[int, int]:
    """Give each what it wants, or those that want most equal parts of what is left."""
    given: dict[int, int] = {}
    for number, at in enumerate(sorted(wanted, key=lambda at: wanted[at])):
        given[at] = min(wanted[at], max(room, 0) // (len(wanted) - number))
        room -= given[at]
    return given


def _natural(column: TableColumn, cells: Sequence[str]) -> int:
    return max((_cell_len(text) for text in (*column.heading.split("\n"), *cells)), default=0)


def _headings(columns: Sequence[TableColumn], widths: Sequence[int]) -> Iterator[str]:
    """Yield the lines of the headings; shorter ones stand at the bottom."""
    lines = [column.heading.split("\n") for column in columns]
    height = max(map(len, lines))
    for number in range(height):
        cells = [each[at] if (at := number - height + len(each)) >= 0 else "" for each in lines]
        yield _joined(cells, columns, widths)


def _joined(cells: Sequence[str], columns: Sequence[TableColumn], widths: Sequence[int]) -> str:
    told = []
    for text, column, size in zip(cells, columns, widths, strict=True):
        space = " " * (size - _cell_len(text))
        told.append(space + text if column.kind == "number" else text + space)
    return (" " * GAP).join(told).rstrip()


def _under(columns: Sequence[TableColumn], cells: Sequence[str], under: Sequence[int], width: int) -> Iterator[str]:
    """Yield what stands under a row: names and numbers behind their headings, then the sentences."""
    headings = {at: columns[at].heading.replace("\n", "") for at in under}
    told = [(at, f"{headings[at]} {cells[at]}".strip()) for at in under if cells[at]]
    line = ""
    for at, part in told:
        if _is_text(columns[at]):
            continue
        if line and INDENT + _cell_len(f"{line}, {part},") > width:
            yield f"{' ' * INDENT}{line},"
            line = part
        else:
            line = f"{line}, {part}" if line else part
    if line:
        yield " " * INDENT + line
    several = sum(_is_text(columns[at]) for at in under) > 1
    for at, part in told:
        if _is_text(columns[at]):
            yield from wrapped(part if several else cells[at], width, INDENT)


def _is_text(column: TableColumn) -> bool:
    return column.kind == "text"


def _cell_len(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)
