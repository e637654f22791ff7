"""Who an object event concerns: cache, queue, store."""

import pytest

from berth.core.builders import make_namespace, make_node, make_pod, make_service
from berth.core.intake import ShardsHeld
from berth.core.virtual_cluster import VirtualCluster
from berth.state.shards import shard_of
from berth.testing.invariants import check

UID = "default/a"
STATES = {
    "pending": lambda: make_pod("a"),
    "bound": lambda: make_pod("a").node("n1"),
    "terminating": lambda: make_pod("a").terminating(),
    "bound, terminating": lambda: make_pod("a").node("n1").terminating(),
    "finished": lambda: make_pod("a").node("n1").phase("Succeeded"),
    "another's": lambda: make_pod("a").scheduler("other"),
    "another's, bound": lambda: make_pod("a").scheduler("other").node("n1"),
}
QUEUED = {"pending", "terminating"}  # who is being deleted is told so when popped
COUNTED = {"bound", "bound, terminating", "another's, bound"}


def is_at(found):
    check(found.core)
    return found.core.queue.find(UID) is not None, found.core.cache.state_of(UID) is not None


@pytest.mark.parametrize("first", STATES)
@pytest.mark.parametrize(
    "then", [None, "bound", "terminating", "bound, terminating", "finished"], ids=lambda then: str(then)
)
def test_where_a_pod_goes_from_state_to_state(first, then):
    found = VirtualCluster(make_node("n1").capacity(cpu="1"))
    found.put(STATES[first]())
    assert is_at(found) == (first in QUEUED, first in COUNTED)
    if then == "terminating" and "bound" in first:
        then = "bound, terminating"  # nobody is ever unbound
    if then is not None:
        found.put(STATES[then]())
        stays = first in ("pending", "terminating") or then != "terminating" or first == "finished"
        assert is_at(found) == (then in QUEUED and stays, then in COUNTED)
    found.delete("Pod", UID)
    assert is_at(found) == (False, False)


def test_a_deletion_nobody_knew_of_is_nothing():
    found = VirtualCluster()
    from berth.core.intake import ObjectEvent

    for obj in (make_pod("a").build(), make_node("n").build(), make_service("s", {})):
        found.handle(ObjectEvent("DELETED", type(obj).__name__, obj))
    check(found.core)
    assert found.core.objects.version("Service") == 0


def test_the_latest_object_is_that_of_the_pod_that_is_meant():
    found = VirtualCluster()
    old = make_pod("a").info()
    found.put(make_pod("a"))
    assert found.core.intake.latest(old) is not None
    found.put(make_pod("a").uid("second"))
    assert found.core.intake.latest(old) is None
    found.put(make_pod("a").uid("second").terminating())
    assert found.core.intake.latest(make_pod("a").uid("second").info()) is None


def test_a_pod_that_is_being_deleted_when_it_is_first_seen_keeps_no_room():
    found = VirtualCluster(make_node("n1").capacity(cpu="1"), make_pod("a").nominated("n1").terminating())
    assert found.core.nominator.node_of(UID) is None
    found.put(make_pod("b").nominated("n1"))
    assert found.core.nominator.node_of("default/b") == "n1"


def test_other_objects_are_stored_and_counted_by_kind():
    found = VirtualCluster()
    objects = found.core.objects
    for selector in ({"app": "web"}, {"app": "db"}):
        found.put(make_service("s", selector))
    assert (objects.version("Service"), objects.version("Namespace")) == (2, 0)
    assert objects.get("Service", "s", "default").spec.selector == {"app": "db"}
    assert [service.metadata.name for service in objects.list("Service", "default")] == ["s"]
    assert list(objects.list("Service", "other")) == []
    found.delete("Service", "default/s")
    assert (objects.version("Service"), objects.get("Service", "s", "default")) == (3, None)


def test_namespaces_labels_reach_the_index():
    found = VirtualCluster(make_namespace("prod", {"env": "prod"}))
    assert found.core.cache.index.namespace_labels("prod") == {"env": "prod"}
    found.delete("Namespace", "prod")
    assert found.core.cache.index.namespace_labels("prod") == {}


def test_a_node_that_goes_before_its_pods_and_comes_back_leaves_each_row_to_one_node():
    """As the API server tells it: pods outlive their node, change, come in again after a relist, and go later."""
    found = VirtualCluster(make_node("n1").capacity(cpu="4"), make_node("n2").capacity(cpu="4"))
    found.answers_binds = False
    found.put(make_pod("a").node("n1").request(cpu="1"))
    found.put(make_pod("b").request(cpu="1").node_selector({"kubernetes.io/hostname": "n1"}))
    found.run()  # b is assumed on n1, and its binding is not answered yet
    table = found.core.cache.table
    found.delete("Node", "n1")
    check(found.core)
    found.put(make_pod("a").node("n1").request(cpu="1").label("changed", "yes"))  # counted anew on the gone node
    check(found.core)
    found.put(make_node("n3").capacity(cpu="4"))
    found.delete("Pod", UID)
    check(found.core)
    found.answer(found.requests[0], error='nodes "n1" not found')
    check(found.core)
    assert "n1" not in table.row_of
    found.put(make_pod("a").node("n1").request(cpu="1"))
    found.put(make_node("n1").capacity(cpu="4"))
    check(found.core)
    assert len(set(table.row_of.values())) == len(table.row_of) == 3
    assert table.requested[0, table.row_of["n1"]] == 1000


def test_a_shard_that_goes_calls_off_the_bindings_of_its_pods_alone():
    """What waits in the queue leaves it, and what runs stays; only a pod that is assumed has a binding to call off."""
    found = VirtualCluster(make_node("n1").capacity(cpu="1"), shards=2)
    held = frozenset({0, 1})
    found.handle(ShardsHeld(held))
    found.put(make_pod("runs").node("n1"))
    found.answers_binds = False
    found.put(make_pod("assumed").request(cpu="1"))
    found.run()
    found.put(make_pod("waits").request(cpu="1"))
    ours = frozenset({shard_of("default", 2)})
    assert found.core.intake.hold(held - ours, found.now) == ["default/assumed"]
    assert len(found.core.queue) == 0
    assert found.core.intake.hold(held, found.now) == []
    assert [queued.pod.name for queued in found.core.queue] == ["waits"], "the earlier binding is not over yet"
