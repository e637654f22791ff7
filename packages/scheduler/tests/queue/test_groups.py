"""Pods that are popped together."""

from berth.framework.status import unresolvable
from packages.scheduler.tests.groups.support import GANG, cluster, make_pod_group, member, node


def waiting_queue(count=3):
    """A queue of a gang that was tried in vain: its members lie in backoff or among the unschedulable."""
    found = cluster(node("n1", cpu="1"), make_pod_group("g", count), gates=GANG)
    for index in range(count):
        found.put(member(f"g-{index}"))
    found.run()
    return found.core.queue


def uids(queued_pods):
    return sorted(queued.pod.uid for queued in queued_pods)


def test_members_are_taken_from_wherever_they_lie():
    queue = waiting_queue()
    names = [queued.pod.uid for queued in queue]
    assert len(names) == 3 and not len(queue.active)
    queue.activate("default/g-0", 1.0)
    first = queue.pop(1.0)
    together = queue.pop_with(first, names, 1.0)
    assert uids(together) == sorted(names)
    assert len(queue) == 0 and len(queue.in_flight) == 3


def test_those_that_pre_enqueue_keeps_out_are_left_behind():
    queue = waiting_queue()
    names = [queued.pod.uid for queued in queue]
    queue.activate("default/g-0", 1.0)
    first = queue.pop(1.0)
    attempts = first.attempts
    queue._pre_enqueue = lambda pod, first: None if pod.name == "g-2" else unresolvable("no").by("Gate")
    assert uids(queue.pop_with(first, names, 1.0)) == ["default/g-2"]
    assert {queued.pod.uid for queued in queue if queued.gating_plugin == "Gate"} == {"default/g-0", "default/g-1"}
    assert first.attempts == attempts - 1  # it was not tried
    assert len(queue.in_flight) == 1


def test_a_pod_that_was_gated_comes_along_once_nothing_keeps_it_out():
    queue = waiting_queue()
    queue.activate("default/g-0", 1.0)
    first = queue.pop(1.0)
    other = queue.find("default/g-1")
    other.gating_plugin, other.unschedulable_plugins = "Gate", frozenset({"Gate"})
    together = queue.pop_with(first, ["default/g-1"], 1.0)
    assert uids(together) == ["default/g-0", "default/g-1"]
    assert not other.is_gated
