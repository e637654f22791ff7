"""Rows of upstream's `pkg/scheduler/framework/preemption/executor_test.go`, v1.36, under their names."""

import pytest

from berth.core.builders import make_node, make_pod
from berth.framework.effects import ApiCall, EvictPod, WaitUntil
from berth.framework.status import Code, Status
from berth.testing.invariants import check
from packages.scheduler.tests.support import cluster, document, plugin, requests_of

PREEMPTED = "Preempted by pod default/p on node n1"


def node():
    return make_node("n1").capacity(cpu="6", memory="8Gi", pods="10")


def victim(name, cpu="2"):
    return make_pod(name).request(cpu=cpu).priority(1)


def preemptor(cpu="6"):
    return make_pod("p").request(cpu=cpu).priority(10)


def held(found):
    """The evictions that the API server has not answered, by victim."""
    return {request.effect.pod.name: request for request in found.requests if isinstance(request.effect, EvictPod)}


def asked(found):
    return [eviction.pod.name for eviction in requests_of(found, EvictPod)]


# TestAsyncPreemptionFailure; the victims are asked in the order v1, v2, v3, and those named fail.
@pytest.mark.parametrize(
    ("count", "failing", "last_is_asked"),
    [
        pytest.param(1, {"v1"}, True, id="Failure with a single victim"),
        pytest.param(1, set(), True, id="Success with a single victim"),
        pytest.param(3, {"v1"}, False, id="Failure in first of three victims"),
        pytest.param(3, {"v2"}, False, id="Failure in second of three victims"),
        pytest.param(3, {"v1", "v2"}, False, id="Failure in first two of three victims"),
        pytest.param(3, {"v3"}, True, id="Failure in third of three victims"),
        pytest.param(3, set(), True, id="Success with three victims"),
    ],
)
def test_async_preemption_failure(count, failing, last_is_asked):
    victims = [victim(f"v{number + 1}", cpu=str(6 // count)).node("n1") for number in range(count)]
    found = cluster(node(), *victims)
    found.answers_evictions = False
    found.put(preemptor())
    found.run()
    order = asked(found)
    named = {f"v{number + 1}": name for number, name in enumerate(order)}
    (last,) = {v.name for v in (v.info() for v in victims)} - set(order) or order
    named[f"v{count}"] = last
    refused = {named[name] for name in failing}
    while found.requests:
        request = found.requests[0]
        found.answer(request, "delete pod failed" if request.effect.pod.name in refused else "")
    assert (last in asked(found)) is last_is_asked
    assert ("Pod", f"default/{last}") in found.objects or not failing
    if not failing:
        found.run()
        assert found.nodes_of() == {"p": "n1"}
        return
    assert found.core.queue.is_to_be_tried("default/p"), "whoever preempted in vain is tried again"
    assert not list(found.core.evictions.preemptors())
    check(found.core)


def test_no_further_victim_is_asked_once_one_was_refused_where_the_cycle_waits():
    victims = [victim(f"v{number}").node("n1") for number in range(3)]
    found = cluster(node(), *victims, gates={"SchedulerAsyncPreemption": False})
    found.answers_evictions = False
    found.put(preemptor())
    found.run()
    found.answer(found.requests[0], "patch pod status failed")
    assert len(asked(found)) == 1
    assert found.events("FailedScheduling")[0].endswith("preemption: patch pod status failed")


def test_no_more_victims_than_upstream_has_workers_are_asked_at_a_time():
    big = make_node("n1").capacity(cpu="40", memory="8Gi", pods="99")
    found = cluster(big, *[victim(f"v{number}").node("n1") for number in range(20)])
    found.answers_evictions = False
    found.put(preemptor(cpu="40"))
    found.run()
    assert len(held(found)) == 16
    for request in tuple(held(found).values()):
        found.answer(request)
    assert len(held(found)) == 3, "the last waits until it is known that all others go"
    first, *others = held(found).values()
    found.answer(first, "no")
    for request in others:
        found.answer(request)
    assert len(asked(found)) == 19
    check(found.core)


# TestPreemptPod


class Slow:
    """PreBind that waits for something that never comes, or for an answer of the API server."""

    def __init__(self, effect):
        self.effect = effect

    def __call__(self, _state, pod, _node_name):
        if pod.name != "v":
            return None
        return self._steps()

    def _steps(self):
        yield self.effect


def binding(effect, generation=None, **options):
    """A cluster in which v is in PreBind."""
    slow = plugin("Slow", pre_bind=Slow(effect), reserve=lambda *_: None, unreserve=lambda *_: None)
    found = cluster(node(), config=document("Slow"), plugins={"Slow": slow}, generation=generation, **options)
    found.answer_api = None
    found.put(victim("v", cpu="4"))
    found.run()
    assert found.core.cache.state_of("default/v") is not None
    return found, slow


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
def test_preempt_pod_victim_is_in_pre_bind_context_should_be_cancelled(is_async):
    found, slow = binding(WaitUntil(lambda: False, 500.0), gates={"SchedulerAsyncPreemption": is_async})
    found.put(preemptor())
    found.run()
    assert asked(found) == [], "no call to the API server"
    assert found.events("Preempted") == [f"{PREEMPTED} (in kube-scheduler memory)."]
    assert slow.calls.count("unreserve") == 1
    assert found.core.queue.is_to_be_tried("default/v"), "it is not lost, and backs off"
    assert 'running PreBind plugin "Slow": preempted by pod default/p' in found.events("FailedScheduling")
    found.advance(20.0)
    assert found.nodes_of() == {"v": "", "p": "n1"}
    check(found.core)


def test_a_victim_with_a_write_under_way_gives_its_room_back_once_that_is_answered():
    found, slow = binding(ApiCall("patch", "Node", "", "n1"))
    (write,) = found.requests
    found.put(preemptor())
    found.run()
    assert slow.calls.count("unreserve") == 0
    found.answer(write)
    found.run()
    assert slow.calls.count("unreserve") == 1
    found.advance(20.0)
    assert found.nodes_of() == {"v": "", "p": "n1"}
    assert asked(found) == []
    check(found.core)


def test_of_v1_20_a_victim_in_pre_bind_is_deleted():
    found, _ = binding(WaitUntil(lambda: False, 500.0), generation="v1.20")
    found.put(preemptor())
    found.run()
    assert asked(found) == ["v"]


def test_preempt_pod_victim_is_in_waiting_pods_it_should_be_rejected():
    def permit(_state, pod, _node_name):
        return (Status(Code.WAIT), 600.0) if pod.name == "v" else (None, 0.0)

    found = cluster(node(), config=document("Hold"), plugins={"Hold": plugin("Hold", permit=permit)})
    found.put(victim("v", cpu="4"))
    found.run()
    found.put(preemptor())
    found.run()
    assert asked(found) == []
    assert found.events("Preempted") == [f"{PREEMPTED} (in kube-scheduler memory)."]
    assert "waiting on permit for pod: preempted" in found.events("FailedScheduling")
    assert found.core.queue.is_to_be_tried("default/v")
    found.advance(20.0)
    assert found.nodes_of() == {"v": "", "p": "n1"}


def test_preempt_pod_victim_is_not_in_waiting_or_pre_bind_pods_pod_should_be_deleted():
    found = cluster(node(), victim("v", cpu="4").node("n1"))
    found.put(preemptor())
    found.run()
    assert asked(found) == ["v"]
    assert found.events("Preempted") == [PREEMPTED]


@pytest.mark.parametrize("first", ["pre_bind", "api"], ids=["last is deleted", "last is in PreBind"])
def test_a_preemptor_with_victims_of_both_kinds_is_not_left_lying(first):
    """TestPrepareCandidateAsyncActivatesPreemptorAfterLastVictimInMemoryPreemption."""
    found, _ = binding(WaitUntil(lambda: False, 500.0))
    found.put(victim("w").node("n1").priority(2 if first == "pre_bind" else 0))
    found.put(preemptor())
    found.advance(20.0)
    assert asked(found) == ["w"]
    assert found.nodes_of() == {"v": "", "p": "n1"}
    check(found.core)
