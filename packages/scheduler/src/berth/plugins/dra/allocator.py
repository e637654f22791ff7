"""The search for devices: the first solution in order, claim by claim, request by request, device by device.

Takes claims without an allocation, a node, and what is taken elsewhere; returns what to take, or None. Candidates are
tried in the order of the pools and devices (`devices.py`). Where a later request finds no device, the last one taken is
given back and the next candidate is tried. Which device is taken decides what is left for later pods, so the order is
upstream's. A search that gets stuck leaves out what cannot lead to a solution (`outlook.py`), and all searches of an
attempt spend its budget of work. Called by the plugin for each node. Source:
k8s.io/dynamic-resource-allocation/structured, v1.36.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from berth.api.device_taints import prevents
from berth.api.dra import DeviceClass, DeviceRequest, ResourceClaim
from berth.api.node import Node
from berth.framework.work_budget import WorkBudget
from berth.plugins.dra.capacity import Consumed, consume, consumed_by, fits
from berth.plugins.dra.cel import CelError, Selectors
from berth.plugins.dra.constraints import ConstraintCheck, constraint_of
from berth.plugins.dra.devices import (
    Counters,
    DeviceId,
    Pool,
    PoolId,
    Pools,
    PublishedDevice,
    add_counters,
)
from berth.plugins.dra.ledger import Allocated
from berth.plugins.dra.outlook import Demand, Outlook
from berth.plugins.dra.refusals import Refusal
from berth.plugins.dra.requests import MAX_RESULTS, AllocationError, Ask, Gates, asks_of, claim_key

PLUGIN = "DynamicResources"
NODES_SHARING = 4
"""The search on one node gives up after this part of the attempt's budget, so that others can still be looked at."""
STEPS_TO_TAKE = 5
"""What it counts in the budget of work to take a device and to give it back; to look at one counts 1."""
STEPS_TO_MATCH = 4
"""What each request counts where it is found out whether there can be devices for all of them."""

INVALID_POOLS = "invalid resource pools were encountered"
NOTHING: Mapping[str, int] = {}


class AllocationTimeoutError(Exception):
    """The search on one node has taken more steps than the filter timeout allows."""


class AllocationGivenUpError(Exception):
    """The search on one node would have used up the whole budget of the attempt."""


class InvalidPoolsError(Exception):
    """There was no solution, but a broken pool might have had one."""


class TakenDevice(NamedTuple):
    """A device that was taken for a request."""

    ask: Ask
    device: PublishedDevice
    consumed: Consumed | None
    """What was taken of a shared device; None for others."""


class ClaimDevices(NamedTuple):
    """What to take for one claim, and which alternative of each request it was."""

    taken: tuple[TakenDevice, ...]
    asks: tuple[Ask, ...]


class DeviceRoom(NamedTuple):
    """What a node has for one request alone."""

    free: int
    """How many devices it would get, up to what it asks for."""
    matching: int
    """How many it might get if none were taken."""


class _TooManyDevicesError(Exception):
    """A claim would get more devices than fit into its status; another alternative may need fewer."""


class _HopelessError(Exception):
    """There is no solution, whatever is tried."""


class Allocator:
    """What one attempt to place a pod shares across all nodes."""

    __slots__ = ("_available", "allocated", "class_of", "gates", "selectors", "step_limit", "work")

    def __init__(
        self,
        gates: Gates,
        allocated: Allocated,
        class_of: Callable[[str], DeviceClass | None],
        selectors: Selectors,
        step_limit: int = 0,
        work: WorkBudget | None = None,
    ) -> None:
        """`work` is the budget of the attempt; on one node a search may take `step_limit` steps, if that is not 0."""
        self.work = WorkBudget() if work is None else work
        self.gates = gates
        self.allocated = allocated
        self.class_of = class_of
        self.selectors = selectors
        self.step_limit = step_limit
        self._available: dict[PoolId, Counters] = {}

    def allocate(self, node: Node, pools: Pools, claims: Sequence[ResourceClaim]) -> tuple[ClaimDevices, ...] | None:
        """Return what to take for each claim, or None.

        Raises `AllocationError`, `InvalidPoolsError`, `AllocationTimeoutError`, `AllocationGivenUpError`, and
        `OutOfBudgetError`.
        """
        search = _Search(self, node, pools, claims)
        if search.run():
            return search.found()
        if any(pool.fault for pool in pools):
            raise InvalidPoolsError(INVALID_POOLS)
        return None

    def most_for(self, node: Node, pools: Pools, claim: ResourceClaim, request: DeviceRequest) -> DeviceRoom:
        """Return the most that one request of a claim could get on a node: what is free, up to what it asks for.

        Raises as `allocate` does.
        """
        assert request.exactly is not None, "asked of a request without alternatives"
        count = request.exactly.count
        free, matching = _Search(self, node, pools, [_alone(claim, request, count)]).free_and_matching()
        return DeviceRoom(min(free, count), matching)

    def room_for(
        self, node: Node, pools: Pools, claim: ResourceClaim, request: DeviceRequest, most: DeviceRoom
    ) -> DeviceRoom:
        """Return how many devices one request would get if its claim asked for nothing else; `most` is of `most_for`.

        What the search confirms counts, not what is free: devices may share what they are made of, or have to match.
        Raises as `allocate` does.
        """
        free = most.free
        while free and self.allocate(node, pools, [_alone(claim, request, free)]) is None:
            free -= 1
        return DeviceRoom(free, most.matching)

    def why_not(
        self, node: Node, pools: Pools, claim: ResourceClaim, ask: Ask
    ) -> Iterator[tuple[PublishedDevice, Refusal | None]]:
        """Yield the devices that a node reaches, each with the first check that refuses it for one ask of a claim.

        Each is looked at by itself: nothing else has been taken for the claim. Raises as `allocate` does.
        """
        search = _Search(self, node, pools, [claim])
        return ((device, search.why_not(ask, pool, device)) for pool, device in search.candidates)

    def available(self, pool: Pool) -> Counters:
        """Return what is left of a pool's counters before this pod takes anything."""
        left = self._available.get(pool.id)
        if left is None:
            left = {name: dict(counters) for name, counters in pool.counters.items()}
            for device in (*pool.devices, *pool.other_devices):
                if device.consumes and self.allocated.is_allocated(device.id):
                    add_counters(left, device.consumes, -1)
            self._available[pool.id] = left
        return left


class _Search:
    """The search on one node, by backtracking.

    The methods that find the next claim, request or device call one another and return whether everything from there on
    was found. The invariant: one that returns False or raises has given back all that it took, in reverse order, so the
    caller can try its next candidate from the state it had before (but for what `_take` keeps as upstream does).
    """

    def __init__(self, common: Allocator, node: Node, pools: Pools, claims: Sequence[ResourceClaim]) -> None:
        self._common, self._gates, self._allocated = common, common.gates, common.allocated
        self._node = node
        self._pools = pools
        self.candidates = [(pool, device) for pool in pools if pool.is_usable for device in pool.devices]
        """What is tried, in this order."""
        self._claims = claims
        self._asks = [[self._checked(claim, index) for index in range(_count(claim))] for claim in claims]
        self._all: dict[tuple[int, int, int], list[tuple[Pool, PublishedDevice]]] = {}
        self._constraints = [_constraints(claim) for claim in claims]
        self._taken: list[list[TakenDevice]] = [[] for _ in claims]
        self._chosen: dict[tuple[int, int], int] = {}
        self._bit_of: dict[DeviceId, int] = {}
        self._first_of: list[int] = []
        """By claim, the index of its first request among all requests; filled in with the outlook."""
        self._allocating: dict[DeviceId, set[int]] = {}
        self._consuming: dict[DeviceId, Consumed] = {}
        self._counters: dict[PoolId, Counters] = {}
        self._spent, self._share = 0, common.work.limit // NODES_SHARING
        self._is_stuck = False
        self._outlook: Outlook | None = None
        """What the requests would accept; None as long as the search has not got stuck, or where it does not apply."""
        for claim_index in range(len(claims)):
            self._check_size(claim_index)

    def run(self) -> bool:
        """Search; say whether there is a solution."""
        try:
            return self._next_claim(0)
        except _HopelessError:
            return False
        except _TooManyDevicesError as error:
            raise AllocationError("allocation max size exceeded") from error
        except RecursionError as error:
            raise AllocationError("the pod asks for too many devices in too many claims") from error

    def found(self) -> tuple[ClaimDevices, ...]:
        """Return the solution."""
        return tuple(
            ClaimDevices(
                tuple(self._taken[index]),
                tuple(asks[self._chosen.get((index, number), 0)] for number, asks in enumerate(self._asks[index])),
            )
            for index in range(len(self._claims))
        )

    def _checked(self, claim: ResourceClaim, request_index: int) -> tuple[Ask, ...]:
        return asks_of(claim, claim.spec.devices.requests[request_index], self._gates, self._common.class_of)

    def _check_size(self, claim_index: int) -> None:
        """List the devices that "all" means, and refuse a claim that would get too many in any case."""
        least = 0
        for request_index, asks in enumerate(self._asks[claim_index]):
            counts = []
            for number, ask in enumerate(asks):
                if ask.is_all:
                    self._all[claim_index, request_index, number] = list(self._all_devices(ask))
                counts.append(self._wanted(claim_index, request_index, number))
            least += min(counts)
        if least > MAX_RESULTS:
            claim = claim_key(self._claims[claim_index])
            raise AllocationError(
                f"claim {claim}: number of requested devices {least} exceeds the claim limit of {MAX_RESULTS}"
            )

    def _all_devices(self, ask: Ask) -> Iterator[tuple[Pool, PublishedDevice]]:
        where = f"claim {claim_key(ask.claim)}, request {ask.name}: asks for all devices, but resource pool"
        for pool in self._pools:
            if pool.is_incomplete:
                raise AllocationError(f"{where} {pool.id} is currently being updated")
            if pool.fault:
                raise AllocationError(f"{where} {pool.id} is currently invalid")
            for device in pool.devices:
                if self._is_selectable(ask, device) and self._has_capacity(ask, device):
                    yield pool, device

    def _wanted(self, claim_index: int, request_index: int, number: int) -> int:
        devices = self._all.get((claim_index, request_index, number))
        return self._asks[claim_index][request_index][number].spec.count if devices is None else len(devices)

    def _next_claim(self, claim_index: int) -> bool:
        if claim_index >= len(self._claims):
            return True
        return self._next_request(claim_index, 0)

    def _next_request(self, claim_index: int, request_index: int) -> bool:
        """Allocate a request and all that come after it; say whether that worked."""
        if request_index >= len(self._asks[claim_index]):
            try:
                return self._next_claim(claim_index + 1)
            except _TooManyDevicesError:
                return False  # other devices for this claim may leave an alternative that needs fewer
        asks = self._asks[claim_index][request_index]
        if not asks[0].parent:
            return self._next_device(claim_index, request_index, 0, 0, 0)
        always_too_many = True
        for number in range(len(asks)):
            try:
                done = self._next_device(claim_index, request_index, number, 0, 0)
            except _TooManyDevicesError:
                continue
            always_too_many = False
            if done:
                self._chosen[claim_index, request_index] = number
                return True
        if always_too_many:
            raise _TooManyDevicesError
        return False

    def _next_device(self, claim: int, request: int, number: int, count: int, start: int) -> bool:
        """Allocate a request's devices beyond the `count` it has, from candidate `start` on, then the next request."""
        ask = self._asks[claim][request][number]
        wanted = self._wanted(claim, request, number)
        if ask.is_all and not wanted:
            return False
        if count >= wanted:
            return self._next_request(claim, request + 1)
        if len(self._taken[claim]) + wanted - count > MAX_RESULTS:
            raise _TooManyDevicesError
        if ask.is_all:
            return self._take_next_of_all(claim, request, number, count)
        looked_at = 0
        for index in range(start, len(self.candidates)):
            pool, device = self.candidates[index]
            looked_at += 1
            if not self._is_candidate(claim, ask, device):
                continue
            undo = self._take(claim, ask, pool, device, must=False)
            if undo is None:
                continue
            done = False
            try:
                self._spend(looked_at + STEPS_TO_TAKE)
                looked_at = 0
                done = self._may_go_on(claim, request, number, count + 1) and self._next_device(
                    claim, request, number, count + 1, index + 1
                )
            finally:
                if not done:
                    undo()
            if done:
                return True
            self._got_stuck()
        self._spend(looked_at)
        return False

    def _take_next_of_all(self, claim: int, request: int, number: int, count: int) -> bool:
        """Take the next of all devices: since all are wanted, only one order needs trying."""
        pool, device = self._all[claim, request, number][count]
        undo = self._take(claim, self._asks[claim][request][number], pool, device, must=True)
        if undo is None:
            return False
        done = False
        try:
            self._spend(STEPS_TO_TAKE)
            done = self._next_device(claim, request, number, count + 1, 0)
        finally:
            if not done:
                undo()
        return done

    def _spend(self, steps: int) -> None:
        self._common.work.spend(PLUGIN, steps, self._told)
        self._spent += steps
        if 0 < self._common.step_limit < self._spent:
            raise AllocationTimeoutError
        if self._spent > self._share:
            raise AllocationGivenUpError

    def _told(self) -> str:
        claims = ", ".join(claim_key(claim) for claim in self._claims)
        return f"which looks for devices for {claims} on node {self._node.metadata.name}"

    def _got_stuck(self) -> None:
        """At the first dead end, find out whether there can be a solution at all, and what to leave out from now on."""
        if self._is_stuck:
            return
        self._is_stuck = True
        try:
            outlook = self._make_outlook()
        except AllocationError:
            return  # a selector fails on some device: whether the search comes to it is for the search to find out
        if outlook is None:
            return
        self._spend(STEPS_TO_MATCH * len(outlook.demands))
        if not outlook.allows((), 0, self._all_bits):
            raise _HopelessError
        # A device with counters leaves traces where it cannot be had after all (`_take`), and one that is shared may be
        # taken twice: which attempts are made then matters to the others.
        if not any(device.consumes or device.is_shared for _, device in self.candidates):
            self._outlook = outlook

    def _may_go_on(self, claim: int, request: int, number: int, count: int) -> bool:
        """Say whether the requests that are left may still find devices, now that this one has `count` of them."""
        outlook = self._outlook
        if outlook is None:
            return True
        self._spend(STEPS_TO_MATCH * len(outlook.demands))
        index = self._first_of[claim] + request
        taken = 0
        for devices in self._taken:
            for _, device, _ in devices:
                taken |= self._bit_of[device.id]
        return outlook.allows([outlook.demands[index][number].left(count)], index + 1, self._all_bits & ~taken)

    def _make_outlook(self) -> Outlook | None:
        """Return what the requests would accept; None where leaving out attempts might leave out an error.

        The search ends in an error where a claim turns out to get too many devices, or where devices that are all
        wanted break a constraint. Only where neither can happen is it the same to have made an attempt or not.
        Raises `AllocationError` where a selector fails.
        """
        for claim, requests in enumerate(self._asks):
            most = sum(max(self._wanted(claim, r, n) for n in range(len(asks))) for r, asks in enumerate(requests))
            wants_all = any(ask.is_all for asks in requests for ask in asks)
            if most > MAX_RESULTS or (wants_all and self._constraints[claim]):
                return None
        demands: list[tuple[Demand, ...]] = []
        for claim, requests in enumerate(self._asks):
            self._first_of.append(len(demands))
            for request, asks in enumerate(requests):
                demands.append(tuple(self._demand(claim, request, number) for number in range(len(asks))))
        return Outlook(tuple(demands))

    def free_and_matching(self) -> tuple[int, int]:
        """Return how many devices the first request accepts: of the free ones, and of all."""
        ask = self._asks[0][0][0]
        self._spend(STEPS_TO_TAKE + len(self.candidates))
        accepted = [
            device
            for _, device in self.candidates
            if self._is_selectable(ask, device) and not self._is_barred(ask, device)
        ]
        return sum(not self._is_in_use(0, ask, device) for device in accepted), len(accepted)

    def why_not(self, ask: Ask, pool: Pool, device: PublishedDevice) -> Refusal | None:
        """Return the first check that a device fails for an ask; None where it would do.

        These are the checks of `_is_candidate` and `_take`, in their order but for one: what a request does not select
        is not told to be taken. The search has taken nothing, and takes nothing by it.
        """
        self._spend(1)
        is_taken = self._is_in_use(0, ask, device)
        try:
            refusal = self._unselected(ask, device)
        except AllocationError:
            if not is_taken:  # of one that is taken the search would not have asked
                raise
            refusal = None
        if refusal is not None or is_taken:
            return refusal or Refusal("taken")
        return self._refused(ask, pool, device)

    def _unselected(self, ask: Ask, device: PublishedDevice) -> Refusal | None:
        if device.spec.binding_conditions and not self._gates.binding_conditions:
            return Refusal("bindingConditions")
        for where, text in ask.selectors:
            if not self._selects(where, text, device):
                return Refusal("selector", text)
        return None if device.is_reachable(self._node) else Refusal("node")

    def _refused(self, ask: Ask, pool: Pool, device: PublishedDevice) -> Refusal | None:
        if not self._has_capacity(ask, device):
            return Refusal("capacity")
        shared = device.is_shared and self._gates.consumable_capacity
        has_paid = shared and device.id in self._allocated.capacity
        if device.consumes and not self._gates.partitionable_devices:
            return Refusal("partitions")
        if device.consumes and not has_paid:
            if not self._take_counters(pool, device.consumes):
                return Refusal("counters", f"{pool.id}/{', '.join(sorted(device.consumes))}")
            add_counters(self._counters[pool.id], device.consumes, -1)
        if self._is_barred(ask, device):
            taints = (taint for taint in device.spec.taints if prevents((taint,), ask.spec.tolerations))
            return Refusal("taint", ", ".join(f"{each.key}={each.value}:{each.effect}" for each in taints))
        base, sub = (ask.parent, ask.name) if ask.parent else (ask.name, "")
        if not self._constrain(0, base, sub, device):
            return Refusal("constraint")
        self._unconstrain(0, base, sub)
        return None

    def _demand(self, claim: int, request: int, number: int) -> Demand:
        ask = self._asks[claim][request][number]
        accepts = shares = 0
        self._spend(len(self.candidates))
        for index, (_, device) in enumerate(self.candidates):
            bit = 1 << index
            self._bit_of[device.id] = bit
            is_taken = not ask.spec.admin_access and device.id in self._allocated.devices
            if not is_taken and self._is_selectable(ask, device) and not self._is_barred(ask, device):
                accepts |= bit
                if device.is_shared or ask.spec.admin_access:
                    shares |= bit
        wanted = self._wanted(claim, request, number)
        # "All" of no device at all fails, as one device of none does.
        return Demand(accepts, max(wanted, 1) if ask.is_all else wanted, shares)

    @property
    def _all_bits(self) -> int:
        return (1 << len(self.candidates)) - 1

    def _is_barred(self, ask: Ask, device: PublishedDevice) -> bool:
        return self._gates.device_taints and prevents(device.spec.taints, ask.spec.tolerations)

    def _is_candidate(self, claim: int, ask: Ask, device: PublishedDevice) -> bool:
        """Say whether a device is free and selected; the cheap check comes first."""
        if self._is_in_use(claim, ask, device):
            return False
        return self._is_selectable(ask, device) and self._has_capacity(ask, device)

    def _is_in_use(self, claim: int, ask: Ask, device: PublishedDevice) -> bool:
        if ask.spec.admin_access:
            return claim in self._allocating.get(device.id, ())
        return device.id in self._allocated.devices or bool(self._allocating.get(device.id))

    def _is_selectable(self, ask: Ask, device: PublishedDevice) -> bool:
        if device.spec.binding_conditions and not self._gates.binding_conditions:
            return False
        if not all(self._selects(where, text, device) for where, text in ask.selectors):
            return False
        return device.is_reachable(self._node)

    def _selects(self, where: str, text: str, device: PublishedDevice) -> bool:
        verdict = device.verdicts.get(text)
        if verdict is None:
            selectors, work = self._common.selectors, self._common.work
            try:
                # Not from the node's share: a selector's verdict is kept, so the next search does not pay for it again.
                if text not in selectors:
                    work.spend(PLUGIN, len(text), self._told)
                found = device.view.verdict(selectors.get(text))
            except CelError as fault:
                raise AllocationError(f"{where}: {fault}") from fault
            if not found.fault:
                verdict = device.note_verdict(text, found.matches)
            # What it takes is known when it is done; the verdict is kept even if the attempt ends with that.
            work.spend(PLUGIN, found.steps, self._told)
            if verdict is None:
                raise AllocationError(f"{where} on device {device.id}: {found.fault}")
        return verdict

    def _has_capacity(self, ask: Ask, device: PublishedDevice) -> bool:
        if not self._gates.consumable_capacity or not device.spec.capacity:
            return not (self._gates.consumable_capacity and ask.spec.capacity and ask.spec.capacity.requests)
        allocated = self._allocated.capacity.get(device.id, NOTHING)
        return fits(ask.spec.capacity, device.spec.capacity, allocated, self._consuming.get(device.id, NOTHING))

    def _take(
        self, claim: int, ask: Ask, pool: Pool, device: PublishedDevice, *, must: bool
    ) -> Callable[[], None] | None:
        """Take a device and return how to give it back, or None where it cannot be had after all."""
        shared = device.is_shared and self._gates.consumable_capacity
        if not shared and self._is_in_use(claim, ask, device):
            return None
        if shared and not ask.spec.admin_access and self._is_in_use(claim, ask, device):
            return None
        consumes = device.consumes
        if consumes and not self._gates.partitionable_devices:
            return None
        if shared and (device.id in self._allocated.capacity or device.id in self._consuming):
            consumes = {}  # the first consumer of a shared device has paid its counters
        # As upstream: where a device gets its counters but turns out to be tainted, to break a constraint or to lack
        # capacity, the counters stay taken for this node's search. In the last case constraints go on counting it too.
        if consumes and not self._take_counters(pool, consumes):
            return None
        if self._is_barred(ask, device):
            return None
        base, sub = (ask.parent, ask.name) if ask.parent else (ask.name, "")
        if not self._constrain(claim, base, sub, device):
            if must:
                raise AllocationError(
                    f"claim {claim_key(ask.claim)}, request {ask.name}: cannot add device {device.id} because a claim "
                    "constraint would not be satisfied"
                )
            return None
        if not self._has_capacity(ask, device):
            return None
        return self._note(claim, ask, pool, device, consumes, shared)

    def _note(
        self, claim: int, ask: Ask, pool: Pool, device: PublishedDevice, consumes: Counters, shared: bool
    ) -> Callable[[], None]:
        base, sub = (ask.parent, ask.name) if ask.parent else (ask.name, "")
        consumed = consumed_by(ask.spec.capacity, device.spec.capacity) if shared else None
        if consumed is None:
            self._allocating.setdefault(device.id, set()).add(claim)
        else:
            consume(self._consuming, device.id, consumed, 1)
        self._taken[claim].append(TakenDevice(ask, device, consumed))

        def undo() -> None:
            self._taken[claim].pop()
            self._unconstrain(claim, base, sub)
            if consumed is None:
                self._allocating[device.id].discard(claim)
                add_counters(self._counters.get(pool.id, {}), consumes, -1)
            else:
                consume(self._consuming, device.id, consumed, -1)  # as upstream, its counters stay taken too

        return undo

    def _take_counters(self, pool: Pool, consumes: Counters) -> bool:
        """Take from a pool's counters, unless any of them would be overdrawn."""
        available = self._common.available(pool)
        taking = self._counters.setdefault(pool.id, {name: {} for name in pool.counters})
        add_counters(taking, consumes, 1)
        for name, left in available.items():
            taken = taking.get(name, NOTHING)
            if any(amount < taken.get(counter, 0) for counter, amount in left.items()):
                add_counters(taking, consumes, -1)
                return False
        return True

    def _constrain(self, claim: int, base: str, sub: str, device: PublishedDevice) -> bool:
        constraints = self._constraints[claim]
        for index, constraint in enumerate(constraints):
            if not constraint.add(base, sub, device.id.driver, device.spec.attributes):
                for earlier in constraints[:index]:
                    earlier.remove(base, sub)
                return False
        return True

    def _unconstrain(self, claim: int, base: str, sub: str) -> None:
        for constraint in self._constraints[claim]:
            constraint.remove(base, sub)


def _alone(claim: ResourceClaim, request: DeviceRequest, count: int) -> ResourceClaim:
    """Return a claim that asks for so many devices of one request, and for nothing else."""
    assert request.exactly is not None, "asked of a request without alternatives"
    fewer = replace(request, exactly=replace(request.exactly, count=count))
    of_it = [each for each in claim.spec.devices.constraints if not each.requests or request.name in each.requests]
    constraints = tuple(replace(each, requests=()) for each in of_it)
    devices = replace(claim.spec.devices, requests=(fewer,), constraints=constraints)
    return replace(claim, spec=replace(claim.spec, devices=devices))


def _count(claim: ResourceClaim) -> int:
    return len(claim.spec.devices.requests)


def _constraints(claim: ResourceClaim) -> list[ConstraintCheck]:
    found: list[ConstraintCheck] = []
    for index, spec in enumerate(claim.spec.devices.constraints):
        constraint = constraint_of(spec)
        if constraint is None:
            raise AllocationError(
                f"claim {claim_key(claim)}, constraint #{index}: empty constraint (unsupported constraint type?)"
            )
        found.append(constraint)
    return found
