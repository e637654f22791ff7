"""The informers that a scheduler needs: each starts, retries and settles by itself; a bug in one ends them all.

The runtime adds an informer for each kind that it reads and runs the set as one task. Each informer waits out trouble
with the server on its own, without holding up the others. An informer is settled once its first list is handed on, or
once discovery has said that the server does not serve the resource; any other refusal is reported and tried again.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from berth.api.conversion import Reader
from berth.api.errors import ApiError, TransportError
from berth.api.resources import Resource
from berth.kube.backoff import Backoff
from berth.kube.changes import Change, Synced
from berth.kube.discovery import ApiDiscovery
from berth.kube.reflector import NotServedError, Reflector, Sink
from berth.kube.transport import Transport
from berth.kube.trouble import InformerTrouble, Report, log_trouble

# Pods that have finished take no room any more: they are neither listed nor counted.
POD_FIELD_SELECTOR = "status.phase!=Succeeded,status.phase!=Failed"
# How often a server is asked again for what it does not serve.
ASK_AGAIN_S = 300.0
NOT_SERVED = "this server does not serve them"

Sleep = Callable[[float], Awaitable[None]]


@dataclass(slots=True, eq=False, repr=False)
class Informer:
    """Follows one kind of object in the first of its versions that the server serves."""

    _versions: tuple[Resource, ...]
    _discovery: ApiDiscovery
    _sink: Sink
    _on_settled: Callable[[], None]
    _report: Report
    _sleep: Sleep
    _backoff: Backoff
    _is_required: bool
    _is_synced: bool = field(default=False, init=False)
    _tried: int = field(default=0, init=False)
    """How many versions were tried in vain because the server does not let us ask which it serves."""
    _nudged: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    reflector: Reflector = field(init=False)
    is_missing: bool = field(default=False, init=False)
    """Whether the server does not serve the resource."""
    problem: str = field(default="", init=False)
    """Why the server could not be asked which versions it serves; empty once it has answered."""

    @property
    def is_settled(self) -> bool:
        """Whether everything that exists has been handed on, as far as the server serves it."""
        return self.is_missing or self._is_synced

    @property
    def trouble(self) -> str:
        """What keeps it from being settled."""
        return self.problem or self.reflector.problem or "no answer yet"

    def take(self, changes: list[Change]) -> None:
        """The reflector's sink."""
        self._sink(changes)
        if changes and isinstance(changes[-1], Synced):
            self.is_missing, self._is_synced = False, True
            self._on_settled()

    async def run(self) -> None:
        """Follow until cancelled; raises only bugs."""
        if len(self._versions) > 1:
            self._follow(await self._ask_until_served(await self._ask()))
        while True:
            try:
                await self.reflector.run()
            except NotServedError as error:
                await self._consider(error.refusal)

    async def _consider(self, refusal: ApiError) -> None:
        """Find out whether a resource answered with 404 is not served, or only hidden by a fault."""
        found = await self._ask()
        # Served after all, so the 404 is a fault on the way, and known objects must not be treated as gone.
        if found == self.reflector.resource:
            delay_s = self._backoff.next_delay_s()
            self.problem = f"{refusal}, although it is among what the server says that it serves"
            told = f"{self.problem}; trying again in {delay_s:.1f} s"
            self._report(InformerTrouble(found.plural, told, refusal.is_of_all_requests))
            await self._sleep(delay_s)
        self._follow(await self._ask_until_served(found))

    def _follow(self, resource: Resource) -> None:
        if resource != self.reflector.resource:
            self.reflector.switch(resource)

    async def _ask_until_served(self, found: Resource | None) -> Resource:
        """Wait until the server serves a version, given its first answer."""
        while found is None:
            self._missing()
            await self._pause(self._backoff.next_delay_s() if self._is_required else ASK_AGAIN_S)
            found = await self._ask()
        return found

    def ask_again(self) -> None:
        """Ask at once whether the server serves the resource by now, if it did not before."""
        if self.is_missing:
            self._nudged.set()

    async def _pause(self, delay_s: float) -> None:
        self._nudged.clear()
        waits = [asyncio.ensure_future(self._sleep(delay_s)), asyncio.ensure_future(self._nudged.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancel_all(waits)

    async def _ask(self) -> Resource | None:
        """Ask for as long as it takes to get an answer; None for a kind that is not served."""
        while True:
            try:
                found = await self._discovery.first_served(self._versions)
            except TransportError as error:
                if isinstance(error, ApiError) and error.is_forbidden:
                    return self._next_to_try()
                delay_s = self._backoff.next_delay_s()
                plural = self._versions[0].plural
                self.problem = f"cannot ask the server in which version it serves {plural}: {error}"
                told = f"{self.problem}; trying again in {delay_s:.1f} s"
                self._report(InformerTrouble(plural, told, error.is_of_all_requests))
                await self._sleep(delay_s)
                continue
            self.problem = ""
            return found

    def _next_to_try(self) -> Resource | None:
        """If we are not allowed to ask, lists have to show which version is served; None once all were refused."""
        self.problem = ""
        if self._tried == len(self._versions):
            self._tried = 0
            return None
        self._tried += 1
        return self._versions[self._tried - 1]

    def _missing(self) -> None:
        plural = self._versions[0].plural
        if not self.is_missing:
            what = "what was known of it stays" if self._is_synced else "taken as empty"
            told = f"{NOT_SERVED}; {what}, asking again every {ASK_AGAIN_S:.0f} s"
            has_never_been = not self._is_required and not self._is_synced
            self._report(InformerTrouble(plural, told, is_shared=True, is_missing=has_never_been))
        self.is_missing = not self._is_required
        self.problem = NOT_SERVED
        self._on_settled()


class InformerSet:
    """Informers by kind, with one report function and one source of jitter."""

    __slots__ = (
        "_altered", "_changed", "_clock", "_discovery", "_failure", "_is_running", "_random", "_report", "_sleep",
        "_tasks", "_tell", "_transport", "informers",
    )  # fmt: skip

    def __init__(
        self,
        transport: Transport,
        *,
        report: Report = log_trouble,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        on_settled: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_settled` is called whenever another informer is settled."""
        self._transport = transport
        self._discovery = ApiDiscovery(transport)
        self._report = report
        self._random = rng or random.Random()
        self._clock = clock
        self._sleep = sleep
        self._tell = on_settled
        self._changed = asyncio.Event()
        self._failure: BaseException | None = None
        self._is_running = False
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """Those of the informers that run, by kind."""
        self._altered = asyncio.Event()
        """Set when an informer has come or gone while the others run."""
        self.informers: dict[str, Informer] = {}
        """The informers by kind."""

    @property
    def reflectors(self) -> Mapping[str, Reflector]:
        """The reflectors by kind, for metrics and debug endpoints."""
        return {kind: informer.reflector for kind, informer in self.informers.items()}

    def add(
        self,
        *versions: Resource,
        sink: Sink,
        field_selector: str = "",
        keep_raw: bool = False,
        is_required: bool = False,
        read: Reader | None = None,
        key: str = "",
    ) -> Informer:
        """Follow a resource in the first of these versions that is served; while `run` is at work, from now on.

        Without a selector, pods are followed until they finish. A required resource never counts as missing. `key` is
        its name instead of the kind, while another informer still uses that.
        """
        kind = key or versions[0].kind
        if kind in self.informers:
            raise ValueError(
                f"{versions[0].plural} are followed already; give the first informer's sink both consumers"
            )
        if kind == "Pod" and not field_selector:
            field_selector = POD_FIELD_SELECTOR
        informer = Informer(
            versions, self._discovery, sink, self._settled, self._report, self._sleep,
            Backoff(self._random, clock=self._clock), is_required,
        )  # fmt: skip
        informer.reflector = Reflector(
            self._transport,
            versions[0],
            informer.take,
            field_selector=field_selector,
            keep_raw=keep_raw,
            read=read,
            report=self._report,
            rng=self._random,
            clock=self._clock,
            sleep=self._sleep,
        )
        self.informers[kind] = informer
        if self._is_running:
            self._start(kind)
        return informer

    def drop(self, kind: str) -> None:
        """Stop following a resource."""
        del self.informers[kind]
        task = self._tasks.pop(kind, None)
        if task is not None:
            task.cancel()
        self._settled()

    def rename(self, key: str, kind: str) -> None:
        """Name an informer by its kind from now on."""
        self.informers[kind] = self.informers.pop(key)
        if key in self._tasks:
            self._tasks[kind] = self._tasks.pop(key)

    def _start(self, kind: str) -> None:
        self._tasks[kind] = asyncio.create_task(self.informers[kind].run(), name=f"informer:{kind}")
        self._altered.set()

    async def run(self) -> None:
        """Run every informer until cancelled, or until one dies of a bug, which is then raised as it is."""
        if not self.informers:
            raise ValueError("there is nothing to follow: add a resource before running the informers")
        self._failure = None
        self._is_running = True
        for kind in self.informers:
            self._start(kind)
        altered: asyncio.Task[bool] | None = None
        try:
            # None of them ends by itself, so the first that does has failed, and the others are of no use without it.
            while True:
                self._altered.clear()
                altered = asyncio.create_task(self._altered.wait(), name="informers come and go")
                done, _ = await asyncio.wait([*self._tasks.values(), altered], return_when=asyncio.FIRST_COMPLETED)
                for finished in done - {altered}:
                    if finished in self._tasks.values():  # else it was dropped, and has ended for that
                        await finished
                await _cancel_all([altered])
        except BaseException as cause:
            stopped = RuntimeError("the informers were stopped before they had synced")
            self._failure = cause if isinstance(cause, Exception) else stopped
            raise
        finally:
            self._changed.set()
            self._is_running = False
            tasks, self._tasks = list(self._tasks.values()), {}
            await _cancel_all([*tasks, *([] if altered is None else [altered])])

    def ask_again(self) -> None:
        """Ask at once for what the server did not serve."""
        for informer in self.informers.values():
            informer.ask_again()

    async def wait_until_settled(self, kinds: Iterable[str]) -> None:
        """Return once the informers of these kinds are settled; raises what ended `run` before that.

        `run` must be a task of its own. `unsettled` says what is missing.
        """
        waited = tuple(kinds)
        while self._failure is None and any(
            not each.is_settled for kind in waited if (each := self.informers.get(kind)) is not None
        ):
            # Nothing else runs between the question above and this, so no change is missed.
            self._changed.clear()
            await self._changed.wait()
        if self._failure is not None:
            raise self._failure

    def _settled(self) -> None:
        self._changed.set()
        self._tell()

    def unsettled(self) -> dict[str, str]:
        """Return the kinds that are not settled, each with what went wrong last."""
        return {kind: informer.trouble for kind, informer in self.informers.items() if not informer.is_settled}


async def _cancel_all(tasks: "Sequence[asyncio.Future[Any]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
