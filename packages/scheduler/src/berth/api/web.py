"""Documents that plugins read from elsewhere than the API server: JSON behind a URL, asked for again and again.

A plugin names one with a `WebResource`. What drives the core asks for it, so that no plugin ever waits; each answer
comes to the core as an object comes that is followed, and so takes part in events, memos and recordings.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from berth.api.codec import ObjectError
from berth.api.custom import CustomObject
from berth.api.meta import ObjectMeta
from berth.api.read_only import read_only_json
from berth.api.untrusted import UNREADABLE, problem_of, read_deep

DOCUMENT = "document"
"""What the one object of a web resource is called."""


class WebResource(msgspec.Struct, frozen=True):
    """A document that a plugin wants to know: JSON, an object at the top."""

    name: str
    """What events, and promises of plugins that depend on it, call it."""
    url: str
    every_s: float = 30.0
    """How long after an answer, or after a failure, it is asked for again."""

    def read(self, document: bytes | Mapping[str, Any]) -> CustomObject:
        """Return an answer as an object; raises `ObjectError`."""
        try:
            content = document if isinstance(document, Mapping) else read_deep(msgspec.json.decode, document)
            if not isinstance(content, Mapping):
                raise TypeError("it is not a JSON object")
            return CustomObject(ObjectMeta(name=DOCUMENT), self.name, read_deep(read_only_json, content))
        except (*UNREADABLE, TypeError) as error:
            raise ObjectError(self.name, DOCUMENT, problem_of(error)) from error
