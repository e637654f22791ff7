"""Schedulers share out the leases of shards among themselves, in virtual time."""

import asyncio
import random
from collections import Counter
from datetime import timedelta

import pytest

from berth.api.errors import ConnectionLost
from berth.kube.fence import WriteRefused, fenced
from berth.kube.leader import LeaderElectionTimes, LeaderElector
from berth.kube.shard_leases import ShardLeases
from berth.testing.virtual_loop import VirtualLoop
from packages.scheduler.tests.kube.fakes import START, MemoryTransport
from tests.waiting import pass_time

TIMES = LeaderElectionTimes()


class Cluster:
    """An API server and the schedulers that share its shards, in one loop on virtual time."""

    def __init__(self, count, seed=1):
        self.count, self.rng = count, random.Random(seed)
        self.loop = VirtualLoop()
        self.transport = MemoryTransport()
        self.parts, self.tasks, self.told = {}, {}, {}

    def run(self, seconds):
        self.loop.run_until_complete(pass_time(seconds))
        self.check()

    def join(self, name):
        told = self.told[name] = []

        def make_elector(shard, on_seen):
            return LeaderElector(
                self.transport,
                namespace="kube-system",
                name=f"berth-shard-{shard}",
                identity=name,
                times=TIMES,
                on_seen=on_seen,
                report=lambda _: None,
                clock=self.loop.time,
                wall_clock=lambda: START + timedelta(seconds=self.loop.time()),
                rng=self.rng,
            )

        part = ShardLeases(
            self.count, make_elector, identity=name, times=TIMES, on_change=told.append, clock=self.loop.time,
            report=lambda _: None,
        )  # fmt: skip
        self.parts[name] = part
        self.tasks[name] = self.loop.create_task(part.run())
        return part

    def kill(self, name):
        self.tasks.pop(name).cancel()
        self.parts.pop(name)

    def leave(self, name):
        """As on SIGTERM."""

        async def end():
            task = self.tasks.pop(name)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.parts.pop(name).release()

        self.loop.run_until_complete(end())

    def shares(self):
        return sorted(len(part.held) for part in self.parts.values())

    def holders(self):
        return Counter(lease["spec"]["holderIdentity"] for lease in self.transport.objects.values())

    def check(self):
        for shard in range(self.count):
            open_fences = [name for name, part in self.parts.items() if part.electors[shard].fence.is_open]
            assert len(open_fences) <= 1, f"shard {shard} is written by {open_fences}"

    def end(self):
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(pass_time(1))
        self.loop.close()


@pytest.fixture
def make():
    made = []

    def cluster(count, *names, **options):
        made.append(Cluster(count, **options))
        for name in names:
            made[-1].join(name)
        return made[-1]

    yield cluster
    for each in made:
        each.end()


def test_one_alone_takes_all_at_once(make):
    cluster = make(8, "a")
    cluster.run(0.5)
    assert cluster.parts["a"].held == frozenset(range(8))
    assert cluster.told["a"][-1] == frozenset(range(8))


@pytest.mark.parametrize(
    ("count", "parts", "shares"), [(8, 2, [4, 4]), (7, 3, [2, 2, 3]), (4, 4, [1] * 4), (2, 3, [0, 1, 1])]
)
@pytest.mark.parametrize("seed", range(3))
def test_they_share_fairly(make, count, parts, shares, seed):
    cluster = make(count, *(f"s{number}" for number in range(parts)), seed=seed)
    cluster.run(60)
    assert cluster.shares() == shares


@pytest.mark.parametrize("seed", range(3))
def test_who_comes_later_gets_a_share_and_nothing_moves_without_need(make, seed):
    cluster = make(8, "a", seed=seed)
    cluster.run(10)
    cluster.join("b")
    cluster.run(60)
    assert cluster.shares() == [4, 4]
    moved = len(cluster.told["a"]) + len(cluster.told["b"])
    assert moved == 8 + 4 + 4, "each shard that changed hands did so once"
    cluster.run(120)
    assert len(cluster.told["a"]) + len(cluster.told["b"]) == moved


@pytest.mark.parametrize("seed", range(5))
def test_the_shards_of_who_dies_are_taken_over_soon_after_their_leases_end(make, seed):
    cluster = make(6, "a", "b", "c", seed=seed)
    cluster.run(60)
    cluster.kill("a")
    cluster.run(TIMES.lease_duration_s + 3.0)
    assert sum(cluster.shares()) == 6
    cluster.run(20)
    assert cluster.shares() == [3, 3]


@pytest.mark.parametrize("seed", range(5))
def test_a_standby_without_a_shard_is_there_at_once(make, seed):
    cluster = make(1, "a", "b", seed=seed)
    cluster.run(10)
    (leader,) = [name for name, part in cluster.parts.items() if part.held]
    cluster.leave(leader)
    cluster.run(1.5)
    assert cluster.shares() == [1]


def test_who_leaves_releases_its_shards(make):
    cluster = make(4, "a", "b")
    cluster.run(60)
    cluster.leave("a")
    assert cluster.holders()[""] == 2
    cluster.run(3)
    assert cluster.shares() == [4]


def test_a_shard_that_cannot_be_renewed_is_lost_and_the_others_are_not(make):
    cluster = make(2, "a")
    cluster.run(5)
    name = "berth-shard-0"
    asked = cluster.transport._enter

    async def enter(verb, which):
        await asked(verb, which)
        if which == name:
            raise ConnectionLost("down")

    cluster.transport._enter = enter
    cluster.run(20)
    assert cluster.parts["a"].held == {1}
    cluster.transport._enter = asked
    cluster.run(20)
    assert cluster.parts["a"].held == {0, 1}


def test_a_shard_is_given_up_when_what_was_sent_has_ended(make):
    cluster = make(2, "a")
    cluster.run(5)
    part, under_way = cluster.parts["a"], cluster.loop.create_future()

    class Server:
        async def bind(self, *_arguments, **_options):
            return await under_way

    writing = [
        cluster.loop.create_task(fenced(Server(), lambda _, e=elector: e.fence).bind("ns", "p", b""))
        for elector in part.electors
    ]
    cluster.run(1)
    cluster.join("b")
    cluster.run(8)
    (given_up,) = {0, 1} - part.held
    assert cluster.told["a"][-1] == part.held, "nothing more of it is begun"
    with pytest.raises(WriteRefused, match="another scheduler has fewer"):
        cluster.loop.run_until_complete(fenced(Server(), lambda _: part.electors[given_up].fence).bind("ns", "q", b""))
    assert cluster.holders() == {"a": 2} and cluster.parts["b"].held == frozenset()
    under_way.set_result(b"done")
    cluster.run(3)
    assert cluster.parts["b"].held == {given_up}
    assert [task.result() for task in writing] == [b"done"] * 2


def test_what_does_not_end_is_cut_off_and_the_lease_left_to_expire(make):
    cluster = make(2, "a")
    cluster.run(5)
    part = cluster.parts["a"]

    class Server:
        async def bind(self, *_arguments, **_options):
            await pass_time(1000)

    writing = [
        cluster.loop.create_task(fenced(Server(), lambda _, e=elector: e.fence).bind("ns", "p", b""))
        for elector in part.electors
    ]
    cluster.leave("a")
    assert cluster.holders() == {"a": 2}
    for task in writing:
        with pytest.raises(ConnectionLost, match="cut off"):
            task.result()


@pytest.mark.parametrize("seed", range(5))
def test_comings_and_goings(make, seed):
    """Whatever happens, no shard is ever two schedulers', and in the end all are shared out."""
    cluster = make(5, "s0", seed=seed)
    rng, number = random.Random(seed), 1
    for _ in range(25):
        happens = rng.choice(["join", "kill", "leave", "pause"])
        if happens == "join" and len(cluster.parts) < 4:
            cluster.join(f"s{number}")
            number += 1
        elif happens in ("kill", "leave") and len(cluster.parts) > 1:
            getattr(cluster, happens)(rng.choice(sorted(cluster.parts)))
        else:
            cluster.run(rng.uniform(0, 20))
        cluster.check()
        cluster.run(rng.uniform(0, 5))
    cluster.run(90)
    shares = cluster.shares()
    assert sum(shares) == 5 and shares[-1] - shares[0] <= 1
