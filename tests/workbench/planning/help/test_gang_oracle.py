"""Random clusters with gangs and devices: whatever is told of a gang comes true in a cluster that is made anew.

Each change is made on the manifests, all pods that it concerns are made again, and the scheduler places what it can.
The gang has a place then, as a whole, and nobody else has lost his who was not named. One node fewer than is offered
does not do, nor does one step more of what is asked for. For how many there is room is what the scheduler places of a
gang that waits for nobody and evicts nobody. Of a gang that never has room, none has it whoever else is gone.
"""

import copy
import itertools
import json
import random
from collections import Counter

import pytest

from berth.config.feature_gates import feature_gates
from berth.config.load import load_config
from berth.core.builders import make_node, make_pod
from berth.decisions.pending import pending_report
from berth_cluster.apimachinery.patches import MERGE_PATCH, apply_patch
from berth_workbench.planning.help.search import what_would_help
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.snapshot.documents import parse_documents
from berth_workbench.snapshot.snapshot import Snapshot
from packages.workbench.tests.planning.help.test_prospects import devices
from tests.workbench.planning.help.test_workload_oracle import key_of, owner_name, pods_of, workload_in
from tests.workbench.planning.help.worlds import MEDIA_TYPES

ZONE = "topology.kubernetes.io/zone"
PLAIN = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
GATES = {"GenericWorkload": True, "GangScheduling": True, "TopologyAwareWorkloadScheduling": True}
CONFIG = load_config(PLAIN, "a test", feature_gates(GATES))
KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "Job")
FEW, ALL = range(4), range(4, 304)


# --- a random cluster -------------------------------------------------------------------------------------------------


def random_documents(seed):
    """Nodes with devices, two workloads, and a gang; the scheduler has placed who fits. None where it preempts."""
    rng = random.Random(seed)
    documents = [{"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100},
                 {"kind": "DeviceClass", "metadata": {"name": "gpu"}}]  # fmt: skip
    for number in range(rng.randint(2, 5)):
        node = make_node(f"n{number}").capacity(cpu=str(rng.choice((4, 4, 8))), memory="16Gi", pods="9")
        if rng.random() < 0.2:
            node.taint("team", "a")
        if rng.random() < 0.4:
            node.label("disk", "ssd")
        count = rng.choice((0, 1, 2, 3))
        documents += [node.zone("ab"[number % 2]).document, *([devices(f"n{number}", count)] if count else [])]
    for name in "ab":
        pod = make_pod(name).label("app", name).request(cpu=f"{rng.randint(5, 25)}00m").priority(rng.choice((0, 0, -5)))
        if rng.random() < 0.4:
            pod.tolerate("team", operator="Exists")
        documents += workload(rng, name, rng.randint(0, 3), pod, rng.choice((0, 0, 1)))
    pod = make_pod("x").label("app", "x").request(cpu=f"{rng.choice((5, 15, 25, 35, 45))}00m").group("x")
    if rng.random() < 0.3:
        pod.node_selector({"disk": "ssd"})
    count = rng.randint(2, 5)
    documents += [pod_group(rng, rng.randint(2, count)), *workload(rng, "x", count, pod, rng.choice((0, 0, 1, 2)))]
    cluster = fresh(documents)
    if cluster.evictions:
        return None  # who is pending and who is not is another question then
    for document in documents:
        if document["kind"] == "Pod":
            place = cluster.placements[key_of(document)]
            document["spec"] |= {"nodeName": place} if place else {}
            document.setdefault("status", {})["phase"] = "Running" if place else "Pending"
        elif document["kind"] == "ResourceClaim":
            status = cluster.objects["ResourceClaim", key_of(document)].status
            document["status"] = allocated(status) if status.allocation is not None else {}
    return documents


def pod_group(rng, needed):
    spec = {"schedulingPolicy": {"gang": {"minCount": needed}}}
    if rng.random() < 0.25:
        spec["schedulingConstraints"] = {"topology": [{"key": ZONE}]}
    return {"kind": "PodGroup", "metadata": {"name": "x", "namespace": "default", "uid": "group-x"}, "spec": spec}


def workload(rng, name, replicas, pod, claimed):
    """A workload, its pods, and the template and the claims of these where they want devices."""
    kind, template = rng.choice(KINDS), []
    if claimed:
        exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": claimed}
        spec = {"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}
        template = [{"kind": "ResourceClaimTemplate", "metadata": {"name": name, "namespace": "default"}, "spec": spec}]
        pod.set_spec(resourceClaims=[{"name": "g", "resourceClaimTemplateName": name}])
    labels = pod.document["metadata"]["labels"]
    spec = {"replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod.document["spec"]}}  # fmt: skip
    if kind == "StatefulSet":
        spec["podManagementPolicy"] = "Parallel"
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    made = {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": copy.deepcopy(spec)}
    return [made, *template, *with_claims(pods_of(made, "old"), template)]


def with_claims(pods, templates):
    """Pods, each with the claim that the controller makes for it."""
    for pod in pods:
        yield pod
        for template in (each for each in templates if pod["spec"].get("resourceClaims")):
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            pod["status"] = {"resourceClaimStatuses": [{"name": "g", "resourceClaimName": f"{name}-g"}]}
            owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}
            metadata = {"name": f"{name}-g", "namespace": "default", "uid": f"claim-{uid}", "ownerReferences": [owner]}
            yield {"kind": "ResourceClaim", "metadata": metadata, "spec": copy.deepcopy(template["spec"]["spec"])}


def allocated(status):
    taken = [{"request": each.request, "driver": each.driver, "pool": each.pool, "device": each.device}
             for each in status.allocation.devices.results]  # fmt: skip
    users = [{"resource": "pods", "name": each.name, "uid": each.uid} for each in status.reserved_for]
    named = {"key": "metadata.name", "operator": "In", "values": [taken[0]["pool"]]}
    where = {"nodeSelectorTerms": [{"matchFields": [named]}]}
    return {"allocation": {"devices": {"results": taken}, "nodeSelector": where}, "reservedFor": users}


def snapshot_of(documents):
    return Snapshot(list(parse_documents(json.dumps({"kind": "List", "items": documents}).encode(), "a test")))


def fresh(documents, seed=0):
    """A cluster of its own, in which the scheduler has placed what it can."""
    cluster = SimulatedCluster(snapshot_of(documents).structs(), config=CONFIG, seed=seed)
    cluster.settle()
    return cluster


def placed(documents, seed=0):
    """Who of the gang has a place, and where."""
    found = fresh(documents, seed).placements
    return {key: node for key, node in found.items() if key.startswith("default/x-") and node}


def of_kind(documents, kind, name=""):
    return [each for each in documents if each["kind"] == kind and name in ("", each["metadata"]["name"])]


def is_pod_of_x(document):
    return document["kind"] == "Pod" and owner_name(document) == "x"


def without_pods(documents, gone):
    """The documents without some pods, and without the claims that were made for these."""
    uids = {pod["metadata"]["uid"] for pod in gone}

    def is_gone(document):
        owners = document["metadata"].get("ownerReferences") or [{}]
        return document in gone or (document["kind"] == "ResourceClaim" and owners[0].get("uid") in uids)

    return [each for each in documents if not is_gone(each)]


# --- the change, made in another way ----------------------------------------------------------------------------------


def after(documents, change):
    """The documents once a change is made and controllers have made their pods again."""
    found = copy.deepcopy(documents)
    for each in (change, *change.with_):
        patch = json.loads(json.dumps(each.patch))
        kind, _, name = each.target.rpartition("/")[0].partition("/")[0], "", each.target.rpartition("/")[2]
        if each.patch_type == "delete":
            gone = [one for one in found if one["kind"] == "Pod" and key_of(one) in patch["pods"]]
            found = without_pods(found, gone) if each is change else found
            for one in gone if each is change else ():
                found += again(found, one)
        elif each.patch_type == "create":
            found += patch["manifests"]
        elif getattr(each, "kind", "") == "replicas":
            found = scaled(found, patch["spec"]["replicas"])
        elif kind == "Pod":
            found = rolled_out(found, each, patch)
        elif kind in ("Node", "PodGroup"):
            found = [patched(each, patch, one) if one in of_kind(found, kind, name) else one for one in found]
        elif kind == "ResourceClaimTemplate":
            found = [patched(each, patch, one) if one in of_kind(found, kind, name) else one for one in found]
            waiting = [one for one in found if is_pod_of_x(one) and not one["spec"].get("nodeName")]
            found = without_pods(found, waiting)
            found += with_claims((renamed(one, "new") for one in waiting), of_kind(found, kind, name))
        else:
            assert patch["spec"]["strategy"], "only how it is rolled out"
    return found


def renamed(pod, generation):
    return {**pod, "metadata": {**pod["metadata"], "uid": f"{pod['metadata']['uid']}-{generation}"}}


def again(documents, pod):
    """What a controller makes in the place of a pod: it waits behind all others."""
    spec = {field: each for field, each in pod["spec"].items() if field != "nodeName"}
    made = {**renamed(pod, "again"), "spec": spec, "status": {"phase": "Pending"}}
    return with_claims([made], of_kind(documents, "ResourceClaimTemplate", owner_name(pod)))


def patched(change, patch, document):
    return apply_patch(copy.deepcopy(document), patch, MEDIA_TYPES.get(change.patch_type, MERGE_PATCH))


def rolled_out(documents, change, patch):
    """All pods of the gang made anew; those of who rolls nothing out only where they wait."""
    (owner,) = [each for kind in KINDS for each in of_kind(documents, kind, "x")]
    pods = [each for each in documents if is_pod_of_x(each)]
    old = [each for each in pods if owner["kind"] in ("Deployment", "StatefulSet") or not each["spec"].get("nodeName")]
    as_pod = {"apiVersion": "v1", "kind": "Pod", **copy.deepcopy(owner["spec"]["template"])}
    new = {**owner, "spec": {**owner["spec"], "template": patched(change, patch, as_pod)}}
    kept = [each if each is not owner else new for each in without_pods(documents, old)]
    numbers = [pods.index(each) for each in old]
    made = list(pods_of(new, "new"))
    return [*kept, *with_claims([made[number] for number in numbers], of_kind(kept, "ResourceClaimTemplate", "x"))]


def scaled(documents, replicas):
    pods = [each for each in documents if is_pod_of_x(each)]
    (owner,) = [each for kind in KINDS for each in of_kind(documents, kind, "x")]
    if owner["kind"] != "StatefulSet":  # those without a node go first
        pods.sort(key=lambda pod: not pod["spec"].get("nodeName"))
    return without_pods(documents, pods[replicas:])


def one_node_fewer(change):
    """The same change with the last of the nodes left out, and with what belongs to it."""
    nodes = [each["metadata"]["name"] for each in change.patch["manifests"] if each["kind"] == "Node"]
    kept = [each for each in change.patch["manifests"]
            if nodes[-1] not in (each["metadata"]["name"], each["spec"].get("nodeName"))]  # fmt: skip
    return [*kept] if len(nodes) > 1 else []


# --- the properties ---------------------------------------------------------------------------------------------------


def check_all(seed):
    """Return what was checked: the kinds of the changes, and what else was said."""
    documents = random_documents(seed)
    waiting = [each for each in documents or () if is_pod_of_x(each) and not each["spec"].get("nodeName")]
    if not waiting:
        return set()
    cluster = SimulatedCluster(snapshot_of(documents).structs(), config=CONFIG)
    found = what_would_help(cluster, cluster.pods[key_of(waiting[0])], documents=snapshot_of(documents).documents)
    if found.state != "pending":
        return set()
    assert found.pods == tuple(sorted(map(key_of, waiting)))
    before = fresh(documents).placements
    for change in found.changes:
        changed = after(documents, change)
        now = fresh(changed).placements
        has = sum(bool(node) for key, node in now.items() if key.startswith("default/x-"))
        replicas = change.patch["spec"]["replicas"] if change.kind == "replicas" else found.replicas
        assert has == replicas - change.still_pending, (change.what, now)
        others = {key for key, node in before.items() if node and not key.startswith("default/x-")}
        lost = Counter(workload_in(key) for key in others if not now.get(key))
        assert lost <= Counter(map(workload_in, change.leaves)), (change.what, now)  # which of its like ones is chance
        if change.kind == "node" and not change.still_pending:
            assert len(placed([*documents, *one_node_fewer(change)])) < found.replicas, f"fewer do: {change.what}"
        # A gang may begin before the last of its pods is rolled out, where it wants fewer than all: then order decides.
        is_at_once = found.needed == found.replicas or not found.workload.startswith(("StatefulSet/", "Deployment/"))
        if change.kind in ("requests", "deviceCount") and not change.still_pending and is_at_once:
            more = fresh(one_step_more(documents, change)).placements
            has = sum(bool(node) for key, node in more.items() if key.startswith("default/x-"))
            is_paid = bool(Counter(workload_in(key) for key in others if not more.get(key)) - lost)
            assert has < found.replicas or is_paid, f"more does: {change.what}"  # by preemption does not count
    told = {change.kind for change in found.changes}
    return told | has_as_many_places(found, documents) | is_never(found, documents) | lacks_devices(documents)


def one_step_more(documents, change):
    """The documents with a change that leaves as much as is offered, and one step more."""
    found = after(documents, change)
    if change.kind == "deviceCount":
        name = change.target.rpartition("/")[2]
        (template,) = of_kind(found, "ResourceClaimTemplate", name)
        specs = [template["spec"]["spec"], *(each["spec"] for each in of_kind(found, "ResourceClaim")
                                             if each["metadata"]["name"].startswith("x-"))]  # fmt: skip
        for spec in specs if change.target.startswith("ResourceClaimTemplate/") else ():
            spec["devices"]["requests"][0]["exactly"]["count"] += 1
        return found
    was = next(each for each in documents if is_pod_of_x(each))["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    step = max(step for step in (1, 10, 50, 100, 500, 1000) if step * 100 <= int(was.removesuffix("m")))
    for pod in (each for each in found if is_pod_of_x(each)):
        requests = pod["spec"]["containers"][0]["resources"]["requests"]
        milli = int(requests["cpu"][:-1]) if requests["cpu"].endswith("m") else int(requests["cpu"]) * 1000
        requests["cpu"] = f"{milli + step}m"
    return found


def has_as_many_places(found, documents):
    """A gang that waits for nobody, and evicts nobody, has places for as many as were told."""
    if found.needed is None or len(found.pods) < found.replicas:
        return set()
    alone = copy.deepcopy(documents)
    for each in alone:
        if each["kind"] == "PodGroup":
            each["spec"]["schedulingPolicy"]["gang"]["minCount"] = 1
        elif is_pod_of_x(each):
            each["spec"]["preemptionPolicy"] = "Never"
    assert len(placed(alone)) == found.have_place < found.needed
    return {"have place"}


def is_never(found, documents):
    """Whoever else is gone, not all have a place, and no more than were told."""
    if not found.never:
        return set()
    others = [each for each in documents if each["kind"] == "Pod" and not is_pod_of_x(each)]
    alone = copy.deepcopy(documents)
    for each in alone:
        if is_pod_of_x(each):
            each["spec"].pop("nodeName", None)
            each["status"]["phase"] = "Pending"
        elif each["kind"] == "ResourceClaim" and each["metadata"]["name"].startswith("x-"):
            each["status"] = {}
    for count in range(len(others) + 1):
        for gone in itertools.islice(itertools.combinations(others, count), 12):
            left = without_pods(alone, list(gone))
            for seed in range(2):
                assert len(placed(left, seed)) <= (found.most or 0) < found.replicas
    return {"never"}


def lacks_devices(documents):
    """What the best node has free for a request is what a pod gets there that asks for nothing else."""
    told = set()
    for group in pending_report(fresh(documents).core, str, lambda _uid: "").groups:
        for lack in group.shortfalls:
            if lack.request:
                count = int(lack.most_free)
                assert not count or probed(documents, count, lack.node)
                assert not probed(documents, count + 1, lack.node) and count < int(lack.needs)
                told.add("devices")
    return told


def probed(documents, count, node):
    """Whether a pod that asks for nothing but devices has a place on a node."""
    where = {"kubernetes.io/hostname": node}
    spec = {"containers": [{"name": "c"}], "resourceClaims": [{"name": "g", "resourceClaimName": "probe"}],
            "tolerations": [{"operator": "Exists"}], "schedulerName": "default-scheduler",
            "preemptionPolicy": "Never", "nodeSelector": where}  # fmt: skip
    pod = {"kind": "Pod", "metadata": {"name": "probe", "namespace": "default", "uid": "probe"}, "spec": spec}
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    claim = {"kind": "ResourceClaim", "metadata": {"name": "probe", "namespace": "default", "uid": "claim-probe",
                                                   "ownerReferences": [{"kind": "Job", "name": "j", "uid": "j"}]},
             "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}  # fmt: skip
    waiting = [each for each in documents if each["kind"] == "Pod" and not each["spec"].get("nodeName")]
    return bool(fresh([*without_pods(documents, waiting), claim, pod]).placements["default/probe"])


@pytest.mark.parametrize("seed", FEW)
def test_what_is_told_of_a_gang_comes_true(seed):
    check_all(seed)


@pytest.mark.long
def test_what_is_told_of_gangs_comes_true_on_many_clusters():
    told = set().union(*map(check_all, ALL))
    assert told >= {"requests", "replicas", "node", "nodeSelector", "taint", "label", "priority", "deviceCount",
                    "resourceClaim", "have place", "never", "devices"}, told  # fmt: skip
