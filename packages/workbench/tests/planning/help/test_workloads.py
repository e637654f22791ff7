"""Advice about workloads: each change is tried on all of its pods, as its controller would carry it out.

The clusters are so small that what a colleague would say follows from how they are built.
"""

import json

from berth.core.builders import make_node, make_pod
from berth_workbench.planning.help.search import what_would_help
from berth_workbench.planning.help.words import lines_of
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.snapshot.documents import parse_documents
from berth_workbench.snapshot.snapshot import Snapshot

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def snapshot_of(*objects):
    items = [each if isinstance(each, dict) else each.document for each in objects]
    return Snapshot(list(parse_documents(json.dumps({"kind": "List", "items": items}).encode(), "a test")))


def help_for(key, *objects, **more):
    snapshot = snapshot_of(*objects)
    cluster = SimulatedCluster(snapshot.structs())
    cluster.add_followed(snapshot.documents)
    return what_would_help(cluster, cluster.pods[key], documents=snapshot.documents, **more)


def zoned(count=6, cpu="8"):
    return [make_node(f"n{i}").capacity(cpu=cpu, memory="32Gi").zone("abc"[i % 3]) for i in range(count)]


def workload(kind, name, pod, replicas, **spec):
    """A workload whose template is what a pod of it says."""
    document = pod.document
    template = {"metadata": {"labels": document["metadata"]["labels"]}, "spec": {
        key: each for key, each in document["spec"].items() if key not in ("nodeName", "priority")}}  # fmt: skip
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default", "uid": f"{kind}-{name}"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template, **spec},
    }


def replicas_of(kind, name, placed, build):
    """A workload with its pods: one for each node that is named, pending where that is empty."""
    pods = [build(f"{name}-{i}").label("app", name).owned_by(kind, name) for i in range(len(placed))]
    policy = {"podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}
    return [
        workload(kind, name, pods[0], len(placed), **policy),
        *(pod.node(node).phase("Running") if node else pod for pod, node in zip(pods, placed, strict=True)),
    ]


def kafka(build=lambda name: make_pod(name).request(cpu="1").pod_anti_affinity(ZONE, {"app": "kafka"}), **more):
    return replicas_of("StatefulSet", "kafka", ["n0", "n1", "n2", "", ""], build, **more)


def by_kind(found):
    return {change.kind: change for change in found.changes}


def test_five_replicas_in_three_zones():
    """What the StatefulSet's controller makes again is in the way again, and so is what its own priority evicts."""
    classes = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    found = help_for("default/kafka-3", *zoned(), *kafka(), classes)
    told = [change.what for change in found.changes]
    assert not [change for change in found.changes if change.kind in ("podsGone", "priority")], told
    assert (found.workload, found.pods, found.replicas) == (
        "StatefulSet/default/kafka", ("default/kafka-3", "default/kafka-4"), 5)  # fmt: skip
    fewer = by_kind(found)["replicas"]
    assert (fewer.patch, fewer.target) == ({"spec": {"replicas": 3}}, "StatefulSet/default/kafka")
    assert fewer.what == "run 3 replicas instead of 5, one for each of the 3 zones"
    assert fewer.command == "kubectl -n default scale statefulset kafka --replicas 3"
    apart = [change for change in found.changes if change.kind == "podAntiAffinity"]
    terms = [change.patch["spec"]["affinity"]["podAntiAffinity"] for change in apart]
    assert terms[0]["requiredDuringSchedulingIgnoredDuringExecution"][0]["topologyKey"] == HOST
    assert terms[1]["requiredDuringSchedulingIgnoredDuringExecution"] == []
    (wish,) = terms[1]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert wish["podAffinityTerm"]["topologyKey"] == ZONE
    assert (found.never, found.most, found.too_few) == (True, 3, "3 zones")
    assert "5 replicas, 3 zones, and no two of them may be in the same" in " ".join(" ".join(lines_of(found)).split())


def test_a_rollout_that_old_pods_hold_up_says_which_are_to_be_deleted():
    """The new pods match the terms of the old ones, in every zone; where one has gone, there is room."""
    found = help_for("default/kafka-3", *zoned(), *kafka())
    for change in found.changes:
        if change.kind == "podAntiAffinity":
            (deleted,) = change.with_
            assert deleted.patch_type == "delete" and "default/kafka-2" in deleted.patch["pods"]
            assert change.replaces == 3


def test_a_rollout_goes_on_beside_a_pod_that_is_being_deleted():
    """Its ordinal is taken as long as it ends, so that those that wait are the fourth and the fifth all the same."""
    documents = kafka()
    documents[2].terminating()
    found = help_for("default/kafka-3", *zoned(), *documents)
    assert found.pods == ("default/kafka-3", "default/kafka-4")
    assert by_kind(found)["podAntiAffinity"].still_pending == 0


def test_a_stateful_set_that_makes_one_pod_after_the_other_is_asked_about_as_a_whole():
    documents = kafka()[:-1]
    del documents[0]["spec"]["podManagementPolicy"]
    found = help_for("default/kafka-3", *zoned(), *documents)
    assert (found.pods, found.replicas) == (("default/kafka-3", "default/kafka-4"), 5)
    apart = by_kind(found)["podAntiAffinity"]
    assert apart.command.endswith("&& kubectl -n default delete pod kafka-3"), "kafka-4 is yet to be made"


def web(placed, cpu="1900m", kind="ReplicaSet", **more):
    return replicas_of(kind, "web", placed, lambda name: make_pod(name).request(cpu=cpu, memory="1Gi"), **more)


def test_ten_replicas_of_which_seven_fit():
    """Of 1.9 CPU, nodes of 4 CPU hold two; one is half taken. Of 1.33 CPU they hold three, and one: ten in all."""
    nodes = [make_node(f"n{i}").capacity(cpu="4", memory="16Gi") for i in range(4)]
    other = make_pod("other").request(cpu="1500m").node("n3")
    documents = web(["n0", "n0", "n1", "n1", "n2", "n2", "n3", "", "", ""], kind="StatefulSet")
    found = by_kind(help_for("default/web-7", *nodes, *documents, other))
    less = found["requests"].patch["spec"]["containers"][0]["resources"]["requests"]
    assert less == {"cpu": "1330m"}
    assert len(found["node"].patch["manifests"]) == 2
    assert found["replicas"].patch == {"spec": {"replicas": 7}}
    assert found["requests"].cost < found["replicas"].cost < found["node"].cost


def test_a_deployment_goes_on_once_more_of_it_may_be_unavailable():
    """Three replicas of 1.5 CPU, of which the one node takes one; with 0.66 CPU, three, once that one has gone."""
    pods = [make_pod(f"web-{i}").label("app", "web").label("pod-template-hash", "5f7").request(cpu="1500m")
            .owned_by("ReplicaSet", "web-5f7") for i in range(3)]  # fmt: skip
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "Deployment-web", "controller": True}
    metadata = {"name": "web-5f7", "namespace": "default", "uid": "web-5f7", "ownerReferences": [owner]}
    replica_set = {"kind": "ReplicaSet", "metadata": metadata, "spec": {"replicas": 3}}
    plain = make_pod("web").label("app", "web").request(cpu="1500m")
    documents = [workload("Deployment", "web", plain, 3), replica_set, pods[0].node("n0").phase("Running"), *pods[1:]]
    found = by_kind(help_for("default/web-1", make_node("n0").capacity(cpu="2", memory="9Gi"), *documents))
    less = found["requests"]
    assert less.patch["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "660m"}
    (further,) = less.with_
    assert (further.target, further.patch) == (
        "Deployment/default/web", {"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": 3}}}})  # fmt: skip


def test_labels_on_as_many_nodes_as_it_takes():
    nodes = [make_node(f"n{i}").capacity(cpu="2", memory="16Gi") for i in range(4)]
    pods = replicas_of("ReplicaSet", "web", ["", "", ""],
                       lambda name: make_pod(name).request(cpu="1500m").node_selector({"disk": "ssd"}))  # fmt: skip
    label = by_kind(help_for("default/web-0", *nodes, *pods))["label"]
    assert label.what == "label n0 with disk=ssd, and the same on n1, n2"
    assert [part.target for part in label.with_] == ["Node/n1", "Node/n2"]


def test_who_waits_beside_and_gets_a_place_too_is_told():
    """Two pods wait, and the one that is not asked about is served first; so one node more would not be enough."""
    nodes = [make_node("n0").capacity(cpu="2", memory="16Gi")]
    running = make_pod("busy").request(cpu="2").node("n0")
    others = replicas_of("ReplicaSet", "first", [""], lambda name: make_pod(name).request(cpu="2"))
    node = by_kind(help_for("default/web-0", *nodes, running, *others, *web([""], cpu="2")))["node"]
    assert len(node.patch["manifests"]) == 2
    assert node.gains == ("default/first-0",)


def test_mates_of_a_group_are_not_offered_to_be_deleted():
    node = make_node("n0").capacity(cpu="4", memory="16Gi")
    mates = [make_pod(f"job-{i}").request(cpu="3").set_spec(schedulingGroup={"podGroupName": "job"}) for i in range(2)]
    found = help_for("default/job-1", node, mates[0].node("n0").phase("Running"), mates[1])
    assert "podsGone" not in by_kind(found)


def test_pods_that_nobody_rolls_out_are_made_anew_one_by_one():
    """The template of a Job cannot be changed. One pod's preemption is enough for that pod, and not for both."""
    pods = [make_pod(f"job-{i}").label("app", "job").request(cpu="3").owned_by("Job", "job") for i in range(2)]
    low = make_pod("low").request(cpu="2").priority(-1).node("n0")
    found = help_for("default/job-0", make_node("n0").capacity(cpu="4", memory="16Gi"), *pods, low)
    command = by_kind(found)["requests"].command
    assert command.startswith("for pod in job-0 job-1; do kubectl -n default get pod $pod -o yaml > pod.yaml; ")
    assert not any(each.is_enough for each in found.waits_for)
