"""What `check` says of random clusters is carried out: by queues that begin anew, and by `berth.Scheduler`.

Kueue's part: fresh queues that have the job from the start admit and preempt the same. The scheduler's part: every pod
that is said to have a node is bound to it where `berth.Scheduler` finds that node feasible, and after that it has no
node for any pod that is said to have none.
"""

import random

import pytest

import berth
from berth_kueue.lives import Queues
from berth_kueue.questions import check
from berth_workbench.simulation.watch import UNWATCHED
from packages.kueue.tests import clusters
from packages.kueue.tests.clusters import GPU
from tests.effort import examples

WORLDS = examples(200)
POOLS = ("a100", "h100")


class World:
    """A random cluster: what runs has its pods on nodes, as far as there is room."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.nodes = [
            clusters.node(f"{pool}-{number}", rng.choice([4, 8]), pool)
            for pool in POOLS
            for number in range(rng.randint(1, 2))
        ]
        self.free = {each["metadata"]["name"]: int(each["status"]["allocatable"][GPU]) for each in self.nodes}
        self.queues, self.workloads, self.pods = [], [], []
        for number in range(rng.randint(1, 3)):
            self.add_queue(rng, f"team-{number}")
        self.job = clusters.job("team-0", "new", rng.randint(1, 4), rng.randint(1, 5))
        self.objects = [
            *(clusters.flavor(pool, nodeLabels={"pool": pool}) for pool in POOLS),
            *self.nodes,
            *self.queues,
            *self.workloads,
        ]

    def add_queue(self, rng, team):
        policies = {
            "reclaimWithinCohort": rng.choice(["Never", "Any", "LowerPriority"]),
            "withinClusterQueue": rng.choice(["Never", "LowerPriority"]),
        }
        quotas = {pool: rng.randint(4, 20) for pool in rng.sample(POOLS, rng.randint(1, 2))}
        queue = clusters.cluster_queue(team, quotas, rng.choice(["all", ""]), policies)
        self.queues += [clusters.namespace(team), queue, clusters.local_queue(team, team)]
        for number in range(rng.randint(0, 4)):
            pods, gpus, pool = rng.randint(1, 3), rng.randint(1, 4), next(iter(quotas))
            priority = rng.choice([-1, 0, 5])
            if rng.random() < 0.8 and self.place(team, f"run-{number}", pods, gpus, pool):
                made = clusters.workload(team, f"run-{number}", pods, gpus, number, priority, queue=team, flavor=pool)
            else:
                made = clusters.workload(team, f"wait-{number}", pods, gpus, 10 + number, priority)
            self.workloads.append(made)

    def place(self, team, name, pods, gpus, pool):
        homes = [home for home, free in self.free.items() if home.startswith(pool) for _ in range(free // gpus)][:pods]
        if len(homes) < pods:
            return False
        for number, home in enumerate(homes):
            self.free[home] -= gpus
            self.pods.append(clusters.pod(team, name, number, gpus, home))
        return True


def ran(objects):
    """Who holds quota with which flavors, after cycle upon cycle in which every evicted job ends at once."""
    queues = Queues(objects, {"start": "2026-03-02T09:00:00Z"})
    for _ in range(60):
        queues.cycle()
        queues.evict_done("*")
        queues.settle()
    return {
        key: {each.name: dict(each.flavors) for each in workload.admission.pod_set_assignments}
        for key, workload in queues.workloads.items()
        if workload.holds_quota
    }


@pytest.mark.parametrize("seed", range(WORLDS))
def test_what_is_said_is_so(seed):
    world = World(seed)
    situation = clusters.situation(*world.objects, *world.pods)
    found = check.answer(situation, check.JobCheckRequest(clusters.documents(world.job)), UNWATCHED)
    (one,) = found.workloads
    spec = {
        "queueName": "main",
        "podSets": [
            {
                "name": "main",
                "count": world.job["spec"]["parallelism"],
                "template": world.job["spec"]["template"],
            }
        ],
    }
    new = {
        "apiVersion": clusters.API,
        "kind": "Workload",
        "metadata": {"name": "job-new", "namespace": "team-0", "creationTimestamp": "2026-03-02T09:00:00Z"},
        "spec": spec,
    }
    held = ran([*world.objects, new])
    assert one.is_admitted == ("team-0/job-new" in held)
    if not one.is_admitted:
        return
    assert {each.pod_set: each.flavors for each in one.pod_sets} == held["team-0/job-new"]
    placed = [one.pods, *found.others]
    stay = {key_of(each) for each in world.workloads if "status" in each} & held.keys() - {
        each.workload for each in placed
    }
    assert not {each.workload for each in one.preempts} & stay
    carry_out(world, placed, held)


def key_of(workload):
    return f"{workload['metadata']['namespace']}/{workload['metadata']['name']}"


def carry_out(world, placed, held):
    """Let those who stay keep their nodes, bind the pods of those admitted as it is said, and try the others."""
    scheduler = berth.Scheduler()
    scheduler.add(*world.nodes)
    anew = {each.workload for each in placed}  # some of them ran, made way and came back
    for pod in world.pods:
        owner = f"{pod['metadata']['namespace']}/{pod['metadata']['ownerReferences'][0]['name']}"
        if owner in held and owner not in anew:
            scheduler.add(pod)
    specs = {key_of(each): each["spec"]["podSets"][0]["template"]["spec"] for each in world.workloads}
    specs["team-0/job-new"] = world.job["spec"]["template"]["spec"]
    without = []
    for each in placed:
        assert each.workload in held
        (flavors,) = held[each.workload].values()
        namespace, name = each.workload.split("/")
        homes = [home for home, count in each.nodes.items() for _ in range(count)]
        for number in range(each.count):
            metadata = {"name": f"{name}-{number}", "namespace": namespace}
            spec = {**specs[each.workload], "nodeSelector": {"pool": flavors[GPU]}}
            pod = {"kind": "Pod", "metadata": metadata, "spec": spec}
            if number >= len(homes):
                without.append(pod)
                continue
            assert scheduler.feasible(pod)[scheduler.node_names.index(homes[number])]
            scheduler.bind(pod, homes[number])
    assert all(scheduler.schedule(pod).node is None for pod in without)
