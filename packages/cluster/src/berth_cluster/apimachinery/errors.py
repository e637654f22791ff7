"""Refusals of the embedded API server, in the words of the real one.

The store and everything under it raise `StoreError`; the HTTP server and the in-process transport turn it
into a `metav1.Status` with `to_status()`.
"""

from typing import Any

import msgspec

Details = dict[str, Any]

MAX_MESSAGE = 16 * 1024  # characters
MAX_CAUSES = 100  # that are named; of the rest there is the number
_MAX_CAUSE = 4096  # characters of a message or a field
_MAX_VALUE = 256  # characters of a value in it


class StoreError(Exception):
    """A request that was refused: HTTP code, machine-readable reason, message for people, details."""

    def __init__(self, status_code: int, reason: str, message: str, details: Details | None = None) -> None:
        message = _cut(message, MAX_MESSAGE)
        super().__init__(message)
        self.status_code = status_code
        self.reason = reason
        self.message = message
        self.details = details

    def to_status(self) -> dict[str, Any]:
        """The refusal as the `metav1.Status` that clients expect."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.status_code,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        return status


def qualified(plural: str, group: str) -> str:
    """A resource as messages name it: `pods`, `deployments.apps`."""
    return f"{plural}.{group}" if group else plural


def _about(plural: str, group: str, name: str) -> Details:
    details: Details = {"name": name} if name else {}
    if group:
        details["group"] = group
    if plural:
        details["kind"] = plural
    return details


def not_found(plural: str, group: str, name: str) -> StoreError:
    """404: no such object."""
    message = f'{qualified(plural, group)} "{name}" not found'
    return StoreError(404, "NotFound", message, _about(plural, group, name))


def no_such_path() -> StoreError:
    """404: no resource that is served has this path."""
    return StoreError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(plural: str, group: str, name: str) -> StoreError:
    """409: the name is taken."""
    message = f'{qualified(plural, group)} "{name}" already exists'
    return StoreError(409, "AlreadyExists", message, _about(plural, group, name))


def conflict(plural: str, group: str, name: str, why: str) -> StoreError:
    """409: the request contradicts the present state of the object."""
    message = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}'
    return StoreError(409, "Conflict", message, _about(plural, group, name))


def stale(plural: str, group: str, name: str) -> StoreError:
    """409: the writer based its change on an older version of the object."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(plural, group, name, why)


def forbidden(plural: str, group: str, name: str, why: str) -> StoreError:
    """403: admission refuses the request."""
    about = f'{qualified(plural, group)} "{name}"' if name else qualified(plural, group)
    message = f"{about} is forbidden: {why}"
    return StoreError(403, "Forbidden", message, _about(plural, group, name))


def bad_request(message: str) -> StoreError:
    """400: the request itself makes no sense."""
    return StoreError(400, "BadRequest", message)


def expired(message: str) -> StoreError:
    """410: the resourceVersion or continue token is older than what is kept."""
    return StoreError(410, "Expired", message)


def too_old(requested: int, oldest: int) -> StoreError:
    """410 for a watch that wants to start before the kept history."""
    return expired(f"too old resource version: {requested} ({oldest})")


def method_not_allowed() -> StoreError:
    """405: the resource does not have this verb."""
    message = "the server does not allow this method on the requested resource"
    return StoreError(405, "MethodNotAllowed", message, {})


def too_many_requests() -> StoreError:
    """429: there is no room for the request now."""
    message = "Too many requests, please try again later."
    return StoreError(429, "TooManyRequests", message, {"retryAfterSeconds": 1})


def too_large(message: str) -> StoreError:
    """413: more than this server takes at once."""
    return StoreError(413, "RequestEntityTooLarge", message)


def unsupported_media_type(message: str) -> StoreError:
    """415: a body in a format that this server does not read."""
    return StoreError(415, "UnsupportedMediaType", message)


def _cut(text: str, most: int) -> str:
    """The text, or its beginning and how much more there is."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"


def as_json(value: Any) -> str:
    """A value as JSON."""
    return msgspec.json.encode(value).decode()


def as_text(value: Any) -> str:
    """A value as JSON, the keys of objects in order."""
    return msgspec.json.encode(value, order="sorted").decode()


class Raw(str):
    """Text that error messages show as it is, without quotes."""

    __slots__ = ()


class FieldErrors:
    """Collects what is wrong with one object, field by field, and raises it as one 422.

    Only the first findings are kept, and each only in so many words: an object may have as many mistakes as fields.
    `empties` are the empty lists and maps that were written, by their paths, which are shown as such and not as absent.
    """

    __slots__ = ("_causes", "_left_out", "empties")

    def __init__(self, empties: Details | None = None) -> None:
        self.empties: Details = empties or {}
        self._causes: list[Details] = []
        self._left_out = 0

    def __bool__(self) -> bool:
        return bool(self._causes)

    def _add(self, reason: str, field: str, message: str) -> None:
        if len(self._causes) >= MAX_CAUSES:
            self._left_out += 1
            return
        self._causes.append({"reason": reason, "message": _cut(message, _MAX_CAUSE), "field": _cut(field, _MAX_CAUSE)})

    def note(self, reason: str, field: str, message: str) -> None:
        """A finding in words of its own."""
        self._add(reason, field, message)

    def required(self, field: str, why: str = "") -> None:
        """A required field is missing."""
        self._add("FieldValueRequired", field, f"Required value: {why}" if why else "Required value")

    def invalid(self, field: str, value: Any, why: str) -> None:
        """A field has an invalid value."""
        most = _MAX_CAUSE // 2 if isinstance(value, Raw) else _MAX_VALUE
        value = self.empties.get(field) if value is None else value
        shown = "" if len(self._causes) >= MAX_CAUSES else _cut(_shown(value), most)
        why = f": {_cut(why, _MAX_CAUSE // 2)}" if why else ""
        self._add("FieldValueInvalid", field, f"Invalid value: {shown}{why}")

    def unsupported(self, field: str, value: Any, allowed: tuple[str, ...]) -> None:
        """A field has a value outside its closed set, which is told in the order given."""
        names = ", ".join(f'"{name}"' for name in allowed)
        shown = _cut(_shown(self.empties.get(field) if value is None else value), _MAX_VALUE)
        self._add("FieldValueNotSupported", field, f"Unsupported value: {shown}: supported values: {names}")

    def not_found(self, field: str, value: Any) -> None:
        """A field names something that is not there."""
        self._add("FieldValueNotFound", field, f"Not found: {_cut(_shown(value), _MAX_VALUE)}")

    def duplicate(self, field: str, value: Any, why: str = "") -> None:
        """Two entries of a list share a value that must be unique."""
        shown = _cut(_shown(value), _MAX_VALUE)
        self._add(
            "FieldValueDuplicate", field, f"Duplicate value: {shown}: {why}" if why else f"Duplicate value: {shown}"
        )

    def too_long(self, field: str, most: int) -> None:
        """A text has more than `most` bytes; it is not repeated."""
        self._add("FieldValueTooLong", field, f"Too long: may not be more than {most} bytes")

    def too_many(self, field: str, found: int, most: int) -> None:
        """A list has more than `most` items."""
        self._add("FieldValueTooMany", field, f"Too many: {found}: must have at most {most} items")

    def forbidden(self, field: str, why: str) -> None:
        """A field may not be set, or not be changed."""
        self._add("FieldValueForbidden", field, f"Forbidden: {why}")

    def repeat(self, times: int) -> None:
        """Report everything so far as often as upstream does, which checks some things more than once."""
        self._causes *= times

    def summary(self) -> str:
        """All of it in one line."""
        said = list(dict.fromkeys(f"{cause['field']}: {cause['message']}" for cause in self._causes))
        if self._left_out:
            said.append(f"and {self._left_out} more")
        return said[0] if len(said) == 1 else "[" + ", ".join(said) + "]"

    def raise_for(self, kind: str, group: str, name: str) -> None:
        """Raise one `Invalid` for everything collected, if anything was."""
        if self._causes:
            raise self.refusal(kind, group, name)

    def refusal(self, kind: str, group: str, name: str) -> StoreError:
        """One `Invalid` for everything collected."""
        message = f'{qualified(kind, group)} "{name}" is invalid: {self.summary()}'
        details = _about(kind, group, name)
        details["causes"] = self._causes
        return StoreError(422, "Invalid", message, details)


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, Raw) else as_json(value)
