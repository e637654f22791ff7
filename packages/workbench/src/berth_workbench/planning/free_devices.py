"""Which devices are free: by class, by node, and what shared counters and shared devices have left.

A cluster in memory goes in (`free_devices`), a `FreeDevices` comes out. How many devices of a class a node would give
at once is what the scheduler's allocator finds for a claim that asks for nothing but the class, so that partitions
which share counters are not counted twice. What is left of counters and of shared devices is added up from slices and
claims.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set

import msgspec

from berth.api.dra import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceSlice,
)
from berth.api.meta import ObjectMeta
from berth.api.quantity import nano_value
from berth.framework.work_budget import DEFAULT_STEPS, WorkBudget
from berth.plugins.dra.plugin import DynamicResources
from berth.plugins.dra.refusals import RequestReport
from berth.plugins.dra.requests import MAX_RESULTS
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.watch import UNWATCHED, WorkWatch

NANO = 10**9
STEPS = 20 * DEFAULT_STEPS
"""What it may take to look at all devices for all classes, in steps of the scheduler's work: some seconds."""


class DevicesOnNode(msgspec.Struct, frozen=True, rename="camel"):
    """Devices of a class that a node reaches."""

    node: str
    devices: int
    at_once: int
    """How many of them one claim would get there, 32 at most, as any claim."""


class DevicesOfClass(msgspec.Struct, frozen=True, rename="camel"):
    """Devices of a class in the whole cluster."""

    device_class: str
    devices: int
    """Those that the selectors of the class take, each counted once."""
    free: int
    """Those of them that a claim could have by themselves."""
    by_node: tuple[DevicesOnNode, ...]
    """The nodes that reach any, those that would give most first."""
    tainted: int = 0
    """Those that only claims with a toleration could have."""

    @property
    def sizes(self) -> dict[int, int]:
        """How many nodes would give so many at once, the most first: how what is free is scattered."""
        return dict(sorted(Counter(each.at_once for each in self.by_node if each.at_once).items(), reverse=True))


class AmountLeft(msgspec.Struct, frozen=True, rename="camel"):
    """What is left of a shared counter, or of a capacity of a device that several claims may share."""

    of: str
    """`driver/pool/set` of counters, `driver/pool/device` of a device."""
    name: str
    total: float
    left: float
    users: int
    """How many partitions or shares are taken of it."""


class FreeDevices(msgspec.Struct, frozen=True, rename="camel"):
    """The devices of a cluster."""

    classes: tuple[DevicesOfClass, ...]
    counters: tuple[AmountLeft, ...] = ()
    shared: tuple[AmountLeft, ...] = ()
    is_complete: bool = True


def device_plugin(cluster: SimulatedCluster) -> DynamicResources | None:
    """Return the plugin that looks at claims; None where no profile of the scheduler has it."""
    plugins = (each.plugin for profile in cluster.core.profiles.values() for each in profile.plugins)
    return next((each for each in plugins if isinstance(each, DynamicResources)), None)


def free_devices(cluster: SimulatedCluster, watch: WorkWatch = UNWATCHED) -> FreeDevices:
    """Return which devices are free; the cluster is left as it was."""
    plugin = device_plugin(cluster)
    names = sorted(each.metadata.name for each in cluster.of(DeviceClass))
    work, classes = WorkBudget(STEPS), []
    watch.begin("looking at devices", len(names))
    for name in names if plugin is not None else ():
        assert plugin is not None, "asked where there is one"
        found = None if watch.is_stopped else _of_class(cluster, plugin, name, work)
        if found is None:
            break
        classes.append(found)
        watch.advance()
    slices = sorted(cluster.of(ResourceSlice), key=lambda each: (each.spec.driver, each.spec.pool.name))
    whole, shares = _taken(cluster)
    return FreeDevices(
        tuple(classes),
        tuple(_counters(slices, {*whole, *shares})),
        tuple(_shared(slices, shares)),
        is_complete=plugin is None or len(classes) == len(names),
    )


def _of_class(
    cluster: SimulatedCluster, plugin: DynamicResources, name: str, work: WorkBudget
) -> DevicesOfClass | None:
    """Return the devices of a class; None where looking at them takes too long."""
    table = cluster.core.cache.table
    nodes = [table.node(row) for row in table.rows().tolist()]
    claim, by_node = _claim_for(name, MAX_RESULTS), []
    for node in nodes:
        report = plugin.report(claim, [node], work)
        if not report.is_complete:
            return None
        here = ((_in_class(request), request.most) for request in report.requests)
        by_node += [DevicesOnNode(node.metadata.name, count, most) for count, most in here if count]
    whole = plugin.report(claim, nodes, work)
    if not whole.is_complete or not whole.requests:
        return None if whole.requests else DevicesOfClass(name, 0, 0, ())
    request = whole.requests[0]
    tainted = sum(each.devices for each in request.refused if each.check == "taint")
    by_node.sort(key=lambda each: (-each.at_once, each.node))
    return DevicesOfClass(name, _in_class(request), request.would_do, tuple(by_node), tainted)


def _in_class(request: RequestReport) -> int:
    """Return how many of the devices that nodes reach the selectors of the class take."""
    return request.devices - sum(each.devices for each in request.refused if each.check in ("selector", "node"))


def _claim_for(name: str, count: int) -> ResourceClaim:
    exactly = ExactDeviceRequest(device_class_name=name, count=count)
    devices = DeviceClaim(requests=(DeviceRequest(name="devices", exactly=exactly),))
    return ResourceClaim(
        metadata=ObjectMeta(name="asked", namespace="default"), spec=ResourceClaimSpec(devices=devices)
    )


Device = tuple[str, str, str]
Shares = Mapping[Device, list[dict[str, int]]]


def _taken(cluster: SimulatedCluster) -> tuple[set[Device], Shares]:
    """Return the devices that a claim has for itself, and of shared ones what each share takes."""
    whole, shares = set[Device](), defaultdict[Device, list[dict[str, int]]](list)
    for claim in cluster.of(ResourceClaim):
        allocation = claim.status.allocation
        for result in () if allocation is None else allocation.devices.results:
            device = result.driver, result.pool, result.device
            if result.share_id is not None:
                amounts = {name: nano_value(amount) for name, amount in result.consumed_capacity.items()}
                shares[device].append(amounts)
            elif not result.admin_access:
                whole.add(device)
    return whole, shares


def _counters(slices: Sequence[ResourceSlice], taken: Set[Device]) -> Iterator[AmountLeft]:
    used, users = Counter[tuple[str, str, str, str]](), Counter[tuple[str, str, str, str]]()
    for each in slices:
        pool = each.spec.driver, each.spec.pool.name
        for device in each.spec.devices:
            if (*pool, device.name) in taken:
                for entry in device.consumes_counters:
                    for name, counter in entry.counters.items():
                        key = (*pool, entry.counter_set, name)
                        used[key] += nano_value(counter.value)
                        users[key] += 1
    for each in slices:
        for of_set in each.spec.shared_counters:
            for name, counter in sorted(of_set.counters.items()):
                key = each.spec.driver, each.spec.pool.name, of_set.name, name
                total = nano_value(counter.value)
                yield AmountLeft("/".join(key[:3]), name, total / NANO, (total - used[key]) / NANO, users[key])


def _shared(slices: Sequence[ResourceSlice], shares: Shares) -> Iterator[AmountLeft]:
    for each in slices:
        for device in each.spec.devices:
            key = each.spec.driver, each.spec.pool.name, device.name
            for name, capacity in sorted(device.capacity.items()) if device.allow_multiple_allocations else ():
                total = nano_value(capacity.value)
                left = total - sum(share.get(name, 0) for share in shares.get(key, ()))
                yield AmountLeft("/".join(key), name, total / NANO, left / NANO, len(shares.get(key, ())))
