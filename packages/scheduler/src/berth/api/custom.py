"""Objects of resources that Berth does not know: those of custom resources that a plugin asks for.

A plugin names a resource with a `CustomResource` and gets its objects as a struct of its own, or as `CustomObject`,
which is the JSON read-only.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from berth.api.codec import ObjectError, decoder, object_name
from berth.api.meta import ObjectMeta, Struct
from berth.api.read_only import read_only_json
from berth.api.resources import Resource
from berth.api.untrusted import UNREADABLE, problem_of, read_deep


class CustomObject(Struct, frozen=True):
    """An object whose fields nobody has declared: `found["spec"]["size"]`; mappings are read-only, lists are tuples."""

    metadata: ObjectMeta
    resource: str
    """The name of its resource (`foos.v1.example.com`)."""
    content: Mapping[str, Any]

    def __getitem__(self, field: str) -> Any:
        return self.content[field]

    def get(self, field: str, default: Any = None) -> Any:
        """Return a field at the top, or the default."""
        return self.content.get(field, default)


class CustomResource(msgspec.Struct, frozen=True):
    """A resource that a plugin wants to follow: where the API server has it, and what its objects are read into."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    struct: type[msgspec.Struct] | None = None
    """A struct with a field `metadata` of type `ObjectMeta`, or None for `CustomObject`."""

    @property
    def name(self) -> str:
        """What events call it: `foos.v1.example.com`, as upstream spells it."""
        return f"{self.plural}.{self.version}.{self.group}" if self.group else f"{self.plural}.{self.version}"

    @property
    def resource(self) -> Resource:
        """Its place in the API; objects and events go by its name, since a kind alone may be that of another group."""
        return Resource(self.group, self.version, self.plural, self.name, self.namespaced)

    def read(self, document: bytes | msgspec.Raw | Mapping[str, Any]) -> Any:
        """Return the object that a document holds; raises `ObjectError`."""
        try:
            if self.struct is not None:
                if isinstance(document, Mapping):
                    return msgspec.convert(document, self.struct)
                return read_deep(decoder(self.struct).decode, document)
            content = document if isinstance(document, Mapping) else read_deep(msgspec.json.decode, document)
            metadata = msgspec.convert(content["metadata"], ObjectMeta)
            return CustomObject(metadata, self.name, read_deep(read_only_json, content))
        except (*UNREADABLE, TypeError, KeyError) as error:
            name = object_name(document if isinstance(document, Mapping) else bytes(document))
            raise ObjectError(self.name, name, problem_of(error)) from error
