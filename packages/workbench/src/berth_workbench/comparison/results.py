"""A sweep's results on disk: one small file for each run that is finished, and one table of them all at the end.

A file appears under its name once it is complete, so that a sweep may be interrupted at any moment. It is found again
by the run's key, which covers everything that the run depends on.
"""

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from berth_workbench.comparison.tasks import TaskResult

PARQUET, JSON_LINES = "results.parquet", "results.jsonl"


class ResultRow(msgspec.Struct, frozen=True):
    """One measure of one run."""

    load: str
    configuration: str
    seed: int
    measure: str
    value: float


class ResultsDirectory:
    """Where a sweep keeps what is done."""

    __slots__ = ("_inputs", "_runs", "path")

    def __init__(self, path: str | Path) -> None:
        """Make the directory. Raises OSError."""
        self.path = Path(path)
        self._inputs, self._runs = self.path / "inputs", self.path / "runs"
        for each in (self._inputs, self._runs):
            each.mkdir(parents=True, exist_ok=True)

    def keep_input(self, name: str, content: bytes) -> Path:
        """Write a load's content under its hash, for workers to read; return where it is."""
        path = self._inputs / name
        if not path.exists():
            _write(path, content)
        return path

    def keep(self, result: bytes) -> TaskResult:
        """Write a run's result; return it."""
        found = msgspec.json.decode(result, type=TaskResult)
        _write(self._runs / f"{found.key}.json", result)
        return found

    def find(self, key: str) -> TaskResult | None:
        """Return the result of a run that is finished; a file that says something else counts as none."""
        try:
            found = msgspec.json.decode((self._runs / f"{key}.json").read_bytes(), type=TaskResult)
        except (OSError, msgspec.DecodeError):
            return None
        return found if found.key == key else None

    def write_table(self, rows: Sequence[ResultRow]) -> tuple[Path, bool]:
        """Write the table of all results; return the file, and whether it is Parquet or JSON lines for lack of pyarrow.

        The same rows give the same bytes.
        """
        try:
            content, name = _parquet(rows), PARQUET
        except ImportError:
            content, name = b"".join(msgspec.json.encode(row) + b"\n" for row in rows), JSON_LINES
        _write(self.path / name, content)
        return self.path / name, name == PARQUET


def _parquet(rows: Iterable[ResultRow]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = {"load": pa.string(), "configuration": pa.string(), "seed": pa.int64(), "measure": pa.string()}
    schema = pa.schema([*fields.items(), ("value", pa.float64())])
    columns: Mapping[str, list[object]] = {name: [] for name in schema.names}
    for row in rows:
        for name, value in msgspec.structs.asdict(row).items():
            columns[name].append(value)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns, schema=schema), sink, compression="zstd")
    return bytes(sink.getvalue())


def _write(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
