"""A Binding's outcome is known before anything is concluded from it, whatever becomes of the answers."""

import asyncio
import random

import pytest

from berth.api.errors import ApiError, ConnectionLost
from berth.framework.effects import Bind, PodRef
from berth.kube.fence import WriteRefused
from berth.runtime.acting.bindings import MAX_SENDS, BindingClient
from tests.runtime.world import POD, World, at_once

LOST = ConnectionLost("the connection broke")
NO_CONNECTION = ConnectionLost("connection refused", sent=False)
GATEWAY = ApiError(502, "", "bad gateway")
TIMEOUT = ApiError(504, "Timeout", "etcd took too long")
BUSY = ApiError(429, "TooManyRequests", "slow down")
UNAVAILABLE = ApiError(503, "ServiceUnavailable", "not now")


class Bench:
    """A pod to bind in a world, and a binder that notes how long it would have slept."""

    def __init__(self):
        self.world = World(nodes=2)
        self.transport = self.world.transport
        self.uid = self.world.add_pod("web")["metadata"]["uid"]
        self.slept = []
        self.said = []
        self.binder = BindingClient(self.transport, self.said.append, random.Random(1), self.sleep)

    async def sleep(self, delay_s):
        self.slept.append(delay_s)
        await asyncio.sleep(0)

    async def bind(self, node="node-0", uid=""):
        return (await self.binder.bind(Bind(PodRef("default", "web", uid or self.uid), node))).error

    async def bind_elsewhere(self, node):
        await BindingClient(self.transport, self.said.append, random.Random(1), at_once).bind(
            Bind(PodRef("default", "web", self.uid), node)
        )


@pytest.fixture
def bench():
    return Bench()


async def test_an_answered_binding_is_one_call(bench):
    assert await bench.bind() == ""
    assert bench.world.node_of("web") == "node-0"
    assert bench.transport.calls == [("bind", "pods")]


@pytest.mark.parametrize("error", [LOST, GATEWAY, TIMEOUT], ids=["lost", "502", "504"])
async def test_a_lost_answer_of_a_binding_that_happened_is_success(bench, error):
    bench.transport.lose("bind", error)
    assert await bench.bind() == ""
    assert [record.accepted for record in bench.world.store.bindings] == [True]
    assert bench.transport.calls == [("bind", "pods"), ("get", "pods")]


@pytest.mark.parametrize("error", [LOST, GATEWAY, TIMEOUT], ids=["lost", "502", "504"])
async def test_a_lost_binding_that_did_not_happen_is_sent_again(bench, error):
    bench.transport.refuse("bind", error)
    assert await bench.bind() == ""
    assert bench.transport.calls == [("bind", "pods"), ("get", "pods"), ("bind", "pods")]
    assert len(bench.world.accepted()) == 1


async def test_the_pod_is_read_until_it_can_be_read(bench):
    bench.transport.lose("bind", LOST)
    bench.transport.refuse("get", LOST, UNAVAILABLE, ApiError(403, "Forbidden", "pods may not be read"))
    assert await bench.bind() == ""
    assert bench.transport.count("get") == 4
    assert bench.transport.count("bind") == 1
    assert "is not known" in bench.said[0]
    assert "RBAC" in bench.said[2]


async def test_a_retry_that_meets_its_own_first_try_is_success(bench):
    """The answer is lost, the read shows an old state, and the second Binding is refused with 409."""
    await bench.bind_elsewhere("node-0")
    bench.world.store.bindings.clear()
    assert await bench.bind() == ""
    assert [record.accepted for record in bench.world.store.bindings] == [False]


async def test_a_pod_that_is_on_another_node_is_a_failure(bench):
    await bench.bind_elsewhere("node-1")
    error = await bench.bind("node-0")
    assert "node-1" in error
    assert bench.world.node_of("web") == "node-1"


async def test_a_pod_that_is_gone_is_a_failure(bench):
    bench.transport.refuse("bind", LOST)
    bench.world.store.delete(POD, "default", "web", {"gracePeriodSeconds": 0})
    assert "gone" in await bench.bind()


async def test_a_later_pod_of_the_same_name_is_not_taken_for_ours(bench):
    error = await bench.bind(uid="another-uid")
    assert "replaced" in error
    assert bench.world.node_of("web") == ""


@pytest.mark.parametrize("error", [BUSY, UNAVAILABLE, NO_CONNECTION], ids=["429", "503", "no connection"])
async def test_what_passes_is_waited_out_without_reading(bench, error):
    bench.transport.refuse("bind", error, error)
    assert await bench.bind() == ""
    assert bench.transport.calls == [("bind", "pods")] * 3
    assert len(bench.slept) == 2


async def test_the_server_says_how_long_to_wait(bench):
    bench.transport.refuse("bind", ApiError(429, "TooManyRequests", "slow down", retry_after_s=7.0))
    assert await bench.bind() == ""
    assert bench.slept == [7.0]


async def test_it_gives_up_once_it_is_known_that_no_try_got_through(bench):
    bench.transport.refuse("bind", *[NO_CONNECTION] * MAX_SENDS)
    error = await bench.bind()
    assert "connection refused" in error
    assert f"{MAX_SENDS} tries" in error
    assert bench.transport.count("bind") == MAX_SENDS


@pytest.mark.parametrize("status", [400, 403, 404, 422])
async def test_a_refusal_for_good_is_not_repeated(bench, status):
    bench.transport.refuse("bind", ApiError(status, "", "no"))
    assert "no" in await bench.bind()
    assert bench.transport.calls == [("bind", "pods")]


async def test_a_conflict_over_a_pod_without_a_node_is_a_refusal(bench):
    bench.transport.refuse("bind", ApiError(409, "Conflict", "pod web has non-empty .spec.schedulingGates"))
    assert "schedulingGates" in await bench.bind()
    assert bench.transport.count("bind") == 1


@pytest.mark.parametrize(
    "odd", [b"", b"{}", b"<html>ok</html>", b'{"kind":"Pod"}', b'{"kind":"Status","status":"Failure"}']
)
@pytest.mark.parametrize("is_done", [True, False])
async def test_an_answer_that_is_no_success_of_an_api_server_confirms_nothing(bench, odd, is_done):
    bench.transport.lie("bind", odd, is_done=is_done)
    assert await bench.bind() == ""
    assert bench.world.node_of("web") == "node-0" and len(bench.world.accepted()) == 1
    assert bench.transport.calls == [("bind", "pods"), ("get", "pods")] + [("bind", "pods")] * (not is_done)


async def test_answers_that_stay_odd_end_in_a_failure(bench):
    bench.transport.lie("bind", *[b"{}"] * MAX_SENDS, is_done=False)
    assert "not the Status of a success: '{}'" in await bench.bind()


async def test_without_the_lease_a_binding_is_not_tried_again(bench):
    bench.transport.refuse("bind", WriteRefused("not sent: the lease is not held"))
    assert "not sent" in await bench.bind()
    assert bench.transport.calls == [("bind", "pods")] and bench.slept == []
