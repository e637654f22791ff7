"""What nominated pods claim of each row, against a count from scratch after every change."""

import random

import numpy as np

from berth.core.builders import make_node, make_pod
from berth.engine.nominated_load import NominatedLoad, nominated_load
from berth.state.cache import Cache
from berth.state.nominator import Nominator
from berth.state.objects import ObjectStore
from berth.state.views import Memory


def pod_of(index, priority, cpu=100):
    return make_pod(f"p{index}").priority(priority).request(cpu=f"{cpu}m").info()


def counted(nominator, table, pod):
    pods, cpu = np.zeros(table.capacity, dtype=np.int64), np.zeros(table.capacity, dtype=np.int64)
    for name in nominator.nodes():
        for other in nominator.pods_on(name):
            if other.priority >= pod.priority and other.uid != pod.uid and name in table.row_of:
                pods[table.row_of[name]] += 1
                cpu[table.row_of[name]] += other.requests.get("cpu", 0)
    return pods.tolist(), cpu.tolist()


class Load:
    """The claims of a nominator's pods, as a profile asks for them."""

    def __init__(self, cache, nominator):
        self._memory, self._nominator = Memory(cache, ObjectStore(), nominator), nominator

    @property
    def view(self) -> NominatedLoad | None:
        return nominated_load(self._memory, self._nominator)

    def against(self, pod):
        load = self.view
        return None if load is None else load.against(pod)


def test_nobody_is_nominated():
    assert Load(Cache(), Nominator()).against(pod_of(0, 0)) is None


def test_only_those_count_whom_the_pod_must_make_way_for():
    cache, nominator = Cache(), Nominator()
    row = cache.put_node(make_node("a").build())
    load = Load(cache, nominator)
    for index, priority in enumerate((1, 5, 9)):
        nominator.nominate(pod_of(index, priority, 100 * 10**index), "a")
    rivals = load.against(pod_of(7, 5))
    assert rivals.rows().tolist() == [row]
    assert (rivals.pods[row], rivals.requested("cpu")[row], rivals.requested("memory")[row]) == (2, 11000, 0)
    own = load.against(pod_of(1, 5))
    assert (own.pods[row], own.requested("cpu")[row]) == (1, 10000)


def test_it_follows_nominations_nodes_and_capacity():
    rng = random.Random(5)
    cache, nominator = Cache(capacity=4), Nominator()
    load = Load(cache, nominator)
    for _ in range(600):
        name, pod = (
            f"n{rng.randrange(12)}",
            pod_of(rng.randrange(20), rng.choice((0, 5, 5, 80)), rng.choice((100, 300))),
        )
        change = rng.randrange(5)
        if change == 0:
            cache.put_node(make_node(name).build())
        elif change == 1:
            cache.remove_node(name)
        elif change == 2:
            nominator.withdraw(pod.uid)
        elif change == 3 and rng.random() < 0.3:
            nominator.withdraw_node(name)
        else:
            nominator.nominate(pod, name)
        asked = pod_of(rng.randrange(20), rng.choice((0, 5, 80)))
        rivals = load.against(asked)
        if rivals is None:
            assert not len(nominator)
            continue
        assert (rivals.pods.tolist(), rivals.requested("cpu").tolist()) == counted(nominator, cache.table, asked)


def test_priorities_that_nobody_has_any_more_are_forgotten():
    cache, nominator = Cache(), Nominator()
    row = cache.put_node(make_node("a").build())
    load = Load(cache, nominator)
    for priority in range(300):
        nominator.nominate(pod_of(0, priority), "a")
        assert load.against(pod_of(1, -1)).pods[row] == 1
    assert len(load.view._by_priority) <= 65


def test_more_nominations_than_the_log_still_knows_are_counted_anew():
    cache, nominator = Cache(), Nominator()
    row = cache.put_node(make_node("a").build())
    load = Load(cache, nominator)
    nominator.nominate(pod_of(0, 0), "a")
    assert load.against(pod_of(9, 0)).pods[row] == 1
    for _ in range(5000):
        nominator.withdraw("default/p1")
        nominator.nominate(pod_of(1, 0), "a")
    assert nominator.changes.since(0) is None
    assert load.against(pod_of(9, 0)).pods[row] == 2
