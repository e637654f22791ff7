"""What drivers publish: devices, gathered from ResourceSlices into the pools that a node can reach.

ResourceSlices go in; out come pools in the order in which they are searched: by driver and name, those with binding
conditions last, their slices by name. Outdated generations are left out, incomplete and invalid pools are marked.
Asked by `allocator.py`. Source: k8s.io/dynamic-resource-allocation/structured, v1.36.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from berth.api.device_taints import is_for
from berth.api.dra import Device, DeviceTaintRule, ResourceSlice
from berth.api.node import Node
from berth.api.node_selector import NodeSelector
from berth.api.quantity import nano_value
from berth.plugins.dra.cel import DeviceView

MAX_VERDICTS = 256
"""How many selectors' verdicts are kept for each device."""

Counters = dict[str, dict[str, int]]
"""Amounts in 1e-9 units, by counter set and counter."""


class DeviceId(NamedTuple):
    """A device of the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class PoolId(NamedTuple):
    """A pool of the cluster."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class PublishedDevice:
    """A device with what is derived from it, once for as long as its slice stays the same."""

    __slots__ = ("consumes", "id", "is_shared", "slice", "spec", "verdicts", "view")

    def __init__(self, published: ResourceSlice, spec: Device) -> None:
        self.slice = published
        self.spec = spec
        self.id = DeviceId(published.spec.driver, published.spec.pool.name, spec.name)
        self.view = DeviceView(published.spec.driver, spec)
        self.verdicts: dict[str, bool] = {}
        """What selectors say of the device, by their text."""
        self.is_shared = bool(spec.allow_multiple_allocations)
        self.consumes: Counters = {
            entry.counter_set: {name: nano_value(counter.value) for name, counter in entry.counters.items()}
            for entry in spec.consumes_counters
        }

    def note_verdict(self, text: str, matches: bool) -> bool:
        """Keep what a selector says of the device, and return it; where many were kept, they are forgotten first."""
        if len(self.verdicts) >= MAX_VERDICTS:
            self.verdicts.clear()
        self.verdicts[text] = matches
        return matches

    def is_reachable(self, node: Node) -> bool:
        """Say whether the device can be used on a node, where its slice leaves that to each device."""
        if not self.slice.spec.per_device_node_selection:
            return True
        return node_matches(node, self.spec.node_name, self.spec.all_nodes, self.spec.node_selector)


class PublishedSlice:
    """A slice and its devices."""

    __slots__ = ("devices", "obj")

    def __init__(self, obj: ResourceSlice, rules: Sequence[DeviceTaintRule] = ()) -> None:
        self.obj = obj
        self.devices = tuple(PublishedDevice(obj, _with_rules(obj, device, rules)) for device in obj.spec.devices)

    @property
    def name(self) -> str:
        """The slice's name."""
        return self.obj.metadata.name

    @property
    def pool_id(self) -> PoolId:
        """The pool that the slice is part of."""
        return PoolId(self.obj.spec.driver, self.obj.spec.pool.name)

    @property
    def generation(self) -> int:
        """The pool's generation that the slice is part of."""
        return self.obj.spec.pool.generation

    def is_reachable(self, node: Node) -> bool:
        """Say whether any device of the slice might be used on a node."""
        spec = self.obj.spec
        if spec.node_name or spec.all_nodes or spec.node_selector is not None:
            return node_matches(node, spec.node_name, spec.all_nodes, spec.node_selector)
        return bool(spec.per_device_node_selection) and any(device.is_reachable(node) for device in self.devices)

    @property
    def is_everywhere(self) -> bool:
        """Say whether all nodes see the slice alike."""
        return not self.obj.spec.node_name and bool(self.obj.spec.all_nodes)


class Pool:
    """A pool as one node sees it."""

    __slots__ = ("counters", "devices", "fault", "id", "is_incomplete", "other_devices")

    def __init__(self, pool_id: PoolId, *, is_incomplete: bool = False, fault: str = "") -> None:
        self.id = pool_id
        self.is_incomplete = is_incomplete
        self.fault = fault
        """What makes the pool invalid, if anything."""
        self.devices: tuple[PublishedDevice, ...] = ()
        """The devices of slices that the node can reach, in the order of the search."""
        self.other_devices: tuple[PublishedDevice, ...] = ()
        self.counters: Counters = {}

    @property
    def is_usable(self) -> bool:
        """Say whether devices may be taken from the pool."""
        return not self.is_incomplete and not self.fault

    @property
    def has_binding_conditions(self) -> bool:
        """Say whether some device of the pool must be made ready before a pod can be bound."""
        return any(device.spec.binding_conditions for device in self.devices)


Pools = tuple[Pool, ...]


class Inventory:
    """All slices as of one moment, and the pools that nodes see, gathered when they are first asked for."""

    __slots__ = ("_anywhere", "_by_node", "_by_pool", "_everywhere", "_partitionable", "_rules", "_seen", "_slices")

    def __init__(self, partitionable: bool) -> None:
        self._partitionable = partitionable
        self._slices: dict[str, PublishedSlice] = {}
        self._by_node: dict[str, list[PublishedSlice]] = {}
        self._anywhere: list[PublishedSlice] = []
        self._by_pool: dict[PoolId, list[PublishedSlice]] = {}
        self._everywhere = True
        self._seen: dict[str, tuple[Node | None, Pools]] = {}
        self._rules: tuple[DeviceTaintRule, ...] = ()

    def update(self, slices: Iterable[ResourceSlice], rules: Sequence[DeviceTaintRule] = ()) -> None:
        """Take the slices as they are now, with the taints of rules; what is known of unchanged ones is kept."""
        known = self._slices if self._rules == tuple(rules) else {}
        self._rules = tuple(rules)
        self._slices = {}
        self._by_node, self._anywhere, self._by_pool, self._seen = {}, [], {}, {}
        for obj in slices:
            before = known.get(obj.metadata.name)
            published = before if before is not None and before.obj is obj else PublishedSlice(obj, self._rules)
            self._slices[published.name] = published
            self._by_pool.setdefault(published.pool_id, []).append(published)
            if obj.spec.node_name:
                self._by_node.setdefault(obj.spec.node_name, []).append(published)
            else:
                self._anywhere.append(published)
        self._everywhere = all(published.is_everywhere for published in self._anywhere)

    def has_own(self, node_name: str) -> bool:
        """Say whether a node sees other pools than a node without devices of its own."""
        return not self._everywhere or node_name in self._by_node

    def nodes_of(self, pool_id: PoolId) -> set[str] | None:
        """Return the nodes that see a pool; None where slices of it are for more than one node each."""
        names = {published.obj.spec.node_name for published in self._by_pool.get(pool_id, ())}
        return {name for name in names if name} if all(names) else None

    def pools(self, node: Node) -> Pools:
        """Return the pools that a node sees."""
        name = node.metadata.name if self.has_own(node.metadata.name) else ""
        seen_by, pools = self._seen.get(name, (None, ()))
        if seen_by is None or (name and seen_by is not node):
            pools = tuple(self._gather(node))
            self._seen[name] = node, pools
        return pools

    def _gather(self, node: Node) -> Iterator[Pool]:
        reachable: dict[PoolId, list[PublishedSlice]] = {}
        for published in (*self._by_node.get(node.metadata.name, ()), *self._anywhere):
            # A pool's counters are for all of it, whichever nodes their slice names.
            if self._is_supported(published) and (published.obj.spec.shared_counters or published.is_reachable(node)):
                _add_slice(reachable, published)
        pools = [pool for pool_id in reachable if (pool := self._build(pool_id, reachable[pool_id])) is not None]
        return iter(sorted(pools, key=lambda pool: (pool.has_binding_conditions, pool.id)))

    def _is_supported(self, published: PublishedSlice) -> bool:
        spec = published.obj.spec
        return self._partitionable or not (spec.per_device_node_selection is not None or spec.shared_counters)

    def _build(self, pool_id: PoolId, reachable: list[PublishedSlice]) -> Pool | None:
        """Return a pool; None where a newer generation of it, without devices for the node, is being published."""
        first = reachable[0]
        others: list[PublishedSlice] = []
        wanted = first.obj.spec.pool.resource_slice_count
        if len(reachable) != wanted:
            current = self._by_pool[pool_id]
            if any(published.generation > first.generation for published in current):
                return None
            current = [published for published in current if published.generation == first.generation]
            if len(current) != wanted:
                return Pool(pool_id, is_incomplete=True)
            names = {published.name for published in reachable}
            others = [published for published in current if published.name not in names]
        return _pool(pool_id, sorted(reachable, key=lambda s: s.name), others, self._partitionable)


def _with_rules(obj: ResourceSlice, device: Device, rules: Sequence[DeviceTaintRule]) -> Device:
    """Return a device with its own taints and those that rules put on it."""
    spec = obj.spec
    more = tuple(rule.spec.taint for rule in rules if is_for(rule, spec.driver, spec.pool.name, device.name))
    return replace(device, taints=(*device.taints, *more)) if more else device


def node_matches(node: Node, node_name: str | None, all_nodes: bool | None, selector: NodeSelector | None) -> bool:
    """Say whether a slice or device that is for these nodes is for this one."""
    if node_name:
        return node.metadata.name == node_name
    if all_nodes:
        return True
    return selector is not None and selector.matches(node.metadata.labels, node.metadata.name)


def _add_slice(pools: dict[PoolId, list[PublishedSlice]], published: PublishedSlice) -> None:
    """Add a slice to its pool; only the newest generation of a pool counts."""
    known = pools.get(published.pool_id)
    if known is None or published.generation > known[0].generation:
        pools[published.pool_id] = [published]
    elif published.generation == known[0].generation:
        known.append(published)


def _pool(pool_id: PoolId, reachable: list[PublishedSlice], others: list[PublishedSlice], partitionable: bool) -> Pool:
    with_counters = [s for s in (*reachable, *others) if partitionable and s.obj.spec.shared_counters]
    devices = tuple(device for s in reachable if s not in with_counters for device in s.devices)
    other_devices = tuple(device for s in others if s not in with_counters for device in s.devices)
    fault = _duplicate_device(devices)
    counters: Counters = {}
    if not fault and partitionable:
        fault = _read_counters(with_counters, counters) or _counters_missed((*devices, *other_devices), counters)
    pool = Pool(pool_id, fault=fault)
    if not fault:
        pool.devices, pool.other_devices, pool.counters = devices, other_devices, counters
    return pool


def _duplicate_device(devices: tuple[PublishedDevice, ...]) -> str:
    seen: set[str] = set()
    for device in devices:
        if device.spec.name in seen:
            return f"duplicate device name {device.spec.name}"
        seen.add(device.spec.name)
    return ""


def _read_counters(slices: list[PublishedSlice], counters: Counters) -> str:
    for published in slices:
        for counter_set in published.obj.spec.shared_counters:
            if counter_set.name in counters:
                return f"duplicate counter set name {counter_set.name}"
            counters[counter_set.name] = {name: nano_value(c.value) for name, c in counter_set.counters.items()}
    return ""


def _counters_missed(devices: tuple[PublishedDevice, ...], counters: Mapping[str, Mapping[str, int]]) -> str:
    for device in devices:
        for counter_set, consumed in device.consumes.items():
            if counter_set not in counters:
                return f"counter set {counter_set} not found"
            for name in consumed:
                if name not in counters[counter_set]:
                    return f"counter {name} not found in counter set {counter_set}"
    return ""


def add_counters(counters: Counters, consumed: Counters, sign: int) -> None:
    """Add amounts to counters or, with a sign of -1, subtract them."""
    for name, amounts in consumed.items():
        kept = counters.setdefault(name, {})
        for counter, amount in amounts.items():
            kept[counter] = kept.get(counter, 0) + sign * amount
