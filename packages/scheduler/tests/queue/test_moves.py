"""Pods that are popped from backoff, activated, deleted, updated or nominated, wherever they are."""

import pytest

from berth.framework.events import (
    NODE_ADD,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
)
from berth.queue.in_flight import InFlightEvent
from berth.testing.invariants import check_queue
from packages.scheduler.tests.queue.support import LABEL_CHANGE, broken, failed, in_flight, place, pod, queue


@pytest.mark.parametrize("pops", [True, False])
def test_an_idle_scheduler_takes_from_backoff_if_it_may(pops):
    found = queue(pop_from_backoff=pops)
    failed(found, "a", "Fit")
    found.move(NODE_ADD, None, None, 0.1)
    found.add(pod("b").info(), 0.1)
    assert found.pop(0.1).pod.name == "b", "what is active goes first"
    queued = found.pop(0.1)
    assert (queued is not None) == pops
    assert place(found) == ("in flight" if pops else "backoff")


def put(found, where):
    """Bring pod `a` to a place."""
    if where in ("active", "in flight"):
        found.add(pod().info(), 0.0)
        if where == "in flight":
            found.pop(0.0)
    elif where == "error backoff":
        failed(found)
    else:
        failed(found, "a", "Labels" if where == "unschedulable" else "Fit")
        found.move(NODE_ADD, None, None, 0.1)
    assert place(found) == where


def test_a_pod_is_tried_again_when_the_time_has_come_that_was_said_first():
    found = queue()
    put(found, "unschedulable")
    for at in (50.0, 40.0, 60.0):
        found.wake_at("default/a", at)
    found.flush(39.9)
    assert found.next_deadline() == 40.0
    assert place(found) == "unschedulable"
    found.flush(40.0)
    assert place(found) == "active"
    found.add_unschedulable(found.pop(41.0), ["Labels"], (), 41.0)
    found.flush(60.0)
    assert place(found) == "unschedulable", "later times are forgotten once it was woken"


def test_nobody_is_woken_on_time_who_is_gone_or_waits_no_more():
    found = queue()
    put(found, "active")
    for uid in ("default/a", "default/unknown"):
        found.wake_at(uid, 40.0)
    found.flush(40.0)
    assert place(found) == "active"
    found.wake_at("default/a", 50.0)
    found.delete("default/a")
    found.flush(50.0)
    assert len(found) == 0 and found.next_deadline() is None


PLACES = ("active", "backoff", "error backoff", "unschedulable")


@pytest.mark.parametrize("where", PLACES)
def test_activating_brings_a_pod_from_anywhere(where):
    found = queue()
    put(found, where)
    found.activate("default/a", 0.2)
    assert place(found) == "active"
    assert found.pop(0.2).pod.name == "a"


def test_activating_a_pod_in_flight_counts_when_it_fails_and_an_unknown_one_does_nothing():
    found = queue()
    queued = in_flight(found)
    found.activate("default/unknown", 0.1)
    assert found.in_flight.event_count == 0
    found.activate("default/a", 0.1)
    found.add_unschedulable(queued, ("Labels",), (), 0.2)
    assert place(found) == "backoff"


@pytest.mark.parametrize("where", PLACES)
def test_deleting_finds_a_pod_anywhere(where):
    found = queue()
    put(found, where)
    found.delete("default/a")
    assert place(found) is None
    found.flush(1000.0)
    assert found.pop(1000.0) is None
    assert found.next_deadline() is None


@pytest.mark.parametrize("where", PLACES)
def test_an_update_replaces_the_object_where_the_pod_is(where):
    found = queue()
    put(found, where)
    new = pod().label("app", "web").info()
    old = found.find("default/a").pod
    found.update(new, [InFlightEvent(LABEL_CHANGE, old, new)], 0.5)
    assert place(found) == ("backoff" if where == "unschedulable" else where)
    assert found.find("default/a").pod is new


def test_an_update_may_change_the_order():
    found = queue()
    for name in ("a", "b"):
        found.add(pod(name).info(), 0.0)
    found.update(pod("b").priority(5).info(), [], 0.1)
    assert found.pop(0.2).pod.name == "b"
    assert found.pop(0.2).pod.name == "a"
    assert found.pop(0.2) is None


def test_an_update_of_an_unknown_pod_adds_it():
    found = queue()
    found.update(pod().info(), [], 0.0)
    assert place(found) == "active"


def test_many_updates_leave_no_pile_behind():
    found = queue()
    for name in ("a", "b"):
        found.add(pod(name).info(), 0.0)
    for _ in range(1000):
        found.update(pod("b").info(), [], 0.1)
    check_queue(found)
    assert [found.pop(1.0).pod.name for _ in range(2)] == ["a", "b"]


def test_a_sort_key_that_breaks_leaves_the_queue_as_it_was():
    found = queue()
    found.add(pod("a").info(), 0.0)
    found.active._key = broken
    with pytest.raises(TypeError):
        found.add(pod("b").info(), 0.0)
    check_queue(found)
    assert len(found) == 1


# -- nominations -----------------------------------------------------------------------------------------------------


def test_nominations_follow_the_pods_status():
    found = queue()
    found.add(pod().nominated("n1").info(), 0.0)
    assert found.nominator.node_of("default/a") == "n1"
    found.update(pod().nominated("n2").info(), [], 0.0)
    assert found.nominator.node_of("default/a") == "n2"
    found.update(pod().info(), [], 0.0)
    assert found.nominator.node_of("default/a") is None


def test_a_nomination_made_here_outlives_updates_that_do_not_know_of_it():
    found = queue()
    found.add(pod().info(), 0.0)
    found.nominator.nominate(pod().info(), "n1")
    new = pod().label("app", "web").info()
    found.update(new, [], 0.0)
    assert found.nominator.node_of("default/a") == "n1"
    assert found.nominator.pods_on("n1") == (new,)


def test_a_deleted_pod_is_promised_nothing():
    found = queue()
    found.add(pod().nominated("n1").info(), 0.0)
    found.delete("default/a")
    assert len(found.nominator) == 0


def test_plugins_that_register_nothing_are_woken_by_everything():
    assert all(ClusterEventWithHint(ClusterEvent("*", Action.ALL)).event.matches(e) for e in (NODE_ADD, LABEL_CHANGE))
