"""Pods that wait are woken as if each had been asked about, and events cost what there are shapes."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.core.builders import make_pod
from berth.framework.events import ASSIGNED_POD_ADD, ASSIGNED_POD_DELETE, NODE_ADD, UNSCHEDULABLE_TIMEOUT, QueueingHint
from berth.queue.hints import Registered, Strategy, WakeTable, heard, is_kept_gated, strategies, strategy
from berth.queue.in_flight import InFlightEvent
from berth.queue.unschedulable import UnschedulablePods
from berth.state.pod_info import PodInfo, PodShapes
from berth.state.queued_pod import QueuedPod
from berth.testing.invariants import check_queue
from packages.scheduler.tests.queue.support import queue

NAME = "default-scheduler"


def asked_by_size(asked):
    """A hint that looks at what a pod requests, and notes who it was asked about."""

    def hint(pod, old, new):
        asked.append(pod.name)
        return QueueingHint.QUEUE if pod.requests.get("cpu", 0) < 2000 else QueueingHint.SKIP

    return hint


def by_name(pod, old, new):
    return QueueingHint.QUEUE if pod.name.endswith(("1", "5")) else QueueingHint.SKIP


def table_of(asked):
    return WakeTable(
        [
            Registered("Size", NODE_ADD, asked_by_size(asked), by_shape=True),
            Registered("Size", ASSIGNED_POD_DELETE, None, by_shape=True),
            Registered("Name", NODE_ADD, by_name),
            Registered("Gate", ASSIGNED_POD_DELETE, None, by_shape=True),
        ]
    )


def info(name, cpu, shapes):
    pod = make_pod(name).request(cpu=cpu).build()
    return PodInfo.of(pod, shapes.of(pod))


def rejected(pod, unschedulable=(), pending=(), gate=""):
    queued = QueuedPod(pod, 0.0)
    queued.unschedulable_plugins, queued.pending_plugins = frozenset(unschedulable), frozenset(pending)
    queued.gating_plugin = gate
    return queued


def waiting(rng, shapes):
    found = UnschedulablePods()
    plugins = ((), ("Size",), ("Name",), ("Size", "Name"), ("Other",))
    for index in range(rng.randrange(30)):
        pod = info(f"p{index}", rng.choice("123"), shapes)
        why = rng.choice(plugins), rng.choice(plugins) if rng.random() < 0.3 else ()
        found[pod.uid] = rejected(pod, *why, gate="Gate" if rng.random() < 0.1 else "")
    for uid in rng.sample(list(found), len(found) // 4):
        if rng.random() < 0.5:
            del found[uid]
        else:  # the pod asks for something else now, or waits for something else
            queued = found[uid]
            queued.pod, queued.pending_plugins = info(queued.pod.name, "4", shapes), frozenset()
            found[uid] = queued
    return found


@settings(deadline=None)
@given(seed=st.integers(0, 2**32))
def test_each_pod_gets_what_it_would_get_if_it_were_asked_about(seed):
    rng, shapes = random.Random(seed), PodShapes()
    found, tables = waiting(rng, shapes), {NAME: table_of([])}
    about = rng.choice([None, *(queued.pod for queued in found.values())])
    happened = InFlightEvent(rng.choice((NODE_ADD, ASSIGNED_POD_DELETE, UNSCHEDULABLE_TIMEOUT)), about, None)
    left_out = rng.choice(["", *found])
    expected = {
        uid: how
        for uid, queued in zip(found, found.values(), strict=True)
        if uid != left_out
        and not is_kept_gated(queued, happened.event, tables)
        and (how := strategy(queued, happened, tables)) is not Strategy.SKIP
    }
    woken = list(strategies(found, happened, tables, left_out))
    assert {queued.pod.uid: how for queued, how in woken} == expected
    assert len(woken) == len(expected)


@settings(deadline=None)
@given(seed=st.integers(0, 2**32))
def test_whether_an_event_is_heard_is_remembered_until_pods_wait_for_something_else(seed):
    rng, shapes, found = random.Random(seed), PodShapes(), queue()
    found.tables = {NAME: table_of([])}
    for step in range(20):
        uids = list(found.unschedulable)
        if uids and rng.random() < 0.4:
            del found.unschedulable[rng.choice(uids)]
        else:
            queued = rejected(info(f"p{step}", "1", shapes), rng.choice(((), ("Size",), ("Name",))), ())
            found.unschedulable[queued.pod.uid] = queued
        for event in (NODE_ADD, ASSIGNED_POD_ADD, ASSIGNED_POD_DELETE):
            happened, waiting_pods = InFlightEvent(event, None, None), found.unschedulable.values()
            may_be_woken = any(strategy(each, happened, found.tables) for each in waiting_pods)
            assert found._is_heard(event) or not may_be_woken
            assert found._is_heard(event) is any(True for _ in heard(found.unschedulable, event, found.tables))


def crowd(found, *, pods, shapes):
    """Bring pods of so many shapes to where they wait, rejected by Size."""
    interned = PodShapes()
    for index in range(pods):
        found.add(info(f"w{index}", f"{2 + index % shapes}", interned), 0.0)
        found.add_unschedulable(found.pop(0.0), ("Size",), (), 0.0)


def test_an_event_is_weighed_against_shapes_and_not_against_pods():
    for pods in (20, 200):
        asked = []
        found = queue()
        found.tables = {NAME: table_of(asked)}
        crowd(found, pods=pods, shapes=5)
        found.move(NODE_ADD, None, None, 1.0)
        assert len(asked) == 5
        found.move(NODE_ADD, None, None, 1.0, except_uid="default/w0")
        assert len(asked) == 5 + 4 + pods // 5 - 1, "the shape of the pod that is left out is asked about pod by pod"
        check_queue(found)


def test_who_waited_longest_is_woken_first_whatever_shapes_there_are():
    incoming = []
    found = queue(incoming=incoming)
    found.tables = {NAME: table_of([])}
    crowd(found, pods=30, shapes=7)
    order = []
    found._on_incoming = lambda where, event, queued: order.append(queued.pod.name)
    found.move(ASSIGNED_POD_DELETE, None, None, 20.0)
    assert order == [f"w{index}" for index in range(30)]
    assert not len(found.unschedulable)
    check_queue(found)


def test_a_pod_that_is_filed_anew_keeps_its_turn():
    found, shapes = UnschedulablePods(), PodShapes()
    for name in "abc":
        pod = info(name, "1", shapes)
        found[pod.uid] = rejected(pod, ("Size",))
    changed = found["default/a"]
    changed.pod = info("a", "2", shapes)
    found["default/a"] = changed
    assert [queued.pod.name for queued in found.values()] == ["a", "b", "c"]
    assert found.number(changed) < found.number(found["default/b"])
    assert found.pop("default/a") is changed
    assert found.pop("default/a") is None
    assert found.get("default/a") is None
