"""The file in which the objects of a store outlive its process: a table of SQLite, with a row for each object.

The store notes here what it writes. `write` commits all that has been noted as one transaction, so that the file always
holds one state of the cluster, with the revision that it has. Whoever tells a client anything has the store `flush`
first: what has left the process is in the file, and no revision that anybody has seen is given out again.

A commit is handed to the operating system, which carries it out whatever becomes of the process; it waits for the disk
only now and then. After a power failure the file is in order, and may lack what was written last.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from berth.api.user_error import UserError
from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.resource_types import DEFINITIONS, ResourceKey
from berth_cluster.storage.watch import Entry

FILE_NAME = "objects.sqlite"
FORMAT = 1  # raised with everything that an older Berth would read wrongly
_APPLICATION = int.from_bytes(b"Bert")
_VACUUM_PAGES = 1000  # a smaller file is never worth making smaller
_SETTINGS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",
    "PRAGMA journal_size_limit = 67108864",  # bytes of the log that outlast a large transaction
)
_PLACE = "api_group, plural, namespace, name"
_TABLES = (
    "BEGIN",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {FORMAT}",
    f"CREATE TABLE objects ({_PLACE}, revision, written_s, owners, object, PRIMARY KEY ({_PLACE}))",
    "CREATE TABLE counter (revision INTEGER)",
    "INSERT INTO counter VALUES (0)",
    "COMMIT",
)
_PUT = """
    INSERT INTO objects VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    revision = excluded.revision, written_s = excluded.written_s, owners = excluded.owners, object = excluded.object
"""
_DROP = f"DELETE FROM objects WHERE ({_PLACE}) = (?, ?, ?, ?)"
# A definition comes before the objects that it declares, and events come in the order of their expiry.
_READ = "SELECT * FROM objects ORDER BY (api_group, plural) <> (?, ?), written_s, revision"
_REVISION = "SELECT max(revision) FROM (SELECT revision FROM counter UNION ALL SELECT revision FROM objects)"

OwnersOf = Callable[[str], bytes | None]


class ObjectFileError(StoreError, UserError):
    """A file that cannot be read or written: why, and what to do. Clients whose request it would hold get a 500."""

    def __init__(self, message: str) -> None:
        super().__init__(500, "InternalError", message)


class SavedObject(NamedTuple):
    """One object as the file has it."""

    key: ResourceKey
    namespace: str
    name: str
    revision: int
    written_s: float
    owners: bytes | None  # of its fields, as `FieldManagers` has them
    encoded: bytes


class _Row(NamedTuple):
    api_group: str
    plural: str
    namespace: str
    name: str
    revision: int
    written_s: float
    owners: bytes | None
    object: bytes


def _make(path: Path) -> None:
    """Make an empty file, which has its name when it is complete: an empty one is never left by a kill."""
    beginning = path.with_name(f"{path.name}.new")
    beginning.unlink(missing_ok=True)
    beginning.touch(mode=0o600)  # there are Secrets in it
    with closing(sqlite3.connect(beginning, isolation_level=None)) as made:
        for statement in _TABLES:
            made.execute(statement)
    beginning.replace(path)


class ObjectFile:
    """Opened by whoever makes the store, who holds the lock of the directory."""

    __slots__ = ("_connection", "_noted", "_path", "failure", "found_revision", "on_failure", "on_noted")

    def __init__(self, directory: Path) -> None:
        """Open the directory's file, or make an empty one. Raises `ObjectFileError` and OSError."""
        self._path = path = directory / FILE_NAME
        self._noted: dict[tuple[str, str, str, str], Entry | None] = {}  # None where the object has gone
        self.failure: ObjectFileError | None = None
        """Why nothing is written any more."""
        self.on_failure: Callable[[], object] | None = None
        self.on_noted: Callable[[], object] | None = None
        """Called when something is noted while all before it is written."""
        self.found_revision = 0
        """Of the state that the file held when it was opened; 0 where it is new."""
        if not path.exists():
            _make(path)
        self._refuse_what_is_none()
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            self._open()
        except (sqlite3.Error, ObjectFileError) as error:
            self._connection.close()
            raise error if isinstance(error, ObjectFileError) else self.unreadable(str(error)) from None

    def _refuse_what_is_none(self) -> None:
        """Raise `ObjectFileError` where SQLite would take it for a new file, or say little."""
        try:
            with self._path.open("rb") as file:
                is_empty = not file.read(1)
        except OSError as error:
            raise self.unreadable(error.strerror or str(error)) from None
        if is_empty:
            raise self.unreadable("it is empty, as where a copy was cut short or a disk was full")

    def _open(self) -> None:
        self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        if not self._number("schema_version"):
            raise self.unreadable("it holds no cluster")
        if self._number("application_id") != _APPLICATION:
            raise self.unreadable("it is another program's")
        if (found := self._number("user_version")) > FORMAT:
            raise self.unreadable(f"a newer Berth has written it, in format {found}; this one knows {FORMAT}")
        for setting in _SETTINGS:
            self._connection.execute(setting)
        self.found_revision = self._connection.execute(_REVISION).fetchone()[0]
        if not isinstance(self.found_revision, int):
            raise self.unreadable("its revision is damaged")
        if _VACUUM_PAGES < self._number("page_count") < 2 * self._number("freelist_count"):
            self._connection.execute("VACUUM")

    def _number(self, pragma: str) -> int:
        return int(self._connection.execute(f"PRAGMA {pragma}").fetchone()[0])

    def unreadable(self, why: str) -> ObjectFileError:
        """The error for a file that cannot be gone on with."""
        return ObjectFileError(f"cannot go on with {self._path}: {why}; move it away, or choose another --dir")

    @property
    def is_behind(self) -> bool:
        """Whether something has been noted since the last `write`."""
        return bool(self._noted)

    def read(self) -> Iterator[SavedObject]:
        """The objects, definitions of others first. Raises `ObjectFileError`."""
        try:
            for row in self._connection.execute(_READ, DEFINITIONS.key):
                saved = msgspec.convert(row, _Row)
                yield SavedObject((saved.api_group, saved.plural), *saved[2:])
        except (sqlite3.Error, msgspec.ValidationError, OverflowError) as error:
            raise self.unreadable(str(error)) from None

    def note(self, key: ResourceKey, entry: Entry, *, is_gone: bool) -> None:
        """Remember a change for the next `write`, which sees only what it made of the object."""
        is_first = not self._noted
        self._noted[*key, *entry.place] = None if is_gone else entry
        if is_first and self.on_noted is not None:
            self.on_noted()

    def write(self, revision: int, now_s: float, owners_of: OwnersOf) -> None:
        """Commit what has been noted, unless there is nothing; `ObjectFileError` from the first failure on."""
        if self.failure is None and self._noted:
            try:
                self._commit(revision, now_s, owners_of)
            except sqlite3.Error as error:
                why = f"cannot write {self._path}: {error}"
                self.failure = ObjectFileError(f"{why}; make room and start again, nothing that was answered is lost")
                if self.on_failure is not None:
                    self.on_failure()
        if self.failure is not None:
            raise self.failure

    def _commit(self, revision: int, now_s: float, owners_of: OwnersOf) -> None:
        noted, self._noted = self._noted, {}
        put = [
            (*place, entry.revision, now_s, owners_of(entry.obj["metadata"]["uid"]), entry.encoded)
            for place, entry in noted.items()
            if entry is not None
        ]
        execute = self._connection.execute
        execute("BEGIN")
        self._connection.executemany(_PUT, put)
        if len(put) < len(noted):  # else the object that was written last carries the revision
            self._connection.executemany(_DROP, [place for place, entry in noted.items() if entry is None])
            execute("UPDATE counter SET revision = ?", (revision,))
        execute("COMMIT")

    def close(self) -> None:
        """Let go of the file; safe to call twice."""
        with suppress(sqlite3.Error):  # all that matters is in its log already
            self._connection.close()
