"""What the server serves is followed; what it does not is asked for again."""

import asyncio
import random

import pytest

from berth.api.errors import ApiError, ConnectionLost
from berth.config.feature_gates import feature_gates
from berth.kube.changes import Added, Synced
from berth.runtime.following import (
    ASK_AGAIN_S,
    OPTIONAL_KINDS,
    REQUIRED_KINDS,
    SILENT_S,
    STALE_S,
    Following,
)
from tests.kube.fakes import VirtualClock, settle
from tests.runtime.world import World


class Bench:
    def __init__(self, features=None):
        self.world = World(nodes=1)
        self.clock = VirtualClock()
        self.changes, self.said = [], []
        self.following = Following(
            self.world.transport, self.changes.extend, report=self.said.append, rng=random.Random(1),
            features=features, sleep=self.clock.sleep, clock=self.clock,
        )  # fmt: skip
        self.task = None

    async def start(self):
        self.task = asyncio.create_task(self.following.run())
        await settle(100)

    async def stop(self):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def synced(self):
        return {change.resource.plural for change in self.changes if isinstance(change, Synced)}


@pytest.fixture
async def bench():
    made = Bench()
    yield made
    await made.stop()


async def test_every_kind_is_followed_and_objects_are_found(bench):
    await bench.start()
    await asyncio.wait_for(bench.following.wait_for_sync(), 5)
    assert len(bench.synced()) == len(REQUIRED_KINDS) + len(OPTIONAL_KINDS)
    assert bench.following.unsynced() == {}
    assert bench.following.find("Node", "", "node-0").metadata.name == "node-0"
    assert bench.following.find("Node", "", "nowhere") is None


@pytest.mark.parametrize("is_on", [False, True])
async def test_a_kind_behind_a_gate_is_followed_where_it_is_on(is_on):
    bench = Bench(features=feature_gates({"DRADeviceTaintRules": is_on}))
    await bench.start()
    await asyncio.wait_for(bench.following.wait_for_sync(), 5)
    await bench.stop()
    assert ("devicetaintrules" in bench.synced()) is is_on


async def test_a_kind_that_comes_later_is_followed_then(bench):
    bench.world.transport.unserved = {"storageclasses"}
    await bench.start()
    await asyncio.wait_for(bench.following.wait_for_sync(), 5)
    assert bench.following.missing == {"storageclasses"}
    assert "storageclasses" not in bench.synced()
    await bench.clock.advance(ASK_AGAIN_S + 1)
    assert bench.following.missing == {"storageclasses"}
    bench.world.transport.unserved = set()
    await bench.clock.advance(ASK_AGAIN_S + 1)
    await settle(100)
    assert bench.following.missing == set()
    assert "storageclasses" in bench.synced()
    assert len(bench.said) == 1


async def test_pods_and_nodes_are_required(bench):
    bench.world.transport.unserved = {"nodes"}
    await bench.start()
    assert bench.synced() == set()
    assert "cannot be used yet" in bench.said[0]
    assert list(bench.following.unsynced()) == ["everything"]


@pytest.mark.parametrize(
    "error", [ConnectionLost("no route to host"), ApiError(401, "Unauthorized", "who are you?")], ids=["lost", "401"]
)
async def test_until_the_server_answers_it_is_asked_again(bench, error):
    bench.world.transport.refuse("list", error, error)
    await bench.start()
    assert bench.following.problem == str(error)
    await bench.clock.advance(60)
    await asyncio.wait_for(bench.following.wait_for_sync(), 5)
    assert bench.following.problem == ""
    assert [str(error) in line for line in bench.said] == [True, True]
    assert any(isinstance(change, Added) for change in bench.changes)


async def broken_watch(_resource, **_options):
    raise ConnectionLost("watching: the connection was reset by a proxy")
    yield


async def test_lists_keep_it_going_where_every_watch_breaks(bench):
    bench.world.transport.watch = broken_watch
    await bench.start()
    await asyncio.wait_for(bench.following.wait_for_sync(), 5)
    await bench.clock.advance(60)
    for number in range(20):
        bench.world.add_pod(f"late-{number}")
    await bench.clock.advance(6)
    names = {change.object.metadata.name for change in bench.changes if isinstance(change, Added)}
    assert {f"late-{number}" for number in range(20)} <= names
    assert bench.following.stale() == {}


async def test_what_is_heard_of_no_more_is_stale(bench):
    await bench.start()
    await asyncio.wait_for(bench.following.wait_for_sync(), 5)
    bench.world.transport.watch = broken_watch
    bench.world.transport.refuse("list", *[ConnectionLost("no route to host")] * 10_000)
    await bench.clock.advance(STALE_S)
    assert bench.following.stale() == {}, "watches that are open may be silent for long"
    await bench.clock.advance(SILENT_S)
    stale = bench.following.stale()
    assert stale["pods"].startswith("nothing heard for 10")


async def test_a_watch_known_to_be_broken_is_stale_sooner(bench):
    bench.world.transport.watch = broken_watch
    await bench.start()
    await asyncio.wait_for(bench.following.wait_for_sync(), 5)
    bench.world.transport.refuse("list", *[ConnectionLost("no route to host")] * 10_000)
    await bench.clock.advance(STALE_S + 1)
    assert bench.following.stale()["nodes"].endswith("no route to host") or "reset" in bench.following.stale()["nodes"]
