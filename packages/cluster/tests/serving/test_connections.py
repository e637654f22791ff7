"""The listener under attack, over real sockets with short limits: others are answered, and the log stays short."""

import asyncio
import logging
import socket
import ssl

import pytest

from berth.serving import acceptor
from berth.serving.connections import (
    ConnectionLimits,
    ConnectionSlots,
    ServerConnection,
    within_descriptors,
)
from berth.serving.peer_errors import PeerErrorLog
from berth_cluster.serving.server import ApiServer
from packages.cluster.tests.objects import CONFIG_MAPS, config_map
from tests.waiting import WAIT_S, settle, until

SHORT = ConnectionLimits(
    total=40, on_trial=8, on_trial_per_peer=8, handshake_s=0.05, head_s=0.05, body_s=0.05, idle_s=0.1, stalled_s=0.05
)

PATIENT = ConnectionLimits(total=40, on_trial=8, on_trial_per_peer=8)
HEAD = b"GET /version HTTP/1.1\r\nHost: localhost\r\n"
MAPS_PATH = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def limits():
    return SHORT


@pytest.fixture
async def server(store, tmp_path, limits):
    server = ApiServer(store, tmp_path / "cluster", limits=limits)
    await server.start()
    yield server
    await server.stop()


class Peer:
    """A client of bytes."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def ended(self):
        """Whatever the server sends until it closes the connection, which it must do soon."""
        async with asyncio.timeout(WAIT_S):
            try:
                return await self.reader.read()
            except (ConnectionError, ssl.SSLError):
                return b""

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def head(self):
        async with asyncio.timeout(WAIT_S):
            return await self.reader.readuntil(b"\r\n\r\n")

    def close(self):
        self.writer.transport.abort()


@pytest.fixture
async def connect(server):
    opened = []

    async def connect(*, tls=True):
        # A small buffer: the kernel would take in many megabytes for a client that does not read.
        own = socket.socket()
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        own.setblocking(False)
        context = ssl.create_default_context(cadata=server.authority.certificate_pem.decode()) if tls else None
        port = int(server.url.rpartition(":")[2])
        await asyncio.get_running_loop().sock_connect(own, ("127.0.0.1", port))
        name = "127.0.0.1" if tls else None
        reader, writer = await asyncio.open_connection(sock=own, ssl=context, server_hostname=name)
        opened.append(Peer(reader, writer))
        return opened[-1]

    yield connect
    for peer in opened:
        peer.close()


def credential(server):
    return b"Authorization: Bearer " + server.token.encode() + b"\r\n"


async def gone(server, count=0):
    """Wait until so few connections are left on trial."""
    await until(lambda: server._listener.slots.on_trial <= count)


class TestDawdling:
    async def test_a_head_that_never_ends(self, server, connect, client):
        peer = await connect()
        await peer.send(HEAD)
        assert await peer.ended() == b""
        assert (await client.get("/version"))[0] == 200

    async def test_a_head_that_trickles(self, connect):
        peer = await connect()
        ended = asyncio.ensure_future(peer.ended())
        sent = 0
        while not ended.done():
            sent += 1
            assert sent < 100, "bytes now and then must not keep a connection"
            peer.writer.write((HEAD + b"x" * 100)[sent - 1 : sent])
            await asyncio.wait({ended}, timeout=0.01)
        assert await ended == b""

    async def test_a_connection_that_says_nothing(self, connect):
        assert await (await connect()).ended() == b""

    async def test_a_tls_handshake_that_never_begins(self, server, connect, client, caplog):
        peers = [await connect(tls=False) for _ in range(4)]
        for peer in peers:
            assert await peer.ended() == b""
        await gone(server)
        assert (await client.get("/version"))[0] == 200
        assert all(record.exc_info is None for record in caplog.records)

    async def test_a_body_that_trickles(self, server, connect):
        peer = await connect()
        await peer.send(
            f"POST {MAPS_PATH} HTTP/1.1\r\nHost: localhost\r\n".encode()
            + credential(server)
            + b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
        )
        answer = await peer.ended()
        assert answer.startswith(b"HTTP/1.1 408 ") and b'"reason":"Timeout"' in answer

    async def test_the_body_of_a_stranger_is_not_waited_for(self, connect):
        peer = await connect()
        await peer.send(f"POST {MAPS_PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{{".encode())
        assert (await peer.head()).startswith(b"HTTP/1.1 401 ")

    async def test_a_second_head_that_never_ends(self, server, connect):
        peer = await connect()
        await peer.send(HEAD + credential(server) + b"\r\n")
        assert b" 200 " in await peer.head()
        await peer.send(HEAD)
        await peer.ended()

    async def test_idling_between_requests(self, server, connect):
        peer = await connect()
        await peer.send(HEAD + credential(server) + b"\r\n")
        assert b" 200 " in await peer.head()
        await peer.ended()

    async def test_an_answer_that_nobody_reads(self, server, connect, store):
        for number in range(40):
            store.create(CONFIG_MAPS, "default", config_map(f"big-{number}", text="x" * 500_000))
        peer = await connect()
        peer.writer.transport.pause_reading()
        request = f"GET {MAPS_PATH} HTTP/1.1\r\nHost: a\r\n".encode() + credential(server) + b"\r\n"
        await peer.send(request)
        await until(lambda: server._listener.slots.let_in)
        await until(lambda: not server._listener.slots.let_in)

    async def test_a_watch_that_nobody_reads(self, server, connect, store):
        peer = await connect()
        peer.writer.transport.pause_reading()
        path = f"{MAPS_PATH}?watch=true&resourceVersion={store.revision}"
        await peer.send(f"GET {path} HTTP/1.1\r\nHost: a\r\n".encode() + credential(server) + b"\r\n")
        collection = store.collection(CONFIG_MAPS)
        await until(lambda: collection.watches)
        for number in range(60):
            store.create(CONFIG_MAPS, "default", config_map(f"big-{number}", text="x" * 500_000))
            await asyncio.sleep(0)
        await until(lambda: not collection.watches and not server._listener.slots.let_in)


class TestCrowds:
    @pytest.fixture
    def limits(self):
        return PATIENT

    async def test_half_sent_heads_keep_nobody_out(self, server, connect, client, caplog):
        """291 half-sent heads kept everybody out for 108 s and wrote 346 MB of tracebacks."""
        peers = []
        for _ in range(60):
            peers.append(await connect())
            await peers[-1].send(HEAD)
        assert server._listener.slots.on_trial <= PATIENT.on_trial
        assert (await client.get("/version"))[0] == 200
        for peer in peers[: -PATIENT.on_trial - 1]:
            await peer.ended()
        assert len(caplog.records) <= 2 and all(record.exc_info is None for record in caplog.records)
        assert sum(len(record.getMessage()) for record in caplog.records) < 500

    async def test_unfinished_handshakes_keep_nobody_out(self, server, connect, client, caplog):
        for _ in range(60):
            await connect(tls=False)
        assert (await client.get("/version"))[0] == 200
        assert server._listener.slots.on_trial <= PATIENT.on_trial
        assert len(caplog.records) <= 2 and all(record.exc_info is None for record in caplog.records)

    async def test_those_let_in_are_not_dropped_for_strangers(self, server, connect):
        known = await connect()
        await known.send(HEAD + credential(server) + b"\r\n")
        assert b" 200 " in await known.head()
        for _ in range(30):
            await connect()
        await known.send(HEAD + credential(server) + b"\r\n")
        async with asyncio.timeout(WAIT_S):
            assert b" 200 " in await known.reader.readuntil(b"\r\n\r\n")

    async def test_too_many_of_those_let_in(self, server, connect):
        statuses = []
        for _ in range(PATIENT.total - PATIENT.on_trial + 1):
            peer = await connect()
            await peer.send(HEAD + credential(server) + b"\r\n")
            statuses.append((await peer.head())[9:12])
        assert statuses == [b"200"] * (PATIENT.total - PATIENT.on_trial) + [b"429"]

    async def test_health_is_answered_in_a_crowd(self, server, connect):
        for _ in range(30):
            await connect()
        peer = await connect()
        await peer.send(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b" 200 " in await peer.head()

    async def test_a_system_that_accepts_no_more(self, server, connect, client, monkeypatch, caplog):
        monkeypatch.setattr(acceptor, "PAUSE_S", 0.01)
        loop = asyncio.get_running_loop()
        accept, refusals = loop.sock_accept, iter(range(20))

        async def refuse(listener):
            if next(refusals, None) is not None:
                raise OSError(24, "Too many open files")
            return await accept(listener)

        monkeypatch.setattr(loop, "sock_accept", refuse, raising=False)
        assert (await client.get("/version"))[0] == 200  # takes the accept that was waiting
        peer = await connect()
        await peer.send(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b" 200 " in await peer.head()
        assert len(caplog.records) <= 2 and "Too many open files" in caplog.text


class TestNonsense:
    @pytest.mark.parametrize(
        "sent",
        [
            b"\x16\x03\x01\x00\x00",
            b"SSH-2.0-x\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n",
            b"GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 1000 + b"\r\n",
        ],
    )
    async def test_what_is_not_http(self, connect, client, caplog, sent):
        peer = await connect()
        await peer.send(sent)
        answer = await peer.ended()
        assert answer[9:12] in (b"", b"400", b"401"), answer
        assert all(record.exc_info is None for record in caplog.records)
        assert (await client.get("/version"))[0] == 200

    async def test_a_client_that_knows_no_chunks(self, server, connect, store):
        for number in range(2):
            store.create(CONFIG_MAPS, "default", config_map(f"big-{number}", text="x" * 500_000))
        peer = await connect()
        await peer.send(f"GET {MAPS_PATH} HTTP/1.0\r\n".encode() + credential(server) + b"\r\n")
        answer = await peer.ended()
        assert answer.startswith(b"HTTP/1.0 200 ") and answer.endswith(b"]}") and len(answer) > 1_000_000

    async def test_a_head_without_end(self, connect):
        peer = await connect()
        await peer.send(HEAD)
        sent = 0
        while not peer.reader.at_eof():
            sent += 1
            assert sent < 1000, "4 MB of head were taken"
            peer.writer.write(b"x-a: " + b"b" * 4096 + b"\r\n")
            await peer.writer.drain()
            await settle()

    async def test_a_compressed_body_is_not_unpacked(self, server, client):
        headers = {"Content-Encoding": "gzip"}
        body = b"\x1f\x8b\x08\x00" + b"\x00" * 100
        status, answer = await client.send("POST", MAPS_PATH, data=body, headers=headers)
        assert status == 400 and "cannot be read" in answer["message"]


class TestPlaces:
    def slots(self, caplog=None, **limits):
        self.dropped = []
        made = ConnectionSlots(ConnectionLimits(total=20, **limits), PeerErrorLog(lambda: 0.0))

        def enter(peer):
            connection = ServerConnection(peer)
            connection.closes_by(lambda: self.dropped.append(connection))
            made.enter(connection)
            return connection

        return made, enter

    def test_the_oldest_of_the_busiest_peer_goes(self):
        slots, enter = self.slots(on_trial=5, on_trial_per_peer=4)
        quiet = enter("10.0.0.1")
        noisy = [enter("10.0.0.2") for _ in range(20)]
        assert self.dropped == noisy[:16] and quiet not in self.dropped
        assert slots.on_trial == 5

    def test_one_peer_cannot_take_all_places(self):
        slots, enter = self.slots(on_trial=8, on_trial_per_peer=3)
        for _ in range(10):
            enter("10.0.0.1")
        assert slots.on_trial == 3

    def test_nothing_is_left_of_those_who_went(self):
        slots, enter = self.slots(on_trial=8, on_trial_per_peer=8)
        for number in range(1000):
            connection = enter(f"10.0.{number}.1")
            if number % 2:
                slots.let_in_now(connection)
            slots.leave(connection)
            slots.leave(connection)
        assert (slots.on_trial, slots.let_in, slots._on_trial) == (0, 0, {})


def test_complaints_are_few_however_many_there_are(caplog):
    now = [0.0]
    peer_errors = PeerErrorLog(lambda: now[0])
    with caplog.at_level(logging.WARNING):
        for number in range(10_000):
            now[0] = number / 1000
            peer_errors.note("dropped that did not finish a head", f"10.0.0.{number % 7}", "x\n" * 1000)
        peer_errors.tell()
    assert [record.getMessage().split(";")[0] for record in caplog.records] == [
        "connections: 1 dropped that did not finish a head",
        "connections: 9999 dropped that did not finish a head",
    ]
    assert all(len(record.getMessage()) < 400 and "\n" not in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(("descriptors", "total"), [(20_000, 4096), (1024, 896), (256, 128), (64, 8)])
def test_limits_follow_what_the_process_may_open(descriptors, total):
    limits = within_descriptors(ConnectionLimits(), descriptors)
    assert limits.total == total and limits.on_trial_per_peer <= limits.on_trial <= total
    assert limits.on_trial < total
