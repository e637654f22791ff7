"""Clusters with queues, put together object by object, as snapshots."""

import json

from berth_workbench.simulation.situation import Situation
from berth_workbench.snapshot.documents import parse_documents
from berth_workbench.snapshot.snapshot import Snapshot

API = "kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"
NEVER = {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never", "borrowWithinCohort": {"policy": "Never"}}


def namespace(name):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def flavor(name, **spec):
    return {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}


def cluster_queue(name, quotas, cohort="all", preemption=None, **spec):
    """`quotas` are GPUs by flavor; CPU is never scarce."""
    flavors = [
        {
            "name": each,
            "resources": [{"name": "cpu", "nominalQuota": "1000"}, {"name": GPU, "nominalQuota": str(gpus)}],
        }
        for each, gpus in quotas.items()
    ]
    whole = {
        "cohortName": cohort,
        "namespaceSelector": {},
        "queueingStrategy": "BestEffortFIFO",
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
        "preemption": NEVER | (preemption or {}),
        "stopPolicy": "None",
        "resourceGroups": [{"coveredResources": ["cpu", GPU], "flavors": flavors}],
    }
    return {"apiVersion": API, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": whole | spec}


def local_queue(space, queue, name="main"):
    metadata = {"name": name, "namespace": space}
    spec = {"clusterQueue": queue, "stopPolicy": "None"}
    return {"apiVersion": API, "kind": "LocalQueue", "metadata": metadata, "spec": spec}


def template(gpus, cpu="1"):
    resources = {"requests": {"cpu": cpu}}
    if gpus:
        resources = {"requests": {"cpu": cpu, GPU: str(gpus)}, "limits": {GPU: str(gpus)}}
    return {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "app", "resources": resources}]}}


def workload(space, name, pods, gpus, minute=0, priority=0, **admitted):
    """`admitted` has the ClusterQueue as `queue`, and the flavor as `flavor`."""
    made = {
        "apiVersion": API,
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": space,
            "uid": f"{space}-{name}",
            "creationTimestamp": f"2026-03-02T08:{minute:02d}:00Z",
            "ownerReferences": [{"kind": "Job", "name": name, "uid": f"job-{space}-{name}", "controller": True}],
        },
        "spec": {
            "active": True,
            "queueName": "main",
            "priority": priority,
            "podSets": [{"name": "main", "count": pods, "template": template(gpus)}],
        },
    }
    if admitted:
        since = {"reason": "x", "lastTransitionTime": f"2026-03-02T08:{minute:02d}:30Z"}
        used = {
            "name": "main",
            "count": pods,
            "flavors": {"cpu": admitted["flavor"], GPU: admitted["flavor"]},
            "resourceUsage": {"cpu": str(pods), GPU: str(pods * gpus)},
        }
        made["status"] = {
            "admission": {"clusterQueue": admitted["queue"], "podSetAssignments": [used]},
            "conditions": [{"type": each, "status": "True", **since} for each in ("QuotaReserved", "Admitted")],
        }
    return made


def node(name, gpus=8, pool="h100"):
    allocatable = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"pool": pool, "kubernetes.io/hostname": name}},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod(space, job, number, gpus, on):
    """A pod of a workload that runs."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"job-{space}-{job}", "controller": True}
    metadata = {
        "name": f"{job}-{number}",
        "namespace": space,
        "uid": f"{space}-{job}-{number}",
        "ownerReferences": [owner],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**template(gpus)["spec"], "nodeName": on},
        "status": {"phase": "Running"},
    }


def job(space, name, pods, gpus, **labels):
    labels = {"kueue.x-k8s.io/queue-name": "main", **labels}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": space, "labels": labels},
        "spec": {"parallelism": pods, "completions": pods, "template": template(gpus)},
    }


def documents(*objects):
    text = "\n".join(map(json.dumps, objects)).encode()
    return tuple(parse_documents(text, "cluster.jsonl"))


def situation(*objects, steps=()):
    return Situation(Snapshot(documents(*objects)), steps=steps)


def two_teams(**of_team_a):
    """team-b runs 16 GPUs, of which 4 are team-a's; three of team-a's workloads wait, and 6 GPUs are free."""
    return [
        namespace("team-a"),
        namespace("team-b"),
        *(node(f"gpu-{number}") for number in range(3)),
        flavor("h100", nodeLabels={"pool": "h100"}),
        cluster_queue("team-a", {"h100": 12}, **of_team_a),
        cluster_queue("team-b", {"h100": 12}),
        local_queue("team-a", "team-a"),
        local_queue("team-b", "team-b"),
        workload("team-b", "eval", 2, 8, 1, queue="team-b", flavor="h100"),
        workload("team-a", "small", 1, 2, 2, queue="team-a", flavor="h100"),
        workload("team-a", "first", 2, 5, 3),
        workload("team-a", "second", 3, 3, 5),
        workload("team-a", "tiny", 1, 1, 9),
        pod("team-b", "eval", 0, 8, "gpu-0"),
        pod("team-b", "eval", 1, 8, "gpu-1"),
        pod("team-a", "small", 0, 2, "gpu-2"),
    ]
