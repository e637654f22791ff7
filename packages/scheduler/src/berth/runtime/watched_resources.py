"""Everything the scheduler reads from the API server, followed, including kinds that the server does not serve (yet).

The live scheduler gives a sink for changes and waits for `wait_for_sync`. Pods, nodes and namespaces are required.
Everything else delays the start by half a minute at most: servers differ in the optional kinds that they serve, and
roles in those that they allow. Kinds that the server does not serve are reported once, treated as empty, and asked for
again every few minutes. Kinds that it refuses are reported and tried again; the scheduler does without them meanwhile,
and pods that could be misplaced as a result are held back (`held_pods`).
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from berth.api.custom import CustomResource
from berth.api.resources import RESOURCES, Resource, versions_of
from berth.api.web import WebResource
from berth.config.feature_gates import FeatureGates
from berth.core.intake import ObjectEvent
from berth.kube.changes import Added, Change, Custom, Deleted, Modified
from berth.kube.informers import InformerSet
from berth.kube.reflector import Reflector, Sink
from berth.kube.transport import Transport
from berth.kube.trouble import InformerTrouble, Report
from berth.kube.watch_check import WatchCheck
from berth.runtime.held_pods import HeldPods
from berth.runtime.web_documents import WebDocuments

REQUIRED_KINDS = ("Pod", "Node", "Namespace")
"""Namespaces too: a term of another pod may select any namespace by its labels, and so keep any pod off a node."""
OPTIONAL_KINDS = (
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
START_WITHOUT_S = 30.0
"""How long, once the required kinds are there, the start waits for those that are not."""
STALE_S = 120.0
"""A kind that nothing was heard of for so long is stale where its watch is known not to work…"""
SILENT_S = 900.0
"""…and after so long in any case. Not all servers send bookmarks, so a watch that works may be silent for minutes."""


def stale_among(reflectors: Iterable[Reflector]) -> dict[str, str]:
    """Return the plurals of the kinds that are not kept up to date any more, and why."""
    found = {}
    for reflector in reflectors:
        age_s, problem = reflector.stale_s, reflector.problem
        if age_s is not None and age_s > (STALE_S if problem else SILENT_S):
            found[reflector.resource.plural] = f"nothing heard for {age_s:.0f} s{': ' if problem else ''}{problem}"
    return found


def event_of(change: Change) -> ObjectEvent | None:
    """What a change of an object means to a core; None where it is something else."""
    if isinstance(change, Custom):
        event = event_of(change.change)
        return event and ObjectEvent(event.type, change.resource, event.obj)
    if isinstance(change, Modified):
        return ObjectEvent("MODIFIED", type(change.object).__name__, change.object)
    if isinstance(change, Added):
        return ObjectEvent("ADDED", type(change.object).__name__, change.object)
    if isinstance(change, Deleted):
        return ObjectEvent("DELETED", type(change.object).__name__, change.object)
    return None


class WatchedResources:
    """Informers for all kinds; `run` is a task of its own."""

    __slots__ = (
        "_custom",
        "_held",
        "_informers",
        "_report",
        "_sink",
        "_sleep",
        "_staged",
        "_watch_check",
        "_web",
        "has_started",
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
        custom: Iterable[CustomResource] = (),
        web: Iterable[WebResource] = (),
    ) -> None:
        """`keep_raw` has the kinds whose JSON is kept for `whole`, `custom` the resources that plugins follow.

        `web` has the documents that they want from outside the API server.
        """
        self._sink = sink
        self._report = report
        self._sleep = sleep
        self.has_started = False
        """Whether `wait_for_sync` has returned."""
        gates = features or FeatureGates()
        self._informers = InformerSet(
            transport, report=report, rng=rng, clock=clock, sleep=sleep, on_settled=self._release
        )
        self._web = WebDocuments(web, sink, report, sleep)
        self._watch_check = WatchCheck(self.reflectors, report, rng, sleep)
        self._held = HeldPods(self._unsettled_kinds, holds_extended=gates.enabled("DRAExtendedResource"))
        optional = (*OPTIONAL_KINDS, *(kind for kind, gate in GATED_KINDS if gates.enabled(gate)))
        for kind in (*REQUIRED_KINDS, *optional):
            self._informers.add(
                *versions_of(kind),
                sink=self._take_pods if kind == "Pod" else sink,
                keep_raw=kind in keep_raw,
                is_required=kind in REQUIRED_KINDS,
            )

        self._custom: dict[str, CustomResource] = {each.name: each for each in custom}
        """What plugins want followed, by name, which is the kind that their informers go by."""
        self._staged: dict[str, _Staged] = {}
        """What the plugins of a core that is yet to come want followed."""
        for each in self._custom.values():
            self._informers.add(each.resource, sink=_told_as(each.name, sink), read=each.read)

    @property
    def missing(self) -> set[str]:
        """Plurals of the kinds that the server does not serve."""
        return {
            informer.reflector.resource.plural for informer in self._informers.informers.values() if informer.is_missing
        }

    @property
    def held_pods(self) -> int:
        """How many pending pods wait for a kind that cannot be read."""
        return len(self._held)

    async def run(self) -> None:
        """Follow until cancelled; raises only bugs."""
        tasks = [
            asyncio.create_task(self._informers.run(), name="informers"),
            asyncio.create_task(self._watch_check.run(), name="watch check"),
            asyncio.create_task(self._web.run(), name="web documents"),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def ask_again(self) -> None:
        """Ask at once for what the server did not serve, since it may do so by now."""
        self._informers.ask_again()

    def expect_pods(self) -> None:
        """Take in that a pod has just been written, so that the watch of pods must bring something soon."""
        self._informers.informers["Pod"].reflector.expect_news()

    async def wait_for_sync(self) -> None:
        """Return once the required kinds are there, and all others are there or overdue; raises bugs."""
        await self._informers.wait_until_settled(REQUIRED_KINDS)
        everything = asyncio.create_task(self._wait_for_everything())
        patience = asyncio.ensure_future(self._sleep(START_WITHOUT_S))
        try:
            await asyncio.wait({everything, patience}, return_when=asyncio.FIRST_COMPLETED)
            if everything.done():
                everything.result()
        finally:
            everything.cancel()
            patience.cancel()
            await asyncio.gather(everything, patience, return_exceptions=True)
        if not self.has_started:
            self.has_started = True
            for plural, why in self.lacking().items():
                self._report(InformerTrouble(plural, f"starting without them: {why}"))

    async def stage(self, custom: Iterable[CustomResource], web: Iterable[WebResource]) -> None:
        """Begin to follow what these plugins want and is not followed yet; return once it is there or overdue.

        It is not reported before `put_in_place`; `unstage` drops it. What is followed already goes on.
        """
        self.unstage()
        for each in custom:
            if self._custom.get(each.name) != each:
                staged = self._staged[each.name] = _Staged(each, f"{each.name} (staged)", _Gate(each.name, self._sink))
                self._informers.add(each.resource, sink=staged.gate.take, read=each.read, key=staged.key)
        self._web.stage(web)
        there = asyncio.create_task(self._wait_for_staged())
        patience = asyncio.ensure_future(self._sleep(START_WITHOUT_S))
        try:
            await asyncio.wait({there, patience}, return_when=asyncio.FIRST_COMPLETED)
            if there.done():
                there.result()
        finally:
            there.cancel()
            patience.cancel()
            await asyncio.gather(there, patience, return_exceptions=True)

    async def _wait_for_staged(self) -> None:
        await self._informers.wait_until_settled([staged.key for staged in self._staged.values()])
        await self._web.wait_until_asked()

    def unstage(self) -> None:
        """Give up what was staged."""
        for staged in self._staged.values():
            self._informers.drop(staged.key)
        self._staged = {}
        self._web.unstage()

    def put_in_place(self, custom: Iterable[CustomResource], web: Iterable[WebResource]) -> None:
        """Follow for plugins what was staged, and nothing but what these plugins want."""
        staged, self._staged = self._staged, {}
        wanted = {each.name: each for each in custom}
        for name in self._custom:
            if name in staged or name not in wanted:
                self._informers.drop(name)
        for name, each in staged.items():
            self._informers.rename(each.key, name)
            each.gate.is_open = True
        self._custom = wanted
        self._web.put_in_place({each.name for each in web})

    async def _wait_for_everything(self) -> None:
        await self._informers.wait_until_settled(self._informers.informers)
        await self._web.wait_until_asked()

    def unsynced(self) -> dict[str, str]:
        """What the start waits for, by plural, and why it is not there."""
        return {} if self.has_started else self._unsettled()

    def lacking(self) -> dict[str, str]:
        """What the scheduler does without although the server may have it: by plural, why, and how many pods wait."""
        if not self.has_started:
            return {}
        waiting = {self._plural(kind): count for kind, count in self._held.waits_for().items()}
        return {
            plural: f"{why}; {count} pods wait for them" if (count := waiting.get(plural, 0)) else why
            for plural, why in self._unsettled().items()
        }

    def stale(self) -> dict[str, str]:
        """The kinds that are not kept up to date any more, and why."""
        return stale_among(self.reflectors())

    def reflectors(self) -> list[Reflector]:
        """Those of all kinds that are served, as far as is known."""
        return [each.reflector for each in self._informers.informers.values() if not each.is_missing]

    def served(self, kind: str) -> Resource:
        """The version in which a kind is served, where that has been found out."""
        informer = self._informers.informers.get(kind)
        return RESOURCES[kind] if informer is None else informer.reflector.resource

    def find(self, kind: str, namespace: str, name: str) -> Any | None:
        """An object as last seen, or None."""
        informer = self._informers.informers.get(kind)
        return None if informer is None else informer.reflector.mirror.objects.get((namespace, name))

    def whole(self, obj: Any) -> bytes:
        """The JSON of an object: the server's own where that is kept, else only the fields that Berth reads."""
        meta, kind = obj.metadata, type(obj).__name__
        informer = self._informers.informers.get(kind)
        if informer is None:
            return msgspec.json.encode(obj)
        key, mirror = (meta.namespace, meta.name), informer.reflector.mirror
        known, raw = mirror.objects.get(key), mirror.raw.get(key)
        is_same = known is not None and known.metadata.uid == meta.uid
        return raw if raw is not None and is_same else msgspec.json.encode(obj)

    def everything(self) -> Iterator[Any]:
        """All objects of all kinds as last seen, except held pods; pods come after everything else."""
        yield from self._web
        for reflector in sorted(self.reflectors(), key=lambda reflector: reflector.resource.kind == "Pod"):
            for obj in list(reflector.mirror.objects.values()):
                if not self._held.holds(obj):
                    yield obj

    def objects(self, kind: str) -> list[Any]:
        """All objects of a kind as last seen; none where the kind is not followed."""
        informer = self._informers.informers.get(kind)
        return [] if informer is None else list(informer.reflector.mirror.objects.values())

    def _take_pods(self, changes: list[Change]) -> None:
        if passed := self._held.passed(changes):
            self._sink(passed)

    def _release(self) -> None:
        """Release the pods that have what they were waiting for."""
        if len(self._held) and (free := self._held.released()):
            self._sink(free)

    def _unsettled_kinds(self) -> list[str]:
        return [kind for kind, informer in self._informers.informers.items() if not informer.is_settled]

    def _unsettled(self) -> dict[str, str]:
        return {self._plural(kind): why for kind, why in self._informers.unsettled().items()}

    def _plural(self, kind: str) -> str:
        return self.served(kind).plural


class _Gate:
    """The sink of a custom resource whose core is yet to come: nothing passes before it is opened."""

    __slots__ = ("_sink", "is_open")

    def __init__(self, resource: str, sink: Sink) -> None:
        self._sink = _told_as(resource, sink)
        self.is_open = False

    def take(self, changes: list[Change]) -> None:
        """The informer's sink."""
        if self.is_open:
            self._sink(changes)


class _Staged(NamedTuple):
    """A custom resource that is followed for a core that is yet to come."""

    resource: CustomResource
    key: str
    """What its informer goes by meanwhile."""
    gate: _Gate


def _told_as(resource: str, sink: Sink) -> Sink:
    """Return a sink for the changes of a custom resource."""

    def take(changes: list[Change]) -> None:
        sink([Custom(resource, each) if isinstance(each, Added | Modified | Deleted) else each for each in changes])

    return take
