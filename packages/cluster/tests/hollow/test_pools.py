"""Pools of nodes as people describe them, in an option or in a file."""

import ipaddress
import itertools

import pytest

from berth_cluster.hollow.pools import NodePool, PoolError, parse_pool, read_pools, side_by_side
from berth_cluster.hollow.template import NodeTemplate, node_object

USUAL = NodeTemplate(zones=("zone-a", "zone-b"), cpu="8", memory="32Gi")
TEXT = "gpu:4,cpu=64,memory=512Gi,nvidia.com/gpu=8,zone=a,zone=b,label=disk=ssd,taint=dedicated=gpu:NoSchedule,pods=250"
FILE = """
gpu:
  nodes: 4
  cpu: 64
  memory: 512Gi
  pods: 250
  nvidia.com/gpu: 8
  zone: [a, b]
  label: {disk: ssd}
  taint: "dedicated=gpu:NoSchedule"
plain: {}
"""


def test_a_text_and_a_file_describe_the_same_pool():
    gpu, plain = read_pools(FILE, USUAL)
    assert gpu == parse_pool(TEXT, USUAL)
    assert plain == parse_pool("plain", USUAL) == parse_pool("plain:1", USUAL)


def test_the_nodes_of_a_pool():
    count, template = parse_pool(TEXT, USUAL)
    node = node_object(template, 1, 0.0)
    assert (count, node["metadata"]["name"]) == (4, "gpu-1")
    labels = node["metadata"]["labels"]
    assert (labels["topology.kubernetes.io/zone"], labels["disk"], labels["node-pool"]) == ("b", "ssd", "gpu")
    assert node["spec"]["taints"] == [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]
    offered = node["status"]["allocatable"]
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "250", "ephemeral-storage": "100Gi", "nvidia.com/gpu": "8"}
    assert offered == amounts


def test_what_a_pool_does_not_say_is_as_usual():
    _, template = parse_pool("plain:2,taint=key:NoExecute", USUAL)
    assert (template.cpu, template.memory, template.zones) == ("8", "32Gi", ("zone-a", "zone-b"))
    assert template.taints == ({"key": "key", "effect": "NoExecute"},)


def test_no_two_nodes_share_an_address():
    pools = [NodePool(3, USUAL), parse_pool("big:3,pods=500", USUAL), parse_pool("small:3,pods=10", USUAL)]
    nodes = [node_object(pool.template, number, 0.0) for pool in side_by_side(pools) for number in range(pool.nodes)]
    addresses = {node["status"]["addresses"][0]["address"] for node in nodes}
    ranges = sorted(ipaddress.ip_network(node["spec"]["podCIDR"]) for node in nodes)
    assert len(addresses) == len({node["status"]["nodeInfo"]["systemUUID"] for node in nodes}) == 9
    assert not any(one.overlaps(other) for one, other in itertools.pairwise(ranges))
    assert all(one.num_addresses > 500 for one in ranges)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("GPU:4", "'GPU' is no name of a pool"),
        ("gpu:many", "pool gpu: 'many' is no number of nodes"),
        ("gpu:4,cpu=lots", "pool gpu: cpu:"),
        ("gpu:4,cpu=0", "a node needs more than nothing"),
        ("gpu:4,gpus=8", "gpus=8 says nothing"),
        ("gpu:4,pods=some", "pods=some says nothing"),
        ("gpu:4,taint=dedicated", "taint=dedicated is no KEY[=VALUE]:EFFECT"),
        ("gpu:4,taint=a=b:Never", "taint=a=b:Never is no KEY[=VALUE]:EFFECT"),
    ],
)
def test_what_cannot_be_a_pool_is_explained(text, words):
    with pytest.raises(PoolError) as caught:
        parse_pool(text, USUAL)
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["- gpu", "gpu: 4", "{", "3"])
def test_a_file_that_is_no_map_of_pools_is_explained(text):
    with pytest.raises(PoolError):
        read_pools(text, USUAL)
