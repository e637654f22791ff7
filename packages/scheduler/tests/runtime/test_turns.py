"""Turns at the core: one party at a time, wherever the work is done, and whatever it raises."""

import asyncio
import threading

import pytest

from berth.runtime.turns import CoreThread, CycleBusy, Escaped, Inline, Turns
from tests.waiting import settle


@pytest.fixture(params=[Inline, CoreThread])
def runner(request):
    runner = request.param()
    yield runner
    runner.close()


async def test_work_is_done_and_what_follows_is_begun_before_the_next_turn(runner):
    turns, seen = Turns(runner, str), []
    answers = await asyncio.gather(*(turns.run(lambda n=n: n, seen.append) for n in range(20)))
    assert answers == seen == list(range(20))
    assert not turns.is_at_work


async def test_work_on_the_thread_is_done_beside_the_event_loop():
    turns, runner = None, CoreThread()
    turns = Turns(runner, str)
    assert await turns.run(threading.get_ident) != threading.get_ident()
    assert await Turns(Inline(), str).run(threading.get_ident) == threading.get_ident()
    runner.close()


@pytest.mark.parametrize(
    "raised", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, StopIteration]
)
async def test_whatever_work_raises_is_an_error_and_the_next_turn_goes_on(runner, raised):
    def broken():
        raise raised("odd")

    turns = Turns(runner, str)
    expected = StopIteration if raised is StopIteration else Escaped
    with pytest.raises((expected, RuntimeError)) as caught:
        await turns.run(broken)
    assert raised.__name__ in f"{caught.value} {caught.value.__cause__!r}"
    assert await turns.run(lambda: "well") == "well"


async def test_what_follows_from_work_is_begun_even_if_nobody_waits_any_more():
    runner, gate, begun, followed = CoreThread(), threading.Event(), threading.Event(), asyncio.Event()
    turns = Turns(runner, lambda: "work at the gate")

    def work():
        begun.set()
        gate.wait(60)

    waiting = asyncio.create_task(turns.run(work, lambda _: followed.set()))
    await asyncio.to_thread(begun.wait, 60)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    with pytest.raises(CycleBusy, match="work at the gate"):
        async with turns.between(0.01):
            pytest.fail("two had the core at once")
    assert not followed.is_set()
    gate.set()
    async with turns.between(60):
        assert followed.is_set()
        assert not turns.is_at_work
    runner.close()


async def test_nobody_works_while_the_core_is_held_on_the_event_loop(runner):
    turns = Turns(runner, str)
    async with turns.between(60):
        turn = asyncio.create_task(turns.run(list))
        await settle()
        assert not turn.done()
        assert turns.begun == 0
    assert await turn == []
