"""Small clusters drawn by lot, pods that preempt there, and changes between two of them."""

import msgspec

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.testing.invariants import decide
from packages.scheduler.tests.plugins.preemption.support import budget

APPS = ("web", "db", "batch")
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def small_node(rng, index):
    size = {"cpu": f"{rng.choice((2, 3, 4))}", "memory": f"{rng.choice((2, 4))}Gi", "pods": f"{rng.choice((3, 5, 9))}"}
    node = make_node(f"n{index}").capacity(size).label(ZONE, f"z{index % 3}")
    return node.taint("dedicated", "x", "NoSchedule") if rng.random() < 0.1 else node


def small_pod(rng, name, priorities):
    pod = make_pod(name).priority(rng.choice(priorities)).label("app", rng.choice(APPS))
    pod.request(cpu=f"{rng.choice((100, 500, 1000, 1500))}m", memory=f"{rng.choice((100, 500, 1000))}Mi")
    if rng.random() < 0.15:
        pod.host_port(rng.choice((80, 443)))
    if rng.random() < 0.1:
        pod.pod_anti_affinity(rng.choice((HOST, ZONE)), {"app": rng.choice(APPS)})
    return pod


def cluster_of(rng):
    count = rng.randint(1, 7)
    cluster = VirtualCluster(*(small_node(rng, index) for index in range(count)), seed=rng.randint(0, 99))
    for index in range(rng.randint(0, 4 * count)):
        pod = small_pod(rng, f"run-{index}", (-5, 0, 0, 3, 7, 50)).node(f"n{rng.randrange(count)}")
        if rng.random() < 0.8:
            pod.set_status(startTime=f"2026-01-0{rng.randint(1, 4)}T00:00:00Z")
        cluster.put(pod)
    for index in range(rng.randint(0, 3)):
        disrupted = [f"run-{rng.randint(0, 9)}"] if rng.random() < 0.3 else []
        cluster.put(budget(f"b{index}", {"app": rng.choice(APPS)}, rng.randint(0, 2), disrupted=disrupted))
    for index in range(rng.choice((0, 0, 1, 2, 8))):
        promised = small_pod(rng, f"promised-{index}", (3, 10, 50)).info()
        cluster.core.nominator.nominate(promised, f"n{rng.randrange(count)}")
    return cluster


def preemptor(rng):
    pod = small_pod(rng, "new", (1, 5, 10)).request(cpu=f"{rng.choice((0, 1, 2))}")
    if rng.random() < 0.25:
        pod.spread(rng.choice((HOST, ZONE)), {"app": rng.choice(APPS)})
    if rng.random() < 0.15:
        pod.pod_affinity(ZONE, {"app": rng.choice(APPS)})
    return pod


def outcome(cluster, pod, memos, seed):
    cluster.rng.seed(seed)
    attempt = decide(cluster.core, pod, memos=memos)
    victims = [victim.name for victim in attempt.outcome.victims]
    return attempt.outcome.fits, attempt.outcome.nominated_node_name, victims, attempt.outcome.message


def stir(rng, cluster):
    """Change something, so that what is kept must be brought up to date."""
    pods = [key for kind, key in cluster.objects if kind == "Pod"]
    nodes = [key for kind, key in cluster.objects if kind == "Node"]
    change = rng.randrange(8)
    if change == 0 and pods:
        cluster.delete("Pod", rng.choice(pods))
    elif change == 1:
        cluster.put(small_pod(rng, f"late-{rng.random()}", (0, 3)).node(rng.choice(nodes)))
    elif change == 2 and len(nodes) > 1:
        cluster.delete("Node", rng.choice(nodes))
    elif change == 3:
        cluster.put(make_node(f"late-{rng.randint(0, 9)}").capacity(cpu="3", memory="4Gi", pods="4").label(ZONE, "z0"))
    elif change == 4:
        cluster.put(budget("b0", {"app": rng.choice(APPS)}, rng.randint(0, 2)))
    elif change == 5 and pods:
        # The kubelet says when a pod has started, which nothing that is counted changes by.
        pod = cluster.objects["Pod", rng.choice(pods)]
        started = msgspec.structs.replace(pod.status, start_time=f"2026-01-0{rng.randint(1, 9)}T00:00:00Z")
        cluster.put(msgspec.structs.replace(pod, status=started))
    elif change == 6:
        cluster.core.nominator.withdraw(rng.choice(("promised-0", "promised-1")))
    else:
        cluster.core.nominator.nominate(small_pod(rng, "promised-0", (3, 50)).info(), rng.choice(nodes))
