"""The binding subresource: a pod is assigned once, and every attempt is on record."""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from packages.cluster.tests.objects import PODS, make_store, pod

TO_NODE_1 = {"target": {"kind": "Node", "name": "node-1"}}


def refuse(store, body, name="web"):
    with pytest.raises(StoreError) as caught:
        store.bind("default", name, body)
    return caught.value


def test_a_binding_puts_the_pod_on_its_node():
    store = make_store()
    made = store.create(PODS, "default", pod())
    store.bind("default", "web", {**TO_NODE_1, "metadata": {"annotations": {"by": "me"}}})
    bound = store.get(PODS, "default", "web")
    assert bound["spec"]["nodeName"] == "node-1"
    assert bound["metadata"]["annotations"] == {"by": "me"}
    (condition,) = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    (record,) = store.bindings
    assert (record.pod_uid, record.node, record.accepted) == (made["metadata"]["uid"], "node-1", True)
    assert str(record.resource_version) == bound["metadata"]["resourceVersion"]


def test_a_binding_ends_a_nomination_and_a_failed_condition():
    store = make_store()
    made = store.create(PODS, "default", pod())
    status = {
        **made["status"],
        "nominatedNodeName": "node-2",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    }
    store.update(PODS, "default", "web", {**made, "status": status}, "status")
    store.bind("default", "web", TO_NODE_1)
    after = store.get(PODS, "default", "web")["status"]
    assert "nominatedNodeName" not in after
    assert [(one["type"], one["status"]) for one in after["conditions"]] == [("PodScheduled", "True")]


def test_a_second_binding_is_refused_and_recorded():
    store = make_store()
    store.create(PODS, "default", pod())
    store.bind("default", "web", TO_NODE_1)
    error = refuse(store, {"target": {"name": "node-2"}})
    assert (error.status_code, error.reason) == (409, "Conflict")
    assert error.message == (
        'Operation cannot be fulfilled on pods/binding "web": pod web is already assigned to node "node-1"'
    )
    assert [(record.node, record.accepted) for record in store.bindings] == [("node-1", True), ("node-2", False)]
    assert store.get(PODS, "default", "web")["spec"]["nodeName"] == "node-1"


def test_a_pod_that_is_being_deleted_is_not_bound():
    store = make_store()
    held = pod()
    held["metadata"]["finalizers"] = ["example.com/hold"]
    store.create(PODS, "default", held)
    store.delete(PODS, "default", "web")
    error = refuse(store, TO_NODE_1)
    assert error.status_code == 409
    assert error.message.endswith("pod web is being deleted, cannot be assigned to a host")


def test_a_gated_pod_is_not_bound():
    store = make_store()
    store.create(PODS, "default", pod(schedulingGates=[{"name": "example.com/wait"}]))
    assert refuse(store, TO_NODE_1).message.endswith("pod web has non-empty .spec.schedulingGates")


def test_a_binding_for_an_earlier_pod_of_the_same_name_is_refused():
    store = make_store()
    store.create(PODS, "default", pod())
    error = refuse(store, {**TO_NODE_1, "metadata": {"uid": "of-the-one-before"}})
    assert (error.status_code, error.reason) == (409, "Conflict")
    assert "UID in precondition: of-the-one-before" in error.message


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({}, "target.name: Required value"),
        ({"target": {"kind": "Rack", "name": "r"}}, 'target.kind: Unsupported value: "Rack"'),
    ],
)
def test_a_binding_needs_a_node(body, why):
    store = make_store()
    store.create(PODS, "default", pod())
    error = refuse(store, body)
    assert error.status_code == 500 and why in error.message  # as upstream


def test_binding_a_pod_that_is_not_there():
    store = make_store()
    error = refuse(store, TO_NODE_1, "ghost")
    assert (error.status_code, error.message) == (404, 'pods "ghost" not found')
    assert [record.accepted for record in store.bindings] == [False]


def test_the_node_of_a_pod_cannot_be_changed_by_an_update():
    store = make_store()
    store.create(PODS, "default", pod())
    store.bind("default", "web", TO_NODE_1)
    moved = store.get(PODS, "default", "web")
    with pytest.raises(StoreError, match="pod updates may not change fields other than"):
        store.update(PODS, "default", "web", {**moved, "spec": {**moved["spec"], "nodeName": "node-2"}})


def test_a_refused_binding_is_on_record_for_the_pod_it_named():
    """Another pod of that name may have come meanwhile, and be bound elsewhere."""
    store = make_store()
    store.create(PODS, "default", pod())
    refuse(store, {**TO_NODE_1, "metadata": {"uid": "the one before"}})
    assert [(record.pod_uid, record.accepted) for record in store.bindings] == [("the one before", False)]
