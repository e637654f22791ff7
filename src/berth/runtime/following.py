"""Everything the scheduler reads from the API server, followed, including kinds that the server does not serve (yet).

The live scheduler gives a sink for changes and waits for `wait_for_sync`. Servers differ in which optional kinds they
serve; a missing one is reported once, counts as synced and empty, and is asked for again every few minutes.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Container, Iterable
from typing import Any

import msgspec

from berth.api.errors import ApiError, TransportError
from berth.api.resources import RESOURCES, Resource
from berth.config.feature_gates import FeatureGates
from berth.intake import ObjectEvent
from berth.kube.backoff import Backoff
from berth.kube.changes import Added, Change, Deleted, Modified
from berth.kube.informers import InformerSet
from berth.kube.reflector import Reflector, Report, Sink
from berth.kube.transport import Transport

REQUIRED_KINDS = ("Pod", "Node")
OPTIONAL_KINDS = (
    "Namespace",
    "Service",
    "ReplicationController",
    "ReplicaSet",
    "StatefulSet",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "CSIStorageCapacity",
    "VolumeAttachment",
    "PodDisruptionBudget",
    "ResourceClaim",
    "ResourceSlice",
    "DeviceClass",
)
GATED_KINDS = (("DeviceTaintRule", "DRADeviceTaintRules"), ("PodGroup", "GenericWorkload"))
"""Kinds that are followed only where their feature gate is on."""
ASK_AGAIN_S = 300.0
STALE_S = 120.0
"""A kind that nothing was heard of for so long is stale where its watch is known not to work…"""
SILENT_S = 900.0
"""…and after so long in any case. Not all servers send bookmarks, so a watch that works may be silent for minutes."""


def event_of(change: Change) -> ObjectEvent | None:
    """What a change of an object means to a core; None where it is something else."""
    if isinstance(change, Modified):
        return ObjectEvent("MODIFIED", type(change.object).__name__, change.object)
    if isinstance(change, Added):
        return ObjectEvent("ADDED", type(change.object).__name__, change.object)
    if isinstance(change, Deleted):
        return ObjectEvent("DELETED", type(change.object).__name__, change.object)
    return None


class Following:
    """Informers for all kinds; `run` is a task of its own."""

    __slots__ = (
        "_clock", "_keep_raw", "_late", "_main", "_optional", "_ready", "_report", "_rng", "_sink", "_sleep",
        "_transport", "missing", "problem",
    )  # fmt: skip

    def __init__(
        self,
        transport: Transport,
        sink: Sink,
        *,
        report: Report,
        rng: random.Random,
        features: FeatureGates | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        keep_raw: Container[str] = (),
    ) -> None:
        """`keep_raw` are the kinds whose JSON is kept for `whole`."""
        self._keep_raw = keep_raw
        self._transport = transport
        self._sink = sink
        self._report = report
        self._rng = rng
        self._clock = clock
        self._sleep = sleep
        gates = features or FeatureGates()
        self._optional = (*OPTIONAL_KINDS, *(kind for kind, gate in GATED_KINDS if gates.enabled(gate)))
        self._main = self._informers()
        self._late: list[InformerSet] = []
        self._ready = asyncio.Event()
        self.missing: set[str] = set()
        """Plurals of the kinds that the server does not serve."""
        self.problem = ""
        """Why the server could not be asked yet which kinds it serves; empty once it has answered."""

    async def run(self) -> None:
        """Follow until cancelled; raises only bugs."""
        missing = await self._unserved()
        for kind in (*REQUIRED_KINDS, *self._optional):
            if RESOURCES[kind] not in missing:
                self._main.add(RESOURCES[kind], self._sink, keep_raw=kind in self._keep_raw)
        self._ready.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._main.run(), name="informers")
            for resource in missing:
                group.create_task(self._await_serving(resource), name=f"informers:{resource.plural}")

    async def wait_for_sync(self) -> None:
        """Return when the first list of every kind that is served is complete."""
        await self._ready.wait()
        await self._main.wait_for_sync()

    def unsynced(self) -> dict[str, str]:
        """What is not synced yet, and why."""
        if not self._ready.is_set():
            return {"everything": self.problem or "no answer yet"}
        return self._main.unsynced()

    def stale(self) -> dict[str, str]:
        """The kinds that are not kept up to date any more, and why."""
        found = {}
        for resource, reflector in self.reflectors().items():
            age_s, problem = reflector.stale_s, reflector.problem
            if age_s is not None and age_s > (STALE_S if problem else SILENT_S):
                found[resource.plural] = f"nothing heard for {age_s:.0f} s{': ' if problem else ''}{problem}"
        return found

    def reflectors(self) -> dict[Resource, Reflector]:
        """Everything that is followed."""
        return {key: value for informers in (self._main, *self._late) for key, value in informers.reflectors.items()}

    def find(self, kind: str, namespace: str, name: str) -> Any | None:
        """An object as last seen, or None."""
        reflector = self._main.reflectors.get(RESOURCES[kind])
        return None if reflector is None else reflector.mirror.objects.get((namespace, name))

    def whole(self, obj: Any) -> bytes:
        """The JSON of an object: the server's own where that is kept, else only the fields that Berth reads."""
        meta, kind = obj.metadata, type(obj).__name__
        reflector = self._main.reflectors.get(RESOURCES[kind])
        key = (meta.namespace, meta.name)
        known = None if reflector is None else reflector.mirror.objects.get(key)
        raw = None if reflector is None else reflector.mirror.raw.get(key)
        is_same = known is not None and known.metadata.uid == meta.uid
        return raw if raw is not None and is_same else msgspec.json.encode(obj)

    def objects(self, kind: str) -> list[Any]:
        """All objects of a kind as last seen; none where the kind is not followed."""
        reflector = self._main.reflectors.get(RESOURCES[kind])
        return [] if reflector is None else list(reflector.mirror.objects.values())

    def _informers(self) -> InformerSet:
        return InformerSet(self._transport, report=self._report, rng=self._rng, clock=self._clock, sleep=self._sleep)

    async def _unserved(self) -> list[Resource]:
        """Ask for the optional kinds, for as long as it takes to get an answer; return those that are not served."""
        backoff = Backoff(self._rng)
        while True:
            try:
                await self._transport.list(RESOURCES["Node"], limit=1)
                served = await asyncio.gather(*(self._is_served(RESOURCES[kind]) for kind in self._optional))
            except TransportError as error:
                delay_s = backoff.next_delay_s()
                self.problem = str(error)
                self._report(f"the API server cannot be used yet: {error}; trying again in {delay_s:.1f} s")
                await self._sleep(delay_s)
                continue
            self.problem = ""
            missing = [RESOURCES[kind] for kind, there in zip(self._optional, served, strict=True) if not there]
            self._tell_missing(missing)
            return missing

    async def _is_served(self, resource: Resource) -> bool:
        """Say whether a list is answered with anything but 404; other troubles are the reflector's business."""
        try:
            await self._transport.list(resource, limit=1)
        except ApiError as error:
            return not error.is_not_found
        return True

    def _tell_missing(self, missing: Iterable[Resource]) -> None:
        self.missing = {resource.plural for resource in missing}
        if self.missing:
            names = ", ".join(sorted(self.missing))
            self._report(f"this server does not serve {names}; taken as empty, asking again every {ASK_AGAIN_S:.0f} s")

    async def _await_serving(self, resource: Resource) -> None:
        """Follow a kind from when the server begins to serve it."""
        while True:
            await self._sleep(ASK_AGAIN_S)
            try:
                if await self._is_served(resource):
                    break
            except TransportError:
                continue  # the other reflectors say what is wrong
        self.missing.discard(resource.plural)
        informers = self._informers()
        informers.add(resource, self._sink)
        self._late.append(informers)
        await informers.run()
