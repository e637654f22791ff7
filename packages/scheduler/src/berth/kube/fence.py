"""The fence around writes: only the holder of the lease, by the clock at that moment, writes to the cluster.

A `LeaderElector` has a `Fence` and says until when it is open. `fenced` wraps a transport: each of its writes waits
for the fence to be open, is checked once more where its body goes to the socket, and is cut off when the fence shuts
under it. Reads pass freely, and the elector's own requests go round the fence.

Why two never write at once: the fence is open until the renew deadline, counted from before the renewal was sent.
Others take the lease over once they have seen it unchanged for the lease duration, which began after that and is
longer. The time in between is the allowance for a write on its way: it is cut off at the earlier time, and the API
server was told to give it up by then, in case we are not there to cut it off.

    renewal sent ────────────────── renew deadline ──────── lease duration
         │ writes pass                   │ cut off, refused      │ others may write

A process that was stopped for a while, or a machine that slept, finds the fence shut when it continues, since the time
is read for each write. A write then waits until the lease is renewed, or fails when it is lost.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from berth.api.errors import ConnectionLost, TransportError
from berth.api.resources import Resource
from berth.kube.transport import Transport, Wanted, always

Answer = TypeVar("Answer")


def lease_clock() -> float:
    """Return seconds that go on while the machine sleeps, where the system has such a clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class WriteRefused(TransportError):  # noqa: N818 - it says what happened; the base says it is an error
    """The lease is not held, so the request was not sent."""


class Fence:
    """Whether writes may pass; opened and shut by the elector of one lease."""

    __slots__ = ("_changed", "_clock", "_emptied", "_under_way", "_why_shut", "cut", "held_until_s", "name", "refused")

    def __init__(self, name: str, clock: Callable[[], float] = lease_clock) -> None:
        """`name` is the lease's, for messages."""
        self.name = name
        self._clock = clock
        self.held_until_s = float("-inf")
        """Until when the lease is held, on the clock that was given."""
        self._why_shut = "it is not held yet"
        self._changed: asyncio.Future[None] | None = None
        self._emptied: asyncio.Future[None] | None = None
        self._under_way: set[asyncio.Timeout] = set()
        self.refused = 0
        """Writes that were not sent so far."""
        self.cut = 0
        """Writes that were cut off so far."""

    @property
    def is_open(self) -> bool:
        """Whether the lease is held now."""
        return self._clock() < self.held_until_s

    @property
    def under_way(self) -> int:
        """How many writes have begun and not ended."""
        return len(self._under_way)

    def check(self) -> None:
        """Raise `WriteRefused` unless the lease is held now; to be called as close to the socket as possible."""
        if not self.is_open:
            self.refused += 1
            raise WriteRefused(f"not sent: the lease {self.name} is not held{_because(self._why_shut)}")

    def left_s(self) -> float:
        """Return for how many seconds the lease is held, unless it is renewed; 0 if it is not."""
        return max(0.0, self.held_until_s - self._clock())

    def extend(self, until_s: float) -> None:
        """Let writes pass until then: the lease was taken or renewed."""
        self.held_until_s = until_s
        self._why_shut = ""
        self._wake()

    def shut(self, why: str) -> None:
        """Cut off what is under way, and refuse everything until the lease is taken again: it was given up or lost."""
        # Before anything is cut off or woken, so that what goes on finds the fence shut.
        self.held_until_s = float("-inf")
        self._why_shut = why
        self._cut_off()
        self._wake()

    async def close(self, why: str) -> None:
        """Refuse what has not been sent, and return once what was sent has ended: the lease is about to be given up."""
        self.held_until_s = float("-inf")
        self._why_shut = why
        self._wake()
        while self._under_way:
            if self._emptied is None:
                self._emptied = asyncio.get_running_loop().create_future()
            # Several may wait for the same future; one that is cancelled must not take it from the others.
            await asyncio.shield(self._emptied)

    async def cut_off_when_due(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Cut off what is under way whenever the lease was not renewed in time; runs until cancelled."""
        while True:
            left_s = self.held_until_s - self._clock()
            if left_s > 0:
                await sleep(left_s)
            else:
                self._cut_off()
                await self._change()

    async def carry_out(self, request: Callable[[], Awaitable[Answer]]) -> Answer:
        """Make a request while the lease is held; while it is due to be renewed, wait for that.

        Raises `WriteRefused` if the lease is lost before the request was sent, `ConnectionLost` if it was cut off, so
        that its effect is unknown, and whatever the request raises.
        """
        # It ends: `_opened` raises once the lease is given up or lost.
        while True:
            await self._opened()
            try:
                return await self._cuttable(request)
            except WriteRefused:
                # The lease ran out while the request waited for its turn or for a connection. It was not sent.
                continue

    async def _opened(self) -> None:
        """Return when the fence is open; raises `WriteRefused` once the lease is given up or lost."""
        while not self.is_open:
            if self._why_shut:
                self.check()
            await self._change()

    async def _cuttable(self, request: Callable[[], Awaitable[Answer]]) -> Answer:
        scope = asyncio.timeout(None)
        try:
            async with scope:
                # Only once it is entered, since before that a timeout cannot be rescheduled.
                self._under_way.add(scope)
                try:
                    return await request()
                finally:
                    self._under_way.discard(scope)
                    if not self._under_way and self._emptied is not None:
                        self._emptied.set_result(None)
                        self._emptied = None
        except TimeoutError:
            # The request has a time limit of its own, and that was it.
            if not scope.expired():
                raise
            self.cut += 1
            raise ConnectionLost(f"cut off: the lease {self.name} is not held{_because(self._why_shut)}") from None

    def _cut_off(self) -> None:
        now_s = asyncio.get_running_loop().time() if self._under_way else 0.0
        for scope in self._under_way:
            # It ends when the loop comes to it, not here, so the set stays as it is meanwhile.
            scope.reschedule(now_s)

    def _change(self) -> Awaitable[None]:
        """Return a future that is done when the lease is next renewed, given up or lost."""
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        return asyncio.shield(self._changed)

    def _wake(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None and not changed.done():
            changed.set_result(None)


def _because(why: str) -> str:
    return f": {why}" if why else " any more, and was not renewed in time"


def fenced(transport: Transport, fence_of: Callable[[str], Fence]) -> "FencedTransport":
    """Return a transport to the same cluster whose writes pass the fence of their namespace."""
    return FencedTransport(transport, fence_of)


class FencedTransport:
    """A transport whose writes pass a fence; `fence_of` says which, by the object's namespace."""

    __slots__ = ("_fence_of", "_senders", "_transport")

    def __init__(self, transport: Transport, fence_of: Callable[[str], Fence]) -> None:
        self._transport = transport
        self._fence_of = fence_of
        self._senders: dict[Fence, Transport] = {}

    def acting_for(self, namespace: str) -> "FencedTransport":
        """Return the same transport for writes on behalf of a namespace, whatever objects they are about."""
        fence = self._fence_of(namespace)
        return FencedTransport(self._transport, lambda _: fence)

    def _sender(self, fence: Fence) -> Transport:
        """Return the transport that checks each send of a write, as far as it can."""
        sender = self._senders.get(fence)
        if sender is None:
            # By the class, not the instance: stand-ins in tests take any name for a verb.
            guarded: Callable[[Transport, Fence], Transport] | None = getattr(type(self._transport), "guarded", None)
            sender = self._transport if guarded is None else guarded(self._transport, fence)
            self._senders[fence] = sender
        return sender

    async def list(self, resource: Resource, **options: Any) -> bytes:
        """One page of a list."""
        return await self._transport.list(resource, **options)

    def watch(self, resource: Resource, **options: Any) -> AsyncIterator[bytes]:
        """The lines of a watch."""
        return self._transport.watch(resource, **options)

    async def read(self, path: str) -> bytes:
        """As the transport does."""
        return await self._transport.read(path)

    async def get(self, resource: Resource, namespace: str, name: str) -> bytes:
        """One object."""
        return await self._transport.get(resource, namespace, name)

    async def create(
        self, resource: Resource, namespace: str, body: bytes, *, name: str = "", subresource: str = ""
    ) -> bytes:
        """POST, while the lease is held."""
        fence = self._fence_of(namespace)
        send = self._sender(fence).create
        return await fence.carry_out(lambda: send(resource, namespace, body, name=name, subresource=subresource))

    async def update(
        self, resource: Resource, namespace: str, name: str, body: bytes, *, subresource: str = ""
    ) -> bytes:
        """PUT, while the lease is held."""
        fence = self._fence_of(namespace)
        send = self._sender(fence).update
        return await fence.carry_out(lambda: send(resource, namespace, name, body, subresource=subresource))

    async def patch(
        self, resource: Resource, namespace: str, name: str, body: bytes, content_type: str, *, subresource: str = ""
    ) -> bytes:
        """PATCH, while the lease is held."""
        fence = self._fence_of(namespace)
        send = self._sender(fence).patch
        return await fence.carry_out(
            lambda: send(resource, namespace, name, body, content_type, subresource=subresource)
        )

    async def delete(self, resource: Resource, namespace: str, name: str, body: bytes = b"") -> bytes:
        """DELETE, while the lease is held."""
        fence = self._fence_of(namespace)
        send = self._sender(fence).delete
        return await fence.carry_out(lambda: send(resource, namespace, name, body))

    async def bind(self, namespace: str, name: str, body: bytes, *, wanted: Wanted = always) -> bytes:
        """POST a Binding, while the lease is held."""
        fence = self._fence_of(namespace)
        send = self._sender(fence).bind
        return await fence.carry_out(lambda: send(namespace, name, body, wanted=wanted))

    async def close(self) -> None:
        """Close the transport under it."""
        await self._transport.close()
