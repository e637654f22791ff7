"""NodeResourceTopologyMatch keeps what every plugin has to, on random topologies."""

import pytest

from berth.testing import check_plugin, make_node, make_pod
from berth_plugins.numa.node_resource_topology_match import NodeResourceTopologyMatch
from berth_plugins.numa.scores import STRATEGIES
from berth_plugins.numa.topology import TOPOLOGIES
from packages.plugins.tests.topologies import GPU

POLICIES = ("single-numa-node", "single-numa-node", "single-numa-node", "restricted", "none", "odd")
RESOURCES = ("cpu", "memory", GPU, "hugepages-2Mi", "example.com/nic", "ephemeral-storage")
CACHES = ({}, {"discardReservedNodes": True}, {"cacheResyncPeriodSeconds": 5, "cache": {"informerMode": "Shared"}})


def amount(rng, resource):
    if resource == "cpu":
        return rng.choice(("0", "500m", "1", "1500m", "2", "3", "8"))
    if resource in ("memory", "ephemeral-storage", "hugepages-2Mi"):
        return rng.choice(("0", "1Gi", "2Gi", "5000M", "8Gi"))
    return rng.choice(("0", "1", "2", "4"))


def random_report(rng, name):
    count = rng.choice((0, 1, 2, 2, 2, 4, 4, 5))
    numbers = list(range(count))
    if count > 1 and rng.random() < 0.15:
        numbers = sorted(rng.sample(range(9), count))
    zones = [
        {
            "name": f"node-{number}",
            "type": "Node" if rng.random() < 0.95 else "Socket",
            "costs": [{"name": f"node-{other}", "value": 10 if other == number else rng.choice((11, 12, 21, 21, 300))}
                      for other in numbers if rng.random() < 0.95],
            "resources": [{"name": resource, "available": amount(rng, resource)}
                          for resource in RESOURCES[:-1] if rng.random() < 0.8],
        }
        for number in numbers
    ]  # fmt: skip
    attributes = {
        "topologyManagerPolicy": rng.choice(POLICIES),
        "topologyManagerScope": rng.choice(("pod", "container")),
        "topologyManagerMaxNUMANodes": rng.choice(("2", "4", "8", "16", "many")),
    }
    return TOPOLOGIES.read(
        {
            "metadata": {"name": name, "uid": name, "resourceVersion": str(rng.random())},
            "attributes": [{"name": key, "value": value} for key, value in attributes.items()],
            "zones": zones,
        }
    )


def random_node(rng, name):
    amounts = {resource: "64Gi" if resource in ("memory", "ephemeral-storage") else "64" for resource in RESOURCES}
    for resource in rng.sample(RESOURCES[2:], rng.choice((0, 0, 1, 2))):
        del amounts[resource]
    return make_node(name).capacity(amounts)


def random_pod(rng, name):
    pod = make_pod(name)
    is_guaranteed = rng.random() < 0.7
    for _ in range(rng.choice((1, 1, 2, 3))):
        asked = ("cpu", "memory") if is_guaranteed else ()
        asked = dict.fromkeys((*asked, *rng.sample(RESOURCES, rng.choice((0, 1, 1, 2)))))
        requests = {resource: amount(rng, resource) for resource in asked}
        requests = {name: value if value != "0" or rng.random() < 0.3 else "1" for name, value in requests.items()}
        pod = pod.container(requests=requests, limits=requests if is_guaranteed else None)
    if rng.random() < 0.3:
        requests = {"cpu": amount(rng, "cpu"), "memory": amount(rng, "memory")}
        pod = pod.init_container(requests=requests, sidecar=rng.random() < 0.5)
        pod.spec["initContainers"][-1]["resources"]["limits"] = requests
    if rng.random() < 0.15:
        level = {"cpu": "4", "memory": "4Gi"}
        pod.spec["resources"] = {"requests": level, "limits": level}
    if rng.random() < 0.1:
        pod = pod.overhead(cpu="250m")
    return pod


@pytest.mark.parametrize("caching", CACHES, ids=["passthrough", "discards", "reserves"])
@pytest.mark.parametrize("kind", STRATEGIES)
def test_it_keeps_its_contract_on_random_topologies_that_change(config, kind, caching):
    strategy = {"type": kind, "resources": [{"name": "cpu", "weight": 3}, {"name": GPU, "weight": 2}]}
    check_plugin(
        NodeResourceTopologyMatch,
        config=config("NodeResourceTopologyMatch", args={"scoringStrategy": strategy, **caching}),
        nodes=random_node,
        pods=random_pod,
        objects=lambda rng: [random_report(rng, f"n{rng.randrange(4)}") for _ in range(rng.randrange(3))],
        remembers=bool(caching),
        histories=2,
    )
