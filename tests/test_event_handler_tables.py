"""Rows of upstream's `pkg/scheduler/eventhandlers_test.go`, v1.36, under their names."""

import pytest
from msgspec.structs import replace

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.effects import Bind
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint
from berth.framework.status import unschedulable
from berth.testing.invariants import check
from packages.scheduler.tests.support import cluster, document, plugin, requests_of

UID = "default/a"


def nodes():
    return [make_node(name).capacity(cpu="4", memory="8Gi", pods="10") for name in ("n1", "n2")]


def pending():
    return make_pod("a")


def foreign():
    return make_pod("a").scheduler("other-scheduler")


def at(found):
    """Whether the pod is queued, and the node it is counted on."""
    check(found.core)
    state = found.core.cache.state_of(UID)
    where = "" if state is None else found.core.cache.table.names[state.row]
    return found.core.queue.find(UID) is not None, where


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(pending(), (True, ""), id="add unscheduled pod"),
        pytest.param(foreign(), (False, ""), id="add unscheduled pod with other scheduler name"),
        pytest.param(pending().node("n1"), (False, "n1"), id="add scheduled pod"),
    ],
)
def test_add_pod(pod, expected):
    found = VirtualCluster(*nodes())
    found.put(pod)
    assert at(found) == expected


def assumed():
    """A cluster in which the pod is assumed on n1 or n2, and that node."""
    found = VirtualCluster(*nodes())
    found.answers_binds = False
    found.put(pending())
    found.run()
    ((_, where),) = [(bind.pod, bind.node_name) for bind in requests_of(found, Bind)]
    assert at(found) == (False, where)
    return found, where


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(pending, pending().label("foo", "bar"), (True, ""), id="update unscheduled pod"),
        pytest.param(
            foreign,
            foreign().label("foo", "bar"),
            (False, ""),
            id="update unscheduled pod with other scheduler name",
        ),
        pytest.param(
            lambda: pending().node("n1"),
            pending().node("n1").label("foo", "bar"),
            (False, "n1"),
            id="update scheduled pod",
        ),
        pytest.param(
            lambda: foreign().node("n1"),
            foreign().node("n1").label("foo", "bar"),
            (False, "n1"),
            id="update scheduled pod with other scheduler name",
        ),
        pytest.param(pending, pending().node("n1"), (False, "n1"), id="bind unscheduled pod"),
        pytest.param(foreign, foreign().node("n1"), (False, "n1"), id="bind unscheduled pod with other scheduler name"),
    ],
)
def test_update_pod(old, new, expected):
    found = VirtualCluster(*nodes())
    found.put(old())
    found.put(new)
    assert at(found) == expected
    queued, state = found.core.queue.find(UID), found.core.cache.state_of(UID)
    for holder in (queued, state):
        assert holder is None or dict(holder.pod.metadata.labels) == dict(new.build().metadata.labels)


@pytest.mark.parametrize("row", ["update", "bind", "bind to a different node", "delete with deletion timestamp"])
def test_update_pod_that_is_assumed(row):
    found, where = assumed()
    other = "n2" if where == "n1" else "n1"
    if row == "update":
        found.put(pending().label("foo", "bar"))
        assert at(found) == (False, where)
        assert found.core.cache.state_of(UID).assumed
    elif row == "bind":
        found.put(pending().node(where))
        assert at(found) == (False, where)
        assert not found.core.cache.state_of(UID).assumed
    elif row == "bind to a different node":
        found.put(pending().node(other))
        assert at(found) == (False, other)
    else:
        found.put(pending().terminating())
        assert at(found) == (False, "")


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(pending(), id="delete unscheduled pod"),
        pytest.param(foreign(), id="delete unscheduled pod with other scheduler name"),
        pytest.param(pending().node("n1"), id="delete scheduled pod"),
        pytest.param(foreign().node("n1"), id="delete scheduled pod with other scheduler name"),
    ],
)
def test_delete_pod(pod):
    found = VirtualCluster(*nodes())
    found.put(pod)
    found.delete("Pod", UID)
    assert at(found) == (False, "")


@pytest.mark.parametrize("begins", [True, False], ids=["unknown older state", "as it was"])
def test_delete_pod_that_is_bound_though_its_last_known_state_is_not(begins):
    """A missed deletion tells of the last state that a watch had seen, which may be older than the binding."""
    found = VirtualCluster(*nodes())
    found.put(pending().node("n1"))
    if begins:
        found.objects["Pod", UID] = pending().build()
    found.delete("Pod", UID)
    assert at(found) == (False, "")


def test_delete_assumed_pod():
    found, _ = assumed()
    found.delete("Pod", UID)
    assert at(found) == (False, "")


@pytest.mark.parametrize("uid", ["old-uid", "new-uid"], ids=["the same UID", "different UIDs"])
def test_update_assigned_pod_in_cache(uid):
    found = VirtualCluster(*nodes())
    found.put(make_pod("a").uid("old-uid").node("n1").label("port", "80"))
    found.put(make_pod("a").uid(uid).node("n1").label("port", "8080"))
    check(found.core)
    assert found.core.cache.state_of(uid).pod.metadata.labels == {"port": "8080"}
    assert (found.core.cache.state_of("old-uid") is None) == (uid == "new-uid")


@pytest.mark.parametrize(
    ("name", "node_name", "woken"),
    [
        pytest.param("middle", "n2", {"low", "peer", "middle"}, id="Update of a nominated node name"),
        pytest.param("middle", "", {"low", "peer", "middle"}, id="Removal of a nominated node name"),
        pytest.param("middle", None, {"low", "peer"}, id="Removal of a pod that had nominated node name"),
        pytest.param("high", "n2", set(), id="Addition of a nominated node name to the high priority pod"),
    ],
)
def test_event_handlers_move_to_active_on_nominated_node_update(name, node_name, woken):
    """Upstream leaves out pods of higher priority, as do the plugins' hints; what counts is who must be woken."""
    event = ClusterEventWithHint(ClusterEvent("Pod", Action.DELETE), after_any)
    no = plugin("No", filter=lambda *_: unschedulable("no"), events=[event])
    found = cluster(*nodes(), config=document("No"), plugins={"No": no})
    for each, priority in (("high", 100), ("middle", 50), ("peer", 50), ("low", 1)):
        found.put(make_pod(each).priority(priority, "Never"))
    found.advance(2.0)
    status = found.pod("middle").status
    found.put(replace(found.pod("middle"), status=replace(status, nominated_node_name="n1")))
    found.advance(100.0)
    assert found.core.nominator.node_of("default/middle") == "n1"
    queue = found.core.queue
    assert all(f"default/{each}" in queue.unschedulable for each in ("high", "peer", "low"))
    if node_name is None:
        found.delete("Pod", f"default/{name}")
    else:
        known = found.pod(name)
        found.put(replace(known, status=replace(known.status, nominated_node_name=node_name)))
    lie = {each for each in ("high", "middle", "peer", "low") if f"default/{each}" in queue.unschedulable}
    assert not lie & (woken - {"middle"})
    if not woken:
        assert {"peer", "low"} <= lie


def after_any(_pod, _old, _new):
    """A hint that is for being woken."""
    return QueueingHint.QUEUE
