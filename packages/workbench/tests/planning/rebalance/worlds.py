"""Small random clusters in plain Python: their rules, every plan there is, and a check of plans in order.

Nothing here asks the scheduler. Rules that these worlds have: CPU, number of pods, a node selector, a host port,
anti-affinity between replicas on one node, spread of replicas over zones, disruption budgets. `documents` gives the
same world to the code under test.
"""

import json
import random
from collections import Counter, deque
from typing import NamedTuple

from berth.core.builders import make_node, make_pod
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import Snapshot

WORTH_A_MOVE = 400  # as the page on rebalancing says
ABOVE_MOVES = 100_000
PLACING = ("free-shape", "place-pending")


class Machine(NamedTuple):
    name: str
    cpu: int
    pods: int
    zone: str
    disk: str
    price: int = 1


class Worker(NamedTuple):
    name: str
    app: str
    cpu: int
    node: str
    anti: bool = False
    spread: bool = False
    disk: str = ""
    port: int = 0
    memory: int = 256

    def is_like(self, other):
        return self._replace(name="") == other._replace(name="")

    @property
    def has_rules(self):
        return self.anti or self.spread or bool(self.disk)


class World(NamedTuple):
    machines: tuple
    workers: tuple
    allowed: dict  # disruptions that an app's budget allows; an app without one is in no budget
    newcomers: tuple = ()

    def start(self):
        return {worker.name: worker.node for worker in self.workers}

    def waiting(self):
        """The newcomers that fit nowhere as it is."""
        start = self.start()
        return tuple(each for each in self.newcomers if not any(self.fits(each, node, start) for node in self.machines))

    def is_fixed(self, worker):
        return self.allowed.get(worker.app, 1) < 1

    def fits(self, worker, machine, placement):
        """Whether a pod may go to a node, with the others where `placement` has them."""
        others = [
            each for each in (*self.workers, *self.newcomers) if each.name != worker.name and placement.get(each.name)
        ]
        here = [each for each in others if placement[each.name] == machine.name]
        if sum(each.cpu for each in here) + worker.cpu > machine.cpu or len(here) >= machine.pods:
            return False
        if worker.port and any(each.port == worker.port for each in here):
            return False
        return self.keeps_rules(worker, machine, others, placement)

    def keeps_rules(self, worker, machine, others, placement):
        if worker.disk and machine.disk != worker.disk:
            return False
        alike = [each for each in others if each.app == worker.app]
        if any(placement[each.name] == machine.name and (each.anti or worker.anti) for each in alike):
            return False
        if worker.spread:
            counts = {each.zone: 0 for each in self.machines if not worker.disk or each.disk == worker.disk}
            zone_of = {each.name: each.zone for each in self.machines if not worker.disk or each.disk == worker.disk}
            for each in alike:
                if placement[each.name] in zone_of:
                    counts[zone_of[placement[each.name]]] += 1
            return counts[machine.zone] + 1 - min(counts.values()) <= 1
        return True

    def broken(self, placement):
        by_name = {machine.name: machine for machine in self.machines}
        found = set()
        for worker in self.workers:
            others = [
                each
                for each in (*self.workers, *self.newcomers)
                if each.name != worker.name and placement.get(each.name)
            ]
            if worker.has_rules and not self.keeps_rules(worker, by_name[placement[worker.name]], others, placement):
                found.add(worker.name)
        return found

    def documents(self, *, has_newcomers=False):
        """The world as the code under test reads it; its newcomers are pending there, or not there at all."""
        made = []
        for machine in self.machines:
            node = make_node(machine.name).capacity(cpu=f"{machine.cpu}m", memory="4Gi", pods=machine.pods)
            made.append(node.zone(machine.zone).label("disk", machine.disk))
        made += [self.builder(worker).node(worker.node).phase("Running") for worker in self.workers]
        made += [self.builder(newcomer) for newcomer in self.newcomers if has_newcomers]
        found = [Document(each.document["kind"], json.dumps(each.document).encode(), "a test") for each in made]
        for app, allowed in sorted(self.allowed.items()):
            budget = {
                "kind": "PodDisruptionBudget",
                "metadata": {"name": app, "namespace": "default", "uid": f"pdb-{app}"},
                "spec": {"selector": {"matchLabels": {"app": app}}, "maxUnavailable": allowed},
            }
            found.append(Document("PodDisruptionBudget", json.dumps(budget).encode(), "a test"))
        return Snapshot(found)

    def builder(self, worker):
        pod = make_pod(worker.name).label("app", worker.app).owned_by("ReplicaSet", worker.app)
        pod.request(cpu=f"{worker.cpu}m", memory=f"{worker.memory}Mi")
        if worker.anti:
            pod.pod_anti_affinity("kubernetes.io/hostname", {"app": worker.app})
        if worker.spread:
            pod.spread("topology.kubernetes.io/zone", {"app": worker.app})
        if worker.disk:
            pod.node_selector({"disk": worker.disk})
        if worker.port:
            pod.host_port(worker.port)
        return pod


def random_world(seed, *, machines=3, workers=5, newcomers=0):
    """A world whose pods fit where they are by CPU, but may break rules."""
    rng = random.Random(seed)
    nodes = tuple(
        Machine(
            name=f"n{i}",
            cpu=rng.choice((2000, 3000, 4000)),
            pods=rng.choice((3, 4, 8)),
            zone="ab"[i % 2],
            disk=rng.choice(("ssd", "ssd", "hdd")),
            price=rng.choice((1, 2, 3)),
        )
        for i in range(machines)
    )
    kinds = {
        app: {
            "anti": rng.random() < 0.25,
            "spread": rng.random() < 0.35,
            "disk": "ssd" if rng.random() < 0.2 else "",
            "port": 8080 if rng.random() < 0.15 else 0,
        }
        for app in "xyz"
    }
    pods, free = [], {node.name: [node.cpu, node.pods, set()] for node in nodes}
    for i in range(workers):
        app = rng.choice("xyz")
        cpu = rng.choice((300, 500, 800, 1000, 1500))
        port = kinds[app]["port"]
        rooms = [name for name, (cpus, count, ports) in free.items() if cpus >= cpu and count and port not in ports]
        if not rooms:
            continue
        node = rng.choice(rooms)
        free[node][0] -= cpu
        free[node][1] -= 1
        if port:
            free[node][2].add(port)
        pods.append(Worker(f"p{i}-{app}", app, cpu, node, **kinds[app]))
    allowed = {app: rng.choice((0, 1, 2)) for app in "xyz" if rng.random() < 0.4}
    visitors = tuple(
        Worker(f"newcomer{i}", "newcomer", rng.choice((1500, 2000, 2500)), "", disk=rng.choice(("", "", "ssd")))
        for i in range(newcomers)
    )
    return World(nodes, tuple(pods), allowed, visitors)


# -- totals, as the page on rebalancing gives them --------------------------------------------------------------------


def total(world, goal, placement, moves):
    if goal == "empty-nodes":
        used = {node for name, node in placement.items() if node}
        return ABOVE_MOVES * sum(1000 * each.price for each in world.machines if each.name in used) + moves
    if goal == "repair-spread":
        return ABOVE_MOVES * len(world.broken(placement)) + moves
    if goal in PLACING:
        return ABOVE_MOVES * sum(not placement.get(each.name) for each in world.newcomers) + moves
    squares = 0
    for amount, has in (
        (lambda each: each.cpu, lambda machine: machine.cpu),
        (lambda each: each.memory, lambda _: 4096),
    ):
        mean = sum(map(amount, world.workers)) * 1000 // sum(map(has, world.machines))
        for machine in world.machines:
            here = sum(amount(each) for each in world.workers if placement[each.name] == machine.name)
            squares += (here * 1000 // has(machine) - mean) ** 2
    return squares + WORTH_A_MOVE * moves


def best_total(world, goal, *, max_moves, max_per_workload=None, wanted=None):
    """The lowest total of all plans: every sequence of moves that the rules allow, at most so many.

    Newcomers that are not `wanted` may get a place, but do not count.
    """
    start = world.start()
    names = sorted(start)
    at_start = world.broken(start)
    by_name = {each.name: each for each in (*world.workers, *world.newcomers)}
    counted = world if wanted is None else world._replace(newcomers=tuple(wanted))
    best = total(counted, goal, start, 0)
    seen = {}
    queue = deque([(tuple(start[name] for name in names), ())])
    seen[queue[0]] = 0
    while queue:
        state = queue.popleft()
        moves = seen[state]
        placement = dict(zip(names, state[0], strict=True))
        for ending in _with_newcomers(world, placement, counted.newcomers) if goal in PLACING else [placement]:
            if world.broken(ending) <= at_start:
                best = min(best, total(counted, goal, ending, moves))
        if moves == max_moves:
            continue
        counts = Counter(dict(state[1]))
        for name in names:
            worker = by_name[name]
            if world.is_fixed(worker) or (max_per_workload is not None and counts[worker.app] >= max_per_workload):
                continue
            after = tuple(sorted((counts + Counter([worker.app])).items())) if max_per_workload is not None else ()
            for machine in world.machines:
                if machine.name == placement[name] or not world.fits(worker, machine, {**placement, name: ""}):
                    continue
                if any(
                    world.fits(each, machine, placement) for each in world.newcomers if each not in counted.newcomers
                ):
                    continue  # the node is open to the moved pod, so that one which waits takes the room first
                reached = tuple(machine.name if other == name else placement[other] for other in names), after
                if reached not in seen:
                    seen[reached] = moves + 1
                    queue.append(reached)
    return best


def _with_newcomers(world, placement, wanted):
    """All ways to place newcomers, in their order: none gets room that one before it, without a node, would take.

    Which of several alike gets it makes no difference, as long as all of them count or none does.
    """
    endings = [dict(placement)]
    for number, newcomer in enumerate(world.newcomers):
        more = []
        for ending in endings:
            more.append({**ending, newcomer.name: ""})
            without = [each for each in world.newcomers[:number] if not ending[each.name]]
            before = [
                each for each in without if not each.is_like(newcomer) or (each in wanted) != (newcomer in wanted)
            ]
            more += [
                {**ending, newcomer.name: machine.name}
                for machine in world.machines
                if world.fits(newcomer, machine, ending)
                and not any(world.fits(other, machine, ending) for other in before)
            ]
        endings = more
    return endings


def follow(world, plan, *, max_moves, max_per_workload=None):
    """Make a plan's moves one by one by the rules above; returns where everything is, or fails."""
    placement, counts = world.start(), Counter()
    by_name = {each.name: each for each in world.workers}
    machines = {each.name: each for each in world.machines}
    for step in plan.steps:
        if step.action != "evict":
            continue
        name = step.pod.removeprefix("default/")
        worker = by_name[name]
        assert placement[name] == step.node, f"{name} is not on {step.node}"
        disrupted = 1  # this one: the one before runs again
        assert world.allowed.get(worker.app, 1) >= disrupted, f"the budget of {worker.app} is broken"
        assert world.fits(worker, machines[step.to], {**placement, name: ""}), f"{name} does not fit on {step.to}"
        placement[name] = step.to
        counts[worker.app] += 1
    assert sum(counts.values()) == plan.moves <= max_moves
    assert max_per_workload is None or max(counts.values(), default=0) <= max_per_workload
    return placement
