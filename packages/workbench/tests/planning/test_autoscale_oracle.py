"""What `berth autoscale` says of random clusters, held against what-ifs, plain rules and an exhaustive search.

The nodes that it counts are put into the cluster by hand, with the labels that a kubelet would give them, and the same
backlog is placed anew; moves are made by hand, too, and every pod that moves is asked of the plain rules of
`checker.py`. In mixed worlds, with gangs, spreading, budgets and pending pods, all that is told
is done in a fresh simulation: nodes are added, and one fewer of each kind; nodes are removed in the order told; pods
move.
"""

import random
from itertools import groupby

import msgspec
import pytest

from berth.api.pod import Pod
from berth.api.quantity import milli_value, value
from berth.core.intake import ObjectEvent
from berth_workbench.planning import more_nodes
from berth_workbench.planning.autoscale import autoscale
from berth_workbench.planning.node_groups import groups_in, read_groups
from berth_workbench.simulation.budgets import is_active
from berth_workbench.simulation.changes import Cordon, Drain, Evict, RemoveNodes, Uncordon, parse_flag
from berth_workbench.simulation.measures import is_pending
from berth_workbench.simulation.node_changes import add_nodes_like
from berth_workbench.simulation.operations import carry_out
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import Snapshot
from packages.workbench.tests.asking import autoscale_of, what_if
from packages.workbench.tests.planning import checker
from packages.workbench.tests.planning.mixed_worlds import MixedWorld, worlds
from packages.workbench.tests.planning.test_autoscale import fit_together, machine, manifest
from packages.workbench.tests.planning.worlds import HOSTNAME, bound, random_node, random_pod, random_world
from tests.effort import examples

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


# -- carried out -----------------------------------------------------------------------------------------------------


class Backlog(MixedWorld):
    """A mixed world in which more pods wait, some of them for a number of domains, and groups to choose nodes from."""

    def __init__(self, seed):
        super().__init__(seed)
        rng = self.rng
        for name in "uvw"[: rng.randrange(1, 4)]:
            spec, count = self._spec(name), rng.randrange(1, 9)
            if rng.random() < 0.4:
                spec["schedulingGroup"] = {"podGroupName": name}
                policy = {"gang": {"minCount": rng.choice([count, count, rng.randrange(1, count + 1)])}}
                self.others.append(group_object(name, policy))
            for number in range(count):
                self._pod(f"{name}{number}", "ReplicaSet", name, {"app": name}, spec, is_pending=True)
        for number in range(7, 7 + rng.randrange(0, 3)):
            more = self._node(number)
            more["spec"] |= {"unschedulable": True} if rng.random() < 0.5 else {}
            self.nodes.append(more)
        model = self._node(9)
        labels = {key: value for key, value in model["metadata"]["labels"].items() if key != HOSTNAME}
        template = {"metadata": {"labels": labels}, "spec": model["spec"], "status": model["status"]}
        groups = [{"name": "t", "template": template}]
        groups += [{"name": pool} for pool in "pq" if any(self._is_in(pool, each) for each in self.nodes)]
        priced = rng.random() < 0.7
        for each in groups:
            each |= {"max": rng.choice([2, 50, 50])} | ({"price": rng.randrange(1, 5)} if priced else {})
        self.specs = read_groups({"groups": rng.sample(groups, rng.randrange(1, len(groups) + 1))})

    def _spec(self, name):
        spec = super()._spec(name)
        for each in spec.get("topologySpreadConstraints", ()):
            if self.rng.random() < 0.4:
                each["minDomains"] = self.rng.randrange(1, 5)
        return spec

    @staticmethod
    def _is_in(pool, node):
        return node["metadata"]["labels"]["pool"] == pool

    def groups(self, site):
        return groups_in(self.specs, site.cluster.nodes.values())


def group_object(name, policy):
    metadata = {"name": name, "namespace": "default", "uid": f"PodGroup-{name}"}
    version = "scheduling.k8s.io/v1alpha1"
    return {"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": {"schedulingPolicy": policy}}


class CarriedOut:
    """A fresh simulation of a world, in which what an answer says is done."""

    def __init__(self, world):
        self.site = world.at_rest()
        self.cluster = self.site.cluster
        self.models = {each.spec.name: each.model for each in world.groups(self.site)}
        self.ran = {pod.key for pod in self.cluster.of(Pod) if pod.spec.node_name and is_active(pod)}
        self.waited = {pod.key for pod in self.cluster.of(Pod) if is_pending(pod) and not pod.spec.scheduling_gates}

    def anew(self, plan, groups):
        """Have the pods come in the order that the answer is about."""
        if plan.more_in_turn is None:
            return self
        most = {}
        for group in groups:
            for name, amount in group.model.status.allocatable.items():
                amount = milli_value(amount) if name == "cpu" else value(amount)
                most[name] = max(most.get(name, 0), amount)

        def share(pod):
            requests = self.cluster.core.intake.info(pod).requests
            return max((amount / most[name] for name, amount in requests.items() if most.get(name)), default=0)

        turns = {each.pod.uid: (each.timestamp, n) for n, each in enumerate(self.cluster.core.queue)}
        waiting = [self.cluster.objects["Pod", key] for key in self.waited]
        waiting = sorted((p for p in waiting if p.metadata.uid in turns), key=lambda pod: turns[pod.metadata.uid])
        for pod in sorted(waiting, key=share, reverse=True):
            self.cluster.handle(ObjectEvent("DELETED", "Pod", pod))
            self.cluster.handle(ObjectEvent("ADDED", "Pod", pod))
        return self

    def add(self, counts):
        for name in self.models:
            add_nodes_like(self.site, self.models[name], counts.get(name, 0))
        self.site.settle()
        return self

    def remove(self, names):
        for name in names:
            for change in (Drain([name]), RemoveNodes([name])):
                carry_out(self.site, change)
            assert self.lost == set(), f"{self.lost} have no place without {name}"
        return self

    def move(self, moves):
        for name, some in groupby(moves, key=lambda each: each.before):
            keys = [each.pod for each in some]
            carry_out(self.site, Cordon([name]))
            carry_out(self.site, Evict(keys))
            for key in keys:
                assert self.cluster.objects["Pod", key].spec.node_name
            carry_out(self.site, Uncordon([name]))
        assert self.lost == set()
        return self

    @property
    def lost(self):
        return {key for key in self.ran if not self._has_place(key)}

    @property
    def left(self):
        """How many pods have no place that waited, or had to make way."""
        return sum(not self._has_place(key) for key in self.waited | self.ran)

    def _has_place(self, key):
        pod = self.cluster.objects.get(("Pod", key))
        return pod is not None and bool(pod.spec.node_name)


def counts_of(more):
    return {each.like: each.count for each in more.nodes}


def one_fewer(more):
    counts = counts_of(more)
    return [{**counts, name: count - 1} for name, count in counts.items()]


@worlds(6)
def test_what_is_told_is_what_comes_of_it(seeds):
    added = gangs = removed = 0
    for seed in seeds:
        world = Backlog(seed)
        site = world.at_rest()
        groups = world.groups(site)
        plan = autoscale(site, groups, used_at_most=1.0)

        def fresh(world=world, plan=plan, groups=groups):
            return CarriedOut(world).anew(plan, groups)

        counts = counts_of(plan.more)
        assert fresh().add(counts).left == plan.more.left, f"seed {seed}: {counts}"
        assert plan.more.one_fewer_fails, f"seed {seed}"
        for fewer in one_fewer(plan.more):
            assert fresh().add(fewer).left > plan.more.left, f"seed {seed}: {fewer} do as well as {counts}"
        names = [each.node for each in plan.removable]
        try:
            assert CarriedOut(world).remove(names).left <= plan.backlog, f"seed {seed}"
            assert fresh().add(counts).remove(names).left <= plan.more.left, f"seed {seed}"
            assert CarriedOut(world).remove(names).anew(plan, groups).add(counts).left <= plan.more.left, f"seed {seed}"
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {names} can go, {counts} are added") from error
        if plan.moving is not None:
            moves, more = plan.moving.moves, plan.moving.more
            assert CarriedOut(world).move(moves).left == plan.backlog - plan.moving.placed
            assert CarriedOut(world).move(moves).add(counts_of(more)).left == more.left, f"seed {seed}"
            for fewer in one_fewer(more):
                assert CarriedOut(world).move(moves).add(fewer).left > more.left, f"seed {seed}: moves, and {fewer}"
            assert CarriedOut(world).remove(names).move(moves).add(counts_of(more)).left <= more.left, f"seed {seed}"
        added, removed = added + bool(counts), removed + bool(names)
        gangs += bool(counts) and any("schedulingGroup" in pod["spec"] for pod in world.pods)
    assert added > len(seeds) / 4 and removed > len(seeds) / 8 and gangs
