"""Event loops in virtual time: order, jumps, several loops on one clock, and a loop that gets no turns."""

import asyncio

import pytest

from berth.testing.virtual_loop import Stuck, VirtualLoop, VirtualTime


def run(coroutine, loop=None):
    loop = loop or VirtualLoop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()


def test_sleeping_takes_no_time():
    loop = VirtualLoop()
    run(asyncio.sleep(1e6), loop)
    assert loop.time() == 1e6  # eleven days; whoever slept them would hang


def test_timers_fire_in_order_and_at_their_moment():
    seen = []

    async def note(delay_s):
        await asyncio.sleep(delay_s)
        seen.append((delay_s, asyncio.get_running_loop().time()))

    async def main():
        await asyncio.gather(*map(note, (3.0, 1.0, 2.0)))

    run(main())
    assert seen == [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]


def test_timeouts_are_kept():
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5.0):
                await asyncio.sleep(6.0)
        return asyncio.get_running_loop().time()

    assert run(main()) == 5.0


def test_a_wait_that_nothing_can_end_is_told():
    async def main():
        await asyncio.get_running_loop().create_future()

    loop = VirtualLoop()
    task = loop.create_task(main())
    with pytest.raises(Stuck):
        loop.run_until_complete(task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        run(task, loop)


def test_what_would_run_in_a_thread_runs_at_once():
    async def main():
        assert await asyncio.to_thread(lambda: 42) == 42
        with pytest.raises(ValueError, match="no"):
            await asyncio.get_running_loop().run_in_executor(None, int, "no")

    run(main())


def turn_all(*loops):
    while any(loop.next_time() == loop.time() for loop in loops):
        for loop in loops:
            loop.turn()


def test_loops_that_share_a_clock_are_turned_by_hand():
    now = VirtualTime()
    first, second, seen = VirtualLoop(now), VirtualLoop(now), []

    async def tick(name, period_s):
        while True:
            await asyncio.sleep(period_s)
            seen.append((name, asyncio.get_running_loop().time()))

    tasks = [first.create_task(tick("first", 1.0)), second.create_task(tick("second", 2.0))]
    turn_all(first, second)
    assert (first.next_time(), second.next_time()) == (1.0, 2.0)
    now.pass_until(10.0)  # the second is held up: its timer is late, and then fires once
    turn_all(first, second)
    assert seen == [("first", 10.0), ("second", 10.0)]
    for loop, task in zip((first, second), tasks, strict=True):
        task.cancel()
        turn_all(loop)
        assert task.cancelled()
        assert loop.next_time() is None
        loop.close()
