"""A life with plugins under load: two changes of the configuration, with a shadow beside.

Pods come every few milliseconds, some in pairs that Permit holds until both have a node; some are deleted, some
bindings fail or their answers get lost. Meanwhile the configuration brings another plugin, and then takes it away for
other args. In the end every pod that is still there is on a node, none was bound twice, and the story is told.
Everything is in virtual time; the invariants of `berth.testing.invariants` and the oracle here, which knows only what
the API server has accepted, are asked all along.
"""

import asyncio
import itertools
import random
from collections import Counter

import pytest

from berth.api.errors import ApiError, ConnectionLost
from berth.decisions.plugin_views import shadow_reports
from berth.framework.registry import Registry
from berth.plugin import Code, Status, unschedulable
from berth.plugins.registry import in_tree_registry
from berth.runtime.observing.metrics import Metrics
from berth.testing.invariants import check
from tests.runtime.world import POD, World, configuration, scheduling
from tests.waiting import pass_time, virtually


class Pairs:
    """Pairs of pods go together."""

    name = "Pairs"

    def __init__(self, args, handle):
        self.handle = handle
        self.waiting = {}

    def permit(self, state, pod, node_name):
        pair = pod.labels.get("pair")
        if pair is None:
            return None
        first = self.waiting.pop(pair, None)
        held = None if first is None or first == pod.uid else self.handle.waiting.get(first)
        if held is None and not self.is_placed(pair, pod.uid):
            self.waiting[pair] = pod.uid
            return Status(Code.WAIT), 30.0
        if held is not None:
            held.allow(self.name)
        return None

    def is_placed(self, pair, uid):
        return any(
            each.pod.labels.get("pair") == pair and not each.assumed
            for other, each in self.handle.cache.states().items()
            if other != uid
        )


class EvenNodes:
    """Keeps pods off every second node."""

    name = "EvenNodes"

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, node):
        return unschedulable("odd") if int(node.name[-1]) % 2 else None


def config(*more, prefers_few_nodes=False):
    """The profile, and a shadow without its plugins for a fifth of its pods."""
    enabled = {"multiPoint": {"enabled": [{"name": each} for each in ("Pairs", *more)]}}
    packing = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}
    args = [{"name": "NodeResourcesFit", "args": packing}] if prefers_few_nodes else []
    return configuration(
        profiles=[
            {"schedulerName": "default-scheduler", "plugins": enabled, "pluginConfig": args},
            {"schedulerName": "next", "shadow": {"of": "default-scheduler", "percentage": 20}},
        ]
    )


REGISTRY = in_tree_registry().merge(Registry({"Pairs": Pairs, "EvenNodes": EvenNodes}, "the test"))


class Life:
    """One life: what is done to the cluster, and what must be true of it."""

    def __init__(self, pods, seed):
        self.pods = pods
        self.rng = random.Random(seed)
        self.world = World(nodes=max(8, pods // 40), cpu="64")
        numbers = itertools.count()
        self.world.store.new_uid = lambda: f"uid-{next(numbers)}"  # by which samples are drawn
        self.metrics = Metrics()
        self.story = []
        self.added, self.deleted = {}, set()
        self.lost_answers = 0
        self.bound, self.seen = set(), 0
        """The pods whose bindings were accepted, and how many bindings were looked at."""

    def tell(self, what):
        self.story.append((round(asyncio.get_running_loop().time(), 3), what))

    # -- what happens ------------------------------------------------------------------------------------------------

    def add(self, number):
        labels = {"app": f"app-{number % 7}"}
        if number % 10 in (3, 4):
            labels["pair"] = f"pair-{number // 10}"
        name = f"p{number}"
        made = self.world.store.create(
            POD, "default",
            {"metadata": {"name": name, "labels": labels},
             "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "100m"}}}]}},
        )  # fmt: skip
        self.added[name] = made["metadata"]["uid"]

    def disturb(self, number):
        transport = self.world.transport
        if number % 97 == 5:
            transport.refuse("bind", ApiError(500, "InternalError", "not now"))
        if number % 131 == 7:
            transport.lose("bind", ConnectionLost("the answer was lost"))
            self.lost_answers += 1
        if number % 53 == 11:
            victim = f"p{self.rng.randrange(number)}"
            is_single = int(victim[1:]) % 10 not in (3, 4)
            if is_single and victim not in self.deleted:
                self.world.store.delete(POD, "default", victim)
                self.deleted.add(victim)

    async def arrive(self, scheduler):
        for number in range(self.pods):
            self.add(number)
            self.disturb(number)
            await pass_time(self.rng.choice([0.0, 0.01, 0.02]))
            self.look(scheduler, in_full=number % max(1, self.pods // 40) == 0)

    async def changes(self, scheduler):
        whole = self.pods * 0.01
        await pass_time(0.2 * whole)
        await scheduler.reconfigure(config("EvenNodes"))
        self.tell("even nodes only")
        await pass_time(0.4 * whole)
        await scheduler.reconfigure(config(prefers_few_nodes=True))
        self.tell("few nodes")

    # -- what must be true -------------------------------------------------------------------------------------------

    def look(self, scheduler, *, in_full):
        if in_full:
            check(scheduler.core)
        bindings = self.world.store.bindings
        for record in itertools.islice(bindings, self.seen, None):
            assert not (record.accepted and record.name in self.bound), f"{record.name} is bound twice"
            if record.accepted:
                self.bound.add(record.name)
        self.seen = len(bindings)

    def bindings(self):
        return [(record.name, record.node) for record in self.world.accepted()]

    def judge(self):
        accepted = Counter(record.name for record in self.world.accepted())
        left = {name for name in self.added if name not in self.deleted}
        assert set(accepted) >= left, f"lost: {sorted(left - set(accepted))[:5]}"
        assert max(accepted.values()) == 1
        bodies = self.world.store.objects(POD)
        going = {body["metadata"]["name"] for body in bodies if "deletionTimestamp" in body["metadata"]}
        assert {body["metadata"]["name"] for body in bodies} - going == left
        nodes = Counter(body["spec"].get("nodeName") for body in bodies)
        assert None not in nodes
        assert max(nodes.values()) <= 110

    async def live(self):
        loop = asyncio.get_running_loop()
        async with scheduling(
            self.world, config(), registry=REGISTRY, instrument=self.metrics, clock=loop.time,
            rng=random.Random(7), identity="the test",
        ) as scheduler:  # fmt: skip
            changing = asyncio.create_task(self.changes(scheduler))
            await self.arrive(scheduler)
            await changing
            for _ in range(60):
                self.look(scheduler, in_full=False)
                await pass_time(2)
            check(scheduler.core)
            self.judge()
            self.reports = shadow_reports(scheduler.core, str)
        return self


def told(life):
    assert [what for _, what in life.story] == ["even nodes only", "few nodes"]
    looked_at = sum(
        life.metrics.shadow_decisions.value(("next", "default-scheduler", kind))
        for kind in ("same", "elsewhere", "fitsNow", "fitsNoMore", "error")
    )
    assert 0.1 * life.pods < looked_at < 0.4 * life.pods
    elsewhere = life.metrics.shadow_causes.value(("next", "elsewhere", "EvenNodes"))
    assert elsewhere, "the profile keeps pods off odd nodes for a while, which the shadow does not"
    (report,) = life.reports
    assert report.shadow == "next"
    assert report.causes[0].plugin == "NodeResourcesFit", "the shadow does not pack pods"


def lived(pods, seed):
    """Return a life, which had a clock of its own."""
    lives = []

    @virtually
    async def live():
        lives.append(await Life(pods, seed).live())

    live()
    return lives[0]


def test_a_small_life_with_two_configurations_more_is_the_same_every_time():
    life = lived(120, seed=1)
    told(life)
    again = lived(120, seed=1)
    assert (life.bindings(), life.story, life.reports) == (again.bindings(), again.story, again.reports)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_ten_thousand_pods_and_two_configurations_more():
    life = lived(10_000, seed=2)
    told(life)
    assert life.lost_answers > 50
    assert len(life.deleted) > 100
