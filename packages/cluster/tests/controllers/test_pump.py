"""Driving controllers from an event loop."""

import asyncio
from datetime import UTC, datetime

import pytest

from berth_cluster.controllers.pump import SHORTEST_REST_S, ControllerPump
from berth_cluster.storage.store import Store
from packages.cluster.tests.objects import CONFIG_MAPS
from tests.waiting import pass_time, settle, virtually


class Idle:
    """Controllers with nothing to do for an hour."""

    def __init__(self, store):
        self.store = store

    def step(self, now_s):
        return False

    def next_deadline(self):
        return self.store.clock().timestamp() + 3600


@pytest.mark.parametrize("ticks", range(6))
@virtually
async def test_a_pump_ends_when_something_changes_at_that_moment(ticks):
    """wait_for of Python 3.11 loses a cancellation that comes with what it waits for: Ctrl-C then ended nothing."""
    store = Store(lambda: datetime.now(UTC))
    pump = ControllerPump(store, Idle(store))
    pump.start()
    await pass_time(10 * SHORTEST_REST_S)
    store.create(CONFIG_MAPS, "default", {"metadata": {"name": "settings"}})
    await settle(ticks)
    stopping = asyncio.create_task(pump.stop())
    await asyncio.wait({stopping}, timeout=2)
    assert stopping.done()
