"""Several schedulers at work on one cluster: by shards, and one after the other."""

import asyncio
import random
from collections import Counter
from contextlib import asynccontextmanager
from datetime import timedelta

from berth.api.resources import RESOURCES
from berth.runtime.scheduler import LiveScheduler
from berth.runtime.shard_leadership import shard_lease
from berth.runtime.turns import Inline
from berth.state.shards import shard_of
from packages.scheduler.tests.kube.fakes import START
from tests.runtime.world import FaultyTransport, World, configuration
from tests.waiting import until, virtually

LEASE, NAMESPACE = RESOURCES["Lease"], RESOURCES["Namespace"]
SHARDS = 4


class Several:
    """Schedulers on one store, each with a transport of its own."""

    def __init__(self, nodes=4):
        self.world = World(nodes=nodes, cpu="32")
        self.transports, self.schedulers, self.stops, self.tasks = {}, {}, {}, {}

    def start(self, name, shards=SHARDS):
        transport = self.transports[name] = FaultyTransport(self.world.store)
        config = configuration(leader_elect=True)
        scheduler = self.schedulers[name] = LiveScheduler(
            config,
            transport,
            identity=name,
            shards=shards,
            rng=random.Random(name),
            clock=asyncio.get_running_loop().time,
            wall_clock=lambda: START + timedelta(seconds=asyncio.get_running_loop().time()),
            runner=Inline(),
        )
        self.stops[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(scheduler.run(self.stops[name]))
        return scheduler

    def held(self, name):
        return self.schedulers[name]._leadership._elector.held

    def add_pods(self, count, prefix="web", cpu="10m"):
        """Pods in as many namespaces as make sure that each shard has some."""
        for number in range(count):
            namespace = f"team-{number % 20}"
            container = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
            body = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"{prefix}-{number}"},
                "spec": {"containers": [container]},
            }
            self.world.store.create(RESOURCES["Pod"], namespace, body)

    def holders(self):
        return Counter(lease["spec"].get("holderIdentity") for lease in self.world.store.objects(LEASE))


@asynccontextmanager
async def several(**options):
    made = Several(**options)
    for number in range(20):
        made.world.store.create(NAMESPACE, "", {"metadata": {"name": f"team-{number}"}})
    try:
        yield made
    finally:
        for stop in made.stops.values():
            stop.set()
        await asyncio.gather(*made.tasks.values(), return_exceptions=True)


@virtually
async def test_each_binds_the_pods_of_its_shards_and_all_are_bound_once():
    async with several() as cluster:
        cluster.start("a")
        cluster.start("b")
        await until(lambda: len(cluster.held("a")) == len(cluster.held("b")) == 2)
        cluster.add_pods(60)
        await until(lambda: len(cluster.world.accepted()) == 60)
        by = {name: transport.count("bind") for name, transport in cluster.transports.items()}
        assert min(by.values()) > 5 and sum(by.values()) == 60
        held = {name: cluster.held(name) for name in ("a", "b")}
    assert held["a"].isdisjoint(held["b"])
    assert set(Counter(record.pod_uid for record in cluster.world.accepted()).values()) == {1}
    assert {lease["metadata"]["name"] for lease in cluster.world.store.objects(LEASE)} == {
        shard_lease("kube-scheduler", shard) for shard in range(SHARDS)
    }


@virtually
async def test_when_one_dies_the_others_take_its_shards_over():
    async with several() as cluster:
        cluster.start("a")
        cluster.start("b")
        await until(lambda: len(cluster.held("a")) == len(cluster.held("b")) == 2)
        cluster.tasks.pop("a").cancel()  # as if it had been killed
        cluster.stops.pop("a")
        cluster.schedulers.pop("a")._leadership._elector.abandon("the test says so")
        cluster.add_pods(40)
        await until(lambda: len(cluster.world.accepted()) == 40)
        assert cluster.held("b") == frozenset(range(SHARDS))


@virtually
async def test_who_ends_releases_its_shards_and_the_next_goes_on():
    async with several() as cluster:
        cluster.start("a")
        await until(lambda: len(cluster.held("a")) == SHARDS)
        cluster.stops["a"].set()
        await cluster.tasks["a"]
        assert set(cluster.holders()) == {""}
        cluster.add_pods(10)
        cluster.start("b")
        await until(lambda: len(cluster.world.accepted()) == 10)


@virtually
async def test_a_shard_that_is_taken_away_is_written_no_more():
    async with several() as cluster:
        scheduler = cluster.start("a", shards=2)
        await until(lambda: len(cluster.held("a")) == 2)
        gate = cluster.transports["a"].hold("bind")
        cluster.add_pods(20)
        await until(lambda: cluster.transports["a"].count("bind") == 20)
        lease = next(one for one in cluster.world.store.objects(LEASE) if one["metadata"]["name"].endswith("-0"))
        spec = {**lease["spec"], "holderIdentity": "another", "leaseDurationSeconds": 3600}
        name = lease["metadata"]["name"]
        cluster.world.store.patch(LEASE, "kube-system", name, {"spec": spec}, "application/merge-patch+json")
        await until(lambda: cluster.held("a") == {1})
        gate.set()
        mine = sum(shard_of(f"team-{number % 20}", 2) == 1 for number in range(20))
        await until(lambda: len(cluster.world.accepted()) == mine)
        await until(lambda: scheduler.core.cache.assumed_count == 0 and not scheduler.core.unfinished)
        assert {shard_of(record.namespace, 2) for record in cluster.world.accepted()} == {1}
        assert len(scheduler.core.queue) == 0


@virtually
async def test_a_standby_takes_over_within_three_seconds_of_the_leases_end():
    async with several() as cluster:
        first = cluster.start("a", shards=1)
        await until(lambda: first.is_leading)
        second = cluster.start("b", shards=1)
        await until(lambda: second.leader == "a")
        cluster.tasks.pop("a").cancel()
        cluster.stops.pop("a")
        loop = asyncio.get_running_loop()
        renewed_at = first._leadership._elector.held_until - 10.0
        cluster.add_pods(5)
        await until(lambda: len(cluster.world.accepted()) == 5)
        assert renewed_at + 15.0 < loop.time() < renewed_at + 18.0


@virtually
async def test_a_pod_that_another_scheduler_has_bound_is_left_to_it():
    async with several() as cluster:
        scheduler = cluster.start("a", shards=1)
        await until(lambda: scheduler.is_leading)
        gate = cluster.transports["a"].hold("bind")
        cluster.add_pods(1)
        await until(lambda: cluster.transports["a"].count("bind"))
        cluster.world.store.bind("team-0", "web-0", {"target": {"name": "node-3"}, "metadata": {"name": "web-0"}})
        gate.set()
        await until(lambda: scheduler.core.cache.assumed_count == 0 and not scheduler.core.unfinished)
        assert len(scheduler.core.queue) == 0
        state = next(iter(scheduler.core.cache.states().values()))
        assert scheduler.core.cache.table.names[state.row] == "node-3"
