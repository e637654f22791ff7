"""A live cluster, followed by lists and watches as a scheduler follows it, through a transport that refuses to write.

An answer is about what the watches have brought. Where one of them is known not to work, or has been silent for too
long, there is no answer: it would be about a cluster that may be gone. Of each kind that a snapshot has, the objects
stay as the server sent them, and are made documents of when somebody asks and something has changed.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from berth.api.codec import KINDS
from berth.api.custom import CustomResource
from berth.api.meta import ObjectMeta, Struct
from berth.api.resources import RESOURCES, Resource, versions_of
from berth.kube.informers import Informer, InformerSet
from berth.kube.read_only import ReadOnlyTransport
from berth.kube.transport import Transport
from berth.runtime.grouped_report import GroupedReport
from berth.runtime.watched_resources import stale_among
from berth_workbench.comparison.configurations import WhoDecides
from berth_workbench.mcp.refusals import CallRefused
from berth_workbench.mcp.state import StateAsked
from berth_workbench.planning.usage import Usage, UsageError, of_metrics
from berth_workbench.showing.words import counted
from berth_workbench.snapshot.documents import Document, parse_documents
from berth_workbench.snapshot.header import MAY_NOT, Header, Missing
from berth_workbench.snapshot.kept_fields import TAKEN
from berth_workbench.snapshot.snapshot import Snapshot
from berth_workbench.snapshot.writer import INDISPENSABLE

START_S = 30.0
"""How long the first question waits for what the server has."""
SAME_S = 60.0
"""So long a state in which nothing changes is the same one, for which the loaded cluster is kept."""
METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", True)
EVERY_POD = "metadata.name!="
"""Informers leave out pods that have ended, unless a selector is given; a snapshot has them."""

_log = logging.getLogger("berth_workbench.mcp")


class _Named(Struct, frozen=True):
    """An object of a kind that the scheduler does not read."""

    metadata: ObjectMeta


class FollowedCluster:
    """Follows one cluster. Make it inside the event loop."""

    __slots__ = ("_ask_decides", "_asked", "_changed", "_decides", "_documents", "_informers", "_server", "_snapshot",
                 "_task", "_transport", "_turn", "_when")  # fmt: skip

    def __init__(
        self,
        transport: Transport,
        server: str,
        decides: WhoDecides,
        ask_decides: Callable[[], WhoDecides],
        custom: Iterable[CustomResource] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`ask_decides` asks anew whose decisions count, on a thread; `custom` resources are followed as well."""
        self._transport, self._server = ReadOnlyTransport(transport), server
        self._decides, self._ask_decides = decides, ask_decides
        self._informers = InformerSet(self._transport, report=GroupedReport(_log.warning), clock=clock)
        self._changed: set[str] = set()
        """The kinds of which something has changed since documents were made of them."""
        self._documents: dict[str, Sequence[Document]] = {}
        self._snapshot, self._when = Snapshot(()), datetime.min.replace(tzinfo=UTC)
        self._asked = datetime.now(UTC)
        self._turn = asyncio.Lock()
        for kind, resource in TAKEN.items():
            versions = versions_of(kind) if kind in RESOURCES else (resource,)
            self._follow(kind, *versions, read=None if kind in KINDS else _named)
        for each in custom:
            if (each.group, each.plural) not in {(one.group, one.plural) for one in TAKEN.values()}:
                self._follow(each.name, each.resource, read=each.read)
        self._task = asyncio.create_task(self._informers.run(), name="informers")

    def _follow(self, kind: str, *versions: Resource, read: Any) -> None:
        self._informers.add(
            *versions,
            sink=lambda _changes: self._changed.add(kind),
            field_selector=EVERY_POD if kind == "Pod" else "",
            keep_raw=True,
            is_required=kind in INDISPENSABLE,
            read=read,
        )

    async def state(self) -> StateAsked:
        """Return what the watches have brought. Raises `CallRefused`."""
        async with self._turn:
            await self._settled()
            if stale := stale_among(self._informers.reflectors.values()):
                (plural, why), others = next(iter(stale.items())), len(stale) - 1
                more = f"; and {counted(others, 'other kind')}" if others else ""
                raise CallRefused("stale", f"{plural}: {why}{more}")
            now = datetime.now(UTC)
            missing = tuple(self._informers.unsettled())
            if self._changed or (now - self._when).total_seconds() > SAME_S:
                await self._take(now, missing)
            ages = [each.stale_s or 0.0 for each in self._informers.reflectors.values()]
        return StateAsked(
            self._snapshot, self._decides, f"the cluster at {self._server}", is_live=True,
            taken=now - timedelta(seconds=max(ages)), missing=missing, usage=self._usage(asyncio.get_running_loop()),
        )  # fmt: skip

    async def close(self) -> None:
        """Follow it no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._transport.close()

    async def _settled(self) -> None:
        """Wait for the first lists: for those that no answer can do without, or that come in time."""
        if self._task.done():
            raise CallRefused("stale", f"nothing is followed any more: {self._task.exception()}")
        with suppress(TimeoutError):
            async with asyncio.timeout(START_S if self._when.year == 1 else 0):
                await self._informers.wait_until_settled(self._informers.informers)
        lacking = {kind: why for kind, why in self._informers.unsettled().items() if kind in INDISPENSABLE}
        if lacking:
            why = "; ".join(f"{kind}: {problem}" for kind, problem in lacking.items())
            raise CallRefused("unreadable", f"the cluster at {self._server} cannot be read: {why}")

    async def _take(self, now: datetime, missing: Sequence[str]) -> None:
        if (now - self._asked).total_seconds() > SAME_S:
            decides = await asyncio.to_thread(self._ask_decides)
            if decides.configuration != self._decides.configuration or decides.assumed != self._decides.assumed:
                self._decides = decides
            self._asked = now
        changed, self._changed = self._changed, set()
        found = {kind: self._informers.informers[kind] for kind in changed}
        raw = {kind: list(each.reflector.mirror.raw.items()) for kind, each in found.items()}
        try:
            made = await asyncio.to_thread(lambda: {kind: _documents(found[kind], raw[kind]) for kind in changed})
        except BaseException:
            self._changed |= changed
            raise
        self._documents |= made
        reflectors = self._informers.reflectors
        header = Header(
            taken=f"{now:%Y-%m-%dT%H:%M:%SZ}",
            resource_versions={kind: each.resource_version for kind, each in reflectors.items() if each.is_synced},
            missing=tuple(Missing(kind, MAY_NOT) for kind in missing),
        )
        order = sorted(self._documents, key=lambda kind: (kind not in INDISPENSABLE, kind))
        self._snapshot = Snapshot([each for kind in order for each in self._documents[kind]], header)
        self._when = now

    def _usage(self, loop: asyncio.AbstractEventLoop) -> Callable[[], Usage]:
        """Return what asks metrics.k8s.io, from another thread than the loop's."""

        def ask() -> Usage:
            asked = asyncio.run_coroutine_threadsafe(self._transport.list(METRICS), loop)
            usage: Usage = {}
            try:
                of_metrics(msgspec.json.decode(asked.result()).get("items") or (), usage, METRICS.group)
            except (msgspec.MsgspecError, AttributeError):
                raise UsageError("what metrics.k8s.io answers is no list; give what pods use as `usage`") from None
            return usage

        return ask


def _named(raw: bytes | msgspec.Raw) -> _Named:
    return msgspec.json.decode(raw, type=_Named)


def _documents(informer: Informer, raw: list[tuple[tuple[str, str], bytes]]) -> Sequence[Document]:
    """Return the objects of a kind as a list of the server's has them."""
    resource = informer.reflector.resource
    items = [msgspec.Raw(each) for _, each in sorted(raw, key=lambda one: "/".join(one[0]))]
    listed = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "items": items}
    return tuple(parse_documents(msgspec.json.encode(listed), resource.plural))
