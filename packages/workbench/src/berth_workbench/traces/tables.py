"""Reads the tables that traces are published in: CSV with or without a header, or JSON lines, compressed or not."""

import csv
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from berth.api.untrusted import UNREADABLE, problem_of, shortened
from berth_workbench.traces.trace import MOST_OF_ANYTHING, TraceError, is_name, lines_of

FAR = 1e19
"""No number of a table is as large: Google's tables have 2**63 - 1 for what was after the end."""


def files_of(directory: Path, table: str, *, is_needed: bool = True) -> list[Path]:
    """Return the files of a table, whose names begin with its name, sorted. Raises `TraceError`."""
    found = sorted(each for each in directory.glob(f"{table}*") if each.is_file()) if directory.is_dir() else []
    if is_needed and not found:
        raise TraceError(f"{directory}: there is no file {table}*.csv or {table}*.json in it")
    return found


def rows_of(file: Path, columns: Sequence[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the rows of a table with their line numbers, by column; nested values have dotted names in CSV.

    A CSV file may begin with the names of its columns; without them `columns` says which they are. Raises
    `TraceError`.
    """
    try:
        yield from _json_rows(file) if ".json" in file.name else _csv_rows(file, columns)
    except UnicodeDecodeError:
        raise TraceError(f"{file}: it is no text in UTF-8") from None
    except csv.Error as error:
        raise TraceError(f"{file}: {error}") from None


def things_of(
    directory: Path, table: str, columns: Sequence[str], sample: float
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the rows of a table of things, each thing once and of all of them a sample: where the row is, its name, it.

    The name is in the first column. Raises `TraceError`.
    """
    known = set()
    for file in files_of(directory, table):
        for number, row in rows_of(file, columns):
            where = f"{file}:{number}"
            name = name_in(row, columns[0], where)
            if name not in known and is_sampled(name, sample):
                known.add(name)
                yield where, name, row


def _json_rows(file: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in lines_of(file):
        try:
            yield number, msgspec.json.decode(line, type=dict[str, Any])
        except UNREADABLE as error:
            raise TraceError(f"{file}:{number}: {problem_of(error)}") from None


def _csv_rows(file: Path, columns: Sequence[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    names = tuple(columns)
    number, is_first = 0, True

    def texts() -> Iterator[str]:
        nonlocal number
        for at, line in lines_of(file):
            number = at
            yield line.decode()

    for row in csv.reader(texts()):
        if is_first and columns[0] in row:
            names = tuple(row)
        elif len(row) < len(columns) and names == tuple(columns):
            wanted = ", ".join(columns)
            raise TraceError(f"{file}:{number}: {len(row)} columns, and {len(columns)} are expected: {wanted}")
        else:
            yield number, dict(zip(names, row, strict=False))
        is_first = False


def number_in(
    row: Mapping[str, Any], column: str, where: str, *, least: float = -FAR, most: float = FAR
) -> float | None:
    """Return a number of a row, None where it is empty; dotted names lead into nested values.

    Raises `TraceError` for what is no number, or not from `least` to `most`.
    """
    value = _value(row, column)
    if value is None or value == "":
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise TraceError(f"{where}: {column} is {shortened(repr(value), 80)}, not a number") from None
    if not least <= number <= most:
        bounds = f"from {least:g} to {most:g}" if least > -FAR else "a finite number"
        raise TraceError(f"{where}: {column} is {shortened(repr(value), 80)}; it should be {bounds}")
    return number


def amount_in(row: Mapping[str, Any], column: str, where: str, unit: float) -> int:
    """Return how much of something a row has, in units of ours, of which `unit` are one of the table's; 0 where empty.

    Raises `TraceError` for less than nothing, and for more than anything has.
    """
    number = number_in(row, column, where, least=0)
    if number is None:
        return 0
    if unit * number >= MOST_OF_ANYTHING:
        raise TraceError(f"{where}: {column} is {shortened(repr(_value(row, column)), 80)}, more than anything has")
    return round(unit * number)


def name_in(row: Mapping[str, Any], column: str, where: str) -> str:
    """Return what something is called. Raises `TraceError`."""
    if column not in row:
        raise TraceError(f"{where}: there is no column {column}")
    name = str(row[column])
    if not name:
        raise TraceError(f"{where}: {column} is empty")
    if not is_name(name):
        raise TraceError(f"{where}: {column} is {shortened(ascii(name), 80)}, which is no name")
    return name


def _value(row: Mapping[str, Any], column: str) -> Any:
    if column in row:
        return row[column]
    value: Any = row
    for part in column.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def is_sampled(key: str, share: float) -> bool:
    """Say whether something belongs to a sample of this share; the same answer in every run."""
    return zlib.crc32(key.encode()) < share * 2**32
