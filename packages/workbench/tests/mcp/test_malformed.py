"""Five hundred calls that are wrong in some way: each is answered, none ends the server, none is kept."""

import gc
import json
import random
import tracemalloc

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from packages.workbench.tests.mcp.asking import answer, asking, server_about
from packages.workbench.tests.questions.every import QUESTIONS, crowded

CALLS = 500
DEEP = json.loads("[" * 60 + "]" * 60)
REQUEST = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "-1"}}}]}
ODD = (
    None, True, -1, 0, 1.5, 10**400, -(10**30), 1e308, "", "\x00", "\x1b[31m", "../../etc/passwd", "$(id)", "{{7*7}}",
    "a" * 50_000, "\u202e\u200b\U000e0041", "drain n1\ndrain n2", "--drain", "kind: Pod", "- [", "&a [*a]", "{}",
    [], [[]], [None], ["drain"], ["\n"], {}, {"": ""}, {"kind": "Pod"}, {"groups": [{}]}, DEEP, {"a": DEEP},
    [{"apiVersion": "v1", "kind": "Pod", "metadata": 3}], {"apiVersion": "v1", "kind": "Pod", "spec": REQUEST},
)  # fmt: skip
OTHER_NAMES = ("__class__", "self", "documents", "setup", "snapshot", "dask", "trace", "jobs", "a.b", "", "💥")


def calls(rng, schemas):
    """Yield the name of a tool and arguments; few of them are right by chance, and those are short."""
    names = [*schemas, "more"]
    for _ in range(CALLS):
        name = rng.choice(names)
        known = list(schemas.get(name, {"properties": {"cursor": {}}})["properties"])
        given = {rng.choice(known): rng.choice(ODD) for _ in range(rng.randint(1, 3))}
        if rng.random() < 0.3:
            given[rng.choice(OTHER_NAMES)] = rng.choice(ODD)
        yield name, {**given, "for_seconds": rng.choice(ODD)} if rng.random() < 0.1 else given


@pytest.fixture(scope="module")
def server():
    return server_about(crowded())


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_malformed_calls_are_answered_and_leave_nothing_behind(server, mode):
    rng, refused = random.Random(f"malformed {mode}"), 0
    async with asking(server, mode) as client:
        schemas = {each.name: each.input_schema for each in (await client.list_tools()).tools if each.name != "more"}
        for name in ("simulate", "tune", "compare"):  # right by chance, they take a while
            schemas[name]["properties"].pop("workload", None)
        first = (await answer(client, "wait")).structured_content
        held = 0
        for number, (name, given) in enumerate(calls(rng, schemas)):
            if number == CALLS // 2:
                tracemalloc.start()
                held = tracemalloc.get_traced_memory()[0]
            found = await client.call_tool(name, given)
            refused += found.is_error
            if found.is_error:
                error = found.structured_content["error"]
                assert error["code"] in ("argument", "refused", "gone"), (name, str(given)[:200], error)
                assert len(error["message"]) < 2000 and error["whatToDo"], (name, error)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - held
        tracemalloc.stop()
        again = (await answer(client, "wait")).structured_content
    first["state"].pop("ageSeconds"), again["state"].pop("ageSeconds")
    assert again == first
    assert refused > CALLS * 0.8
    assert grown < 4 << 20, f"{grown >> 10} KiB are held after {CALLS // 2} more calls"


@pytest.mark.parametrize("name", ["", "surv1ve", "survive ", "../survive", "\x1b[2J", "x" * 10_000])
async def test_a_tool_that_there_is_not_is_an_error_of_the_protocol(server, name):
    async with asking(server) as client:
        with pytest.raises(MCPError) as raised:
            await client.call_tool(name, {})
    assert raised.value.code == types.INVALID_PARAMS
    assert "there are autoscale," in str(raised.value) and str(raised.value).isprintable()
    assert len(str(raised.value)) < 400


async def test_a_plugin_that_breaks_ends_its_call_only(server, monkeypatch):
    def broken(*_):
        raise AssertionError("a mistake of ours")

    question = QUESTIONS["wait"]
    tool = server._tools["wait"]
    monkeypatch.setattr(tool, "_question", question._replace(answer=broken))
    async with asking(server) as client:
        found = await client.call_tool("wait", {})
        assert found.structured_content["error"]["code"] == "mistake"
        assert (await answer(client, "survive", kinds=["zone"])).structured_content["verdict"]
