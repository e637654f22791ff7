"""Placements in random topologies: each is one that is allowed, and none is refused that there is.

What there is, is counted here in another way: from the nodes' labels, without a tree.
"""

import random
from collections import Counter

import pytest

from berth_kueue.topology.placing import DomainUsage, PlacedWorkload
from berth_kueue.topology.rooms import DomainRoom
from berth_kueue.topology.tree import TopologyDomain
from packages.kueue.tests.topology.worlds import HOST, LEVELS, forest, node, pod_set
from tests.effort import examples


def random_nodes(rng):
    return [
        node(f"b{block}", f"r{rack}", number, cpu=str(rng.randint(0, 6)), pods=str(rng.choice([2, 3, 110])))
        for block in range(rng.randint(1, 3))
        for rack in range(rng.randint(1, 3))
        for number in range(rng.randint(1, 3))
    ]


def labels_of(nodes):
    return {each["metadata"]["name"]: each["metadata"]["labels"] for each in nodes}


def room(nodes, cpu):
    """How many pods each node has room for."""
    free = {each["metadata"]["name"]: each["status"]["allocatable"] for each in nodes}
    return {name: min(int(have["pods"]), int(have["cpu"]) * 1000 // cpu if cpu else 99) for name, have in free.items()}


def path(labels, level):
    return tuple(labels[name] for name in LEVELS[: LEVELS.index(level) + 1])


def slices_by_domain(nodes, cpu, level, slice_level, size):
    """How many whole slices each domain of a level has room for."""
    pods, labels = Counter(), labels_of(nodes)
    for name, count in room(nodes, cpu).items():
        pods[path(labels[name], slice_level)] += count
    slices = Counter()
    for domain, count in pods.items():
        slices[domain[: LEVELS.index(level) + 1]] += count // size
    return slices


@pytest.mark.parametrize("gates", [{}, {"TASProfileMixed": False}, {"TASBalancedPlacement": True}])
@pytest.mark.parametrize("seed", range(examples(150)))
def test_a_pod_set_is_placed_as_it_wishes_or_there_is_no_room(seed, gates):
    rng = random.Random(seed)
    nodes, cpu = random_nodes(rng), rng.choice([500, 1000, 2000])
    labels, size = labels_of(nodes), rng.choice([1, 1, 2, 3])
    how, level = rng.choice(["required", "preferred", "unconstrained"]), rng.choice(LEVELS)
    slice_level = rng.choice(LEVELS[LEVELS.index(level) :]) if how != "unconstrained" else rng.choice(LEVELS)
    count = size * rng.randint(1, 6)
    request = {"unconstrained": True} if how == "unconstrained" else {how: level}
    if size > 1:
        request |= {"podSetSliceRequiredTopology": slice_level, "podSetSliceSize": size}
    else:
        slice_level = HOST
    found = forest(nodes, gates=gates).snapshot().find({"tas": [pod_set(count, cpu, request=request)]})

    slices = slices_by_domain(nodes, cpu, level, slice_level, size)
    there = max(slices.values()) if how == "required" else sum(slices.values())
    assert (found.failure is None) == (there >= count // size)
    if found.failure is not None:
        assert f"out of {count // size}" in found.failure.words or f"any of {count // size}" in found.failure.words
        return
    counts = {name: pods for (name,), pods in found.placed["main"].domains}
    assert sum(counts.values()) == count and list(counts) == sorted(counts, key=lambda name: path(labels[name], HOST))
    assert all(0 < pods <= room(nodes, cpu)[name] for name, pods in counts.items())
    in_slices = Counter()
    for name, pods in counts.items():
        in_slices[path(labels[name], slice_level)] += pods
    assert all(pods % size == 0 for pods in in_slices.values())
    domains = {path(labels[name], level) for name in counts}
    if how == "required" or (how == "preferred" and max(slices.values()) >= count // size):
        assert len(domains) == 1 or gates.get("TASBalancedPlacement")


@pytest.mark.parametrize("seed", range(examples(60)))
def test_a_leader_and_its_workers_share_the_domain(seed):
    rng = random.Random(seed)
    nodes, level = random_nodes(rng), rng.choice(LEVELS)
    workers, leader_cpu, worker_cpu = rng.randint(2, 5), rng.choice([1000, 3000]), rng.choice([1000, 2000])
    request = {"required": level, "podSetGroupName": "g"}
    sets = [pod_set(1, leader_cpu, "lead", request), pod_set(workers, worker_cpu, "work", request)]
    found = forest(nodes).snapshot().find({"tas": sets})
    labels, best = labels_of(nodes), 0
    for domain in {path(each, level) for each in labels.values()}:
        inside = [each for each in nodes if path(each["metadata"]["labels"], level) == domain]
        for home in inside:  # the leader on each node in turn
            name, have = home["metadata"]["name"], home["status"]["allocatable"]
            left = int(have["cpu"]) * 1000 - leader_cpu
            if left < 0 or int(have["pods"]) < 1:
                continue
            others = sum(count for other, count in room(inside, worker_cpu).items() if other != name)
            best = max(best, others + min(left // worker_cpu, int(have["pods"]) - 1))
    if found.failure is not None:
        assert best < workers
        return
    assert best >= workers
    used = Counter()
    for name, cpu in (("lead", leader_cpu), ("work", worker_cpu)):
        for (host,), pods in found.placed[name].domains:
            used[host] += cpu * pods
    assert all(used[each["metadata"]["name"]] <= int(each["status"]["allocatable"]["cpu"]) * 1000 for each in nodes)
    assert len({path(labels[host], level) for host in used}) == 1


@pytest.mark.parametrize("seed", range(examples(60)))
def test_a_failed_node_is_replaced_and_the_rest_stays(seed):
    rng = random.Random(seed)
    nodes = random_nodes(rng)
    world = forest(nodes)
    request = rng.choice([{"required": "rack"}, {"preferred": "block"}, {"unconstrained": True}])
    placing = pod_set(rng.randint(1, 5), 1000, request=request)
    before = world.snapshot().find({"tas": [placing]}).placed.get("main")
    if before is None:
        return
    world.add_usage("ns/w", {"tas": [DomainUsage(values, {"cpu": 1000}, pods) for values, pods in before.domains]})
    (failed,), lost = rng.choice(before.domains)
    world.delete_node(failed)
    workload = PlacedWorkload("u", (failed,), {"main": before})
    found = world.snapshot().find({"tas": [placing]}, workload)
    kept = {values: pods for values, pods in before.domains if values != (failed,)}
    labels = labels_of(nodes)
    free = {name: pods - kept.get((name,), 0) for name, pods in room(nodes, 1000).items() if name != failed}
    racks = {path(labels[host], "rack") for (host,) in kept}
    if "required" in request and kept:
        free = {name: pods for name, pods in free.items() if path(labels[name], "rack") in racks}
    by_rack = Counter()
    for name, pods in free.items():
        by_rack[path(labels[name], "rack")] += pods
    there = max(by_rack.values(), default=0) if "required" in request else sum(free.values())
    assert (found.failure is None) == (there >= lost)
    if found.failure is None:
        after = dict(found.placed["main"].domains)
        assert sum(after.values()) == placing.count and (failed,) not in after
        assert all(after[values] >= pods for values, pods in kept.items())


def test_nodes_that_are_left_out_are_counted_by_reason():
    """The words are those of the recorded cases, and of kueue#notFitMessage."""
    taint = {"key": "spot", "value": "true", "effect": "NoSchedule"}
    nodes = [
        node("b", "r", 0, taints=[taint]),
        node("b", "r", 1, labels={"disk": "hdd"}),
        node("b", "r", 2, cpu="1", labels={"disk": "ssd"}),
        node("b", "r", 3, labels={"disk": "ssd"}, unschedulable=True),
    ]
    placing = pod_set(2, 2000, request={"required": "rack"}, nodeSelector={"disk": "ssd"})
    found = forest(nodes).snapshot().find({"tas": [placing]})
    assert found.failure.words == (
        'topology "default" doesn\'t allow to fit any of 2 pod(s). '
        'Total nodes: 3; excluded: nodeSelector: 1, resource "cpu": 1, taint "spot=true:NoSchedule": 1'
    )


def test_other_pods_and_other_flavors_take_room():
    nodes = [node("b", "r", 0), node("b", "r", 1)]
    world = forest(nodes)
    world.set_flavor({"metadata": {"name": "also"}, "spec": {"topologyName": "default"}})
    pod = {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"nodeName": "b-r-0", "containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]},
    }
    world.set_pod(pod)
    world.add_usage("ns/w", {"also": [DomainUsage(("b-r-1",), {"cpu": 2000}, 1)]})
    fits = world.snapshot().fits
    assert fits("tas", [DomainUsage(("b-r-0",), {"cpu": 1000}, 1), DomainUsage(("b-r-1",), {"cpu": 1000}, 2)])
    assert not fits("tas", [DomainUsage(("b-r-0",), {"cpu": 1000}, 2)])
    assert not fits("tas", [DomainUsage(("b-r-1",), {"cpu": 1000}, 3)])
    world.remove_usage("ns/w")
    world.set_pod({**pod, "status": {"phase": "Succeeded"}})
    assert world.snapshot().fits("tas", [DomainUsage((f"b-r-{at}",), {"cpu": 1000}, 4) for at in (0, 1)])


def test_a_copy_of_a_room_has_what_is_below_it():
    """What balanced placement tries on."""
    domain = TopologyDomain("r", ("r",))
    leaf = DomainRoom(TopologyDomain("r,h", ("r", "h")), [])
    leaf.pods, leaf.slices, leaf.leaders = 3, 3, 1
    made = DomainRoom(domain, [leaf]).copy()
    made.children[0].pods -= 1
    assert (made.children[0].pods, made.children[0].slices, made.children[0].leaders, leaf.pods) == (2, 3, 1, 3)


def test_balanced_placement_spreads_pods_evenly_over_the_fewest_domains():
    """Six pods on nodes for four each: three and three, where best fit has four and two."""
    nodes = [node("b", "r", number) for number in range(3)]
    placing = pod_set(6, 1000, request={"preferred": "rack"})
    counts = {}
    for is_on in (True, False):
        found = forest(nodes, gates={"TASBalancedPlacement": is_on}).snapshot().find({"tas": [placing]})
        counts[is_on] = sorted(pods for _, pods in found.placed["main"].domains)
    assert counts == {True: [3, 3], False: [2, 4]}
