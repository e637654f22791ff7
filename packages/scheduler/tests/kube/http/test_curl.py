"""Requests by libcurl: what is sent when, and that every failure looks as it does with aiohttp.

What aiohttp does is the specification here: tests of failures make the same one both ways, and compare. That a write is
sent once, and only after its guard has let it pass, is what keeps two schedulers from writing at the same time.
"""

import asyncio
import random
import socket
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web

from berth.api.errors import ApiError, ConnectionLost
from berth.api.resources import RESOURCES
from berth.kube.credentials.sources import ClusterAccess, Credential, StaticCredential
from berth.kube.credentials.tls import TlsSettings
from berth.kube.fence import Fence, WriteRefused, fenced
from berth.kube.http import client, curl
from berth.kube.http.client import HttpTransport
from berth.kube.http.connections import KEEPALIVE_S, MAX_CONNECTIONS, _set_options
from berth.kube.http.rate_limit import RateLimit
from berth.kube.http.watcher import RequestWatcher
from packages.scheduler.tests.kube.servers import Certificates, serving
from tests.waiting import WAIT_S, settle, slowly, until

pytestmark = pytest.mark.skipif(not curl.is_available(), reason="no libcurl here that can do it")

POD, NODE, LEASE = (RESOURCES[kind] for kind in ("Pod", "Node", "Lease"))
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
MERGE = "application/merge-patch+json"
WRITES = {
    "POST": lambda t, body: t.bind("ns", "p", body),
    "PUT": lambda t, body: t.update(POD, "ns", "p", body),
    "PATCH": lambda t, body: t.patch(POD, "ns", "p", body, MERGE),
    "DELETE": lambda t, body: t.delete(POD, "ns", "p", body),
}
CALLS = WRITES | {"GET": lambda t, _: t.get(POD, "ns", "p")}
MAY_BE_REPEATED = ("GET", "PUT", "DELETE")


class Noted(RequestWatcher):
    """Every request, without its time."""

    def __init__(self):
        self.seen, self.seconds = [], []

    def answered(self, method, host, code, seconds):
        self.seen.append((method, code))
        self.seconds.append(seconds)

    def sized(self, method, host, sent, received):
        self.seen.append((method, sent, received))

    def retried(self, method, host, code):
        self.seen.append((method, "again", code))


class Gate:
    """A guard that counts how often it was asked, and lets so many pass."""

    def __init__(self, passes=10**6, when_asked=lambda: None):
        self.asked, self.passes, self.when_asked = 0, passes, when_asked

    def check(self):
        self.asked += 1
        self.when_asked()
        if self.asked > self.passes:
            raise WriteRefused("the lease is not held")

    def left_s(self):
        return 7.9


class RawServer:
    """Sockets without a web server: notes each request, and does with it what `act(writer, number)` does."""

    def __init__(self, act, ssl_context=None):
        self.act, self.ssl_context = act, ssl_context
        self.accepted, self.gone, self.heads, self.bodies, self.ended = 0, 0, [], [], asyncio.Event()
        self.received = b""

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.ssl_context)
        port = self.server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self.ssl_context else 'http'}://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_):
        await settle()  # what was connected last is accepted some turns later
        self.server.close()
        async with asyncio.timeout(WAIT_S):
            await until(lambda: self.gone >= self.accepted)
        await settle()

    async def _serve(self, reader, writer):
        self.accepted += 1
        try:
            while await self._take(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.ended.set()
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            self.gone += 1

    async def _take(self, reader, writer):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            self.received += error.partial
            return False
        self.received += head
        length = [int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if b"content-length" in line]
        self.heads.append(head)
        try:
            body = await reader.readexactly(length[0] if length else 0)
        except asyncio.IncompleteReadError as error:
            self.received += error.partial
            return False
        self.received += body
        self.bodies.append(body)
        await self.act(writer, len(self.heads))
        return not writer.is_closing()


async def answer(writer, _number):
    writer.write(ANSWER)


def transport_to(url, by_curl=True, access=None, **options):
    transport = HttpTransport(access or ClusterAccess(url), rate_limit=RateLimit(qps=-1), **options)
    assert (transport._connections.curl(for_leases=False) is not None) is by_curl
    return transport


@asynccontextmanager
async def using(transport):
    try:
        async with asyncio.timeout(WAIT_S):
            yield transport
    finally:
        await transport.close()


@pytest.fixture
def without_curl(monkeypatch):
    """Have transports that are made from now on do everything by aiohttp."""
    return lambda: monkeypatch.setattr(client.curl, "is_available", lambda: False)


# -- the guard ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", WRITES)
async def test_the_guard_is_asked_once_for_each_send_when_there_is_a_connection(verb):
    async with RawServer(answer) as server:
        asked_after = []
        gate = Gate(when_asked=lambda: asked_after.append((is_connected_to(server), len(server.bodies))))
        async with using(transport_to(server.url)) as transport:
            for _ in range(3):
                await WRITES[verb](transport.guarded(gate), b'{"a":1}')
    assert gate.asked == 3 and server.bodies == [b'{"a":1}'] * 3 and server.accepted == 1
    assert asked_after == [(True, 0), (True, 1), (True, 2)]


def is_connected_to(server):
    """Whether a connection to this server is established, as the system knows it."""
    port = f"{server.server.sockets[0].getsockname()[1]:04X}"
    with open("/proc/net/tcp") as lines:  # noqa: PTH123
        fields = [line.split() for line in lines][1:]
    return any(field[2].endswith(f":{port}") and field[3] == "01" for field in fields)


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize("kept", [False, True], ids=["new connection", "kept connection"])
async def test_what_the_guard_refuses_is_not_sent(verb, kept):
    async with RawServer(answer) as server, using(transport_to(server.url)) as transport:
        if kept:
            await transport.get(POD, "ns", "p")
        gate = Gate(0)
        with pytest.raises(WriteRefused, match="not held"):
            await WRITES[verb](transport.guarded(gate), b"SECRET")
        assert gate.asked == 1
        await WRITES[verb](transport.guarded(Gate()), b"open")
    assert b"SECRET" not in server.received and server.bodies[-1] == b"open"


async def pass_on(reader, writer):
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


async def test_shut_while_the_handshake_goes_on(tmp_path):
    """Somebody between takes connections, and takes time to pass on what comes: the guard is asked after that."""
    made, arrived, go_on = Certificates(tmp_path), asyncio.Event(), asyncio.Event()

    async def relay(reader, writer):
        arrived.set()
        await go_on.wait()
        to_server = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
        await asyncio.gather(pass_on(reader, to_server[1]), pass_on(to_server[0], writer))
        ended.set()

    ended = asyncio.Event()
    async with RawServer(answer, made.server_context()) as server:
        between = await asyncio.start_server(relay, "127.0.0.1", 0)
        url = f"https://127.0.0.1:{between.sockets[0].getsockname()[1]}"
        access = ClusterAccess(url, tls=TlsSettings(ca_pem=made.ca.read_bytes()))
        async with using(transport_to(url, access=access)) as transport:
            gate = Gate()
            writing = asyncio.create_task(transport.guarded(gate).bind("ns", "p", b"SECRET"))
            await arrived.wait()
            await slowly(0.01)
            assert gate.asked == 0
            gate.passes = 0
            go_on.set()
            with pytest.raises(WriteRefused):
                await writing
            await ended.wait()
        between.close()
        assert gate.asked == 1 and server.accepted == 1 and b"SECRET" not in server.received


async def test_a_refusal_keeps_its_kind_and_its_words():
    class ClosedError(Exception):
        pass

    def refuse():
        raise ClosedError("for good")

    async with RawServer(answer) as server, using(transport_to(server.url)) as transport:
        with pytest.raises(ClosedError, match="for good"):
            await transport.guarded(Gate(when_asked=refuse)).bind("ns", "p", b"{}")


async def test_a_body_of_many_pieces_is_checked_at_each():
    body = bytes(300_000)
    async with RawServer(answer) as server, using(transport_to(server.url)) as transport:
        gate = Gate()
        await transport.guarded(gate).bind("ns", "p", body)
        assert server.bodies == [body] and gate.asked > 1
        with pytest.raises(WriteRefused):
            await transport.guarded(Gate(1)).bind("ns", "p", body)
        assert len(server.bodies) == 1


async def hang_up(writer, _number):
    writer.close()


async def reset(writer, _number):
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0, 0, 0, 0, 0]))
    writer.close()


@pytest.mark.parametrize("break_it", [hang_up, reset])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("verb", CALLS)
async def test_a_kept_connection_that_breaks_when_the_next_request_has_arrived(tmp_path, verb, break_it, tls):
    """The server has the whole request: what may have taken effect is not sent again."""

    async def act(writer, number):
        await (break_it if number == 2 else answer)(writer, number)

    context, access = None, None
    made = Certificates(tmp_path) if tls else None
    if made:
        context = made.server_context()
    async with RawServer(act, context) as server:
        if made:
            access = ClusterAccess(server.url, tls=TlsSettings(ca_pem=made.ca.read_bytes()))
        gate, watcher = Gate(), Noted()
        async with using(transport_to(server.url, access=access, watcher=watcher)) as transport:
            write = transport.guarded(gate)
            await CALLS[verb](write, b"1")
            if verb in MAY_BE_REPEATED:
                assert await CALLS[verb](write, b"2") == b"{}"
            else:
                with pytest.raises(ConnectionLost, match="the connection broke: ") as caught:
                    await CALLS[verb](write, b"2")
                assert caught.value.sent and caught.value.outcome_unknown
            if verb != "GET":
                assert gate.asked == len(server.bodies)
            await CALLS[verb](write, b"3")
    once = {"POST", "PATCH"}
    assert server.bodies == (
        [b""] * 4 if verb == "GET" else [b"1", b"2", b"3"] if verb in once else [b"1", b"2", b"2", b"3"]
    )
    assert server.accepted == 2


@pytest.mark.parametrize("verb", ["PUT", "DELETE"])
async def test_the_guard_shuts_before_it_is_sent_again(verb):
    async def act(writer, number):
        await (hang_up if number == 2 else answer)(writer, number)

    async with RawServer(act) as server, using(transport_to(server.url)) as transport:
        gate = Gate(2)
        await WRITES[verb](transport.guarded(gate), b"1")
        with pytest.raises(WriteRefused):
            await WRITES[verb](transport.guarded(gate), b"2")
        assert gate.asked == 3 and server.bodies == [b"1", b"2"]


@pytest.mark.parametrize("break_it", [hang_up, reset])
@pytest.mark.parametrize("verb", CALLS)
async def test_a_kept_connection_that_the_server_has_closed_meanwhile(verb, break_it):
    """As servers do after a while: nobody has read the next request, so it goes to another connection."""

    async def act(writer, number):
        await answer(writer, number)
        await writer.drain()
        await slowly(0.001)
        await break_it(writer, number)

    async with RawServer(act) as server, using(transport_to(server.url)) as transport:
        gate = Gate()
        for number in range(3):
            assert await CALLS[verb](transport.guarded(gate), b"%d" % number) == b"{}"
            await until(lambda number=number: server.gone > number)
            await settle()
        if verb != "GET":
            assert server.bodies == [b"0", b"1", b"2"] and gate.asked == 3


@pytest.mark.parametrize("verb", CALLS)
async def test_what_comes_unasked_on_a_kept_connection_answers_no_request(verb):
    """Proxies say 408 to a connection on which nothing was asked for a while."""
    is_answered, is_said = asyncio.Event(), asyncio.Event()

    async def act(writer, number):
        await answer(writer, number)
        if number == 1:
            await is_answered.wait()
            writer.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            is_said.set()

    async with RawServer(act) as server, using(transport_to(server.url)) as transport:
        assert await CALLS[verb](transport, b"1") == b"{}"
        is_answered.set()
        await is_said.wait()
        await settle()  # the event loop sees what has come
        assert await CALLS[verb](transport, b"2") == b"{}"
        assert server.accepted == 2 and len(server.bodies) == 2


@pytest.mark.parametrize("seed", range(6))
async def test_writes_to_a_server_that_breaks_at_any_time(seed):
    """No POST arrives twice, and none without the guard; what is answered has arrived."""
    rng = random.Random(seed)

    async def act(writer, _number):
        choice = rng.random()
        if choice < 0.6:
            await answer(writer, 0)
        if choice < 0.1:
            await (hang_up if rng.random() < 0.5 else reset)(writer, 0)  # after the answer
        elif choice < 0.75:
            await slowly(0.001 * rng.random())
        elif choice < 0.85:
            writer.write(ANSWER[: rng.randrange(len(ANSWER))])
            await writer.drain()
            writer.close()
        else:
            await (hang_up if rng.random() < 0.5 else reset)(writer, 0)
        if 0.6 <= choice < 0.75:
            await answer(writer, 0)

    passed, answered = {}, set()

    class Counting:
        def __init__(self, body):
            self.body = body

        def check(self):
            if rng.random() < 0.1:
                raise WriteRefused("not now")
            passed[self.body] = passed.get(self.body, 0) + 1

        def left_s(self):
            return 5.0

    async with RawServer(act) as server, using(transport_to(server.url, request_timeout_s=2.0)) as transport:
        numbers = iter(range(400))

        async def write():
            for number in numbers:
                verb = rng.choice(["POST", "PATCH", "PUT"])
                body = f"{verb} {number}".encode()
                call = asyncio.ensure_future(WRITES[verb](transport.guarded(Counting(body)), body))
                if rng.random() < 0.1:
                    await slowly(0.002 * rng.random())
                    call.cancel()
                try:
                    await call
                    answered.add(body)
                except WriteRefused:
                    assert passed.get(body, 0) == 0 or verb == "PUT"
                except (ConnectionLost, asyncio.CancelledError):
                    pass

        await asyncio.gather(*(write() for _ in range(12)))
        connections = transport._connections.curl(for_leases=False)
        assert not connections._active and len(connections._idle) == connections._made
    for body in set(server.bodies):
        assert server.bodies.count(body) <= passed[body] <= (2 if body.startswith(b"PUT") else 1)
    assert answered <= set(server.bodies) and len(answered) > 100


async def test_a_fence_that_shuts_cuts_the_request_off():
    hold = asyncio.Event()

    async def act(_writer, _number):
        await hold.wait()

    async with RawServer(act) as server, using(transport_to(server.url)) as transport:
        fence = Fence("ns/lease", lambda: 0.0)
        fence.extend(10.0)
        writing = asyncio.create_task(fenced(transport, lambda _: fence).bind("ns", "p", b"{}"))
        await until(lambda: server.bodies)
        fence.shut("it was taken over by another")
        with pytest.raises(ConnectionLost, match="cut off"):
            await writing
        hold.set()
        await server.ended.wait()


# -- cancelling and closing --------------------------------------------------------------------------------------


async def test_a_cancelled_request_ends_its_connection_and_harms_no_other():
    hold = asyncio.Event()

    async def act(writer, number):
        if number == 1:
            await asyncio.wait(
                {asyncio.ensure_future(hold.wait()), asyncio.ensure_future(closed(writer))},
                return_when=asyncio.FIRST_COMPLETED,
            )
            writer.close()
        else:
            await answer(writer, number)

    async def closed(writer):
        await until(lambda: writer.transport.is_closing() or writer._protocol._stream_reader.at_eof())

    async with RawServer(act) as server, using(transport_to(server.url)) as transport:
        doomed = asyncio.create_task(transport.bind("ns", "p", b"{}"))
        await until(lambda: server.bodies)
        doomed.cancel()
        with pytest.raises(asyncio.CancelledError):
            await doomed
        await server.ended.wait()
        assert not hold.is_set()
        assert await transport.bind("ns", "p", b"{}") == b"{}"
        hold.set()


async def test_cancelled_before_anything_is_sent():
    async with RawServer(answer) as server, using(transport_to(server.url)) as transport:
        gate = Gate()
        for turns in range(4):
            doomed = asyncio.create_task(transport.guarded(gate).bind("ns", "p", b"doomed"))
            for _ in range(turns):
                await asyncio.sleep(0)
            doomed.cancel()
            with pytest.raises(asyncio.CancelledError):
                await doomed
            assert await transport.bind("ns", "p", b"other") == b"{}"
        assert server.bodies.count(b"doomed") <= gate.asked and server.bodies.count(b"other") == 4


async def test_those_that_wait_for_a_connection_may_be_cancelled_or_time_out():
    release = asyncio.Event()

    async def act(writer, number):
        await release.wait()
        await answer(writer, number)

    async with RawServer(act) as server, using(transport_to(server.url)) as transport:
        herd = [asyncio.create_task(transport.bind("ns", "p", b"%d" % number)) for number in range(MAX_CONNECTIONS)]
        await until(lambda: len(server.bodies) == MAX_CONNECTIONS)
        waiting = [asyncio.create_task(transport.bind("ns", "p", b"late")) for _ in range(6)]
        connections = transport._connections.curl(for_leases=False)
        with pytest.raises(TimeoutError):
            await connections.ask(curl.CurlRequest("GET", server.url, [], b"", None, None), 0.02)
        waiting[0].cancel()
        release.set()
        # One is given a connection in the very moment in which it is cancelled.
        while not any(task.done() for task in herd):
            await asyncio.sleep(0)
        waiting[1].cancel()
        results = await asyncio.gather(*herd, *waiting, return_exceptions=True)
        assert [result for result in results if result != b"{}"].__len__() in (1, 2)
        assert len(connections._idle) == connections._made == MAX_CONNECTIONS and not connections._active
        assert await transport.bind("ns", "p", b"{}") == b"{}"


async def test_closing_ends_what_is_under_way():
    async with RawServer(silence) as server:
        transport = transport_to(server.url)
        tasks = [asyncio.create_task(transport.bind("ns", "p", b"{}")) for _ in range(MAX_CONNECTIONS + 2)]
        await until(lambda: len(server.bodies) == MAX_CONNECTIONS)
        await transport.close()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(result, ConnectionLost)
        with pytest.raises(RuntimeError, match="closed"):
            await transport.bind("ns", "p", b"{}")
        await transport.close()


async def test_a_connection_that_the_server_closed_leaves_the_loop_in_peace():
    async def act(writer, number):
        await answer(writer, number)
        await writer.drain()
        writer.close()

    async with RawServer(act) as server, using(transport_to(server.url)) as transport:
        await transport.bind("ns", "p", b"{}")
        await server.ended.wait()
        connections = transport._connections.curl(for_leases=False)
        await settle()
        assert connections._epoll.poll(0) == [] and connections._wanted == {}


# -- failures, as with aiohttp -----------------------------------------------------------------------------------


async def silence(writer, _number):
    """Until the client goes."""
    await writer._reader.read()


def saying(data, then=hang_up):
    async def act(writer, number):
        writer.write(data)
        await writer.drain()
        await then(writer, number)

    return act


FAILURES = {
    "hangs up": hang_up,
    "reset": reset,
    "silence": silence,
    "short answer": saying(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"),
    "short refusal": saying(b"HTTP/1.1 409 Conflict\r\nContent-Length: 9\r\n\r\n{}"),
    "reset in the answer": saying(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", reset),
    "short chunks": saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"),
    "half a head": saying(b"HTTP/1.1 200 OK\r\nContent-"),
    "only an interim answer": saying(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "an interim answer and half a line": saying(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 20"),
    "nothing of HTTP": saying(b"hello\r\n\r\n"),
    "silent after the head": saying(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", silence),
}
GARBLED = ("half a head", "an interim answer and half a line", "nothing of HTTP")


async def failure_of(call, transport, watcher):
    async with using(transport):
        with pytest.raises((ApiError, ConnectionLost)) as caught:
            await call(transport)
    error = caught.value
    flags = error.outcome_unknown, error.is_of_all_requests, getattr(error, "sent", None)
    return type(error), str(error), flags, watcher.seen


@pytest.mark.parametrize("verb", CALLS)
@pytest.mark.parametrize("failure", FAILURES)
async def test_failures_are_those_of_aiohttp(failure, verb, without_curl):
    async with RawServer(FAILURES[failure]) as server:
        found = []
        for by_curl in (True, False):
            if not by_curl:
                without_curl()
            watcher = Noted()
            patience_s = 0.5 if "silen" in failure else WAIT_S
            transport = transport_to(server.url, by_curl, watcher=watcher, request_timeout_s=patience_s)
            found.append(await failure_of(lambda t: CALLS[verb](t, b"{}"), transport, watcher))
    if failure in GARBLED:  # each parser has its words, and the rest is the same
        found = [(kind, words[: words.index("broke: ")], *rest) for kind, words, *rest in found]
    assert found[0] == found[1]


async def test_an_address_where_nobody_listens(without_curl):
    found = []
    for by_curl in (True, False):
        if not by_curl:
            without_curl()
        watcher = Noted()
        transport = transport_to("http://127.0.0.1:1", by_curl, watcher=watcher)
        found.append(await failure_of(lambda t: t.bind("ns", "p", b"{}"), transport, watcher))
    assert found[0] == found[1] and "cannot connect to 127.0.0.1:1: Connection refused" in found[0][1]


@pytest.mark.parametrize("host", ["127.0.0.1", "other"])
@pytest.mark.parametrize("case", ["unknown CA", "own CA", "client certificate", "no client certificate"])
async def test_certificates_are_judged_as_with_aiohttp(tmp_path, without_curl, case, host):
    made, others = (
        Certificates(tmp_path),
        Certificates(tmp_path / "others") if (tmp_path / "others").mkdir() is None else None,
    )
    context = made.server_context([host], ask_client="client" in case)
    ca = (others if case == "unknown CA" else made).ca.read_bytes()
    certificate, key = (path.read_bytes() for path in made.issue("me"))
    pair = {"certificate_pem": certificate, "key_pem": key} if case == "client certificate" else {}

    async def handler(request):
        peer = request.transport.get_extra_info("peercert")
        return web.Response(text=str(peer["subject"]) if peer else "nobody")

    async with serving(handler, context) as url:
        found = []
        for by_curl in (True, False):
            if not by_curl:
                without_curl()
            access = ClusterAccess(url, tls=TlsSettings(ca_pem=ca, **pair))
            async with using(transport_to(url, by_curl, access)) as transport:
                try:
                    found.append(await transport.bind("ns", "p", b"{}"))
                except ConnectionLost as error:
                    found.append((error.sent, error.is_of_all_requests, words(error)))
    assert found[0] == found[1]
    assert isinstance(found[0], bytes) is (host == "127.0.0.1" and case in ("own CA", "client certificate"))


def words(error):
    """The message without what OpenSSL adds, which differs between two requests."""
    return str(error).partition("connection broke")[:2]


async def test_a_new_client_certificate_is_shown_on_a_new_connection(tmp_path):
    made = Certificates(tmp_path)

    class Renewed:
        names = iter(["first", "second", "second"])

        async def current(self):
            certificate, key = issued[next(self.names)]
            return Credential(certificate_pem=certificate.read_bytes(), key_pem=key.read_bytes())

        def invalidate(self, refused):
            return False

    issued = {name: made.issue(name) for name in ("first", "second")}

    async def handler(request):
        seen.append(request.transport.get_extra_info("peername"))
        peer = request.transport.get_extra_info("peercert")
        return web.Response(text=dict(pair[0] for pair in peer["subject"])["commonName"])

    seen = []
    async with serving(handler, made.server_context(ask_client=True)) as url:
        access = ClusterAccess(url, tls=TlsSettings(ca_pem=made.ca.read_bytes()), source=Renewed())
        async with using(transport_to(url, access=access)) as transport:
            assert [await transport.get(NODE, "", "n") for _ in range(3)] == [b"first", b"second", b"second"]
    assert seen[0] != seen[1] == seen[2]


async def test_what_libcurl_alone_cannot_connect_to_is_left_to_aiohttp_from_then_on(monkeypatch):
    tries = []

    async def refused(*_arguments):
        tries.append(1)
        raise curl.NotBegunError(60, "not accepted")

    async with RawServer(answer) as server, using(transport_to(server.url)) as transport:
        monkeypatch.setattr(curl.CurlRequests, "ask", refused)
        for _ in range(3):
            assert await transport.bind("ns", "p", b"{}") == b"{}"
    assert len(tries) == 1 and len(server.bodies) == 3


# -- what is asked -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", CALLS)
async def test_requests_are_those_of_aiohttp(verb, without_curl):
    async with RawServer(answer) as server:
        seen = []
        for by_curl in (True, False):
            if not by_curl:
                without_curl()
            watcher = Noted()
            groups = [("Impersonate-Group", "a"), ("Impersonate-Group", "b")]
            access = ClusterAccess(server.url, source=StaticCredential(Credential(token="secret")), headers=groups)
            async with using(transport_to(server.url, by_curl, access, watcher=watcher)) as transport:
                await CALLS[verb](transport.guarded(Gate()), b'{"a":1}')
            line, *headers = server.heads[-1].rstrip().split(b"\r\n")
            seen.append((line, sorted(header.lower() for header in headers), server.bodies[-1], watcher.seen))
    assert seen[0] == seen[1]


async def test_the_time_until_the_answer_begins_is_told():
    async def act(writer, _number):
        await slowly(0.05)
        writer.write(ANSWER[:-2])
        await settle()  # the client sees the head
        await slowly(0.2)
        writer.write(ANSWER[-2:])

    watcher = Noted()
    async with RawServer(act) as server, using(transport_to(server.url, watcher=watcher)) as transport:
        began = asyncio.get_running_loop().time()
        await transport.bind("ns", "p", b"{}")
        taken = asyncio.get_running_loop().time() - began
    assert watcher.seen == [("POST", "200"), ("POST", 2, 2)] and 0.04 < watcher.seconds[0] < taken - 0.19


async def test_a_long_answer():
    long = bytes(2_000_000)

    async def act(writer, _number):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n" + long)

    async with RawServer(act) as server, using(transport_to(server.url)) as transport:
        assert await transport.get(NODE, "", "n") == long


async def test_sockets_send_at_once_and_notice_a_dead_peer():
    found = []

    def set_options(made):
        _set_options(made)
        found.append(
            [made.getsockopt(socket.IPPROTO_TCP, option) for option in (socket.TCP_NODELAY, socket.TCP_KEEPIDLE)]
        )
        found.append(made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))

    async with RawServer(answer) as server:
        connections = curl.CurlRequests(1, set_options)
        request = curl.CurlRequest("GET", server.url + "/", [], b"", None, None)
        assert (await connections.ask(request, 5.0)).body == b"{}"
        connections.close()
    assert found == [[1, KEEPALIVE_S], 1]


def test_another_event_loop():
    uvloop = pytest.importorskip("uvloop")

    async def ask():
        async with RawServer(answer) as server, using(transport_to(server.url)) as transport:
            gate = Gate()
            await asyncio.gather(*(transport.guarded(gate).bind("ns", "p", b"{}") for _ in range(200)))
            assert gate.asked == 200 and server.accepted <= MAX_CONNECTIONS
            with pytest.raises(WriteRefused):
                await transport.guarded(Gate(0)).bind("ns", "p", b"{}")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(ask())


# -- when aiohttp does it ----------------------------------------------------------------------------------------


CA = TlsSettings(ca_pem=b"x")


@pytest.mark.parametrize(
    ("access", "does"),
    [
        (ClusterAccess("http://127.0.0.1:1"), True),
        (ClusterAccess("https://127.0.0.1:1", tls=CA), True),
        (ClusterAccess("https://127.0.0.1:1", tls=TlsSettings(insecure_skip_verify=True)), True),
        (ClusterAccess("https://127.0.0.1:1"), False),
        (ClusterAccess("https://127.0.0.1:1", tls=TlsSettings(ca_pem=b"x", server_name="other")), False),
        (ClusterAccess("https://127.0.0.1:1", tls=CA, proxy="http://127.0.0.1:2"), False),
    ],
)
def test_what_libcurl_can_do(access, does):
    assert curl.can_do(access) is does


class Library:
    """A pycurl of another build."""

    def __init__(self, version="8.23.0", tls="OpenSSL/3.6.5", without=""):
        self.version, self.tls = version, tls
        for name in curl.NEEDED:
            if name != without:
                setattr(self, name, 1)

    def version_info(self):
        return (11, self.version, 0, "Linux", 0, self.tls)


@pytest.mark.parametrize(
    ("library", "is_available"),
    [
        (Library(), True),
        (Library("8.24.0-DEV"), True),
        (None, False),
        (Library("8.22.9"), False),
        (Library(tls="GnuTLS/3.8"), False),
        (Library(tls="(SecureTransport) OpenSSL/3"), False),
        (Library(without="CAINFO_BLOB"), False),
    ],
)
async def test_without_a_libcurl_that_can_do_it_aiohttp_does_everything(monkeypatch, library, is_available):
    monkeypatch.setattr(curl, "pycurl", library)
    assert curl.is_available() is is_available
    if not is_available:
        async with RawServer(answer) as server, using(transport_to(server.url, by_curl=False)) as transport:
            assert await transport.bind("ns", "p", b"{}") == b"{}"


def test_whoever_is_on_call_can_switch_it_off(monkeypatch):
    monkeypatch.setattr(curl, "pycurl", Library())
    monkeypatch.setenv("BERTH_LIBCURL", "off")
    assert not curl.is_available()


def test_without_epoll(monkeypatch):
    monkeypatch.delattr(curl.select, "epoll")
    assert not curl.is_available()


@pytest.mark.parametrize("header", [("A", ""), ("A", "b\r\nC: d"), ("A\n", "b")])
def test_headers_that_libcurl_would_change(header):
    assert curl.HeaderLists([header]).of("token", "") is None


def test_headers_are_made_once():
    lists = curl.HeaderLists([("Accept", "ü")])
    made = lists.of("t", "application/json")
    assert made == ["Accept: ü".encode(), b"Authorization: Bearer t", b"Content-Type: application/json", b"Expect:"]
    assert lists.of("t", "application/json") is made and lists.of("", "") == ["Accept: ü".encode(), b"Expect:"]
    assert lists.of("t2", "")[1] == b"Authorization: Bearer t2"
