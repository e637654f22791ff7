"""Checks a JSON object against its schema: fields that do not exist, values of the wrong type.

A decoded body comes in and is edited as typed decoding and encoding in Go would change it: unknown fields, nulls and
zeros are dropped, and fields that are never left out are added. What comes out is the list of unknown fields; a value
of the wrong type is refused (400).
"""

from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from berth.api.quantity import QuantityError
from berth_cluster.apimachinery.errors import FieldErrors, StoreError
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.quantities import canonical
from berth_cluster.apimachinery.resource_types import ResourceType
from berth_cluster.apimachinery.schema import SCALARS, UNCHECKED, ZEROS, Field, Message, message, message_of

QUANTITY_MESSAGE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
MAX_UNKNOWN = 100  # unknown fields that are told of
MAX_EMPTIES = 100  # empty lists and maps that are told from absent ones
MAX_SHOWN_KEY = 128
# scalar -> Python types that JSON gives for it
_JSON_TYPES: MappingProxyType[str, tuple[type, ...]] = MappingProxyType(
    {
        "bool": (bool,),
        "bytes": (str,),
        "double": (int, float),
        "Duration": (str,),
        "int32": (int,),
        "int64": (int,),
        "IntOrString": (int, str),
        "MicroTime": (str,),
        "Quantity": (str, int, float),
        "string": (str,),
        "Time": (str,),
    }
)
_INTEGER_BITS = MappingProxyType({"int32": 32, "int64": 64, "IntOrString": 32})


def unknown_fields(
    kind: ResourceType, obj: Object, *, partial: bool = False, complete: bool = True, empties: Object | None = None
) -> list[str]:
    """Refuse an object with values of the wrong type, drop unknown fields, and add those that are never left out.

    What comes out says which fields are unknown. A `partial` object is a patch, to which nothing is done. The lists and
    maps that are dropped since they are empty are added to `empties`, by their paths: Go tells them from absent ones.
    """
    found = kind.undeclared(obj, partial=partial)
    if found is None:
        known = message_of(kind.group, kind.version, kind.kind)
        check = FieldCheck(kind.kind, kind.version, partial=partial, complete=complete)
        found = check.run(known, obj) if known is not None else []
        if empties is not None:
            empties.update(check.empties)
    return [f'unknown field "{path}"' for path in found]


def check_types(kind: ResourceType, obj: Object, *, complete: bool = True, empties: Object | None = None) -> list[str]:
    """The same, for a whole object."""
    return unknown_fields(kind, obj, complete=complete, empties=empties)


def check_patched(kind: ResourceType, obj: Object, empties: Object | None = None) -> list[str]:
    """As `check_types`, for an object that a patch has produced: 422 with the object, as upstream."""
    shown = msgspec.json.encode(obj).decode()
    try:
        return check_types(kind, obj, empties=empties)
    except UndecodableError as error:
        errors = FieldErrors()
        errors.invalid("patch", shown, error.why)
        raise errors.refusal("", "", "") from None


class FieldCheck:
    """The check of one object; `partial` says that it is a patch, in which directives and nulls have a meaning."""

    __slots__ = ("_complete", "_kind", "_partial", "_version", "empties", "unknown")

    def __init__(self, kind: str, version: str, *, partial: bool = False, complete: bool = True) -> None:
        self._complete = complete
        self._kind = kind
        self._version = version
        self._partial = partial
        self.empties: Object = {}
        self.unknown: list[str] = []

    def run(self, known: Message, obj: Object) -> list[str]:
        """Check the whole object; the paths of the fields that do not exist."""
        try:
            self._object(known, obj, None)
        except _UndecodableError as error:
            raise UndecodableError(self._kind, self._version, str(error)) from None
        return self.unknown

    def _object(self, known: Message, obj: Object, at: "_Place | None") -> None:
        fields, texts = known.fields, known.texts
        dropped = []
        for key, value in obj.items():
            if value.__class__ is str and value and key in texts:  # what most fields are
                continue
            field = fields.get(key)
            if field is None:
                if not (self._partial and (value is None or key.startswith("$"))):
                    self._note_unknown(at, key)
                    dropped.append(key)
            elif value is None:
                dropped.append(key)
            elif field.type not in UNCHECKED:
                kept = self._field(known, field, value, _Place(at, field))
                if field.is_omitted(kept) and not self._partial:
                    dropped.append(key)
                    if (field.is_list or field.is_map) and len(self.empties) < MAX_EMPTIES:
                        self.empties[_path(_Place(at, field))] = kept
                elif kept is not value:
                    obj[key] = kept
        if self._partial:
            return
        for key in dropped:
            del obj[key]
        for key, zero in known.always.items() if self._complete else ():
            if key not in obj:
                obj[key] = {} if zero == {} else zero
                if zero == {}:
                    self._object(message(fields[key].type), obj[key], None)

    def _note_unknown(self, at: "_Place | None", key: str) -> None:
        if len(self.unknown) < MAX_UNKNOWN:
            self.unknown.append(_path(_Place(at, key)))

    def _field(self, owner: Message, field: Field, value: Any, at: "_Place") -> Any:
        """The value as it is kept."""
        entries: Any = ()
        if field.is_list:
            if not isinstance(value, list):
                raise _wrong(owner, value, at, f"[]{field.go_type}")
            entries = enumerate(value)
        elif field.is_map:
            if not isinstance(value, dict):
                is_amounts = field.type == "Quantity" and owner.name.startswith("core.")
                raise _wrong(owner, value, at, "v1.ResourceList" if is_amounts else f"map[string]{field.go_type}")
            entries = value.items()
        else:
            return self._value(owner, field, value, at)
        for key, element in entries:
            kept = self._value(owner, field, element, _Place(at, key))
            if kept is not element:
                value[key] = kept
        return value

    def _value(self, owner: Message, field: Field, value: Any, at: "_Place") -> Any:
        kind = field.type
        if value is None and self._partial:
            return None
        if kind not in SCALARS:
            if value is None:
                value = {}
            if not isinstance(value, dict):
                raise _wrong(owner, value, at, field.go_type)
            self._object(message(kind), value, at)
            return value
        if value is None:
            return ZEROS.get(kind)
        if self._partial and isinstance(value, dict) and "$patch" in value:
            return value
        if kind == "Quantity" and not self._partial:
            return _quantity(value)
        if kind in _INTEGER_BITS and _is_no_integer(value, _INTEGER_BITS[kind]):
            raise _wrong(owner, value, at, field.go_type, f" {value}")
        if not isinstance(value, _JSON_TYPES[kind]) or (value.__class__ is bool and kind != "bool"):
            raise _wrong(owner, value, at, field.go_type)
        return value


class _Place(NamedTuple):
    """Where a value is: what holds it, and the field, the index in a list or the key in a map."""

    inside: "_Place | None"
    step: Field | int | str


def _steps(at: _Place | None) -> list[Field | int | str]:
    steps = []
    while at is not None:
        steps.append(at.step)
        at = at.inside
    return steps[::-1]


def _path(at: _Place) -> str:
    """As warnings have it: with indexes and keys."""
    said = [f"[{step}]" if isinstance(step, int) else f".{_name(_key(step))}" for step in _steps(at)]
    return "".join(said).removeprefix(".")


def _key(step: Field | str) -> str:
    return step if isinstance(step, str) else step.name


class UndecodableError(StoreError):
    """400: the body does not have the types of its kind; `why` says where."""

    def __init__(self, kind: str, version: str, why: str) -> None:
        super().__init__(400, "BadRequest", f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')
        self.why = why


class _UndecodableError(Exception):
    """The same, before it is known of which kind the body is."""


def _wrong(owner: Message, value: Any, at: _Place, expected: str, shown: str = "") -> Exception:
    """The path is without indexes and keys here, as Go's decoder has it."""
    where = "".join(f".{step.in_go}" for step in _steps(at) if isinstance(step, Field))
    return _UndecodableError(
        f"json: cannot unmarshal {_json_type(value)}{shown} into Go struct field {owner.short_name}{where} "
        f"of type {expected}"
    )


def _quantity(value: Any) -> str:
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise QuantityError
        return canonical(value)
    except QuantityError:
        raise _UndecodableError(QUANTITY_MESSAGE) from None


def _name(key: str) -> str:
    """A key as paths show it. A path is made for every value, so that a long key must not be repeated in all."""
    return key if len(key) <= MAX_SHOWN_KEY else f"{key[:MAX_SHOWN_KEY]}…"


def _is_no_integer(value: Any, bits: int) -> bool:
    """Whether a value is a number, but not one that an integer of so many bits can be: Go's decoder shows such."""
    if value.__class__ is int:
        return not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)
    return value.__class__ is float


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"
