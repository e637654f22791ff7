"""Failures on small random clusters: proofs against placing at random, simulations against what-ifs and an exhaustion.

`checker` has the scheduler's rules written down a second time, and knows nothing of this program.
"""

import random
from itertools import combinations

import msgspec
import pytest

from berth_workbench.planning.survival import survival
from berth_workbench.simulation.changes import parse_flag
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.site import Site
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import Snapshot
from packages.workbench.tests.asking import what_if
from packages.workbench.tests.planning import checker
from packages.workbench.tests.planning.worlds import ZONE, bound, random_world
from tests.effort import examples

WORLDS = examples(72)
ORDERS = 6
"""So often the pods of a failure are placed in another order, at random."""


def world(seed, *, priorities=False, plain=False):
    rng = random.Random(seed)
    nodes, running = random_world(rng, owned=True)
    for pod, _ in running if plain else ():
        for field in ("affinity", "topologySpreadConstraints", "nodeSelector"):
            pod["spec"].pop(field, None)
        pod["spec"]["containers"][0].pop("ports", None)
    if seed % 2:  # many small requests on nodes of some size, as proofs have them
        for node in nodes:
            node["status"]["allocatable"] |= {"cpu": "16", "memory": "64Gi", "pods": "50"}
    if priorities:
        for pod, _ in running:
            pod["spec"]["priority"] = rng.choice([0, 0, 10])
    manifests = [*nodes, *(bound(pod, node) for pod, node in running)]
    return rng, nodes, running, Snapshot([Document(each["kind"], msgspec.json.encode(each), "w") for each in manifests])


def tight_world(seed):
    """Nodes with some room left, of which only the load of pods decides who fits."""
    rng = random.Random(seed)
    nodes, running = [], []
    slack = rng.choice([2, 4, 6, 9])
    for number in range(rng.randrange(3, 9)):
        taken = 0
        for at in range(rng.randrange(0, 4)):
            size = rng.choice([1, 1, 2, 3])
            taken += size
            owner = {
                "kind": "ReplicaSet",
                "name": f"s{size}",
                "uid": f"s{size}",
                "apiVersion": "v1",
                "controller": True,
            }
            requests = {"cpu": f"{size * 100}m"}
            pod = {
                "kind": "Pod",
                "metadata": {"name": f"p{number}-{at}", "labels": {"app": f"s{size}"}, "ownerReferences": [owner]},
                "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
            }
            running.append((pod, f"n{number}"))
        room = {"cpu": f"{(taken + rng.randrange(0, slack)) * 100}m", "memory": "1Gi", "pods": str(rng.choice([6, 20]))}
        labels = {"kubernetes.io/hostname": f"n{number}", ZONE: rng.choice("ab")}
        node = {"kind": "Node", "metadata": {"name": f"n{number}", "labels": labels}, "spec": {}}
        nodes.append({**node, "status": {"allocatable": room}})
    manifests = [*nodes, *(bound(pod, node) for pod, node in running)]
    return rng, nodes, running, Snapshot([Document(each["kind"], msgspec.json.encode(each), "w") for each in manifests])


def name_of(obj):
    return obj["metadata"]["name"]


def lost_nodes(failure, nodes):
    if failure.kind == "node":
        return set(failure.names)
    return {name_of(node) for node in nodes if checker.label(node, ZONE) in failure.names}


def split(lost, nodes, running):
    """The nodes that are left, the pods that stay, and those that come back."""
    left = [node for node in nodes if name_of(node) not in lost]
    staying = [(pod, where) for pod, where in running if where not in lost]
    leaving = [pod for pod, where in running if where in lost and pod["metadata"].get("ownerReferences")]
    return left, staying, leaving


def all_placed_at_random(rng, left, staying, leaving):
    now = list(staying)
    order = rng.sample(leaving, len(leaving))
    if rng.random() < 0.5:  # the small ones first are most in the way of the large ones
        order.sort(key=lambda pod: sum(checker.requests_of(pod).values()))
    for pod in order:
        places = [node for node in left if checker.fits(pod, node, left, now)]
        if not places:
            return False
        now.append((pod, name_of(rng.choice(places))))
    return True


def can_all_be_placed(left, now, leaving):
    """Whether any order and any choice places everybody."""
    if not leaving:
        return True
    for at, pod in enumerate(leaving):
        others = leaving[:at] + leaving[at + 1 :]
        for node in left:
            if checker.fits(pod, node, left, now) and can_all_be_placed(left, [*now, (pod, name_of(node))], others):
                return True
    return False


def test_what_is_proven_holds_however_pods_are_placed():
    proven = 0
    for seed in range(2 * WORLDS):
        rng, nodes, running, snapshot = tight_world(seed) if seed % 2 else world(seed)
        cluster = SimulatedCluster(snapshot.structs())
        found = survival(Site(cluster), kinds=("node", "zone"), pairs=True, simulated_at_most=0)
        for failure in found.failures:
            if failure.answered != "proven":
                continue
            parts = split(lost_nodes(failure, nodes), nodes, running)
            proven += bool(parts[2])
            for _ in range(ORDERS):
                assert all_placed_at_random(rng, *parts), f"seed {seed}: {failure.names}"
    assert proven > WORLDS


def test_any_so_many_nodes_can_be_lost():
    proven = 0
    for seed in range(WORLDS):
        rng, nodes, running, snapshot = tight_world(seed) if seed % 2 else world(seed, plain=True)
        cluster = SimulatedCluster(snapshot.structs())
        count = survival(Site(cluster), kinds=(), simulated_at_most=0).any_nodes
        if not count or not running:
            continue
        proven += 1
        for lost in list(combinations([name_of(node) for node in nodes], count))[:20]:
            for _ in range(4):
                assert all_placed_at_random(rng, *split(set(lost), nodes, running)), f"seed {seed}: {lost}"
    assert proven > WORLDS / 10


@pytest.mark.long
def test_simulations_come_to_what_whatifs_come_to():
    """But for ties: nodes are in another order. Bounds are kept, and nobody is lost of whom it is proven otherwise."""
    simulated = differs = 0
    for seed in range(0, WORLDS, 2):
        _, nodes, _, snapshot = world(seed, priorities=seed % 3 == 0)
        cluster = SimulatedCluster(snapshot.structs())
        found = survival(Site(cluster, snapshot.documents), kinds=("node", "zone"), simulated_at_most=1000)
        cluster = SimulatedCluster(snapshot.structs())
        bounds = survival(Site(cluster, snapshot.documents), kinds=("node", "zone"), simulated_at_most=0)
        most = {(each.kind, each.names): each.unplaced for each in bounds.failures}
        for failure in found.failures:
            steps = [parse_flag("removeNodes", name) for name in sorted(lost_nodes(failure, nodes))]
            if failure.kind == "zone":
                steps = [parse_flag("loseZone", failure.names[0])]
            alone = [what_if(snapshot, steps, seed=each) for each in range(3)]
            counts = {sum(each.reason == "NoLongerRuns" for each in one.broken) for one in alone}
            gone = {sum(each.reason == "PodLost" for each in one.broken) for one in alone}
            simulated += failure.answered == "simulated"
            differs += failure.unplaced not in counts
            assert failure.gone in gone, f"seed {seed}: {failure.names}"
            assert failure.unplaced <= most[failure.kind, failure.names], f"seed {seed}: {failure.names}"
    assert simulated > WORLDS / 4
    assert differs <= simulated / 50, "ties decide more often than they should"


def test_nobody_is_said_to_find_a_place_where_there_is_none():
    impossible = 0
    for seed in range(0, WORLDS, 2):
        _, nodes, running, snapshot = world(seed)
        cluster = SimulatedCluster(snapshot.structs())
        found = survival(Site(cluster), kinds=("node",))
        for failure in found.failures:
            parts = split(lost_nodes(failure, nodes), nodes, running)
            if len(parts[2]) > 4 or can_all_be_placed(*parts):
                continue
            impossible += 1
            assert failure.unplaced > 0, f"seed {seed}: {failure.names}"
            assert (
                failure.more is None
                or failure.more.at_least <= sum(each.count for each in failure.more.nodes)
                or (failure.more.left)
            )
    assert impossible > WORLDS / 40
