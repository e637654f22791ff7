"""Accepts connections at sockets, and sees each through its TLS handshake; which may stay, the caller decides.

    accepted ── take ──> begin ── handshake ──> the protocol's connection
                                     └────────> failed, with the socket closed

Used by the listeners of the scheduler's ports and of the embedded API server, which differ in whom they drop and when.
"""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Callable
from functools import partial

PAUSE_S = 0.1
"""The pause after the system has refused to accept. Those that wait stay in the kernel's queue."""

Failed = Callable[[OSError | None], None]


def listening_at(
    host: str, port: int, *, backlog: int | None = None, shares_port: bool = False, dualstack: bool = False
) -> socket.socket:
    """Return a socket that listens; raises OSError in the system's own words."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = socket.create_server(
            (host, port), family=family, backlog=backlog, reuse_port=shares_port, dualstack_ipv6=dualstack
        )
    except OSError as error:  # Python adds the address to the words, which the caller names in words of its own
        raise OSError(error.errno, os.strerror(error.errno) if error.errno else str(error)) from None
    found.setblocking(False)
    return found


class Acceptor:
    """Accepts connections in tasks of its own. Make it inside the event loop."""

    __slots__ = ("_accepting", "_handshakes", "_listening", "_loop", "_refused", "_take")

    def __init__(self, take: Callable[[socket.socket, str], None], refused: Callable[[OSError], None]) -> None:
        """`take` is given each connection and its peer's address; `refused` is told where none can be accepted."""
        self._take = take
        self._refused = refused
        self._loop = asyncio.get_running_loop()
        self._listening: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._handshakes: set[asyncio.Task[None]] = set()

    def accept_at(self, listening: socket.socket) -> int:
        """Accept there from now on; returns the port."""
        self._listening.append(listening)
        self._accepting.append(self._loop.create_task(self._accept(listening), name="accepting"))
        return int(listening.getsockname()[1])

    def begin(
        self,
        accepted: socket.socket,
        protocol: Callable[[], asyncio.BaseProtocol],
        tls: Callable[[], ssl.SSLContext] | None,
        failed: Failed,
        *,
        handshake_s: float,
        shutdown_s: float | None = None,
    ) -> asyncio.Task[None]:
        """Connect a socket to its protocol, after the TLS handshake if `tls` gives a context; cancelling drops it.

        `failed` is told why there is no connection, None where it was dropped; the socket is closed then.
        """
        task = self._loop.create_task(
            self._connect(accepted, protocol, tls, handshake_s, shutdown_s), name="tls-handshake"
        )
        self._handshakes.add(task)
        # A task that is cancelled before its first step runs none of its code, so only a callback sees every end.
        task.add_done_callback(partial(self._ended, accepted, failed))
        return task

    async def close(self) -> None:
        """Accept no more, and drop the connections that are not secured yet; the others stay."""
        tasks = [*self._accepting, *self._handshakes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._accepting = []
        for listening in self._listening:
            listening.close()

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                accepted, address = await self._loop.sock_accept(listening)
            except OSError as error:  # no more file descriptors, or a connection that is gone already
                self._refused(error)
                await asyncio.sleep(PAUSE_S)
                continue
            self._take(accepted, str(address[0]))
            await asyncio.sleep(0)  # a flood of connections must not keep the loop

    async def _connect(
        self,
        accepted: socket.socket,
        protocol: Callable[[], asyncio.BaseProtocol],
        tls: Callable[[], ssl.SSLContext] | None,
        handshake_s: float,
        shutdown_s: float | None,
    ) -> None:
        await self._loop.connect_accepted_socket(
            protocol,
            accepted,
            ssl=None if tls is None else tls(),
            ssl_handshake_timeout=None if tls is None else handshake_s,
            ssl_shutdown_timeout=None if tls is None else shutdown_s,
        )

    def _ended(self, accepted: socket.socket, failed: Failed, task: asyncio.Task[None]) -> None:
        self._handshakes.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is None and not task.cancelled():
            return
        with contextlib.suppress(OSError):
            accepted.close()
        failed(error if isinstance(error, OSError) else None)
        if error is not None and not isinstance(error, OSError):
            raise error  # a bug, which the loop tells
