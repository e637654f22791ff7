"""A plugin that does not come back: everything but scheduling goes on, it is named, and the process can still end."""

import asyncio
import logging
import sys
import threading
from types import SimpleNamespace

import aiohttp
import pytest

from berth.api.resources import RESOURCES
from berth.framework.registry import Registry
from berth.plugins.registry import in_tree_registry
from berth.runtime import overruns
from berth.runtime import scheduler as live
from berth.runtime.observing.metrics import Metrics
from berth.runtime.scheduler import CycleStuck, LiveScheduler
from berth.runtime.serving import server as serving
from berth.runtime.serving.server import HealthServer
from berth.runtime.stack import WorkPosition
from berth.runtime.turns import CoreThread
from tests.e2e.processes import free_port
from tests.runtime.world import World, configuration
from tests.waiting import until

LEASE = RESOURCES["Lease"]
ELECTION = {"leaderElect": True, "leaseDuration": "2s", "renewDeadline": "1s", "retryPeriod": "20ms"}


class Loops:
    """Loops for ever at Filter, until the test ends."""

    name = "Loops"
    released = threading.Event()
    begun = threading.Event()

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, node):
        if pod.name == "endless":
            type(self).begun.set()
            while not type(self).released.is_set():
                pass


@pytest.fixture
def loops():
    """A class of its own for each test; the loop ends with the test."""
    plugin = type("Loops", (Loops,), {"released": threading.Event(), "begun": threading.Event()})
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)  # the loop takes every turn that it can get; the test need not wait for it
    yield plugin
    plugin.released.set()
    sys.setswitchinterval(interval)


class Running:
    """A scheduler with that plugin, its server, and what a test asks of both."""

    def __init__(self, world, plugin):
        profile = {
            "schedulerName": "default-scheduler",
            "plugins": {"multiPoint": {"enabled": [{"name": "Loops"}]}},
        }
        config = configuration(profiles=[profile], leaderElection=ELECTION)
        registry = in_tree_registry().merge(Registry({"Loops": plugin}, "the test"))
        metrics = Metrics()
        self.scheduler = LiveScheduler(
            config, world.transport, registry=registry, instrument=metrics, identity="me", runner=CoreThread()
        )
        metrics.observe(self.scheduler)
        self.server = HealthServer(self.scheduler, metrics, config, port=free_port())
        self.stop = asyncio.Event()

    async def __aenter__(self):
        await self.server.start()
        self.task = asyncio.create_task(self.scheduler.run(self.stop))
        return self

    async def __aexit__(self, *_):
        self.stop.set()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.server.stop()

    async def get(self, path):
        async with aiohttp.ClientSession() as session, session.get(self.server.address + path) as answer:
            return answer.status, await answer.text()


async def stuck(world, running, plugin):
    """Bring the scheduler into the loop."""
    world.add_pod("first")
    await until(lambda: world.node_of("first"))
    world.add_pod("endless")
    await until(plugin.begun.is_set)


def overdue(scheduler, seconds):
    """Have the watch see the slice under way for so long."""
    for _ in range(round(seconds / overruns.MOST_PER_LOOK_S) + 1):
        scheduler.overruns.look(overruns.MOST_PER_LOOK_S)


def renewals(world):
    (lease,) = world.store.objects(LEASE)
    return lease["metadata"]["resourceVersion"]


async def test_lease_health_metrics_and_watches_go_on_beside_an_endless_loop(loops, caplog, monkeypatch):
    monkeypatch.setattr(serving, "CORE_TIMEOUT_S", 0.05)
    world = World()
    async with Running(world, loops) as running:
        await stuck(world, running, loops)
        before = renewals(world)
        await until(lambda: renewals(world) != before)
        world.add_pod("later")
        await until(lambda: running.scheduler.following.find("Pod", "default", "later"))
        assert await running.get("/livez") == (200, "ok")
        assert (await running.get("/readyz"))[0] == 200
        overdue(running.scheduler, 2 * overruns.TOLD_AFTER_S)
        status, text = await running.get("/readyz")
        assert status == 500
        assert "plugin Loops at Filter for pod default/endless (tests/runtime/test_stuck_plugins.py:" in text
        assert await running.get("/livez") == (200, "ok")
        status, text = await running.get("/metrics")
        assert status == 200
        assert 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1.0' in text
        status, text = await running.get("/debug/queue")
        assert status == 503
        assert "plugin Loops at Filter for pod default/endless" in text
        told = [record.getMessage() for record in caplog.records if "has been at work for" in record.getMessage()]
        assert len(told) == 2  # after 10 and after 20 seconds
        assert "in filter" in told[0]  # its stack
        loops.released.set()
        await until(lambda: world.node_of("endless") and world.node_of("later"))
        running.scheduler.overruns.look(1.0)
        assert (await running.get("/readyz"))[0] == 200


async def test_a_plugin_that_keeps_all_pods_waiting_is_warned_of_once(loops, caplog):
    world = World()
    async with Running(world, loops) as running:
        await stuck(world, running, loops)
        watch = running.scheduler.overruns
        for _ in range(30):
            watch.look(overruns.LOOK_EVERY_S)
        loops.released.set()
        await until(lambda: world.node_of("endless"))
    warned = [each.getMessage() for each in caplog.records if "every pod waits" in each.getMessage()]
    assert len(warned) == 1
    assert warned[0].startswith("plugin Loops at Filter for pod default/endless (")
    assert "takes more than 100 ms" in warned[0]


def watch_of(position):
    """A watch of slices that all stand at one place, and a function that has it see one that takes some seconds."""
    turns = SimpleNamespace(is_at_work=True, begun=0)
    watch = overruns.OverrunWatch(turns, lambda: position)

    def slice_of(seconds):
        turns.begun += 1
        watch.look(0.0)
        watch.look(seconds)

    return slice_of


@pytest.mark.parametrize(
    ("position", "seconds", "times"),
    [
        (WorkPosition("P", "Filter", "pod default/a", "p.py:7"), (0.05, 0.05), 0),
        (WorkPosition("P", "Filter", "pod default/a", "p.py:7"), (2.0, 2.0, 2.0), 1),
        (WorkPosition("P", "Filter", "pod default/a", "p.py:7"), (2.0, overruns.WARN_EVERY_S, 2.0), 2),
        (WorkPosition("DefaultPreemption", "PostFilter", is_in_tree=True), (2.0,), 0),
        (WorkPosition(), (2.0,), 0),
    ],
)
def test_a_slow_plugin_is_warned_of_now_and_then(caplog, position, seconds, times):
    slice_of = watch_of(position)
    for each in seconds:
        slice_of(each)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * times


async def test_a_stop_names_the_plugin_that_is_in_the_way_and_gives_the_lease_up(loops, caplog, monkeypatch):
    monkeypatch.setattr("berth.runtime.graceful_stop.TELL_STOP_AFTER_S", 0.01)
    monkeypatch.setattr("berth.runtime.graceful_stop.DRAIN_S", 0.05)
    world = World()
    async with Running(world, loops) as running:
        await stuck(world, running, loops)
        running.stop.set()
        with pytest.raises(CycleStuck, match="plugin Loops at Filter for pod default/endless"):
            await running.task
    told = [record.getMessage() for record in caplog.records if "told to stop" in record.getMessage()]
    assert len(told) == 1
    assert "plugin Loops at Filter for pod default/endless" in told[0]
    assert not world.store.objects(LEASE)[0]["spec"].get("holderIdentity")
    assert running.scheduler.is_at_work
    loops.released.set()


async def test_past_hope_nothing_is_written_and_the_lease_is_left_to_expire(loops, caplog, monkeypatch):
    monkeypatch.setattr(live, "ENDED_AFTER_S", live.LOST_AFTER_S + 0.2)
    world = World()
    async with Running(world, loops) as running:
        await stuck(world, running, loops)
        overdue(running.scheduler, overruns.LOST_AFTER_S)
        await until(lambda: not running.scheduler.is_leading)
        last, calls = renewals(world), len(world.transport.calls)
        status, text = await running.get("/livez")
        assert status == 500
        assert "plugin Loops at Filter for pod default/endless" in text
        with pytest.raises(CycleStuck, match="gave up, since the scheduling cycle has been at work for 300 s"):
            await running.task
        assert renewals(world) == last
        assert {verb for verb, _ in world.transport.calls[calls:]} <= {"watch", "list", "get"}
    assert world.store.objects(LEASE)[0]["spec"]["holderIdentity"] == "me"


async def test_a_cycle_that_ends_past_hope_writes_nothing(loops):
    world = World()
    async with Running(world, loops) as running:
        await stuck(world, running, loops)
        overdue(running.scheduler, overruns.LOST_AFTER_S)
        await until(lambda: not running.scheduler.is_leading)
        loops.released.set()
        with pytest.raises(CycleStuck):
            await running.task
    assert world.node_of("endless") == ""


async def test_a_process_that_was_frozen_does_not_find_its_cycle_overdue(loops, caplog):
    world = World()
    async with Running(world, loops) as running:
        await stuck(world, running, loops)
        running.scheduler.overruns.look(1.0)
        running.scheduler.overruns.look(86400.0)
        assert running.scheduler.overruns.problem() == ""
        loops.released.set()
        await until(lambda: world.node_of("endless"))
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
