"""An idle scheduler does not try a pod over and over that ends in the same way each time."""

import pytest

from berth.framework.effects import EvictPod
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint
from berth.framework.status import unschedulable
from berth.testing.invariants import check
from packages.scheduler.tests.support import cluster, document, node, plugin, pod

AFTER_BACKOFFS = 6
"""How often a pod can be tried in 30 s: at first, and after backoffs of 1, 2, 4, 8 and 10 s."""

POD_DELETED = ClusterEventWithHint(ClusterEvent("Pod", Action.DELETE))


def no(*_):
    return unschedulable("no")


REJECTING = {
    "reserve": {"reserve": no, "unreserve": lambda *_: None},
    "permit": {"permit": lambda *_: (unschedulable("no"), 0.0)},
    "pre_bind": {"pre_bind": no},
}


@pytest.mark.parametrize("point", REJECTING)
@pytest.mark.parametrize("pods", [1, 2, 5])
def test_pods_that_are_rejected_after_a_node_was_found_wait_out_their_backoff(point, pods):
    # The room that one of them gives back is an event that wakes the others.
    stubborn = plugin("Stubborn", events=[POD_DELETED], **REJECTING[point])
    found = cluster(node(cpu="8"), config=document("Stubborn"), plugins={"Stubborn": stubborn})
    for number in range(pods):
        found.put(pod(f"a{number}"))
    found.advance(30.0)
    check(found.core)
    tried = [found.core.queue.find(f"default/a{number}").attempts for number in range(pods)]
    assert max(tried) <= AFTER_BACKOFFS + 1
    if point == "pre_bind" or pods > 1:
        assert min(tried) >= 4  # and yet it is tried again


@pytest.mark.parametrize("is_async", [True, False])
def test_a_preemptor_whose_victims_may_not_be_evicted_waits_out_its_backoff(is_async):
    found = cluster(node(cpu="1"), gates={"SchedulerAsyncPreemption": is_async})
    found.put(pod("victim", "1"))
    found.run()
    found.answers_evictions = False
    found.put(pod("high", "1").priority(10))
    for _ in range(120):
        for _ in range(50):
            found.step()
            for request in [r for r in found.requests if isinstance(r.effect, EvictPod)]:
                found.answer(request, "this pod stays")
        found.now += 0.25
    check(found.core)
    asked = [effect for effect in found.effects if isinstance(getattr(effect, "effect", None), EvictPod)]
    assert 3 <= len(asked) <= AFTER_BACKOFFS + 1


def test_a_pod_that_an_event_gave_a_new_chance_is_still_popped_before_its_time():
    picky = plugin("Picky", events=[POD_DELETED], filter=no)
    found = cluster(node(cpu="8"), config=document("Picky"), plugins={"Picky": picky})
    found.put(make_running("other"))
    found.put(pod("a"))
    found.run()
    assert found.core.queue.find("default/a").attempts == 1
    found.delete("Pod", "default/other")
    found.run()
    assert found.core.queue.find("default/a").attempts == 2
    assert found.now == 0.0


def make_running(name):
    return pod(name).node("n1")
