"""So many at a time, the rest in order."""

import asyncio

from berth.runtime.acting.worker_pool import WorkerPool
from tests.waiting import settle


class Bench:
    def __init__(self, size):
        self.started, self.done, self.bugs = [], [], []
        self.gate = asyncio.Event()
        self.pool = WorkerPool(size, self.work, self.bugs.append)

    async def work(self, job):
        self.started.append(job)
        await self.gate.wait()
        if job == "bad":
            raise ValueError(job)
        self.done.append(job)


async def test_no_more_at_once_than_there_are_workers():
    bench = Bench(2)
    for job in range(5):
        bench.pool.put(job)
    await settle()
    assert bench.started == [0, 1]
    assert len(bench.pool) == 5
    bench.gate.set()
    assert await bench.pool.drain(1)
    assert bench.started == [0, 1, 2, 3, 4]
    assert sorted(bench.done) == bench.started
    assert len(bench.pool) == 0


async def test_a_bug_costs_one_job():
    bench = Bench(1)
    bench.gate.set()
    for job in ("bad", "good"):
        bench.pool.put(job)
    assert await bench.pool.drain(1)
    assert bench.done == ["good"]
    assert [str(bug) for bug in bench.bugs] == ["bad"]


async def test_drain_says_when_time_ran_out_and_stop_breaks_off():
    bench = Bench(1)
    bench.pool.put("slow")
    bench.pool.put("waiting")
    assert not await bench.pool.drain(0.01)
    await bench.pool.stop()
    assert bench.started == ["slow"]
    assert bench.done == []
