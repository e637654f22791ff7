"""[sig-api-machinery] Namespaces and the garbage collector."""

import pytest

from packages.cluster.tests.suite.client import condition, pod, spec, workload
from tests.waiting import eventually


def namespace(name):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


@pytest.fixture
def another(cluster):
    """A second namespace, which the spec may delete."""
    name = f"{cluster.namespace}-too"
    cluster.create(namespace(name))
    yield cluster.in_namespace(name)
    if cluster.exists("Namespace", name):
        cluster.delete("Namespace", name)
    cluster.until_gone("Namespace", name)


@spec("Namespaces should ensure that all pods are removed when a namespace is deleted")
def test_pods_go_with_their_namespace(cluster, another):
    another.create(pod("one"))
    another.until_running("one")
    cluster.delete("Namespace", another.namespace)
    cluster.until_gone("Namespace", another.namespace)
    cluster.create(namespace(another.namespace))
    assert another.list("Pod") == []


@spec("OrderedNamespaceDeletion namespace deletion should delete pod first")
def test_pods_go_before_everything_else_in_their_namespace(cluster, another):
    held = pod("held")
    held["metadata"]["finalizers"] = ["e2e.example.com/finalizer"]
    another.create(held)
    another.until_running("held")
    another.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"key": "value"}})
    cluster.delete("Namespace", another.namespace)
    cluster.until("Namespace", another.namespace, lambda obj: condition(obj, "NamespaceDeletionContentFailure"))
    another.until("Pod", "held", lambda obj: "deletionTimestamp" in obj["metadata"])
    assert another.exists("ConfigMap", "one")
    another.patch("Pod", "held", {"metadata": {"finalizers": None}})
    cluster.until_gone("Namespace", another.namespace)


@spec("Namespaces should ensure that all services are removed when a namespace is deleted")
def test_services_go_with_their_namespace(cluster, another):
    ports = [{"port": 80, "targetPort": 80}]
    another.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "one"}, "spec": {"ports": ports}})
    cluster.delete("Namespace", another.namespace)
    cluster.until_gone("Namespace", another.namespace)
    cluster.create(namespace(another.namespace))
    assert another.list("Service") == []


@spec("Namespaces should patch a Namespace", "Namespaces should apply an update to a Namespace")
def test_a_namespace_is_labelled(cluster, another):
    patch = {"metadata": {"labels": {"testLabel": "testValue"}}}
    cluster.patch("Namespace", another.namespace, patch, how="strategic")
    read = cluster.read("Namespace", another.namespace)
    assert read["metadata"]["labels"]["testLabel"] == "testValue"
    read["metadata"]["labels"][another.namespace] = "updated"
    assert cluster.update(read)["metadata"]["labels"][another.namespace] == "updated"


@spec("Namespaces should apply changes to a namespace status")
def test_the_status_of_a_namespace(cluster, another):
    assert cluster.read("Namespace", another.namespace, "status")["status"]["phase"] == "Active"
    said = {"type": "StatusPatch", "status": "True", "reason": "Spec", "message": "patched"}
    patch = {"metadata": {"annotations": {"e2e-patched": "yes"}}, "status": {"conditions": [said]}}
    patched = cluster.patch("Namespace", another.namespace, patch, "status")
    assert patched["metadata"]["annotations"]["e2e-patched"] == "yes"
    assert condition(patched, "StatusPatch") == "True"
    patched["status"]["conditions"].append(said | {"type": "StatusUpdate"})
    updated = cluster.update(patched, "status")
    assert condition(updated, "StatusUpdate") == "True" and updated["status"]["phase"] == "Active"


@spec("Namespaces should apply a finalizer to a Namespace")
def test_a_finalizer_of_a_namespace(cluster, another):
    read = cluster.read("Namespace", another.namespace)
    assert read["spec"]["finalizers"] == ["kubernetes"]
    read["spec"]["finalizers"].append("e2e.example.com/fakeFinalizer")
    assert len(cluster.update(read, "finalize")["spec"]["finalizers"]) == 2
    read = cluster.read("Namespace", another.namespace)
    read["spec"]["finalizers"].remove("e2e.example.com/fakeFinalizer")
    assert cluster.update(read, "finalize")["spec"]["finalizers"] == ["kubernetes"]


# --- garbage --------------------------------------------------------------------------------------------------------


def pods_of(cluster, count):
    return cluster.until_count("Pod", count)


@spec("Garbage collector should delete pods created by rc when not orphaning")
def test_the_pods_of_a_controller_go_with_it(cluster):
    cluster.create(workload("ReplicationController", "rc", 2))
    pods_of(cluster, 2)
    cluster.delete("ReplicationController", "rc", propagationPolicy="Background")
    pods_of(cluster, 0)


@spec(
    "Garbage collector should orphan pods created by rc if delete options say so",
    "Garbage collector should orphan pods created by rc if deleteOptions.OrphanDependents is nil",
)
@pytest.mark.parametrize("options", [{"propagationPolicy": "Orphan"}, {}])
def test_the_pods_of_a_controller_stay_as_orphans(cluster, options):
    cluster.create(workload("ReplicationController", "rc", 10))
    cluster.until("ReplicationController", "rc", lambda rc: rc["status"]["replicas"] == 10)
    cluster.delete("ReplicationController", "rc", **options)
    cluster.until_gone("ReplicationController", "rc")
    for one in pods_of(cluster, 10):
        assert not one["metadata"].get("ownerReferences") and "deletionTimestamp" not in one["metadata"]


@spec("Garbage collector should delete RS created by deployment when not orphaning")
def test_the_replica_set_of_a_deployment_goes_with_it(cluster):
    cluster.create(workload("Deployment", "web", 2))
    cluster.until_count("ReplicaSet", 1)
    cluster.delete("Deployment", "web", propagationPolicy="Background")
    cluster.until_count("ReplicaSet", 0)
    pods_of(cluster, 0)


@spec("Garbage collector should orphan RS created by deployment when deleteOptions.PropagationPolicy is Orphan")
def test_the_replica_set_of_a_deployment_stays_as_an_orphan(cluster):
    cluster.create(workload("Deployment", "web", 2))
    cluster.until_count("ReplicaSet", 1)
    cluster.delete("Deployment", "web", propagationPolicy="Orphan")
    cluster.until_gone("Deployment", "web")
    (left,) = cluster.list("ReplicaSet")
    assert not left["metadata"].get("ownerReferences")
    pods_of(cluster, 2)


@spec("Garbage collector should keep the rc around until all its pods are deleted if the deleteOptions says so")
def test_a_controller_waits_for_its_pods(cluster):
    cluster.create(workload("ReplicationController", "rc", 10))
    pods = pods_of(cluster, 10)
    since = cluster.listing("Pod")["metadata"]["resourceVersion"]
    read = cluster.read("ReplicationController", "rc")
    options = {"propagationPolicy": "Foreground", "preconditions": {"uid": read["metadata"]["uid"]}}
    cluster.delete("ReplicationController", "rc", **options)
    cluster.until_gone("ReplicationController", "rc")
    assert cluster.list("Pod") == []
    gone = cluster.watch("Pod", lambda seen: seen[-1][0] == "DELETED", resourceVersion=since)
    assert gone[-1][1]["metadata"]["name"] in [one["metadata"]["name"] for one in pods]


def owner(kind, obj, **fields):
    metadata = obj["metadata"]
    return {"apiVersion": "v1", "kind": kind, "name": metadata["name"], "uid": metadata["uid"], **fields}


@spec(
    "Garbage collector should not delete dependents that have both valid owner and owner "
    "that's waiting for dependents to be deleted"
)
def test_what_has_another_owner_stays(cluster):
    first = cluster.create(workload("ReplicationController", "to-be-deleted", 10))
    second = cluster.create(workload("ReplicationController", "to-stay", 0))
    pods = pods_of(cluster, 10)
    for one in pods[:5]:
        name = one["metadata"]["name"]
        patch = {"metadata": {"ownerReferences": [owner("ReplicationController", second)]}}
        cluster.patch("Pod", name, patch, how="strategic")
    cluster.delete("ReplicationController", first["metadata"]["name"], propagationPolicy="Foreground")
    cluster.until_gone("ReplicationController", "to-be-deleted")
    left = pods_of(cluster, 5)
    assert {one["metadata"]["name"] for one in left} == {one["metadata"]["name"] for one in pods[:5]}
    for one in left:
        assert [each["name"] for each in one["metadata"]["ownerReferences"]] == ["to-stay"]
        assert "deletionTimestamp" not in one["metadata"]


@spec("Garbage collector should not be blocked by dependency circle")
def test_a_circle_is_no_obstacle(cluster):
    pods = [cluster.create(pod(f"pod{number}")) for number in range(3)]
    for number, one in enumerate(pods):
        reference = owner("Pod", pods[number - 1], controller=True, blockOwnerDeletion=True)
        cluster.patch("Pod", one["metadata"]["name"], {"metadata": {"ownerReferences": [reference]}})
    cluster.delete("Pod", "pod0", propagationPolicy="Foreground")
    pods_of(cluster, 0)


@spec("Garbage collector should delete jobs and pods created by cronjob")
@pytest.mark.long
def test_jobs_go_with_their_cron_job(cluster):
    made = {"metadata": {"labels": {"app": "cron"}}, "spec": pod("", restartPolicy="OnFailure")["spec"]}
    job = {"spec": {"template": made, "parallelism": 1, "completions": 1}}
    metadata = {"name": "simple"}
    body = {"schedule": "*/1 * * * ?", "jobTemplate": job}
    cluster.create({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": body})
    eventually(lambda: cluster.list("Job"))
    cluster.delete("CronJob", "simple", propagationPolicy="Background")
    cluster.until_count("Job", 0)
    cluster.until_count("Pod", 0)


@spec(
    "Garbage collector should support cascading deletion of custom resources",
    "Garbage collector should support orphan deletion of custom resources",
)
@pytest.mark.parametrize("policy", ["Background", "Orphan"])
def test_custom_owners(cluster, definitions, policy):
    definitions.create()
    kind = f"{definitions.group}/v1/Foo"
    first = cluster.create({"apiVersion": f"{definitions.group}/v1", "kind": "Foo", "metadata": {"name": "owner"}})
    reference = owner("Foo", first) | {"apiVersion": f"{definitions.group}/v1"}
    metadata = {"name": "dependent", "ownerReferences": [reference]}
    cluster.create({"apiVersion": f"{definitions.group}/v1", "kind": "Foo", "metadata": metadata})
    cluster.delete(kind, "owner", propagationPolicy=policy)
    cluster.until_gone(kind, "owner")
    if policy == "Background":
        cluster.until_gone(kind, "dependent")
    else:
        cluster.until(kind, "dependent", lambda obj: not obj["metadata"].get("ownerReferences"))
