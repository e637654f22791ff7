"""Builders make what the API server would have sent."""

import pytest

from berth.api.meta import LabelSelector
from berth.api.quantity import QuantityError, parse
from berth.core.builders import (
    expression,
    make_namespace,
    make_node,
    make_pod,
    make_replica_set,
    make_replication_controller,
    make_service,
    make_stateful_set,
)


def test_a_pod_says_what_was_said_and_has_the_apis_defaults():
    pod = make_pod("p", "ns").label("app", "web").request(cpu="100m").request({"example.com/gpu": "1"}).build()
    assert (pod.key, pod.metadata.uid, pod.spec.scheduler_name) == ("ns/p", "ns/p", "default-scheduler")
    assert [c.resources.requests for c in pod.spec.containers] == [{"cpu": "100m"}, {"example.com/gpu": "1"}]
    assert pod.metadata.labels == {"app": "web"}


def test_a_bound_pod_with_a_past():
    pod = make_pod().node("n1").priority(5, "Never").nominated("n2").phase("Running").terminating().uid("u").build()
    assert (pod.spec.node_name, pod.spec.priority, pod.spec.preemption_policy) == ("n1", 5, "Never")
    assert (pod.status.nominated_node_name, pod.status.phase, pod.metadata.uid) == ("n2", "Running", "u")
    assert make_pod().terminating().info().is_terminating and not make_pod().info().is_terminating


def test_init_containers_sidecars_ports_overhead_and_pod_level_resources():
    builder = (
        make_pod().init_container(requests={"cpu": "1"}).init_container(sidecar=True).host_port(80, "UDP", "10.0.0.1")
    )
    pod = builder.overhead(cpu="10m").pod_level(memory="1Gi").build()
    assert [c.restart_policy for c in pod.spec.init_containers] == ["", "Always"]
    port = pod.spec.containers[0].ports[0]
    assert (port.host_port, port.protocol, port.host_ip) == (80, "UDP", "10.0.0.1")
    assert pod.spec.overhead == {"cpu": "10m"}
    assert pod.spec.resources.requests == {"memory": "1Gi"}


@pytest.mark.parametrize(
    ("builder", "operator", "value"),
    [
        (make_pod().tolerate("k"), "Exists", ""),
        (make_pod().tolerate("k", "v"), "Equal", "v"),
        (make_pod().tolerate("k", "5", operator="Gt"), "Gt", "5"),
    ],
)
def test_tolerations_guess_their_operator(builder, operator, value):
    (toleration,) = builder.build().spec.tolerations
    assert (toleration.key, toleration.operator, toleration.value) == ("k", operator, value)


def test_affinity_of_every_kind():
    builder = make_pod().require_node(expression("zone", "In", "a")).prefer_node(3, expression("disk", "Exists"))
    builder.pod_affinity("zone", {"app": "web"}).prefer_pod_anti_affinity(7, "host", None, namespaces=["other"])
    affinity = builder.build().spec.affinity
    assert affinity.node_affinity.required.node_selector_terms[0].match_expressions[0].values == ("a",)
    assert affinity.node_affinity.preferred[0].weight == 3
    assert affinity.pod_affinity.required[0].label_selector == LabelSelector(match_labels={"app": "web"})
    preferred = affinity.pod_anti_affinity.preferred[0]
    assert (preferred.weight, preferred.pod_affinity_term.namespaces) == (7, ("other",))
    assert preferred.pod_affinity_term.label_selector is None


def test_spread_constraints_take_labels_or_a_whole_selector():
    builder = make_pod().spread("zone", {"a": "b"}, max_skew=2, minDomains=3)
    builder.spread("host", {"matchExpressions": [expression("a", "Exists")]}, when="ScheduleAnyway").spread("rack")
    zone, host, rack = builder.build().spec.topology_spread_constraints
    assert (zone.max_skew, zone.min_domains, zone.when_unsatisfiable) == (2, 3, "DoNotSchedule")
    assert host.label_selector.match_expressions[0].operator == "Exists"
    assert host.when_unsatisfiable == "ScheduleAnyway"
    assert rack.label_selector is None


def test_gates_volumes_and_claims():
    pod = make_pod().gate("a", "b").claim("data").volume("tmp", emptyDir={}).resource_claim("gpu").build()
    assert [gate.name for gate in pod.spec.scheduling_gates] == ["a", "b"]
    assert pod.spec.volumes[0].persistent_volume_claim.claim_name == "data"
    assert pod.spec.resource_claims[0].resource_claim_name == "gpu"


def test_a_node_has_its_hostname_and_room_for_110_pods():
    node = make_node("n").capacity(cpu=4, memory="8Gi").zone("z", "r").taint("k").image("nginx", size_bytes=5).build()
    assert node.metadata.labels["kubernetes.io/hostname"] == "n"
    assert node.metadata.labels["topology.kubernetes.io/zone"] == "z"
    assert node.metadata.labels["topology.kubernetes.io/region"] == "r"
    assert {name: int(parse(amount)) for name, amount in node.status.allocatable.items()} == {
        "cpu": 4,
        "memory": 8 * 1024**3,
        "pods": 110,
    }
    assert node.spec.taints[0].effect == "NoSchedule"
    assert node.status.images[0].size_bytes == 5
    assert not node.spec.unschedulable and make_node().unschedulable().build().spec.unschedulable


def test_copies_go_their_own_way():
    base = make_pod("base").label("a", "1")
    branch = base.copy().label("a", "2").request(cpu="1")
    assert base.build().metadata.labels == {"a": "1"}
    assert base.build().spec.containers == ()
    assert branch.build().metadata.labels == {"a": "2"}


def test_what_was_built_does_not_change_with_its_builder():
    builder = make_pod().label("a", "1")
    pod = builder.build()
    builder.label("a", "2")
    assert pod.metadata.labels == {"a": "1"}


def test_the_objects_beside_them():
    assert make_namespace("ns", {"team": "x"}).metadata.labels == {"team": "x"}
    assert make_service("s", {"a": "b"}).spec.selector == {"a": "b"}
    assert make_replication_controller("rc", {"a": "b"}, "ns").metadata.namespace == "ns"
    assert make_replica_set("rs", {"a": "b"}).spec.selector == LabelSelector(match_labels={"a": "b"})
    selector = {"matchExpressions": [expression("a", "Exists")]}
    assert make_stateful_set("ss", selector).spec.selector.match_expressions[0].key == "a"


def test_impossible_quantities_are_refused_as_the_codec_refuses_them():
    with pytest.raises(ValueError, match=r"spec\.containers"):
        make_pod("p").request(cpu="1x").build()
    with pytest.raises(QuantityError):
        parse("1x")
