"""A pod that was bound, by its Binding's answer, and that no watch confirms: the API server is asked where it is."""

from itertools import pairwise

import msgspec
import pytest

from berth.core.builders import make_node, make_pod
from berth.core.intake import ObjectEvent
from berth.core.virtual_cluster import VirtualCluster
from berth.cycle.confirmation import LONGEST_PAUSE_S, READ_SPACING_S, READS_AT_ONCE
from berth.framework.effects import Bind, PodRead, ReadPod
from packages.scheduler.tests.support import requests_of

WAIT_S = 30.0
"""How long v1.20's cache waited for the watch (pkg/scheduler/scheduler.go, release-1.20), which is kept here."""


def cluster(*pods, cpu="4", **options):
    """Pods on one node, bound at once; the watch shows none of it."""
    found = VirtualCluster(make_node("n1").capacity(cpu=cpu, memory="8Gi", pods="200"), **options)
    found.confirms_binds = False
    for pod in pods:
        found.put(pod)
    return found.run()


def state_of(found, name="a"):
    return found.core.cache.state_of(f"default/{name}")


def unbind(found, name="a"):
    """Make it so that the Binding was never carried out, whatever its answer was."""
    pod = found.pod(name)
    found.objects["Pod", f"default/{name}"] = msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, node_name="")
    )


def test_a_pod_that_the_watch_confirms_is_not_read():
    found = cluster(make_pod("a"))
    found.put(found.pod("a"))
    found.advance(10 * WAIT_S)
    assert requests_of(found, ReadPod) == [] and not state_of(found).assumed


def test_a_bound_pod_that_the_watch_does_not_show_is_taken_in_as_if_it_had():
    found = cluster(make_pod("a"))
    found.advance(WAIT_S - 0.01)
    assert requests_of(found, ReadPod) == [] and state_of(found).assumed
    found.advance(0.01)
    assert len(requests_of(found, ReadPod)) == 1 and not state_of(found).assumed
    found.advance(10 * WAIT_S)
    assert len(requests_of(found, ReadPod)) == 1


def test_a_pod_that_was_never_bound_gives_its_room_back_and_is_tried_again():
    found = cluster(make_pod("a").request(cpu="4"))
    unbind(found)
    found.put(make_pod("b").request(cpu="4"))
    found.advance(WAIT_S + 15.0)
    assert len(requests_of(found, Bind)) == 2
    assert any("success, but the pod is on no node" in note for note in found.events("FailedScheduling"))
    assert sorted(found.nodes_of().values()) == ["", "n1"]


def test_a_pod_that_is_gone_gives_its_room_back():
    found = cluster(make_pod("a").request(cpu="4"))
    del found.objects["Pod", "default/a"]
    found.put(make_pod("b").request(cpu="4"))
    found.advance(WAIT_S + 15.0)
    assert state_of(found) is None and found.nodes_of() == {"b": "n1"}


def test_what_a_late_watch_shows_of_a_pod_that_was_found_gone_is_left_aside():
    found = cluster(make_pod("a").request(cpu="4"))
    late = [found.pod("a"), make_pod("a").request(cpu="4").node("n1").terminating().build()]
    del found.objects["Pod", "default/a"]
    found.advance(WAIT_S)
    for pod in late:
        found.handle(ObjectEvent("MODIFIED", "Pod", pod))
        assert state_of(found) is None and found.core.intake.pod("default/a") is None
    found.handle(ObjectEvent("DELETED", "Pod", late[-1]))
    found.put(make_pod("a").request(cpu="4").node("n1"))
    assert state_of(found) is not None, "nothing of it is remembered any more"


def test_a_pod_of_the_same_name_that_came_after_it_is_not_taken_for_it():
    found = cluster(make_pod("a").request(cpu="4"))
    found.objects["Pod", "default/a"] = make_pod("a").uid("another").request(cpu="1").build()
    found.advance(WAIT_S + 1.0)
    assert state_of(found) is None


def test_a_pod_that_is_on_another_node_is_counted_there():
    found = cluster(make_pod("a"))
    found.put(make_node("n2"))
    pod = found.pod("a")
    found.objects["Pod", "default/a"] = msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, node_name="n2")
    )
    found.advance(WAIT_S)
    state = state_of(found)
    assert found.core.cache.table.names[state.row] == "n2" and not state.assumed


def test_what_the_watch_says_while_the_pod_is_read_counts():
    found = cluster(make_pod("a"))
    found.answers_reads = False
    found.advance(WAIT_S)
    (request,) = [request for request in found.requests if isinstance(request.effect, ReadPod)]
    found.put(found.pod("a"))
    found.answer(request, result=PodRead(is_gone=True))
    assert not state_of(found).assumed


@pytest.mark.parametrize("error", ["connection refused", ""])
def test_reads_that_fail_are_made_ever_more_rarely(error):
    found = cluster(make_pod("a"), make_pod("b"))
    found.answers_reads = False
    read_at = []
    while len(read_at) < 12:
        found.advance(0.5)
        for request in [request for request in found.requests if isinstance(request.effect, ReadPod)]:
            read_at.append(found.now)
            found.answer(request, error=error, result=None if error else PodRead(node_name="n1"))
    pauses = [later - earlier for earlier, later in pairwise(read_at)]
    assert pauses[-1] >= LONGEST_PAUSE_S and state_of(found).assumed


def test_few_are_read_at_once_and_not_many_a_second():
    found = cluster(*(make_pod(f"p{number}").request(cpu="1m") for number in range(100)))
    found.answers_reads = False
    found.advance(WAIT_S + 10.0)
    waiting = [request for request in found.requests if isinstance(request.effect, ReadPod)]
    assert len(waiting) == READS_AT_ONCE
    found.answers_reads = True
    for request in waiting:
        found.answer(request, result=found.read(request.effect))
    found.advance(1.0)
    assert len(requests_of(found, ReadPod)) - READS_AT_ONCE <= 1.0 / READ_SPACING_S + 1
    found.advance(10.0)
    assert found.core.cache.assumed_count == 0


def test_v1_20_reads_nothing_and_lets_pods_expire():
    found = cluster(make_pod("a"), generation="v1.20")
    found.advance(WAIT_S + 2.0)
    assert requests_of(found, ReadPod) == [] and state_of(found) is None


def test_what_undoing_takes_is_not_kept_once_the_pod_is_confirmed():
    found = cluster(make_pod("a"))
    assert state_of(found).bound is not None
    found.put(found.pod("a"))
    assert state_of(found).bound is None
