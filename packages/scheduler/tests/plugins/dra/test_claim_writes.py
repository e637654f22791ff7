"""PreBind: what is written about claims, and waiting for devices.

Expectations: bindClaim, createExtendedResourceClaimInAPI and PreBind of the upstream plugin (v1.36), KEP-5007 for
binding conditions, KEP-5004 for extended resources.
"""

import msgspec
import pytest

from berth.api.codec import decode
from berth.core.builders import make_node, make_pod
from berth.cycle.dispatcher import Interruption
from berth.framework.effects import Answer, ApiCall, WaitUntil
from berth.framework.observations import DevicesAwaited
from berth.framework.status import error
from berth.plugins.dra.readiness import drivers_to_await
from packages.scheduler.tests.plugins.dra.support import (
    World,
    allocation,
    answered,
    claim,
    device,
    device_class,
    pod_with,
    resource_slice,
)

FINALIZER = "resource.kubernetes.io/delete-protection"
CONSUMER = {"resource": "pods", "name": "p", "uid": "uid-p"}
CONFLICT = "the object has been modified (Conflict, HTTP 409)"
NODE_A = {
    "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}],
}


TWO = (device("d0"), device("d1"))


def world(*objects, devices=TWO, wall=1700000000.0, **options):
    gpu = device_class(config=[{"opaque": {"driver": "gpu.example.com", "parameters": {"x": 1}}}])
    return World(gpu, resource_slice("s", *devices), *objects, wall=wall, **options)


def stored(number, **fields):
    """The claim as the API server answers a write."""
    return plain_claim(**fields, resourceVersion=str(number))


def plain_claim(status=None, name="c", uid="uid-c", **metadata):
    meta = {"name": name, "namespace": "default", "uid": uid, **metadata}
    spec = {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": "gpu"}}]}}
    return {"metadata": meta, "spec": spec, "status": status or {}}


def accepted(number=9, **metadata):
    """Answers a status patch with the claim it leads to."""

    def answer(call):
        status = {key: value for key, value in call.body["status"].items() if value is not None}
        return stored(number, status=status, finalizers=[FINALIZER], **metadata)

    return answer


def bind(w, pod, *answers):
    return answered(w.plugin.pre_bind(w.state, pod, "a"), *answers)


def test_allocation_and_reservation_are_written_after_the_finalizer():
    w = world(claim("c", resourceVersion="5"))
    pod = pod_with("c")
    w.take(pod)
    assert w.plugin.pre_bind_pre_flight(w.state, pod, "a").allow_parallel
    (first, second), status = bind(w, pod, stored(6, finalizers=[FINALIZER]), accepted())
    assert status is None
    held = {"uid": "uid-c", "resourceVersion": "5"}
    assert first == ApiCall("patch", "ResourceClaim", "default", "c", {"metadata": {**held, "finalizers": [FINALIZER]}})
    assert (second.verb, second.subresource) == ("patch", "status")
    assert second.body["metadata"] == {**held, "resourceVersion": "6"}
    assert second.body["status"] == {
        "reservedFor": [CONSUMER],
        "allocation": {
            "devices": {
                "results": [{"request": "r0", "driver": "gpu.example.com", "pool": "a", "device": "d0"}],
                "config": [{"source": "FromClass", "opaque": {"driver": "gpu.example.com", "parameters": {"x": 1}}}],
            },
            "nodeSelector": NODE_A,
            "allocationTimestamp": "2023-11-14T22:13:20Z",
        },
    }


def test_what_was_written_is_counted_on_at_once():
    w = world(claim("c", resourceVersion="5"))
    w.take(pod_with("c"))
    bind(w, pod_with("c"), stored(6, finalizers=[FINALIZER]), accepted())
    assert w.messages(pod_with("c", name="q")) == {"a": None}  # allocated, no longer being allocated
    w.plugin.unreserve(w.state, pod_with("c"), "a")
    assert w.plugin.pre_filter(w.state, pod_with("c", name="q")) is None
    assert not list(w.state.read("DynamicResources").to_allocate())


def test_an_allocated_claim_is_only_reserved():
    status = {"allocation": allocation("d0", node="a"), "reservedFor": [{**CONSUMER, "name": "q", "uid": "uid-q"}]}
    w = world(claim("c", status=status, resourceVersion="5"))
    pod = pod_with("c")
    assert w.messages(pod) == {"a": None}
    (call,), said = bind(w, pod, accepted())
    assert said is None
    assert call.body["status"]["reservedFor"] == [{**CONSUMER, "name": "q", "uid": "uid-q"}, CONSUMER]


def test_a_claim_that_is_reserved_already_is_left_alone():
    status = {"allocation": allocation("d0", node="a"), "reservedFor": [CONSUMER]}
    w = world(claim("c", status=status))
    w.look(pod_with("c"))
    assert bind(w, pod_with("c")) == ([], None)


def test_a_newer_claim_is_read_and_written_again():
    w = world(claim("c", resourceVersion="5", finalizers=[FINALIZER]))
    pod = pod_with("c")
    w.take(pod)
    calls, status = bind(w, pod, CONFLICT, stored(7, finalizers=[FINALIZER, "other"]), accepted())
    assert status is None
    assert [(call.verb, call.subresource) for call in calls] == [("patch", "status"), ("get", ""), ("patch", "status")]
    assert calls[2].body["metadata"]["resourceVersion"] == "7"


@pytest.mark.parametrize(
    ("latest", "said"),
    [
        (stored(7, deletionTimestamp="2026-01-01T00:00:00Z"), "claim default/c got deleted in the meantime"),
        (stored(7, status={"allocation": allocation("d1")}), "claim default/c got allocated elsewhere in the meantime"),
        ("gone (NotFound, HTTP 404)", "get updated claim default/c after conflict: gone (NotFound, HTTP 404)"),
    ],
)
def test_what_a_newer_claim_may_say(latest, said):
    w = world(claim("c", resourceVersion="5", finalizers=[FINALIZER]))
    w.take(pod_with("c"))
    assert bind(w, pod_with("c"), CONFLICT, latest)[1] == error(said)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (["no"], "add finalizer to claim default/c: no"),
        ([stored(6, finalizers=[FINALIZER]), "no"], "add allocation and reservation to claim default/c: no"),
    ],
)
def test_writes_that_are_refused(answers, said):
    w = world(claim("c", resourceVersion="5"))
    pod = pod_with("c")
    w.take(pod)
    assert bind(w, pod, *answers)[1] == error(said)
    w.plugin.unreserve(w.state, pod, "a")
    assert w.messages(pod_with("c", name="q")) == {"a": None}


def test_a_claim_that_lost_its_allocation_meanwhile():
    w = world(claim("c", status={"allocation": allocation("d0", node="a")}, resourceVersion="5"))
    w.look(pod_with("c"))
    _, said = bind(w, pod_with("c"), CONFLICT, stored(7))
    assert said == error("claim default/c got deallocated elsewhere in the meantime")


def test_reservations_are_taken_back_where_a_later_claim_fails():
    first = claim("c", status={"allocation": allocation("d0", node="a")}, resourceVersion="5")
    w = world(first, claim("c2", resourceVersion="6"))
    pod = pod_with("c", "c2")
    w.take(pod)
    calls, said = bind(w, pod, accepted(), "no", {})
    assert said == error("add finalizer to claim default/c2: no")
    assert calls[-1].name == "c"
    assert calls[-1].body["status"] == {"reservedFor": []}


CONDITIONS = {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Failed"]}


def waiting(*told):
    """A pod whose device must be made ready: the world, the steps, what is waited for, and the claim."""
    w = world(claim("c", resourceVersion="5", finalizers=[FINALIZER]), devices=[device("d0", **CONDITIONS)])
    pod = pod_with("c")
    w.take(pod)
    w.plugin._handle.tell = told[0] if told else w.plugin._handle.tell
    steps = w.plugin.pre_bind(w.state, pod, "a")
    call = steps.send(None)
    document = accepted()(call)
    assert document["status"]["allocation"]["devices"]["results"][0]["bindingConditions"] == ["Ready"]
    wait = steps.send(gave(document))
    assert isinstance(wait, WaitUntil)
    return w, steps, wait, document


def gave(document):
    return Answer(0, result=document)


def report(w, document, number, **conditions):
    told = [{"type": key, "status": value, "reason": "Why", "message": "so"} for key, value in conditions.items()]
    devices = [{"driver": "gpu.example.com", "pool": "a", "device": "d0", "conditions": told}]
    meta = {**document["metadata"], "resourceVersion": str(number)}
    w.put(decode("ResourceClaim", {**document, "metadata": meta, "status": {**document["status"], "devices": devices}}))


def ended(steps, value):
    with pytest.raises(StopIteration) as done:
        steps.send(value)
    return done.value.value


def test_the_pod_waits_until_its_devices_are_ready():
    w, steps, wait, document = waiting()
    assert wait.deadline == 600.0
    assert not wait.predicate()
    report(w, document, 10, Ready="False")
    assert not wait.predicate()
    report(w, document, 11, Ready="True")
    assert wait.predicate()
    assert ended(steps, True) is None


def test_people_are_told_that_the_pod_waits():
    told = []
    waiting(told.append)
    (event,) = told
    assert (event.pod.name, event.type, event.reason, event.action) == (
        "p", "Normal", "BindingConditionsPending", "Scheduling",
    )  # fmt: skip
    assert event.note == "waiting for binding conditions for device on node a"


def observed(end):
    """What observers hear of a wait that this ends after 7 s; the steps go on until they are over."""
    w, steps, wait, document = waiting()
    heard = []
    w.plugin._handle.observe = heard.append
    w.now = 7.0
    end(w, document)
    answer = wait.predicate()
    try:
        while True:
            steps.send(answer)
            answer = gave({})
    except StopIteration:
        return heard


def test_observers_hear_how_a_wait_ended_and_how_long_it_took():
    """KEP-5007, Monitoring: success, failure and timeout; kubernetes/kubernetes#137284: anything else is an error."""
    ends = {
        "success": lambda w, document: report(w, document, 10, Ready="True"),
        "failure": lambda w, document: report(w, document, 10, Failed="True"),
        "timeout": lambda w, document: report(w, document, 10, Ready="False"),
        "error": lambda w, document: w.objects.remove("ResourceClaim", decode("ResourceClaim", document)),
    }
    for status, end in ends.items():
        assert observed(end) == [DevicesAwaited("default-scheduler", ("gpu.example.com",), status, 7.0)]


def test_a_wait_that_is_called_off_counts_as_an_error():
    w, steps, _, _ = waiting()
    heard = []
    w.plugin._handle.observe = heard.append
    with pytest.raises(Interruption):
        steps.throw(Interruption("the pod is gone"))
    assert heard == [DevicesAwaited("default-scheduler", ("gpu.example.com",), "error", 0.0)]


def test_drivers_count_once_and_only_those_that_have_something_to_make_ready():
    ready = {"bindingConditions": ["Ready"]}
    results = [
        {"request": "r0", "driver": driver, "pool": "a", "device": name, **conditions}
        for driver, name, conditions in [("x", "d0", ready), ("y", "d0", {}), ("x", "d1", ready), ("z", "d0", ready)]
    ]
    status = {"allocation": {"devices": {"results": results}}}
    assert drivers_to_await([claim("free"), claim("c", status=status), claim("d", status=status)]) == ("x", "z")


def test_nobody_waits_where_devices_have_no_status():
    """Without status.devices (DRAResourceClaimDeviceStatus) nobody could say that a device is ready."""
    need_it = ("DRADeviceBindingConditions", "DRAResourceClaimGranularStatusAuthorization")
    gates = {"DRAResourceClaimDeviceStatus": False, **dict.fromkeys(need_it, False)}
    w = world(claim("c", finalizers=[FINALIZER]), gates=gates)
    pod = pod_with("c")
    w.take(pod)
    (call,), said = bind(w, pod, accepted())
    assert said is None
    assert "allocationTimestamp" not in call.body["status"]["allocation"]


def test_a_device_that_fails_ends_the_wait():
    w, steps, wait, document = waiting()
    report(w, document, 10, Failed="True")
    assert wait.predicate()
    assert steps.send(True).body["status"] == {"reservedFor": []}
    said = ended(steps, gave({}))
    assert said == error('device binding failed: claim=c, reason=Why, message="so"')


def test_devices_that_take_too_long():
    _, steps, _, _ = waiting()
    steps.send(False)
    assert ended(steps, gave({})) == error("device binding timeout")


def test_nobody_waits_where_the_feature_is_off():
    w = world(claim("c", finalizers=[FINALIZER]), gates={"DRADeviceBindingConditions": False})
    pod = pod_with("c")
    w.take(pod)
    (call,), said = bind(w, pod, accepted())
    assert said is None
    assert "allocationTimestamp" not in call.body["status"]["allocation"]


def extended():
    gpu = device_class(extendedResourceName="example.com/gpu")
    w = World(gpu, resource_slice("s", device("d0"), device("d1")), wall=1700000000.0)
    pod = make_pod("p").uid("uid-p").request(**{"example.com/gpu": "1"}).info()
    w.take(pod)
    return w, pod


CREATED = {"name": "p-extended-resources-x", "uid": "uid-made"}


def test_the_claim_for_extended_resources_is_made_allocated_and_told_to_the_pod():
    w, pod = extended()
    calls, said = bind(
        w, pod, stored(3, **CREATED), stored(4, finalizers=[FINALIZER], **CREATED), accepted(5, **CREATED), {}
    )
    assert said is None
    create, _, status, told = calls
    assert (create.verb, create.kind, create.namespace, create.name) == ("create", "ResourceClaim", "default", "")
    assert create.body["metadata"] == {
        "generateName": "p-extended-resources-",
        "namespace": "default",
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}],
    }
    (asked,) = create.body["spec"]["devices"]["requests"]
    assert (asked["name"], asked["exactly"]["deviceClassName"], asked["exactly"]["count"]) == (
        "container-0-request-0", "gpu", 1,
    )  # fmt: skip
    assert status.name == "p-extended-resources-x"
    assert status.body["status"]["allocation"]["devices"]["results"][0]["device"] == "d0"
    assert (told.kind, told.name, told.subresource) == ("Pod", "p", "status")
    (container,) = pod.spec.containers
    assert told.body["status"]["extendedResourceClaimStatus"] == {
        "requestMappings": [
            {"containerName": container.name, "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}
        ],
        "resourceClaimName": "p-extended-resources-x",
    }
    assert w.messages(make_pod("q").request(**{"example.com/gpu": "2"}).info()) == {"a": "cannot allocate all claims"}


def test_a_claim_that_was_made_is_deleted_where_it_cannot_be_allocated():
    w, pod = extended()
    calls, said = bind(w, pod, stored(3, **CREATED), "no", {}, {})
    assert said == error("add finalizer to claim default/p-extended-resources-x: no")
    assert [call.verb for call in calls] == ["create", "patch", "patch", "delete"]
    w.plugin.unreserve(w.state, pod, "a")
    assert w.messages(make_pod("q").request(**{"example.com/gpu": "2"}).info()) == {"a": None}


def test_a_claim_that_cannot_be_made():
    w, pod = extended()
    assert bind(w, pod, "no")[1] == error("create claim for extended resources default/: no")


def test_nothing_is_written_where_the_node_has_the_resource_itself():
    gpu = device_class(extendedResourceName="example.com/gpu")
    node = make_node("a").capacity(cpu="8", pods=110, **{"example.com/gpu": "4"}).build()
    w = World(gpu, nodes=(node,))
    pod = make_pod("p").request(**{"example.com/gpu": "1"}).info()
    assert w.messages(pod) == {"a": None}
    assert w.plugin.reserve(w.state, pod, "a") is None
    assert bind(w, pod) == ([], None)


def test_structs_are_written_without_what_is_not_set():
    w = world(claim("c"))
    w.take(pod_with("c"))
    found = w.state.read("DynamicResources").allocations[0]
    assert msgspec.to_builtins(found)["devices"]["results"][0]["adminAccess"] is None
    (first, *_), _ = bind(w, pod_with("c"), "no")
    assert "finalizers" in first.body["metadata"]
