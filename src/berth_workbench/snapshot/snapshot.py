"""A cluster at one moment: all objects that decisions depend on, as documents, in one value.

`read_cluster` makes one of a snapshot file or of what kubectl prints; code that tries things out on a cluster begins
with it.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from berth.api.codec import KINDS, decoder
from berth.api.meta import Struct
from berth.api.quantity import QuantityError
from berth.api.shared_parts import Share, sharing_of
from berth.api.untrusted import UNREADABLE
from berth_workbench.snapshot.documents import Document, complete, read_given
from berth_workbench.snapshot.header import Header
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
        later = []
        sharing: dict[str, Share] = {}
        for document in self.documents:
            if not document.is_read_by_scheduler:
                continue
            if document.kind == "Pod":
                later.append(document)
            else:
                yield _shared(document, sharing)
        for document in later:
            yield _shared(document, sharing)


EMPTY = Snapshot(())
"""A cluster without anything, for those who put it together themselves."""


def _shared(document: Document, sharing: dict[str, Share]) -> Struct:
    """Return the struct of a document with its parts shared."""
    kind = document.kind
    if kind not in sharing:
        sharing[kind] = sharing_of(kind)
    if isinstance(document.body, bytes):
        try:
            found: Struct = decoder(KINDS[kind]).decode(document.body)
            sharing[kind](found)
        except (*UNREADABLE, QuantityError):
            pass  # again by the longer way, which can read more, and which words what is wrong
        else:
            complete(kind, found)
            return found
    found = document.struct()
    sharing[kind](found)
    return found


def read_cluster(paths: Sequence[str | Path]) -> Snapshot:
    """Return the cluster of a snapshot file, or of what `kubectl get -o yaml|json` printed. Raises `SnapshotError`.

    Of an object that is given several times the last counts.
    """
    given = read_given(paths)
    if not given.documents:
        raise SnapshotError(f"{', '.join(map(str, paths))}: no objects in it")
    return Snapshot(last_of_each(given.documents), given.headers[0] if len(given.headers) == 1 else None)


def last_of_each(documents: Iterable[Document]) -> list[Document]:
    """Return the documents without those that a later one of the same kind, namespace and name takes the place of."""
    found: dict[object, Document] = {}
    for number, document in enumerate(documents):
        group = document.api_version.rpartition("/")[0]
        key = (document.kind, group, document.namespace, document.name) if document.name else number
        found[key] = document
    return list(found.values())
