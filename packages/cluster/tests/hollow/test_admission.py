"""What a kubelet refuses, and in which words: reasons and messages are upstream's."""

import pytest

from berth.api import codec
from berth.api.pod_resources import pod_requests
from berth_cluster.hollow.admission import NodeLoad, admit, host_ports

ALLOCATABLE = {"cpu": 4000, "memory": 8 * 2**30, "pods": 10, "ephemeral-storage": 100, "example.com/gpu": 2}
EMPTY = NodeLoad({}, 0, set())


def node(labels=None, taints=()):
    labels = {"kubernetes.io/os": "linux", "zone": "a"} | (labels or {})
    return codec.decode("Node", {"metadata": {"name": "n1", "labels": labels}, "spec": {"taints": list(taints)}})


def pod(requests=None, labels=None, ports=(), **spec):
    container = {"name": "c", "resources": {"requests": requests or {}}, "ports": list(ports)}
    metadata = {"name": "p", "namespace": "default", "labels": labels or {}}
    return codec.decode("Pod", {"metadata": metadata, "spec": {"nodeName": "n1", "containers": [container], **spec}})


def decide(wanted, on=None, load=EMPTY, pod_os=""):
    return admit(wanted, pod_os, pod_requests(wanted), on or node(), ALLOCATABLE, load)


def affinity(*values):
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": list(values)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def port(number, ip="", protocol="TCP"):
    return {"containerPort": 80, "hostPort": number, "hostIP": ip, "protocol": protocol}


def test_a_pod_that_fits_is_taken():
    assert decide(pod({"cpu": "4", "memory": "8Gi"}), load=NodeLoad({"cpu": 0}, 9, set())) is None


@pytest.mark.parametrize(
    ("requests", "used", "reason", "message"),
    [
        (
            {"cpu": "1"},
            {"cpu": 3900},
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 1000, used: 3900, capacity: 4000",
        ),
        (
            {"memory": "4Gi"},
            {"memory": 5 * 2**30},
            "OutOfmemory",
            "Node didn't have enough resource: memory, requested: 4294967296, used: 5368709120, capacity: 8589934592",
        ),
        (
            {"ephemeral-storage": "11G"},
            {},
            "OutOfephemeral-storage",
            "Node didn't have enough resource: ephemeral-storage, requested: 11000000000, used: 0, capacity: 100",
        ),
        (
            {"example.com/gpu": 1},
            {"example.com/gpu": 2},
            "OutOfexample.com/gpu",
            "Node didn't have enough resource: example.com/gpu, requested: 1, used: 2, capacity: 2",
        ),
        (
            {"hugepages-2Mi": "2Mi"},
            {},
            "OutOfhugepages-2Mi",
            "Node didn't have enough resource: hugepages-2Mi, requested: 2097152, used: 0, capacity: 0",
        ),
    ],
)
def test_what_is_missing(requests, used, reason, message):
    assert decide(pod(requests), load=NodeLoad(used, 1, set())) == (reason, message)


def test_the_number_of_pods_comes_first():
    full = NodeLoad({"cpu": 4000}, 10, set())
    message = "Node didn't have enough resource: pods, requested: 1, used: 10, capacity: 10"
    assert decide(pod({"cpu": "1"}), load=full) == ("OutOfpods", message)


def test_an_extended_resource_that_the_node_does_not_know_is_not_its_business():
    assert decide(pod({"example.com/cluster-wide": 5})) is None


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"nodeSelector": {"zone": "b"}}, False),
        ({"affinity": affinity("a", "b")}, True),
        ({"affinity": affinity("b")}, False),
        ({"nodeSelector": {"zone": "a"}, "affinity": affinity("b")}, False),
    ],
)
def test_node_affinity(spec, fits):
    message = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    assert decide(pod(**spec)) == (None if fits else ("NodeAffinity", message))


@pytest.mark.parametrize(
    ("held", "wanted", "fits"),
    [
        (("0.0.0.0", "TCP", 8080), port(8080), False),
        (("0.0.0.0", "TCP", 8080), port(8081), True),
        (("0.0.0.0", "TCP", 8080), port(8080, protocol="UDP"), True),
        (("10.0.0.1", "TCP", 8080), port(8080, "10.0.0.2"), True),
        (("10.0.0.1", "TCP", 8080), port(8080), False),
        (("0.0.0.0", "TCP", 8080), port(8080, "10.0.0.2"), False),
    ],
)
def test_host_ports(held, wanted, fits):
    message = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
    found = decide(pod(ports=[wanted]), load=NodeLoad({}, 1, {held}))
    assert found == (None if fits else ("NodePorts", message))


def test_ports_of_sidecars_count_and_those_of_init_containers_do_not():
    sidecar = {"name": "s", "restartPolicy": "Always", "ports": [port(9000)]}
    init = {"name": "i", "ports": [port(9001)]}
    assert host_ports(pod(initContainers=[sidecar, init])) == {("0.0.0.0", "TCP", 9000)}


@pytest.mark.parametrize(
    ("effect", "tolerations", "fits"),
    [
        ("NoExecute", [], False),
        ("NoExecute", [{"key": "maintenance", "operator": "Exists"}], True),
        ("NoSchedule", [], True),  # the scheduler's business only
        ("PreferNoSchedule", [], True),
    ],
)
def test_taints(effect, tolerations, fits):
    tainted = node(taints=[{"key": "maintenance", "effect": effect}])
    message = "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
    found = decide(pod(tolerations=tolerations), tainted)
    assert found == (None if fits else ("TaintToleration", message))


def test_the_wrong_operating_system():
    by_field = decide(pod(), pod_os="windows")
    assert by_field == ("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    by_label = decide(pod(labels={"kubernetes.io/os": "windows"}))
    assert by_label.reason == "PodOSSelectorNodeLabelDoesNotMatch"


def test_resources_are_named_before_affinity_and_affinity_before_ports_and_taints():
    tainted = node(taints=[{"key": "maintenance", "effect": "NoExecute"}])
    taken = {("0.0.0.0", "TCP", 80)}
    everything_wrong = pod({"cpu": "5"}, nodeSelector={"zone": "b"}, ports=[port(80)])
    assert decide(everything_wrong, tainted, NodeLoad({}, 0, taken)).reason == "OutOfcpu"
    small = pod({"cpu": "1"}, nodeSelector={"zone": "b"}, ports=[port(80)])
    assert decide(small, tainted, NodeLoad({}, 0, taken)).reason == "NodeAffinity"
    right_zone = pod({"cpu": "1"}, ports=[port(80)])
    assert decide(right_zone, tainted, NodeLoad({}, 0, taken)).reason == "NodePorts"
