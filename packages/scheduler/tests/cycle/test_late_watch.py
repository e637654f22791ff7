"""A watch of pods that is late: a preemptor costs no more victims than it needs, and nobody else takes its room.

Between the API server's answer to an eviction and the watch's word that the victim goes, the scheduler counts the
victim as running. Whatever wakes the preemptor meanwhile must not have it preempt anew, on another node. Nor must it
wait for ever where the watch never says so.
"""

import itertools
from collections import deque

import pytest

from berth.core.builders import make_node, make_pod
from berth.core.intake import ObjectEvent
from berth.core.virtual_cluster import VirtualCluster
from berth.cycle.eviction import LOOK_AFTER_S
from berth.framework.effects import EvictPod, ReadPod, Request
from berth.framework.status import unresolvable
from berth.testing.invariants import check

NODES, PODS_A_NODE = 10, 4
THIRDS = 3
"""Pods of low priority that would take any room."""
WAKE_EVERY_S = 0.07
GRACE_S = 1.0
"""How long a victim needs to end."""
NEVER_S = 1e9


class LateCluster(VirtualCluster):
    """A cluster whose watch shows every change of a pod so much later than it happens; nodes are shown at once."""

    def __init__(self, lag_s, **options):
        self.lag_s = 0.0
        self.ignores_evictions = False
        """Whether the API server answers evictions with a success that is none."""
        self._late, self._ending = deque(), deque()
        super().__init__(**options)
        self.lag_s = lag_s
        self.evicts_at_once = False

    def handle(self, event):
        if self.lag_s and isinstance(event, ObjectEvent) and event.kind == "Pod":
            self._late.append((self.now + self.lag_s, super().handle, event))
        else:
            super().handle(event)

    def _evict(self, eviction):
        if not self.ignores_evictions:
            super()._evict(eviction)
            self._ending.append((self.now + GRACE_S, self._end, eviction.pod))

    def _end(self, pod):
        found = self.objects.get(("Pod", pod.key))
        if found is not None and found.metadata.uid == pod.uid:
            self.delete("Pod", pod.key)

    def advance(self, seconds):
        until = self.now + seconds
        self.run()
        while (due := self._next_due()) is not None and due <= until:
            self.now = max(self.now, due)
            for waiting in (self._ending, self._late):
                while waiting and waiting[0][0] <= self.now:
                    _, act, arg = waiting.popleft()
                    act(arg)
            self.run()
        self.now = until
        return self.run()

    def _next_due(self):
        times = [self.core.next_deadline(), *(waiting[0][0] for waiting in (self._late, self._ending) if waiting)]
        return min((time for time in times if time is not None), default=None)

    def asked(self, kind):
        """The effects of a kind that an answer was wanted for, oldest first."""
        return [each.effect for each in self.effects if isinstance(each, Request) and isinstance(each.effect, kind)]

    @property
    def victims(self):
        """The names of the pods that were evicted."""
        return {effect.pod.name for effect in self.asked(EvictPod)}


def full_cluster(lag_s, **options):
    """Nodes full of pods of low priority, and some more that would take any room."""
    cluster = LateCluster(lag_s, **options)
    for number in range(NODES):
        cluster.put(node(number))
    for number in range(NODES * PODS_A_NODE):
        cluster.put(make_pod(f"low-{number}").request(cpu="1").node(f"n{number % NODES}"))
    for number in range(THIRDS):
        cluster.put(make_pod(f"third-{number}").request(cpu="1"))
    return cluster.advance(lag_s + 1.0)


def node(number, more_milli=0):
    return make_node(f"n{number}").capacity(cpu=f"{PODS_A_NODE * 1000 + more_milli}m", memory="64Gi", pods="110")


def after(preemptors, lag_s, *, cpu="1", every_s=None, wake_every_s=WAKE_EVERY_S, **options):
    """The cluster after so many preemptors, which come one by one, or every so often, while nodes grow and grow."""
    cluster = full_cluster(lag_s, **options)
    growth = itertools.count()
    for number in range(preemptors):
        cluster.put(make_pod(f"new-{number}").request(cpu=cpu).priority(10))
        is_last = number == preemptors - 1
        end = cluster.now + (every_s if every_s and not is_last else 3 * lag_s + GRACE_S + 1.0)
        while cluster.now < end:
            cluster.advance(wake_every_s)
            grown = next(growth)
            cluster.put(node(grown % NODES, grown // NODES % 900 + 1))
    cluster.advance(3 * lag_s + 30.0)
    check(cluster.core)
    assert not len(cluster.core.evictions) and not cluster.core.unfinished
    return cluster


def takers(cluster):
    """Who runs without being meant to."""
    return [name for name, node_name in cluster.nodes_of().items() if name.startswith("third") and node_name]


def hold_to_one_victim_each(cluster, preemptors, victims):
    nodes = cluster.nodes_of()
    assert all(nodes[f"new-{number}"] for number in range(preemptors))
    assert (len(cluster.victims), takers(cluster)) == (victims, [])


@pytest.mark.parametrize(
    ("lag_s", "preemptors", "wake_every_s"),
    [
        (0.0, 10, WAKE_EVERY_S),
        (0.06, 10, WAKE_EVERY_S),
        (0.4, 10, WAKE_EVERY_S),
        (10.0, 3, 0.3),
        (60.0, 2, 1.7),
        *(pytest.param(lag_s, 5, WAKE_EVERY_S, marks=pytest.mark.long) for lag_s in (10.0, 60.0)),
    ],
)
def test_a_preemptor_costs_one_victim_and_gets_its_room(lag_s, preemptors, wake_every_s):
    hold_to_one_victim_each(after(preemptors, lag_s, wake_every_s=wake_every_s), preemptors, preemptors)


class Gentle:
    """Preempts by rules of its own, and holds nobody back meanwhile."""

    name = "Gentle"

    def __init__(self, args, handle):
        self._preemption = handle.preemption(self)

    def post_filter(self, state, pod, diagnosis):
        return self._preemption.post_filter(state, pod, diagnosis)

    def ineligibility(self, pod, nominated):
        running = () if nominated is None else nominated.pods.values()
        return "waits" if any(other.is_terminating and other.priority < pod.priority for other in running) else None

    def potential_victims(self, state, pod, node):
        lower = [other for other in node.pods.values() if other.priority < pod.priority]
        return lower or unresolvable("nobody is lower")

    def refusal(self, state, pod, node):
        return None


OWN_RULES = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {
                "multiPoint": {"disabled": [{"name": "DefaultPreemption"}]},
                "postFilter": {"enabled": [{"name": "Gentle"}]},
            }
        }
    ],
}


@pytest.mark.parametrize("lag_s", [0.4, 10.0])
@pytest.mark.parametrize(
    "options",
    [
        {"gates": {"SchedulerAsyncPreemption": False}},
        {"plugins": {"Gentle": Gentle}, "config": OWN_RULES},
        {"generation": "v1.20"},
    ],
    ids=["the cycle waits", "by rules of a plugin's own", "v1.20"],
)
def test_so_it_is_where_nothing_holds_the_preemptor_back(lag_s, options):
    found = after(4, lag_s, wake_every_s=0.1 + lag_s / 30, **options)
    hold_to_one_victim_each(found, 4, victims=4)


@pytest.mark.parametrize("lag_s", [0.0, 0.06, 0.4, 10.0, 60.0])
def test_preemptors_that_come_at_once_take_no_more_than_they_need_either(lag_s):
    found = after(6, lag_s, every_s=0.3, cpu="2", wake_every_s=0.1 + lag_s / 30)
    hold_to_one_victim_each(found, 6, victims=12)


# -- nobody waits for ever -----------------------------------------------------------------------------------------


def one_node(lag_s=NEVER_S, victims=1):
    """A full node, and the preemptor that has its pods evicted, with a watch that says nothing of it."""
    cluster = LateCluster(0.0)
    cluster.put(make_node("a").capacity(cpu=str(victims), memory="64Gi", pods="110"))
    for number in range(victims):
        cluster.put(make_pod(f"v{number}").request(cpu="1").node("a"))
    cluster.put(make_pod("new").request(cpu=str(victims)).priority(10))
    cluster.lag_s = lag_s
    return cluster


def test_a_victim_that_the_watch_does_not_show_is_looked_for_and_its_room_is_taken():
    cluster = one_node(victims=2).advance(LOOK_AFTER_S - 1.0)
    assert cluster.core.queue.find("default/new") is not None and not cluster.asked(ReadPod)
    cluster.advance(2.0)
    assert sorted(read.pod.name for read in cluster.asked(ReadPod)) == ["v0", "v1"]
    cluster.lag_s = 0.0
    cluster.advance(1.0)
    assert cluster.nodes_of() == {"new": "a"}
    assert not len(cluster.core.evictions) and not cluster.core.unfinished


def test_an_eviction_that_was_none_is_asked_for_again():
    cluster = one_node()
    cluster.ignores_evictions = True
    cluster.advance(LOOK_AFTER_S - 1.0)
    assert len(cluster.asked(EvictPod)) == 1
    cluster.advance(15.0)
    assert len(cluster.asked(EvictPod)) == 2, "the victim was found running, and the backoff is over"
    cluster.ignores_evictions, cluster.lag_s = False, 0.0
    cluster.advance(2 * LOOK_AFTER_S)
    assert cluster.nodes_of() == {"new": "a"}


def test_a_victim_that_cannot_be_read_is_looked_for_again():
    cluster = one_node()
    cluster.answers_reads = False
    cluster.advance(LOOK_AFTER_S)
    cluster.answer(cluster.requests[0], "the API server is having a rest")
    cluster.answers_reads = True
    cluster.advance(LOOK_AFTER_S - 1.0)
    assert cluster.core.queue.find("default/new") is not None
    cluster.advance(2.0)
    cluster.lag_s = 0.0
    cluster.advance(1.0)
    assert "v0" not in cluster.nodes_of() and cluster.core.cache.state_of("default/new") is not None


def test_a_victim_that_takes_its_time_is_looked_for_again_and_again_and_waited_for():
    cluster = one_node()
    cluster._end = lambda pod: None
    cluster.advance(3.5 * LOOK_AFTER_S)
    assert len(cluster.asked(ReadPod)) == 3
    assert len(cluster.asked(EvictPod)) == 1
    assert cluster.core.nominator.node_of("default/new") == "a"


def test_a_preemptor_that_goes_while_it_waits_leaves_nothing_behind():
    cluster = one_node().advance(1.0)
    cluster.lag_s = 0.0
    cluster.delete("Pod", "default/new")
    cluster.advance(LOOK_AFTER_S)
    check(cluster.core)
    assert not len(cluster.core.evictions) and not cluster.core.unfinished and not len(cluster.core.nominator)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_list_that_shows_the_victim_gone_ends_the_wait(is_replaced):
    """The watch broke, and the list after it has the victim no more, or another pod of its name."""
    cluster = one_node().advance(GRACE_S + 1.0)
    assert "v0" not in cluster.nodes_of()
    cluster.lag_s = 0.0
    if is_replaced:
        cluster.put(make_pod("v0").uid("another").request(cpu="1"))
    else:
        cluster.handle(ObjectEvent("DELETED", "Pod", make_pod("v0").request(cpu="1").node("a").build()))
    cluster.advance(1.0)
    assert cluster.nodes_of()["new"] == "a"
    assert not len(cluster.core.evictions) and not cluster.core.unfinished
