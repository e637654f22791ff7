"""`HttpTransport`: the transport over HTTP/1.1 to any Kubernetes API server.

Watches and lists are aiohttp's; a request whose answer is at most one object goes out by libcurl, for half of the CPU,
if that is available and can do all that aiohttp does (`curl.py`).

Reflectors, the event recorder, leader election and the runtime's effects call it with resources, selectors and JSON
bytes. Requests go out under the client-side rate limit, with fresh credentials, and are repeated where the server asks
for that. Answers come back as bytes, failures as `ApiError` or `ConnectionLost`.

Watches and leases have connections of their own, so that bindings that wait for the pool cannot delay them, and events
and leases have token buckets of their own, so that a flood of events delays neither a binding nor a renewal.
"""

import asyncio
import ssl
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from typing import NamedTuple
from urllib.parse import urlencode

import aiohttp
from google.protobuf.message import DecodeError
from multidict import CIMultiDict
from yarl import URL

from berth.api import protobuf_pods
from berth.api.errors import ApiError, CalledOff, ConnectionLost, api_error_from_body
from berth.api.redaction import REDACTED, SHORTEST_KNOWN
from berth.api.resources import RESOURCES, Resource
from berth.kube.credentials.replaced_files import LOOK_AGAIN_S
from berth.kube.credentials.sources import ClusterAccess, Credential, CredentialError
from berth.kube.http import curl
from berth.kube.http.connections import Connections, connection_problem, reason_of
from berth.kube.http.guarded_body import Guard, GuardedBody
from berth.kube.http.open_watches import OpenWatch, OpenWatches
from berth.kube.http.rate_limit import RateLimit, TokenBucket
from berth.kube.http.refusals import BINDINGS, Refusals
from berth.kube.http.watcher import RequestWatcher
from berth.kube.pauses import Pauses
from berth.kube.transport import Wanted, always

# client-go: at most ten tries while the server answers with Retry-After.
MAX_RETRIES = 10
# Where a server asks for a longer wait than this, the request fails, and the caller's own backoff decides.
MAX_RETRY_AFTER_S = 30.0
# A list may be long, so it is given this many times the time of other requests.
LIST_PATIENCE = 4
# A line longer than any object that etcd can store, many times over, is not a watch event.
MAX_LINE_BYTES = 64 * 1024 * 1024
# kube-apiserver sends a bookmark about every minute; after a silence several times as long the other side is taken for
# dead. If it was merely quiet, the watch is resumed and nothing is lost.
WATCH_IDLE_S = 300.0
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PROTOBUF = "application/vnd.kubernetes.protobuf"
PROTOBUF_OR_JSON = f"{PROTOBUF}, application/json"
_DELETE_OPTIONS = b'{"apiVersion":"v1","kind":"DeleteOptions"}'


_LENGTH = struct.Struct(">I")
_NO_RESOURCE = Resource("", "", "", "", namespaced=False)


class _Request(NamedTuple):
    """A request without the credential that goes with it, which each try fetches anew."""

    method: str
    resource: Resource
    url: str
    body: bytes = b""
    content_type: str = ""
    timeout: aiohttp.ClientTimeout | None = None
    accept: str = ""
    is_short: bool = False
    """Whether the answer is one object at most."""

    @property
    def path(self) -> str:
        """The path for people."""
        return URL(self.url, encoded=True).path

    @property
    def what(self) -> str:
        """The resource, and that it is a pod's Binding."""
        return BINDINGS if self.url.endswith("/binding") else self.resource.plural

    def limited_to(self, seconds: float) -> str:
        """Return the URL that asks the server to give the request up after so long."""
        return f"{self.url}{'&' if '?' in self.url else '?'}timeout={max(1, int(seconds))}s"


class HttpTransport:
    """A `berth.kube.transport.Transport` over aiohttp and libcurl; make it inside the event loop that uses it."""

    __slots__ = (
        "_access", "_buckets", "_connections", "_curl_headers", "_headers", "_host", "_idle_s", "_list_timeout",
        "_main_bucket", "_open_watches", "_retries", "_timeout", "_timeout_s", "_watcher", "guard",
        "refusals",
    )  # fmt: skip

    def __init__(
        self,
        access: ClusterAccess,
        *,
        rate_limit: RateLimit | None = None,
        user_agent: str = "berth",
        request_timeout_s: float = 30.0,
        watch_idle_s: float = WATCH_IDLE_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        watcher: RequestWatcher | None = None,
        look_again_s: float = LOOK_AGAIN_S,
    ) -> None:
        """`look_again_s`: how often to check, while watches are open, whether credentials were replaced."""
        limit = rate_limit or RateLimit()
        self._watcher = watcher or RequestWatcher()
        self._host = URL(access.server).authority
        self._access = access
        self._main_bucket = TokenBucket(limit, sleep=sleep)
        self._retries = Pauses(sleep)
        self._buckets = {plural: TokenBucket(limit, sleep=sleep) for plural in ("events", "leases")}
        self._open_watches = OpenWatches(access, look_again_s)
        self._connections = Connections(with_curl=curl.is_available() and curl.can_do(access))
        self._headers = CIMultiDict(access.headers)
        self._headers.update({"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": user_agent})
        self._curl_headers = curl.HeaderLists(self._headers.items())
        self.refusals = Refusals()
        """What the server has refused for a while."""
        self.guard: Guard | None = None
        """Asked whenever the body of a write is about to go to its socket; see `guarded`."""
        self._timeout_s = request_timeout_s
        self._timeout = aiohttp.ClientTimeout(total=request_timeout_s, sock_connect=request_timeout_s)
        self._list_timeout = aiohttp.ClientTimeout(
            total=request_timeout_s * LIST_PATIENCE, sock_connect=request_timeout_s
        )
        self._idle_s = watch_idle_s

    def guarded(self, guard: Guard) -> "HttpTransport":
        """Return this transport, with `guard` asked whenever the body of a write is about to go to its socket.

        What its `check` raises ends the request unsent: every repetition is checked too, and nothing can hold up a
        request between the check and the socket. The server is asked to give the request up after `left_s`.
        """
        # Not deep: both have the same connections, and wait for the same token buckets.
        made = copy(self)
        made.guard = guard
        return made

    def call_off(self) -> None:
        """Send no more writes except events and leases: waiting and new ones raise `CalledOff`.

        The few requests that still go out, about what was sent, no longer wait for the rate limit.
        """
        self._retries.end()
        for bucket in (self._main_bucket, self._buckets["events"]):
            bucket.open()

    @property
    def throttled_s(self) -> float:
        """Seconds that calls have waited for the client-side rate limit so far."""
        return self._main_bucket.waited_s + sum(bucket.waited_s for bucket in self._buckets.values())

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
        metadata_only: bool = False,
        protobuf: bool = False,
    ) -> bytes:
        """One page of a list; see the protocol."""
        query = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "limit": str(limit or ""),
            "continue": continue_token,
            "resourceVersion": resource_version,
        }
        accept = METADATA_ONLY if metadata_only else PROTOBUF_OR_JSON if protobuf else ""
        return await self._call("GET", resource, resource.path(namespace), query=query, accept=accept)

    async def get(self, resource: Resource, namespace: str, name: str) -> bytes:
        """One object."""
        return await self._call("GET", resource, resource.path(namespace, name))

    async def read(self, path: str) -> bytes:
        """GET a path that is not a resource's."""
        return await self._call("GET", _NO_RESOURCE, path)

    async def create(
        self, resource: Resource, namespace: str, body: bytes, *, name: str = "", subresource: str = ""
    ) -> bytes:
        """POST an object, or to a subresource of `name`."""
        return await self._call("POST", resource, resource.path(namespace, name, subresource), body)

    async def update(
        self, resource: Resource, namespace: str, name: str, body: bytes, *, subresource: str = ""
    ) -> bytes:
        """PUT the whole object."""
        return await self._call("PUT", resource, resource.path(namespace, name, subresource), body)

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: bytes,
        content_type: str,
        *,
        subresource: str = "",
    ) -> bytes:
        """PATCH the object."""
        path = resource.path(namespace, name, subresource)
        return await self._call("PATCH", resource, path, body, content_type=content_type)

    async def delete(self, resource: Resource, namespace: str, name: str, body: bytes = b"") -> bytes:
        """DELETE the object."""
        body = body or (_DELETE_OPTIONS if self.guard is not None else b"")  # only what has a body can be guarded
        return await self._call("DELETE", resource, resource.path(namespace, name), body)

    async def bind(self, namespace: str, name: str, body: bytes, *, wanted: Wanted = always) -> bytes:
        """POST a Binding of the pod."""
        pods = RESOURCES["Pod"]
        return await self._call("POST", pods, pods.path(namespace, name, "binding"), body, wanted=wanted)

    async def watch(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str,
        allow_bookmarks: bool = True,
        send_initial_events: bool = False,
        protobuf: bool = False,
        timeout_s: float,
    ) -> AsyncIterator[bytes]:
        """The events of a watch, until the server ends it; see the protocol."""
        query = {
            "watch": "true",
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true" if allow_bookmarks else "",
            "sendInitialEvents": "true" if send_initial_events else "",
            "resourceVersionMatch": "NotOlderThan" if send_initial_events else "",
            "timeoutSeconds": str(max(1, round(timeout_s))),
        }
        await self._take_turn("GET", resource)
        # No limit for the whole, which the server ends; a silence has one, since a dead peer never does.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout_s, sock_read=self._idle_s)
        url = self._url(resource.path(namespace), query)
        accept = PROTOBUF_OR_JSON if protobuf else ""
        request = _Request("GET", resource, url, timeout=timeout, accept=accept)
        watch: OpenWatch | None = None
        try:
            credential = await self._credential()
            context = self._access.tls_context(credential)
            async with await self._send(self._connections.streams(), request, credential) as response:
                if response.status != 200:
                    refusal = await _refused(response, credential)
                    self._note_refusal(request, refusal)
                    if refusal.is_unauthorized:
                        self._access.invalidate(credential)
                    raise refusal
                self.refusals.accepted(resource.plural)
                watch = OpenWatch(response, context)
                with self._open_watches.watching(watch):
                    is_protobuf = response.content_type == PROTOBUF
                    async for event in _frames(response.content) if is_protobuf else _lines(response.content):
                        if watch.is_ended:  # it may be the beginning of a line
                            return
                        yield event
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if watch is not None and watch.is_ended:
                return
            self._note_failure(error)
            raise connection_problem(error, f"watching {resource.plural}", self._access.description) from error

    async def close(self) -> None:
        """Close every connection."""
        self._open_watches.close()
        await self._connections.close()

    # -- one call ------------------------------------------------------------------------------------------

    async def _call(
        self,
        method: str,
        resource: Resource,
        path: str,
        body: bytes = b"",
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = "",
        wanted: Wanted = always,
    ) -> bytes:
        """One request and its retries: once after 401 if that may help, and as often as the server asks for."""
        url = self._url(path, query or {})
        is_short = query is None
        timeout = self._timeout if is_short else self._list_timeout
        request = _Request(method, resource, url, body, content_type, timeout, accept, is_short)
        may_renew = True
        retries = 0
        while True:
            await self._take_turn(method, resource)
            if not wanted():
                raise CalledOff(f"not sent: not wanted any more ({method} {request.path})")
            # After the wait for a turn, in which a token may have expired.
            credential = await self._credential()
            try:
                answer = await self._once(request, credential)
            except ApiError as error:
                self._note_refusal(request, error)
                # Once for each request: a new credential that is refused, too, is an answer.
                if error.is_unauthorized and may_renew and self._access.invalidate(credential):
                    may_renew = False
                    continue
                delay_s, status = _retry_delay_s(error, request), error.status
                if delay_s is None or retries >= MAX_RETRIES:
                    raise
            else:
                self.refusals.accepted(request.what)
                return answer
            retries += 1
            self._watcher.retried(method, self._host, str(status))
            await self._retries.wait(delay_s)

    async def _once(self, request: _Request, credential: Credential) -> bytes:
        is_lease = request.resource.plural == "leases"
        try:
            # libcurl would repeat what has no body to begin again, whether or not that is safe.
            if request.is_short and (request.body or request.method in curl.IDEMPOTENT):
                connections = self._connections.curl(for_leases=is_lease)
                headers = self._curl_headers.of(credential.token, request.content_type if request.body else "")
                if connections is not None and headers is not None:
                    return await self._by_curl(connections, request, credential, headers)
            return await self._by_aiohttp(request, credential, is_lease)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._note_failure(error)
            action = f"{request.method} {request.path}"
            raise connection_problem(error, action, self._access.description) from error

    def _note_failure(self, error: Exception) -> None:
        """If one side does not accept the other's certificate, check whether ours were replaced."""
        if isinstance(error, ssl.SSLError | aiohttp.ClientSSLError):
            self._access.distrusted()
            self.refusals.unknown(reason_of(error))

    def _note_refusal(self, request: _Request, error: ApiError) -> None:
        if error.is_unauthorized:
            self.refusals.unknown(str(error))
        elif error.is_forbidden:
            self.refusals.forbidden(request.what, str(error))
        else:
            self.refusals.accepted(request.what)

    async def _credential(self) -> Credential:
        try:
            return await self._access.credential()
        except CredentialError as error:
            self.refusals.unknown(str(error))
            raise

    async def _by_aiohttp(self, request: _Request, credential: Credential, is_lease: bool) -> bytes:
        session = self._connections.leases() if is_lease else self._connections.requests()
        async with await self._send(session, request, credential) as response:
            if response.status >= 300:
                raise await _refused(response, credential)
            body = await response.read()
            self._watcher.sized(request.method, self._host, len(request.body), len(body))
            return body

    async def _by_curl(
        self, connections: curl.CurlRequests, request: _Request, credential: Credential, headers: Sequence[bytes]
    ) -> bytes:
        guard = self.guard if request.body else None
        url = request.url if guard is None else request.limited_to(guard.left_s())
        tls = self._access.tls_settings(credential)
        asked = curl.CurlRequest(request.method, url, headers, request.body, guard, tls)
        started, code = time.perf_counter(), "<error>"
        try:
            answer = await connections.ask(asked, self._timeout_s)
            if answer.status:
                code = str(answer.status)
        except curl.NotBegunError as problem:
            left_s = max(0.001, self._timeout_s - (time.perf_counter() - started))
            return await self._instead_of_curl(request, credential, problem, left_s)
        except BaseException:
            self._watcher.answered(request.method, self._host, code, time.perf_counter() - started)
            raise
        self._watcher.answered(request.method, self._host, code, time.perf_counter() - started - answer.after_begin_s)
        if answer.error is not None:
            raise answer.error
        if answer.status >= 300:
            raise _refusal(answer.status, answer.body, answer.header("retry-after"), credential)
        self._watcher.sized(request.method, self._host, len(request.body), len(answer.body))
        return answer.body

    async def _instead_of_curl(
        self, request: _Request, credential: Credential, problem: curl.NotBegunError, left_s: float
    ) -> bytes:
        """Let aiohttp send what libcurl got no connection for, or say why there is none."""
        timeout = aiohttp.ClientTimeout(total=left_s, sock_connect=left_s)
        is_lease = request.resource.plural == "leases"
        answer = await self._by_aiohttp(request._replace(timeout=timeout), credential, is_lease)
        if problem.is_about_tls:
            self._connections.give_curl_up()
        return answer

    async def _send(
        self, session: aiohttp.ClientSession, request: _Request, credential: Credential
    ) -> aiohttp.ClientResponse:
        headers = self._headers.copy()
        if credential.token:
            headers["Authorization"] = f"Bearer {credential.token}"
        if request.body:
            headers["Content-Type"] = request.content_type
        if request.accept:
            headers["Accept"] = request.accept
        started, code = time.perf_counter(), "<error>"
        try:
            response = await self._sent(session, request, credential, headers)
            code = str(response.status)
        finally:
            self._watcher.answered(request.method, self._host, code, time.perf_counter() - started)
        return response

    async def _sent(
        self,
        session: aiohttp.ClientSession,
        request: _Request,
        credential: Credential,
        headers: "CIMultiDict[str]",
    ) -> aiohttp.ClientResponse:
        body = None
        if self.guard is not None and request.body:
            body = GuardedBody(request.body, self.guard)
            # Nothing can cut a request off while the whole process is stopped. This way the server does.
            request = request._replace(url=request.limited_to(self.guard.left_s()))
        try:
            return await self._asked(session, request, credential, headers, body or request.body or None)
        except aiohttp.ClientError:
            # aiohttp wraps what the guard raised; the caller has to know that nothing was sent.
            if body is not None and body.refusal is not None:
                raise body.refusal from None
            raise

    async def _asked(
        self,
        session: aiohttp.ClientSession,
        request: _Request,
        credential: Credential,
        headers: "CIMultiDict[str]",
        body: GuardedBody | bytes | None,
    ) -> aiohttp.ClientResponse:
        return await session.request(
            request.method,
            URL(request.url, encoded=True),
            data=body,
            headers=headers,
            timeout=request.timeout,
            ssl=self._access.tls_context(credential) or True,
            server_hostname=self._access.server_name,
            proxy=self._access.proxy or None,
            allow_redirects=False,  # a redirect would carry the token to wherever it points
        )

    async def _take_turn(self, method: str, resource: Resource) -> None:
        """Wait for the client-side rate limit."""
        started = time.perf_counter()
        bucket = self._bucket(resource)
        await bucket.acquire()
        if self._retries.are_over and method != "GET" and bucket is self._main_bucket:
            raise CalledOff(f"not sent: the process is ending ({method} {resource.plural})")
        self._watcher.throttled(method, self._host, time.perf_counter() - started)

    def _bucket(self, resource: Resource) -> TokenBucket:
        return self._buckets.get(resource.plural, self._main_bucket)

    def _url(self, path: str, query: Mapping[str, str]) -> str:
        text = urlencode({key: value for key, value in query.items() if value})
        return f"{self._access.server}{path}{'?' if text else ''}{text}"


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Split a stream at its newlines; what is left when it ends, or breaks off, is the last line."""
    rest = b""
    try:
        while chunk := await content.readany():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line:
                    yield line
            if len(rest) > MAX_LINE_BYTES:
                raise ConnectionLost(f"a watch line is longer than {MAX_LINE_BYTES >> 20} MiB; gave up on the stream")
    except (aiohttp.ClientError, TimeoutError, OSError):
        if rest:
            yield rest
        raise
    if rest:
        yield rest


async def _frames(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Split a stream into its messages, each of which comes after its length; one that broke off is left out."""
    rest = bytearray()
    while chunk := await content.readany():
        rest += chunk
        begin = 0
        while (start := begin + _LENGTH.size) <= len(rest):
            end = start + _LENGTH.unpack_from(rest, begin)[0]
            if end - start > MAX_LINE_BYTES:
                raise ConnectionLost(f"a watch event is longer than {MAX_LINE_BYTES >> 20} MiB; gave up on the stream")
            if end > len(rest):
                break
            yield bytes(rest[start:end])
            begin = end
        del rest[:begin]


async def _refused(response: aiohttp.ClientResponse, credential: Credential) -> ApiError:
    return _refusal(response.status, await response.read(), response.headers.get("Retry-After", ""), credential)


def _refusal(status: int, body: bytes, retry_after: str, credential: Credential) -> ApiError:
    """The refusal as an error, whose message is shown in many places: a token that the server repeats is left out."""
    if len(credential.token) >= SHORTEST_KNOWN:
        body = body.replace(credential.token.encode(), REDACTED.encode())
    if body.startswith(protobuf_pods.MAGIC):  # who may be answered in protobuf is refused in it, too
        with suppress(DecodeError):
            body = protobuf_pods.status_json(body)
    retry_after_s = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else None
    return api_error_from_body(status, body, retry_after_s=retry_after_s)


def _retry_delay_s(error: ApiError, request: _Request) -> float | None:
    """How long the server asked us to wait before the same request; None when it is not to be repeated."""
    if error.status not in (429, 503) or error.retry_after_s is None:
        return None
    if error.retry_after_s > MAX_RETRY_AFTER_S or request.path.endswith("/eviction"):
        return None  # a budget that forbids an eviction is an answer, not an overload
    return error.retry_after_s
