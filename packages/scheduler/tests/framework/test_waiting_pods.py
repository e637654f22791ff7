"""Pods that Permit holds back, and how their wait ends."""

import pytest

from berth.core.builders import make_pod
from berth.framework.status import Code
from berth.framework.waiting_pods import WaitingPod, WaitingPods


def held(name="a", **deadlines):
    return WaitingPod(make_pod(name).info(), "n1", deadlines or {"A": 10.0, "B": 20.0}, 0.0)


def waiting(*pods):
    found = WaitingPods()
    for pod in pods:
        found.add(pod)
    return found


def test_a_pod_goes_when_all_plugins_have_allowed_it():
    pod = held()
    found = waiting(pod)
    pod.allow("A")
    pod.allow("unknown")
    assert (pod.is_settled, pod.pending_plugins, found.settled(0.0)) == (False, ("B",), [])
    pod.allow("B")
    assert found.next_deadline() == float("-inf")
    assert found.settled(0.0) == [pod]
    assert (pod.verdict, len(found), found.next_deadline()) == (None, 0, None)


def test_one_rejection_is_enough_and_the_first_counts():
    pod = held()
    found = waiting(pod)
    assert found.reject(pod.pod.uid, "A", "no")
    pod.reject("B", "also no")
    pod.allow("A")
    pod.allow("B")
    assert found.settled(0.0) == [pod]
    assert (pod.verdict.code, pod.verdict.plugin, pod.verdict.message) == (Code.UNSCHEDULABLE, "A", "no")
    assert not found.reject(pod.pod.uid, "A", "no")


def test_what_was_allowed_cannot_be_rejected_any_more():
    pod = held(A=10.0)
    pod.allow("A")
    pod.reject("A", "too late")
    assert pod.verdict is None


def test_the_first_deadline_that_passes_ends_the_wait():
    pod = held()
    found = waiting(pod, held("b", A=5.0))
    assert found.next_deadline() == 5.0
    assert [done.pod.name for done in found.settled(5.0)] == ["b"]
    assert found.settled(9.9) == []
    assert found.settled(10.0) == [pod]
    assert (pod.verdict.plugin, pod.verdict.code) == ("A", Code.UNSCHEDULABLE)
    assert pod.verdict.message == "rejected due to timeout after waiting 10s at plugin A"


@pytest.mark.parametrize(("seconds", "text"), [(0.5, "500ms"), (5.0, "5s"), (90.0, "1m30s"), (900.0, "15m0s")])
def test_the_time_waited_is_written_as_go_writes_it(seconds, text):
    pod = held(A=seconds)
    pod.time_out(seconds + 3.0)
    assert pod.verdict.message == f"rejected due to timeout after waiting {text} at plugin A"


def test_waiting_pods_can_be_listed_found_and_dropped():
    pods = [held("a"), held("b")]
    found = waiting(*pods)
    assert list(found) == pods
    assert found.get("default/b") is pods[1]
    for pod in found:
        found.remove(pod.pod.uid)
    assert (len(found), found.get("default/b")) == (0, None)
