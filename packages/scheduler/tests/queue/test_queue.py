"""The three queues in virtual time: backoff, waking, pods in flight, gates."""

import pytest

from berth.core.builders import make_pod
from berth.framework.events import (
    NODE_ADD,
    Action,
    ClusterEvent,
)
from berth.framework.status import unresolvable
from berth.queue.in_flight import InFlightEvent
from berth.queue.policy import QueuePolicy
from packages.scheduler.tests.queue.support import (
    FLUSH_S,
    GATES_GONE,
    LABEL_CHANGE,
    UNSCHEDULABLE_AGE_S,
    WINDOW_S,
    failed,
    in_flight,
    place,
    pod,
    queue,
)


def test_pods_leave_by_priority_then_by_arrival():
    found = queue()
    for name, priority, now in (("late", 0, 2.0), ("early", 0, 1.0), ("urgent", 9, 3.0)):
        found.add(make_pod(name).priority(priority).info(), now)
    assert [found.pop(4.0).pod.name for _ in range(3)] == ["urgent", "early", "late"]
    assert found.pop(4.0) is None


@pytest.mark.parametrize("pops_from_backoff", [True, False])
def test_the_pod_that_comes_next_is_the_one_that_is_popped(pops_from_backoff):
    found = queue(pop_from_backoff=pops_from_backoff)
    failed(found, "backs-off", "Fit", now=0.3)
    found.move(NODE_ADD, None, None, 0.4)
    found.add(make_pod("active").info(), 0.4)
    for name in ("active", "backs-off") if pops_from_backoff else ("active",):
        assert found.peek().pod.name == name
        assert found.peek() is found.pop(0.4)
    assert found.peek() is found.pop(0.4) is None


@pytest.mark.parametrize(
    ("attempts", "backoff_s"),
    [(0, 0.0), (1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 10.0), (6, 10.0), (5000, 10.0)],
)
def test_backoff_doubles_from_one_second_to_ten(attempts, backoff_s):
    assert QueuePolicy().backoff_s(attempts) == backoff_s


@pytest.mark.parametrize(
    ("initial_s", "max_s", "expected"), [(3.0, 5.0, [3.0, 5.0, 5.0]), (0.0, 10.0, [0.0, 0.0, 0.0])]
)
def test_backoff_follows_the_configuration(initial_s, max_s, expected):
    policy = QueuePolicy(initial_backoff_s=initial_s, max_backoff_s=max_s)
    assert [policy.backoff_s(attempts) for attempts in (1, 2, 3)] == expected


def test_a_woken_pod_waits_for_the_rest_of_its_backoff_and_of_its_window():
    found = queue(pop_from_backoff=True)
    failed(found, "a", "Fit", now=0.3)
    assert place(found) == "unschedulable"
    found.move(NODE_ADD, None, None, 0.4)
    assert place(found) == "backoff"
    assert found.next_deadline() == 2.0
    found.flush(1.9)
    assert place(found) == "backoff"
    found.flush(2.0)
    assert place(found) == "active"


def test_without_windows_finished_backoffs_are_looked_for_once_a_second():
    found = queue(pop_from_backoff=False)
    found.flush(0.0)
    failed(found, "a", "Fit", now=0.3)
    found.move(NODE_ADD, None, None, 0.4)
    assert found.next_deadline() == 1.3
    found.flush(1.2)
    found.flush(1.9)
    assert place(found) == "backoff"
    assert found.next_deadline() == 2.0, "a look that came late does not put off the next"
    found.flush(2.0)
    assert place(found) == "active"


@pytest.mark.parametrize(("windows", "last", "first"), [(True, 1.9, 2.0), (False, 1.3, 1.4)])
def test_a_pod_whose_backoff_is_over_is_tried_at_once(windows, last, first):
    found = queue(pop_from_backoff=windows)
    failed(found, "a", "Fit", now=0.3)
    failed(found, "b", "Spread", now=0.3)
    found.move(NODE_ADD, None, None, last)
    assert place(found) == "backoff"
    found.retry("default/b", first)
    assert place(found, "default/b") == "active"


@pytest.mark.parametrize(
    ("plugins", "event", "wakes"),
    [
        (("Fit",), NODE_ADD, True),
        (("Fit",), LABEL_CHANGE, False),
        (("Spread",), NODE_ADD, False),
        (("Spread", "Fit"), NODE_ADD, True),
        (("Buggy",), NODE_ADD, True),
        (("Unheard",), NODE_ADD, False),
        (("Fit",), ClusterEvent("*", Action.ALL, "Anything"), True),
    ],
    ids=["registered", "another event", "hint skips", "one of two", "hint raises", "nobody registered", "wildcard"],
)
def test_only_what_a_rejecting_plugin_registered_wakes(plugins, event, wakes):
    found = queue()
    failed(found, "a", *plugins)
    found.move(event, None, None, 0.1)
    assert place(found) == ("backoff" if wakes else "unschedulable")


@pytest.mark.parametrize(
    ("rejected", "pending", "expected"),
    [
        ((), ("Fit",), "active"),
        (("Fit",), (), "backoff"),
        (("Labels",), ("Fit",), "active"),
        (("Fit",), ("Spread",), "backoff"),
    ],
)
def test_a_pending_plugin_that_is_served_skips_the_backoff(rejected, pending, expected):
    found = queue()
    failed(found, "a", *rejected, pending=pending)
    found.move(NODE_ADD, None, None, 0.1)
    assert place(found) == expected


def test_an_error_goes_to_a_backoff_of_its_own():
    found = queue(pop_from_backoff=True)
    found.add(pod().info(), 0.0)
    for expected_s in (1.0, 2.0, 4.0):
        now = found.next_deadline() or 0.0
        found.flush(now)
        queued = found.pop(now)
        found.add_unschedulable(queued, (), (), now)
        assert place(found) == "error backoff"
        assert found.next_deadline() == now + expected_s + WINDOW_S
        assert found.pop(now) is None, "an error is not tried before its time"
    assert (queued.attempts, queued.consecutive_errors, queued.unschedulable_count) == (3, 3, 0)


def test_errors_are_counted_until_an_attempt_ends_without_one():
    found = queue()
    queued = failed(found)
    found.flush(2.0)
    found.add_unschedulable(found.pop(2.0), ("Fit",), (), 2.0)
    assert (queued.consecutive_errors, queued.unschedulable_count) == (0, 1)


def test_old_unschedulable_pods_are_flushed_every_half_minute():
    found = queue()
    found.flush(0.0)
    failed(found, "a", "Fit")
    now = 0.0
    while place(found) == "unschedulable":
        assert found.next_deadline() == now + FLUSH_S
        now = found.next_deadline()
        found.flush(now)
    assert UNSCHEDULABLE_AGE_S < now <= UNSCHEDULABLE_AGE_S + FLUSH_S
    assert place(found) == "active"
    assert found.pop(now).was_flushed


# -- in flight -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "plugins", "pending", "expected"),
    [
        (NODE_ADD, ("Fit",), (), "backoff"),
        (NODE_ADD, ("Spread",), (), "unschedulable"),
        (LABEL_CHANGE, ("Fit",), (), "unschedulable"),
        (NODE_ADD, (), ("Fit",), "active"),
        (NODE_ADD, ("Buggy",), (), "backoff"),
    ],
)
def test_an_event_during_the_attempt_counts_when_it_fails(event, plugins, pending, expected):
    found = queue()
    queued = in_flight(found)
    assert place(found) == "in flight"
    found.move(event, None, None, 0.1)
    found.add_unschedulable(queued, plugins, pending, 0.2)
    assert place(found) == expected


def test_an_event_before_the_attempt_does_not():
    found = queue()
    found.move(NODE_ADD, None, None, 0.0)
    failed(found, "other", "Fit")
    found.add(pod().info(), 0.0)
    found.move(NODE_ADD, None, None, 0.0)
    queued = found.pop(0.0)
    found.add_unschedulable(queued, ("Fit",), (), 0.1)
    assert place(found) == "unschedulable"


def test_events_are_kept_as_long_as_somebody_in_flight_needs_them():
    found = queue()
    for name in ("a", "b"):
        found.add(pod(name).info(), 0.0)
    first = found.pop(0.0)
    found.move(NODE_ADD, None, None, 0.0)
    second = found.pop(0.0)
    found.move(LABEL_CHANGE, None, None, 0.0)
    assert found.in_flight.event_count == 2
    found.done(first.pod.uid)
    assert dict(found.in_flight.counts()) == {"PodLabelChange": 1}
    found.done(first.pod.uid)
    found.done(second.pod.uid)
    assert found.in_flight.event_count == 0
    found.move(NODE_ADD, None, None, 0.0)
    assert found.in_flight.event_count == 0


def test_a_pods_own_change_during_its_attempt_counts():
    found = queue()
    queued = in_flight(found)
    new = pod().label("app", "web").info()
    found.update(new, [InFlightEvent(LABEL_CHANGE, queued.pod, new)], 0.1)
    assert place(found) == "in flight"
    found.add_unschedulable(queued, ("Labels",), (), 0.2)
    assert place(found) == "backoff"


# -- gates -----------------------------------------------------------------------------------------------------------


def test_a_gated_pod_stays_out_until_its_gates_go():
    entries = []
    found = queue(incoming=entries)
    gated = pod().gate("hold").info()
    found.add(gated, 0.0)
    assert place(found) == "unschedulable"
    assert found.find("default/a").is_gated
    found.move(NODE_ADD, None, None, 0.1)
    found.activate("default/a", 0.1)
    assert found.pop(0.1) is None
    free = pod().info()
    found.update(free, [InFlightEvent(GATES_GONE, gated, free)], 5.0)
    assert place(found) == "active"
    queued = found.pop(5.0)
    assert (queued.is_gated, queued.rejectors, queued.attempts) == (False, {"Gates"}, 1), "kept for the log"
    assert [where for where, _ in entries] == ["unschedulable", "unschedulable", "active"]


def test_a_gate_counts_on_entering_backoff_and_not_again_on_leaving_it():
    closed, asked = [False], []

    def pre_enqueue(pod, first):
        asked.append(pod.name)
        return unresolvable("closed").by("Gates") if closed[0] else None

    found = queue(pre_enqueue=pre_enqueue, pop_from_backoff=True)
    failed(found, "a", "Fit")
    failed(found, "b", "Spread")
    found.move(NODE_ADD, None, None, 0.1)
    assert place(found) == "backoff"
    closed[0] = True
    found.retry("default/b", 0.1)
    assert place(found, "default/b") == "unschedulable"
    assert found.find("default/b").is_gated
    asked.clear()
    found.flush(2.0)
    assert (place(found), asked) == ("active", [])


@pytest.mark.parametrize(("windows", "is_asked"), [(True, False), (False, True)])
def test_only_without_windows_is_pre_enqueue_asked_when_a_backoff_ends(windows, is_asked):
    asked = []
    found = queue(pre_enqueue=lambda pod, first: asked.append(pod.name), pop_from_backoff=windows)
    failed(found, "a", "Fit")
    found.move(NODE_ADD, None, None, 0.1)
    asked.clear()
    found.flush(2.0)
    assert (place(found), bool(asked)) == ("active", is_asked)


@pytest.mark.parametrize(("plugin", "node_name"), [("Preempts", "n1"), ("Gates", None)])
def test_a_pod_that_is_gated_keeps_its_room_only_while_that_is_being_made_for_it(plugin, node_name):
    closed = []
    found = queue(
        pre_enqueue=lambda pod, first: unresolvable("closed").by(plugin) if closed else None, makes_room=("Preempts",)
    )
    queued = failed(found, "a", "Fit")
    found.nominator.nominate(queued.pod, "n1")
    closed.append(True)
    found.move(NODE_ADD, None, None, 3.0)
    assert queued.gating_plugin == plugin
    assert found.nominator.node_of("default/a") == node_name
    told = [] if node_name else [queued.pod]
    assert found.nominator.take_pods_without_node() == told


def test_an_event_that_nobody_registered_for_is_not_kept():
    found = queue()
    in_flight(found)
    found.move(ClusterEvent("Lease", Action.UPDATE, "LeaseUpdate"), None, None, 0.1)
    assert found.in_flight.event_count == 0
    found.move(NODE_ADD, None, None, 0.1)
    assert found.in_flight.event_count == 1
