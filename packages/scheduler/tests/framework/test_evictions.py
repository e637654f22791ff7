"""Which preemptors wait for victims of theirs to be evicted.

Source: pkg/scheduler/framework/preemption/executor.go: the preemptor's uid is in `preempting` from before the first
call until after the last; and then, other than upstream, until the watch shows what was answered.
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


def test_a_preemptor_waits_until_it_is_known_what_became_of_its_last_victim():
    found, _ = evicting("v", "w")
    assert list(found.preemptors()) == ["preemptor"]
    assert found.is_under_way("preemptor")
    assert found.ended("preemptor", "default/v", is_refused=False) is None
    assert found.is_under_way("preemptor")
    assert found.ended("preemptor", "default/w", is_refused=False) is False
    assert not found.is_under_way("preemptor")
    assert len(found) == 0


def test_one_refusal_is_remembered_until_the_last_victim():
    found, _ = evicting("v", "w")
    assert found.ended("preemptor", "default/v", is_refused=True) is None
    assert found.ended("preemptor", "default/w", is_refused=False) is True
    found.begin("preemptor", [make_pod("x").info()])
    assert found.ended("preemptor", "default/x", is_refused=False) is False, "the next time counts by itself"


def test_victims_that_have_gone_or_are_going_are_not_waited_for():
    found, cache = evicting("v", "w")
    cache.remove_pod("default/v")
    assert found.is_under_way("preemptor")
    cache.add_pod(make_pod("w").node("n1").terminating().info())
    assert not found.is_under_way("preemptor")


def test_without_victims_nothing_is_under_way():
    found, _ = evicting()
    assert len(found) == 0
    assert not found.is_under_way("preemptor")


def test_a_victim_is_asked_to_go_until_nobody_asks_it_any_more():
    found, cache = evicting("v", "w")
    pods = [state.pod for state in cache.states().values()]
    found.begin("another", pods[:1])
    assert found.is_asked_to_go("default/v") and found.is_asked_to_go("default/w")
    found.spare("preemptor", pods)
    assert found.is_asked_to_go("default/v") and not found.is_asked_to_go("default/w")
    found.ended("another", "default/v", is_refused=False)
    assert not found.is_asked_to_go("default/v")
