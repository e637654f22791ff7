"""Equal parts of objects, held once: a cluster's pods are mostly replicas, and its nodes have mostly the same images.

Informers decode each object by itself, so that a hundred thousand pods would hold a hundred thousand equal specs. What
reads objects from lists and watches puts each through `sharing_of(kind)`, which replaces its parts by equal ones that
came before. It writes to objects that were just decoded, before anybody else has seen them.

The parts are remembered by their value, the most recent ones only, and none that are large: what is forgotten is merely
shared no more with what comes later. A part that was seen before needs no check of its quantities either.
"""

from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import force_setattr

from berth.api.codec import check_quantities
from berth.api.meta import ObjectMeta, Struct
from berth.api.node import Node
from berth.api.pod import Pod, PodSpec, PodStatus
from berth.api.read_only import EMPTY, ReadOnlyDict
from berth.api.recent import BYTES_AT_MOST, LARGE_BYTES, json_size

RECENT = 8192
"""So many parts of each sort are remembered at least, and twice as many at most."""

Part = TypeVar("Part")
Share = Callable[[Any], None]

shallow_copy: Callable[[Any], Any] = msgspec.Struct.__copy__  # type: ignore[attr-defined] # all that `copy.copy` would call


class RecentParts(Generic[Part]):
    """Parts by what makes them equal, in two halves: when the newer is full, the older is forgotten.

    The newer half is full when it has so many parts, or when they say so much.
    """

    __slots__ = ("_bytes", "_limit", "_newer", "_older", "bytes_at_most")

    def __init__(self, limit: int = RECENT) -> None:
        self._limit = limit
        self.bytes_at_most = BYTES_AT_MOST
        """How much the parts of a half may say, in bytes of JSON."""
        self._bytes = 0
        self._newer: dict[Hashable, Part] = {}
        self._older: dict[Hashable, Part] = {}

    def __len__(self) -> int:
        return len(self._newer) + len(self._older)

    def find(self, key: Hashable) -> Part | None:
        """Return the part that came before, if it is remembered."""
        found = self._newer.get(key)
        if found is None and (found := self._older.pop(key, None)) is not None:
            self.put(key, found)
        return found

    def put(self, key: Hashable, part: Part) -> Part:
        """Remember a part, unless it is large."""
        size = len(key) if isinstance(key, bytes | str) else json_size(key)
        if size > LARGE_BYTES:
            return part
        if len(self._newer) >= self._limit or self._bytes >= self.bytes_at_most:
            self._older, self._newer, self._bytes = self._newer, {}, 0
        self._newer[key] = part
        self._bytes += size
        return part

    def same(self, part: Any) -> Any:
        """Return the equal part that came before, else this one; for parts that have a hash."""
        found = self.find(part)
        return self.put(part, part) if found is None else found


class _Metadata:
    """Labels, annotations and owners, which are those of the workload; names of namespaces."""

    __slots__ = ("_mappings", "_values")

    def __init__(self) -> None:
        self._mappings: RecentParts[Mapping[str, str]] = RecentParts()
        self._values: RecentParts[Any] = RecentParts()

    def share(self, meta: ObjectMeta) -> None:
        if meta.labels:
            force_setattr(meta, "labels", self.mapping(meta.labels))
        # An empty map of its own would be kept for each.
        force_setattr(meta, "annotations", self.mapping(meta.annotations) if meta.annotations else EMPTY)
        if meta.owner_references:
            force_setattr(meta, "owner_references", self._values.same(meta.owner_references))
        if meta.namespace:
            force_setattr(meta, "namespace", self._values.same(meta.namespace))

    def mapping(self, mapping: Mapping[str, str]) -> Mapping[str, str]:
        key = tuple(mapping.items())  # servers write maps in the order of their keys
        found = self._mappings.find(key)
        return self._mappings.put(key, ReadOnlyDict(mapping)) if found is None else found


class PodSharing:
    """Shares the parts of pods: the spec but for the node, and the status but for the time of its start.

    Lists are sorted by name, so that a pod mostly comes after another of its workload. To be compared with that one is
    a fraction of the work of being looked up.
    """

    __slots__ = ("_encode", "_last_meta", "_last_spec", "_last_status", "_metadata", "_nodes", "_specs", "_statuses")

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder().encode
        self._metadata = _Metadata()
        self._nodes: RecentParts[str] = RecentParts()
        self._specs: RecentParts[PodSpec] = RecentParts()
        self._statuses: RecentParts[PodStatus] = RecentParts()
        self._last_meta = ObjectMeta()
        self._last_spec = PodSpec()
        self._last_status = PodStatus()
        """The parts of the pod that came last, as they are shared."""

    def __call__(self, pod: Pod) -> None:
        """Share the parts of a pod that was just decoded; raises `QuantityError`."""
        spec, status = pod.spec, pod.status
        node_name, start_time = spec.node_name, status.start_time
        if node_name:
            force_setattr(spec, "node_name", "")
        if start_time is not None:
            force_setattr(status, "start_time", None)
        same_spec, same_status = self._last_spec, self._last_status
        if spec != same_spec or status != same_status:
            same_spec, same_status = self._looked_up(pod, spec, status)
        # What is remembered stays without node and time. A pod that has one gets a shallow copy with shared parts.
        if node_name:
            same_spec = shallow_copy(same_spec)
            force_setattr(same_spec, "node_name", self._nodes.same(node_name))
        if start_time is not None:
            same_status = shallow_copy(same_status)
            force_setattr(same_status, "start_time", start_time)
        force_setattr(pod, "spec", same_spec)
        force_setattr(pod, "status", same_status)
        self._share_metadata(pod.metadata)

    def _looked_up(self, pod: Pod, spec: PodSpec, status: PodStatus) -> tuple[PodSpec, PodStatus]:
        """Return the parts that came before and equal these; raises `QuantityError`."""
        spec_key, status_key = self._encode(spec), self._encode(status)
        same_spec, same_status = self._specs.find(spec_key), self._statuses.find(status_key)
        if same_spec is None or same_status is None:
            check_quantities(pod)
            same_spec = self._specs.put(spec_key, spec) if same_spec is None else same_spec
            same_status = self._statuses.put(status_key, status) if same_status is None else same_status
        self._last_spec, self._last_status = same_spec, same_status
        return same_spec, same_status

    def _share_metadata(self, meta: ObjectMeta) -> None:
        last = self._last_meta
        if (
            meta.labels == last.labels
            and meta.annotations == last.annotations
            and meta.owner_references == last.owner_references
            and meta.namespace == last.namespace
        ):
            force_setattr(meta, "labels", last.labels)
            force_setattr(meta, "annotations", last.annotations)
            force_setattr(meta, "owner_references", last.owner_references)
            force_setattr(meta, "namespace", last.namespace)
        else:
            self._metadata.share(meta)
            self._last_meta = meta


class NodeSharing:
    """Shares the images and conditions of nodes, what they have room for, and the values of their labels."""

    __slots__ = ("_encode", "_mappings", "_values")

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder().encode
        self._values: RecentParts[Any] = RecentParts(4 * RECENT)
        self._mappings: RecentParts[Mapping[str, Any]] = RecentParts()

    def __call__(self, node: Node) -> None:
        """Share the parts of a node that was just decoded; raises `QuantityError`."""
        check_quantities(node)
        status, meta, same = node.status, node.metadata, self._values.same
        force_setattr(status, "images", tuple([same(image) for image in status.images]))
        force_setattr(status, "conditions", tuple([same(condition) for condition in status.conditions]))
        force_setattr(status, "allocatable", self._amounts(status.allocatable))
        force_setattr(status, "capacity", self._amounts(status.capacity))
        force_setattr(meta, "labels", ReadOnlyDict({label: same(text) for label, text in meta.labels.items()}))
        force_setattr(meta, "annotations", ReadOnlyDict({key: same(text) for key, text in meta.annotations.items()}))

    def _amounts(self, amounts: Mapping[str, Any]) -> Mapping[str, Any]:
        key = self._encode(amounts)
        found = self._mappings.find(key)
        return self._mappings.put(key, amounts) if found is None else found


_SHARING: MappingProxyType[str, Callable[[], Share]] = MappingProxyType({"Pod": PodSharing, "Node": NodeSharing})


def sharing_of(kind: str) -> Share:
    """Return what shares the parts of objects of a kind and checks their quantities; it raises `QuantityError`."""
    make = _SHARING.get(kind)
    return check_only if make is None else make()


def check_only(found: Struct) -> None:
    """Check the quantities of an object whose parts are not worth sharing."""
    check_quantities(found)
