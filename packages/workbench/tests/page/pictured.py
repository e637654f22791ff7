"""A cluster that is worth looking at: pools and zones that are unevenly full, workloads, and pods that wait."""

import json
import random

POOLS = (("general", 16, 64, 0.6), ("highmem", 16, 128, 0.8), ("gpu", 32, 256, 0.9), ("spot", 8, 32, 1.0))
WORKLOADS = (
    ("shop", "web", 250, 1024, 100),
    ("shop", "cart", 500, 2048, 50),
    ("search", "index", 2000, 8192, 50),
    ("data", "kafka", 4000, 16384, 0),
    ("shop", "cache", 100, 4096, 10),
    ("ops", "agent", 50, 64, 0),
)
ZONES = ("eu-a", "eu-b", "eu-c")
CREATED = "2026-01-01T08:00:00Z"


def write_cluster(path, nodes, seed=1):
    """Write a cluster of so many nodes as `kubectl get -o json` prints it; the same seed gives the same."""
    lots = random.Random(seed)
    made = [_node(lots, number) for number in range(nodes)]
    pods = [pod for node in made for pod in _on(lots, node)]
    pods += [_pod(("ml", "train", 8000, 65536, -10), number, gpus=8) for number in range(14)]
    pods += [_pod(("data", "giant", 40000, 65536, 0), 100 + number) for number in range(5)]
    pods += [_pod(WORKLOADS[0], 200 + number, selector={"pool": "arm"}) for number in range(9)]
    items = [*made, *pods, *_owners()]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def _node(lots, number):
    at, zone = lots.random(), lots.choice(ZONES)
    pool, cpu, memory, _ = next(each for each in POOLS if at < each[3])
    name = f"{pool}-{zone}-{number:03d}"
    room = {"cpu": str(cpu), "memory": f"{memory}Gi", "pods": "110"} | (
        {"nvidia.com/gpu": "8"} if pool == "gpu" else {}
    )
    taints = [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}] if pool == "gpu" else []
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, "pool": pool}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints, "unschedulable": lots.random() < 0.02},
        "status": {"allocatable": room, "capacity": room},
    }  # fmt: skip


def _on(lots, node):
    """Pods until a part of the node that is drawn by lot is taken."""
    room, name = node["status"]["allocatable"], node["metadata"]["name"]
    cpu, memory, gpus = 1000 * int(room["cpu"]), 1024 * int(room["memory"][:-2]), int(room.get("nvidia.com/gpu", 0))
    least = (1 - lots.uniform(0.15, 1.0)) * cpu
    while True:
        workload, wanted = lots.choice(WORKLOADS), 0
        if gpus:
            workload, wanted = ("ml", "train", 3000, 24576, -10), lots.choice((1, 2, 4))
        if cpu - workload[2] < least or memory < workload[3] or wanted > gpus:
            return
        cpu, memory, gpus = cpu - workload[2], memory - workload[3], gpus - wanted
        yield _pod(workload, lots.randrange(10**6), node=name, gpus=wanted)


def _pod(workload, number, *, node=None, gpus=0, selector=None):
    namespace, app, cpu, memory, priority = workload
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    name = f"{app}-5f6c8-{number:06d}{'' if node is None else node[-3:]}"
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"{app}-5f6c8",
        "uid": f"rs-{app}",
        "controller": True,
    }
    spec = {
        "priority": priority,
        "containers": [{"name": "c", "image": "any", "resources": {"requests": requests, "limits": {
            key: value for key, value in requests.items() if "/" in key}}}],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}] if gpus else [],
    }  # fmt: skip
    spec |= {"nodeName": node} if node else {}
    spec |= {"nodeSelector": selector} if selector else {}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "creationTimestamp": CREATED,
                     "labels": {"app": app, "pod-template-hash": "5f6c8"}, "ownerReferences": [owner]},
        "spec": spec, "status": {"phase": "Running" if node else "Pending"},
    }  # fmt: skip


def _owners():
    for namespace, app, *_ in (*WORKLOADS, ("ml", "train"), ("data", "giant")):
        selector = {"matchLabels": {"app": app}}
        template = {"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": "any"}]}}
        metadata = {"name": f"{app}-5f6c8", "namespace": namespace, "uid": f"rs-{app}"}
        spec = {"replicas": 1, "selector": selector, "template": template}
        yield {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}
        metadata, spec = {"name": app, "namespace": namespace}, {"maxUnavailable": "20%", "selector": selector}
        yield {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
