"""The harness itself: time, answers, and that its checks find what they are for."""

import pytest
from msgspec.structs import asdict

from berth.core.builders import make_node, make_pod
from berth.core.generation import GENERATIONS
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.effects import PodRead, PodRef, ReadPod
from berth.testing.invariants import check


def cluster():
    return VirtualCluster(
        make_node("n1").capacity(cpu="1"), make_pod("a").request(cpu="1"), make_pod("b").request(cpu="1")
    )


def test_time_passes_deadline_by_deadline():
    found = cluster()
    found.refuse("no", "no", "no")
    found.advance(100.0)
    assert found.now == 100.0
    assert sorted(found.nodes_of().values()) == ["", "n1"]


def test_a_second_binding_of_a_pod_is_noticed():
    found = cluster()
    found.answers_binds = False
    found.run()
    (request,) = found.requests
    found.put(make_pod("a").request(cpu="1").node("n1"))
    with pytest.raises(AssertionError, match="bound a second time"):
        found.answer(request)


def test_a_pod_that_is_asked_for_is_found_or_gone():
    """By name and uid, as whoever has lost sight of a binding asks the API server."""
    found = cluster().run()
    bound, other = make_pod("a").info(), make_pod("a").uid("another").info()
    assert found.read(ReadPod(PodRef.of(bound))).node_name == "n1"
    for pod in (other, make_pod("unknown").info()):
        assert found.read(ReadPod(PodRef.of(pod))) == PodRead(is_gone=True)


def _miscount(core):
    core.cache.table.requested[0, 0] += 1


def _lose_a_pod(core):
    core.queue.delete("default/b")


def _queue_twice(core):
    core.queue.backoff.push(core.queue.find("default/b"))


def _hide_a_node(core):
    core.cache.table.valid[core.cache.table.row_of["n1"]] = False


def _promise_one_way(core):
    core.nominator._node_of["default/b"] = "n1"


def _keep_events(core):
    core.queue.in_flight._events.append(None)


def _uncount_a_pod(core):
    core.cache.remove_pod("default/a")


BREAKAGES = (_miscount, _lose_a_pod, _queue_twice, _hide_a_node, _promise_one_way, _keep_events, _uncount_a_pod)


@pytest.mark.parametrize("break_it", BREAKAGES, ids=lambda breakage: breakage.__name__.strip("_"))
def test_whatever_is_wrong_is_found(break_it):
    found = cluster().run()
    check(found.core)
    break_it(found.core)
    with pytest.raises(AssertionError):
        check(found.core)


@pytest.mark.parametrize("generation", list(GENERATIONS))
def test_a_generation_brings_all_its_policies(generation):
    """All but the plugins, which are those of the configuration: here of v1.36."""
    found = VirtualCluster(generation=generation)
    given, wanted = asdict(found.core.generation), asdict(GENERATIONS[generation])
    assert given.pop("registry") is GENERATIONS["v1.36"].registry
    assert wanted.pop("registry")
    assert given == wanted
    assert found.core.search.policy == GENERATIONS[generation].cycle
