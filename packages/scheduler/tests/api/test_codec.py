"""Objects from JSON: names of fields, defaults, nulls, and errors that name what is wrong."""

import json

import pytest

from berth.api.codec import KINDS, ObjectError, decode, object_name
from berth.api.resources import RESOURCES

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"a": "b"}, "managedFields": [{"x": 1}]},
    "spec": {
        "nodeName": "n1",
        "preemptionPolicy": "Never",
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 300}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
                    ]
                }
            }
        },
        "containers": [
            {
                "name": "c",
                "resources": {"requests": {"cpu": "100m", "memory": 1048576, "example.com/gpu": "1"}},
                "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1"}],
                "env": [{"name": "X"}],
            }
        ],
        "volumes": [{"name": "d", "awsElasticBlockStore": {"volumeID": "vol-1"}}, {"name": "t", "projected": {}}],
    },
    "status": {"phase": "Pending", "nominatedNodeName": "n2"},
}


def as_bytes(document):
    return json.dumps(document).encode()


def test_a_pod_is_the_same_from_bytes_and_from_a_parsed_document():
    pod = decode("Pod", as_bytes(POD))
    assert pod == decode("Pod", POD)
    assert pod.key == "ns/p"
    assert pod.spec.node_name == "n1"
    assert pod.spec.containers[0].resources.requests == {"cpu": "100m", "memory": 1048576, "example.com/gpu": "1"}
    assert pod.spec.containers[0].ports[0].host_ip == "10.0.0.1"
    assert pod.spec.volumes[0].aws_elastic_block_store.volume_id == "vol-1"
    assert pod.spec.tolerations[0].toleration_seconds == 300
    required = pod.spec.affinity.node_affinity.required
    assert required.node_selector_terms[0].match_fields[0].values == ("n",)
    assert pod.status.nominated_node_name == "n2"


def test_what_is_absent_has_the_defaults_of_the_api():
    pod = decode("Pod", {"metadata": {"name": "p"}, "spec": {"topologySpreadConstraints": [{"topologyKey": "zone"}]}})
    constraint = pod.spec.topology_spread_constraints[0]
    assert (pod.spec.scheduler_name, pod.spec.priority) == ("default-scheduler", None)
    assert (constraint.node_affinity_policy, constraint.node_taints_policy) == ("Honor", "Ignore")
    assert pod.metadata.deletion_timestamp is None


@pytest.mark.parametrize(
    "document",
    [
        {"metadata": {"name": "p", "labels": None, "creationTimestamp": None}, "spec": {"containers": None}},
        {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "ports": None}], "tolerations": None}},
        {"metadata": {"name": "p"}, "spec": None, "status": None},
    ],
)
def test_null_means_absent(document):
    without = {key: value for key, value in document.items() if value is not None}
    assert decode("Pod", as_bytes(document)).metadata.name == "p"
    assert decode("Pod", document).spec.tolerations == ()
    assert decode("Pod", document).metadata.labels == (without["metadata"].get("labels") or {})


def with_spec(**spec):
    return {"metadata": {"name": "p", "namespace": "ns"}, "spec": spec}


def with_status(**status):
    return {"metadata": {"name": "p", "namespace": "ns"}, "status": status}


BAD = {"requests": {"cpu": "1x"}}
EMPTY_LIMIT = {"limits": {"cpu": ""}}


@pytest.mark.parametrize(
    ("kind", "document", "place"),
    [
        ("Pod", with_spec(containers=[{}, {"resources": BAD}]), "spec.containers[1].resources.requests[cpu]"),
        (
            "Pod",
            with_spec(containers=[{"resources": {"limits": {"cpu": ""}}}]),
            "spec.containers[0].resources.limits[cpu]",
        ),
        ("Pod", with_spec(initContainers=[{"resources": BAD}]), "spec.initContainers[0].resources.requests[cpu]"),
        ("Pod", with_spec(overhead={"cpu": "1x"}), "spec.overhead[cpu]"),
        ("Pod", with_spec(resources=BAD), "spec.resources.requests[cpu]"),
        ("Pod", with_status(allocatedResources={"cpu": "1x"}), "status.allocatedResources[cpu]"),
        ("Pod", with_status(resources=BAD), "status.resources.requests[cpu]"),
        (
            "Pod",
            with_status(containerStatuses=[{}], initContainerStatuses=[{"allocatedResources": {"cpu": "1x"}}]),
            "status.initContainerStatuses[0].allocatedResources[cpu]",
        ),
        ("Node", with_status(allocatable={"memory": "1GB"}), "status.allocatable[memory]"),
        ("Node", with_status(capacity={"memory": "1GB"}), "status.capacity[memory]"),
        ("PersistentVolume", with_spec(capacity={"storage": "big"}), "spec.capacity[storage]"),
        ("PersistentVolumeClaim", with_spec(resources=BAD), "spec.resources.requests[cpu]"),
        (
            "ResourceSlice",
            with_spec(devices=[{}, {"capacity": {"memory": {"value": "big"}}}]),
            "spec.devices[1].capacity[memory]",
        ),
        (
            "ResourceSlice",
            with_spec(devices=[{"consumesCounters": [{}, {"counters": {"memory": {"value": "1x"}}}]}]),
            "spec.devices[0].consumesCounters[1].counters[memory]",
        ),
        (
            "ResourceSlice",
            with_spec(sharedCounters=[{"counters": {"memory": {"value": ""}}}]),
            "spec.sharedCounters[0].counters[memory]",
        ),
        (
            "ResourceClaim",
            with_spec(devices={"requests": [{"exactly": {"capacity": {"requests": {"memory": "1x"}}}}]}),
            "spec.devices.requests[0].exactly.capacity.requests[memory]",
        ),
        (
            "ResourceClaim",
            with_spec(devices={"requests": [{"firstAvailable": [{}, {"capacity": {"requests": {"memory": "1x"}}}]}]}),
            "spec.devices.requests[0].firstAvailable[1].capacity.requests[memory]",
        ),
        ("CSIStorageCapacity", {"metadata": {"name": "p", "namespace": "ns"}, "capacity": "1x"}, "capacity: '1x'"),
    ],
)
def test_an_impossible_quantity_names_the_object_and_the_field(kind, document, place):
    for form in (document, as_bytes(document)):
        with pytest.raises(ObjectError) as raised:
            decode(kind, form)
        assert str(raised.value).startswith(f"{kind} ns/p: ")
        assert place in str(raised.value)
        assert "is not a quantity" in str(raised.value)


@pytest.mark.parametrize(
    ("document", "name", "reason"),
    [
        ({"metadata": {"name": "p"}, "spec": {"nodeName": 5}}, "p", "$.spec.nodeName"),
        ({"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": {}}}, "ns/p", "$.spec.containers"),
        ({"metadata": {"name": "p"}, "spec": {"priority": "high"}}, "p", "$.spec.priority"),
        ({"metadata": 7}, "", "$.metadata"),
    ],
)
def test_a_wrong_type_names_the_object_and_the_field(document, name, reason):
    for form in (document, as_bytes(document)):
        with pytest.raises(ObjectError) as raised:
            decode("Pod", form)
        assert (raised.value.kind, raised.value.name) == ("Pod", name)
        assert reason in raised.value.reason


@pytest.mark.parametrize("broken", [b"", b"{", b'{"metadata": {"name": "p"', b"[1]", b"null", b"\xff"])
def test_what_is_no_object_is_an_object_error(broken):
    with pytest.raises(ObjectError, match="without a name"):
        decode("Pod", broken)


def test_names_are_found_in_objects_that_cannot_be_read():
    assert object_name(b'{"metadata": {"name": "n"}, "spec": []}') == "n"
    assert object_name({"metadata": {"name": "n", "namespace": "x"}, "spec": 3}) == "x/n"
    assert object_name(b"{") == ""


def test_every_kind_that_is_served_can_be_decoded():
    assert set(KINDS) == set(RESOURCES)
    for kind in KINDS:
        assert decode(kind, {"metadata": {"name": "x"}}).metadata.name == "x"


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Pod", "/api/v1/namespaces/ns/pods/x"),
        ("Node", "/api/v1/nodes/x"),
        ("ReplicaSet", "/apis/apps/v1/namespaces/ns/replicasets/x"),
        ("CSINode", "/apis/storage.k8s.io/v1/csinodes/x"),
    ],
)
def test_paths(kind, path):
    assert RESOURCES[kind].path("ns", "x") == path


def test_objects_cannot_be_changed_and_can_be_hashed_where_their_fields_can():
    pod = decode("Pod", POD)
    with pytest.raises(AttributeError):
        pod.spec.node_name = "other"
    assert hash(pod.spec.affinity.node_affinity) == hash(decode("Pod", POD).spec.affinity.node_affinity)


def test_fields_that_nobody_reads_may_be_nested_as_deeply_as_an_api_server_takes_them():
    """encoding/json: maxNestingDepth is 10000; `managedFields` is anybody's."""
    deep = b'{"metadata": {"name": "p", "managedFields": %s}}' % (b"[" * 9_990 + b"]" * 9_990)
    assert decode("Pod", deep).metadata.name == "p"


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b'{"metadata": {"name": "p"}, "x": %s}' % (b"[" * 100_000 + b"]" * 100_000), "nested too deeply"),
        (b'{"metadata": {"name": "\xff"}}', "utf-8"),
    ],
)
def test_what_no_json_library_reads_is_an_object_error(document, reason):
    with pytest.raises(ObjectError) as raised:
        decode("Pod", document)
    assert reason in raised.value.reason
