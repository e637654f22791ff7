"""Nodes made from a template."""

import ipaddress
import itertools

from berth.api import codec
from berth_cluster.hollow.template import NodeTemplate, host_ip, node_object, pod_network

NOW_S = 1_800_000_000.0


def test_a_node_is_ready_and_says_what_it_offers():
    node = node_object(
        NodeTemplate(cpu="4", memory="16Gi", pods=50, extra_resources={"example.com/gpu": "2"}), 0, NOW_S
    )
    allocatable = codec.decode("Node", node).status.allocatable
    assert (allocatable["cpu"], allocatable["memory"], allocatable["pods"]) == ("4", "16Gi", "50")
    assert allocatable["example.com/gpu"] == "2"
    conditions = {one["type"]: one["status"] for one in node["status"]["conditions"]}
    assert conditions == {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"}


def test_labels_name_host_zone_region_and_platform():
    template = NodeTemplate(zones=("a", "b"), region="r", labels={"disk": "ssd"})
    zones = [node_object(template, index, NOW_S)["metadata"]["labels"] for index in range(3)]
    assert [labels["topology.kubernetes.io/zone"] for labels in zones] == ["a", "b", "a"]
    assert zones[2] == {
        "kubernetes.io/hostname": "node-2",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/region": "r",
        "topology.kubernetes.io/zone": "a",
        "disk": "ssd",
    }


def test_without_zones_there_are_no_topology_labels():
    labels = node_object(NodeTemplate(zones=()), 0, NOW_S)["metadata"]["labels"]
    assert not any(name.startswith("topology") for name in labels)


def test_taints_and_images_are_the_templates():
    taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
    image = {"names": ["nginx:1"], "sizeBytes": 1000}
    node = node_object(NodeTemplate(taints=(taint,), images=(image,)), 0, NOW_S)
    assert node["spec"]["taints"] == [taint]
    assert node["status"]["images"] == [image]


def test_pod_networks_do_not_overlap_and_have_room():
    for pods in (110, 500):
        networks = [ipaddress.ip_network(pod_network(pods, index)) for index in range(300)]
        assert not any(one.overlaps(other) for one, other in itertools.pairwise(networks))
        assert all(network.num_addresses >= pods + 3 for network in networks)


def test_hosts_have_addresses_of_their_own():
    assert (host_ip(0), host_ip(255), host_ip(5000)) == ("172.16.0.1", "172.16.1.0", "172.16.19.137")
