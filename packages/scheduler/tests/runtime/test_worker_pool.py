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


async def test_a_job_put_in_by_the_last_job_as_it_ends_finds_a_worker():
    """The worker's task is not over yet when its last job is: its callbacks come a turn of the loop later."""
    done, ended = [], asyncio.get_running_loop().create_future()

    async def work(job):
        done.append(job)
        ended.done() or ended.set_result(None)

    pool = WorkerPool(1, work, lambda bug: None)
    ended.add_done_callback(lambda _: pool.put("second"))
    pool.put("first")
    await settle()
    assert done == ["first", "second"]


async def test_a_pool_that_was_stopped_before_a_worker_began_works_again():
    bench = Bench(1)
    bench.gate.set()
    bench.pool.put("dropped")
    await bench.pool.stop()
    bench.pool.put("kept")
    assert await bench.pool.drain(1)
    assert bench.done == ["kept"]
