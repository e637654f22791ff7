"""Trouble that many informers share is two lines."""

import aiohttp
import pytest

from berth.api.errors import ApiError, ConnectionLost
from berth.kube.http.connections import connection_problem
from berth.kube.trouble import InformerTrouble
from berth.runtime.grouped_report import GroupedReport
from tests.waiting import pass_time, virtually


@virtually
async def test_the_same_trouble_is_told_once_and_the_others_are_named():
    said = []
    report = GroupedReport(said.append, window_s=1.0)
    for plural in ("pods", "nodes", "services", "nodes"):
        report(InformerTrouble(plural, "GET /x: cannot connect; trying again in 1 s", is_shared=True))
    assert said == ["pods: GET /x: cannot connect; trying again in 1 s"]
    await pass_time(1.5)
    assert said[1:] == ["the same goes for nodes, services"]
    report(InformerTrouble("pods", "the connection broke; trying again in 2 s", is_shared=True))
    assert len(said) == 3
    await pass_time(1.5)
    assert len(said) == 3


async def test_a_kinds_own_trouble_always_passes():
    said = []
    report = GroupedReport(said.append)
    for plural in ("pods", "nodes", "services"):
        report(InformerTrouble(plural, "forbidden (Forbidden, HTTP 403)"))
    assert said == [f"{plural}: forbidden (Forbidden, HTTP 403)" for plural in ("pods", "nodes", "services")]


@pytest.mark.parametrize(
    "error",
    [
        connection_problem(TimeoutError(), "GET /x", "here"),
        connection_problem(aiohttp.ConnectionTimeoutError(), "GET /x", "here"),
        connection_problem(aiohttp.ServerDisconnectedError(), "GET /x", "here"),
        ApiError(401, "Unauthorized", "Unauthorized"),
        ApiError(500, "", "etcdserver: request timed out"),
    ],
)
def test_what_every_request_would_meet(error):
    assert error.is_of_all_requests


@pytest.mark.parametrize(
    "error",
    [
        ConnectionLost("a line is too long"),
        ApiError(403, "Forbidden", "forbidden"),
        ApiError(503, "", "overload"),
    ],
)
def test_what_one_request_has_met(error):
    assert not error.is_of_all_requests
