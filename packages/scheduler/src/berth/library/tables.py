"""What a scheduler has, as tables: columns of plain values, for Arrow, data frames, and people in a notebook."""

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

ROWS_SHOWN = 20
_CELL = "text-align:left;vertical-align:top"


class MissingExtraError(ImportError):
    """Something that only an extra brings is not installed."""


class DataTable(Mapping[str, list[Any]]):
    """Columns of the same length by name. Whatever reads Arrow's C stream, such as Polars or DuckDB, reads this."""

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._columns = {name: list(values) for name, values in columns.items()}

    def __getitem__(self, name: str) -> list[Any]:
        if name not in self._columns:
            raise KeyError(f"there is no column {name!r}; there are {', '.join(self._columns)}")
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The same row by row."""
        return list(zip(*self._columns.values(), strict=True))

    def arrow(self) -> "pyarrow.Table":
        """Return an Arrow table. Raises `MissingExtraError` without pyarrow."""
        try:
            import pyarrow
        except ImportError:
            raise MissingExtraError("an Arrow table needs pyarrow: pip install 'berth-scheduler[lab]'") from None
        return pyarrow.table(self._columns)

    def frame(self) -> Any:
        """Return a pandas DataFrame. Raises `MissingExtraError` without pandas."""
        try:
            import pandas
        except ImportError:
            raise MissingExtraError("a DataFrame needs pandas: pip install 'berth-scheduler[lab]'") from None
        return pandas.DataFrame(self._columns)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        count = len(next(iter(self._columns.values()), ()))
        return f"<{count:,} {'row' if count == 1 else 'rows'} of {', '.join(self._columns)}>"

    def _repr_html_(self) -> str:
        return as_html("", tuple(self._columns), self.rows)


def as_html(title: str, heads: Iterable[str], rows: Sequence[Iterable[object]], shown: int = ROWS_SHOWN) -> str:
    """Return a table of so many rows in HTML, whatever the text in it is; it says how many more there are."""
    left = len(rows) - shown
    more = f"<p>{left:,} more</p>" if left > 0 else ""
    caption = f"<caption style='{_CELL}'>{told(title)}</caption>" if title else ""
    head = "".join(f"<th style='{_CELL}'>{told(each)}</th>" for each in heads)
    body = "".join(
        "<tr>" + "".join(f"<td style='{_CELL}'>{told(cell)}</td>" for cell in row) + "</tr>" for row in rows[:shown]
    )
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def paragraph(text: str, style: str = "") -> str:
    """Return a sentence in HTML."""
    return f"<p style='{style}'>{told(text)}</p>"


def told(value: object) -> str:
    """Return a value as text that HTML takes as nothing but text."""
    shown = "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
    return html.escape("".join(char if char.isprintable() else "�" for char in shown))
