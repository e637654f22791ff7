"""The fence around writes: who may write, when, and what becomes of a write when the lease ends under it."""

import asyncio
import time

import pytest

from berth.api.errors import ApiError, ConnectionLost
from berth.api.resources import RESOURCES
from berth.kube.fence import Fence, WriteRefused, fenced, lease_clock
from packages.scheduler.tests.kube.fakes import VirtualClock
from tests.waiting import settle

POD, LEASE = RESOURCES["Pod"], RESOURCES["Lease"]
WRITES = [
    lambda t: t.bind("ns", "p", b"{}"),
    lambda t: t.create(POD, "ns", b"{}", name="p", subresource="eviction"),
    lambda t: t.update(POD, "ns", "p", b"{}"),
    lambda t: t.patch(POD, "ns", "p", b"{}", "application/merge-patch+json", subresource="status"),
    lambda t: t.delete(POD, "ns", "p", b"{}"),
]


class Server:
    """Notes every request; answers when told to."""

    def __init__(self):
        self.asked = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.cut = 0

    def __getattr__(self, verb):
        async def call(*arguments, **options):
            self.asked.append(verb)
            try:
                await self.may_answer.wait()
            except asyncio.CancelledError:
                self.cut += 1
                raise
            return b"done"

        return call


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def fence(clock):
    return Fence("ns/lease", clock)


@pytest.fixture
async def server():
    return Server()


@pytest.mark.parametrize("write", WRITES)
async def test_writes_pass_while_the_lease_is_held(clock, fence, server, write):
    fence.extend(10.0)
    assert await write(fenced(server, lambda _: fence)) == b"done"


@pytest.mark.parametrize("write", WRITES)
async def test_nothing_is_written_after_a_pause_before_the_lease_is_renewed(clock, fence, server, write):
    fence.extend(10.0)
    clock.now_s = 40.0  # stopped for half a minute: nothing has run, and nobody has said that the lease is lost
    writing = asyncio.create_task(write(fenced(server, lambda _: fence)))
    await settle()
    assert server.asked == [] and not writing.done()
    fence.extend(50.0)
    assert await writing == b"done"


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_that_waits_is_refused_when_the_lease_is_lost(clock, fence, server, write):
    fence.extend(10.0)
    clock.now_s = 40.0
    writing = asyncio.create_task(write(fenced(server, lambda _: fence)))
    await settle()
    fence.shut("it was taken over by another")
    with pytest.raises(WriteRefused, match="not sent: the lease ns/lease is not held: it was taken over") as caught:
        await writing
    assert server.asked == [] and not caught.value.outcome_unknown


@pytest.mark.parametrize("write", WRITES)
async def test_who_does_not_lead_yet_writes_nothing(fence, server, write):
    with pytest.raises(WriteRefused, match="not held yet"):
        await write(fenced(server, lambda _: fence))
    assert server.asked == []


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("how", ["lost", "not renewed"])
async def test_a_write_under_way_is_cut_off(clock, fence, server, write, how):
    fence.extend(10.0)
    server.may_answer.clear()
    watching = asyncio.create_task(fence.cut_off_when_due(clock.sleep))
    writing = asyncio.create_task(write(fenced(server, lambda _: fence)))
    await clock.advance(9.9)
    assert fence.under_way == 1 and server.cut == 0
    if how == "lost":
        fence.shut("it was taken over by another")
    await clock.advance(0.1)
    with pytest.raises(ConnectionLost, match="cut off: the lease ns/lease is not held") as caught:
        await writing
    assert caught.value.outcome_unknown and server.cut == 1 and (fence.under_way, fence.cut) == (0, 1)
    watching.cancel()


async def test_a_renewal_in_time_lets_a_write_go_on(clock, fence, server):
    fence.extend(10.0)
    server.may_answer.clear()
    watching = asyncio.create_task(fence.cut_off_when_due(clock.sleep))
    writing = asyncio.create_task(fenced(server, lambda _: fence).bind("ns", "p", b"{}"))
    for end in (12.0, 14.0, 16.0):
        fence.extend(end + 8.0)
        await clock.advance(end - clock.now_s)
    assert not writing.done()
    server.may_answer.set()
    assert await writing == b"done"
    watching.cancel()


async def test_reads_pass_always(fence, server):
    transport = fenced(server, lambda _: fence)
    assert await transport.get(POD, "ns", "p") == b"done"
    assert await transport.list(POD, namespace="ns") == b"done"


async def test_errors_of_a_write_are_its_own(clock, fence):
    class Refusing:
        async def bind(self, *_arguments, **_options):
            raise ApiError(409, "Conflict", "no")

    class TimingOut:
        async def bind(self, *_arguments, **_options):
            raise TimeoutError

    fence.extend(10.0)
    with pytest.raises(ApiError, match="no"):
        await fenced(Refusing(), lambda _: fence).bind("ns", "p", b"{}")
    with pytest.raises(TimeoutError):
        await fenced(TimingOut(), lambda _: fence).bind("ns", "p", b"{}")


async def test_each_namespace_has_its_fence_and_one_may_act_for_another(clock, server):
    mine, other = Fence("mine", clock), Fence("other", clock)
    mine.extend(10.0)
    transport = fenced(server, lambda namespace: mine if namespace == "mine" else other)
    await transport.bind("mine", "p", b"{}")
    with pytest.raises(WriteRefused):
        await transport.delete(POD, "other", "victim", b"{}")
    await transport.acting_for("mine").delete(POD, "other", "victim", b"{}")
    with pytest.raises(WriteRefused):
        await transport.acting_for("other").delete(POD, "mine", "victim", b"{}")


class Sends:
    """A transport that can check each send itself, and has to wait before it sends."""

    def __init__(self, clock, waits=(), guard=None):
        self.clock, self.waits, self.guard = clock, waits, guard
        self.sent = []

    def guarded(self, guard):
        made = Sends(self.clock, self.waits, guard)
        made.sent = self.sent
        return made

    async def bind(self, *_arguments, **_options):
        for wait_s in self.waits:  # for its turn, for a connection, for the time that a 429 asked for
            await self.clock.sleep(wait_s)
            self.guard.check()
            self.sent.append(self.clock.now_s)
        return b"done"


async def test_each_send_is_checked_and_what_was_not_sent_waits_for_the_renewal(clock, fence):
    fence.extend(10.0)
    server = Sends(clock, waits=[4.0, 8.0])
    writing = asyncio.create_task(fenced(server, lambda _: fence).bind("ns", "p", b"{}"))
    await clock.advance(20.0)
    assert server.sent == [4.0] and not writing.done() and fence.refused == 1
    fence.extend(40.0)
    await clock.advance(20.0)
    assert await writing == b"done"
    assert server.sent == [4.0, 24.0, 32.0]


def test_the_clock_goes_on_while_the_machine_sleeps():
    if not hasattr(time, "CLOCK_BOOTTIME"):
        pytest.skip("no such clock here")
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= lease_clock() <= time.clock_gettime(time.CLOCK_BOOTTIME)
