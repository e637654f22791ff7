"""The log of a running scheduler, changed over HTTP; answers to `/debug/flags/v` are those of k8s.io/apiserver."""

import io
import json
import logging

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from berth.runtime.observing import logs
from berth.runtime.serving.log_flags import LOG_FLAGS
from packages.scheduler.tests.runtime.test_logs import stream
from tests.runtime.test_serving import at_work
from tests.runtime.world import World

__all__ = ["stream"]


@pytest.fixture
async def client():
    app = web.Application()
    for path, flag in LOG_FLAGS.items():
        app.router.add_route("*", path, flag.answer)
    async with TestClient(TestServer(app)) as client:
        yield client


async def put(client, path, value):
    answer = await client.put(path, data=value)
    return answer.status, await answer.text()


async def test_the_verbosity(client, stream):
    logs.set_up("text", 0, stream)
    assert await put(client, "/debug/flags/v", "4") == (200, "successfully set klog.logging.verbosity to 4\n")
    logging.getLogger("berth.x").log(logs.level(4), "shown")
    assert await (await client.get("/debug/flags/v")).text() == "4\n"
    await put(client, "/debug/flags/v", "0")
    logging.getLogger("berth.x").log(logs.level(4), "not shown")
    assert stream.getvalue().count("shown") == 1


async def test_the_format(client, stream):
    logs.set_up("text", 0, stream)
    status, _ = await put(client, "/debug/flags/logging-format", "json")
    logging.getLogger("berth.x").warning("hello")
    assert status == 200 and json.loads(stream.getvalue().splitlines()[-1])["msg"] == "hello"
    assert await (await client.get("/debug/flags/logging-format")).text() == "json\n"


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("/debug/flags/v", "-1", "failed set klog.logging.verbosity -1"),
        ("/debug/flags/v", "loud", "failed set klog.logging.verbosity loud"),
        ("/debug/flags/v", "", "failed set klog.logging.verbosity"),
        ("/debug/flags/v", "9" * 100_000, "longer than 64 bytes"),
        ("/debug/flags/v", b"\xff", "failed set klog.logging.verbosity"),
        ("/debug/flags/logging-format", "xml", '"xml" is neither text nor json'),
    ],
)
async def test_what_is_wrong_changes_nothing(client, stream, path, value, says):
    logs.set_up("text", 2, stream)
    status, text = await put(client, path, value)
    assert status == 400 and says in text and len(text) < 300
    assert (logs.verbosity_now(), logs.format_now()) == (2, "text")


async def test_other_methods_are_refused(client):
    answer = await client.post("/debug/flags/v", data="4")
    assert (answer.status, await answer.text()) == (406, "unsupported http method\n")


async def test_very_high_verbosities_are_the_highest(client, stream: io.StringIO):
    logs.set_up("text", 0, stream)
    status, _ = await put(client, "/debug/flags/v", "99999")
    assert (status, logs.verbosity_now()) == (200, logs.MOST_VERBOSE)


async def test_a_scheduler_serves_them(stream):
    logs.set_up("text", 2, stream)
    async with at_work(World(nodes=1)) as client:
        assert await client.text("/debug/flags/v") == (200, "2\n")
        _, index = await client.json("/")
        assert set(LOG_FLAGS) <= set(index["paths"])
