"""Lists and watch lines as they come over the wire, decoded just far enough to find the objects in them.

The objects stay raw here: `berth.kube.mirror` decodes each by itself, so that one bad object spoils no list.
"""

import msgspec

from berth.api.untrusted import UNREADABLE, problem_of, read_deep

# How much of something unreadable is shown to people: enough to recognise it by.
EXCERPT_BYTES = 120


class MalformedError(ValueError):
    """A list, a watch line or an object in one cannot be read at all; the message is for people."""


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """metadata of a list."""

    resource_version: str = ""
    continue_token: str | None = msgspec.field(default=None, name="continue")


class RawList(msgspec.Struct, frozen=True):
    """One page of a list."""

    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


class RawEvent(msgspec.Struct, frozen=True, gc=False):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class Identity(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The part of metadata that names an object and its version."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Identified(msgspec.Struct, frozen=True, gc=False):
    metadata: Identity = Identity()


class WireReader:
    """Decoders made once, for the one reflector that uses them on every line."""

    __slots__ = ("_decode_event", "_decode_identified", "_decode_list")

    def __init__(self) -> None:
        self._decode_list = msgspec.json.Decoder(RawList).decode
        self._decode_event = msgspec.json.Decoder(RawEvent).decode
        self._decode_identified = msgspec.json.Decoder(_Identified).decode

    def list(self, body: bytes) -> RawList:
        """A page with its resourceVersion; raises `MalformedError`."""
        try:
            page = read_deep(self._decode_list, body)
        except UNREADABLE as error:
            raise MalformedError(f"the list cannot be read ({problem_of(error)}): {excerpt(body)}") from error
        if not page.metadata.resource_version:
            problem = "the list has no metadata.resourceVersion; is this an API server?"
            raise MalformedError(f"{problem} {excerpt(body)}")
        return page

    def event(self, line: bytes) -> RawEvent:
        """A watch event; raises `MalformedError`."""
        try:
            return read_deep(self._decode_event, line)
        except UNREADABLE as error:
            problem = f"a watch line is cut short or malformed ({problem_of(error)})"
            raise MalformedError(f"{problem}: {excerpt(line)}") from error

    def identity(self, raw: bytes | msgspec.Raw) -> Identity:
        """The name and version of an object, whatever the rest is like; raises `MalformedError`."""
        try:
            return read_deep(self._decode_identified, raw).metadata
        except UNREADABLE as error:
            raise MalformedError(f"an object has no readable metadata ({problem_of(error)}): {excerpt(raw)}") from error


def excerpt(data: bytes | msgspec.Raw) -> str:
    """The start of what was received."""
    return repr(bytes(memoryview(data)[:EXCERPT_BYTES]).decode("utf-8", "replace"))
