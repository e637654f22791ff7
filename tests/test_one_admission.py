"""What the workbench says of a manifest is what the API server does with it: admitted, refused, placed.

A cluster is drawn from a seed: nodes, quotas with scopes, limits, priority and runtime classes, and workloads that run.
A snapshot is taken of it, and a manifest is asked about there with `whatif`; then the same manifest is applied to the
embedded cluster. How many pods are made, with what they request, how many have a node and what the API server says of
the others must be the same.
"""

import random
from collections import Counter

import msgspec
import pytest

from berth.api.codec import decode
from berth.api.pod_resources import pod_requests
from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.embedded import create_nodes
from berth_cluster.hollow.template import NodeTemplate
from berth_workbench.planning.whatif import WhatIfRun
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.steps import Manifests
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.kept_fields import TAKEN
from berth_workbench.snapshot.snapshot import Snapshot
from berth_workbench.snapshot.writer import taken_from_files
from packages.cluster.tests.controllers import world as manifests
from tests.test_one_kubernetes import Embedded

SEEDS = 60
QUICK = 6
KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "Job", "Pod")
AMOUNTS = {"cpu": ("100m", "500m", "1", "2", "3"), "memory": ("64Mi", "256Mi", "1Gi", "2Gi")}


def some(rng, chances):
    """The amounts that a dice lets be there."""
    return {name: rng.choice(each) for name, each in AMOUNTS.items() if rng.random() < chances}


def quota(rng, name):
    scoped = rng.choice(
        [
            {},
            {},
            {"scopes": ["BestEffort"]},
            {"scopes": ["NotBestEffort"]},
            {"scopes": ["Terminating"]},
            {"scopes": ["NotTerminating"]},
            {"scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}},
        ]
    )  # fmt: skip
    hard = {"pods": str(rng.randint(1, 6))}
    if scoped.get("scopes") != ["BestEffort"]:
        for resource in ("requests.cpu", "limits.cpu", "memory", "limits.memory"):
            if rng.random() < 0.25:
                hard[resource] = rng.choice(["1", "4", "6500m"] if "cpu" in resource else ["512Mi", "3Gi", "8Gi"])
    if not scoped:
        for resource in ("count/pods", "count/deployments.apps", "count/jobs.batch", "count/statefulsets.apps"):
            if rng.random() < 0.15:
                hard[resource] = str(rng.randint(0, 5))
    return {"kind": "ResourceQuota", "metadata": manifests.meta(name), "spec": {"hard": hard, **scoped}}


def limit_range(rng, name):
    item = {"type": rng.choice(["Container", "Container", "Pod"])}
    if item["type"] == "Container":
        item |= {part: found for part in ("default", "defaultRequest") if (found := some(rng, 0.5))}
    item |= {part: found for part in ("min", "max") if (found := some(rng, 0.2))}
    if rng.random() < 0.2:
        item["maxLimitRequestRatio"] = {"cpu": rng.choice(["1", "2", "4"])}
    return {"kind": "LimitRange", "metadata": manifests.meta(name), "spec": {"limits": [item]}}


def classes(rng):
    for name, value in (("low", 5), ("high", 50)):
        is_default = name == "low" and rng.random() < 0.5
        yield {
            "kind": "PriorityClass", "metadata": {"name": name}, "value": value, "preemptionPolicy": "Never",
            "globalDefault": is_default,
        }  # fmt: skip
    yield {
        "kind": "RuntimeClass", "metadata": {"name": "kata"}, "handler": "kata",
        "overhead": {"podFixed": {"cpu": "250m", "memory": "64Mi"}},
        "scheduling": {"nodeSelector": {"kata": "yes"},
                       "tolerations": [{"key": "kata", "operator": "Exists", "effect": "NoSchedule"}]},
    }  # fmt: skip


def template(rng, name, kind):
    def container(number):
        limits = some(rng, 0.4)
        requests = {each: limits.get(each, amount) for each, amount in some(rng, 0.5).items()}
        return {"name": f"c{number}", "image": "x", "resources": {"requests": requests, "limits": limits}}

    spec = {"containers": [container(number) for number in range(rng.choice([1, 1, 2]))]}
    if rng.random() < 0.2:
        spec["initContainers"] = [container(9)]
    for field, values in (
        ("runtimeClassName", ["kata", "kata", "none"]),
        ("priorityClassName", ["low", "high", "high", "none"]),
        ("activeDeadlineSeconds", [100_000]),
        ("nodeSelector", [{"kata": "yes"}]),
    ):
        if rng.random() < 0.25 and (field != "activeDeadlineSeconds" or kind in ("Pod", "Job")):
            spec[field] = rng.choice(values)
    return {"metadata": {"labels": {"app": name}}, "spec": spec}


def workload(rng, name):
    kind = rng.choice(KINDS)
    made = template(rng, name, kind)
    replicas = rng.randint(1, 6)
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": "Pod", **made, "metadata": manifests.meta(name, labels={"app": name})}
    if kind == "Job":
        made["spec"]["restartPolicy"] = "Never"
        return manifests.job(name) | {
            "spec": {"parallelism": replicas, "completions": 40, "backoffLimit": 99, "template": made}
        }
    if kind == "StatefulSet":
        return manifests.stateful_set(name, replicas, podManagementPolicy="Parallel", template=made)
    return {**manifests.replica_set(name, replicas, template=made), "kind": kind}


def drawn(rng):
    """A cluster at rest."""
    found = Embedded()
    create_nodes(found.store, NodeTemplate(name_prefix="n-", cpu="6", memory="16Gi"), 2)
    kata = NodeTemplate(name_prefix="kata-", cpu="3", memory="8Gi", labels={"kata": "yes"})
    create_nodes(found.store, kata, rng.choice([0, 1]))
    for each in classes(rng):
        found.create(each)
    asked = [workload(rng, f"old{number}") for number in range(rng.randint(0, 2))]
    rules = [quota(rng, f"q{number}") for number in range(rng.randint(0, 3))]
    rules += [limit_range(rng, f"l{number}") for number in range(rng.randint(0, 2))]
    for each in rng.sample([*asked, *rules], len(asked) + len(rules)):
        refused(found, each)
        found.run(30.0)
    return found


def refused(cluster, manifest):
    """Create an object, and return what the API server says if it does not take it."""
    try:
        cluster.create(manifest)
    except StoreError as error:
        return error.message
    return ""


def snapshot_of(cluster):
    """What `berth snapshot` would have taken."""
    kinds = [kind for kind in TAKEN if kind not in ("ResourceClaimTemplate", "DeviceTaintRule", "Workload", "PodGroup")]
    documents = [
        Document(kind, msgspec.json.encode(each), "the cluster", TAKEN[kind].api_version,
                 each["metadata"].get("namespace", ""), each["metadata"]["name"])
        for kind in kinds
        for each in cluster.all(kind)
    ]  # fmt: skip
    return taken_from_files(Snapshot(documents))


def reasons(message):
    """What an API server says, without the name of the object."""
    return message.partition(" is forbidden: ")[2] or message.partition(" is invalid: ")[2] or message


def asked(snapshot, manifest):
    site = Site.of(snapshot)
    document = Document(
        manifest["kind"], msgspec.json.encode(manifest), "new", manifest["apiVersion"], "default",
        manifest["metadata"]["name"],
    )  # fmt: skip
    result = WhatIfRun(site).run([Manifests([document], "apply")])
    name = manifest["metadata"]["name"]
    made = [pod for pod in site.cluster.pods.values() if pod.metadata.labels.get("app") == name]
    requests = Counter(str(sorted(pod_requests(pod).items())) for pod in made)
    told = {each.message for each in result.pods if each.is_refused}
    told |= {each.message.removeprefix("is refused: ") for each in result.broken if each.reason == "Refused"}
    return len(made), sum(bool(pod.spec.node_name) for pod in made), requests, {reasons(each) for each in told}


def applied(cluster, manifest):
    name = manifest["metadata"]["name"]
    told = {refused(cluster, manifest)} - {""}
    cluster.run(60.0)
    made = cluster.pods(f"app={name}")
    decoded = [decode("Pod", pod) for pod in made]
    requests = Counter(str(sorted(pod_requests(pod).items())) for pod in decoded)
    events = [
        each["message"]
        for each in cluster.all("Event")
        if each["reason"] == "FailedCreate" and each["involvedObject"]["name"].startswith(name)
    ]
    told |= set(events)
    return len(made), sum(bool(pod.spec.node_name) for pod in decoded), requests, {reasons(each) for each in told}


def told_of(seed):
    """What both sides come to."""
    rng = random.Random(seed)
    cluster = drawn(rng)
    snapshot, manifest = snapshot_of(cluster), workload(rng, "new")
    return manifest, asked(snapshot, manifest), applied(cluster, manifest)


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.long] if seed >= QUICK else []) for seed in range(SEEDS)]
)
def test_a_manifest_comes_to_what_was_said_of_it(seed):
    manifest, said, done = told_of(seed)
    assert said == done, manifest
