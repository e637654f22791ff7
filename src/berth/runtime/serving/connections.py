"""Connections to what is served: how many, and how long. Nobody can hold them all, or for long.

`BoundedListener` accepts connections for an aiohttp server. Each gets a deadline for whatever it has to do next: the
TLS handshake, a whole request head, the answer, the next request. A connection that is late is cut off. Where there are
too many, the one that has waited longest without a request under way makes room, so that a stranger who opens
connections and says nothing keeps nobody else out.

    accepted ── handshake ──> reading ── head ──> answering ──> idle ── first byte ──> reading
"""

import asyncio
import ipaddress
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from aiohttp import web

from berth.serving.acceptor import Acceptor, listening_at

MAX_OPEN = 256
HANDSHAKE_S = 10.0
HEAD_S = 15.0
"""How long a request's head and body may take to arrive."""
IDLE_S = 90.0
"""How long a connection is kept for the next request, as kube-scheduler's is."""
ANSWER_S = 60.0
"""How long an answer may take, its transmission included, unless a handler asks for more."""
SWEEP_S = 1.0
BACKLOG = 128

_log = logging.getLogger("berth.serving")


class BoundedListener:
    """Listens on one address for an aiohttp server; `tls` gives the context for each new connection, None for none."""

    __slots__ = (
        "_acceptor", "_by_handler", "_loop", "_max_open", "_open", "_sweeper", "_tls", "_web", "refused",
    )  # fmt: skip

    def __init__(
        self, server: web.Server, tls: Callable[[], ssl.SSLContext] | None = None, *, max_open: int = 0
    ) -> None:
        """`max_open` 0 means the usual bound."""
        self._web = server
        self._tls = tls
        self._max_open = max_open or MAX_OPEN
        self._loop = asyncio.get_running_loop()
        self._open: set[_Connection] = set()
        self._by_handler: dict[Any, _Connection] = {}
        self._acceptor = Acceptor(self._take, self._cannot_accept)
        self._sweeper: asyncio.TimerHandle | None = None
        self.refused = 0
        """Connections that found no room."""

    async def start(self, host: str, port: int, *, shares_port: bool = False) -> int:
        """Listen, and return the port; raises OSError."""
        both = ":" in host and ipaddress.ip_address(host).is_unspecified and socket.has_dualstack_ipv6()
        listening = listening_at(host, port, backlog=BACKLOG, shares_port=shares_port, dualstack=both)
        taken = self._acceptor.accept_at(listening)
        self._sweep()
        return taken

    async def stop(self) -> None:
        """Take no more connections, and cut off those that have no request under way."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in tuple(self._open):
            if not connection.is_answering:
                connection.cut_off()
        await self._acceptor.close()

    def _take(self, accepted: socket.socket, _peer: str) -> None:
        connection = _Connection(self)
        if not self._enter(connection):
            accepted.close()
            return
        connection.beginning = self._acceptor.begin(
            accepted, lambda: connection, self._tls, partial(self._failed, connection), handshake_s=HANDSHAKE_S
        )

    def _failed(self, connection: "_Connection", error: OSError | None) -> None:
        self.leave(connection)
        if error is not None:
            _log.debug("a TLS handshake failed: %s", error)

    def _cannot_accept(self, error: OSError) -> None:
        _log.warning("a connection cannot be accepted: %s", error)

    def answering(self, protocol: Any, limit_s: float = ANSWER_S) -> None:
        """Note that a request of this connection is being answered, and for how long at most."""
        if (connection := self._by_handler.get(protocol)) is not None:
            connection.is_answering = True
            connection.deadline_s = self._loop.time() + limit_s

    def answered(self, protocol: Any) -> None:
        """Note that the answer is ready; sending it, and waiting for the next request, may take so long together."""
        if (connection := self._by_handler.get(protocol)) is not None:
            connection.is_answering = False
            connection.is_idle = True
            connection.deadline_s = self._loop.time() + IDLE_S

    def _sweep(self) -> None:
        """Cut off the connections that are late."""
        now_s = self._loop.time()
        for connection in tuple(self._open):
            if now_s >= connection.deadline_s:
                connection.cut_off()
        self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)

    def _enter(self, connection: "_Connection") -> bool:
        """Let a connection in, if need be in place of another one; False where all others are being answered."""
        if len(self._open) >= self._max_open:
            waiting = [other for other in self._open if not other.is_answering]
            if not waiting:
                self.refused += 1
                return False
            min(waiting, key=lambda other: other.since_s).cut_off()
        connection.since_s = self._loop.time()
        connection.deadline_s = connection.since_s + HANDSHAKE_S + SWEEP_S
        self._open.add(connection)
        return True

    # -- what connections call ---------------------------------------------------------------------------------------

    def handler(self) -> Any:
        """A protocol of aiohttp's for one connection."""
        return self._web()

    def leave(self, connection: "_Connection") -> None:
        """Forget a connection."""
        self._open.discard(connection)
        self._by_handler.pop(connection.handler, None)

    def serving(self, connection: "_Connection") -> None:
        """Note which of aiohttp's protocols a connection has."""
        self._by_handler[connection.handler] = connection

    def late_after(self, delay_s: float) -> float:
        """The time by which something has to be done that may take so long."""
        return self._loop.time() + delay_s


class _Connection(asyncio.Protocol):
    """One connection: passes on to aiohttp's protocol what comes, and knows what it has to do by when."""

    __slots__ = (
        "_listener", "_transport", "beginning", "deadline_s", "handler", "is_answering", "is_idle", "since_s",
    )  # fmt: skip

    def __init__(self, listener: BoundedListener) -> None:
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self.handler: Any = None
        self.beginning: asyncio.Task[None] | None = None
        self.is_answering = False
        self.is_idle = False
        self.since_s = 0.0
        self.deadline_s = float("inf")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hand the connection to aiohttp, once it is secured."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not a subclass
        self.deadline_s = self._listener.late_after(HEAD_S)
        self.handler = self._listener.handler()
        self._listener.serving(self)
        self.handler.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass it on; the first byte of a request starts the time in which its head has to come."""
        if self.is_idle:
            self.is_idle = False
            self.deadline_s = self._listener.late_after(HEAD_S)
        self.handler.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass it on."""
        return None if self.handler is None else self.handler.eof_received()

    def pause_writing(self) -> None:
        """Pass it on."""
        if self.handler is not None:
            self.handler.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        if self.handler is not None:
            self.handler.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._listener.leave(self)
        if self.handler is not None:
            self.handler.connection_lost(exc)

    def cut_off(self) -> None:
        """End the connection without another word."""
        self._listener.leave(self)
        if self._transport is not None:
            self._transport.abort()
        elif self.beginning is not None:
            self.beginning.cancel()
