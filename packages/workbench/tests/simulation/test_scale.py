"""Workloads scaled as their controllers would: whose pods the new ones are, and which pods count.

Expectations follow the Deployment controller (pkg/controller/deployment: a ReplicaSet that is there is scaled, and a
new one is made for a new template only) and IsPodActive in pkg/controller/controller_utils.go.
"""

from collections import Counter

import msgspec
import pytest

from berth.core.builders import make_node, make_pod
from berth_workbench.planning.whatif import WhatIfRun
from berth_workbench.simulation.changes import ChangeError, parse_flag
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.steps import Manifests
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import Snapshot

LABELS = {"app": "web", "pod-template-hash": "7d4"}


def template(cpu="1", labels=None):
    return {
        "metadata": {"labels": labels or {"app": "web"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
    }


def deployment(replicas=2, cpu="1"):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "uid": "d"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(cpu)},
    }


def replica_set(name="web-7d4", replicas=2, revision="1", **spec):
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": True}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": LABELS, "ownerReferences": [owner]}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {**metadata, "annotations": {"deployment.kubernetes.io/revision": revision}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": LABELS}, **spec},
    }


def pod(name, owner="web-7d4", **more):
    made = make_pod(name).request(cpu="1").labels(LABELS).owned_by("ReplicaSet", owner, uid=owner)
    document = made.node("n0").document
    document["metadata"] |= more.pop("metadata", {})
    return document | more


def node(name="n0"):
    return make_node(name).capacity(cpu="40", memory="8Gi", pods="110").document


def after(manifests, *steps):
    """The cluster and the result after some steps, flags or manifests."""
    documents = [Document(each["kind"], msgspec.json.encode(each), "a test") for each in manifests]
    cluster = SimulatedCluster(Snapshot(documents).structs())
    run = WhatIfRun(Site(cluster, documents))
    return cluster, run.run([parse_flag(*each) if isinstance(each, tuple) else each for each in steps])


def owners(cluster):
    return Counter(pod.metadata.owner_references[0].name for pod in cluster.pods.values())


def replicas(cluster):
    return {name: obj.spec.replicas for (kind, name), obj in cluster.objects.items() if kind == "ReplicaSet"}


@pytest.mark.parametrize("spec", [{}, {"template": template(labels=LABELS)}], ids=["without its template", "with it"])
def test_the_pods_of_a_deployment_that_had_none_belong_to_its_replica_set(spec):
    manifests = [node(), deployment(0), replica_set(replicas=0, **spec)]
    cluster, _ = after(manifests, ("scale", "deployment/web=22"))
    assert owners(cluster) == {"web-7d4": 22}
    assert replicas(cluster) == {"default/web-7d4": 22}
    assert {pod.metadata.labels["pod-template-hash"] for pod in cluster.pods.values()} == {"7d4"}
    assert {pod.metadata.owner_references[0].uid for pod in cluster.pods.values()} == {"web-7d4"}


def test_scaled_to_nothing_and_back_the_pods_are_what_they_were():
    """Neither the Deployment's own object nor a template is known; what ran a moment ago is."""
    cluster, _ = after(
        [node(), replica_set(), pod("web-7d4-a"), pod("web-7d4-b")],
        ("scale", "deployment/web=0"),
        ("scale", "deployment/web=3"),
    )
    assert owners(cluster) == {"web-7d4": 3}
    assert all(cluster.placements.values())


def test_a_replica_set_that_only_its_pods_tell_of_is_known_when_it_is_scaled_up_again():
    cluster, _ = after([node(), pod("rs-a", "rs")], ("scale", "rs/rs=0"), ("scale", "rs/rs=2"))
    assert owners(cluster) == {"rs": 2}


def test_each_replica_set_asks_for_as_many_as_it_has():
    old = [pod(f"web-old-{number}", "web-old") for number in range(2)]
    manifests = [
        node(),
        deployment(3),
        replica_set("web-old", 2),
        replica_set("web-7d4", 1, "2"),
        pod("web-7d4-a"),
        *old,
    ]
    cluster, _ = after(manifests, ("scale", "deployment/web=5"))
    assert replicas(cluster) == {"default/web-old": 2, "default/web-7d4": 3}
    cluster, _ = after(manifests, ("scale", "deployment/web=1"))
    assert replicas(cluster) == {"default/web-old": 0, "default/web-7d4": 1}


def test_pods_that_have_ended_or_are_being_deleted_do_not_count():
    failed = pod("web-7d4-f", status={"phase": "Failed"})
    going = pod("web-7d4-t", metadata={"deletionTimestamp": "2030-01-01T00:00:00Z"})
    cluster, _ = after(
        [node(), replica_set(), pod("web-7d4-a"), pod("web-7d4-b"), failed, going], ("scale", "deploy/web=3")
    )
    running = [name for name in cluster.pods if name not in ("default/web-7d4-f", "default/web-7d4-t")]
    assert len(running) == 3
    assert "default/web-7d4-f" in cluster.pods


def test_a_pod_of_a_stateful_set_that_is_being_deleted_comes_back_and_counts():
    """It keeps its ordinal: the controller waits for it to be gone, and makes no other in its place until then."""
    pods = [make_pod(f"db-{at}").label("app", "db").owned_by("StatefulSet", "db").node("n1") for at in range(3)]
    pods[1].terminating()
    site = Site(
        SimulatedCluster([make_node("n1").capacity(cpu="8", pods="20").build(), *(each.build() for each in pods)])
    )
    WhatIfRun(site).run([parse_flag("scale", "statefulset/db=3")])
    assert sorted(site.cluster.pods) == ["default/db-0", "default/db-1", "default/db-2"]
    WhatIfRun(site).run([parse_flag("scale", "statefulset/db=4")])
    assert sorted(site.cluster.pods)[-1] == "default/db-3"


def test_where_all_pods_have_ended_more_are_like_them():
    cluster, _ = after([node(), pod("rs-f", "rs", status={"phase": "Failed"})], ("scale", "rs/rs=2"))
    assert sorted(cluster.placements.values()) == ["n0"] * 3
    assert owners(cluster) == {"rs": 3}


def test_a_workload_that_is_deleted_is_gone_for_the_steps_that_follow():
    manifests = [node(), deployment(), replica_set(), pod("web-7d4-a"), pod("web-7d4-b")]
    with pytest.raises(ChangeError, match="neither the cluster nor a manifest has a Deployment default/web"):
        after(manifests, ("delete", "deployment/web"), ("scale", "deployment/web=2"))
    with pytest.raises(ChangeError, match="neither the cluster nor a manifest has a ReplicaSet default/web-7d4"):
        after(manifests, ("delete", "deployment/web"), ("scale", "rs/web-7d4=2"))


def test_a_deployment_that_was_rolled_out_is_scaled_by_its_new_replica_set():
    manifests = [node(), deployment(), replica_set(), pod("web-7d4-a"), pod("web-7d4-b")]
    rolled = Manifests([Document("Deployment", msgspec.json.encode(deployment(cpu="2")), "new")], "apply")
    cluster, _ = after(manifests, rolled, ("scale", "deployment/web=4"))
    ((name, count),) = owners(cluster).items()
    assert name != "web-7d4"
    assert count == 4
    assert replicas(cluster) == {"default/web-7d4": 0, f"default/{name}": 4}


def test_a_scale_before_its_manifest_is_what_the_manifests_objects_ask_for():
    """Budgets in percent count by what controllers ask for."""
    manifest = Manifests([Document("Deployment", msgspec.json.encode(deployment(1)), "new")], "apply")
    cluster, _ = after([node()], ("scale", "deployment/web=4"), manifest)
    assert list(replicas(cluster).values()) == [4]


@pytest.mark.parametrize(
    "change", [("drain", "n0"), ("removeNodes", "n0"), ("taint", "n0:a=b:NoExecute"), ("upgrade", "n0")]
)
def test_in_place_of_a_pod_that_is_being_deleted_there_is_another_already(change):
    going = pod("web-7d4-t", metadata={"deletionTimestamp": "2030-01-01T00:00:00Z"})
    cluster, result = after([node(), node("n1"), replica_set(replicas=1), pod("web-7d4-a"), going], change)
    assert list(cluster.pods) == ["default/web-7d4-a"]
    assert [each.pod for each in result.evicted] == ["default/web-7d4-a"]


def test_a_budget_does_not_keep_a_pod_that_is_being_deleted():
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"minAvailable": 5, "selector": {"matchLabels": {"app": "web"}}},
    }
    going = pod("web-7d4-t", metadata={"deletionTimestamp": "2030-01-01T00:00:00Z"})
    cluster, result = after([node(), budget, going], ("drain", "n0"))
    assert not cluster.pods
    assert not [each for each in result.broken if each.reason == "DrainBlocked"]


def test_a_job_gets_the_indexes_that_no_pod_of_it_has():
    """firstPendingIndexes in pkg/controller/job; the names of its own pods end in something made up."""
    index = "batch.kubernetes.io/job-completion-index"
    running = [
        make_pod(name).request(cpu="1").labels({index: number}).owned_by("Job", "sum").node("n0").document
        for name, number in (("sum-0-x7f2k", "0"), ("sum-2-b4d5g", "2"))
    ]
    cluster, _ = after([node(), *running], ("scale", "job/sum=4"))
    assert sorted(pod.metadata.labels[index] for pod in cluster.pods.values()) == ["0", "1", "2", "3"]
