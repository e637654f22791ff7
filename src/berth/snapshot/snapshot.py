"""A cluster at one moment: all objects that decisions depend on, as documents, in one value.

`read_cluster` makes one of a snapshot file or of what kubectl prints; whoever tries things out on a cluster begins
with it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from berth.api.meta import Struct
from berth.snapshot.documents import Document, read_documents


class Snapshot:
    """The documents of a cluster."""

    __slots__ = ("documents",)

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = tuple(documents)

    def of(self, *kinds: str) -> Iterator[Document]:
        """Yield the documents of these kinds."""
        return (document for document in self.documents if document.kind in kinds)

    def structs(self) -> Iterator[Struct]:
        """Yield the objects that the scheduler reads, those first that others refer to. Raises `ObjectError`."""
        later = []
        for document in self.documents:
            if not document.is_read_by_scheduler:
                continue
            if document.kind == "Pod":
                later.append(document)
            else:
                yield document.struct()
        for document in later:
            yield document.struct()


def read_cluster(paths: Sequence[str | Path]) -> Snapshot:
    """Return the cluster of a snapshot file, or of what `kubectl get -o yaml|json` printed. Raises `SnapshotError`."""
    return Snapshot(read_documents(paths))
