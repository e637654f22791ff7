"""Upstream's own tables of its queue, row for row: the names of tests and rows are those of release-1.36.

`tests/upstream-tables.md` lists all of them, with those that other tests hold and those that do not apply.
Source: pkg/scheduler/backend/queue/{scheduling_queue,backoff_queue,active_queue}_test.go.
"""

import re

import pytest

from berth.core.builders import make_pod
from berth.framework.events import (
    ASSIGNED_POD_ADD,
    FORCE_ACTIVATE,
    NODE_ADD,
    UNSCHEDULABLE_TIMEOUT,
    WILDCARD,
    Action,
    ClusterEvent,
    QueueingHint,
)
from berth.framework.status import unresolvable
from berth.plugins.priority_sort import PrioritySort
from berth.queue.hints import Registered, Strategy, WakeTable, strategy
from berth.queue.in_flight import InFlightEvent
from berth.queue.policy import QueuePolicy
from berth.queue.queue import SchedulingQueue
from berth.state.nominator import Nominator
from berth.state.queued_pod import QueuedPod
from berth.testing.invariants import check_queue
from packages.scheduler.tests.queue.support import always, broken, never, place
from tests.paths import ROOT

PV_ADD = ClusterEvent("PersistentVolume", Action.ADD, "PvAdd")
PV_UPDATE = ClusterEvent("PersistentVolume", Action.UPDATE, "PvUpdate")
PVC_ADD = ClusterEvent("PersistentVolumeClaim", Action.ADD, "PvcAdd")
CSI_NODE_UPDATE = ClusterEvent("CSINode", Action.UPDATE, "CSINodeUpdate")
POD_UPDATE = ClusterEvent("Pod", Action.UPDATE, "PodUpdate")
ONE, TWO, THREE = "targetpod", "targetpod2", "targetpod3"


def table(*rows):
    """Parametrize by rows of which the first entry is upstream's name."""
    return pytest.mark.parametrize("row", [row[1:] for row in rows], ids=[row[0] for row in rows])


def gate_of(allowed):
    """A PreEnqueue plugin of upstream's tests: only pods with one of these labels pass."""

    def pre_enqueue(pod, first):
        passes = any(label in pod.labels for label in allowed)
        return None if passes else unresolvable("pod name not in allowlists").by("preEnqueuePlugin")

    return pre_enqueue


def new_queue(hints=(), *, windows=True, pre_enqueue=lambda pod, first: None, incoming=None, **policy):
    """A queue in which `hints`, triples of event, plugin and hint, are registered."""
    registered = [Registered(plugin, event, hint) for event, plugin, hint in hints]
    return SchedulingQueue(
        sort_key=PrioritySort(None, None).sort_key,
        pre_enqueue=pre_enqueue,
        tables={"default-scheduler": WakeTable(registered)},
        nominator=Nominator(),
        policy=QueuePolicy(pop_from_backoff=windows, **policy),
        on_incoming=(lambda *entry: incoming.append(entry[:2])) if incoming is not None else lambda *_: None,
    )


def pod(name=ONE, priority=0, **labels):
    made = make_pod(name).priority(priority)
    for key, value in labels.items():
        made = made.label(key, value)
    return made.info()


def fail(found, name, *plugins, pending=(), now=0.0, priority=0, **labels):
    """Add, pop and hand back a pod."""
    found.add(pod(name, priority, **labels), now)
    queued = found.pop(now)
    assert queued.pod.name == name
    found.add_unschedulable(queued, plugins, pending, now)
    return queued


def names(pods):
    return [queued.pod.name for queued in pods]


# -- scheduling_queue_test.go ----------------------------------------------------------------------------------------

BOTH = ((PV_ADD, "fooPlugin1", always), (NODE_ADD, "fooPlugin1", always), (PVC_ADD, "fooPlugin1", always))
ADDED = [(ASSIGNED_POD_ADD, "fooPlugin1", always)]


@table(
    (
        "Pod and interested events are registered in inFlightPods/inFlightEvents",
        [(PV_ADD, "fooPlugin1", always)],
        [PVC_ADD, ("pop", ONE), PV_ADD, PV_UPDATE],
        {"in flight": [ONE]},
        ["PvAdd"],
    ),
    (
        "Pod, registered in inFlightPods, is enqueued back to backoffQ",
        BOTH,
        [PVC_ADD, ("pop", ONE), PV_ADD, ("pop", TWO), NODE_ADD, ("fail", ONE)],
        {"error backoff": [ONE], "in flight": [TWO]},
        ["NodeAdd"],
    ),
    (
        "All Pods registered in inFlightPods are enqueued back to activeQ",
        (*BOTH, (CSI_NODE_UPDATE, "fooPlugin1", always)),
        [("pop", ONE), PV_ADD, ("pop", TWO), NODE_ADD, ("fail", ONE), CSI_NODE_UPDATE, ("fail", TWO)],
        {"error backoff": [ONE, TWO]},
        [],
    ),
    (
        "One intermediate Pod registered in inFlightPods is enqueued back to activeQ",
        (*BOTH, *ADDED),
        [("pop", ONE), PV_ADD, ("pop", TWO), NODE_ADD, ("pop", THREE), ASSIGNED_POD_ADD, ("fail", TWO)],
        {"error backoff": [TWO], "in flight": [ONE, THREE]},
        ["PvAdd", "NodeAdd", "AssignedPodAdd"],
    ),
    (
        "events before popping Pod are ignored when Pod is enqueued back to queue",
        [(ASSIGNED_POD_ADD, "fooPlugin1", never)],
        [UNSCHEDULABLE_TIMEOUT, ("pop", ONE), ASSIGNED_POD_ADD, ("fail", ONE, "fooPlugin1")],
        {"unschedulable": [ONE]},
        [],
    ),
    (
        "pod is enqueued to backoff if no failed plugin",
        ADDED,
        [("pop", ONE), ASSIGNED_POD_ADD, ("fail", ONE)],
        {"error backoff": [ONE]},
        [],
    ),
    (
        "pod is enqueued to unschedulable pod pool if no events that can make the pod schedulable",
        ADDED,
        [("pop", ONE), NODE_ADD, ("fail", ONE, "fooPlugin1")],
        {"unschedulable": [ONE]},
        [],
    ),
    (
        "pod is enqueued to unschedulable pod pool because the failed plugin has a hint fn but it returns Skip",
        [(ASSIGNED_POD_ADD, "fooPlugin1", never)],
        [("pop", ONE), ASSIGNED_POD_ADD, ("fail", ONE, "fooPlugin1")],
        {"unschedulable": [ONE]},
        [],
    ),
    (
        "pod is enqueued to activeQ because the Pending plugins has a hint fn and it returns Queue",
        [(ASSIGNED_POD_ADD, f"fooPlugin{n}", hint) for n, hint in ((3, never), (2, always), (1, always))],
        [("pop", ONE), ASSIGNED_POD_ADD, ("fail", ONE, "fooPlugin2", "fooPlugin3", "?fooPlugin1")],
        {"active": [ONE]},
        [],
    ),
    (
        "pod is enqueued to backoffQ because the failed plugin has a hint fn and it returns Queue",
        [(ASSIGNED_POD_ADD, "fooPlugin2", never), *ADDED],
        [("pop", ONE), ASSIGNED_POD_ADD, ("fail", ONE, "fooPlugin1", "fooPlugin2")],
        {"backoff": [ONE]},
        [],
    ),
    (
        ("pod is enqueued to activeQ because the pending plugin has a hint fn and it returns Queue for a concurrent "
        "event that was received while some other pod was in flight"),
        [(ASSIGNED_POD_ADD, f"fooPlugin{n}", hint) for n, hint in ((3, never), (2, always), (1, always))],
        [("pop", ONE), NODE_ADD, ("pop", TWO), ASSIGNED_POD_ADD, ("fail", ONE),
         ("fail", TWO, "fooPlugin2", "fooPlugin3", "?fooPlugin1")],
        {"active": [TWO], "error backoff": [ONE]},
        [],
    ),
    (
        "popped pod preserves UnschedulablePlugins and PendingPlugins",
        [(PV_ADD, "fooPlugin1", always)],
        [("pop", ONE), ("fail", ONE, "fooPlugin2", "?fooPlugin1"), PV_ADD,
         ("pop", ONE, "fooPlugin1", "fooPlugin2"), ("fail", ONE)],
        {"error backoff": [ONE]},
        [],
    ),
)  # fmt: skip
def test_in_flight_pods(row):
    """Test_InFlightPods."""
    hints, actions, expected, events = row
    found = new_queue(hints)
    popped, known = {}, sorted({action[1] for action in actions if action[0] in ("pop", "fail")})
    for second, name in enumerate(known):
        found.add(pod(name), float(second))
    for action in actions:
        if isinstance(action, ClusterEvent):
            found.move(action, None, None, 10.0)
        elif action[0] == "pop":
            queued = found.pop(10.0)
            assert queued.pod.name == action[1]
            assert sorted(queued.rejectors) == list(action[2:])
            popped[action[1]] = queued
        else:
            plugins = [plugin for plugin in action[2:] if not plugin.startswith("?")]
            pending = [plugin[1:] for plugin in action[2:] if plugin.startswith("?")]
            found.add_unschedulable(popped[action[1]], plugins, pending, 10.0)
        check_queue(found)
    places = {}
    for name in known:
        places.setdefault(place(found, f"default/{name}"), []).append(name)
    assert places == expected
    assert [happened.event.label for happened in found.in_flight._events] == events


def test_pop_is_made_twice_for_the_same_pod_but_the_cleanup_still_happens_correctly():
    """Test_InFlightPods, its last row: a pod that is queued by mistake while it is in flight is not tried twice."""
    found = new_queue(BOTH)
    found.add(pod(ONE), 0.0)
    first = found.pop(0.0)
    found.active.push(QueuedPod(first.pod, 0.1))
    found.add(pod(TWO), 0.2)
    second = found.pop(0.3)
    assert (second.pod.name, len(found.active)) == (TWO, 0)
    found.move(NODE_ADD, None, None, 0.4)
    for queued in (first, second):
        found.add_unschedulable(queued, [], [], 0.5)
    assert sorted(names(found.error_backoff)) == [ONE, TWO]
    check_queue(found)


@table(
    ("Pop pods from both activeQ and backoffQ when PopFromBackoffQ is enabled", True, ["mpp", "hpp"]),
    ("Pop pod only from activeQ when PopFromBackoffQ is disabled", False, ["mpp"]),
)
def test_priority_queue_pop(row):
    """TestPriorityQueue_Pop: errors and unschedulable pods are left where they are."""
    windows, expected = row
    found = new_queue([(NODE_ADD, "plugin", always)], windows=windows)
    fail(found, "hpp", "plugin", priority=10)
    found.move(NODE_ADD, None, None, 0.0)
    fail(found, "hpp2", priority=10, now=0.1)
    fail(found, "up", "other", now=0.2)
    found.add(pod("mpp", 5), 0.3)
    popped = [queued.pod.name for _ in range(4) if (queued := found.pop(0.4)) is not None]
    assert popped == expected


@table(
    ("Pod is in activeQ", "active", True),
    ("Pod is in backoffQ", "backoff", True),
    ("Pod is in unschedulablePods", "unschedulable", True),
    ("Pod is gated in unschedulablePods", "gated", False),
    ("Pod was gated, but should be no longer", "once gated", True),
    ("Pod is not in any queue", "nowhere", False),
)
def test_priority_queue_pop_specific_pod(row):
    """TestPriorityQueue_PopSpecificPod; here the pods of a group are popped with the first of them."""
    where, is_popped = row
    allowed = ["foo"]
    found = new_queue([(NODE_ADD, "plugin", always)], pre_enqueue=gate_of(allowed))
    fail(found, "backoff", "plugin", foo="")
    found.move(NODE_ADD, None, None, 0.0)
    fail(found, "unschedulable", "plugin", foo="", now=0.1)
    found.add(pod("first", 9, foo=""), 0.2)
    found.add(pod("active", foo=""), 0.2)
    found.add(pod("gated"), 0.2)
    found.add(pod("once gated", bar=""), 0.2)
    allowed.append("bar")
    first = found.pop(0.3)
    together = names(found.pop_with(first, [f"default/{where}"], 0.3))
    assert together == ["first", where] if is_popped else ["first"]
    assert (f"default/{where}" in found.in_flight) is is_popped
    assert (found.find(f"default/{where}") is None) is (is_popped or where == "nowhere")


@table(
    ("Update pod that didn't exist in the queue", None, 0.0, "active"),
    ("When updating a pod that is already in activeQ, the pod should remain in activeQ after Update()", "active", 0.0,
     "active"),
    ("When updating a pod that is in backoff queue and is still backing off, it will be updated in backoff queue",
     "backoff", 0.0, "backoff"),
    ("when updating a pod in unschedulablePods, if its backoff timer has not yet expired, it moves to backoffQ",
     "queuePlugin", 0.0, "backoff"),
    ("when updating a pod in unschedulablePods, if its backoff timer has expired, it moves to activeQ",
     "queuePlugin", 10.0, "active"),
    (("when updating a pod in unschedulablePods, if the scheduling hint returns QueueSkip, it remains in "
     "unschedulablePods"), "skipPlugin", 0.0, "unschedulable"),
    ("when updating a pod which is in flightPods, the pod will not be added to any queue", "in flight", 0.0,
     "in flight"),
)  # fmt: skip
def test_priority_queue_update(row):
    """TestPriorityQueue_Update."""
    where, now, expected = row
    found = new_queue([(POD_UPDATE, "queuePlugin", always), (POD_UPDATE, "skipPlugin", never)])
    old, new = pod(), pod(note="new")
    if where in ("active", "in flight"):
        found.add(old, 0.0)
        _ = found.pop(0.0) if where == "in flight" else None
    elif where is not None:
        fail(found, ONE, "queuePlugin" if where == "backoff" else where)
        _ = found.retry(old.uid, 0.0) if where == "backoff" else None
    found.update(new, [InFlightEvent(POD_UPDATE, old, new)], now)
    assert place(found, old.uid) == expected
    assert expected == "in flight" or found.find(old.uid).pod is new


def test_priority_queue_update_adds_a_nominated_node_name():
    """TestPriorityQueue_Update: Update highPriorityPodInfo and add a nominatedNodeName to it."""
    found = new_queue()
    nominated = make_pod("hpp").nominated("node1").info()
    found.update(nominated, [], 0.0)
    assert place(found, nominated.uid) == "active"
    assert found.nominator.node_of(nominated.uid) == "node1"


def test_priority_queue_update_when_inflight():
    """TestPriorityQueue_UpdateWhenInflight."""
    found = new_queue([(POD_UPDATE, "fakePlugin", always)])
    old, new = pod(), pod(note="new")
    found.add(old, 0.0)
    queued = found.pop(0.0)
    found.update(new, [InFlightEvent(POD_UPDATE, old, new)], 0.1)
    queued.pod = new
    found.add_unschedulable(queued, ["fakePlugin"], [], 0.2)
    assert found.backoff.get(old.uid).pod is new


@table(
    ("pod already in activeQ", "active", "active"),
    ("pod not in unschedulablePods/backoffQ", "nowhere", None),
    ("pod not in unschedulablePods/backoffQ but in-flight", "in flight", "in flight"),
    ("pod not in unschedulablePods/backoffQ and not in-flight", "another in flight", None),
    ("pod in unschedulablePods", "unschedulable", "active"),
    ("pod in backoffQ", "backoff", "active"),
    ("pod in backoffQ, after an error", "error backoff", "active"),
)
def test_priority_queue_activate(row):
    """TestPriorityQueue_Activate."""
    where, expected = row
    found = new_queue()
    target = pod()
    if where in ("active", "in flight", "another in flight"):
        found.add(pod(TWO) if where == "another in flight" else target, 0.0)
        _ = found.pop(0.0) if where != "active" else None
    elif where != "nowhere":
        fail(found, ONE, *(() if where == "error backoff" else ("plugin",)))
        _ = found.retry(target.uid, 0.0) if where == "backoff" else None
        assert place(found, target.uid) == where
    found.activate(target.uid, 0.1)
    assert place(found, target.uid) == expected
    events = [(happened.event, happened.old, happened.new) for happened in found.in_flight._events]
    assert events == ([(FORCE_ACTIVATE, None, target)] if where == "in flight" else [])


ALLOWED = (["foo", "bar"], ["foo"])


@table(
    ("no plugins registered", [], "add", (True, False), True),
    ("preEnqueue plugin registered, pod name not in allowlists", [[], []], "add", (True, False), False),
    ("preEnqueue plugin registered, pod failed one preEnqueue plugin", ALLOWED, "add", (True, False), False),
    ("preEnqueue plugin registered, preEnqueue rejects the pod, even if it is after backoff", ALLOWED, "backoff over",
     (False,), False),
    (("preEnqueue plugin registered, pod would fail one preEnqueue plugin, but it is moved from backoffQ after "
     "completing backoff, so preEnqueue is not executed"), ALLOWED, "backoff over", (True,), True),
    ("preEnqueue plugin registered, pod failed one preEnqueue plugin when activated from unschedulablePods", ALLOWED,
     "activated", (True,), False),
    (("preEnqueue plugin registered, pod would fail one preEnqueue plugin, but was activated from backoffQ, so "
     "preEnqueue is not executed"), ALLOWED, "activated in backoff", (True,), True),
    ("preEnqueue plugin registered, pod passed all preEnqueue plugins", (["foo", "bar"], ["bar"]), "add",
     (True, False), True),
)  # fmt: skip
def test_priority_queue_move_to_active_q(row):
    """TestPriorityQueue_moveToActiveQ."""
    allowed, how, settings, succeeds = row
    for windows in settings:
        asked = []  # the plugins take effect once the pod lies where the row wants it
        found = new_queue(pre_enqueue=lambda p, first, asked=asked: _first_refusal(asked, p), windows=windows)
        target = pod(bar="")
        if how == "add":
            asked += allowed
            found.add(target, 0.0)
        else:
            fail(found, ONE, "plugin", bar="")
            _ = found.retry(target.uid, 0.0) if how != "activated" else None
            asked += allowed
            _ = found.flush(5.0) if how == "backoff over" else found.activate(target.uid, 0.1)
        assert place(found, target.uid) == ("active" if succeeds else "unschedulable")
        found.update(pod(bar="", note=""), [InFlightEvent(POD_UPDATE, target, target)], 5.0)
        assert place(found, target.uid) == ("active" if succeeds else "unschedulable")


def _first_refusal(plugins, pod):
    return next((refusal for allowed in plugins if (refusal := gate_of(allowed)(pod, ""))), None)


@table(
    ("no plugins registered", [], (True, False), True),
    ("preEnqueue plugin registered, pod name would not be in allowlists", [[], []], (False,), True),
    ("preEnqueue plugin registered, pod name not in allowlists", [[], []], (True,), False),
    ("preEnqueue plugin registered, preEnqueue plugin would reject the pod, but isn't run", ALLOWED, (False,), True),
    ("preEnqueue plugin registered, pod failed one preEnqueue plugin", ALLOWED, (True,), False),
    ("preEnqueue plugin registered, pod passed all preEnqueue plugins", (["foo", "bar"], ["bar"]), (True, False), True),
)
def test_priority_queue_move_to_backoff_q(row):
    """TestPriorityQueue_moveToBackoffQ."""
    allowed, settings, succeeds = row
    for windows in settings:
        asked = []
        found = new_queue(pre_enqueue=lambda p, first, asked=asked: _first_refusal(asked, p), windows=windows)
        queued = fail(found, ONE, "plugin", bar="")
        asked += allowed
        found.retry(queued.pod.uid, 0.0)
        assert place(found, queued.pod.uid) == ("backoff" if succeeds else "unschedulable")


@table(
    ("Queue queues pod to activeQ", "", (), ["foo"], always, 0.0, "active"),
    ("Queue queues pod to backoffQ if Pod is backing off", "", ["foo"], (), always, 0.0, "backoff"),
    ("Queue queues pod to activeQ if Pod is not backing off", "", ["foo"], (), always, 2.0, "active"),
    ("Skip queues pod to unschedulablePods", "", ["foo"], (), never, 0.0, "unschedulable"),
    ("QueueHintFunction is not called when Pod is gated by the plugin that isn't interested in the event",
     "SchedulingGates", ["foo"], (), broken, 0.0, "unschedulable"),
    ("QueueHintFunction is called when Pod is gated by the plugin that is interested in the event", "foo", ["foo"], (),
     always, 0.0, "backoff"),
)  # fmt: skip
def test_priority_queue_move_all_to_active_or_backoff_queue_with_queueing_hint(row):
    """TestPriorityQueue_MoveAllToActiveOrBackoffQueueWithQueueingHint."""
    gating_plugin, plugins, pending, hint, after_s, expected = row
    found = new_queue([(NODE_ADD, "foo", hint), (POD_UPDATE, "SchedulingGates", always)])
    queued = fail(found, ONE, *plugins, pending=pending)
    queued.gating_plugin = gating_plugin
    found.unschedulable[queued.pod.uid] = queued  # filed anew, as its gate is another
    found.move(NODE_ADD, None, None, after_s)
    assert place(found, queued.pod.uid) == expected


def test_priority_queue_move_all_to_active_or_backoff_queue():
    """TestPriorityQueue_MoveAllToActiveOrBackoffQueue."""
    found = new_queue([(NODE_ADD, "fooPlugin", always)])
    found.add(pod("up"), 0.0)
    found.add(pod("hpp", 9), 0.0)
    high, low = found.pop(0.0), found.pop(0.0)
    assert len(found.in_flight) == 2
    for queued in (low, high):
        found.add_unschedulable(queued, ["fooPlugin"], [], 0.1)
    found.add(pod("hpp1"), 0.1)
    fail(found, "hpp2", "barPlugin", priority=10, now=0.2)
    found.add_unschedulable(found.pop(0.2), [], [], 0.2)  # hpp1: an error
    found.move(NODE_ADD, None, None, 0.3)
    places = {name: place(found, f"default/{name}") for name in ("up", "hpp", "hpp1", "hpp2")}
    assert places == {"up": "backoff", "hpp": "backoff", "hpp1": "error backoff", "hpp2": "unschedulable"}
    found.flush(20.0)
    found.move(NODE_ADD, None, None, 20.0)
    assert names(found.active.ordered()) == ["hpp", "up", "hpp1"]
    assert names(found.unschedulable.values()) == ["hpp2"]
    check_queue(found)


def test_recently_tried_pods_go_back():
    """TestRecentlyTriedPodsGoBack."""
    found = new_queue()
    for number in range(5):
        found.add(pod(f"test-pod-{number}", 10), 0.0)
    first = found.pop(0.1)
    found.add_unschedulable(first, ["plugin"], [], 0.1)
    found.move(UNSCHEDULABLE_TIMEOUT, None, None, 10.1)
    assert [found.pop(10.2) for _ in range(5)][-1] is first


def test_pod_failed_scheduling_multiple_times_does_not_block_newer_pod():
    """TestPodFailedSchedulingMultipleTimesDoesNotBlockNewerPod."""
    found = new_queue()
    tried = fail(found, "test-pod-unscheduled", "plugin", priority=10)
    found.move(UNSCHEDULABLE_TIMEOUT, None, None, 2.0)
    assert found.pop(2.0) is tried
    found.add(pod("test-newer-pod", 10), 2.1)
    found.add_unschedulable(tried, ["plugin"], [], 2.2)
    found.move(UNSCHEDULABLE_TIMEOUT, None, None, 6.0)
    assert found.pop(6.0).pod.name == "test-newer-pod"


def test_high_priority_backoff():
    """TestHighPriorityBackoff."""
    found = new_queue()
    found.add(pod("test-midpod", 5), 0.0)
    fail(found, "test-highpod", "fooPlugin", priority=10)
    found.move(UNSCHEDULABLE_TIMEOUT, None, None, 0.1)
    assert found.pop(0.1).pod.name == "test-midpod"


def test_flush_unschedulable_pods_leftover_sets_flag():
    """TestHighPriorityFlushUnschedulablePodsLeftover, TestFlushUnschedulablePodsLeftoverSetsFlag."""
    found = new_queue()
    found.flush(0.0)
    middle, high = (
        fail(found, "test-midpod", "fakePlugin", priority=5),
        fail(found, "test-highpod", "fakePlugin", priority=9),
    )
    assert not middle.was_flushed
    found.flush(300.0)
    assert len(found.unschedulable) == 2, "not older than five minutes yet"
    found.flush(330.0)
    assert [found.pop(330.0), found.pop(330.0)] == [high, middle]
    assert middle.was_flushed
    found.add_unschedulable(middle, ["fakePlugin"], [], 331.0)
    assert not middle.was_flushed


@table(
    ("New priority queue by the default value of podMaxInUnschedulablePodsDuration", {}, 330.0),
    (
        "New priority queue by user-defined value of podMaxInUnschedulablePodsDuration",
        {"unschedulable_age_s": 30.0},
        60.0,
    ),
)
def test_priority_queue_init_pod_max_in_unschedulable_pods_duration(row):
    """TestPriorityQueue_initPodMaxInUnschedulablePodsDuration, TestPodTimestamp: the older comes first."""
    policy, due = row
    found = new_queue(**policy)
    found.flush(0.0)
    fail(found, "test-pod-2", "plugin", now=0.1)
    fail(found, "test-pod-1", "plugin", now=1.1)
    found.flush(due - 30.0)
    assert len(found.active) == 0
    found.flush(due)
    assert names(found.active.ordered()) == ["test-pod-2", "test-pod-1"]


@table(
    ("pod is created and scheduled after 1 attempt", "once", 1, 0.0),
    ("pod is created and scheduled after 2 attempts", "twice", 2, 0.0),
    ("pod is created and scheduled after 2 attempts but before the second pop, call update", "updated", 2, 0.0),
    ("A gated pod is created and scheduled after lifting gate", "gated", 1, 60.0),
)
def test_per_pod_scheduling_metrics(row):
    """TestPerPodSchedulingMetrics."""
    how, attempts, initial = row
    allowed = ["foo"]
    found = new_queue([(POD_UPDATE, "preEnqueuePlugin", always)], pre_enqueue=gate_of(allowed))
    target = pod(**({} if how == "gated" else {"foo": ""}))
    found.add(target, 0.0)
    if how in ("twice", "updated"):
        found.add_unschedulable(found.pop(0.0), ["plugin"], [], 0.0)
        found.move(UNSCHEDULABLE_TIMEOUT, None, None, 301.0)
    if how in ("updated", "gated"):
        new = pod(foo="", note="")
        found.update(new, [InFlightEvent(POD_UPDATE, target, new)], 60.0)
    queued = found.pop(302.0)
    assert (queued.attempts, queued.initial_attempt) == (attempts, initial)


@table(
    ("add unscheduled pods then make them unschedulable", ["plugin"], None,
     [("unschedulable", "ScheduleAttemptFailure")]),
    ("add unscheduled pods, make them unschedulable, and move them to backoffQ", ["plugin"], 0.1,
     [("unschedulable", "ScheduleAttemptFailure"), ("backoff", "UnschedulableTimeout")]),
    ("add unscheduled pods, make them unschedulable, and move them to activeQ", ["plugin"], 3.0,
     [("unschedulable", "ScheduleAttemptFailure"), ("active", "UnschedulableTimeout")]),
    ("make some pods subject to backoff and add them to backoffQ, then flush backoffQ", [], 6.0,
     [("backoff", "ScheduleAttemptFailure"), ("active", "BackoffComplete")]),
)  # fmt: skip
def test_incoming_pods_metrics(row):
    """TestIncomingPodsMetrics; "add pods to activeQ" is the first entry of each."""
    plugins, moved, expected = row
    entries = []
    found = new_queue(incoming=entries)
    fail(found, ONE, *plugins)
    if moved is not None:
        found.flush(moved)
        found.move(UNSCHEDULABLE_TIMEOUT, None, None, moved)
    assert [queue for queue, _ in entries[:1]] == ["active"]
    assert entries[1:] == expected


@pytest.mark.parametrize("windows", [True, False])
def test_back_off_flow(windows):
    """TestBackOffFlow."""
    found, now = new_queue(windows=windows), 0.0
    found.add(pod(), now)
    for attempts, backoff_s in enumerate((1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0), start=1):
        queued = found.pop(now)
        assert queued.attempts == attempts
        found.add_unschedulable(queued, ["unsched-plugin"], [], now)
        found.move(UNSCHEDULABLE_TIMEOUT, None, None, now)
        assert place(found, queued.pod.uid) == "backoff"
        assert queued.backoff_until == now + backoff_s
        found.flush(now + backoff_s)
        assert place(found, queued.pod.uid) == "backoff"
        now += backoff_s + 1.0
        found.flush(now)
        assert place(found, queued.pod.uid) == "active"


def rejected(*plugins, pending=()):
    queued = QueuedPod(pod(), 0.0)
    queued.unschedulable_plugins, queued.pending_plugins = frozenset(plugins), frozenset(pending)
    return queued


NODE_LABEL = ClusterEvent("Node", Action.UPDATE_NODE_LABEL, "NodeLabelChange")


@table(
    ("return Queue when no queueing hint function is registered for the event", rejected("p1"), NODE_ADD, None,
     [(ASSIGNED_POD_ADD, "p1", "queue")], Strategy.SKIP, 0),
    ("Treat the event as Queue when QueueHintFn returns error", rejected("p1"), NODE_ADD, None,
     [(NODE_ADD, "p1", "error")], Strategy.AFTER_BACKOFF, 1),
    ("return Queue when the event is wildcard", rejected("p1"), UNSCHEDULABLE_TIMEOUT, None, [],
     Strategy.AFTER_BACKOFF, 0),
    ("return Queue when the event is wildcard and the wildcard targets the pod to be requeued right now",
     rejected("p1"), FORCE_ACTIVATE, pod(), [], Strategy.AFTER_BACKOFF, 0),
    ("return Skip when the event is wildcard, but the wildcard targets a different pod", rejected("p1"),
     FORCE_ACTIVATE, pod(TWO), [], Strategy.SKIP, 0),
    ("interprets Queue from the Pending plugin as queueImmediately", rejected("p1", "p3", pending=["p2"]), NODE_ADD,
     None, [(NODE_ADD, "p1", "queue"), (NODE_ADD, "p2", "queue"), (NODE_ADD, "p3", "queue"), (NODE_ADD, "p4", "error")],
     Strategy.IMMEDIATELY, 2),
    ("interprets Queue from the Unschedulable plugin as queueAfterBackoff", rejected("p1", "p2"), NODE_ADD, None,
     [(NODE_ADD, "p1", "skip"), (NODE_ADD, "p2", "queue")], Strategy.AFTER_BACKOFF, 2),
    ("Queueing hint function that isn't from the plugin in UnschedulablePlugins/PendingPlugins is ignored",
     rejected("p1", "p2"), NODE_ADD, None,
     [(NODE_ADD, "p1", "skip"), (NODE_ADD, "p2", "skip"), (NODE_ADD, "p3", "queue")], Strategy.SKIP, 2),
    ("If event is specific Node update event, queueing hint function for NodeUpdate/UpdateNodeLabel is also executed",
     rejected("p1", "p2"), NODE_LABEL, None,
     [(NODE_LABEL, "p1", "queue"), (NODE_LABEL, "p2", "queue"),
      (ClusterEvent("Node", Action.UPDATE), "p1", "queue"), (NODE_ADD, "p1", "queue")], Strategy.AFTER_BACKOFF, 1),
    ("If event with '*' Resource, queueing hint function for specified Resource is also executed", rejected("p1"),
     NODE_ADD, None, [(ClusterEvent(WILDCARD, Action.ADD), "p1", "queue")], Strategy.AFTER_BACKOFF, 1),
    ("If event is a wildcard one, queueing hint function for all kinds of events is executed", rejected("p1"),
     ClusterEvent("Node", Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT), None,
     [(ClusterEvent(WILDCARD, Action.ALL), "p1", "queue")], Strategy.AFTER_BACKOFF, 1),
)  # fmt: skip
def test_is_pod_worth_requeuing(row):
    """Test_isPodWorthRequeuing: the answer, and how many hints were asked for it."""
    queued, event, new, registered, expected, count = row
    asked = []

    def hint(answer):
        def answering(*_):
            asked.append(answer)
            if answer == "error":
                raise RuntimeError("unexpected error")
            return QueueingHint.QUEUE if answer == "queue" else QueueingHint.SKIP

        return answering

    wakes = WakeTable(
        [Registered(plugin, registered_for, hint(answer)) for registered_for, plugin, answer in registered]
    )
    assert strategy(queued, InFlightEvent(event, None, new), {"default-scheduler": wakes}) is expected
    assert len(asked) == count


# -- backoff_queue_test.go -------------------------------------------------------------------------------------------


@table(
    ("no backoff", 32.0, 0, 0.0),
    ("normal", 32.0, 16, 32.0),
    ("overflow_32bit", 2.0**31 - 1, 32, 2.0**31 - 1),
    ("overflow_64bit", 2.0**63, 64, 2.0**63),
)
def test_backoff_queue_calculate_backoff_duration(row):
    """TestBackoffQueue_calculateBackoffDuration."""
    max_s, failures, expected = row
    assert QueuePolicy(initial_backoff_s=1.0, max_backoff_s=max_s).backoff_s(failures) == expected


@pytest.mark.parametrize("windows", [True, False])
@table(
    ("Both queues empty, no pods moved to activeQ", [], []),
    ("Pods only in backoffQ, some pods moved to activeQ", ["pod0", "pod1"], ["pod0"]),
    ("Pods only in errorBackoffQ, some pods moved to activeQ", ["pod2", "pod3"], ["pod2"]),
    ("Pods in both queues, some pods moved to activeQ", ["pod0", "pod1", "pod2", "pod3"], ["pod0", "pod2"]),
    ("Pods in both queues, all pods moved to activeQ", ["pod0", "pod2"], ["pod0", "pod2"]),
    ("Pods in both queues, no pods moved to activeQ", ["pod1", "pod3"], []),
)
def test_backoff_queue_pop_all_backoff_completed(row, windows):
    """TestBackoffQueue_popAllBackoffCompleted."""
    in_backoff, expected = row
    found = new_queue(windows=windows)
    popped = {name: _popped(found, name) for name in in_backoff}
    for name in sorted(in_backoff, key=["pod0", "pod2", "pod1", "pod3"].index):
        plugins, now = (["plugin"] if name in ("pod0", "pod1") else []), (7.0 if name in ("pod0", "pod2") else 9.9)
        found.add_unschedulable(popped[name], plugins, [], now)
        found.retry(popped[name].pod.uid, now)
    found.flush(10.0)
    assert names(found.active.ordered()) == expected
    assert len(found.backoff) + len(found.error_backoff) == len(in_backoff) - len(expected)


@table(
    ("Pods with the same window are ordered by priority if PopFromBackoffQ is enabled", True,
     ["pod5", "pod4", "pod2", "pod3"]),
    ("Pods priority doesn't matter if PopFromBackoffQ is disabled", False, ["pod5", "pod4", "pod3", "pod2"]),
)  # fmt: skip
def test_backoff_queue_ordering(row):
    """TestBackoffQueueOrdering."""
    windows, expected = row
    found = new_queue(windows=windows)
    ages = {
        "pod0": (1, 0.0),
        "pod1": (1, 1.0),
        "pod2": (2, 1.999),
        "pod4": (2, 2.0),
        "pod3": (1, 2.0),
        "pod5": (1, 3.0),
    }
    popped = {name: _popped(found, name, priority) for name, (priority, _) in ages.items()}
    for name, (_, age_s) in ages.items():
        found.add_unschedulable(popped[name], ["plugin"], [], 10.0 - age_s)
        found.backoff.push(_backing_off(found, popped[name]))
    assert names(found.backoff.ordered())[:4] == expected
    found.flush(10.0)
    assert sorted(names(found.active)) == sorted(expected)


def _popped(found, name, priority=0):
    found.add(pod(name, priority), 0.0)
    return found.pop(0.0)


def _backing_off(found, queued):
    del found.unschedulable[queued.pod.uid]
    assert found._backs_off(queued, queued.timestamp)
    return queued


def test_the_document_names_tests_that_there_are():
    root = ROOT
    text = (root / "tests/upstream-tables.md").read_text()
    named = re.findall(r"`(T|[\w/]*tests/[\w/]+\.py)?::(\w+)`", text)
    assert len(named) > 30
    file = ""
    for path, test in named:
        file = {"": file, "T": "packages/scheduler/tests/queue/test_upstream_tables.py"}.get(path, path)
        assert f"def {test}(" in (root / file).read_text(), f"there is no {file}::{test}"
