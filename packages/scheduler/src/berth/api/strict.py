"""What an API server would not take of a manifest: fields that there are not, values of another type, unknown words.

The structs of `berth.api` skip what they do not know, since the servers that objects come from may be newer. What a
person has written for a question comes here first: of `toleratons` that are skipped, the answer would be about another
pod. `fields.txt` says which fields there are. It covers the kinds that decisions depend on; of others nothing is
said. What it leaves to the API server are rules that span several fields, the form of names, and whatever says
nothing about where a pod may go, such as a container's missing image.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, NamedTuple

from berth.api.near_names import nearest
from berth.api.quantity import QuantityError, parse
from berth.api.repetitions import repeated_fields
from berth.api.untrusted import shortened

TOLD_AT_MOST = 5
"""So many mistakes are told of one object."""

_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = MappingProxyType(
    {
        "string": ((str,), "text"),
        "bytes": ((str,), "text"),
        "Time": ((str,), "text"),
        "bool": ((bool,), "true or false"),
        "int32": ((int,), "a whole number"),
        "int64": ((int,), "a whole number"),
        "IntOrString": ((int, str), "a whole number or text"),
        "Quantity": ((int, float, str), "a quantity"),
    }
)
"""The types without fields: what JSON gives for them, and what they are called."""
_BITS = MappingProxyType({"int32": 32, "int64": 64, "IntOrString": 32})


_OF_CONTAINERS = ("cpu", "memory", "ephemeral-storage")


class Mistake(NamedTuple):
    """One thing that is wrong with a manifest."""

    field: str
    """Its path: `spec.template.spec.tolerations[0].operator`."""
    problem: str
    is_unknown: bool = False
    """Whether there is no such field; the problem is what may have been meant then."""

    def __str__(self) -> str:
        return f"unknown field {self.field}{self.problem}" if self.is_unknown else f"{self.field}: {self.problem}"


def mistakes_in(kind: str, api_version: str, manifest: Mapping[str, Any], *, demands_all: bool = True) -> list[Mistake]:
    """Return what is wrong with a manifest, at most `TOLD_AT_MOST`; fields that there are not come first.

    An empty `api_version` stands for that of the kind that Kubernetes has. Nothing is said of what the table lacks.
    What a server demands may be missing unless `demands_all`.
    """
    table = _table()
    group = table.groups.get(kind)
    if group is None or (api_version and api_version.rpartition("/")[0] != group):
        return []
    found = list(_Check(table.types, demands_all).object(kind, manifest, ""))
    found.sort(key=lambda mistake: not mistake.is_unknown)
    return found[:TOLD_AT_MOST]


def repetitions_in(text: bytes) -> list[Mistake]:
    """Return which fields a manifest in JSON gives twice, at most `TOLD_AT_MOST`."""
    return [Mistake(shortened(path), "is given twice") for path in repeated_fields(text)[:TOLD_AT_MOST]]


def told(mistakes: list[Mistake]) -> str:
    """Return mistakes in one line."""
    return "; ".join(map(str, mistakes))


class _Check:
    """Walks over a manifest; types nest no deeper than the table says, whatever the manifest does."""

    __slots__ = ("_demands_all", "_types")

    def __init__(self, types: "Mapping[str, Mapping[str, _Field]]", demands_all: bool) -> None:
        self._types = types
        self._demands_all = demands_all

    def object(self, type_name: str, value: Mapping[str, Any], path: str) -> Iterator[Mistake]:
        fields = self._types[type_name]
        for key, each in value.items():
            where = f"{path}.{shortened(key, 100)}" if path else shortened(key, 100)
            field = fields.get(key)
            if field is None:
                yield Mistake(where, nearest(key, fields), is_unknown=True)
            elif each is not None and field.type != "any":
                yield from self._field(field, each, where)
        if type_name == "ResourceRequirements":
            yield from _resource_names(value, path)
        for name, field in fields.items() if self._demands_all else ():
            if field.is_required and value.get(name) in (None, "", []):
                yield Mistake(f"{path}.{name}" if path else name, "is required")

    def _field(self, field: "_Field", value: Any, path: str) -> Iterator[Mistake]:
        if field.is_list:
            if not isinstance(value, list | tuple):
                yield _wrong(path, "a list", value)
                return
            for number, each in enumerate(value):
                yield from self._value(field, each, f"{path}[{number}]")
        elif field.is_map:
            if not isinstance(value, Mapping):
                yield _wrong(path, "an object", value)
                return
            for key, each in value.items():
                yield from self._value(field, each, f"{path}[{shortened(key, 100)}]")
        else:
            yield from self._value(field, value, path)

    def _value(self, field: "_Field", value: Any, path: str) -> Iterator[Mistake]:
        plain = _TYPES.get(field.type)
        if plain is None:
            if isinstance(value, Mapping):
                yield from self.object(field.type, value, path)
            elif value is not None:
                yield _wrong(path, "an object", value)
        elif not isinstance(value, plain[0]) or (isinstance(value, bool) and field.type != "bool"):
            if value is not None or field.type == "Quantity":
                yield _wrong(path, plain[1], value)
        elif field.words and isinstance(value, str) and value and value not in field.words:
            near = nearest(value, field.words) or f"; it can be {_either(field.words)}"
            yield Mistake(path, f'unsupported value "{shortened(value, 100)}"{near}')
        elif field.type == "Quantity":
            try:
                parse(value)
            except QuantityError as error:
                yield Mistake(path, str(error))
        elif isinstance(value, int) and not _fits(value, _BITS.get(field.type, 64)):
            yield Mistake(path, f"{shortened(str(value), 30)} is out of range")


def _resource_names(requirements: Mapping[str, Any], path: str) -> Iterator[Mistake]:
    """Without a domain, a container can ask for what Kubernetes itself defines and nothing else: `gpu` is no name."""
    for part in ("limits", "requests"):
        amounts = requirements.get(part)
        for name in amounts if isinstance(amounts, Mapping) else ():
            if "/" not in name and name not in _OF_CONTAINERS and not name.startswith("hugepages-"):
                near = nearest(name, _OF_CONTAINERS) or "; others have a domain, as example.com/gpu has"
                yield Mistake(f"{path}.{part}[{shortened(name, 100)}]", f"a resource without a domain{near}")


def _wrong(path: str, expected: str, value: Any) -> Mistake:
    return Mistake(path, f"{expected} is expected, not {_word_for(value)}")


def _word_for(value: Any) -> str:
    if isinstance(value, float):
        return "a fraction"
    if isinstance(value, int) and not isinstance(value, bool):
        return "a number"
    if value is None:
        return "nothing"
    return {bool: "true or false", str: "text", list: "a list"}.get(type(value), "an object")


def _fits(value: int, bits: int) -> bool:
    return value in range(-(2 ** (bits - 1)), 2 ** (bits - 1))


def _either(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


# -- the table --------------------------------------------------------------------------------------------------------


class _Field(NamedTuple):
    """A field as `fields.txt` describes it."""

    type: str
    is_list: bool = False
    is_map: bool = False
    is_required: bool = False
    words: tuple[str, ...] = ()
    """The values that a text may have; empty where any will do."""


class _Table(NamedTuple):
    """`fields.txt`."""

    groups: Mapping[str, str]
    """The API group of each kind."""
    types: Mapping[str, Mapping[str, _Field]]
    """The fields of kinds and types, by their names."""


_OF_KINDS = MappingProxyType(
    {"apiVersion": _Field("string"), "kind": _Field("string"), "metadata": _Field("ObjectMeta")}
)


@cache
def _table() -> _Table:
    text = (resources.files("berth.api") / "fields.txt").read_text("utf-8")
    groups: dict[str, str] = {}
    types: dict[str, Mapping[str, _Field]] = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        name, *fields = line.split()
        if name[0].islower():
            kind, *fields = fields
            groups[kind] = name.rpartition("/")[0]
            types[kind] = {**_OF_KINDS, **dict(map(_read, fields))}
        else:
            types[name] = dict(map(_read, fields))
    return _Table(groups, types)


def _read(said: str) -> tuple[str, _Field]:
    name, _, type_ = said.partition(":")
    of = type_.removesuffix("[]").removesuffix("{}") or "string"
    words = tuple(of.split("|")) if "|" in of else ()
    field = _Field("string" if words else of, type_.endswith("[]"), type_.endswith("{}"), name.endswith("!"), words)
    return name.removesuffix("!"), field
