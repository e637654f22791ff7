"""What the server serves is followed; what it does not is asked for again."""

import asyncio
import random

import pytest

from berth.api.errors import ApiError, ConnectionLost
from berth.api.pod import Pod
from berth.api.resources import RESOURCES
from berth.config.feature_gates import feature_gates
from berth.kube.changes import Added, Synced
from berth.kube.informers import ASK_AGAIN_S
from berth.runtime.watched_resources import (
    OPTIONAL_KINDS,
    REQUIRED_KINDS,
    SILENT_S,
    STALE_S,
    START_WITHOUT_S,
    WatchedResources,
)
from packages.scheduler.tests.kube.fakes import VirtualClock
from tests.runtime.world import World
from tests.waiting import WAIT_S, settle

STORAGE_CLASS = RESOURCES["StorageClass"]


class Bench:
    def __init__(self, features=None):
        self.world = World(nodes=1)
        self.clock = VirtualClock()
        self.changes, self.said = [], []
        self.following = WatchedResources(
            self.world.transport, self.changes.extend,
            report=lambda trouble: self.said.append(str(trouble)), rng=random.Random(1),
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
    await asyncio.wait_for(bench.following.wait_for_sync(), WAIT_S)
    assert len(bench.synced()) == len(REQUIRED_KINDS) + len(OPTIONAL_KINDS)
    assert bench.following.unsynced() == {}
    assert bench.following.find("Node", "", "node-0").metadata.name == "node-0"
    assert bench.following.find("Node", "", "nowhere") is None


@pytest.mark.parametrize("is_on", [False, True])
async def test_a_kind_behind_a_gate_is_followed_where_it_is_on(is_on):
    bench = Bench(features=feature_gates({"DRADeviceTaintRules": is_on}))
    await bench.start()
    await asyncio.wait_for(bench.following.wait_for_sync(), WAIT_S)
    await bench.stop()
    assert ("devicetaintrules" in bench.synced()) is is_on


async def test_a_kind_that_comes_later_is_followed_then(bench):
    bench.world.transport.unserved = {"storageclasses"}
    await bench.start()
    await asyncio.wait_for(bench.following.wait_for_sync(), WAIT_S)
    assert bench.following.missing == {"storageclasses"}
    assert "storageclasses" not in bench.synced()
    await bench.clock.advance(ASK_AGAIN_S + 1)
    assert bench.following.missing == {"storageclasses"}
    bench.world.transport.unserved = set()
    bench.world.store.create(STORAGE_CLASS, "", {"metadata": {"name": "fast"}, "provisioner": "p"})
    await bench.clock.advance(ASK_AGAIN_S + 1)
    await settle(100)
    assert bench.following.missing == set()
    assert "storageclasses" in bench.synced()
    assert bench.following.find("StorageClass", "", "fast").metadata.name == "fast"
    assert len(bench.said) == 1


async def test_pods_nodes_and_namespaces_are_required(bench):
    bench.world.transport.unserved = {"nodes"}
    await bench.start()
    waiting = asyncio.create_task(bench.following.wait_for_sync())
    await bench.clock.advance(10 * START_WITHOUT_S)
    assert not waiting.done() and not bench.following.has_started
    assert list(bench.following.unsynced()) == ["nodes"]
    assert bench.following.missing == set()
    bench.world.transport.unserved = set()
    await bench.clock.advance(60)
    await asyncio.wait_for(waiting, WAIT_S)


@pytest.mark.parametrize(
    "error", [ConnectionLost("no route to host"), ApiError(401, "Unauthorized", "who are you?")], ids=["lost", "401"]
)
async def test_until_the_server_answers_it_is_asked_again(bench, error):
    bench.world.transport.refuse("list", *[error] * 40)
    await bench.start()
    assert str(error) in bench.following.unsynced()["pods"]
    await bench.clock.advance(60)
    await asyncio.wait_for(bench.following.wait_for_sync(), WAIT_S)
    assert bench.following.unsynced() == {} and bench.following.lacking() == {}
    assert any(isinstance(change, Added) for change in bench.changes)


FORBIDDEN = ApiError(403, "Forbidden", "you may not list it")


def forbid(transport, *plurals):
    """Refuse lists of these; returns the set of what is refused."""
    refused, answer = set(plurals), transport._call

    async def call(verb, plural, act):
        if verb == "list" and plural in refused:
            raise FORBIDDEN
        return await answer(verb, plural, act)

    transport._call = call
    return refused


async def test_what_is_refused_holds_up_the_start_for_a_bounded_time_only(bench):
    refused = forbid(bench.world.transport, "csistoragecapacities")
    await bench.start()
    waiting = asyncio.create_task(bench.following.wait_for_sync())
    await bench.clock.advance(START_WITHOUT_S - 1)
    assert not waiting.done()
    assert list(bench.following.unsynced()) == ["csistoragecapacities"]
    await bench.clock.advance(2)
    await asyncio.wait_for(waiting, WAIT_S)
    assert bench.following.missing == set(), "a refusal does not mean that it is not served"
    why = "the RBAC role of this user needs list and watch on csistoragecapacities"
    assert why in bench.following.lacking()["csistoragecapacities"]
    assert any(line.startswith("csistoragecapacities: starting without them") for line in bench.said)
    refused.clear()
    await bench.clock.advance(40)
    assert "csistoragecapacities" in bench.synced() and bench.following.lacking() == {}


async def test_pods_that_could_be_misplaced_wait_for_what_is_refused(bench):
    refused = forbid(bench.world.transport, "csinodes")
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    bench.world.add_pod("plain")
    bench.world.add_pod("db", volumes=volumes)
    await bench.start()
    waiting = asyncio.create_task(bench.following.wait_for_sync())
    await bench.clock.advance(START_WITHOUT_S + 1)
    await asyncio.wait_for(waiting, WAIT_S)

    def told():
        return [c.object.metadata.name for c in bench.changes if isinstance(c, Added) and isinstance(c.object, Pod)]

    assert told() == ["plain"] and bench.following.held_pods == 1
    assert bench.following.lacking()["csinodes"].endswith("; 1 pods wait for them")
    refused.clear()
    await bench.clock.advance(40)
    assert told() == ["plain", "db"] and bench.following.held_pods == 0


async def test_what_is_not_served_keeps_no_pod_waiting(bench):
    bench.world.transport.unserved = {"csinodes"}
    bench.world.add_pod("db", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    await bench.start()
    await asyncio.wait_for(bench.following.wait_for_sync(), WAIT_S)
    assert bench.following.held_pods == 0 and bench.following.find("Pod", "default", "db") is not None
    assert "db" in [c.object.metadata.name for c in bench.changes if isinstance(c, Added)]


async def broken_watch(_resource, **_options):
    raise ConnectionLost("watching: the connection was reset by a proxy")
    yield


async def test_lists_keep_it_going_where_every_watch_breaks(bench):
    bench.world.transport.watch = broken_watch
    await bench.start()
    await asyncio.wait_for(bench.following.wait_for_sync(), WAIT_S)
    await bench.clock.advance(60)
    for number in range(20):
        bench.world.add_pod(f"late-{number}")
    await bench.clock.advance(6)
    names = {change.object.metadata.name for change in bench.changes if isinstance(change, Added)}
    assert {f"late-{number}" for number in range(20)} <= names
    assert bench.following.stale() == {}


async def test_what_is_heard_of_no_more_is_stale(bench):
    await bench.start()
    await asyncio.wait_for(bench.following.wait_for_sync(), WAIT_S)
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
    await asyncio.wait_for(bench.following.wait_for_sync(), WAIT_S)
    bench.world.transport.refuse("list", *[ConnectionLost("no route to host")] * 10_000)
    await bench.clock.advance(STALE_S + 1)
    assert bench.following.stale()["nodes"].endswith("no route to host") or "reset" in bench.following.stale()["nodes"]
