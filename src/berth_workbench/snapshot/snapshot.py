"""A cluster at one moment: all objects that decisions depend on, as documents, in one value.

`read_cluster` makes one of a snapshot file or of what kubectl prints; code that tries things out on a cluster begins
with it.
"""

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from berth.api.codec import KINDS, decoder
from berth.api.meta import Struct
from berth.api.quantity import QuantityError
from berth.api.shared_parts import Share, sharing_of
from berth.api.untrusted import UNREADABLE
from berth_workbench.snapshot.documents import Document, complete, read_given
from berth_workbench.snapshot.header import Header
from berth_workbench.snapshot.templates import Filled
from berth_workbench.snapshot.text import SnapshotError


class Snapshot:
    """The documents of a cluster, and what a snapshot file says of itself."""

    __slots__ = ("documents", "header")

    def __init__(self, documents: Sequence[Document], header: Header | None = None) -> None:
        self.documents = tuple(documents)
        self.header = header

    def of(self, *kinds: str) -> Iterator[Document]:
        """Yield the documents of these kinds."""
        return (document for document in self.documents if document.kind in kinds)

    def structs(self) -> Iterator[Struct]:
        """Yield the objects that the scheduler reads, those first that others refer to. Raises `ObjectError`.

        Equal parts are shared among them (see `berth.api.shared_parts`), so that replicas take little memory.
        """
        readers: dict[tuple[str, str], _Reader | None] = {}
        pods = [each for each in self.documents if each.kind == "Pod"]
        for document in chain((each for each in self.documents if each.kind != "Pod"), pods):
            kind = document.kind, document.api_version
            if kind not in readers:
                readers[kind] = _Reader(document.kind) if document.is_read_by_scheduler else None
            reader = readers[kind]
            if reader is not None:
                yield reader.read(document)


EMPTY = Snapshot(())
"""A cluster without anything, for those who put it together themselves."""


class _Reader:
    """Reads documents of a kind as structs with their parts shared."""

    __slots__ = ("_decode", "_kind", "_share")

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._share: Share = sharing_of(kind)
        self._decode = decoder(KINDS[kind]).decode

    def read(self, document: Document) -> Struct:
        """Return the struct of a document. Raises `UnreadableObject`."""
        body = document.body
        try:
            if isinstance(body, Filled):
                found = body.template.struct(body.texts, self._of_json)
            elif isinstance(body, bytes):
                found = self._of_json(body)
            else:
                found = document.struct()
                self._share(found)
        except (*UNREADABLE, QuantityError):
            found = document.struct()  # by the longer way, which can read more, and which words what is wrong
            self._share(found)
        meta = found.metadata  # type: ignore[attr-defined]
        if not (meta.uid and meta.namespace):
            complete(self._kind, found)
        return found

    def _of_json(self, json: bytes) -> Struct:
        found: Struct = self._decode(json)
        self._share(found)
        return found


def read_cluster(paths: Sequence[str | Path]) -> Snapshot:
    """Return the cluster of a snapshot file, or of what `kubectl get -o yaml|json` printed. Raises `SnapshotError`.

    Of an object that is given several times the last counts.
    """
    with uncollected():
        given = read_given(paths)
        if not given.documents:
            raise SnapshotError(f"{', '.join(map(str, paths))}: no objects in it")
        return Snapshot(last_of_each(given.documents), given.headers[0] if len(given.headers) == 1 else None)


@contextmanager
def uncollected() -> Iterator[None]:
    """Look for no cycles while a cluster is read: all that is new stays, and to walk it again and again is a fifth."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
            # All that is new becomes old at once, as after collections that found nothing: otherwise the next two, of
            # what is young, would walk it all.
            gc.freeze()
            gc.unfreeze()


def last_of_each(documents: Iterable[Document]) -> list[Document]:
    """Return the documents without those that a later one of the same kind, namespace and name takes the place of."""
    found: dict[object, Document] = {}
    groups: dict[str, str] = {}
    for number, document in enumerate(documents):
        kind, _, _, api_version, namespace, name = document
        group = groups.get(api_version)
        if group is None:
            group = groups[api_version] = api_version.rpartition("/")[0]
        found[(kind, group, namespace, name) if name else number] = document
    return list(found.values())
