"""The HTTP transport against a server on loopback: what it asks, and what it makes of every kind of answer."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from berth.api.errors import ApiError, CalledOff, ConnectionLost
from berth.api.resources import RESOURCES
from berth.kube.credentials.sources import ClusterAccess, Credential, StaticCredential
from berth.kube.credentials.tls import TlsSettings
from berth.kube.fence import WriteRefused
from berth.kube.http.client import HttpTransport
from berth.kube.http.connections import MAX_CONNECTIONS
from berth.kube.http.rate_limit import RateLimit
from berth.kube.reflector import Reflector
from packages.scheduler.tests.kube.servers import Certificates, serving
from tests import protobuf
from tests.waiting import WAIT_S, for_ever, settle, until

pytestmark = pytest.mark.usefixtures("each_way")

STREAM = "application/vnd.kubernetes.protobuf;stream=watch"
POD, NODE, EVENT, LEASE = (RESOURCES[kind] for kind in ("Pod", "Node", "Event", "Lease"))
UNLIMITED = RateLimit(qps=-1)


@asynccontextmanager
async def transport_to(handler, *, ssl_context=None, access=None, **options):
    options.setdefault("rate_limit", UNLIMITED)
    async with serving(handler, ssl_context) as url:
        transport = HttpTransport(access(url) if access else ClusterAccess(url), **options)
        try:
            yield transport
        finally:
            await transport.close()


def status(code, reason, message, **more):
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message, **more}
    return web.json_response(body, status=code)


class Recorder:
    """Answers everything with `{}` and remembers what was asked."""

    def __init__(self):
        self.requests = []

    async def __call__(self, request):
        body = (await request.read()).decode()
        self.requests.append((request.method, request.path_qs, request.headers.get("Content-Type"), body))
        self.headers = request.headers
        return web.Response(body=b"{}")


REQUESTS = [
    (lambda t: t.get(POD, "ns", "p"), ("GET", "/api/v1/namespaces/ns/pods/p", None, "")),
    (lambda t: t.get(NODE, "", "n"), ("GET", "/api/v1/nodes/n", None, "")),
    (lambda t: t.list(POD), ("GET", "/api/v1/pods", None, "")),
    (
        lambda t: t.list(POD, namespace="ns", label_selector="a in (b,c)", field_selector="status.phase!=Failed"),
        (
            "GET",
            "/api/v1/namespaces/ns/pods?labelSelector=a+in+%28b%2Cc%29&fieldSelector=status.phase%21%3DFailed",
            None,
            "",
        ),
    ),
    (
        lambda t: t.list(NODE, limit=500, continue_token="a+/=", resource_version="0"),
        ("GET", "/api/v1/nodes?limit=500&continue=a%2B%2F%3D&resourceVersion=0", None, ""),
    ),
    (
        lambda t: t.create(EVENT, "ns", b'{"a":1}'),
        ("POST", "/apis/events.k8s.io/v1/namespaces/ns/events", "application/json", '{"a":1}'),
    ),
    (
        lambda t: t.create(POD, "ns", b"{}", name="p", subresource="eviction"),
        ("POST", "/api/v1/namespaces/ns/pods/p/eviction", "application/json", "{}"),
    ),
    (
        lambda t: t.update(LEASE, "ns", "l", b"{}"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l", "application/json", "{}"),
    ),
    (
        lambda t: t.patch(POD, "ns", "p", b"{}", "application/merge-patch+json", subresource="status"),
        ("PATCH", "/api/v1/namespaces/ns/pods/p/status", "application/merge-patch+json", "{}"),
    ),
    (lambda t: t.delete(POD, "ns", "p"), ("DELETE", "/api/v1/namespaces/ns/pods/p", None, "")),
    (
        lambda t: t.delete(POD, "ns", "p", b'{"preconditions":{"uid":"u"}}'),
        ("DELETE", "/api/v1/namespaces/ns/pods/p", "application/json", '{"preconditions":{"uid":"u"}}'),
    ),
    (
        lambda t: t.bind("ns", "p", b'{"target":{}}'),
        ("POST", "/api/v1/namespaces/ns/pods/p/binding", "application/json", '{"target":{}}'),
    ),
]


@pytest.mark.parametrize(("call", "expected"), REQUESTS)
async def test_requests(call, expected):
    recorder = Recorder()
    async with transport_to(recorder) as transport:
        await call(transport)
    assert recorder.requests == [expected]


async def test_headers():
    recorder = Recorder()
    groups = [("Impersonate-Group", "a"), ("Impersonate-Group", "b")]

    def access(url):
        return ClusterAccess(url, source=StaticCredential(Credential(token="secret")), headers=groups)

    async with transport_to(recorder, access=access, user_agent="berth/9 (test)") as transport:
        await transport.get(NODE, "", "n")
    assert recorder.headers["Authorization"] == "Bearer secret"
    assert recorder.headers["User-Agent"] == "berth/9 (test)"
    assert recorder.headers["Accept-Encoding"] == "identity"
    assert recorder.headers.getall("Impersonate-Group") == ["a", "b"]


async def test_a_server_under_a_path():
    recorder = Recorder()
    async with transport_to(recorder, access=lambda url: ClusterAccess(f"{url}/k8s/clusters/c-1/")) as transport:
        await transport.get(NODE, "", "n")
    assert recorder.requests[0][1] == "/k8s/clusters/c-1/api/v1/nodes/n"


async def test_a_proxy_is_given_the_whole_address():
    hosts = []

    async def proxy(request):
        hosts.append((request.host, request.path))
        return web.Response(body=b"{}")

    def access(url):
        return ClusterAccess("http://api.invalid:8080", proxy=url)

    async with transport_to(proxy, access=access) as transport:
        await transport.get(NODE, "", "n")
    assert hosts == [("api.invalid", "/api/v1/nodes/n")]


class TestRefusals:
    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            (lambda: status(404, "NotFound", 'pods "p" not found'), (404, "NotFound", 'pods "p" not found')),
            (lambda: status(409, "Conflict", "modified"), (409, "Conflict", "modified")),
            (lambda: web.Response(status=502, text="Bad Gateway"), (502, "", "Bad Gateway")),
            (lambda: web.Response(status=403), (403, "Forbidden", "the server gave no message")),
            (lambda: web.Response(status=302, headers={"Location": "/login"}), (302, "", "the server gave no message")),
        ],
    )
    async def test_become_api_errors(self, answer, expected):
        async def handler(_request):
            return answer()

        async with transport_to(handler) as transport:
            with pytest.raises(ApiError) as caught:
                await transport.get(POD, "ns", "p")
        error = caught.value
        assert (error.status, error.reason, error.message) == expected

    @pytest.mark.parametrize(("code", "unknown"), [(409, False), (404, False), (500, True), (504, True), (503, False)])
    async def test_whether_a_write_may_have_happened(self, code, unknown):
        async def handler(_request):
            return status(code, "R", "m")

        async with transport_to(handler) as transport:
            with pytest.raises(ApiError) as caught:
                await transport.bind("ns", "p", b"{}")
        assert caught.value.outcome_unknown is unknown


class Overloaded:
    """Refuses the first requests."""

    def __init__(self, refusals, code=429, retry_after="2", **body):
        self.refusals, self.code, self.retry_after, self.body = refusals, code, retry_after, body
        self.requests = 0

    async def __call__(self, _request):
        self.requests += 1
        if self.requests > self.refusals:
            return web.Response(body=b"done")
        answer = status(self.code, "TooManyRequests", "slow down", **self.body)
        if self.retry_after:
            answer.headers["Retry-After"] = self.retry_after
        return answer


class TestRetryAfter:
    @pytest.mark.parametrize("code", [429, 503])
    async def test_is_honoured(self, code):
        waits = []

        async def sleep(delay_s):
            waits.append(delay_s)

        server = Overloaded(3, code)
        async with transport_to(server, sleep=sleep) as transport:
            assert await transport.get(POD, "ns", "p") == b"done"
        assert waits == [2.0, 2.0, 2.0] and server.requests == 4

    async def test_in_the_body_counts_too(self):
        waits = []

        async def sleep(delay_s):
            waits.append(delay_s)

        async with transport_to(
            Overloaded(1, retry_after="", details={"retryAfterSeconds": 3}), sleep=sleep
        ) as transport:
            assert await transport.get(POD, "ns", "p") == b"done"
        assert waits == [3.0]

    async def test_ends_after_ten_retries(self):
        server = Overloaded(99, retry_after="0")
        async with transport_to(server) as transport:
            with pytest.raises(ApiError, match="slow down"):
                await transport.get(POD, "ns", "p")
        assert server.requests == 11

    @pytest.mark.parametrize("how", [{"retry_after": ""}, {"retry_after": "3600"}, {"code": 500}])
    async def test_is_not_guessed(self, how):
        server = Overloaded(1, **how)
        async with transport_to(server) as transport:
            with pytest.raises(ApiError):
                await transport.get(POD, "ns", "p")
        assert server.requests == 1

    async def test_an_eviction_refused_by_a_budget_is_an_answer(self):
        server = Overloaded(1)
        async with transport_to(server) as transport:
            with pytest.raises(ApiError) as caught:
                await transport.create(POD, "ns", b"{}", name="p", subresource="eviction")
        assert server.requests == 1 and caught.value.retry_after_s == 2.0


class RenewingSource:
    """Gives a new token after each refusal."""

    def __init__(self, renewable=True):
        self.number, self.renewable = 1, renewable

    async def current(self):
        return Credential(token=f"token-{self.number}")

    def invalidate(self, refused):
        self.number += refused.token == f"token-{self.number}"
        return self.renewable


class TestUnauthorized:
    @staticmethod
    def accepting(token):
        async def handler(request):
            handler.seen.append(request.headers["Authorization"])
            ok = request.headers["Authorization"] == f"Bearer {token}"
            return web.Response(body=b"in") if ok else status(401, "Unauthorized", "Unauthorized")

        handler.seen = []
        return handler

    async def test_a_renewed_token_is_tried_once(self):
        handler = self.accepting("token-2")
        async with transport_to(handler, access=lambda url: ClusterAccess(url, source=RenewingSource())) as transport:
            assert await transport.get(POD, "ns", "p") == b"in"
        assert handler.seen == ["Bearer token-1", "Bearer token-2"]

    @pytest.mark.parametrize(("renewable", "tries"), [(True, 2), (False, 1)])
    async def test_and_no_more(self, renewable, tries):
        handler = self.accepting("never")
        source = RenewingSource(renewable)
        async with transport_to(handler, access=lambda url: ClusterAccess(url, source=source)) as transport:
            with pytest.raises(ApiError) as caught:
                await transport.get(POD, "ns", "p")
        assert caught.value.is_unauthorized and len(handler.seen) == tries


class TestLostConnections:
    async def test_nobody_listens(self):
        transport = HttpTransport(ClusterAccess("http://127.0.0.1:1", description="context 'x' of f"))
        with pytest.raises(ConnectionLost, match=r"cannot connect to 127\.0\.0\.1:1.*context 'x' of f") as caught:
            await transport.bind("ns", "p", b"{}")
        assert not caught.value.outcome_unknown
        await transport.close()

    async def test_the_answer_never_comes(self):
        async def handler(_request):
            await for_ever()

        async with transport_to(handler, request_timeout_s=0.05) as transport:
            with pytest.raises(ConnectionLost, match="timed out waiting") as caught:
                await transport.bind("ns", "p", b"{}")
        assert caught.value.outcome_unknown

    async def test_cut_off_before_the_answer(self):
        async def handler(request):
            request.transport.abort()
            return web.Response()

        async with transport_to(handler) as transport:
            with pytest.raises(ConnectionLost, match="the connection broke") as caught:
                await transport.bind("ns", "p", b"{}")
        assert caught.value.outcome_unknown


async def test_a_lease_is_renewed_while_every_connection_of_the_pool_waits():
    release, full = asyncio.Event(), asyncio.Event()
    waiting = []

    async def handler(request):
        if "leases" not in request.path:
            waiting.append(request)
            if len(waiting) == MAX_CONNECTIONS:
                full.set()
            await release.wait()
        return web.Response(body=b"{}")

    async with transport_to(handler) as transport:
        herd = [asyncio.create_task(transport.bind("ns", f"p{number}", b"{}")) for number in range(70)]
        async with asyncio.timeout(WAIT_S):
            await full.wait()
            assert await transport.update(LEASE, "ns", "l", b"{}") == b"{}"
        assert not any(task.done() for task in herd)
        release.set()
        await asyncio.gather(*herd)


class Gate:
    """A guard that tests open and shut."""

    def __init__(self, passes=10**6):
        self.passes = passes

    def check(self):
        if self.passes <= 0:
            raise WriteRefused("the lease is not held")
        self.passes -= 1

    def left_s(self):
        return 7.9

    def shut(self):
        self.passes = 0


GUARDED = [
    lambda t: t.bind("ns", "p", b"{}"),
    lambda t: t.update(POD, "ns", "p", b"{}"),
    lambda t: t.patch(POD, "ns", "p", b"{}", "application/merge-patch+json"),
    lambda t: t.delete(POD, "ns", "p"),
]


class TestGuarded:
    """A lease that ends while a write waits for anything at all: nothing reaches the server."""

    @pytest.mark.parametrize("write", GUARDED)
    async def test_the_server_is_told_how_long_a_write_may_take(self, write):
        recorder = Recorder()
        async with transport_to(recorder) as transport:
            await write(transport.guarded(Gate()))
            await transport.guarded(Gate()).get(POD, "ns", "p")
        [(_, write_path, *_), (_, read_path, *_)] = recorder.requests
        assert write_path.endswith("?timeout=7s") and read_path == "/api/v1/namespaces/ns/pods/p"

    @pytest.mark.parametrize("write", GUARDED)
    async def test_shut_from_the_start(self, write):
        recorder = Recorder()
        async with transport_to(recorder) as transport:
            with pytest.raises(WriteRefused):
                await write(transport.guarded(Gate(0)))
            await transport.guarded(Gate(0)).get(POD, "ns", "p")
        assert len(recorder.requests) == 1

    @pytest.mark.parametrize("write", GUARDED)
    async def test_shut_while_it_waits_for_its_turn(self, write):
        recorder, gate = Recorder(), Gate()

        async def sleep(_delay_s):
            gate.shut()

        async with transport_to(recorder, rate_limit=RateLimit(qps=0.001, burst=1), sleep=sleep) as transport:
            await write(transport.guarded(gate))
            with pytest.raises(WriteRefused):
                await write(transport.guarded(gate))
        assert len(recorder.requests) == 1

    @pytest.mark.parametrize("write", GUARDED)
    async def test_shut_while_it_waits_because_the_server_is_overloaded(self, write):
        server, gate = Overloaded(1), Gate()

        async def sleep(_delay_s):
            gate.shut()

        async with transport_to(server, sleep=sleep) as transport:
            with pytest.raises(WriteRefused):
                await write(transport.guarded(gate))
        assert server.requests == 1

    async def test_shut_before_it_is_repeated_with_a_new_token(self):
        handler = TestUnauthorized.accepting("token-2")
        async with transport_to(handler, access=lambda url: ClusterAccess(url, source=RenewingSource())) as transport:
            with pytest.raises(WriteRefused):
                await transport.guarded(Gate(1)).bind("ns", "p", b"{}")
        assert handler.seen == ["Bearer token-1"]

    async def test_shut_while_it_waits_for_a_connection(self):
        release, arrived, gate = asyncio.Event(), [], Gate(MAX_CONNECTIONS)

        async def handler(request):
            arrived.append(request)
            await release.wait()
            return web.Response(body=b"{}")

        async with transport_to(handler) as transport:
            writing = transport.guarded(gate)
            herd = [asyncio.create_task(writing.bind("ns", f"p{n}", b"{}")) for n in range(MAX_CONNECTIONS + 6)]
            await until(lambda: len(arrived) == MAX_CONNECTIONS)
            release.set()
            results = await asyncio.gather(*herd, return_exceptions=True)
        assert len(arrived) == MAX_CONNECTIONS
        assert sum(isinstance(result, WriteRefused) for result in results) == 6

    async def test_shut_before_it_is_repeated_on_another_connection(self):
        """A kept connection that the server has closed: aiohttp sends PUT and DELETE once more by itself."""
        arrived = []

        async def handler(request):
            arrived.append(request.method)
            if len(arrived) == 2:
                request.transport.abort()
            return web.Response(body=b"{}")

        async with transport_to(handler) as transport:
            gate = Gate(2)
            await transport.guarded(gate).update(POD, "ns", "p", b"{}")
            with pytest.raises(WriteRefused):
                await transport.guarded(gate).update(POD, "ns", "p", b"{}")
        assert arrived == ["PUT", "PUT"]


async def test_open_watches_leave_every_connection_of_the_pool_to_requests():
    release = asyncio.Event()

    async def handler(request):
        if "watch" not in request.query:
            return web.Response(body=b"{}")
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"line\n")
        await release.wait()
        return response

    async with transport_to(handler) as transport:
        async with asyncio.timeout(WAIT_S):
            watches = [transport.watch(POD, resource_version="7", timeout_s=300) for _ in range(MAX_CONNECTIONS + 1)]
            assert [await anext(lines) for lines in watches] == [b"line"] * len(watches)
            assert await transport.get(POD, "ns", "p") == b"{}"
        for lines in watches:
            await lines.aclose()
        release.set()


def streaming(*chunks, end="clean", code=200, once=lambda: True, content_type="application/json"):
    """A watch that sends chunks and then ends, breaks (once that is so) or falls silent."""

    async def handler(request):
        handler.query, handler.accept = dict(request.query), request.headers["Accept"]
        response = web.StreamResponse(status=code, headers={"Content-Type": content_type})
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if end == "break":
            await until(once)
            request.transport.abort()
        elif end == "silence":
            await for_ever()
        return response

    return handler


async def read(transport, **options):
    options = {"resource_version": "7", "timeout_s": 300, **options}
    return [line async for line in transport.watch(POD, **options)]


async def collect(lines, into):
    """Every line up to the error that ends them."""
    async for line in lines:
        into.append(line)


class TestWatch:
    async def test_asks_for_what_it_needs(self):
        handler = streaming()
        async with transport_to(handler) as transport:
            assert await read(transport, field_selector="a=b", label_selector="c") == []
        assert handler.query == {
            "watch": "true",
            "resourceVersion": "7",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": "300",
            "fieldSelector": "a=b",
            "labelSelector": "c",
        }

    @pytest.mark.parametrize(
        "chunks",
        [
            [b"one\ntwo\nthree\n"],
            [b"one\n", b"two\n", b"three\n"],
            [b"o", b"ne\nt", b"wo\nthree", b"\n"],
            [b"one\n\n\ntwo\r\nthree\n".replace(b"\r", b"")],
            [b"one\ntwo\nthree"],
        ],
    )
    async def test_lines_are_whole_however_they_arrive(self, chunks):
        async with transport_to(streaming(*chunks)) as transport:
            assert await read(transport) == [b"one", b"two", b"three"]

    @pytest.mark.parametrize("end", ["break", "silence"])
    async def test_what_broke_off_is_given_before_the_error(self, end):
        lines = []
        handler = streaming(b"one\ntw", end=end, once=lambda: lines)
        async with transport_to(handler, watch_idle_s=0.1) as transport:
            with pytest.raises(ConnectionLost, match="watching pods"):
                await collect(transport.watch(POD, resource_version="7", timeout_s=300), lines)
        assert lines == [b"one", b"tw"]

    @pytest.mark.parametrize("size", [1, 3, 5, 100])
    async def test_messages_are_whole_however_they_arrive(self, size):
        events = [b"one", b"", b"three" * 9]
        body = b"".join(map(protobuf.frame, events))
        chunks = [body[at : at + size] for at in range(0, len(body), size)]
        handler = streaming(*chunks, content_type=STREAM)
        async with transport_to(handler) as transport:
            assert await read(transport, protobuf=True) == events
        assert handler.accept == "application/vnd.kubernetes.protobuf, application/json"

    async def test_a_server_that_has_only_json_is_read_as_ever(self):
        handler = streaming(b"one\ntwo\n")
        async with transport_to(handler) as transport:
            assert await read(transport, protobuf=True) == [b"one", b"two"]
            assert await read(transport) == [b"one", b"two"]
        assert handler.accept == "application/json"

    async def test_a_message_that_broke_off_is_not_given(self):
        events = []
        handler = streaming(protobuf.frame(b"one") + protobuf.frame(b"two")[:-1], end="break", once=lambda: events,
                            content_type=STREAM)  # fmt: skip
        async with transport_to(handler) as transport:
            with pytest.raises(ConnectionLost, match="watching pods"):
                await collect(transport.watch(POD, resource_version="7", timeout_s=300, protobuf=True), events)
        assert events == [b"one"]

    async def test_a_message_without_end(self):
        handler = streaming((2**31).to_bytes(4, "big") + b"x", end="silence", content_type=STREAM)
        async with transport_to(handler) as transport:
            with pytest.raises(ConnectionLost, match="longer than 64 MiB"):
                await read(transport, protobuf=True)

    async def test_a_refusal_in_protobuf(self):
        said = {"code": 410, "reason": "Expired", "message": "too old resource version: 7 (99)"}
        refusal = protobuf.wrapped(protobuf.status(said))
        async with transport_to(streaming(refusal, code=410)) as transport:
            with pytest.raises(ApiError, match="too old resource version") as caught:
                await read(transport, protobuf=True)
        assert caught.value.is_expired

    async def test_gone(self):
        async def handler(_request):
            return status(410, "Expired", "too old resource version: 7 (99)")

        async with transport_to(handler) as transport:
            with pytest.raises(ApiError) as caught:
                await read(transport)
        assert caught.value.is_expired

    async def test_closing_ends_the_request(self):
        ended = asyncio.Event()

        async def handler(request):
            response = web.StreamResponse()
            await response.prepare(request)
            try:
                while True:
                    await response.write(b"line\n")
                    await asyncio.sleep(0)
            finally:
                ended.set()

        async with transport_to(handler) as transport:
            lines = transport.watch(POD, resource_version="7", timeout_s=300)
            assert await anext(lines) == b"line"
            await lines.aclose()
            async with asyncio.timeout(WAIT_S):
                await ended.wait()

    async def test_a_reflector_survives_a_server_that_cuts_every_watch(self):
        """Each watch breaks in mid-line, and in the end every object has been told exactly once."""
        total, told, reports, done = 30, [], [], asyncio.Event()

        def line(number):
            meta = {"name": f"p{number}", "namespace": "ns", "uid": str(number), "resourceVersion": str(number)}
            return json.dumps({"type": "ADDED", "object": {"metadata": meta}}).encode() + b"\n"

        async def handler(request):
            if "watch" not in request.query:
                return web.json_response({"metadata": {"resourceVersion": "100"}, "items": []})
            first = int(request.query["resourceVersion"]) + 1
            if first == 100 + total:  # all that can be read was: cut again and again, it would list anew
                await done.wait()
            data = b"".join(line(number) for number in range(first, min(first + 7, 101 + total)))
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(data[:-30] if data else b"")
            request.transport.close()
            return response

        async def no_wait(_delay_s):
            await asyncio.sleep(0)

        async with transport_to(handler) as transport:
            reflector = Reflector(
                transport,
                POD,
                told.extend,
                may_stream=False,
                report=lambda trouble: reports.append(str(trouble)),
                sleep=no_wait,
            )
            task = asyncio.create_task(reflector.run())
            await until(lambda: reflector.resource_version == str(100 + total - 1))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            done.set()
        names = [change.object.metadata.name for change in told if hasattr(change, "object")]
        assert names == [f"p{number}" for number in range(101, 100 + total)]
        assert any("cut short" in report for report in reports)


async def test_watches_leave_the_pool_of_connections_to_requests():
    """As many watches as the pool has connections, and one more: a binding does not wait for any of them."""
    watching, end = [], asyncio.Event()

    async def handler(request):
        if "watch" not in request.query:
            return web.Response(body=b"{}")
        response = web.StreamResponse()
        await response.prepare(request)
        watching.append(request)
        await end.wait()
        return response

    async with transport_to(handler) as transport:
        watches = [asyncio.create_task(read(transport)) for _ in range(MAX_CONNECTIONS + 1)]
        await until(lambda: len(watching) == len(watches))
        async with asyncio.timeout(WAIT_S):
            await transport.bind("ns", "p", b"{}")
            await transport.update(LEASE, "ns", "l", b"{}")
        end.set()
        await asyncio.gather(*watches)


class TestRateLimit:
    async def test_events_do_not_use_up_the_turn_of_bindings_and_leases(self):
        waits = []

        async def sleep(delay_s):
            waits.append(delay_s)

        async with transport_to(Recorder(), rate_limit=RateLimit(qps=0.001, burst=2), sleep=sleep) as transport:
            for _ in range(3):
                await transport.create(EVENT, "ns", b"{}")
            assert len(waits) == 1
            await transport.bind("ns", "p", b"{}")
            await transport.update(LEASE, "ns", "l", b"{}")
            assert len(waits) == 1 and transport.throttled_s > 900

    async def test_a_lease_does_not_wait_for_the_turn_of_bindings(self):
        waits = []

        async def sleep(delay_s):
            waits.append(delay_s)

        async with transport_to(Recorder(), rate_limit=RateLimit(qps=0.001, burst=2), sleep=sleep) as transport:
            for _ in range(3):
                await transport.bind("ns", "p", b"{}")
            assert len(waits) == 1, "the bindings have used up their turns"
            await transport.update(LEASE, "ns", "l", b"{}")
            await transport.get(LEASE, "ns", "l")
            assert len(waits) == 1

    async def test_bindings_do_not_use_up_the_turn_of_leases(self):
        waits = []

        async def sleep(delay_s):
            waits.append(delay_s)

        async with transport_to(Recorder(), rate_limit=RateLimit(qps=0.001, burst=2), sleep=sleep) as transport:
            for number in range(3):
                await transport.bind("ns", f"p{number}", b"{}")
            assert len(waits) == 1
            await transport.update(LEASE, "ns", "l", b"{}")
            await transport.get(LEASE, "ns", "l")
            assert len(waits) == 1


class TestCallingOff:
    """At the end of the process: what was not sent is not sent any more, whatever it waits for."""

    async def test_writes_that_wait_for_their_turn_end_unsent_and_reads_and_events_pass(self):
        recorder = Recorder()
        slow = RateLimit(qps=0.001, burst=1)
        async with transport_to(recorder, rate_limit=slow, sleep=lambda _: for_ever()) as transport:
            guarded = transport.guarded(Open())
            first = [transport.bind("ns", "first", b"{}"), transport.create(EVENT, "ns", b"{}")]
            await asyncio.gather(*first)
            waiting = [
                asyncio.create_task(call)
                for call in (
                    transport.bind("ns", "p", b"{}"),
                    guarded.bind("ns", "p", b"{}"),
                    transport.get(POD, "ns", "p"),
                    transport.create(EVENT, "ns", b'{"late":1}'),
                )
            ]
            await settle()
            assert len(recorder.requests) == 2 and not any(task.done() for task in waiting)
            transport.call_off()
            bound, fenced, read, event = await asyncio.gather(*waiting, return_exceptions=True)
            assert type(bound) is type(fenced) is CalledOff and (read, event) == (b"{}", b"{}")
            with pytest.raises(CalledOff, match="the process is ending"):
                await transport.patch(POD, "ns", "p", b"{}", "application/merge-patch+json")
            await transport.update(LEASE, "ns", "l", b"{}")
            await transport.create(EVENT, "ns", b"{}")
        assert [request[0] for request in recorder.requests].count("POST") == 4

    async def test_a_write_that_the_server_has_put_off_ends_too(self):
        async def later(_request):
            asked.append(1)
            return web.Response(status=429, headers={"Retry-After": "9"})

        asked = []
        async with transport_to(later, sleep=lambda _: for_ever()) as transport:
            binding = asyncio.create_task(transport.bind("ns", "p", b"{}"))
            await until(lambda: asked)
            await settle()
            transport.call_off()
            with pytest.raises(CalledOff):
                await binding
        assert len(asked) == 1


class Open:
    """A fence that lets everything pass."""

    def check(self):
        pass

    def left_s(self):
        return 9.0


class TestTls:
    @staticmethod
    async def ask(tls, server_context):
        async def handler(request):
            peer = request.transport.get_extra_info("peercert")
            return web.Response(text=str(dict(pair[0] for pair in peer["subject"])["commonName"]) if peer else "hello")

        async with transport_to(
            handler, ssl_context=server_context, access=lambda url: ClusterAccess(url, tls=tls)
        ) as transport:
            return await transport.get(NODE, "", "n")

    async def test_own_ca(self, tmp_path):
        made = Certificates(tmp_path)
        assert await self.ask(TlsSettings(ca_pem=made.ca.read_bytes()), made.server_context()) == b"hello"

    async def test_unknown_ca(self, tmp_path):
        made = Certificates(tmp_path)
        with pytest.raises(
            ConnectionLost, match=r"certificate of 127\.0\.0\.1:.* is not accepted.*certificate-authority"
        ):
            await self.ask(TlsSettings(), made.server_context())

    async def test_insecure(self, tmp_path):
        made = Certificates(tmp_path)
        assert await self.ask(TlsSettings(insecure_skip_verify=True), made.server_context(["other"])) == b"hello"

    async def test_server_name(self, tmp_path):
        made = Certificates(tmp_path)
        tls = TlsSettings(ca_pem=made.ca.read_bytes(), server_name="kubernetes.default")
        assert await self.ask(tls, made.server_context(["kubernetes.default"])) == b"hello"
        with pytest.raises(ConnectionLost, match="tls-server-name"):
            await self.ask(tls, made.server_context(["other"]))

    async def test_client_certificate(self, tmp_path):
        made = Certificates(tmp_path)
        certificate, key = (path.read_bytes() for path in made.issue("system:kube-scheduler"))
        tls = TlsSettings(ca_pem=made.ca.read_bytes(), certificate_pem=certificate, key_pem=key)
        assert await self.ask(tls, made.server_context(ask_client=True)) == b"system:kube-scheduler"

    async def test_no_tls_behind_the_port(self, tmp_path):
        async with serving(Recorder()) as url:
            transport = HttpTransport(ClusterAccess(url.replace("http:", "https:")))
            with pytest.raises(ConnectionLost, match="GET /api/v1/nodes/n: no TLS connection to 127") as caught:
                await transport.get(NODE, "", "n")
            assert "object at 0x" not in str(caught.value)
            await transport.close()
