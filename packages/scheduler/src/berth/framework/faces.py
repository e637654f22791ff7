"""Read-only faces of the objects that the scheduler keeps changing, for out-of-tree plugins.

Most of what a plugin is given is immutable: frozen structs, read-only maps and lists. The rest belongs to the
scheduler: the columns of the node table, a queued pod, a diagnosis. For each of these a plugin gets a face, which reads
like the object in its current state but has only the names that read. Values read through a face are shown in the same
way. The guard replaces arguments by faces, and `berth.engine.build` does so with the handle.

Berth's own plugins get the objects themselves, so that the main path pays nothing: the type checker holds them to the
Protocols of `berth.framework.readers`.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from berth.api.read_only import ReadOnlyDict, ReadOnlyList, read_only_array
from berth.config.feature_gates import FeatureGates
from berth.framework.custom_resources import CustomObjects
from berth.framework.diagnosis import CountedRejections, Diagnosis, RejectedNodes
from berth.framework.evictions import Evictions
from berth.framework.handle import Handle
from berth.framework.interface import FeasibleNodes, Placement, PodGroupAssignments, RowLoad
from berth.framework.profile_view import ProfileView
from berth.framework.readers import (
    CacheReader,
    EvictionReader,
    NodeChanges,
    NominationReader,
    ObjectReader,
    PodGroupReader,
    PodIndexReader,
    WaitingPodsView,
)
from berth.framework.waiting_pods import WaitingPod, WaitingPods
from berth.state.cache import Cache
from berth.state.change_log import ChangeLog
from berth.state.image_index import ImageHolders, ImageIndex
from berth.state.label_index import LabelColumn
from berth.state.node_tree import NodeTree
from berth.state.nominator import Nominator
from berth.state.objects import ObjectStore
from berth.state.pod_groups import PodGroups
from berth.state.pod_index import CarriedTerm, PodIndex
from berth.state.queued_pod import QueuedPod
from berth.state.table import WritableNodeTable
from berth.state.topology import DomainSums, RowCounts


def shown(value: Any) -> Any:
    """Return what out-of-tree plugins are given for a value: the value itself, unless it can be changed."""
    show = _way_to_show(value.__class__)
    return value if show is None else show(value)


def each_shown(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a live map whose values are shown, too."""
    return MappingProxyType({key: shown(value) for key, value in values.items()})


class Face(msgspec.Struct, frozen=True, eq=False):
    """Reads another object, and changes nothing."""

    _of: Any
    _seen: dict[str, tuple[Any, Any]] = msgspec.field(default_factory=dict)
    """What was read by name, and the faces that were shown for it."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Face) and bool(self._of == other._of)

    def __hash__(self) -> int:
        return hash(self._of)

    def __repr__(self) -> str:
        return repr(self._of)


@lru_cache(maxsize=1024)
def _way_to_show(kind: Any) -> Any:
    """Return a function that shows objects of a class; None if they are shown as they are."""
    if kind not in _READ:
        return _SHOWN.get(kind)
    body = {name: _forwarding(kind, name) for name in _READ[kind]}
    if kind is Handle:
        body["follow"] = lambda self, *asked, **more: shown(self._of.follow(*asked, **more))
        body["profile"] = lambda self: _way_to_show(ProfileView)(self._of.profile())
    face = msgspec.defstruct(kind.__name__, (), bases=(Face,), namespace=body, frozen=True, eq=False)
    return _lasting(face) if kind in _LASTING else face


def _forwarding(kind: type, name: str) -> Any:
    if name == "__iter__":
        return lambda self: map(shown, self._of)
    if callable(getattr(kind, name, None)):
        return lambda self, *arguments, **more: shown(getattr(self._of, name)(*arguments, **more))
    if name in _AS_IT_IS:
        return property(attrgetter(f"_of.{name}"))

    def read(self: Face) -> Any:
        value = getattr(self._of, name)
        known = self._seen.get(name)
        if known is not None and known[0] is value:
            return known[1]
        found = shown(value)
        if type(value) is not list and type(value) is not set:  # of which a copy is shown
            self._seen[name] = (value, found)
        return found

    return property(read)


def _lasting(face: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def show(of: Any) -> Any:
        if of.face is None:
            of.face = face(of)
        return of.face

    return show


def _public(kind: type, *but: str) -> Iterable[str]:
    """Return the public names of a class, except some."""
    return [name for name in dir(kind) if not name.startswith("_") and name not in but]


def _declared(protocol: type) -> Iterable[str]:
    """Return what a Protocol declares."""
    return [*_public(protocol), *protocol.__annotations__, *({"__len__", "__iter__"} & vars(protocol).keys())]


def _sequence(values: Any) -> Any:
    """Return a list or tuple whose items are shown, if their type can be changed."""
    items = map(shown, values) if values and _way_to_show(values[0].__class__) else values
    return ReadOnlyList(items) if type(values) is list else tuple(items)


def _named_tuple(values: Any) -> Any:
    return type(values)(*map(shown, values))


_AS_IT_IS = frozenset(
    {
        "assumed", "attempts", "capacity", "derived", "initial_attempt", "names", "node_count", "nodes", "pod", "pods",
        "position", "taint_sets", "timestamp",
    }
)  # fmt: skip
"""Types that are data already, and those that plugins may change: their assumptions about objects, and what they derive
from the table and share.
"""
_COLUMNS = (
    "allocatable", "allowed_pods", "capacity", "derived", "images", "label", "names", "node", "node_count", "node_log",
    "nodes", "pod_count", "pod_log", "pods", "pods_by_priority", "requested", "resource_index", "row_of", "rows",
    "scoring_requested", "taint_set_ids", "taint_sets", "tree", "unschedulable", "valid", "version", "view", "__len__",
)  # fmt: skip
_DIAGNOSED = (
    "absent_status", "counted", "node_count", "pending_plugins", "post_filter_message", "pre_filter_status",
    "unschedulable_plugins",
)  # fmt: skip
_READ: Mapping[type, Iterable[str]] = MappingProxyType(
    {
        Cache: _declared(CacheReader),
        CarriedTerm: _public(CarriedTerm, "add", "add_all", "grow"),
        ChangeLog: _declared(NodeChanges),
        CountedRejections: _public(CountedRejections),
        CustomObjects: _public(CustomObjects),
        Diagnosis: (*_public(Diagnosis, "add", "overrule"), *_DIAGNOSED),
        DomainSums: ("total", "values"),
        Evictions: _declared(EvictionReader),
        FeasibleNodes: _public(FeasibleNodes),
        Handle: _public(Handle, "that_changes_nothing", "within"),
        ImageIndex: ("holders",),
        LabelColumn: _public(LabelColumn, "face", "grow", "set"),
        NodeTree: ("order", "zones"),
        Nominator: _declared(NominationReader),
        ObjectStore: _declared(ObjectReader),
        PodGroups: _declared(PodGroupReader),
        PodIndex: _declared(PodIndexReader),
        ProfileView: _declared(ProfileView),
        QueuedPod: _public(QueuedPod, "copied"),
        RowCounts: ("by_domain", "counts"),
        WaitingPod: _public(WaitingPod, "time_out"),
        WaitingPods: _declared(WaitingPodsView),
        WritableNodeTable: _COLUMNS,
    }
)
_LASTING = frozenset({LabelColumn, WritableNodeTable})
"""Types shown by the same face each time, since plugins remember which one they have seen."""
_SHOWN: Mapping[type, Callable[[Any], Any]] = MappingProxyType(
    {
        np.ndarray: read_only_array,
        dict: MappingProxyType,
        set: frozenset,
        type({}.values()): lambda values: map(shown, values),
        **dict.fromkeys((list, tuple), _sequence),
        **dict.fromkeys((ImageHolders, Placement, PodGroupAssignments, RejectedNodes), _named_tuple),
        RowLoad: lambda load: RowLoad(shown(load.pods), each_shown(load.requested)),
        FeatureGates: lambda gates: msgspec.structs.replace(gates, overrides=ReadOnlyDict(gates.overrides)),
    }
)
