"""Connections that say nothing, or not enough, are cut off; those that are served are not."""

import asyncio
import socket

import pytest
import uvicorn

from berth_workbench.page.lateness import with_deadline
from tests.waiting import until

HEAD_S = 0.05
WAIT_S = 20.0


@pytest.fixture(params=["h11", "httptools"])
async def port(request):
    looks = []

    async def slow(scope, receive, send):
        await until(lambda: len(looks) > 2)  # the deadline of a head has passed more than once
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    config = uvicorn.Config(slow, http=request.param, log_config=None, lifespan="off", ws="none")
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)

    class Looking(with_deadline(config.http_protocol_class, HEAD_S)):
        def _look(self):
            looks.append(self)
            super()._look()

    listening = await asyncio.get_running_loop().create_server(
        lambda: Looking(config=config, server_state=server.server_state, app_state={}), "127.0.0.1", 0
    )
    yield listening.sockets[0].getsockname()[1]
    listening.close()
    await listening.wait_closed()


async def connected(port, said):
    """Connect, with this said before the server looks: what is there in time is so on a slow machine as well."""
    client = socket.create_connection(("127.0.0.1", port))
    client.sendall(said)
    return await asyncio.open_connection(sock=client)


async def answered(port, said):
    reader, writer = await connected(port, said)
    try:
        async with asyncio.timeout(WAIT_S):
            return await reader.read(12)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "])
async def test_a_head_that_does_not_end_is_cut_off(port, said):
    assert await answered(port, said) == b""


async def test_an_answer_may_take_longer(port):
    assert await answered(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n") == b"HTTP/1.1 200"


async def test_a_second_head_that_does_not_end_is_cut_off(port):
    reader, writer = await connected(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(WAIT_S):
        await reader.readuntil(b"ok")
        writer.write(b"GET / HTTP/1.1\r\nHost")
        try:
            rest = await reader.read()
        except ConnectionResetError:
            rest = b""
    assert rest == b""
    writer.close()
