"""The documents of the extender protocol, `k8s.io/kube-scheduler/extender/v1`, written and read as Go does.

Upstream's types have no JSON tags, so that their fields go over the wire by their Go names, and absent ones as null; on
reading, Go takes field names in any case, ignores fields it does not know, and takes null for absent. API objects in
the documents stay raw.
"""

import types
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec

from berth.api.untrusted import UNREADABLE, problem_of

Document = TypeVar("Document", bound="GoStruct")

_GO_WORDS = {"pdb": "PDB", "uid": "UID"}


def _go_name(name: str) -> str:
    return "".join(_GO_WORDS.get(word, word.capitalize()) for word in name.split("_"))


class WireError(ValueError):
    """A document that cannot be read: what is wrong with it."""


class GoStruct(msgspec.Struct, frozen=True, rename=_go_name):
    """Base of the protocol's types: `node_names` is `NodeNames` in JSON."""


class NodeList(msgspec.Struct, frozen=True):
    """v1.NodeList, which has JSON tags."""

    metadata: dict[str, Any] = {}
    items: tuple[msgspec.Raw, ...] = ()


class ExtenderArgs(GoStruct, frozen=True):
    """What filter and prioritize are asked: `node_names` where the extender is nodeCacheCapable, else `nodes`."""

    pod: msgspec.Raw | None = None
    nodes: NodeList | None = None
    node_names: tuple[str, ...] | None = None


class ExtenderFilterResult(GoStruct, frozen=True):
    """What filter answers: the nodes that are left, in the form they were given in, and why not the others."""

    nodes: NodeList | None = None
    node_names: tuple[str, ...] | None = None
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: dict[str, str] = {}
    error: str = ""


class HostPriority(GoStruct, frozen=True):
    """An element of what prioritize answers, a list; scores go from 0 to 10."""

    host: str = ""
    score: int = 0


class MetaPod(GoStruct, frozen=True):
    """A pod by its uid."""

    uid: str = ""


class MetaVictims(GoStruct, frozen=True):
    """Victims on one node by uid."""

    pods: tuple[MetaPod, ...] = ()
    num_pdb_violations: int = msgspec.field(default=0, name="NumPDBViolations")


class Victims(GoStruct, frozen=True):
    """Victims on one node as whole pods."""

    pods: tuple[msgspec.Raw, ...] = ()
    num_pdb_violations: int = msgspec.field(default=0, name="NumPDBViolations")


class ExtenderPreemptionArgs(GoStruct, frozen=True):
    """What preempt is asked: victims by node, by uid where the extender is nodeCacheCapable."""

    pod: msgspec.Raw | None = None
    node_name_to_victims: dict[str, Victims] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class ExtenderPreemptionResult(GoStruct, frozen=True):
    """What preempt answers, always by uid: the nodes that are left, and the victims on each."""

    node_name_to_meta_victims: dict[str, MetaVictims] = {}


class ExtenderBindingArgs(GoStruct, frozen=True):
    """What bind is asked."""

    pod_name: str = ""
    pod_namespace: str = ""
    pod_uid: str = ""
    node: str = ""


class ExtenderBindingResult(GoStruct, frozen=True):
    """What bind answers."""

    error: str = ""


class _Meta(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


encode = msgspec.json.encode


def read(body: bytes, wanted: Any) -> Any:
    """Return the document of the `wanted` type that the body holds; raises `WireError`."""
    try:
        found = _read(msgspec.json.decode(body, type=msgspec.Raw), wanted)
        return wanted() if found is None else found
    except UNREADABLE as error:
        shown = body[:80].decode("utf-8", "replace")
        raise WireError(f"the document cannot be read: {problem_of(error)}: {shown!r}") from None


def object_name(raw: msgspec.Raw) -> str:
    """Return metadata.name of a raw object; raises `WireError`."""
    try:
        return msgspec.json.decode(raw, type=_Named).metadata.name
    except UNREADABLE as error:
        raise WireError(f"an object has no readable metadata: {problem_of(error)}") from None


def _read(raw: msgspec.Raw, wanted: Any) -> Any:
    """Return the value as `wanted`, None for null; API objects stay raw."""
    wanted = _not_none(wanted)
    if bytes(memoryview(raw)[:4]) == b"null":
        return None
    if wanted is msgspec.Raw:
        return raw
    if get_origin(wanted) in (list, tuple):
        element = get_args(wanted)[0]
        found = (_read(item, element) for item in msgspec.json.decode(raw, type=list[msgspec.Raw]))
        return get_origin(wanted)(item for item in found if item is not None)
    if get_origin(wanted) is dict:
        element = get_args(wanted)[1]
        members = ((key, _read(item, element)) for key, item in _members(raw))
        return {key: item for key, item in members if item is not None}
    if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        fields = _fields(wanted)
        known = ((fields[key.lower()], item) for key, item in _members(raw) if key.lower() in fields)
        values = ((field, _read(item, kind)) for (field, kind), item in known)
        return wanted(**{field: value for field, value in values if value is not None})
    return msgspec.json.decode(raw, type=wanted)


def _members(raw: msgspec.Raw) -> Iterable[tuple[str, msgspec.Raw]]:
    return msgspec.json.decode(raw, type=dict[str, msgspec.Raw]).items()


@lru_cache(maxsize=32)
def _fields(struct: type[msgspec.Struct]) -> dict[str, tuple[str, Any]]:
    """The fields of a type by their names in JSON, in lower case: the name in Python, and what it holds."""
    return {field.encode_name.lower(): (field.name, field.type) for field in msgspec.structs.fields(struct)}


def _not_none(wanted: Any) -> Any:
    """The type without its None."""
    if get_origin(wanted) in (Union, types.UnionType):
        return next(kind for kind in get_args(wanted) if kind is not type(None))
    return wanted
