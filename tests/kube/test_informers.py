"""The set of reflectors: synced together, and no death goes unnoticed."""

import asyncio
import random

import pytest

from berth.api.errors import ConnectionLost
from berth.api.resources import RESOURCES
from berth.kube.informers import InformerSet
from tests.kube.fakes import ScriptedTransport, VirtualClock, settle

EMPTY = b'{"metadata":{"resourceVersion":"1"},"items":[]}'


def make(*lists):
    clock = VirtualClock()
    transport = ScriptedTransport(lists)
    informers = InformerSet(transport, report=lambda _: None, rng=random.Random(1), sleep=clock.sleep)
    return informers, transport, clock


async def stop(task):
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_pods_that_have_finished_are_not_asked_for():
    informers, transport, _ = make(EMPTY)
    informers.add(RESOURCES["Pod"], lambda _: None)
    task = asyncio.create_task(informers.run())
    assert await informers.wait_for_sync(5)
    assert transport.list_calls[0]["field_selector"] == "status.phase!=Succeeded,status.phase!=Failed"
    await stop(task)


async def test_waits_for_every_list_and_says_what_is_missing():
    informers, _, clock = make(EMPTY, ConnectionLost("no route to host"), EMPTY)
    informers.add(RESOURCES["Node"], lambda _: None)
    informers.add(RESOURCES["Pod"], lambda _: None)
    task = asyncio.create_task(informers.run())
    assert not await informers.wait_for_sync(0.01)
    assert informers.unsynced() == {"pods": "no route to host"}
    await clock.advance(5)
    assert await informers.wait_for_sync(5)
    assert informers.unsynced() == {}
    await stop(task)


async def test_a_bug_ends_the_set_and_whoever_waits_for_it():
    def broken(_batch):
        raise ZeroDivisionError("a bug")

    informers, _, _ = make(EMPTY, EMPTY)
    informers.add(RESOURCES["Node"], broken)
    informers.add(RESOURCES["Pod"], lambda _: None)
    task = asyncio.create_task(informers.run())
    waiting = asyncio.create_task(informers.wait_for_sync(5))
    await settle()
    with pytest.raises(ZeroDivisionError):
        await task
    with pytest.raises(ZeroDivisionError):
        await waiting


async def test_cancelled_before_sync_is_not_silence():
    informers, _, _ = make(ConnectionLost("down"))
    informers.add(RESOURCES["Node"], lambda _: None)
    task = asyncio.create_task(informers.run())
    waiting = asyncio.create_task(informers.wait_for_sync())
    await settle()
    await stop(task)
    with pytest.raises(RuntimeError, match="stopped before"):
        await waiting


async def test_one_informer_a_resource():
    informers, _, _ = make()
    informers.add(RESOURCES["Node"], lambda _: None)
    with pytest.raises(ValueError, match="nodes are followed already"):
        informers.add(RESOURCES["Node"], lambda _: None)


async def test_nothing_to_follow_is_a_mistake():
    informers, _, _ = make()
    with pytest.raises(ValueError, match="nothing to follow"):
        await informers.run()
