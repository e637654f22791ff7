"""Streamable HTTP on loopback: served to whoever shows the token, by the SDK's client and by plain requests."""

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from berth.serving.acceptor import listening_at
from berth_workbench.page.asgi_server import AsgiServer
from packages.workbench.tests.mcp.asking import answer, server_about
from packages.workbench.tests.questions.every import crowded

TOKEN = "a token of this test"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@pytest.fixture
async def address():
    listening = listening_at("127.0.0.1", 0)
    http = AsgiServer()
    await http.start(server_about(crowded()).http_application(TOKEN), listening)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    await http.stop()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_with_the_token_is_answered(address, mode):
    own = httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"})
    async with own, Client(streamable_http_client(address, http_client=own), mode=mode) as client:
        assert len((await client.list_tools()).tools) > 10
        found = await answer(client, "survive", kinds=["zone"])
        assert found.structured_content["kinds"][0]["kind"] == "zone"


@pytest.mark.parametrize("shown", ["", "Bearer wrong", TOKEN, f"Basic {TOKEN}", "Bearer \udcff"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_nobody_else_is(address, shown, method):
    async with httpx2.AsyncClient() as client:
        headers = {**ACCEPT, "Authorization": shown.encode("utf-8", "surrogateescape")}
        found = await client.request(method, address, headers=headers, json=PING)
    assert found.status_code == 401 and found.headers["www-authenticate"] == 'Bearer realm="berth"'
    assert TOKEN not in found.text


@pytest.mark.parametrize(
    ("header", "status"), [({"Host": "evil.example"}, 421), ({"Origin": "http://evil.example"}, 403)]
)
async def test_other_hosts_and_other_pages_are_refused_even_with_the_token(address, header, status):
    async with httpx2.AsyncClient() as client:
        headers = {**ACCEPT, "Authorization": f"Bearer {TOKEN}", **header}
        assert (await client.post(address, headers=headers, json=PING)).status_code == status


async def test_a_body_that_is_too_long_is_refused(address):
    async with httpx2.AsyncClient() as client:
        headers = {**ACCEPT, "Authorization": f"Bearer {TOKEN}"}
        assert (await client.post(address, headers=headers, content=b" " * (5 << 20))).status_code == 413
