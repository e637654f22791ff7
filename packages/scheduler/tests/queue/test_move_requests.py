"""The queue of v1.20 in virtual time. Expectations: pkg/scheduler/internal/queue/scheduling_queue.go and events.go,
pkg/scheduler/eventhandlers.go, release-1.20."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.api.meta import ObjectMeta
from berth.api.storage import StorageClass
from berth.core.builders import make_node, make_pod
from berth.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    Action,
    ClusterEvent,
)
from berth.queue.in_flight import InFlightEvent
from berth.queue.move_requests import move_label
from packages.scheduler.tests.queue.support import LABEL_CHANGE, failed, move_request_queue, place, pod

AGE_S, FLUSH_S, BACKOFF_FLUSH_S = 60.0, 30.0, 1.0
UPDATE_NODE = ClusterEvent("Node", Action.UPDATE_NODE_ALLOCATABLE, "NodeAllocatableChange")


def node():
    return make_node("n1").capacity(cpu="4")


def test_a_pod_that_fails_waits_among_the_unschedulable_whatever_it_failed_of():
    for plugins in (("Fit",), ()):
        found = move_request_queue()
        failed(found, "a", *plugins)
        assert place(found) == "unschedulable"


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (NODE_ADD, "backoff"),
        (ASSIGNED_POD_DELETE, "backoff"),
        (NODE_DELETE, "unschedulable"),  # deleteNodeFromCache requests no move
        (ClusterEvent("PersistentVolumeClaim", Action.ADD, "PersistentVolumeClaimAdd"), "backoff"),
        (ClusterEvent("Namespace", Action.UPDATE, "NamespaceUpdate"), "unschedulable"),
    ],
)
def test_a_move_request_in_the_cycle_of_the_failure_sends_to_backoff(event, expected):
    found = move_request_queue()
    found.add(pod().info(), 0.0)
    queued = found.pop(0.0)
    found.move(event, None, None, 0.0)
    found.add_unschedulable(queued, ["Fit"], [], 0.0)
    assert place(found) == expected


def test_a_move_request_of_an_earlier_cycle_does_not():
    found = move_request_queue()
    found.add(pod("b").info(), 0.0)
    first = found.pop(0.0)
    found.move(NODE_ADD, None, None, 0.0)
    assert (found.scheduling_cycle, found.move_request_cycle) == (1, 1)
    failed(found, "a", "Fit")
    assert place(found) == "unschedulable"
    assert (found.scheduling_cycle, found.move_request_cycle) == (2, 1)
    found.done(first.pod.uid)


def test_a_change_of_the_pod_while_it_is_being_scheduled_counts():
    found = move_request_queue()
    found.add(pod().info(), 0.0)
    queued = found.pop(0.0)
    found.update(pod().info(), [InFlightEvent(LABEL_CHANGE, None, None)], 0.0)
    found.add_unschedulable(queued, ["Fit"], [], 0.0)
    assert place(found) == "backoff"


def test_a_move_request_moves_to_backoff_or_to_active_where_the_backoff_is_over():
    found = move_request_queue()
    failed(found, "a", "Fit", now=0.0)
    failed(found, "b", "Fit", now=5.0)
    found.move(NODE_ADD, None, None, 5.5)
    assert place(found, "default/a") == "active"
    assert place(found, "default/b") == "backoff"


def test_finished_backoffs_are_looked_for_once_a_second():
    found = move_request_queue()
    found.flush(0.5)
    failed(found, "a", "Fit", now=0.7)
    found.move(NODE_ADD, None, None, 0.8)
    assert found.find("default/a").backoff_until == 1.7
    assert found.next_deadline() == 1.7
    found.flush(1.6)  # looks, and finds none
    found.flush(1.7)
    assert place(found) == "backoff"
    assert found.next_deadline() == 2.5, "a look that came late does not put off the next"
    found.flush(2.5)
    assert place(found) == "active"


def test_backoff_leaves_in_the_order_of_expiry_and_doubles_with_attempts():
    found = move_request_queue()
    ends = []
    for attempts in range(1, 7):
        if attempts == 1:
            found.add(pod().info(), 0.0)
        queued = found.pop(100.0 * attempts)
        assert queued.attempts == attempts, "attempts are counted at Pop"
        found.move(NODE_ADD, None, None, 100.0 * attempts)
        found.add_unschedulable(queued, ["Fit"], [], 100.0 * attempts)
        ends.append(queued.backoff_until - 100.0 * attempts)
        found.flush(100.0 * attempts + 50.0)
    assert ends == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    found = move_request_queue()
    for name, now in (("late", 0.4), ("early", 0.2)):
        failed(found, name, "Fit", now=now)
    found.move(NODE_ADD, None, None, 0.5)
    assert found.backoff.peek().pod.name == "early"


def test_the_unschedulable_are_moved_when_they_are_older_than_a_minute():
    found = move_request_queue()
    found.flush(0.0)
    failed(found, "a", "Fit", now=0.0)
    failed(found, "b", "Fit", now=1.0)
    found.flush(FLUSH_S)
    found.flush(2 * FLUSH_S)  # a is 60 s old, which is not more than 60 s
    assert place(found) == "unschedulable"
    found.flush(3 * FLUSH_S)
    assert place(found, "default/a") == place(found, "default/b") == "active"
    assert found.move_request_cycle == found.scheduling_cycle, "the flush is a move request like any other"
    assert found.find("default/a").was_flushed


@pytest.mark.parametrize("where", ["active", "backoff", "unschedulable"])
def test_add_takes_a_pod_out_of_the_other_queues(where):
    found = move_request_queue()
    if where == "active":
        found.add(pod().info(), 0.0)
    else:
        failed(found, "a", "Fit")
    if where == "backoff":
        found.move(NODE_ADD, None, None, 0.0)
    assert place(found) == where
    found.add(pod().info(), 1.0)
    assert place(found) == "active"
    assert len(found) == 1


def test_a_change_of_an_unschedulable_pod_makes_it_active_at_once():
    found = move_request_queue()
    failed(found, "a", "Fit")
    found.update(pod().info(), [], 0.1)
    assert place(found) == "unschedulable", "what the scheduler itself writes is no change"
    found.update(pod().info(), [InFlightEvent(LABEL_CHANGE, None, None)], 0.1)
    assert place(found) == "active"


def test_an_assigned_pod_moves_only_pods_whose_affinity_speaks_of_it():
    found = move_request_queue()
    found.add(make_pod("friend").pod_affinity("kubernetes.io/hostname", {"app": "web"}).info(), 0.0)
    found.add(make_pod("other").info(), 0.0)
    for _ in range(2):
        found.add_unschedulable(found.pop(0.0), ["InterPodAffinity"], [], 0.0)
    found.move(ASSIGNED_POD_ADD, None, make_pod("new").label("app", "web").node("n1").info(), 50.0)
    assert place(found, "default/friend") == "active"
    assert place(found, "default/other") == "unschedulable"


def test_nominated_pods_are_kept_while_they_wait():
    found = move_request_queue()
    found.add(make_pod("a").nominated("n1").info(), 0.0)
    assert [p.name for p in found.nominator.pods_on("n1")] == ["a"]
    found.add_unschedulable(found.pop(0.0), ["Fit"], [], 0.0)
    assert found.nominator.node_of("default/a") == "n1"
    found.delete("default/a")
    assert found.nominator.node_of("default/a") is None


def test_incoming_pods_are_counted_by_queue_and_event():
    incoming = []
    found = move_request_queue(incoming)
    failed(found, "a", "Fit", now=0.0)
    found.move(NODE_ADD, None, None, 0.2)
    found.flush(5.0)
    found.flush(6.0)
    queued = found.pop(6.0)
    found.move(UPDATE_NODE, node().build(), node().taint("x", "y").build(), 6.0)
    found.add_unschedulable(queued, ["Fit"], [], 6.0)
    found.flush(30.0)
    found.add_unschedulable(found.pop(30.0), [], [], 30.0)
    for now in (60.0, 95.0):
        found.flush(now)
    assert incoming == [
        ("active", "PodAdd"),
        ("unschedulable", "ScheduleAttemptFailure"),
        ("backoff", "NodeAdd"),
        ("active", "BackoffComplete"),
        ("backoff", "ScheduleAttemptFailure"),
        ("active", "BackoffComplete"),
        ("unschedulable", "ScheduleAttemptFailure"),
        ("active", "UnschedulableTimeout"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "label"),
    [
        (node().unschedulable(), node(), "NodeSpecUnschedulableChange"),
        (node(), node().unschedulable(), None),
        (node(), make_node("n1").capacity(cpu="8"), "NodeAllocatableChange"),
        (node(), node().label("a", "b"), "NodeLabelChange"),
        (node().taint("a", "b"), node(), "NodeTaintChange"),
        (node().unschedulable(), make_node("n1").capacity(cpu="8"), "NodeSpecUnschedulableChange"),
        (node(), node(), None),
    ],
)
def test_what_a_change_of_a_node_was_called(old, new, label):
    assert move_label(UPDATE_NODE, old.build(), new.build()) == label


@pytest.mark.parametrize(
    ("resource", "action", "today", "label"),
    [
        ("PersistentVolume", Action.ADD, "PersistentVolumeAdd", "PvAdd"),
        ("PersistentVolume", Action.UPDATE, "PersistentVolumeUpdate", "PvUpdate"),
        ("PersistentVolume", Action.DELETE, "PersistentVolumeDelete", None),
        ("PersistentVolumeClaim", Action.UPDATE, "PersistentVolumeClaimUpdate", "PvcUpdate"),
        ("Service", Action.DELETE, "ServiceDelete", "ServiceDelete"),
        ("CSINode", Action.ADD, "storage.k8s.io/CSINodeAdd", "CSINodeAdd"),
        ("Pod", Action.UPDATE_POD_LABEL, "AssignedPodUpdatePodLabel", "AssignedPodUpdate"),
        ("PodDisruptionBudget", Action.ADD, "PodDisruptionBudgetAdd", None),
    ],
)
def test_which_events_were_move_requests(resource, action, today, label):
    assert move_label(ClusterEvent(resource, action, today), None, None) == label


@pytest.mark.parametrize(("mode", "label"), [("WaitForFirstConsumer", "StorageClassAdd"), ("Immediate", None)])
def test_only_a_class_that_waits_for_the_first_consumer_moves_pods(mode, label):
    new = StorageClass(metadata=ObjectMeta(name="slow"), volume_binding_mode=mode)
    assert move_label(ClusterEvent("StorageClass", Action.ADD, "storage.k8s.io/StorageClassAdd"), None, new) == label


@given(st.integers(0, 10_000))
def test_no_pod_is_lost_and_each_is_where_the_rules_put_it(seed):
    """A model that knows of each pod its place, the time it came there, and its attempts."""
    rng, found, now = random.Random(seed), move_request_queue(), 0.0
    model = {}  # name: [place, timestamp, attempts]
    cycle, moved, popped = 0, -1, []
    next_backoff_flush, next_old_flush = None, None
    for _ in range(80):
        now += rng.choice((0.0, 0.25, 1.0, 7.0, 40.0))
        found.flush(now)
        if next_backoff_flush is None or now >= next_backoff_flush:
            next_backoff_flush = _next_tick(next_backoff_flush or now, BACKOFF_FLUSH_S, now)
            for entry in model.values():
                if entry[0] == "backoff" and _backoff_end(entry) <= now:
                    entry[0] = "active"
        if next_old_flush is None:
            next_old_flush = now + FLUSH_S
        elif now >= next_old_flush:
            next_old_flush = _next_tick(next_old_flush, FLUSH_S, now)
            old = [e for e in model.values() if e[0] == "unschedulable" and now - e[1] > AGE_S]
            for entry in old:
                entry[0] = "backoff" if _backoff_end(entry) > now else "active"
            moved = cycle if old else moved
        act = rng.randrange(4)
        if act == 0:
            name = f"p{rng.randrange(6)}"
            if name not in model:
                found.add(make_pod(name).info(), now)
                model[name] = ["active", now, 0]
        elif act == 1:
            queued = found.pop(now)
            assert (queued is not None) == any(entry[0] == "active" for entry in model.values())
            if queued is not None:
                entry = model[queued.pod.name]
                entry[0], entry[2], cycle = "in flight", entry[2] + 1, cycle + 1
                popped.append(queued)
        elif act == 2 and popped:
            queued = popped.pop(rng.randrange(len(popped)))
            entry = model[queued.pod.name]
            found.add_unschedulable(queued, ["Fit"], [], now)
            entry[0], entry[1] = ("backoff" if moved >= cycle else "unschedulable"), now
        elif act == 3:
            found.move(NODE_ADD, None, None, now)
            moved = cycle
            for entry in model.values():
                if entry[0] == "unschedulable":
                    entry[0] = "backoff" if _backoff_end(entry) > now else "active"
        assert {name: place(found, f"default/{name}") for name in model} == {n: e[0] for n, e in model.items()}


def _backoff_end(entry):
    _, timestamp, attempts = entry
    return timestamp + min(2.0 ** (attempts - 1), 10.0)


def _next_tick(tick, period_s, now):
    while tick <= now:
        tick += period_s
    return tick
