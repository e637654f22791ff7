"""The token bucket, in virtual time."""

import asyncio

import pytest

from berth.kube.http.rate_limit import RateLimit, TokenBucket
from packages.scheduler.tests.kube.fakes import VirtualClock
from tests.waiting import settle


def make(qps, burst):
    clock = VirtualClock()
    return TokenBucket(RateLimit(qps, burst), clock=clock, sleep=clock.sleep), clock


async def passed_after(bucket, clock, calls, seconds):
    """How many of so many calls at once are through after a time."""
    tasks = [asyncio.create_task(bucket.acquire()) for _ in range(calls)]
    await clock.advance(seconds)
    count = sum(task.done() for task in tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return count


@pytest.mark.parametrize(
    ("qps", "burst", "seconds", "expected"),
    [
        (10, 5, 0, 5),
        (10, 5, 1, 15),
        (10, 5, 2.55, 30),
        (0, 0, 0, 100),  # the configuration's defaults: 50 a second, 100 at once
        (0, 0, 1, 150),
        (-1, 0, 0, 300),
        (1, 1, 0.9, 1),
    ],
)
async def test_how_many_pass(qps, burst, seconds, expected):
    assert await passed_after(*make(qps, burst), 300, seconds) == expected


async def test_rest_earns_no_more_than_the_burst():
    bucket, clock = make(10, 5)
    await passed_after(bucket, clock, 5, 0)
    clock.now_s = 1000
    assert await passed_after(bucket, clock, 50, 0) == 5


async def test_concessions_gives_the_turn_back():
    bucket, clock = make(1, 1)
    await bucket.acquire()
    waiting = asyncio.create_task(bucket.acquire())
    await settle()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    second = asyncio.create_task(bucket.acquire())
    await clock.advance(1)
    assert second.done()


async def test_waiting_is_counted():
    bucket, clock = make(1, 1)
    await passed_after(bucket, clock, 2, 1)
    assert bucket.waited_s == pytest.approx(1.0)
