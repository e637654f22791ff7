"""NodeResourceTopologyMatch: what it says of many nodes at once is what it says of each, on random topologies."""

import random

import pytest
from topologies import GPU, cluster, plugin_of

from berth.plugin import CycleState
from berth.testing import make_node, make_pod
from berth_plugins.numa.scores import STRATEGIES
from berth_plugins.numa.topology import TOPOLOGIES

POLICIES = ("single-numa-node", "single-numa-node", "single-numa-node", "restricted", "none", "odd")
NAMES = tuple(f"n{number}" for number in range(12))
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


def both_forms_agree(found, pod):
    """Compare both forms on all rows, and on some of them; return how many nodes let the pod pass."""
    plugin, table = plugin_of(found), found.core.cache.table
    rows, state = table.rows(), CycleState()
    codes, describe = plugin.filter_columns(state, pod, table, rows)
    by_column = [describe(code) if code else None for code in codes.tolist()]
    by_node = [plugin.filter(state, pod, table.view(row)) for row in rows.tolist()]
    assert by_column == by_node
    scores = plugin.score_columns(state, pod, table, rows).tolist()
    assert scores == [plugin.score(state, pod, table.view(row)) for row in rows.tolist()]
    some = rows[::3]
    assert plugin.filter_columns(state, pod, table, some).codes.tolist() == codes[::3].tolist()
    assert plugin.score_columns(state, pod, table, slice(0, table.capacity))[rows].tolist() == scores
    return by_node.count(None)


@pytest.mark.parametrize("caching", CACHES, ids=["passthrough", "discards", "reserves"])
@pytest.mark.parametrize("kind", STRATEGIES)
def test_both_forms_agree_on_random_topologies_that_change(config, kind, caching):
    rng = random.Random(f"{kind} {caching}")
    strategy = {"type": kind, "resources": [{"name": "cpu", "weight": 3}, {"name": GPU, "weight": 2}]}
    found = cluster(config, scoringStrategy=strategy, **caching)
    for name in NAMES:
        found.put(random_node(rng, name))
    fitting = []
    for number in range(60):
        name = rng.choice(NAMES)
        what = rng.choice(("report", "report", "report", "no report", "node", "no node", "pod", "foreign pod"))
        if what == "report":
            found.put(random_report(rng, name))
        elif what == "no report" and (TOPOLOGIES.name, name) in found.objects:
            found.delete(TOPOLOGIES.name, name)
        elif what == "node":
            found.put(random_node(rng, name))
        elif what == "no node" and ("Node", name) in found.objects and number < 40:
            found.delete("Node", name)
        elif what == "pod":
            plugin_of(found).reserve(CycleState(), random_pod(rng, f"reserved-{number}").info(), name)
        elif what == "foreign pod" and rng.random() < 0.2:
            found.put(random_pod(rng, f"foreign-{number}").scheduler("other").node(name))
        fitting += [both_forms_agree(found, random_pod(rng, "asks").info()) for _ in range(3)]
    assert sum(fitting) > 100 and min(fitting) < len(NAMES) - 4
