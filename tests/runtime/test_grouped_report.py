"""Many complaints about one connection are two lines."""

import asyncio

import pytest

from berth.runtime.grouped_report import GroupedReport


async def test_the_same_trouble_is_told_once_and_the_others_are_named():
    said = []
    report = GroupedReport(said.append, window_s=0.01)
    for plural in ("pods", "nodes", "services", "nodes"):
        report(f"{plural}: GET /x: cannot connect to 10.0.0.1:6443; trying again in 1 s")
    assert len(said) == 1
    assert said[0].startswith("pods: ")
    await asyncio.sleep(0.03)
    assert said[1:] == ["the same goes for nodes, services"]
    report("pods: watching pods: the connection broke; trying again in 2 s")
    assert len(said) == 3
    await asyncio.sleep(0.03)
    assert len(said) == 3


@pytest.mark.parametrize(
    "trouble",
    [
        "Unauthorized (Unauthorized, HTTP 401); the credentials are not accepted",
        "Too large resource version: 500, current: 20 (Timeout, HTTP 504); it was restored or replaced",
    ],
)
async def test_a_server_that_is_another_is_told_once(trouble):
    said = []
    report = GroupedReport(said.append, window_s=0.01)
    for plural in ("pods", "nodes", "services"):
        report(f"{plural}: {trouble}")
    await asyncio.sleep(0.03)
    assert said == [f"pods: {trouble}", "the same goes for nodes, services"]


async def test_a_kinds_own_trouble_always_passes():
    said = []
    report = GroupedReport(said.append)
    messages = [
        "pods: a watch line is cut short",
        "nodes: forbidden (Forbidden, HTTP 403)",
        "the API server cannot be used yet: cannot connect to 10.0.0.1:6443; trying again in 1 s",
        "the API server cannot be used yet: cannot connect to 10.0.0.1:6443; trying again in 2 s",
    ]
    for message in messages:
        report(message)
    assert said == messages
