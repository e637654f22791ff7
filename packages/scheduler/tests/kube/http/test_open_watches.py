"""Certificates replaced on disk while a transport is at work: its next requests show them, and its watches, too.

The server does as kube-apiserver does: it takes any certificate of its CA in the handshake, and answers 401 to one that
it accepts no more.
"""

import asyncio
from contextlib import aclosing

import pytest
from aiohttp import web

from berth.api.errors import ApiError, ConnectionLost
from berth.api.resources import RESOURCES
from berth.kube.credentials.access import kubeconfig_access
from berth.kube.credentials.replaced_files import LOOK_AGAIN_S
from berth.kube.http.client import HttpTransport
from berth.kube.http.rate_limit import RateLimit
from packages.scheduler.tests.kube.credentials.test_replaced_files import kubeconfig
from packages.scheduler.tests.kube.fakes import VirtualClock
from packages.scheduler.tests.kube.servers import Certificates, serving
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("each_way")

NODE, POD = RESOURCES["Node"], RESOURCES["Pod"]


class Server:
    """Remembers which certificate each request showed, and accepts those that a test names."""

    def __init__(self):
        self.refused = set()
        self.shown = []
        self.watches = []

    async def __call__(self, request):
        serial = request.transport.get_extra_info("peercert")["serialNumber"]
        self.shown.append(serial)
        if serial in self.refused:
            return web.json_response({"kind": "Status", "code": 401, "message": "Unauthorized"}, status=401)
        if request.query.get("watch") != "true":
            return web.Response(body=b"{}")
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type":"ADDED"}\n{"type":')  # the next line has begun
        self.watches.append(serial)
        await asyncio.Event().wait()
        return response


class Life:
    """A server and a transport with a kubeconfig of files, on a clock that only the test moves."""

    def __init__(self, directory):
        self.clock = VirtualClock()
        self.server = Server()
        self.signer = Certificates(directory)
        self.signer.issue("me")
        self.context = self.signer.server_context(ask_client=True)
        self.directory = directory

    async def __aenter__(self):
        self._serving = serving(self.server, self.context)
        access = kubeconfig_access([kubeconfig(self.directory, await self._serving.__aenter__())], clock=self.clock)
        self.transport = HttpTransport(access, rate_limit=RateLimit(qps=-1), look_again_s=0.005)
        return self

    async def __aexit__(self, *raised):
        await self.transport.close()
        await self._serving.__aexit__(*raised)

    def watch(self, got):
        """A task that reads one watch to its end."""

        async def read():
            lines = self.transport.watch(NODE, resource_version="1", timeout_s=300)
            async with aclosing(lines):
                async for line in lines:
                    got.append(line)

        return asyncio.create_task(read())


@pytest.fixture
async def life(tmp_path):
    async with Life(tmp_path) as found:
        yield found


async def test_a_watch_ends_cleanly_and_the_next_one_shows_the_new_certificate(life):
    server, got = life.server, []
    first = life.watch(got)
    await until(lambda: server.watches)
    life.signer.issue("me")
    life.clock.now_s += LOOK_AGAIN_S
    await first  # raises nothing, as where the server ends it
    assert got == [b'{"type":"ADDED"}']
    second = life.watch(got)
    await until(lambda: len(server.watches) == 2)
    second.cancel()
    assert len(set(server.watches)) == 2
    await life.transport.get(NODE, "", "n")
    assert server.shown[-1] == server.watches[1]


async def test_a_watch_goes_on_while_nothing_was_replaced(life):
    watching = life.watch([])
    await until(lambda: life.server.watches)
    for _ in range(3):
        life.clock.now_s += LOOK_AGAIN_S
        await life.transport._open_watches.look()
    await life.transport.get(NODE, "", "n")
    assert not watching.done() and len(life.server.watches) == 1
    watching.cancel()


@pytest.mark.parametrize("verb", ["get", "bind", "list", "watch"])
async def test_what_is_refused_with_the_old_certificate_is_sent_with_the_new_one(life, verb):
    """Nobody has looked at the files since they were replaced: the refusal has them read."""
    server = life.server
    await life.transport.get(NODE, "", "n")
    server.refused.update(server.shown)
    life.signer.issue("me")
    if verb == "watch":  # which is not repeated here: its reader does that
        with pytest.raises(ApiError):
            await life.watch([])
        watching = life.watch([])
        await until(lambda: server.watches)
        watching.cancel()
    else:
        calls = {"get": ("get", NODE, "", "n"), "bind": ("bind", "ns", "p", b"{}"), "list": ("list", POD)}
        name, *arguments = calls[verb]
        assert await getattr(life.transport, name)(*arguments) == b"{}"
    assert len(server.shown) == 3 and server.shown[2] not in server.refused


async def test_a_certificate_beside_the_old_key_is_not_used_until_its_key_comes(life):
    server, old_key = life.server, (life.directory / "me.key").read_bytes()
    await life.transport.get(NODE, "", "n")
    server.refused.update(server.shown)
    life.signer.issue("me")
    key = (life.directory / "me.key").read_bytes()
    (life.directory / "me.key").write_bytes(old_key)
    with pytest.raises(ApiError):
        await life.transport.get(NODE, "", "n")
    (life.directory / "me.key").write_bytes(key)
    await life.transport.get(NODE, "", "n")
    assert server.shown[-1] not in server.refused


async def test_a_server_of_a_new_authority_is_trusted_once_the_file_says_so(life):
    """The server goes over to a certificate of another CA first, and the file follows."""
    mine = {name: (life.directory / name).read_bytes() for name in ("me.crt", "me.key", "ca.crt")}
    other = Certificates(life.directory)
    life.context.load_cert_chain(*other.issue("server"))
    new_ca = (life.directory / "ca.crt").read_bytes()
    (life.directory / "ca.crt").write_bytes(mine["ca.crt"])
    with pytest.raises(ConnectionLost, match="is not accepted"):
        await life.transport.get(NODE, "", "n")
    (life.directory / "ca.crt").write_bytes(new_ca + mine["ca.crt"])
    life.clock.now_s += LOOK_AGAIN_S
    await life.transport.get(NODE, "", "n")
    watching = life.watch([])
    await until(lambda: life.server.watches)
    watching.cancel()
