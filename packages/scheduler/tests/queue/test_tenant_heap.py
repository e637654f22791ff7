"""Pods of several tenants in the queue: whose turn it is says the plugin, and nothing else of the queue changes.

Expectations follow from the contract (`berth.framework.interface.TenantSortPlugin`), and from a list that is searched.
"""

import random
from itertools import count

import pytest

from berth.core.builders import make_pod
from berth.queue.heap import PodHeap
from berth.queue.policy import QueuePolicy
from berth.queue.queue import SchedulingQueue
from berth.queue.tenant_heap import TenantHeap
from berth.state.nominator import Nominator
from berth.state.queued_pod import QueuedPod
from berth.testing.invariants import check_queue


def key(queued):
    return -queued.pod.priority, queued.timestamp


class Least:
    """The tenant that was served least often is next, the first by name among equals."""

    name = "Least"

    def __init__(self):
        self.served = {}

    def less(self, a, b):
        return key(a) < key(b)

    def tenant_of(self, queued):
        return queued.pod.namespace

    def next_tenant(self, heads):
        assert all(heads.values())
        tenant = min(heads, key=lambda tenant: (self.served.get(tenant, 0), tenant))
        self.served[tenant] = self.served.get(tenant, 0) + 1
        return tenant


class Broken(Least):
    def next_tenant(self, heads):
        raise RuntimeError("a plugin's bug")


class Lost(Least):
    def next_tenant(self, heads):
        return "somebody else"


def queued(name, tenant="a", priority=0, at=0.0):
    return QueuedPod(make_pod(name, namespace=tenant).priority(priority).info(), at)


@pytest.mark.parametrize("seed", range(20))
def test_a_tenants_first_pod_is_popped_whatever_came_and_went_before(seed):
    rng, model, served = random.Random(seed), [], {}
    heap = TenantHeap(key, Least(), count(1))
    for number in range(400):
        what = rng.random()
        if what < 0.55 or not model:
            pod = queued(f"p{number}", rng.choice("abc"), rng.randrange(3), float(number))
            model.append(pod)
            heap.push(pod)
        elif what < 0.65:
            pod = model.pop(rng.randrange(len(model)))
            assert heap.remove(pod.pod.uid) is pod
        elif what < 0.75:
            pod = rng.choice(model)
            pod.timestamp = float(number)
            heap.push(pod)
        else:
            tenant = min({pod.pod.namespace for pod in model}, key=lambda each: (served.get(each, 0), each))
            served[tenant] = served.get(tenant, 0) + 1
            first = min((pod for pod in model if pod.pod.namespace == tenant), key=key)
            assert heap.pop() is first
            model.remove(first)
        assert len(heap) == len(model)
        assert heap.peek() is (min(model, key=key) if model else None)
    assert heap.ordered() == sorted(model, key=key)


def test_what_is_gone_takes_no_room():
    heap = TenantHeap(key, Least(), count(1))
    pods = [queued(f"p{number}", f"t{number % 7}", at=float(number)) for number in range(50)]
    for _ in range(100):
        for pod in pods:
            heap.push(pod)
    assert sum(map(len, heap._entries_of.values())) <= 64 + 3 * len(pods)
    for pod in pods:
        heap.remove(pod.pod.uid)
    assert heap.pop() is None and not heap._entries_of


@pytest.mark.parametrize("plugin", [Broken, Lost])
def test_with_a_broken_plugin_pods_go_by_their_keys(plugin):
    heap, plain = TenantHeap(key, plugin()), PodHeap(key)
    for number in range(20):
        for each in (heap, plain):
            each.push(queued(f"p{number}", "abc"[number % 3], number % 4, float(number)))
    assert [heap.pop().pod.name for _ in range(20)] == [plain.pop().pod.name for _ in range(20)]


def tenants_queue():
    plugin = Least()
    return SchedulingQueue(
        sort_key=key, pre_enqueue=lambda pod, first: None, tables={}, nominator=Nominator(), policy=QueuePolicy(),
        tenants=plugin,
    )  # fmt: skip


def test_tenants_take_turns_in_the_active_queue_and_in_backoff():
    queue = tenants_queue()
    for number in range(6):
        queue.add(make_pod(f"a{number}", namespace="a").info(), 0.0)
    queue.add(make_pod("b0", namespace="b").info(), 1.0)
    check_queue(queue)
    order = []
    while (popped := queue.pop(2.0)) is not None and len(order) < 7:
        order.append(popped)
        check_queue(queue)
    assert [each.pod.name for each in order] == ["a0", "b0", "a1", "a2", "a3", "a4", "a5"]
    for each in order:  # each has been rejected, and something has happened that may help
        queue.add_unschedulable(each, {"Fit"}, (), 2.0)
        queue.retry(each.pod.uid, 2.0)
    check_queue(queue)
    assert len(queue.backoff) == 7
    assert [queue.pop(2.0).pod.name for _ in range(2)] == ["b0", "a0"]  # b was served less often


def test_backoffs_end_in_their_order_whoever_is_next():
    queue = tenants_queue()
    for name, at in (("b", 1.0), ("a", 2.0)):
        queue.add(make_pod(name, namespace=name).info(), at)
        each = queue.pop(at)
        queue.add_unschedulable(each, {"Fit"}, (), at)
        queue.retry(each.pod.uid, at)
    queue.flush(3.0)  # when it would be the turn of a
    check_queue(queue)
    assert [each.pod.name for each in queue.active] == ["b"]
    assert [each.pod.name for each in queue.backoff] == ["a"]
    queue.flush(4.5)
    assert sorted(each.pod.name for each in queue.active) == ["a", "b"]
    check_queue(queue)
