"""Random clusters of workloads: what is told of a change comes true when it is made in another way.

The search rolls a change out on the cluster that it looks at, and takes it back. Here the patches are applied to the
manifests of nodes and workloads, all pods of a changed template are made anew at once, and a cluster that is made of
these documents is asked where everybody goes. As many pods of the workload have a place as was told, and nobody else
has lost his who was not named.
"""

import copy
import json
import random
from collections import Counter

import pytest

from berth.core.builders import make_node, make_pod
from berth_cluster.apimachinery.patches import MERGE_PATCH, apply_patch
from berth_workbench.planning.help.search import what_would_help
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.snapshot.documents import parse_documents
from berth_workbench.snapshot.snapshot import Snapshot
from tests.workbench.planning.help.worlds import MEDIA_TYPES

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
KINDS = ("Deployment", "Deployment", "StatefulSet", "ReplicaSet")
FEW, ALL = range(4), range(4, 304)


# --- a random cluster -------------------------------------------------------------------------------------------------


def random_documents(seed):
    """Nodes, and workloads of which the last asks for more than there is; the scheduler has placed who fits."""
    rng = random.Random(seed)
    documents = [_node(rng, number).document for number in range(rng.randint(3, 7))]
    documents.append({"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100})
    for name in ("a", "b"):
        documents += _workload(rng, name, rng.randint(1, 5), _pod(rng, name, rng.randint(3, 20)))
    big = _asking(rng, _pod(rng, "x", rng.choice((6, 12, 25, 45))))
    documents += _workload(rng, "x", rng.randint(1, 7), big)
    cluster = SimulatedCluster(snapshot_of(documents).structs())
    cluster.settle()
    if cluster.evictions:
        return None  # who is pending and who is not is another question then
    for document in documents:
        if document["kind"] == "Pod":
            place = cluster.placements[key_of(document)]
            document["spec"] |= {"nodeName": place} if place else {}
            document["status"] = {"phase": "Running" if place else "Pending"}
    return documents


def _node(rng, number):
    cpu, memory = rng.choice((4, 4, 8)), rng.choice((8, 16))
    node = make_node(f"n{number}").capacity(cpu=str(cpu), memory=f"{memory}Gi", pods="9").zone("abc"[number % 3])
    if rng.random() < 0.3:
        node.taint("team", rng.choice("rg"))
    if rng.random() < 0.4:
        node.label("disk", "ssd")
    return node.unschedulable() if rng.random() < 0.1 else node


def _pod(rng, app, tenths):
    pod = make_pod(app).label("app", app).request(cpu=f"{tenths}00m", memory=f"{rng.randint(1, 20)}00Mi")
    if rng.random() < 0.2:
        pod.tolerate("team", operator="Exists")
    if rng.random() < 0.2:
        pod.priority(rng.choice((-5, 5)))
    return pod


def _asking(rng, pod):
    if rng.random() < 0.3:
        pod.node_selector({"disk": "ssd"})
    if rng.random() < 0.3:
        pod.pod_anti_affinity(rng.choice((ZONE, HOST)), {"app": rng.choice("xxa")})
    if rng.random() < 0.3:
        pod.spread(rng.choice((ZONE, HOST)), {"app": "x"})
    return pod


def _workload(rng, name, replicas, pod):
    kind = rng.choice(KINDS)
    labels = pod.document["metadata"]["labels"]
    template = {"metadata": {"labels": labels}, "spec": pod.document["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    if kind == "StatefulSet":
        spec["podManagementPolicy"] = "Parallel"
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    workload = {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": copy.deepcopy(spec)}
    return [workload, *pods_of(workload, "old")]


def pods_of(workload, generation):
    """All pods of a workload, as its controller makes them."""
    name, kind = workload["metadata"]["name"], workload["kind"]
    template = copy.deepcopy(workload["spec"]["template"])
    labels = dict(template["metadata"]["labels"])
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}
    if kind == "Deployment":
        owner |= {"kind": "ReplicaSet", "name": f"{name}-{generation}", "uid": f"uid-{name}-{generation}"}
        labels["pod-template-hash"] = generation
    for number in range(workload["spec"]["replicas"]):
        pod_name = f"{name}-{number}" if kind == "StatefulSet" else f"{name}-{generation}-{number}"
        metadata = {"name": pod_name, "namespace": "default", "uid": f"{pod_name}-{generation}", "labels": labels,
                    "ownerReferences": [owner]}  # fmt: skip
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": copy.deepcopy(template["spec"])}


def snapshot_of(documents):
    return Snapshot(list(parse_documents(json.dumps({"kind": "List", "items": documents}).encode(), "a test")))


def key_of(document):
    return f"default/{document['metadata']['name']}"


def owner_name(document):
    return document["metadata"]["name"].split("-")[0]


def workload_in(key):
    return key.removeprefix("default/").partition("-")[0]


# --- the change, made in another way ----------------------------------------------------------------------------------


def after(documents, change):
    """The documents once a change is made and controllers have made their pods again."""
    found = copy.deepcopy(documents)
    for each in (change, *change.with_):
        patch = json.loads(json.dumps(each.patch))
        if each.patch_type == "delete":
            if each is change:  # else they are deleted in a rollout, which makes them anew anyway
                gone = [one for one in found if key_of(one) in patch["pods"]]
                found = [one for one in found if one not in gone] + [_again(one) for one in gone]  # behind who waits
        elif each.patch_type == "create":
            found += patch["manifests"]
        elif each.kind == "replicas" if each is change else False:
            found = _scaled(found, patch["spec"]["replicas"])
        elif each.target.startswith("Node/"):
            name = each.target.removeprefix("Node/")
            found = [_patched(each, patch, one) if (one["kind"], one["metadata"]["name"]) == ("Node", name) else one
                     for one in found]  # fmt: skip
        elif each.target.startswith("Pod/"):
            found = _rolled_out(found, each, patch)
        else:
            assert each.patch["spec"]["strategy"], "only how it is rolled out"
    return found


def _again(pod):
    metadata = {**pod["metadata"], "uid": f"{pod['metadata']['uid']}-again"}
    spec = {field: each for field, each in pod["spec"].items() if field != "nodeName"}
    return {**pod, "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def _patched(change, patch, document):
    return apply_patch(copy.deepcopy(document), patch, MEDIA_TYPES.get(change.patch_type, MERGE_PATCH))


def _rolled_out(documents, change, patch):
    (workload,) = [each for each in documents if each["metadata"]["name"] == "x" and each["kind"] != "Pod"]
    others = [each for each in documents if owner_name(each) != "x"]
    as_pod = {"apiVersion": "v1", "kind": "Pod", **copy.deepcopy(workload["spec"]["template"])}
    template = _patched(change, patch, as_pod)
    new = {**workload, "spec": {**workload["spec"], "template": template}}
    if workload["kind"] != "ReplicaSet":
        return [*others, new, *pods_of(new, "new")]
    # Nobody replaces the pods of a ReplicaSet; those that wait are deleted.
    pods = [each for each in documents if each["kind"] == "Pod" and owner_name(each) == "x"]
    running = [each for each in pods if each["spec"].get("nodeName")]
    return [*others, new, *running, *[each for each, old in zip(pods_of(new, "new"), pods, strict=True)
                                      if not old["spec"].get("nodeName")]]  # fmt: skip


def _scaled(documents, replicas):
    pods = [each for each in documents if each["kind"] == "Pod" and owner_name(each) == "x"]
    (workload,) = [each for each in documents if each["metadata"]["name"] == "x" and each["kind"] != "Pod"]
    if workload["kind"] != "StatefulSet":  # those without a node go first
        pods = sorted(pods, key=lambda pod: not pod["spec"].get("nodeName"))
    gone = {key_of(pod) for pod in pods[replicas:]}
    return [each for each in documents if each["kind"] != "Pod" or key_of(each) not in gone]


def placements(documents):
    cluster = SimulatedCluster(snapshot_of(documents).structs())
    cluster.settle()
    return cluster.placements


# --- the property -----------------------------------------------------------------------------------------------------


def check_all(seed):
    """Return the kinds of the changes that were checked."""
    documents = random_documents(seed)
    if documents is None:
        return set()
    waiting = [each for each in documents if each["kind"] == "Pod" and not each["spec"].get("nodeName")
               and owner_name(each) == "x"]  # fmt: skip
    if not waiting:
        return set()
    snapshot = snapshot_of(documents)
    cluster = SimulatedCluster(snapshot.structs())
    found = what_would_help(cluster, cluster.pods[key_of(waiting[0])], documents=snapshot.documents)
    assert found.pods == tuple(sorted(map(key_of, waiting)))
    before = placements(documents)
    for change in found.changes:
        now = placements(after(documents, change))
        replicas = change.patch["spec"]["replicas"] if change.kind == "replicas" else found.replicas
        has = sum(bool(node) for key, node in now.items() if key.startswith("default/x-"))
        assert has == replicas - change.still_pending, (change.what, now)
        others = {key for key, node in before.items() if node and not key.startswith("default/x-")}
        lost = Counter(workload_in(key) for key in others if not now.get(key))
        assert lost <= Counter(map(workload_in, change.leaves)), (change.what, now)  # which of its like ones is chance
    return {change.kind for change in found.changes}


@pytest.mark.parametrize("seed", FEW)
def test_what_is_told_of_a_change_comes_true(seed):
    check_all(seed)


@pytest.mark.long
def test_what_is_told_of_changes_comes_true_on_many_clusters():
    kinds = set().union(*map(check_all, ALL))
    assert kinds >= {"requests", "replicas", "node", "podAntiAffinity", "nodeSelector", "taint", "toleration",
                     "podsGone", "priority", "label", "spread"}, kinds  # fmt: skip
