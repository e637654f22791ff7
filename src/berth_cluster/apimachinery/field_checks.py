"""Checks a JSON object against its schema: fields that do not exist, values of the wrong type.

A decoded body comes in and is edited: unknown fields and nulls are dropped, as the typed decoding of a real API server
drops them. What comes out is the list of unknown fields; a value of the wrong type is refused (400).
"""

from types import MappingProxyType
from typing import Any

from berth.api.quantity import QuantityError, parse
from berth_cluster.apimachinery.errors import bad_request
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import ResourceType
from berth_cluster.apimachinery.schema import Field, Message, message, message_of

QUANTITY_MESSAGE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
MAX_UNKNOWN = 100  # unknown fields that are told of
MAX_SHOWN_KEY = 128
_TYPE_META = frozenset({"apiVersion", "kind"})
# scalar -> (Python types that JSON gives for it, the name of it in messages)
_JSON_TYPES: MappingProxyType[str, tuple[tuple[type, ...], str]] = MappingProxyType(
    {
        "bool": ((bool,), "bool"),
        "bytes": ((str,), "[]uint8"),
        "double": ((int, float), "float64"),
        "Duration": ((str,), "string"),
        "int32": ((int,), "int32"),
        "int64": ((int,), "int64"),
        "IntOrString": ((int, str), "intstr.IntOrString"),
        "MicroTime": ((str,), "string"),
        "Quantity": ((str, int, float), "resource.Quantity"),
        "string": ((str,), "string"),
        "Time": ((str,), "string"),
    }
)
_INTEGER_BITS = MappingProxyType({"int32": 32, "int64": 64})


def check_types(kind: ResourceType, obj: Object) -> None:
    """Refuse an object with values of the wrong type and drop unknown fields; for objects that a patch has produced."""
    known = message_of(kind.group, kind.version, kind.kind)
    if known is not None:
        FieldCheck(kind.kind, kind.version).run(known, obj)


class FieldCheck:
    """The check of one object; `partial` says that it is a patch, in which directives and nulls have a meaning."""

    __slots__ = ("_kind", "_partial", "_version", "unknown")

    def __init__(self, kind: str, version: str, *, partial: bool = False) -> None:
        self._kind = kind
        self._version = version
        self._partial = partial
        self.unknown: list[str] = []

    def run(self, known: Message, obj: Object) -> list[str]:
        """Check the whole object; the paths of the fields that do not exist."""
        self._object(known, obj, "", is_root=True)
        return self.unknown

    def _object(self, known: Message, obj: Object, path: str, *, is_root: bool = False) -> None:
        fields = known.fields
        dropped = []
        for key, value in obj.items():
            field = fields.get(key)
            if field is None:
                if not self._is_allowed(key, value, is_root=is_root):
                    self._note_unknown(f"{path}.{_name(key)}" if path else _name(key))
                    dropped.append(key)
            elif value is None:
                dropped.append(key)
            elif field.type != "any":
                self._field(known, field, value, f"{path}.{key}" if path else key)
        if not self._partial:
            for key in dropped:
                del obj[key]

    def _note_unknown(self, path: str) -> None:
        if len(self.unknown) < MAX_UNKNOWN:
            self.unknown.append(path)

    def _is_allowed(self, key: str, value: Any, *, is_root: bool) -> bool:
        """Whether a key may be there without being a field: the type, or a directive or removal of a patch."""
        if is_root and key in _TYPE_META:
            return True
        return self._partial and (value is None or key.startswith("$"))

    def _field(self, owner: Message, field: Field, value: Any, path: str) -> None:
        if field.is_list:
            if not isinstance(value, list):
                raise self._wrong(owner, value, path, f"[]{_shown(field)}")
            for number, element in enumerate(value):
                self._value(owner, field, element, f"{path}[{number}]")
        elif field.is_map:
            if not isinstance(value, dict):
                raise self._wrong(owner, value, path, f"map[string]{_shown(field)}")
            for key, element in value.items():
                if element is not None:
                    self._value(owner, field, element, f"{path}[{_name(key)}]")
        else:
            self._value(owner, field, value, path)

    def _value(self, owner: Message, field: Field, value: Any, path: str) -> None:
        if not field.is_scalar:
            if not isinstance(value, dict):
                raise self._wrong(owner, value, path, _shown(field))
            self._object(message(field.type), value, path)
            return
        if field.type == "any" or (self._partial and isinstance(value, dict) and "$patch" in value):
            return
        accepted, shown = _JSON_TYPES[field.type]
        if not isinstance(value, accepted) or (isinstance(value, bool) and field.type != "bool"):
            raise self._wrong(owner, value, path, shown)
        if field.type == "Quantity":
            self._quantity(value, path)
        elif field.type in _INTEGER_BITS and not _fits(value, _INTEGER_BITS[field.type]):
            raise self._wrong(owner, value, path, shown)

    def _quantity(self, value: Any, path: str) -> None:
        try:
            parse(value)
        except QuantityError:
            raise self._refusal(f"{path}: {QUANTITY_MESSAGE}, not {_name(str(value))!r}") from None

    def _wrong(self, owner: Message, value: Any, path: str, expected: str) -> Exception:
        found = _json_type(value)
        return self._refusal(
            f"json: cannot unmarshal {found} into Go struct field {owner.short_name}.{path} of type {expected}"
        )

    def _refusal(self, why: str) -> Exception:
        return bad_request(f'{self._kind} in version "{self._version}" cannot be handled as a {self._kind}: {why}')


def _name(key: str) -> str:
    """A key as paths show it. A path is made for every value, so that a long key must not be repeated in all."""
    return key if len(key) <= MAX_SHOWN_KEY else f"{key[:MAX_SHOWN_KEY]}…"


def _shown(field: Field) -> str:
    return _JSON_TYPES[field.type][1] if field.type in _JSON_TYPES else field.type.partition(".")[2]


def _fits(value: Any, bits: int) -> bool:
    return bool(-(2 ** (bits - 1)) <= value < 2 ** (bits - 1))


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"
