"""A port's listener: accepts connections, bounds how many there are and how long they may dawdle, and closes them.

The scheduler's ports and the embedded API server's have one.

Every connection is on trial until one of its requests has been let in by a credential. Those on trial are few: when one
more comes than there may be, the one of the busiest peer that has waited longest is dropped. So a peer that opens
connections and sends nothing only pushes out connections of its own kind, and a client with a credential, which is on
trial for milliseconds, always gets in. The rest of the places is for those let in.

What may not take longer than it should: the TLS handshake, the head of a request from its first byte to its last (and
of the first request from the moment of connecting), its body (where the server reads it), idling between requests, and
reading an answer. None of it is worth a line in the log by itself; what went wrong is counted, and told now and then.
"""

import asyncio
import logging
import resource
import socket
import ssl
from collections.abc import Callable
from functools import partial

import msgspec
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from berth.serving.acceptor import Acceptor, listening_at
from berth.serving.peer_errors import PeerErrorLog, ServerLog

BACKLOG = 1024
_SPARE_DESCRIPTORS = 128  # left to everything else in the process
_LINGER_S = 1.0  # for the rest of a body that nobody wants, so that the client gets to read the answer
NOT_HTTP = "the request is not HTTP as this server understands it"

_log = logging.getLogger("berth.serving")


class ConnectionLimits(msgspec.Struct, frozen=True):
    """How many connections there may be, and how long each step may take (upstream's values where it has them)."""

    total: int = 4096
    on_trial: int = 256  # of the total: those of which no request has been let in yet
    on_trial_per_peer: int = 128
    handshake_s: float = 10.0
    head_s: float = 10.0
    body_s: float = 30.0
    idle_s: float = 90.0
    stalled_s: float = 30.0  # that a client may leave an answer, or the next part of one, unread
    head_bytes: int = 64 * 1024


class ServerConnection:
    """One connection, from the moment it is accepted."""

    __slots__ = ("_close", "is_let_in", "peer")

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.is_let_in = False  # a request has shown a credential
        self._close: Callable[[], object] | None = None

    def closes_by(self, close: Callable[[], object]) -> None:
        """Say how the connection is dropped in the state that it is in now."""
        self._close = close

    def drop(self) -> None:
        """Close it at once."""
        if self._close is not None:
            self._close()


class ConnectionSlots:
    """Who has a place, and who loses it when there are not enough."""

    __slots__ = ("_let_in", "_limits", "_on_trial", "_peer_errors")

    def __init__(self, limits: ConnectionLimits, peer_errors: PeerErrorLog) -> None:
        self._limits = limits
        self._peer_errors = peer_errors
        self._on_trial: dict[str, dict[ServerConnection, None]] = {}  # peer -> connections, the oldest first
        self._let_in: set[ServerConnection] = set()

    @property
    def on_trial(self) -> int:
        """How many have not been let in yet."""
        return sum(map(len, self._on_trial.values()))

    @property
    def let_in(self) -> int:
        """How many have been."""
        return len(self._let_in)

    def enter(self, connection: ServerConnection) -> None:
        """Give a new connection a place on trial, if need be somebody else's."""
        own = self._on_trial.setdefault(connection.peer, {})
        own[connection] = None
        if len(own) > self._limits.on_trial_per_peer:
            self._drop_oldest(connection.peer, "dropped to make room for others of the same peer")
        elif self.on_trial > self._limits.on_trial:
            busiest = max(self._on_trial, key=lambda peer: len(self._on_trial[peer]))
            self._drop_oldest(busiest, "dropped to make room for others")

    def let_in_now(self, connection: ServerConnection) -> bool:
        """A request of the connection has been let in; False when there are too many of these already."""
        if connection.is_let_in:
            return True
        if self.let_in >= self._limits.total - self._limits.on_trial:
            return False
        self.leave(connection)
        connection.is_let_in = True
        self._let_in.add(connection)
        return True

    def leave(self, connection: ServerConnection) -> None:
        """The connection is closed, or no longer on trial; safe to call twice."""
        self._let_in.discard(connection)
        own = self._on_trial.get(connection.peer)
        if own is not None:
            own.pop(connection, None)
            if not own:
                del self._on_trial[connection.peer]

    def _drop_oldest(self, peer: str, why: str) -> None:
        oldest = next(iter(self._on_trial[peer]))
        self.leave(oldest)
        self._peer_errors.note(why, peer)
        oldest.drop()


class GuardedProtocol(RequestHandler):
    """aiohttp's side of one connection, with limits on the heads of requests and on the reading of answers."""

    __slots__ = (
        "_head_bytes",
        "_head_timer",
        "_limits",
        "_not_http",
        "_peer_errors",
        "_slots",
        "_stall_timer",
        "_unanswered",
        "connection",
    )

    def __init__(
        self,
        server: web.Server,
        connection: ServerConnection,
        limits: ConnectionLimits,
        slots: ConnectionSlots,
        peer_errors: PeerErrorLog,
        not_http: Callable[[], web.Response],
    ) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=limits.idle_s,
            access_log=None,  # type: ignore[arg-type]  # aiohttp takes None for "no access log", which it does not declare
            max_line_size=limits.head_bytes,
            max_field_size=limits.head_bytes,
            logger=ServerLog(_log, peer_errors),  # type: ignore[arg-type]  # nor adapters of loggers
            lingering_time=_LINGER_S,
            auto_decompress=False,  # upstream reads no compressed bodies either
        )
        self.connection = connection
        self._limits = limits
        self._slots = slots
        self._peer_errors = peer_errors
        self._not_http = not_http
        self._head_bytes = 0
        self._unanswered = 0  # requests whose head is complete and whose handler has not returned
        self._head_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None

    @property
    def limits(self) -> ConnectionLimits:
        """What holds for the connection."""
        return self._limits

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is done; the first head is due."""
        super().connection_made(transport)
        self.connection.closes_by(self._abort)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Feed aiohttp's parser, and see whether it has got a whole head yet."""
        before = self._request_count
        super().data_received(data)
        complete = self._request_count - before
        if complete:
            self._unanswered += complete
            self._head_bytes = 0
            self._head_timer = _without(self._head_timer)
        elif not self._unanswered and data:
            self._head_bytes += len(data)
            if self._head_bytes > self._limits.head_bytes:
                self._give_up("dropped with heads that are too long")
            elif self._head_timer is None:
                self._expect_head()

    def let_in_now(self) -> bool:
        """A request has shown a credential; False when too many connections have that already."""
        return self._slots.let_in_now(self.connection)

    def answered(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """The handler of a request has returned. What is left of its body is none of the next head: it is dropped."""
        if request.content.is_eof():
            self._unanswered -= 1
        else:
            response.force_close()

    def pause_writing(self) -> None:
        """The client does not read as fast as it is written to."""
        super().pause_writing()
        loop, stalled_s = asyncio.get_running_loop(), self._limits.stalled_s
        self._stall_timer = loop.call_later(stalled_s, self._give_up, "dropped that did not read their answer")

    def resume_writing(self) -> None:
        """The client has read what was waiting for it."""
        super().resume_writing()
        self._stall_timer = _without(self._stall_timer)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Free the place."""
        self._head_timer = _without(self._head_timer)
        self._stall_timer = _without(self._stall_timer)
        self._slots.leave(self.connection)
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What is not HTTP is the peer's fault, and no reason for a traceback."""
        self._peer_errors.note("sent what is not HTTP", self.connection.peer, type(exc).__name__)
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun already")
        response = self._not_http()
        response.force_close()
        return response

    def _expect_head(self) -> None:
        loop = asyncio.get_running_loop()
        self._head_timer = loop.call_later(self._limits.head_s, self._give_up, "dropped that did not finish a head")

    def _give_up(self, why: str) -> None:
        self._peer_errors.note(why, self.connection.peer)
        self._abort()

    def _abort(self) -> None:
        transport = self.transport
        self.force_close()
        if transport is not None:
            transport.abort()


def _without(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """What to keep of a timer that has to go."""
    if timer is not None:
        timer.cancel()
    return None


def limits_of(request: web.BaseRequest) -> ConnectionLimits:
    """What holds for the connection of a request."""
    protocol = request.protocol
    return protocol.limits if isinstance(protocol, GuardedProtocol) else ConnectionLimits()


def _not_http() -> web.Response:
    return web.Response(status=400, text=f"{NOT_HTTP}\n")


class BoundedListener:
    """Listens, and hands each connection that has shaken hands to a `GuardedProtocol`."""

    __slots__ = ("_acceptor", "_limits", "_not_http", "_peer_errors", "_server", "_tls", "port", "slots")

    def __init__(
        self,
        server: web.Server,
        tls: Callable[[], ssl.SSLContext] | None,
        limits: ConnectionLimits,
        not_http: Callable[[], web.Response] = _not_http,
    ) -> None:
        """`server` is aiohttp's, which knows the handler of requests; `tls` gives each handshake its context.

        `not_http` makes the answer to what is not HTTP.
        """
        self._server = server
        self._tls = tls
        self._not_http = not_http
        self._limits = within_descriptors(limits, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self._peer_errors = PeerErrorLog(asyncio.get_running_loop().time)
        self._acceptor = Acceptor(self._take, self._cannot_accept)
        self.slots = ConnectionSlots(self._limits, self._peer_errors)
        self.port = 0
        """The port that is listened at."""

    async def open(self, host: str, port: int, *, shares_port: bool = False) -> None:
        """Listen at every address of the host; OSError where that cannot be done."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        is_any = addresses == ["::"] and socket.has_dualstack_ipv6()
        listening: list[socket.socket] = []
        try:
            for address in addresses:
                listening.append(
                    listening_at(address, port, backlog=BACKLOG, shares_port=shares_port, dualstack=is_any)
                )
                port = port or int(listening[0].getsockname()[1])
        except OSError:
            for each in listening:
                each.close()
            raise
        self.port = port
        for each in listening:
            self._acceptor.accept_at(each)

    async def close(self) -> None:
        """Stop listening; connections that are open stay, those that are not yet are dropped."""
        await self._acceptor.close()
        self._peer_errors.tell()

    def _take(self, accepted: socket.socket, peer: str) -> None:
        connection = ServerConnection(peer)
        task = self._acceptor.begin(
            accepted,
            lambda: GuardedProtocol(
                self._server, connection, self._limits, self.slots, self._peer_errors, self._not_http
            ),
            self._tls,
            partial(self._failed, connection),
            handshake_s=self._limits.handshake_s,
            shutdown_s=_LINGER_S,
        )
        connection.closes_by(task.cancel)
        self.slots.enter(connection)

    def _failed(self, connection: ServerConnection, error: OSError | None) -> None:
        self.slots.leave(connection)
        if error is not None:
            self._peer_errors.note("did not finish the TLS handshake", connection.peer, _reason(error))

    def _cannot_accept(self, error: OSError) -> None:
        self._peer_errors.note("could not be accepted", "the system", str(error))


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "TLS error"
    return error.strerror or str(error)


def within_descriptors(limits: ConnectionLimits, descriptors: int) -> ConnectionLimits:
    """The limits, lowered to what the process may open; no accept fails then for want of a descriptor."""
    most = max(8, descriptors - _SPARE_DESCRIPTORS)
    if limits.total <= most:
        return limits
    on_trial = min(limits.on_trial, most // 2)
    per_peer = min(limits.on_trial_per_peer, on_trial)
    return msgspec.structs.replace(limits, total=most, on_trial=on_trial, on_trial_per_peer=per_peer)
