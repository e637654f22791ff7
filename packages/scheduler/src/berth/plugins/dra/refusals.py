"""Why a claim gets no devices: the allocator asked again, device by device, and what it says counted.

A claim and the nodes go in, a `ClaimReport` comes out: for each request how many devices there are, which check refuses
how many of them, and the most that one node has. Every count is of evaluations that the allocator made of these devices
(`Allocator.why_not`), each device by itself and as things are now. Asked by the plugin, for people and in no cycle.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal, NamedTuple

import msgspec

from berth.api.dra import DeviceRequest, ResourceClaim
from berth.api.node import Node
from berth.plugins.dra.requests import ALL, Ask

Check = Literal[
    "bindingConditions", "selector", "node", "taken", "capacity", "partitions", "counters", "taint", "constraint"
]

NAMED = 3


class Refusal(NamedTuple):
    """The first check of the search that a device fails."""

    check: Check
    what: str = ""
    """The selector, the taint as `key=value:effect`, or the set of counters; else empty."""


class RefusedDevices(msgspec.Struct, frozen=True, rename="camel"):
    """Devices that the same check refuses."""

    devices: int
    check: Check
    what: str = ""
    """The selector, the taint as `key=value:effect`, or `driver/pool/set` of the counters; else empty."""
    named: tuple[str, ...] = ()
    """The first of them, as `driver/pool/device`."""


class RequestReport(msgspec.Struct, frozen=True, rename="camel"):
    """What there is for one request of a claim, or for one alternative of a list."""

    request: str
    device_class: str
    selectors: tuple[str, ...]
    """What it asks for beside its class."""
    mode: str
    needed: int
    """How many it asks for; with the mode `All`, 0."""
    admin_access: bool
    devices: int
    """How many devices nodes can reach, each counted once."""
    would_do: int
    """How many of them the request could have by themselves."""
    refused: tuple[RefusedDevices, ...]
    """The others, by the first check that refuses them; of a device that several nodes reach, on the first of these."""
    most: int
    """The most of those that would do on one node."""
    node: str
    """The first node with so many; empty where there is none."""
    fits_on: int
    """How many nodes have devices for it, if the claim asked for nothing else."""


class ClaimReport(msgspec.Struct, frozen=True, rename="camel"):
    """What devices there are for a claim."""

    claim: str
    """`namespace/name`."""
    nodes: int
    """How many nodes were looked at."""
    fits_on: tuple[str, ...] = ()
    """The nodes that have devices for all of it."""
    allocated: tuple[str, ...] = ()
    """The devices that it has already, as `driver/pool/device`."""
    requests: tuple[RequestReport, ...] = ()
    constraints_only: bool = False
    """Whether some node would do but for the claim's constraints."""
    problem: str = ""
    """What is wrong with the claim, a class, a selector or a pool, in the allocator's words."""
    is_complete: bool = True
    """False where looking at all would have taken too long: the counts are then those of the nodes before."""


class _Tally:
    """What is known of the devices for one ask."""

    __slots__ = ("ask", "fits_on", "most", "node", "outcomes", "sets")

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.outcomes: dict[str, Refusal | None] = {}
        self.fits_on, self.most, self.node = 0, 0, ""

    def note(self, node: Node, said: Sequence[tuple[str, Refusal | None]], fits: Callable[[int], bool]) -> None:
        """Take in what a node has; `fits` says whether it has so many for this ask alone."""
        free, wanted = sum(refusal is None for _, refusal in said), self.ask.spec.count
        if self.ask.is_all:
            self.fits_on += fits(wanted)
        else:
            # Devices may share what they are made of, or have to match: what the search confirms counts.
            free = next((count for count in range(min(free, wanted), self.most, -1) if fits(count)), 0)
            self.fits_on += free == wanted or (self.most == wanted and fits(wanted))
        if free > self.most:
            self.most, self.node = free, node.metadata.name
        for device, refusal in said:
            known = self.outcomes.get(device, refusal)
            if known is None or refusal is None:
                self.outcomes[device] = None
            elif known.check == "node" and refusal.check != "node":  # one that is elsewhere says nothing of the device
                self.outcomes[device] = refusal
            else:
                self.outcomes[device] = known

    def report(self) -> RequestReport:
        spec = self.ask.spec
        by_refusal: dict[Refusal, list[str]] = {}
        for device, refusal in self.outcomes.items():
            if refusal is not None:
                by_refusal.setdefault(refusal, []).append(device)
        refused = sorted(by_refusal.items(), key=lambda each: (-len(each[1]), each[0]))
        return RequestReport(
            request=self.ask.full_name,
            device_class=spec.device_class_name,
            selectors=tuple(each.cel.expression for each in spec.selectors if each.cel is not None),
            mode=spec.allocation_mode,
            needed=0 if spec.allocation_mode == ALL else spec.count,
            admin_access=spec.admin_access,
            devices=len(self.outcomes),
            would_do=sum(refusal is None for refusal in self.outcomes.values()),
            refused=tuple(RefusedDevices(len(names), *why, tuple(names[:NAMED])) for why, names in refused),
            most=self.most,
            node=self.node,
            fits_on=self.fits_on,
        )


def report_of(
    claim: ResourceClaim,
    nodes: Sequence[Node],
    asks: Sequence[Ask],
    why_not: Callable[[Node, Ask], Iterator[tuple[str, Refusal | None]]],
    fits: Callable[[Node, ResourceClaim], bool],
    ends: tuple[type[Exception], ...],
) -> ClaimReport:
    """Return what there is for a claim on some nodes.

    `why_not` yields the devices that a node reaches, each with the first check that refuses it for an ask; `fits` says
    whether a node has devices for a claim. Where either raises one of `ends`, the nodes before are what is told of.
    """

    def has(node: Node, ask: Ask, count: int) -> bool:
        return fits(node, alone(claim, ask, count))

    tallies, fitting, without, seen = [_Tally(ask) for ask in asks], [], False, 0
    try:
        for node in nodes:
            said = [list(why_not(node, tally.ask)) for tally in tallies]
            does = fits(node, claim)
            without = without or does or fits(node, _unconstrained(claim))
            for tally, of_node in zip(tallies, said, strict=True):
                tally.note(node, of_node, partial(has, node, tally.ask))
            fitting += [node.metadata.name] if does else []
            seen += 1
    except ends:
        pass
    return ClaimReport(
        claim=f"{claim.metadata.namespace}/{claim.metadata.name}",
        nodes=seen,
        fits_on=tuple(fitting),
        requests=tuple(tally.report() for tally in tallies),
        constraints_only=without and not fitting,
        is_complete=seen == len(nodes),
    )


def alone(claim: ResourceClaim, ask: Ask, count: int) -> ResourceClaim:
    """Return a claim that asks for so many devices of one ask and for nothing else, with the constraints on these."""
    spec = msgspec.structs.replace(ask.spec, count=count, name="")
    name = ask.parent or ask.name
    request = DeviceRequest(name=name, exactly=spec)
    of_it = (
        each for each in claim.spec.devices.constraints if not each.requests or {name, ask.full_name} & {*each.requests}
    )
    constraints = tuple(msgspec.structs.replace(each, requests=()) for each in of_it)
    return _with(claim, requests=(request,), constraints=constraints)


def _unconstrained(claim: ResourceClaim) -> ResourceClaim:
    return _with(claim, requests=claim.spec.devices.requests, constraints=())


def _with(claim: ResourceClaim, **fields: object) -> ResourceClaim:
    devices = msgspec.structs.replace(claim.spec.devices, **fields)
    return msgspec.structs.replace(claim, spec=msgspec.structs.replace(claim.spec, devices=devices))
