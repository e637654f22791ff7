"""Makes snapshots: of a cluster through its API server, or of files; and writes them.

`taken_from_cluster` lists what `shapes.TAKEN` names, page by page; `taken_from_files` takes documents that somebody has
read. Both keep of each object what `shapes` says. Both take objects of custom resources as well, where somebody names
these; of them everything is kept but who wrote which field, and manifests. `write_snapshot` writes one file: the header
in the first line, then an object a line, compressed.
"""

import gzip
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec

from berth.api.custom import CustomResource
from berth.api.errors import ApiError, TransportError
from berth.api.resources import RESOURCES, Resource, versions_of
from berth.api.untrusted import UNREADABLE, read_deep
from berth.kube.discovery import ApiDiscovery
from berth.kube.transport import Transport
from berth.kube.wire import MalformedError, WireReader
from berth_workbench.snapshot.documents import Document, parse_documents
from berth_workbench.snapshot.header import FORMAT, MAY_NOT, NOT_GIVEN, NOT_SERVED, Header, Missing
from berth_workbench.snapshot.kept_fields import MANIFESTS, TAKEN, shape_of, trimmed
from berth_workbench.snapshot.snapshot import Snapshot
from berth_workbench.snapshot.templates import lines_of
from berth_workbench.snapshot.text import SnapshotError

PAGE = 500
"""How many objects are asked for at a time, as kubectl does."""
RESTARTS = 3
"""How often the list of a kind is begun anew, where the server has forgotten the version that its pages are of."""
INDISPENSABLE = frozenset({"Node", "Pod"})
"""Without these a snapshot is of no use."""
LEVEL = 5
"""Of compression: half as slow as gzip's own, and a few percent larger."""

OnPage = Callable[[str, int], None]
"""Called for each page: the kind, and how many objects it had."""


# -- from a cluster --------------------------------------------------------------------------------------------------


async def taken_from_cluster(
    transport: Transport,
    server: str,
    on_page: OnPage = lambda _kind, _count: None,
    custom: Iterable[CustomResource] = (),
    wanted: Iterable[CustomResource] = (),
) -> Snapshot:
    """Return a snapshot of what an API server has. Raises `TransportError`, `SnapshotError`.

    Nodes and pods must be there. Other kinds that are not served, or that may not be listed, are told in the header.
    All kinds are asked for as they were when the first of them was listed. A server that cannot tell that any more
    answers with what is, and the header has a later resource version for that kind. `custom` are further resources,
    such as those that plugins follow; the header calls them by their names. Those of `wanted` are further ones that a
    cluster need not serve.
    """
    discovery = ApiDiscovery(transport)
    documents: list[Document] = []
    versions: dict[str, str] = {}
    missing = []
    at = ""
    needed = {each.name: each for each in _of_their_own(custom)}
    further = {each.name: each for each in _of_their_own(wanted)} | needed
    for kind in (*sorted(TAKEN, key=lambda kind: kind not in INDISPENSABLE), *further):
        try:
            served = await (_served_custom(discovery, further[kind]) if kind in further else _served(discovery, kind))
            if served is None:
                if kind in TAKEN or kind in needed:
                    missing.append(Missing(kind, NOT_SERVED))
                continue
            listed, version = await _listed(transport, served, server, at, on_page)
        except ApiError as error:
            if kind in INDISPENSABLE or not (error.is_not_found or error.status == 403):
                raise
            missing.append(Missing(kind, NOT_SERVED if error.is_not_found else MAY_NOT))
            continue
        documents += listed
        versions[kind] = version
        at = at or version
    header = Header(server_version=await _server_version(transport), resource_versions=versions, missing=tuple(missing))
    return with_counts(documents, header)


async def _served(discovery: ApiDiscovery, kind: str) -> Resource | None:
    versions = versions_of(kind) if kind in RESOURCES else (TAKEN[kind],)
    return versions[0] if versions[0].api_version == "v1" else await discovery.first_served(versions)


async def _served_custom(discovery: ApiDiscovery, custom: CustomResource) -> Resource | None:
    there = Resource(custom.group, custom.version, custom.plural, custom.kind, custom.namespaced)
    return there if await discovery.is_served(there) else None


def _of_their_own(custom: Iterable[CustomResource]) -> Iterator[CustomResource]:
    """Yield the resources that are taken besides; plugins may also follow those that every snapshot has."""
    taken = {(each.group, each.plural) for each in TAKEN.values()}
    return (each for each in custom if (each.group, each.plural) not in taken)


async def _listed(
    transport: Transport, resource: Resource, server: str, at: str, on_page: OnPage
) -> tuple[list[Document], str]:
    """Return the objects of a kind and the version of the list."""
    for attempt in range(RESTARTS + 1):
        try:
            # A version with a limit asks for exactly that version; see "Resource versions" in Kubernetes' API concepts.
            return await _pages(transport, resource, server, at if attempt == 0 else "", on_page)
        except ApiError as error:
            is_version_at_fault = error.status in (400, 410, 504)
            if attempt == RESTARTS or not (error.status == 410 or (is_version_at_fault and attempt == 0 and at)):
                raise
    raise AssertionError("the last attempt returns or raises")


async def _pages(
    transport: Transport, resource: Resource, server: str, at: str, on_page: OnPage
) -> tuple[list[Document], str]:
    reader = WireReader()
    found: list[Document] = []
    token = ""
    while True:
        body = await transport.list(resource, limit=PAGE, continue_token=token, resource_version="" if token else at)
        try:
            page = reader.list(body)
        except MalformedError as error:
            raise SnapshotError(f"{server}: {resource.plural}: {error}") from None
        listed = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "items": page.items or ()}
        found += map(_trimmed, parse_documents(msgspec.json.encode(listed), f"{server}: {resource.plural}"))
        on_page(resource.kind, len(page.items or ()))
        token = page.metadata.continue_token or ""
        if not token:
            return found, page.metadata.resource_version


async def _server_version(transport: Transport) -> str:
    class Version(msgspec.Struct, rename="camel"):
        git_version: str = ""

    try:
        return read_deep(msgspec.json.decode, await transport.read("/version"), type=Version).git_version
    except (TransportError, *UNREADABLE):
        return ""


# -- from files ------------------------------------------------------------------------------------------------------


def taken_from_files(given: Snapshot, custom: Iterable[CustomResource] = ()) -> Snapshot:
    """Return a snapshot of the objects of files: of the kinds that a snapshot has, and of `custom` resources.

    Raises `SnapshotError`. A snapshot that was given keeps its header.
    """
    further = {(each.resource.api_version, each.kind) for each in _of_their_own(custom)}
    documents = [
        _trimmed(each)
        for each in given.documents
        if is_taken(each.kind, each.api_version) or (each.api_version, each.kind) in further
    ]
    present = {each.kind for each in documents}
    if given.header is not None:
        return with_counts(documents, given.header)
    missing = tuple(Missing(kind, NOT_GIVEN) for kind in TAKEN if kind not in present)
    return with_counts(documents, Header(missing=missing))


def is_taken(kind: str, api_version: str) -> bool:
    """Say whether every snapshot has objects of a kind; kinds of other groups may have the same name."""
    return kind in TAKEN and (not api_version or api_version.rpartition("/")[0] == TAKEN[kind].group)


def _trimmed(document: Document) -> Document:
    if not is_taken(document.kind, document.api_version):
        return document._replace(body=read_deep(msgspec.json.encode, _without_records(document.manifest)))
    manifest = trimmed(document.manifest, shape_of(document.kind))
    resource = TAKEN[document.kind]
    manifest = {"kind": document.kind, "apiVersion": document.api_version or resource.api_version, **manifest}
    return document._replace(body=read_deep(msgspec.json.encode, manifest), api_version=manifest["apiVersion"])


def _without_records(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return an object of a custom resource without what tells of its writers."""
    metadata = {name: each for name, each in (manifest.get("metadata") or {}).items() if name != "managedFields"}
    if annotations := metadata.get("annotations"):
        metadata["annotations"] = {name: each for name, each in annotations.items() if name not in MANIFESTS}
    return {**manifest, "metadata": metadata}


# -- the file --------------------------------------------------------------------------------------------------------


def with_counts(documents: Sequence[Document], header: Header) -> Snapshot:
    """Return a snapshot whose header counts its objects."""
    counts: dict[str, int] = {}
    for document in documents:
        counts[document.kind] = counts.get(document.kind, 0) + 1
    return Snapshot(documents, msgspec.structs.replace(header, counts=dict(sorted(counts.items()))))


def write_snapshot(snapshot: Snapshot, path: Path) -> None:
    """Write a snapshot; nobody but its owner may read the file. Raises OSError.

    The file takes the place of an older one when it is complete.
    """
    with _replaced(path) as file:
        write_lines(snapshot, file)


def write_lines(snapshot: Snapshot, file: IO[bytes]) -> None:
    """Write the lines of a snapshot, compressed."""
    with gzip.GzipFile(filename="", mode="wb", compresslevel=LEVEL, fileobj=file, mtime=0) as packed:
        for line in _lines(snapshot):
            packed.write(line + b"\n")


def _lines(snapshot: Snapshot) -> Iterator[bytes]:
    # A snapshot of an older format keeps its header, but not its format.
    yield msgspec.json.encode(msgspec.structs.replace(snapshot.header or Header(), format=FORMAT))
    documents = snapshot.documents
    yield from lines_of([each.json() for each in documents], lambda place: documents[place].kind == "Pod")


@contextmanager
def _replaced(path: Path) -> Iterator[IO[bytes]]:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink()
        raise
