"""Gangs in clusters in which anything happens: never half admitted, never in each other's way for good.

Each run is a seed. After every step the core is held to its invariants; no gang may have a part of its pods assumed or
bound that is smaller than its minCount, and no node may hold more than it has. At rest, every gang that fits alone
into what is free must be running: that is what a deadlock would break.
"""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.core.builders import make_pod, make_pod_group
from berth.testing.invariants import check
from packages.scheduler.tests.groups.support import GANG, PLACING, PREEMPTING, RACK, cluster, member, node, settle
from tests.effort import examples

RIVALS = ("red", "blue")
GROUPS = [f"gang{index}" for index in range(4)]


class Rivals:
    """A cluster and gangs that compete for it; a node that comes back is as large as before."""

    PRIORITIES = (0, 10)

    def __init__(self, seed, gates=GANG, **options):
        self.rng = random.Random(seed)
        self.found = cluster(gates=gates, seed=seed, **options)
        self.found.answers_binds = False
        self.births = 0
        self.admitted = set()
        self.min_count = {}

    def happen(self):
        acts = (self.add_node, self.delete_node, self.add_group, self.delete_group, self.add_member, self.delete_member,
                self.add_single, self.answer, self.wait)  # fmt: skip
        self.rng.choices(acts, (4, 1, 3, 1, 14, 2, 2, 10, 4))[0]()
        if self.rng.random() < 0.7:
            self.found.step()
        self.hold()

    def add_node(self):
        self.found.put(self.node(self.rng.randrange(6)))

    def node(self, index):
        return node(f"n{index}", ("2", "4")[index % 2], "ab"[index // 3])

    def delete_node(self):
        name = f"n{self.rng.randrange(6)}"
        if ("Node", name) in self.found.objects:
            self.found.delete("Node", name)

    def add_group(self):
        name = self.rng.choice(GROUPS)
        if ("PodGroup", f"default/{name}") not in self.found.objects:
            self.min_count[name] = self.rng.randint(1, 4)
            topology = RACK if self.rng.random() < 0.3 else ""
            priority = self.rng.choice(self.PRIORITIES)
            self.found.put(make_pod_group(name, self.min_count[name], topology=topology, priority=priority))

    def delete_group(self):
        name = self.rng.choice(GROUPS)
        if ("PodGroup", f"default/{name}") in self.found.objects:
            self.found.delete("PodGroup", f"default/{name}")

    def add_member(self):
        self.births += 1
        group = self.rng.choice(GROUPS)
        pod = member(f"{group}-{self.births}", group, self.rng.choice(("500m", "1", "2")))
        self.found.put(pod.priority(self.rng.choice(self.PRIORITIES)))

    def delete_member(self):
        pods = sorted(key for kind, key in self.found.objects if kind == "Pod")
        if pods:
            self.found.delete("Pod", self.rng.choice(pods))

    def add_single(self):
        self.births += 1
        self.found.put(make_pod(f"single-{self.births}").request(cpu="1").priority(self.rng.choice(self.PRIORITIES)))

    def answer(self):
        if self.found.requests:
            request = self.rng.choice(self.found.requests)
            self.found.answer(request, error=self.rng.choice(("", "", "", "", "conflict")))

    def wait(self):
        self.found.now += self.rng.choice((0.1, 1.0, 12.0))

    def hold(self):
        """What must be true after every step."""
        check(self.found.core)
        table = self.found.core.cache.table
        cpu = table.column_of("cpu")
        assert (table.requested[cpu] <= table.allocatable[cpu])[table.valid].all(), "a node holds more than it has"

    def placed(self, group):
        states = self.found.core.cache.states().values()
        return [
            s.pod for s in states if s.pod.spec.scheduling_group and s.pod.spec.scheduling_group.pod_group_name == group
        ]

    def settle(self):
        self.found.answers_binds = True
        for _ in range(3):
            while self.found.requests:
                self.found.answer(self.found.requests[0])
            self.found.advance(40.0)
        self.hold()


class Watched(Rivals):
    """Nothing is deleted, nobody preempts and no binding fails: each gang is all there or not at all, always."""

    PRIORITIES = (0,)

    def happen(self):
        acts = (self.add_node, self.add_group, self.add_member, self.add_single, self.answer, self.wait)
        self.rng.choices(acts, (3, 4, 14, 2, 10, 4))[0]()
        if self.rng.random() < 0.7:
            self.found.step()
        self.hold()

    def add_node(self):
        index = self.rng.randrange(6)
        if ("Node", f"n{index}") not in self.found.objects:
            self.found.put(self.node(index))

    def answer(self):
        if self.found.requests:
            self.found.answer(self.rng.choice(self.found.requests))

    def hold(self):
        super().hold()
        for group, min_count in self.min_count.items():
            count = len(self.placed(group))
            assert count == 0 or count >= min_count, f"{group} is half admitted: {count} of {min_count}"


@pytest.mark.parametrize("gates", [GANG, PLACING], ids=["gangs", "placements"])
@pytest.mark.parametrize("seed", range(2))
def test_no_gang_is_ever_half_admitted(seed, gates):
    rivals = Watched(seed, gates)
    for _ in range(150):
        rivals.happen()
    rivals.settle()
    assert any(rivals.placed(group) for group in GROUPS)


@pytest.mark.parametrize("gates", [GANG, PLACING, PREEMPTING], ids=["gangs", "placements", "preemption"])
@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_lost_or_miscounted_whatever_happens_to_gangs(seed, gates):
    rivals = Rivals(seed, gates)
    for _ in range(150):
        rivals.happen()
    rivals.settle()
    core = rivals.found.core
    assert len(core.queue.in_flight) == core.cache.assumed_count == 0
    assert core.unfinished == 0


@pytest.mark.parametrize("gates", [GANG, PLACING, PREEMPTING], ids=["gangs", "placements", "preemption"])
@pytest.mark.parametrize("seed", range(2))
def test_what_could_run_does_once_everything_is_quiet(seed, gates):
    """A core that sees the same cluster for the first time places nobody either: nothing waits that need not."""
    rivals = Rivals(100 + seed, gates, unschedulable_age_s=math.inf)
    for _ in range(150):
        rivals.happen()
    rivals.settle()
    fresh = settle(cluster(*rivals.found.objects.values(), gates=gates))
    assert fresh.nodes_of() == rivals.found.nodes_of()


@given(st.integers(0, 10_000), st.integers(2, 5))
@settings(max_examples=examples(12), deadline=None)
def test_of_two_gangs_that_fit_only_alone_one_gets_all_and_the_other_none(seed, size):
    """The members come in any order, mixed; then the first gang ends, and the other gets all."""
    rng = random.Random(seed)
    found = cluster(*(node(f"n{index}", "1") for index in range(size + rng.randrange(size))), seed=seed)
    for group in RIVALS:
        found.put(make_pod_group(group, size))
    arrivals = [member(f"{group}-{index}", group) for group in RIVALS for index in range(size)]
    rng.shuffle(arrivals)
    for pod in arrivals:
        found.put(pod)
        if rng.random() < 0.5:
            found.step()
    settle(found)
    running = {
        group: [n for n, on in found.nodes_of().items() if on and n.startswith(group)] for group in ("red", "blue")
    }
    assert sorted(map(len, running.values())) == [0, size]
    winner, loser = RIVALS if running[RIVALS[0]] else reversed(RIVALS)
    assert found.core.cache.assumed_count == 0
    for name in running[winner]:
        found.delete("Pod", f"default/{name}")
        settle(found)
    assert sum(bool(on) for name, on in found.nodes_of().items() if name.startswith(loser)) == size


@given(st.integers(0, 10_000))
@settings(max_examples=examples(6), deadline=None)
def test_the_same_seed_has_the_same_effects(seed):
    runs = []
    for _ in range(2):
        rivals = Rivals(seed, PLACING)
        for _ in range(60):
            rivals.happen()
        runs.append([repr(effect) for effect in rivals.found.effects if "WaitUntil" not in repr(effect)])
    assert runs[0] == runs[1]
