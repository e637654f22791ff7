"""A server about a cluster in memory, asked by the SDK's own client."""

import json
from contextlib import asynccontextmanager

from mcp import Client

from berth_workbench.comparison.configurations import ConfigurationSource, WhoDecides
from berth_workbench.mcp.server import McpServer
from berth_workbench.mcp.state import state_of_file

DEFAULT = ConfigurationSource("default")
ASSUMED = "the default configuration; --config names another"


def server_about(snapshot, source="a test", configuration=DEFAULT):
    """A server behind which is a snapshot."""
    state = state_of_file(snapshot, WhoDecides(configuration, configuration.load(), ASSUMED), source)

    async def behind():
        return state

    return McpServer(behind)


@asynccontextmanager
async def asking(server, mode="legacy", **options):
    async with Client(server.protocol, mode=mode, **options) as client:
        yield client


async def answer(client, name, **given):
    """What a tool returns, which has to be an answer."""
    found = await client.call_tool(name, given)
    assert not found.is_error, found.content[0].text
    assert json.loads(found.content[1].text) == found.structured_content, "both say the same"
    return found


async def refusal(client, name, **given):
    """The error that a tool returns, in the form for programs."""
    found = await client.call_tool(name, given)
    assert found.is_error, found.content[0].text
    error = found.structured_content["error"]
    assert error.keys() == {"code", "message", "whatToDo"} and all(error.values())
    assert error["message"].splitlines()[0].split("\t")[0][:20] in found.content[0].text, "both say the same"
    return error
