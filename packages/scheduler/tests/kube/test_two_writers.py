"""Two schedulers and one lease: whatever happens to them, only the holder's writes take effect.

Each process has an event loop of its own over one virtual time, and a clock that is set differently and runs a little
differently. One that is stopped gets no turns, as with SIGSTOP: what it sent stays on its way, and nothing that it
wanted to do in the meantime is done. The server takes each request after a while, and sometimes keeps it in a queue for
long; the end of a connection, or the time limit that came with a request, takes it out again. Answers get lost.

The server notes for each write whose lease it was at that moment.
"""

import asyncio
import heapq
import itertools
import json
import random
from datetime import timedelta

import pytest

from berth.api.errors import ApiError, ConnectionLost, TransportError
from berth.kube.fence import WriteRefused, fenced
from berth.kube.leader import LeaderElectionTimes, LeaderElector
from berth.testing.virtual_loop import VirtualLoop, VirtualTime
from packages.scheduler.tests.kube.fakes import START
from tests.waiting import pass_time

TIMES = LeaderElectionTimes()
WIRE_S = 4.0
"""The longest time on the wire; below leaseDuration - renewDeadline, which is what there is for it."""
DRIFT = 0.01
WORLDS = ("limits", "no queue", "no stops")
"""A request that waits in the server's queue cannot be cut off by a process that stands still, so there must be no such
queue, or none that takes no notice of a request's time limit, or no such process."""
END_S = 400.0
SEEDS = 15
"""So many in each test."""


class Server:
    """An API server with one lease; its work is a heap of (time, what happens)."""

    def __init__(self, now, rng):
        self.now, self.rng = now, rng
        self.lease, self.version = None, 0
        self.slowness = rng.choice([0.0, 0.05, 0.2])
        self.world = rng.choice(WORLDS)
        self.writes = []
        """(time, writer, holder of the lease at that time)."""
        self.due, self._order = [], itertools.count()

    def at(self, when, act):
        heapq.heappush(self.due, (when, next(self._order), act))

    def next_time(self):
        return self.due[0][0] if self.due else float("inf")

    def work(self):
        while self.due and self.due[0][0] <= self.now.now:
            heapq.heappop(self.due)[2]()

    @property
    def holder(self):
        return self.lease["spec"]["holderIdentity"] if self.lease else None

    def put_lease(self, document):
        known = self.lease["metadata"]["resourceVersion"] if self.lease else None
        if document["metadata"].get("resourceVersion") != known:
            raise ApiError(409, "Conflict", "the lease has been modified")
        self.version += 1
        self.lease = {**document, "metadata": {**document["metadata"], "resourceVersion": str(self.version)}}
        return json.dumps(self.lease).encode()

    def get_lease(self):
        if self.lease is None:
            raise ApiError(404, "NotFound", "no lease")
        return json.dumps(self.lease).encode()


class Wire:
    """One process's transport to the server."""

    def __init__(self, server, name, guard=None):
        self.server, self.name, self.guard = server, name, guard

    def guarded(self, guard):
        return Wire(self.server, self.name, guard)

    async def get(self, _resource, _namespace, _name):
        return await self._ask(self.server.get_lease)

    async def create(self, _resource, _namespace, body):
        return await self._ask(lambda: self.server.put_lease(json.loads(body)))

    async def update(self, _resource, _namespace, _name, body):
        return await self._ask(lambda: self.server.put_lease(json.loads(body)))

    async def bind(self, _namespace, _name, _body, **_options):
        rng = self.server.rng
        await pass_time(rng.choice([0.0, 0.0, rng.uniform(0.0, 20.0)]))  # for its turn, or for a connection
        self.guard.check()

        def write():
            self.server.writes.append((self.server.now.now, self.name, self.server.holder))
            return b"done"

        return await self._ask(write, limit_s=max(1, int(self.guard.left_s())))

    async def _ask(self, act, limit_s=0.0):
        """Send a request, and wait for its answer, which comes when the process runs."""
        server, rng = self.server, self.server.rng
        loop, sent_at = asyncio.get_running_loop(), self.server.now.now
        answer = loop.create_future()
        request = {"given up": False}

        def take():
            if request["given up"]:
                return
            try:
                result, error = act(), None
            except ApiError as refused:
                result, error = None, refused
            if rng.random() < server.slowness:
                error = ConnectionLost("the answer was lost")
            server.at(server.now.now + rng.uniform(0.0, WIRE_S), lambda: arrive(result, error))

        def arrive(result, error):
            if not answer.done():
                answer.set_exception(error) if error is not None else answer.set_result(result)

        def give_up():
            request["given up"] = True

        received_at = sent_at + WIRE_S * rng.choice([0.001, 0.1, 1.0 if limit_s else 0.3])
        if limit_s and server.world == "limits":
            server.at(received_at + limit_s, give_up)
        is_queued = rng.random() < server.slowness and not (limit_s and server.world == "no queue")
        queued_s = rng.uniform(0.0, 40.0) if is_queued else 0.0
        server.at(received_at + queued_s, take)
        try:
            return await answer
        except asyncio.CancelledError:
            server.at(server.now.now + rng.uniform(0.0, WIRE_S), give_up)
            raise


class Process:
    """A scheduler: it elects itself, and writes as fast as it can, always, believing that it leads."""

    def __init__(self, server, name, rng):
        self.server, self.name, self.rng = server, name, rng
        self.loop = VirtualLoop(server.now)
        self.offset_s, self.rate = rng.uniform(-1e6, 1e6), 1 + rng.uniform(-DRIFT, DRIFT)
        self.stopped_until = 0.0
        self.terms = 0
        self.task = self.loop.create_task(self._live())

    def clock(self):
        return self.offset_s + self.rate * self.server.now.now

    async def sleep(self, delay_s):
        await pass_time(delay_s / self.rate)

    def next_time(self):
        due = self.loop.next_time()
        return float("inf") if due is None else max(due, self.stopped_until)

    def turn(self):
        if self.server.now.now >= self.stopped_until:
            self.loop.turn()

    def end(self):
        while tasks := asyncio.all_tasks(self.loop):
            for task in tasks:
                task.cancel()
            self.loop.turn()
        self.loop.turn()
        self.loop.close()

    async def _live(self):
        while True:
            self.terms += 1
            await self._term(f"{self.name}-{self.terms}")

    async def _term(self, identity):
        wire = Wire(self.server, identity)
        elector = LeaderElector(
            wire,
            namespace="ns",
            name="lease",
            identity=identity,
            times=TIMES,
            report=lambda _: None,
            clock=self.clock,
            wall_clock=lambda: START + timedelta(seconds=self.clock()),
            sleep=self.sleep,
            rng=self.rng,
        )
        await elector.acquire()
        writers = [self.loop.create_task(self._write(fenced(wire, lambda _: elector.fence))) for _ in range(3)]
        ending = self.loop.create_task(self.sleep(self.rng.uniform(20.0, 300.0)))
        holding = self.loop.create_task(elector.hold())
        await asyncio.wait({holding, ending}, return_when=asyncio.FIRST_COMPLETED)
        is_clean = not holding.done() and self.rng.random() < 0.5
        if holding.done():
            await self.sleep(self.rng.uniform(0.0, 20.0))  # it takes its time to end
        for task in (*writers, holding, ending):
            task.cancel()
        await asyncio.gather(*writers, holding, ending, return_exceptions=True)
        if is_clean:  # nothing is under way that could not be ended: what was cut off is given time to go
            elector.fence.shut("the test says so")
            await self.sleep(2 * WIRE_S)
            await elector.release()

    async def _write(self, transport):
        while True:
            try:
                await transport.bind("ns", "p", b"{}")
            except WriteRefused:
                await self.sleep(0.5)
            except TransportError:
                await self.sleep(0.1)
            await self.sleep(self.rng.uniform(0.0, 1.0))


def simulate(seed):
    """Run two processes; return the server and how often the lease changed hands."""
    rng = random.Random(seed)
    now = VirtualTime()
    server = Server(now, rng)
    processes = [Process(server, name, rng) for name in ("a", "b")]
    next_stop = rng.uniform(5.0, 60.0)
    while now.now < END_S:
        for process in processes:
            for _ in range(200):
                if process.next_time() > now.now:
                    break
                process.turn()
        server.work()
        upcoming = min(server.next_time(), next_stop, *(process.next_time() for process in processes))
        if upcoming > now.now:
            now.pass_until(upcoming)
        if now.now >= next_stop and server.world != "no stops":
            rng.choice(processes).stopped_until = now.now + rng.choice([0.5, 9.0, 12.0, 16.0, 31.0])
        if now.now >= next_stop:
            next_stop = now.now + rng.uniform(5.0, 60.0)
    for process in processes:
        process.end()
    return server


@pytest.mark.parametrize("block", range(8))
def test_only_the_holder_of_the_lease_writes(block):
    writes, writers = 0, set()
    for seed in range(block * SEEDS, (block + 1) * SEEDS):
        server = simulate(seed)
        for when, writer, holder in server.writes:
            assert writer == holder, f"seed {seed}: at {when:.3f} s {writer} wrote, when the lease was {holder}'s"
        writes += len(server.writes)
        writers |= {(seed, writer) for _, writer, _ in server.writes}
    assert writes > 50 * SEEDS, "the fence lets nothing pass"
    assert len(writers) > 3 * SEEDS, "the lease did not change hands"
