"""Which preemptors wait for victims of theirs to be evicted.

Source: pkg/scheduler/framework/preemption/executor.go: the preemptor's uid is in `preempting` from before the first
call until after the last.
"""

from berth.core.builders import make_node, make_pod
from berth.framework.evictions import Evictions
from berth.state.cache import Cache


def evicting(*victims):
    """The evictions of a preemptor whose victims have just been asked to go, and the cache that they run in."""
    cache = Cache()
    cache.put_node(make_node("n1").capacity(cpu="4").build())
    pods = [make_pod(name).node("n1").info() for name in victims]
    for pod in pods:
        cache.add_pod(pod)
    found = Evictions(cache)
    found.begin("preemptor", pods)
    return found, cache


def test_a_preemptor_waits_until_the_last_victim_is_answered_for():
    found, _ = evicting("v", "w")
    assert list(found.preemptors()) == ["preemptor"]
    assert found.is_under_way("preemptor")
    assert found.answered("preemptor", "default/v", is_refused=False) is None
    assert found.is_under_way("preemptor")
    assert found.answered("preemptor", "default/w", is_refused=False) is False
    assert not found.is_under_way("preemptor")
    assert len(found) == 0


def test_one_refusal_is_remembered_until_the_last_answer():
    found, _ = evicting("v", "w")
    assert found.answered("preemptor", "default/v", is_refused=True) is None
    assert found.answered("preemptor", "default/w", is_refused=False) is True
    found.begin("preemptor", [make_pod("x").info()])
    assert found.answered("preemptor", "default/x", is_refused=False) is False, "the next time counts by itself"


def test_victims_that_have_gone_or_are_going_need_no_answer():
    found, cache = evicting("v", "w")
    cache.remove_pod("default/v")
    assert found.is_under_way("preemptor")
    cache.add_pod(make_pod("w").node("n1").terminating().info())
    assert not found.is_under_way("preemptor")


def test_without_victims_nothing_is_under_way():
    found, _ = evicting()
    assert len(found) == 0
    assert not found.is_under_way("preemptor")
