"""Who has been refused for a while is told of it; a refusal that is over, or that nobody repeats, is not."""

import pytest
from aiohttp import web

from berth.api.errors import ApiError, ConnectionLost, TransportError
from berth.api.resources import RESOURCES
from berth.kube.credentials.sources import ClusterAccess, CredentialError
from berth.kube.http.client import HttpTransport
from berth.kube.http.rate_limit import RateLimit
from berth.kube.http.refusals import FORGOTTEN_AFTER_S, PATIENCE_S, Refusals
from packages.scheduler.tests.kube.fakes import VirtualClock
from packages.scheduler.tests.kube.servers import Certificates, serving

NODE, LEASE = RESOURCES["Node"], RESOURCES["Lease"]


@pytest.fixture
def clock():
    return VirtualClock()


def for_a_while(clock, note):
    """What is found when something is noted now and again, longer than it may last."""
    found = Refusals(clock)
    for _ in range(5):
        note(found)
        clock.now_s += PATIENCE_S / 4
    note(found)
    return found


def test_it_may_last_a_little(clock):
    found = Refusals(clock)
    found.unknown("Unauthorized")
    clock.now_s = PATIENCE_S - 1
    found.unknown("Unauthorized")
    assert found.problem() == ""
    clock.now_s = PATIENCE_S
    found.unknown("Unauthorized")
    assert found.problem() == "the API server and we have not accepted each other for 30 s: Unauthorized"


@pytest.mark.parametrize(
    ("refuse", "accept", "is_over"),
    [
        (lambda one: one.unknown("why"), lambda one: one.accepted("nodes"), True),
        (lambda one: one.unknown("why"), lambda one: one.forbidden("nodes", "no"), True),
        (lambda one: one.forbidden("pods/binding", "why"), lambda one: one.accepted("nodes"), False),
        (lambda one: one.forbidden("pods/binding", "why"), lambda one: one.accepted("pods/binding"), True),
        (lambda one: one.forbidden("leases", "why"), lambda one: one.accepted("pods/binding"), False),
        (lambda one: one.forbidden("leases", "why"), lambda one: one.accepted("leases"), True),
    ],
)
def test_which_answers_show_that_it_is_over(clock, refuse, accept, is_over):
    found = for_a_while(clock, refuse)
    assert "why" in found.problem()
    accept(found)
    assert bool(found.problem()) is not is_over
    refuse(found)
    assert bool(found.problem()) is not is_over  # it begins anew


def test_what_may_be_forbidden_for_good_is_not_told(clock):
    assert for_a_while(clock, lambda one: one.forbidden("events", "why")).problem() == ""


def test_what_nobody_asks_any_more_is_forgotten(clock):
    found = for_a_while(clock, lambda one: one.forbidden("pods/binding", "why"))
    clock.now_s += FORGOTTEN_AFTER_S
    assert found.problem() == ""
    found.forbidden("pods/binding", "why")
    assert found.problem() == ""


async def bind(transport):
    await transport.bind("ns", "p", b"{}")


async def lease(transport):
    await transport.update(LEASE, "ns", "l", b"{}")


async def get(transport):
    await transport.get(NODE, "", "n")


async def list_nodes(transport):
    await transport.list(NODE)


async def watch(transport):
    async for _ in transport.watch(NODE, resource_version="1", timeout_s=9):
        pass


@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize(
    ("code", "ask", "told"),
    [
        *((401, ask, "not accepted each other") for ask in (bind, lease, get, list_nodes, watch)),
        (403, bind, "bindings have been forbidden"),
        (403, lease, "leases have been forbidden"),
        *((403, ask, "") for ask in (get, list_nodes, watch)),
        *((409, ask, "") for ask in (bind, lease)),
        *((500, ask, "") for ask in (bind, watch)),
    ],
)
async def test_answers(clock, code, ask, told):
    async def handler(_request):
        return web.json_response({"kind": "Status", "code": code, "message": "because"}, status=code)

    async with serving(handler) as url:
        transport = HttpTransport(ClusterAccess(url), rate_limit=RateLimit(qps=-1))
        transport.refusals = Refusals(clock)
        for _ in range(2):
            with pytest.raises(ApiError):
                await ask(transport)
            clock.now_s += PATIENCE_S
        problem = transport.refusals.problem()
        assert (told in problem and "because" in problem) if told else problem == ""
        await transport.close()


@pytest.mark.parametrize("ask", [bind, watch])
async def test_a_server_whose_certificate_is_not_accepted(clock, tmp_path, ask):
    async def handler(_request):
        raise AssertionError("nobody gets so far")

    async with serving(handler, Certificates(tmp_path).server_context()) as url:
        transport = HttpTransport(ClusterAccess(url), rate_limit=RateLimit(qps=-1))
        transport.refusals = Refusals(clock)
        for _ in range(2):
            with pytest.raises(ConnectionLost):
                await ask(transport)
            clock.now_s += PATIENCE_S
        assert "certificate" in transport.refusals.problem()
        await transport.close()


@pytest.mark.parametrize("ask", [bind, watch])
async def test_credentials_that_cannot_be_had(clock, ask):
    class Broken:
        async def current(self):
            raise CredentialError("the plugin failed")

    transport = HttpTransport(ClusterAccess("http://127.0.0.1:1", source=Broken()), rate_limit=RateLimit(qps=-1))
    transport.refusals = Refusals(clock)
    for _ in range(2):
        with pytest.raises(TransportError):
            await ask(transport)
        clock.now_s += PATIENCE_S
    assert "the plugin failed" in transport.refusals.problem()
    await transport.close()
