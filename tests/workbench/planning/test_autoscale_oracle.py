"""What `berth autoscale` says of random clusters, held against what-ifs, plain rules and an exhaustive search.

The nodes that it counts are put into the cluster by hand, with the labels that a kubelet would give them, and the same
backlog is placed anew; moves are made by hand, too, and every pod that moves is asked of the plain rules of
`tests.workbench.planning.checker`.
"""

import random

import msgspec
import pytest

from berth_workbench.planning import more_nodes
from berth_workbench.planning.node_groups import read_groups
from berth_workbench.simulation.changes import parse_flag
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import Snapshot
from tests.effort import examples
from tests.workbench.asking import autoscale_of, what_if
from tests.workbench.planning import checker
from tests.workbench.planning.test_autoscale import fit_together, machine, manifest
from tests.workbench.planning.worlds import HOSTNAME, bound, random_node, random_pod, random_world

SEEDS = range(examples(60))


def snapshot_of(manifests):
    return Snapshot([Document(each["kind"], msgspec.json.encode(each), "a world") for each in manifests])


def key_of(pod):
    return f"default/{pod['metadata']['name']}"


def as_made(template, name):
    """A node of a template as a cloud makes it: a name, and what its kubelet adds."""
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", **template["metadata"]["labels"]}
    return {**template, "kind": "Node", "metadata": {"name": name, "labels": {**labels, HOSTNAME: name}}}


class AskedWorld:
    """A random cluster with a backlog, and groups from templates that have no host name, as people write them."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.nodes, self.running = random_world(rng, owned=True)
        self.backlog = []
        for number in range(rng.randrange(1, 5)):
            app = f"app{number}"
            pod = random_pod(rng, "x", app)
            for replica in range(rng.choice([1, 2, 5])):
                name = f"{app}-{replica}"
                self.backlog.append({**pod, "metadata": {"name": name, "labels": {"app": app}}})
        rng.shuffle(self.backlog)
        self.templates = {}
        for name in ("big", "small")[: rng.randrange(1, 3)]:
            model = random_node(rng, 0)
            labels = {key: value for key, value in model["metadata"]["labels"].items() if key != HOSTNAME}
            self.templates[name] = {"metadata": {"labels": labels}, "spec": {}, "status": model["status"]}
        self.groups = [
            {"name": name, "template": template, "price": rng.randrange(1, 5), "max": rng.choice([2, 50])}
            for name, template in self.templates.items()
        ]

    def snapshot(self, *more, pods=None):
        standing = [bound(pod, node) for pod, node in self.running]
        return snapshot_of([*self.nodes, *more, *standing, *(self.backlog if pods is None else pods)])

    def rest(self):
        """Let the scheduler place what it can for good; return the pods that have no place, in their order."""
        at_rest = {each.pod: each.node for each in what_if(self.snapshot()).pods}
        self.running += [(pod, node) for pod in self.backlog if (node := at_rest.get(key_of(pod)))]
        return [pod for pod in self.backlog if not at_rest.get(key_of(pod))]

    def asked(self):
        return autoscale_of(self.snapshot(), read_groups({"groups": self.groups}), prices=None)


def placed_in(result, pods):
    nodes = {each.pod: each.node for each in result.pods}
    return sum(nodes.get(key_of(pod)) is not None for pod in pods)


@pytest.mark.parametrize("seed", SEEDS)
def test_with_the_nodes_that_are_told_as_many_pods_have_a_place_as_are_told(seed):
    world = AskedWorld(seed)
    found = world.asked()
    waiting = world.rest()
    assert found.backlog == len(waiting)
    new = [
        as_made(world.templates[each.like], f"{each.like}-{n}") for each in found.more.nodes for n in range(each.count)
    ]
    ordered = waiting if found.more_in_turn is None else by_size(world, waiting)
    assert placed_in(what_if(world.snapshot(*new, pods=ordered)), waiting) >= found.more.placed
    for each in found.more.nodes:
        assert each.count <= next(group["max"] for group in world.groups if group["name"] == each.like)


def by_size(world, pods):
    rooms = {}
    for template in world.templates.values():
        for resource, amount in template["status"]["allocatable"].items():
            rooms[resource] = max(rooms.get(resource, 0), checker.number(amount) * 1000)
    shares = {
        key_of(pod): max(
            (amount / rooms[name] for name, amount in checker.requests_of(pod).items() if name in rooms), default=0
        )
        for pod in pods
    }
    return sorted(pods, key=lambda pod: shares[key_of(pod)], reverse=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_moves_that_are_told_can_be_made_and_make_room(seed):
    world = AskedWorld(seed)
    found = world.asked().moving
    if found is None:
        return
    waiting = world.rest()
    goes = {each.pod: each for each in found.moves}
    assert all(node == goes[key_of(pod)].before for pod, node in world.running if key_of(pod) in goes)
    world.running = [(pod, goes[key_of(pod)].after if key_of(pod) in goes else node) for pod, node in world.running]
    by_name = {node["metadata"]["name"]: node for node in world.nodes}
    for number, (pod, node) in enumerate(world.running):
        others = world.running[:number] + world.running[number + 1 :]
        if key_of(pod) in goes:
            assert checker.fits(pod, by_name[node], world.nodes, others), f"{key_of(pod)} on {node}"
    assert placed_in(what_if(world.snapshot(pods=waiting)), waiting) >= found.placed


def test_the_clusters_have_moves_to_find():
    assert sum(AskedWorld(seed).asked().moving is not None for seed in SEEDS) > 1


@pytest.mark.parametrize("seed", SEEDS)
def test_one_kind_of_node_is_counted_as_whatif_counts_it_and_never_below_the_least(seed):
    """Pods of one resource on nodes of one size, so that the fewest nodes can be found by trying everything."""
    rng = random.Random(seed)
    room = rng.randrange(4, 11)
    sizes = [rng.randrange(1, room + 1) for _ in range(rng.randrange(1, 9))]
    pods = [manifest(f"p{number}", size) for number, size in enumerate(sizes)]
    full = [machine("a0", "a", room), manifest("full", room, "a0", priority=9)]
    found = autoscale_of(snapshot_of([*full, *pods]), read_groups({"groups": [{"name": "a", "price": 1}]}))
    (added,) = found.more.nodes
    least = next(n for n in range(1, len(sizes) + 1) if fit_together(sorted(sizes, reverse=True), [room] * n))
    assert found.more.at_least <= least <= added.count
    if found.more.is_least:
        assert added.count == least
    largest_first = sorted(pods, key=lambda pod: -checker.requests_of(pod)["cpu"])
    ordered = pods if found.more_in_turn is None else largest_first
    result = what_if(snapshot_of([*full, *ordered]), [parse_flag("addNodes", f"{added.count}=a0")])
    assert placed_in(result, pods) == found.more.placed == len(pods)
    if found.more_in_turn is not None:
        (in_turn,) = found.more_in_turn.nodes
        assert in_turn.count > added.count
        fewer = what_if(snapshot_of([*full, *pods]), [parse_flag("addNodes", f"{added.count}=a0")])
        assert placed_in(fewer, pods) < len(pods), "the order does not matter after all"


def test_what_a_part_of_a_backlog_shows_is_proven_with_all_of_it(monkeypatch):
    """Pods of two sizes, in any order, of which every fourth is tried first; some are kept apart, two of a kind."""
    monkeypatch.setattr(more_nodes, "SAMPLED", 5)
    monkeypatch.setattr(more_nodes, "SAMPLED_NODES", 5)
    monkeypatch.setattr(more_nodes, "PART_AT_LEAST", 4)
    guesses, clear = [], 0
    guess = more_nodes._guess
    monkeypatch.setattr(more_nodes, "_guess", lambda *asked: guesses.append(guess(*asked)) or guesses[-1])
    for seed in range(8):
        rng = random.Random(seed)
        sizes = {size: rng.choice([20, 40, 50]) for size in rng.sample(range(1, 8), 2)}
        # From their own kind: from all others, it would be chance how many nodes those leave to them.
        wants = {
            size: {
                "affinity": {
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": f"p{size}"}}}
                        ]
                    }
                }
            }
            for size in sizes
        }
        kept_apart = rng.choice([None, *sizes])
        pods = [
            manifest(f"p{size}-{number}", size, **(wants[size] if size == kept_apart else {}))
            for size, count in sizes.items()
            for number in range(count)
        ]
        for each in pods:
            each["metadata"]["labels"] = {"app": each["metadata"]["name"].partition("-")[0]}
        if rng.random() < 0.5:
            rng.shuffle(pods)
        full = [machine("a0", "a", 10), manifest("full", 10, "a0", priority=9)]
        found = autoscale_of(snapshot_of([*full, *pods]), read_groups({"groups": [{"name": "a", "price": 1}]}))
        largest_first = sorted(pods, key=lambda pod: -checker.requests_of(pod)["cpu"])
        (added,) = found.more.nodes
        assert found.more.at_least <= added.count
        ordered = pods if found.more_in_turn is None else largest_first
        result = what_if(snapshot_of([*full, *ordered]), [parse_flag("addNodes", f"{added.count}=a0")])
        assert placed_in(result, pods) == found.more.placed == len(pods), f"seed {seed}"
        if found.more_in_turn is not None:
            clear += found.more_in_turn.tried_with is not None
            assert found.more_in_turn.nodes[0].count > added.count
            assert found.more_in_turn.at_least == found.more.at_least
    assert any(guesses) and clear
