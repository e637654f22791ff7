"""Two schedulers give the same room away: what this one finds out, and what it does about it."""

import msgspec
import pytest

from berth.core.builders import make_node, make_pod
from berth.core.intake import ObjectEvent
from berth.core.virtual_cluster import VirtualCluster
from berth.cycle.conflicts import CROWDED_OUT, MOST_RECENT, RECENT_S
from berth.cycle.instrument import Instrument
from berth.framework.effects import Bind, ReadPod, WaitUntil
from berth.framework.status import Code, Status
from berth.testing.invariants import check_cache
from packages.scheduler.tests.support import plugin, requests_of


class RecordingObserver(Instrument):
    def __init__(self):
        self.conflicts = []

    def conflicted(self, pod, how):
        self.conflicts.append((pod.name, how))


def waits_in_pre_bind(*_):
    yield WaitUntil(lambda: False, 600.0)


HOLDS = {"permit": lambda *_: (Status(Code.WAIT), 600.0), "pre_bind": waits_in_pre_bind}


def cluster(*points, cpu="4", pods="10"):
    told = RecordingObserver()
    methods = {point: HOLDS[point] for point in points}
    found = VirtualCluster(
        make_node("n1").capacity(cpu=cpu, memory="8Gi", pods=pods),
        plugins=[plugin("Holds", **methods)] if methods else [],
        instrument=told,
    )
    return found, told


def foreign(name, cpu="3"):
    return make_pod(name).scheduler("another").request(cpu=cpu).node("n1")


@pytest.mark.parametrize("point", HOLDS)
def test_a_pod_whose_binding_is_not_sent_yet_makes_way_for_one_that_is_there_and_is_tried_again(point):
    found, told = cluster(point)
    found.put(make_pod("mine").request(cpu="3"))
    found.run()
    assert found.core.cache.assumed_count == 1
    found.put(foreign("theirs"))
    found.run()
    assert told.conflicts == [("mine", "called_off")]
    assert found.core.cache.assumed_count == 0 and len(found.core.queue) == 1
    assert CROWDED_OUT in found.events("FailedScheduling")[0]
    found.put(make_node("n2").capacity(cpu="4", memory="8Gi", pods="10"))
    found.advance(30.0)
    state = found.core.cache.state_of("default/mine")
    assert found.core.cache.table.names[state.row] == "n2"
    check_cache(found.core.cache)


def test_the_youngest_makes_way_and_only_as_many_as_were_crowded_out():
    found, told = cluster("permit")
    for name in ("old", "young"):
        found.put(make_pod(name).request(cpu="2"))
        found.advance(1.0)
    found.put(foreign("theirs", cpu="1"))
    found.run()
    assert told.conflicts == [("young", "called_off")]
    assert found.core.cache.state_of("default/old").assumed


def test_too_many_pods_count_as_too_little_room():
    found, told = cluster("permit", pods="1")
    found.put(make_pod("mine"))
    found.run()
    found.put(make_pod("theirs").scheduler("another").node("n1"))
    found.run()
    assert told.conflicts == [("mine", "called_off")]


def test_room_for_both_is_no_conflict():
    found, told = cluster("permit")
    found.put(make_pod("mine").request(cpu="1"))
    found.run()
    found.put(foreign("theirs"))
    found.run()
    assert told.conflicts == [] and found.core.cache.assumed_count == 1


def test_a_node_that_was_over_its_size_before_is_meant_to_be():
    found, told = cluster("permit")
    found.put(make_pod("mine").request(cpu="1"))
    found.run()
    found.put(foreign("first", cpu="9"))
    found.run()
    told.conflicts.clear()
    found.put(foreign("second", cpu="1"))
    found.run()
    assert told.conflicts == []


def test_a_binding_that_is_on_its_way_is_not_called_off_and_the_conflict_is_counted():
    found, told = cluster()
    found.answers_binds = False
    found.put(make_pod("mine").request(cpu="3"))
    found.run()
    found.put(foreign("theirs"))
    found.run()
    assert told.conflicts == [("theirs", "node_over_size")]
    assert found.core.cache.assumed_count == 1 and len(requests_of(found, Bind)) == 1


def test_nodes_on_which_we_placed_nothing_are_no_business_of_ours():
    found, told = cluster("permit")
    found.put(make_node("n2").capacity(cpu="4", memory="8Gi", pods="10"))
    found.put(make_pod("mine").request(cpu="3"))
    found.run()
    (row,) = {state.row for state in found.core.cache.states().values()}
    other = {"n1": "n2", "n2": "n1"}[found.core.cache.table.names[row]]
    for name in ("one", "two"):
        found.put(make_pod(name).scheduler("another").request(cpu="3").node(other))
    found.run()
    assert told.conflicts == []


def vanish(found, name, reason, phase):
    """The pod ends, so the watch, which selects running ones, shows it no more; the API server still has it."""
    pod = found.pod(name)
    status = msgspec.structs.replace(pod.status, phase=phase, reason=reason)
    found.objects["Pod", f"default/{name}"] = msgspec.structs.replace(pod, status=status)
    found.handle(ObjectEvent("DELETED", "Pod", pod))
    found.run()


@pytest.mark.parametrize(
    ("reason", "phase", "conflicts"),
    [
        ("OutOfcpu", "Failed", [("mine", "refused_by_kubelet")]),
        ("OutOfpods", "Failed", [("mine", "refused_by_kubelet")]),
        ("Evicted", "Failed", []),
        ("", "Succeeded", []),
    ],
)
def test_a_pod_that_its_kubelet_refuses_is_counted(reason, phase, conflicts):
    found, told = cluster()
    found.put(make_pod("mine"))
    found.run()
    vanish(found, "mine", reason, phase)
    assert told.conflicts == conflicts


def test_pods_that_were_deleted_or_ran_for_long_are_not_read():
    found, _ = cluster()
    for name in ("deleted", "old"):
        found.put(make_pod(name))
    found.run()
    found.put(make_pod("deleted").node("n1").terminating())
    found.handle(ObjectEvent("DELETED", "Pod", found.pod("deleted")))
    found.advance(RECENT_S + 1.0)
    found.handle(ObjectEvent("DELETED", "Pod", found.pod("old")))
    found.put(foreign("theirs"))
    found.handle(ObjectEvent("DELETED", "Pod", found.pod("theirs")))
    assert requests_of(found, ReadPod) == []


def test_only_so_many_bindings_are_remembered():
    found, _ = cluster(cpu="100000", pods="100000")
    for number in range(MOST_RECENT + 50):
        found.core._binding._conflicts.bound(f"uid-{number}")
    assert len(found.core._binding._conflicts._recent) == MOST_RECENT
