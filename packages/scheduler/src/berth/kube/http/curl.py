"""Short requests by libcurl, which takes about half the CPU that aiohttp takes for them.

`HttpTransport` uses this for requests with a short answer, if `can_do` says that libcurl can do all that aiohttp does
for this cluster. Requests that fail before they are sent are retried, and explained, by aiohttp: it knows proxies,
names in certificates and the system's certificates, and says what is wrong with them.

libcurl says which sockets it waits for, in what state and until when. They are in an epoll of our own, which is all
that the event loop watches: a kept connection stays there between two requests, and one that libcurl closes is taken
out by the kernel, so no number of a closed socket is left in the event loop for the next socket that gets it.

Requests go out by HTTP/1.1, one at a time on a connection. There is nothing, then, that holds a body up between its
guard and the socket: with HTTP/2 it would wait for the window that the server opens for all streams together, and a
process that was stopped meanwhile would send it after its lease has ended.
"""

import asyncio
import contextlib
import errno
import os
import select
import socket
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import aiohttp

from berth.kube.credentials.sources import ClusterAccess
from berth.kube.credentials.tls import TlsSettings
from berth.kube.http.guarded_body import Guard

try:
    import pycurl
except ImportError:  # there is no wheel for this platform
    pycurl = None

# libcurl's codes for names and connections, and for TLS.
_TLS_SETTINGS = frozenset({58, 59, 60, 77, 83, 90, 91, 98})
_NO_CONNECTION = frozenset({6, 7, 35}) | _TLS_SETTINGS
# When libcurl takes a body and when it repeats a request is proven by the tests, with no release before this one.
OLDEST_LIBCURL = (8, 23, 0)
NEEDED = ("CAINFO_BLOB", "SSLCERT_BLOB", "SSLKEY_BLOB", "MAXAGE_CONN", "PATH_AS_IS", "SSLOPT_NO_PARTIALCHAIN")
KEEP_IDLE_S = 90
SWITCH = "BERTH_LIBCURL"
DNS_CACHE_S = 10
# RFC 9110. aiohttp repeats these once where a connection breaks, and no others; libcurl would repeat all.
IDEMPOTENT = frozenset({"GET", "PUT", "DELETE"})
EVENTS_AT_ONCE = 64
# libcurl looks whether a kept connection is still there before it uses it, but not twice in a second.
UNCHECKED_S = 1.1


class CurlRequest(NamedTuple):
    """What is to be sent; `headers` may be a list that other requests have as well."""

    method: str
    url: str
    headers: Sequence[bytes]
    body: bytes
    guard: Guard | None
    tls: TlsSettings | None


class CurlAnswer(NamedTuple):
    """A complete answer, or why there is none; the status is 0 if it did not even begin."""

    status: int
    header_lines: Sequence[bytes]
    body: bytes
    after_begin_s: float
    """How long it took from its first byte to the last."""
    error: Exception | None = None
    """As aiohttp raises it."""

    def header(self, name: str) -> str:
        """Return the value of a header of a refusal, empty if there is none; the name in lower case."""
        for line in self.header_lines:
            key, _, value = line.decode("latin-1").partition(":")
            if key.strip().lower() == name:
                return value.strip()
        return ""


class NotBegunError(Exception):
    """There was no connection to send the request on; made of libcurl's code and message."""

    @property
    def is_about_tls(self) -> bool:
        """Whether certificates or ciphers were at fault, as they will be the next time."""
        return self.args[0] in _TLS_SETTINGS


def is_available() -> bool:
    """Whether there is a libcurl here that can do what is needed, and the epoll that it is driven by.

    `BERTH_LIBCURL=off` in the environment leaves everything to aiohttp: if the two ever differ, this shows it and works
    around it.
    """
    if os.environ.get(SWITCH) == "off" or pycurl is None or not hasattr(select, "epoll"):
        return False
    version = pycurl.version_info()
    found = tuple(int(part) for part in version[1].split("-")[0].split("."))
    has_openssl = str(version[5]).startswith("OpenSSL/")
    return has_openssl and found >= OLDEST_LIBCURL and all(hasattr(pycurl, name) for name in NEEDED)


def can_do(access: ClusterAccess) -> bool:
    """Whether libcurl can do for this cluster what aiohttp does."""
    if access.proxy or access.server_name or not access.server.isascii():
        return False
    # Without a CA it is the system's that count, and libcurl's OpenSSL looks for them elsewhere.
    return access.server.startswith("http:") or access.tls.insecure_skip_verify or bool(access.tls.ca_pem)


class HeaderLists:
    """The headers as libcurl takes them: the same list for the same headers, so that it need not be set again."""

    __slots__ = ("_common", "_made", "_token")

    def __init__(self, common: Iterable[tuple[str, str]]) -> None:
        self._common = tuple(common)
        self._token = ""
        self._made: dict[str, Sequence[bytes] | None] = {}

    def of(self, token: str, content_type: str) -> Sequence[bytes] | None:
        """Return what all requests have, and these two where they are not empty; None for what libcurl would change."""
        if token != self._token:
            self._token = token
            self._made.clear()
        if content_type not in self._made:
            own = (("Authorization", f"Bearer {token}" if token else ""), ("Content-Type", content_type))
            self._made[content_type] = _lines([*self._common, *(header for header in own if header[1])])
        return self._made[content_type]


def _lines(headers: Sequence[tuple[str, str]]) -> Sequence[bytes] | None:
    # It leaves headers without a value out, and takes line breaks for the end of one.
    if any(not value.strip() or any(mark in name + value for mark in "\r\n\0") for name, value in headers):
        return None
    # A body is not held back until the server asks for it.
    return [*(f"{name}: {value}".encode() for name, value in headers), b"Expect:"]


class CurlRequests:
    """Connections of libcurl, on the running event loop."""

    __slots__ = (
        "_active", "_due_s", "_epoll", "_fresh_until_s", "_idle", "_is_closed", "_is_kicked", "_limit", "_loop",
        "_made", "_multi", "_set_options", "_timer", "_waiting", "_wanted", "_watched",
    )  # fmt: skip

    def __init__(self, limit: int, set_options: Callable[[socket.socket], None]) -> None:
        """`limit` is how many requests there may be at once, 0 for any number; the options are for their sockets."""
        self._loop = asyncio.get_running_loop()
        self._limit = limit
        self._made = 0
        self._idle: list[_Transfer] = []
        self._waiting: deque[asyncio.Future[_Transfer]] = deque()
        self._active: dict[Any, _Transfer] = {}
        self._wanted: dict[int, int] = {}
        """The sockets that libcurl waits for, and the events."""
        self._watched: dict[int, int] = {}
        """What the epoll has, as far as that is certain: more stays in it when a request is done."""
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = self._fresh_until_s = 0.0
        self._is_kicked = self._is_closed = False
        self._set_options = set_options
        self._epoll = select.epoll()
        self._loop.add_reader(self._epoll.fileno(), self._on_ready)
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_NOTHING)
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        if limit:
            self._multi.setopt(pycurl.M_MAXCONNECTS, limit)

    async def ask(self, request: CurlRequest, timeout_s: float) -> CurlAnswer:
        """Send a request and return its answer; raises `NotBegunError`, or what the guard raised, if nothing was sent.

        Raises `TimeoutError` where no connection was free for so long. Cancelling it breaks the connection off.
        """
        if self._is_closed:
            raise RuntimeError("the connections are closed")
        if self._idle:
            transfer = self._idle.pop()
        else:
            due_s = self._loop.time() + timeout_s
            transfer = await self._free(due_s)
            timeout_s = due_s - self._loop.time()
        try:
            return await self._carry_out(transfer, request, timeout_s)
        finally:
            self._release(transfer)

    def close(self) -> None:
        """Break off every request, and close all connections."""
        if self._is_closed:
            return
        self._is_closed = True
        for transfer in list(self._active.values()):
            self._drop(transfer)
            transfer.end(pycurl.E_GOT_NOTHING, "")
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(aiohttp.ClientConnectionError("the connections are closed"))
        for transfer in self._idle:
            transfer.curl.close()
        self._idle.clear()
        self._multi.close()
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    # -- one request -----------------------------------------------------------------------------------------

    async def _carry_out(self, transfer: "_Transfer", request: CurlRequest, timeout_s: float) -> CurlAnswer:
        done: asyncio.Future[tuple[int, str]] = self._loop.create_future()
        try:
            is_fresh = self._fresh_until_s > 0 and self._loop.time() < self._fresh_until_s
            transfer.prepare(request, timeout_s, done, is_fresh=is_fresh)
            self._multi.add_handle(transfer.curl)
        except (pycurl.error, UnicodeError) as error:
            raise NotBegunError(0, str(error)) from error
        self._active[transfer.curl] = transfer
        # Once for all requests that are made in this turn of the loop.
        if not self._is_kicked:
            self._is_kicked = True
            self._loop.call_soon(self._kick)
        try:
            code, message = await done
            return transfer.answer(code, message)
        finally:
            self._drop(transfer)

    def _drop(self, transfer: "_Transfer") -> None:
        """Take a transfer from libcurl, which closes the connection unless it is done with it."""
        if self._active.pop(transfer.curl, None) is not None:
            self._multi.remove_handle(transfer.curl)

    async def _free(self, due_s: float) -> "_Transfer":
        if not self._limit or self._made < self._limit:
            self._made += 1
            return _Transfer(self._on_open)
        waiter: asyncio.Future[_Transfer] = self._loop.create_future()
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout_at(due_s):
                return await waiter
        except BaseException:
            # It may have been given one in the very moment in which it stopped waiting.
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._release(waiter.result())
            raise

    def _release(self, transfer: "_Transfer") -> None:
        transfer.clear()
        if self._is_closed:
            transfer.curl.close()
            return
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(transfer)
                return
        self._idle.append(transfer)

    # -- libcurl and the event loop --------------------------------------------------------------------------

    def _kick(self) -> None:
        self._is_kicked = False
        if not self._is_closed:
            self._act(pycurl.SOCKET_TIMEOUT, 0)

    def _act(self, fd: int, events: int) -> None:
        """Let libcurl go on with a socket, or with what is due."""
        _, running = self._multi.socket_action(fd, events)
        if running < len(self._active):
            self._end_done()
        after_ms = self._multi.timeout()
        if after_ms == 0:
            if not self._is_kicked:
                self._is_kicked = True
                self._loop.call_soon(self._kick)
        elif after_ms > 0:
            self._wake_at(self._loop.time() + after_ms / 1000)

    def _end_done(self) -> None:
        left = 1
        while left:
            left, succeeded, failed = self._multi.info_read()
            for curl in succeeded:
                self._active[curl].end(pycurl.E_OK, "")
            for curl, code, message in failed:
                self._active[curl].end(code, message)

    def _wake_at(self, due_s: float) -> None:
        """Let libcurl go on by then. A timer that comes earlier stays: each request has a time limit, but is early."""
        self._due_s = due_s
        if self._timer is None or self._timer.when() > due_s:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(due_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._due_s > self._loop.time():
            self._wake_at(self._due_s)
        else:
            self._act(pycurl.SOCKET_TIMEOUT, 0)

    def _on_socket(self, what: int, fd: int, _multi: object, _data: object) -> None:
        """libcurl says what it waits for; called inside `socket_action`, `remove_handle` and `close`."""
        if what == pycurl.POLL_REMOVE:
            self._wanted.pop(fd, None)
            return
        events = (select.EPOLLIN if what & pycurl.POLL_IN else 0) | (select.EPOLLOUT if what & pycurl.POLL_OUT else 0)
        self._wanted[fd] = events
        if self._watched.get(fd) != events:
            try:
                self._epoll.modify(fd, events)
            except OSError:
                self._epoll.register(fd, events)
            self._watched[fd] = events

    def _on_open(self, fd: int, _purpose: int) -> int:
        # Its number may be that of one that was closed and is gone from the epoll.
        self._watched.clear()
        made = socket.socket(fileno=fd)
        try:
            self._set_options(made)
        finally:
            made.detach()
        return int(pycurl.SOCKOPT_OK)

    def _on_ready(self) -> None:
        for fd, events in self._epoll.poll(0, EVENTS_AT_ONCE):
            if fd not in self._wanted:
                # The server has closed a kept connection, or said something that nobody asked for. libcurl does not
                # listen to that, and might use it.
                self._fresh_until_s = self._loop.time() + UNCHECKED_S
                self._watched.pop(fd, None)
                with contextlib.suppress(OSError):
                    self._epoll.unregister(fd)
                continue
            ready = pycurl.CSELECT_IN if events & select.EPOLLIN else 0
            ready |= pycurl.CSELECT_OUT if events & select.EPOLLOUT else 0
            ready |= pycurl.CSELECT_ERR if events & (select.EPOLLERR | select.EPOLLHUP) else 0
            self._act(fd, ready)


class _Transfer:
    """An easy handle of libcurl, and what belongs to the request that it carries out."""

    __slots__ = (
        "_body", "_done", "_guard", "_headers", "_is_fresh", "_is_idempotent", "_lines", "_offset", "_on_open",
        "_parts", "_refusal", "_timeout_s", "_tls", "_was_read", "_was_repeated", "_what", "curl",
    )  # fmt: skip

    def __init__(self, on_open: Callable[[int, int], int]) -> None:
        self._on_open = on_open
        self._lines: list[bytes] = []
        self._parts: list[bytes] = []
        self._done: asyncio.Future[tuple[int, str]] | None = None
        self.curl = pycurl.Curl()
        self._set_up()
        self.clear()

    def _set_up(self) -> None:
        """Set what all requests have in common; what differs is set when it differs from the last one's."""
        self._headers: Sequence[bytes] = ()
        self._tls: TlsSettings | None = None
        self._timeout_s = 0.0
        self._is_fresh = False
        self._what: tuple[str, bool] | None = None
        curl = self.curl
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.PROXY, "")  # and not the environment's
        curl.setopt(pycurl.PATH_AS_IS, 1)
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        curl.setopt(pycurl.DNS_CACHE_TIMEOUT, DNS_CACHE_S)
        curl.setopt(pycurl.MAXAGE_CONN, KEEP_IDLE_S)
        curl.setopt(pycurl.SSL_OPTIONS, pycurl.SSLOPT_NO_PARTIALCHAIN)  # as Python's ssl
        curl.setopt(pycurl.SOCKOPTFUNCTION, self._on_open)
        curl.setopt(pycurl.READFUNCTION, self._read)
        curl.setopt(pycurl.SEEKFUNCTION, self._seek)
        curl.setopt(pycurl.WRITEFUNCTION, self._parts.append)
        curl.setopt(pycurl.HEADERFUNCTION, self._lines.append)

    def clear(self) -> None:
        """Forget the request."""
        self._body = b""
        self._guard: Guard | None = None
        self._refusal: Exception | None = None
        self._offset = 0
        self._is_idempotent = self._was_read = self._was_repeated = False
        self._lines.clear()
        self._parts.clear()

    def prepare(
        self, request: CurlRequest, timeout_s: float, done: "asyncio.Future[tuple[int, str]]", *, is_fresh: bool
    ) -> None:
        """Set the handle up for a request, on a new connection if it `is_fresh`; `done` gets code and message."""
        method, url, headers, body, self._guard, tls = request
        if tls is not self._tls:
            self._set_tls(tls)
        curl, what = self.curl, (method, bool(body))
        if what != self._what:
            curl.setopt(pycurl.POST if body else pycurl.HTTPGET, 1)
            curl.setopt(pycurl.CUSTOMREQUEST, method)
            self._what = what
        if body:
            curl.setopt(pycurl.POSTFIELDSIZE, len(body))
        if headers is not self._headers:
            curl.setopt(pycurl.HTTPHEADER, headers)
            self._headers = headers
        if is_fresh != self._is_fresh:
            curl.setopt(pycurl.FRESH_CONNECT, int(is_fresh))
            self._is_fresh = is_fresh
        if timeout_s != self._timeout_s:
            limit_ms = max(1, round(timeout_s * 1000))
            curl.setopt(pycurl.CONNECTTIMEOUT_MS, limit_ms)
            curl.setopt(pycurl.TIMEOUT_MS, limit_ms)
            self._timeout_s = timeout_s
        curl.setopt(pycurl.URL, url)
        self._body, self._is_idempotent, self._done = body, method in IDEMPOTENT, done

    def _set_tls(self, tls: TlsSettings | None) -> None:
        if self._tls is not None:
            # Of two client certificates the one that is no longer valid must not stay.
            self.curl.reset()
            self._set_up()
        if tls is None:
            return
        if tls.insecure_skip_verify:
            self.curl.setopt(pycurl.SSL_VERIFYPEER, 0)
            self.curl.setopt(pycurl.SSL_VERIFYHOST, 0)
        else:
            self.curl.setopt(pycurl.CAINFO_BLOB, tls.ca_pem)
        if tls.certificate_pem:
            self.curl.setopt(pycurl.SSLCERT_BLOB, tls.certificate_pem)
            self.curl.setopt(pycurl.SSLKEY_BLOB, tls.key_pem)
        self._tls = tls

    def end(self, code: int, message: str) -> None:
        """libcurl is done with it."""
        if self._done is not None and not self._done.done():
            self._done.set_result((code, message))

    def answer(self, code: int, message: str) -> CurlAnswer:
        """Return what came; raises `NotBegunError`, or what the guard raised, if nothing was sent."""
        if self._refusal is not None:
            raise self._refusal
        status = self.curl.getinfo(pycurl.RESPONSE_CODE)
        has_head = status >= 200 and self._has_head()
        error: Exception | None = None
        if code != pycurl.E_OK:
            error = self._problem(code, message, has_head)
        elif not has_head:
            # libcurl is content with the first line of an answer.
            error = aiohttp.ServerDisconnectedError()
        after_begin_s: float = self.curl.getinfo(pycurl.TOTAL_TIME) - self.curl.getinfo(pycurl.STARTTRANSFER_TIME)
        lines = tuple(self._lines) if status >= 300 else ()
        return CurlAnswer(status if has_head else 0, lines, b"".join(self._parts), after_begin_s, error)

    def _has_head(self) -> bool:
        """Whether the head of the answer came whole; others may have come before it, such as "100 Continue"."""
        lines = self._lines
        if not lines or lines[-1] == b"\r\n":
            return bool(lines)
        begin = max(number for number, line in enumerate(lines) if line.startswith(b"HTTP/"))
        return b"\r\n" in lines[begin:]  # after which trailers came

    def _problem(self, code: int, message: str, has_head: bool) -> Exception:
        has_begun = self._was_read if self._body else self.curl.getinfo(pycurl.PRETRANSFER_TIME) > 0
        if code == pycurl.E_OPERATION_TIMEDOUT:
            return TimeoutError() if has_begun else aiohttp.ConnectionTimeoutError()
        # A request that may be repeated was: its first connection broke, and there was no second.
        if not has_begun or (self._is_idempotent and code in _NO_CONNECTION):
            raise NotBegunError(code, message)
        if has_head:
            return aiohttp.ClientPayloadError(message)
        return _broken(code, message)

    def _read(self, size: int) -> bytes | int:
        """Give libcurl the body, which it puts into the socket at once, if the guard lets it pass."""
        if self._guard is not None:
            try:
                if self._refusal is not None:
                    return int(pycurl.READFUNC_ABORT)
                self._guard.check()
            except Exception as refusal:
                self._refusal = refusal
                return int(pycurl.READFUNC_ABORT)
        self._was_read = True
        begin = self._offset
        self._offset += size
        return self._body[begin : self._offset]

    def _seek(self, _offset: int, _origin: int) -> int:
        """Begin the body again, on another connection, or keep libcurl from doing that.

        It asks where a kept connection broke after the body was sent and before an answer came. The server may have
        carried the request out.
        """
        if not self._is_idempotent or self._was_repeated:
            return int(pycurl.SEEKFUNC_FAIL)
        self._was_repeated = True
        self._offset = 0
        return int(pycurl.SEEKFUNC_OK)


def _broken(code: int, message: str) -> Exception:
    """Return the error that aiohttp raises where a connection breaks before the answer."""
    for number in (errno.ECONNRESET, errno.EPIPE, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH):
        if os.strerror(number) in message:
            return aiohttp.ClientOSError(number, os.strerror(number))
    if code in (pycurl.E_GOT_NOTHING, pycurl.E_SEND_FAIL_REWIND, pycurl.E_RECV_ERROR, pycurl.E_SEND_ERROR):
        return aiohttp.ServerDisconnectedError()
    return aiohttp.ClientError(message)
