"""What a watch has lost is found by comparing, and repaired; what merely lags behind is left alone."""

import asyncio
import json
import random

import pytest

from berth.api.errors import ApiError, ConnectionLost
from berth.api.resources import RESOURCES
from berth.kube.changes import Added, Deleted, InvalidObject, Modified
from berth.kube.reflector import Reflector
from berth.kube.watch_check import LAG_S, PERIOD_S, WatchCheck
from packages.scheduler.tests.kube.fakes import VirtualClock
from tests.waiting import settle

SEEDS = range(150)


class Server:
    """Nodes with a history, and a watch that may lose, repeat and reorder what it is given."""

    def __init__(self, page_size=2):
        self.version, self.nodes, self.lines = 10, {}, []
        self.arrived, self.queue = asyncio.Event(), []
        self.calls, self.fault = [], None

    def put(self, name, uid=None, cpu="4"):
        self.version += 1
        uid = uid or (self.nodes[name]["metadata"]["uid"] if name in self.nodes else f"uid-{name}")
        metadata = {"name": name, "uid": uid, "resourceVersion": str(self.version)}
        found = {"metadata": metadata, "status": {"allocatable": {"cpu": cpu}}}
        kind = "MODIFIED" if name in self.nodes else "ADDED"
        self.nodes[name] = found
        return {"type": kind, "object": found}

    def delete(self, name):
        self.version += 1
        gone = self.nodes.pop(name)
        return {"type": "DELETED", "object": {"metadata": {**gone["metadata"], "resourceVersion": str(self.version)}}}

    def send(self, *events):
        self.queue += [json.dumps(event).encode() for event in events]
        self.arrived.set()

    async def list(self, resource, *, metadata_only=False, limit=0, continue_token="", **options):
        self.calls.append("metadata" if metadata_only else "list")
        if self.fault is not None and metadata_only:
            raise self.fault
        names = sorted(self.nodes)
        start = int(continue_token or 0)
        part = names[start : start + limit] if limit else names
        token = str(start + limit) if limit and start + limit < len(names) else ""
        items = [self.nodes[name] for name in part]
        if metadata_only:
            items = [{"metadata": item["metadata"]} for item in items]
        return json.dumps(
            {"metadata": {"resourceVersion": str(self.version), "continue": token}, "items": items}
        ).encode()

    async def watch(self, resource, **options):
        self.queue.clear()
        while True:
            await self.arrived.wait()
            self.arrived.clear()
            lines, self.queue = self.queue, []
            for line in lines:
                yield line


class Case:
    def __init__(self, *names):
        self.clock, self.server, self.told, self.reports = VirtualClock(), Server(), [], []
        for name in names:
            self.server.put(name)
        self.reflector = Reflector(
            self.server, RESOURCES["Node"], self.told.extend, page_size=3, may_stream=False,
            report=lambda trouble: self.reports.append(str(trouble)),
            rng=random.Random(1), clock=self.clock, sleep=self.clock.sleep,
        )  # fmt: skip
        self.check = WatchCheck(
            lambda: [self.reflector],
            lambda trouble: self.reports.append(str(trouble)),
            random.Random(1),
            self.clock.sleep,
        )
        self.tasks = [asyncio.create_task(self.reflector.run())]

    async def __aenter__(self):
        await settle()
        return self

    async def __aexit__(self, *_):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def compare(self):
        task = asyncio.create_task(self.check.compare(self.reflector))
        self.tasks.append(task)
        for _ in range(20):
            await self.clock.advance(LAG_S / 5)
        assert task.done()
        await task
        await settle()

    def known(self):
        return {name: versions(found) for (_, name), found in self.reflector.mirror.objects.items()}

    def there(self):
        return {name: (found["metadata"]["uid"], found["metadata"]["resourceVersion"])
                for name, found in self.server.nodes.items()}  # fmt: skip

    def replayed(self):
        """What somebody knows who took in everything that was told."""
        known = {}
        for change in self.told:
            if isinstance(change, Added):
                assert change.object.metadata.name not in known
                known[change.object.metadata.name] = versions(change.object)
            elif isinstance(change, Modified):
                known[change.object.metadata.name] = versions(change.object)
            elif isinstance(change, Deleted):
                del known[change.object.metadata.name]
        return known


def versions(found):
    return found.metadata.uid, found.metadata.resource_version


@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_was_lost_repeated_or_reordered_one_comparison_mends_it(seed):
    rng = random.Random(seed)
    async with Case("a", "b", "c", "d") as case:
        for _ in range(rng.randrange(1, 6)):
            events = [event for _ in range(rng.randrange(1, 8)) for event in something(rng, case.server)]
            events = [event for event in events for _ in range(rng.choice((0, 1, 1, 1, 2)))]
            if rng.random() < 0.5:
                rng.shuffle(events)
            case.server.send(*events)
            await settle()
        was_wrong = case.known() != case.there()
        await case.compare()
        assert case.known() == case.there() == case.replayed()
        assert case.reflector.repairs == was_wrong
        assert case.reflector.comparisons == 1


def something(rng, server):
    name = rng.choice("abcdefgh")
    if name in server.nodes and rng.random() < 0.4:
        gone = server.delete(name)
        return [gone, server.put(name, uid=f"uid-{server.version}")] if rng.random() < 0.3 else [gone]
    return [server.put(name)]


async def test_a_dropped_event_is_told_counted_and_repaired():
    async with Case("a", "b") as case:
        case.server.put("b")
        case.server.delete("a")
        await case.compare()
        assert [type(change) for change in case.told[-2:]] == [Modified, Deleted]
        assert case.reports == ["nodes: the watch has lost 2 changes, of a for one; listing again"]
        assert case.server.calls.count("list") == 2 and case.reflector.repairs == 1


async def test_what_lags_behind_is_left_alone():
    async with Case("a", "b") as case:
        events = [case.server.put("b"), case.server.delete("a"), case.server.put("c")]
        task = asyncio.create_task(case.check.compare(case.reflector))
        await case.clock.advance(LAG_S / 2)
        case.server.send(*events)
        await case.clock.advance(LAG_S)
        await task
        assert case.reports == [] and case.reflector.repairs == 0 and case.reflector.comparisons == 1
        assert case.server.calls == ["list", "metadata"], "everything has come, so there is nothing to look at again"


async def test_an_object_that_changes_all_the_time_is_no_difference():
    async with Case("a", "b") as case:
        task = asyncio.create_task(case.check.compare(case.reflector))
        while not task.done():
            late = case.server.put("b")
            await case.clock.advance(1)
            case.server.send(late)
            await settle()
        await task
        assert case.reports == []


async def test_an_informer_that_is_ahead_of_a_list_is_right():
    async with Case("a", "b") as case:
        old = dict(case.server.nodes)
        case.server.send(case.server.put("b"), case.server.put("c"))
        await settle()
        newest, case.server.nodes = case.server.nodes, old  # the list was made before the watch brought these
        task = asyncio.create_task(case.check.compare(case.reflector))
        await case.clock.advance(LAG_S / 2)
        case.server.nodes = newest
        await case.clock.advance(LAG_S)
        await task
        assert case.reports == [] and case.reflector.repairs == 0


async def test_an_object_that_could_not_be_read_is_compared_too():
    async with Case("a") as case:
        case.server.send(case.server.put("a", cpu="many"))
        await settle()
        assert isinstance(case.told[-1], InvalidObject)
        await case.compare()
        assert case.reflector.repairs == 0
        case.server.put("a", cpu="8")
        await case.compare()
        assert case.reflector.repairs == 1 and case.told[-1].object.status.allocatable == {"cpu": "8"}


@pytest.mark.parametrize("fault", [ApiError(503, "ServiceUnavailable", "busy"), ConnectionLost("reset")])
async def test_a_comparison_that_fails_is_told_and_changes_nothing(fault):
    async with Case("a") as case:
        case.server.fault = fault
        case.server.put("b")
        await case.compare()
        assert case.reports == [f"nodes: not compared with the API server: {fault}"]
        assert case.reflector.comparisons == 0 and case.known().keys() == {"a"}


async def test_it_shows_that_an_informer_is_current():
    async with Case("a") as case:
        await case.clock.advance(600)
        assert case.reflector.stale_s == 600
        await case.compare()
        assert case.reflector.stale_s < 70


async def test_each_kind_is_compared_every_few_minutes():
    async with Case("a") as case:
        case.tasks.append(asyncio.create_task(case.check.run()))
        await case.clock.advance(PERIOD_S * 10)
        assert 8 <= case.reflector.comparisons <= 12
        case.server.put("b")
        await case.clock.advance(PERIOD_S * 1.3)
        assert case.known().keys() == {"a", "b"}
