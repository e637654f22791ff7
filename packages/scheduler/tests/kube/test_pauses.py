"""Waits that end when they are over, when all are ended, or not at all."""

import asyncio

import pytest

from berth.kube.pauses import Pauses
from tests.waiting import for_ever, settle


async def test_all_end_at_once_and_none_begins_again():
    pauses = Pauses(lambda _: for_ever())
    waits = [asyncio.create_task(pauses.wait(number)) for number in range(3)]
    await settle()
    assert not any(wait.done() for wait in waits)
    pauses.end()
    await asyncio.gather(*waits)
    await pauses.wait(99)
    assert pauses.are_over


async def test_one_that_is_over_is_forgotten():
    slept = []

    async def sleep(delay_s):
        slept.append(delay_s)

    pauses = Pauses(sleep)
    await pauses.wait(5)
    pauses.end()
    assert slept == [5]


async def test_a_timeout_of_the_sleep_itself_is_not_taken_for_the_end():
    async def sleep(_delay_s):
        raise TimeoutError

    with pytest.raises(TimeoutError):
        await Pauses(sleep).wait(1)
