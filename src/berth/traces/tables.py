"""Reads the tables that traces are published in: CSV with or without a header, or JSON lines, compressed or not."""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from berth.api.untrusted import UNREADABLE, problem_of
from berth.traces.trace import TraceError


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
        with file.open("rb") as start:
            is_zipped = start.read(2) == b"\x1f\x8b"
        with file.open("rb") as packed:
            raw: Any = gzip.GzipFile(fileobj=packed) if is_zipped else packed
            yield from _json_rows(file, raw) if ".json" in file.name else _csv_rows(file, raw, columns)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"{file}: {error}") from None


def _json_rows(file: Path, raw: IO[bytes]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(raw, 1):
        if line.strip():
            try:
                yield number, msgspec.json.decode(line, type=dict[str, Any])
            except UNREADABLE as error:
                raise TraceError(f"{file}:{number}: {problem_of(error)}") from None


def _csv_rows(file: Path, raw: IO[bytes], columns: Sequence[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    names = tuple(columns)
    with io.TextIOWrapper(raw, "utf-8", newline="") as text:
        for number, row in enumerate(csv.reader(text), 1):
            if number == 1 and columns[0] in row:
                names = tuple(row)
                continue
            if len(row) < len(columns) and names == tuple(columns):
                wanted = ", ".join(columns)
                raise TraceError(f"{file}:{number}: {len(row)} columns, and {len(columns)} are expected: {wanted}")
            yield number, dict(zip(names, row, strict=False))


def number_in(row: Mapping[str, Any], column: str, where: str) -> float | None:
    """Return a number of a row, None where it is empty; dotted names lead into nested values. Raises `TraceError`."""
    value: Any = row
    if column in row:
        value = row[column]
    else:
        for part in column.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    if value is None or value == "":
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TraceError(f"{where}: {column} is {value!r}, not a number") from None


def is_sampled(key: str, share: float) -> bool:
    """Say whether something belongs to a sample of this share; the same answer in every run."""
    return zlib.crc32(key.encode()) < share * 2**32
