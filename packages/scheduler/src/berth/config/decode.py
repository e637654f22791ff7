"""Strict decoding: JSON values into msgspec structs, with every fault named by its field path.

`v1` decodes whole documents with it, `plugin_args` the args of plugins. It differs from `msgspec.convert` in
three ways: it continues after a fault so that all are reported together, a field that a struct does not have
is a fault that suggests near names, and null counts as absent, as it does in Go.
"""

import re
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, TypeVar, Union, cast, get_args, get_origin

import msgspec

from berth.api.near_names import nearest
from berth.config.durations import Duration
from berth.config.errors import invalid, required, shown

T = TypeVar("T")

_WORDS: Final = {
    "`int`": "an integer",
    "`float`": "a number",
    "`str`": "a string",
    "`bool`": "true or false",
    "`bytes`": "base64 text",
    "`object`": "a mapping",
    "`array`": "a list",
    "`null`": "nothing",
}


class Decoder:
    """Decodes values and gathers the faults; `hints` adds a sentence about unknown fields that once had a meaning."""

    __slots__ = ("_hints", "errors")

    def __init__(self, hints: Mapping[str, str] | None = None) -> None:
        self.errors: list[str] = []
        self._hints = hints or {}

    def decode(self, value: Any, to: type[T], path: str = "") -> T | None:
        """The value as `to`, or None with the faults in `errors`."""
        faults_before = len(self.errors)
        decoded = self._any(value, to, path)
        return cast("T", decoded) if len(self.errors) == faults_before else None

    def _any(self, value: Any, to: Any, path: str) -> Any:
        """Decode the parts of a type that has parts; convert one that has none."""
        if get_origin(to) is Annotated and not _is_scalar(get_args(to)[0]):
            to = get_args(to)[0]
        to = _without_none(to)
        if isinstance(to, type) and issubclass(to, msgspec.Struct):
            return self._struct(value, to, path)
        origin, args = get_origin(to), get_args(to)
        if origin in {list, tuple, Sequence} and len(args) in {1, 2}:
            items = self._items(value, args[0], path)
            return items if origin is list else tuple(items)
        if origin in {dict, Mapping} and len(args) == 2:
            return dict(self._entries(value, args[1], path))
        return self._leaf(value, to, path)

    def _struct(self, value: Any, to: type[msgspec.Struct], path: str) -> Any:
        """A struct from a mapping that has all of its required fields and no others."""
        if not isinstance(value, Mapping):
            self._wrong(path, value, f"expected a mapping, got {_kind(value)}")
            return None
        fields = {field.encode_name: field for field in msgspec.structs.fields(to)}
        faults_before = len(self.errors)
        found: dict[str, Any] = {}
        for key, part in value.items():
            where = _child(path, key)
            field = fields.get(key)
            if field is None:
                self.errors.append(self._unknown(where, key, fields))
            elif part is not None:
                found[field.name] = self._any(part, field.type, where)
        for name, field in fields.items():
            if field.required and value.get(name) is None:
                self.errors.append(required(_child(path, name)))
        if len(self.errors) > faults_before:
            return None
        try:
            return to(**found)
        except (TypeError, ValueError) as error:  # what the struct's own __post_init__ refuses
            self._wrong(path, value, str(error))
            return None

    def _items(self, value: Any, to: Any, path: str) -> list[Any]:
        """The items of a list."""
        if not isinstance(value, list | tuple):
            self._wrong(path, value, f"expected a list, got {_kind(value)}")
            return []
        return [self._any(item, to, f"{path}[{index}]") for index, item in enumerate(value)]

    def _entries(self, value: Any, to: Any, path: str) -> Iterator[tuple[str, Any]]:
        """The entries of a mapping with free keys."""
        if not isinstance(value, Mapping):
            self._wrong(path, value, f"expected a mapping, got {_kind(value)}")
            return
        for key, item in value.items():
            yield key, self._any(item, to, _child(path, key))

    def _leaf(self, value: Any, to: Any, path: str) -> Any:
        """A value without parts."""
        if to is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        try:
            return _duration(value) if to is Duration else msgspec.convert(value, to)
        except (msgspec.ValidationError, ValueError) as error:
            self._wrong(path, value, _in_words(str(error), value))
            return None

    def _wrong(self, path: str, value: Any, detail: str) -> None:
        """Note a value that does not fit its field."""
        self.errors.append(invalid(path or "document", value, detail))

    def _unknown(self, path: str, key: str, fields: Mapping[str, Any]) -> str:
        """Report that a field does not exist, and which one may have been meant."""
        if key in self._hints:
            return f'{path}: unknown field "{key}": {self._hints[key]}'
        if hint := nearest(key, fields):
            return f'{path}: unknown field "{key}"{hint}'
        return f'{path}: unknown field "{key}"; the fields here: {", ".join(sorted(fields)) or "none"}'


def _child(path: str, key: str) -> str:
    """The path of a field; keys that are no plain words are put in brackets."""
    if not re.fullmatch(r"[\w-]+", str(key)):
        return f"{path}[{shown(key)}]"
    return f"{path}.{key}" if path else str(key)


def _is_scalar(to: Any) -> bool:
    return to in {int, float, str, bool, bytes}


def _without_none(to: Any) -> Any:
    """`X | None` and `X | Unset` as `X`: absence never reaches a value."""
    if get_origin(to) not in {Union, types.UnionType}:
        return to
    kept = [arg for arg in get_args(to) if arg not in {type(None), msgspec.UnsetType}]
    return kept[0] if len(kept) == 1 else to


def _duration(value: Any) -> Duration:
    """A duration from its text."""
    if not isinstance(value, str):
        raise ValueError(f"expected a duration such as 10s or 1m30s, in quotes or bare, got {_kind(value)}")
    return Duration.parse(value)


def _kind(value: Any) -> str:
    """What a JSON value is, in words."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, Mapping):
        return "a mapping"
    named = {str: "a string", int: "an integer", float: "a number", list: "a list", tuple: "a list"}
    return named.get(type(value), type(value).__name__)


def _in_words(message: str, value: Any) -> str:
    """msgspec's message in the words of a document."""
    message = re.sub(r", got `\w+`", f", got {_kind(value)}", message)
    for name, words in _WORDS.items():
        message = message.replace(name, words)
    return message[0].lower() + message[1:]
