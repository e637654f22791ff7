"""How tests wait: for what comes about in another process, on a thread, on a socket or on the event loop.

This is the only place that sleeps; `tests/test_waiting.py` holds all others to it.
"""

import asyncio
import inspect
import time
from functools import wraps

from berth.testing.virtual_loop import VirtualLoop

WAIT_S = 120.0


def eventually(look, seconds=WAIT_S, every_s=0.02):
    """Look until what is found is true, and return it."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"it did not come about in {seconds:g} s: it is {found!r}"
        time.sleep(every_s)
    return found


async def until(look, seconds=WAIT_S / 2):
    """The same on an event loop, which goes on meanwhile; to look may itself take an await."""
    deadline = time.monotonic() + seconds
    while not (found := await _found(look)):
        assert time.monotonic() < deadline, f"it did not come about in {seconds:g} s: it is {found!r}"
        await asyncio.sleep(0.002)
    return found


async def _found(look):
    found = look()
    return await found if inspect.isawaitable(found) else found


async def settle(rounds=30):
    """Let every task of the event loop run until it waits for something."""
    for _ in range(rounds):
        await asyncio.sleep(0)


async def for_ever():
    """What hangs: it ends when it is cancelled."""
    await asyncio.get_running_loop().create_future()


async def slowly(seconds):
    """What a slow peer does behind a real socket, so short that nobody notices; never to wait until something is so."""
    assert seconds <= 1.0, "a peer as slow as that belongs into virtual time"
    await asyncio.sleep(seconds)


async def pass_time(seconds):
    """Let time pass that is virtual; of the other kind there is too little for tests to sleep in."""
    assert isinstance(asyncio.get_running_loop(), VirtualLoop), (
        "nothing sleeps in real time: wait until something is so"
    )
    await asyncio.sleep(seconds)


def virtually(test):
    """Run a test in virtual time, from its first sleep to its last."""

    @wraps(test)
    def run(*arguments, **named):
        loop = VirtualLoop()
        try:
            loop.run_until_complete(test(*arguments, **named))
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(pass_time(1))
            loop.close()

    return run
