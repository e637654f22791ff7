"""A cluster at one moment: all objects that decisions depend on, as documents, in one value.

`read_cluster` makes one of a snapshot file or of what kubectl prints; code that tries things out on a cluster begins
with it.
"""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from berth.api.codec import KINDS, decoder
from berth.api.meta import Struct
from berth.api.quantity import QuantityError
from berth.api.shared_parts import Share, sharing_of
from berth.api.untrusted import UNREADABLE
from berth_workbench.snapshot.documents import Document, Part, complete, count_of, documents_of, is_read, read_given
from berth_workbench.snapshot.header import Header
from berth_workbench.snapshot.templates import Filled, ReplicaRows, ReplicaTemplate
from berth_workbench.snapshot.text import SnapshotError


class Snapshot:
    """The objects of a cluster, and what a snapshot file says of itself."""

    __slots__ = ("_documents", "_parts", "header")

    def __init__(self, parts: Sequence[Part], header: Header | None = None) -> None:
        self._parts = tuple(parts)
        self._documents: tuple[Document, ...] | None = None
        self.header = header

    def __len__(self) -> int:
        return sum(map(count_of, self._parts))

    @property
    def documents(self) -> tuple[Document, ...]:
        """The objects, each as a document, made when somebody asks; `of` makes those of some kinds only."""
        if self._documents is None:
            self._documents = tuple(documents_of(self._parts))
        return self._documents

    def of(self, *kinds: str) -> Iterator[Document]:
        """Yield the documents of these kinds."""
        for part in self._parts:
            if isinstance(part, Document):
                if part.kind in kinds:
                    yield part
            elif any(template.kind in kinds for template in part.templates):
                yield from (document for document in documents_of((part,)) if document.kind in kinds)

    def structs(self) -> Iterator[Struct]:
        """Yield the objects that the scheduler reads, those first that others refer to. Raises `ObjectError`.

        Equal parts are shared among them (see `berth.api.shared_parts`), so that replicas take little memory.
        """
        readers: dict[tuple[str, str], _Reader | None] = {}
        for are_pods in (False, True):
            for part in self._parts:
                if isinstance(part, Document):
                    if (part.kind == "Pod") is are_pods and (reader := _reader_of(part, readers)) is not None:
                        yield reader.read(part)
                    continue
                of_templates = {each: _reader_of(each, readers) for each in set(part.templates)}
                for template, texts in zip(part.templates, part.texts, strict=True):
                    if (template.kind == "Pod") is are_pods and (reader := of_templates[template]) is not None:
                        yield reader.filled(template, texts, part.where)


EMPTY = Snapshot(())
"""A cluster without anything, for those who put it together themselves."""


def _reader_of(found: Document | ReplicaTemplate, readers: dict[tuple[str, str], "_Reader | None"]) -> "_Reader | None":
    """Return what reads objects of a kind; None where the scheduler does not."""
    kind = found.kind, found.api_version
    if kind not in readers:
        readers[kind] = _Reader(found.kind) if is_read(*kind) else None
    return readers[kind]


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
        if isinstance(body, Filled):
            return self.filled(body.template, body.texts, document.where)
        try:
            return self._complete(self._of_json(body) if isinstance(body, bytes) else self._whole(document))
        except (*UNREADABLE, QuantityError):
            return self._whole(document)

    def filled(self, template: ReplicaTemplate, texts: list[str], where: str) -> Struct:
        """Return the struct of a template and texts. Raises `UnreadableObject`."""
        try:
            return self._complete(template.struct(texts, self._of_json))
        except (*UNREADABLE, QuantityError):
            part = ReplicaRows([template], [texts], where)
            return self._whole(next(documents_of((part,))))

    def _complete(self, found: Struct) -> Struct:
        meta = found.metadata  # type: ignore[attr-defined]
        if not (meta.uid and meta.namespace):
            complete(self._kind, found)
        return found

    def _whole(self, document: Document) -> Struct:
        """Return the struct by the longer way, which can read more, and which words what is wrong."""
        found = document.struct()
        self._share(found)
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
        if not given.parts:
            raise SnapshotError(f"{', '.join(map(str, paths))}: no objects in it")
        return Snapshot(last_of_each(given.parts), given.headers[0] if len(given.headers) == 1 else None)


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


def last_of_each(parts: Sequence[Part]) -> Sequence[Part]:
    """Return the objects without those that a later one of the same kind, namespace and name takes the place of."""
    # Mostly there are none, which shows by how many names there are of each kind, group and namespace.
    names: dict[tuple[str, str, str], set[str]] = {}
    count = 0
    for part in parts:
        if isinstance(part, Document):
            names.setdefault(_named_in(part), set()).add(part.name)
            count += 1
            continue
        of_templates = {each: names.setdefault(_named_in(each), set()) for each in set(part.templates)}
        for template, texts in zip(part.templates, part.texts, strict=True):
            of_templates[template].add(texts[template.name_at])
        count += len(part)
    if sum(map(len, names.values())) == count:
        return parts
    found: dict[object, Document] = {}
    for number, document in enumerate(documents_of(parts)):
        found[(_named_in(document), document.name) if document.name else number] = document
    return list(found.values())


def _named_in(found: Document | ReplicaTemplate) -> tuple[str, str, str]:
    """Return the kind, group and namespace in which a name stands for one object."""
    return found.kind, found.api_version.rpartition("/")[0], found.namespace
