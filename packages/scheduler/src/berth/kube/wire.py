"""Lists and watch events as they come over the wire, decoded just far enough to find the objects in them.

Normally a page or line of JSON is decoded in one go, structs and all. If that fails, the objects in it stay raw, and
`berth.kube.mirror` decodes each separately, so that one bad object does not spoil a list. Pods may come as protobuf
instead: each answer says so by how it begins, and the pods in it stay raw, too.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from google.protobuf.message import DecodeError

from berth.api import protobuf_pods
from berth.api.meta import Struct
from berth.api.pod import Pod
from berth.api.untrusted import UNREADABLE, problem_of, read_deep

# How much of something unreadable is shown to people: enough to recognise it by.
EXCERPT_BYTES = 120


class MalformedError(ValueError):
    """A list, a watch line or an object in one cannot be read at all; the message is for people."""


Item = TypeVar("Item")

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the first part of a streaming list."""


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """metadata of a list."""

    resource_version: str = ""
    continue_token: str | None = msgspec.field(default=None, name="continue")


class ListPage(msgspec.Struct, Generic[Item], frozen=True):
    """One page of a list; its items are structs, or raw."""

    metadata: ListMeta = ListMeta()
    items: Sequence[Item] | None = None


class WatchLine(msgspec.Struct, Generic[Item], frozen=True, gc=False):
    """One line of a watch; its object is a struct, or raw."""

    type: str
    object: Item


class ProtobufPod(msgspec.Struct, frozen=True, gc=False):
    """A pod that is still to be read."""

    body: bytes


class Identity(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The part of metadata that names an object and its version."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class Identified(msgspec.Struct, frozen=True, gc=False):
    """An object of which nothing but the metadata is read, or which has nothing else."""

    metadata: Identity = Identity()


class WireReader:
    """Decoders made once, for the one reflector that uses them on every line."""

    __slots__ = (
        "_decode_event",
        "_decode_identified",
        "_decode_list",
        "_decode_metadata",
        "_decode_typed_event",
        "_decode_typed_list",
        "_pods",
        "reads_protobuf",
    )

    def __init__(self, struct: type[Struct] | None = None) -> None:
        """`struct` is what objects are decoded into at once; without one they stay raw."""
        self.reads_protobuf = struct is Pod
        """Whether the objects can be read as protobuf, too: there are enough pods for it to pay."""
        self._pods = protobuf_pods.PodReader()
        self._decode_list = msgspec.json.Decoder(ListPage[msgspec.Raw]).decode
        self._decode_event = msgspec.json.Decoder(WatchLine[msgspec.Raw]).decode
        self._decode_metadata = msgspec.json.Decoder(ListPage[Identified]).decode
        self._decode_identified = msgspec.json.Decoder(Identified).decode
        self._decode_typed_list = None if struct is None else msgspec.json.Decoder(ListPage[struct]).decode  # type: ignore[valid-type]
        self._decode_typed_event = None if struct is None else msgspec.json.Decoder(WatchLine[struct]).decode  # type: ignore[valid-type]

    def list(self, body: bytes) -> ListPage[Any]:
        """A page with its resourceVersion; raises `MalformedError`."""
        page: ListPage[Any] | None
        if body.startswith(protobuf_pods.MAGIC):
            page = self._protobuf_page(body)
        else:
            page = self._quickly(self._decode_typed_list, body)
        if page is None:
            try:
                page = read_deep(self._decode_list, body)
            except UNREADABLE as error:
                raise MalformedError(f"the list cannot be read ({problem_of(error)}): {excerpt(body)}") from error
        if not page.metadata.resource_version:
            problem = "the list has no metadata.resourceVersion; is this an API server?"
            raise MalformedError(f"{problem} {excerpt(body)}")
        return page

    def _protobuf_page(self, body: bytes) -> ListPage[ProtobufPod]:
        version, token, pods = _checked(protobuf_pods.read_page, body, "the list")
        return ListPage(ListMeta(version, token), [ProtobufPod(pod) for pod in pods])

    def pod(self, raw: ProtobufPod) -> Pod:
        """A pod whose parts are shared with those that came before; raises `ObjectError` and `MalformedError`."""
        return _checked(self._pods.read, raw.body, "a pod")

    def metadata(self, body: bytes) -> ListPage[Identified]:
        """A page of a list of metadata; raises `MalformedError`."""
        try:
            return read_deep(self._decode_metadata, body)
        except UNREADABLE as error:
            raise MalformedError(f"the metadata cannot be read ({problem_of(error)}): {excerpt(body)}") from error

    def event(self, line: bytes) -> WatchLine[Any]:
        """A watch event; raises `MalformedError`. The object of an ERROR stays raw."""
        if not line.startswith(b"{") and self.reads_protobuf:
            return self._protobuf_event(line)
        event: WatchLine[Any] | None = self._quickly(self._decode_typed_event, line)
        # The object of an ERROR is a Status, of which a struct for something else would keep nothing.
        if event is not None and event.type != "ERROR":
            return event
        try:
            return read_deep(self._decode_event, line)
        except UNREADABLE as error:
            problem = f"a watch line is cut short or malformed ({problem_of(error)})"
            raise MalformedError(f"{problem}: {excerpt(line)}") from error

    def _protobuf_event(self, frame: bytes) -> WatchLine[Any]:
        kind, about = _checked(protobuf_pods.read_event, frame, "a watch event")
        return WatchLine(kind, about if kind == "ERROR" else ProtobufPod(about))

    @staticmethod
    def _quickly(decode: Callable[[bytes], Any] | None, body: bytes) -> Any | None:
        """Decode in one go; None if something in it needs a closer look."""
        if decode is None:
            return None
        try:
            return decode(body)
        except UNREADABLE:
            return None

    def identity(self, raw: bytes | msgspec.Raw | ProtobufPod | Struct) -> Any:
        """The name and version of an object, whatever the rest is like; raises `MalformedError`.

        Of a struct it is the metadata, which has all the fields of an `Identity`.
        """
        if isinstance(raw, Struct):
            return raw.metadata  # type: ignore[attr-defined]
        if isinstance(raw, ProtobufPod):
            return msgspec.convert(_checked(protobuf_pods.identity_of, raw.body, "a pod"), Identity)
        try:
            return read_deep(self._decode_identified, raw).metadata
        except UNREADABLE as error:
            raise MalformedError(f"an object has no readable metadata ({problem_of(error)}): {excerpt(raw)}") from error


def _checked(read: Callable[[bytes], Item], body: bytes, what: str) -> Item:
    """Read protobuf; raises `MalformedError` if it is not."""
    try:
        return read(body)
    except DecodeError as error:
        raise MalformedError(f"{what} cannot be read ({error}): {excerpt(body)}") from error


def excerpt(data: bytes | msgspec.Raw) -> str:
    """The start of what was received."""
    return repr(bytes(memoryview(data)[:EXCERPT_BYTES]).decode("utf-8", "replace"))
