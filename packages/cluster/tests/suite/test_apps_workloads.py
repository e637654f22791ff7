"""[sig-apps] Deployments, ReplicaSets, ReplicationControllers, StatefulSets, DaemonSets and their revisions."""

from collections import Counter

import pytest

from packages.cluster.tests.suite.client import condition, is_running, pod, spec, workload
from tests.waiting import eventually

REPLICATED = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")


def running(cluster, count, **query):
    return cluster.until_count("Pod", count, is_running, **query)


def owner_of(obj):
    return next((ref["name"] for ref in obj["metadata"].get("ownerReferences") or () if ref.get("controller")), None)


def image_of(obj):
    return obj["spec"]["containers"][0]["image"]


def with_image(image):
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}


def set_image(cluster, kind, name, image):
    return cluster.patch(kind, name, with_image(image), how="strategic")


# --- what several kinds have ----------------------------------------------------------------------------------------


@spec(
    "Deployment Deployment should have a working scale subresource",
    "ReplicaSet Replicaset should have a working scale subresource",
    "StatefulSet Basic StatefulSet functionality should have a working scale subresource",
    "ReplicationController should get and update a ReplicationController scale",
)
@pytest.mark.parametrize("kind", REPLICATED)
def test_scale(cluster, kind):
    cluster.create(workload(kind, "web", 1))
    running(cluster, 1)
    scale = cluster.read(kind, "web", "scale")
    assert scale["kind"] == "Scale" and scale["spec"]["replicas"] == 1
    scale["spec"]["replicas"] = 2
    scale["metadata"]["resourceVersion"] = ""
    updated = cluster.call("PUT", cluster.path_of(kind, "web", "scale"), scale)
    assert updated["spec"]["replicas"] == 2 == cluster.read(kind, "web")["spec"]["replicas"]
    running(cluster, 2)
    cluster.patch(kind, "web", {"spec": {"replicas": 4}}, "scale")
    assert cluster.read(kind, "web")["spec"]["replicas"] == 4


@spec(
    "Deployment should validate Deployment Status endpoints",
    "ReplicaSet should validate Replicaset Status endpoints",
    "StatefulSet Basic StatefulSet functionality should validate Statefulset Status endpoints",
    "Daemon set should verify changes to a daemon set status",
)
@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"])
def test_status(cluster, kind):
    cluster.create(workload(kind, "web", None if kind == "DaemonSet" else 1))
    cluster.until_count("Pod", 3 if kind == "DaemonSet" else 1, is_running)
    read = eventually(lambda: _settled(cluster, kind))
    said = {"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "Set from e2e test"}
    read["status"].setdefault("conditions", []).append(said)
    del read["metadata"]["resourceVersion"]
    assert condition(cluster.update(read, "status"), "StatusUpdate") == "True"
    since = read = cluster.read(kind, "web", "status")
    assert read["kind"] == kind
    patch = {"status": {"conditions": [{"type": "StatusPatched", "status": "True"}]}}
    patched = cluster.patch(kind, "web", patch, "status")
    assert condition(patched, "StatusPatched") == "True"
    since = since["metadata"]["resourceVersion"]
    cluster.watch(kind, lambda seen: condition(seen[-1][1], "StatusPatched") == "True", resourceVersion=since)


def _settled(cluster, kind):
    read = cluster.read(kind, "web")
    ready = read["status"].get("availableReplicas") == 1 or read["status"].get("numberAvailable") == 3
    return read if ready else None


@spec(
    "ReplicaSet should list and delete a collection of ReplicaSets",
    "Daemon set should list and delete a collection of DaemonSets",
    "StatefulSet Basic StatefulSet functionality should list, patch and delete a collection of StatefulSets",
)
@pytest.mark.parametrize("kind", ["ReplicaSet", "DaemonSet", "StatefulSet"])
def test_collections(cluster, kind):
    cluster.create(workload(kind, "web", None if kind == "DaemonSet" else 2))
    selector = {"labelSelector": "app=web"}
    assert len(cluster.list(kind, everywhere=True, **selector)) == 1
    patched = cluster.patch(kind, "web", {"metadata": {"labels": {"test": "patched"}}}, how="strategic")
    assert patched["metadata"]["labels"]["test"] == "patched"
    cluster.delete_all(kind, **selector)
    cluster.until_count(kind, 0, **selector)
    cluster.until_count("Pod", 0)


@spec(
    "ReplicaSet should adopt matching pods on creation and release no longer matching pods",
    "ReplicationController should adopt matching pods on creation",
    "ReplicationController should release no longer matching pods",
)
@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController"])
def test_adoption_and_release(cluster, kind):
    cluster.create(pod("orphan", labels={"name": "adopted"}))
    cluster.create(workload(kind, "web", 1, labels={"name": "adopted"}))
    cluster.until("Pod", "orphan", lambda obj: owner_of(obj) == "web")
    cluster.patch("Pod", "orphan", {"metadata": {"labels": {"name": "released"}}})
    cluster.until("Pod", "orphan", lambda obj: owner_of(obj) is None)


# --- deployments ----------------------------------------------------------------------------------------------------


def until_complete(cluster, name, replicas):
    def is_complete(obj):
        status = obj.get("status", {})
        counts = [status.get(key) for key in ("replicas", "updatedReplicas", "availableReplicas")]
        return counts == [replicas] * 3 and status["observedGeneration"] >= obj["metadata"]["generation"]

    return cluster.until("Deployment", name, is_complete)


@spec("Deployment RollingUpdateDeployment should delete old pods and create new ones")
def test_a_rolling_update_of_adopted_pods(cluster):
    cluster.create(workload("ReplicaSet", "controller", 1, labels={"name": "sample"}))
    running(cluster, 1)
    labels = {"name": "sample"}
    body = workload("Deployment", "rolling", 1, labels=labels)
    body["spec"]["template"]["spec"]["containers"][0]["image"] = "agnhost:2"
    cluster.create(body)
    until_complete(cluster, "rolling", 1)
    sets = {each["metadata"]["name"]: each for each in cluster.list("ReplicaSet")}
    assert len(sets) == 2 and sets["controller"]["spec"]["replicas"] == 0
    assert {owner_of(each) for each in sets.values()} == {"rolling"}


@spec("Deployment RecreateDeployment should delete old pods and create new ones")
def test_recreate_first_removes(cluster):
    body = workload("Deployment", "web", 1, strategy={"type": "Recreate"})
    cluster.create(body)
    until_complete(cluster, "web", 1)
    since = cluster.listing("Pod")["metadata"]["resourceVersion"]
    set_image(cluster, "Deployment", "web", "httpd:2")
    until_complete(cluster, "web", 1)
    events = cluster.watch(
        "Pod",
        lambda seen: (
            is_running(seen[-1][1])
            and seen[-1][1]["metadata"]["labels"]["pod-template-hash"]
            != seen[0][1]["metadata"]["labels"]["pod-template-hash"]
        ),
        resourceVersion=since,
    )
    kinds = [event for event, _ in events if event != "MODIFIED"]
    assert kinds == ["DELETED", "ADDED"]


@spec("Deployment deployment should delete old replica sets")
def test_history_is_limited(cluster):
    cluster.create(workload("ReplicaSet", "old", 1, labels={"name": "cleanup"}))
    running(cluster, 1)
    body = workload("Deployment", "web", 1, labels={"name": "cleanup"}, revisionHistoryLimit=0)
    body["spec"]["template"]["spec"]["containers"][0]["image"] = "agnhost:2"
    cluster.create(body)
    until_complete(cluster, "web", 1)
    cluster.until_gone("ReplicaSet", "old")


@spec("Deployment deployment should support rollover")
def test_rollover(cluster):
    cluster.create(workload("ReplicaSet", "first", 1, labels={"name": "rollover"}))
    running(cluster, 1)
    strategy = {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}, "type": "RollingUpdate"}
    body = workload("Deployment", "web", 1, labels={"name": "rollover"}, strategy=strategy, minReadySeconds=1)
    body["spec"]["template"]["spec"]["containers"][0]["image"] = "gb-redisslave:nonexistent"
    cluster.create(body)
    cluster.until("Deployment", "web", lambda obj: obj.get("status", {}).get("updatedReplicas") == 1)
    set_image(cluster, "Deployment", "web", "agnhost:2")
    until_complete(cluster, "web", 1)
    sets = {image_of(each["spec"]["template"]): each["spec"]["replicas"] for each in cluster.list("ReplicaSet")}
    assert sets.pop("agnhost:2") == 1 and set(sets.values()) == {0}


@spec("Deployment deployment should support proportional scaling")
def test_proportional_scaling(cluster):
    strategy = {"rollingUpdate": {"maxUnavailable": 2, "maxSurge": 3}, "type": "RollingUpdate"}
    cluster.create(workload("Deployment", "web", 10, strategy=strategy))
    until_complete(cluster, "web", 10)
    set_image(cluster, "Deployment", "web", "webserver:404")

    def sizes():
        found = {image_of(each["spec"]["template"]): each["spec"]["replicas"] for each in cluster.list("ReplicaSet")}
        return (found.pop("webserver:404", 0), *found.values())

    eventually(lambda: sizes() == (5, 8))
    cluster.until("Deployment", "web", lambda obj: obj["status"].get("availableReplicas") == 8)
    cluster.patch("Deployment", "web", {"spec": {"replicas": 30}})
    eventually(lambda: sizes() == (13, 20))


@spec("Deployment should run the lifecycle of a Deployment")
def test_the_life_of_a_deployment(cluster):
    made = workload("Deployment", "web", 1, labels={"test-deployment-static": "true"})
    cluster.create(made)
    until_complete(cluster, "web", 1)
    patch = with_image("pause:2")
    patch["metadata"] = {"labels": {"test-deployment": "patched"}}
    patch["spec"]["replicas"] = 2
    cluster.patch("Deployment", "web", patch, how="strategic")
    until_complete(cluster, "web", 2)
    listed = cluster.list("Deployment", everywhere=True, labelSelector="test-deployment-static=true")
    assert [each["metadata"]["labels"]["test-deployment"] for each in listed] == ["patched"]
    patch = {"metadata": {"labels": {"test-deployment": "patched-status"}}, "status": {"readyReplicas": 0}}
    status = cluster.patch("Deployment", "web", patch, "status")
    assert status["status"].get("readyReplicas", 0) == 0
    read = cluster.read("Deployment", "web")
    read["metadata"]["labels"]["test-deployment"] = "updated"
    del read["metadata"]["resourceVersion"]
    read["spec"]["template"]["spec"]["containers"][0]["image"] = "agnhost:2"
    assert cluster.update(read)["metadata"]["labels"]["test-deployment"] == "updated"
    until_complete(cluster, "web", 2)
    since = cluster.listing("Deployment")["metadata"]["resourceVersion"]
    cluster.delete_all("Deployment", labelSelector="test-deployment-static=true")
    cluster.watch("Deployment", lambda seen: seen[-1][0] == "DELETED", resourceVersion=since)


# --- replica sets and replication controllers -----------------------------------------------------------------------


@spec("ReplicaSet Replace and Patch tests")
def test_a_replica_set_is_changed(cluster):
    cluster.create(workload("ReplicaSet", "web", 1))
    running(cluster, 1)
    cluster.patch("ReplicaSet", "web", {"spec": {"replicas": 2}}, "scale")
    running(cluster, 2)
    patch = with_image("pause:2")
    patch["metadata"] = {"labels": {"test-rs": "patched"}}
    patch["spec"] |= {"replicas": 3}
    patch["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 0
    patched = cluster.patch("ReplicaSet", "web", patch, how="strategic")
    assert patched["metadata"]["labels"]["test-rs"] == "patched"
    running(cluster, 3)


@spec("ReplicationController should surface a failure condition on a common issue like exceeded quota")
def test_a_quota_shows_in_a_condition(cluster):
    name = "condition-test"
    metadata = {"name": name}
    cluster.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"pods": "2"}}})
    cluster.until("ResourceQuota", name, lambda obj: obj.get("status", {}).get("hard"))
    cluster.create(workload("ReplicationController", name, 3))
    cluster.until("ReplicationController", name, lambda obj: condition(obj, "ReplicaFailure") == "True")
    cluster.patch("ReplicationController", name, {"spec": {"replicas": 2}}, "scale")
    cluster.until("ReplicationController", name, lambda obj: condition(obj, "ReplicaFailure") is None)


@spec("ReplicationController should test the lifecycle of a ReplicationController")
def test_the_life_of_a_replication_controller(cluster):
    cluster.create(workload("ReplicationController", "rc", 1, labels={"test-rc-static": "true"}))
    cluster.until("ReplicationController", "rc", lambda obj: obj["status"].get("readyReplicas") == 1)
    patch = {"metadata": {"labels": {"test-rc": "patched"}}}
    assert cluster.patch("ReplicationController", "rc", patch, how="strategic")["metadata"]["labels"]["test-rc"]
    patched = cluster.patch(
        "ReplicationController", "rc", {"status": {"readyReplicas": 0, "availableReplicas": 0}}, "status"
    )
    assert patched["status"].get("readyReplicas", 0) == 0
    assert cluster.read("ReplicationController", "rc", "status")["kind"] == "ReplicationController"
    cluster.patch("ReplicationController", "rc", {"spec": {"replicas": 2}}, "scale")
    found = cluster.until("ReplicationController", "rc", lambda obj: obj["status"].get("readyReplicas") == 2)
    assert len(cluster.list("ReplicationController", everywhere=True, labelSelector="test-rc-static=true")) == 1
    del found["metadata"]["resourceVersion"]
    found["metadata"]["labels"]["test-rc"] = "updated"
    cluster.update(found)
    cluster.delete_all("ReplicationController", labelSelector="test-rc-static=true")
    cluster.until_gone("ReplicationController", "rc")


# --- stateful sets --------------------------------------------------------------------------------------------------


def service(cluster, name="test"):
    ports = {"clusterIP": "None", "selector": {"app": "ss"}, "ports": [{"port": 80, "name": "http"}]}
    cluster.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": ports})


def stateful_set(cluster, replicas, **fields):
    service(cluster)
    cluster.create(workload("StatefulSet", "ss", replicas, serviceName="test", **fields))
    return running(cluster, replicas)


def images(cluster):
    return {each["metadata"]["name"]: image_of(each) for each in cluster.list("Pod")}


def until_updated(cluster):
    def is_updated(obj):
        status = obj["status"]
        return (
            status.get("updateRevision") == status.get("currentRevision")
            and status.get("readyReplicas") == obj["spec"]["replicas"]
            and status["observedGeneration"] == obj["metadata"]["generation"]
        )

    return cluster.until("StatefulSet", "ss", is_updated)


@spec(
    "StatefulSet Basic StatefulSet functionality should perform rolling updates and roll "
    "backs of template modifications"
)
@pytest.mark.long
def test_a_stateful_set_rolls_forth_and_back(cluster):
    stateful_set(cluster, 3)
    first = until_updated(cluster)["status"]["currentRevision"]
    since = cluster.listing("Pod")["metadata"]["resourceVersion"]
    for image in ("httpd:2", "registry.k8s.io/pause:3.10"):
        set_image(cluster, "StatefulSet", "ss", image)
        cluster.until(
            "StatefulSet", "ss", lambda obj: obj["status"]["observedGeneration"] == obj["metadata"]["generation"]
        )
        status = until_updated(cluster)["status"]
        assert set(images(cluster).values()) == {image}
        assert (status["currentRevision"] == first) == (image != "httpd:2")
    events = cluster.watch("Pod", lambda seen: Counter(event for event, _ in seen)["ADDED"] == 6, resourceVersion=since)
    added = [obj["metadata"]["name"] for event, obj in events if event == "ADDED"]
    assert added == ["ss-2", "ss-1", "ss-0"] * 2


@spec(
    "StatefulSet Basic StatefulSet functionality should perform canary updates and phased "
    "rolling updates of template modifications"
)
def test_a_stateful_set_is_updated_in_parts(cluster):
    def partition(number):
        return {"type": "RollingUpdate", "rollingUpdate": {"partition": number}}

    stateful_set(cluster, 3, updateStrategy=partition(3))
    old, new = "registry.k8s.io/pause:3.10", "httpd:2"
    set_image(cluster, "StatefulSet", "ss", new)
    cluster.until("StatefulSet", "ss", lambda obj: obj["status"]["updateRevision"] != obj["status"]["currentRevision"])
    assert set(images(cluster).values()) == {old}
    cluster.patch("StatefulSet", "ss", {"spec": {"updateStrategy": partition(2)}})
    expected = {"ss-0": old, "ss-1": old, "ss-2": new}
    eventually(lambda: images(cluster) == expected)
    running(cluster, 3)
    for name in ("ss-0", "ss-2"):
        uid = cluster.read("Pod", name)["metadata"]["uid"]
        cluster.delete("Pod", name, gracePeriodSeconds=0)
        eventually(lambda uid=uid: uid not in [one["metadata"]["uid"] for one in running(cluster, 3)])
    assert images(cluster) == expected
    for number in (1, 0):
        cluster.patch("StatefulSet", "ss", {"spec": {"updateStrategy": partition(number)}})
        eventually(lambda number=number: images(cluster)[f"ss-{number}"] == new and running(cluster, 3))
    until_updated(cluster)


@spec(
    "StatefulSet Basic StatefulSet functionality Scaling should happen in predictable "
    "order and halt if any stateful pod is unhealthy"
)
def test_a_stateful_set_waits_for_the_unready(cluster):
    service(cluster)
    annotations = {"berth.dev/ready-seconds": "0"}
    body = workload("StatefulSet", "ss", 1, serviceName="test")
    body["spec"]["template"]["metadata"]["annotations"] = annotations
    body["spec"]["template"]["spec"]["readinessGates"] = [{"conditionType": "example.com/healthy"}]
    since = cluster.listing("Pod")["metadata"]["resourceVersion"]
    cluster.create(body)

    def healthy(number, status="True"):
        said = {"type": "example.com/healthy", "status": status}
        cluster.patch("Pod", f"ss-{number}", {"status": {"conditions": [said]}}, "status", how="strategic")
        cluster.until("Pod", f"ss-{number}", lambda obj: condition(obj, "Ready") == status)

    running(cluster, 1)
    cluster.patch("StatefulSet", "ss", {"spec": {"replicas": 3}}, "scale")
    cluster.until("StatefulSet", "ss", lambda obj: obj["status"]["observedGeneration"] == obj["metadata"]["generation"])
    assert len(cluster.list("Pod")) == 1
    for number in range(3):
        cluster.until("Pod", f"ss-{number}", is_running)
        assert len(cluster.list("Pod")) == number + 1
        healthy(number)
    healthy(0, "False")
    cluster.patch("StatefulSet", "ss", {"spec": {"replicas": 0}}, "scale")
    cluster.until("StatefulSet", "ss", lambda obj: obj["status"]["observedGeneration"] == obj["metadata"]["generation"])
    assert len(cluster.list("Pod")) == 3
    healthy(0)
    cluster.until_count("Pod", 0)
    events = cluster.watch("Pod", lambda seen: [kind for kind, _ in seen].count("DELETED") == 3, resourceVersion=since)
    deleted = [obj["metadata"]["name"] for event, obj in events if event == "DELETED"]
    assert deleted == ["ss-2", "ss-1", "ss-0"]


@spec("StatefulSet Basic StatefulSet functionality Burst scaling should run to completion even with unhealthy pods")
def test_a_parallel_stateful_set_does_not_wait(cluster):
    service(cluster)
    body = workload("StatefulSet", "ss", 1, serviceName="test", podManagementPolicy="Parallel")
    body["spec"]["template"]["spec"]["readinessGates"] = [{"conditionType": "example.com/healthy"}]
    cluster.create(body)
    running(cluster, 1)
    cluster.patch("StatefulSet", "ss", {"spec": {"replicas": 3}}, "scale")
    assert all(condition(each, "Ready") != "True" for each in running(cluster, 3))
    cluster.patch("StatefulSet", "ss", {"spec": {"replicas": 0}}, "scale")
    cluster.until_count("Pod", 0)
    cluster.until("StatefulSet", "ss", lambda obj: obj["status"]["replicas"] == 0)


@spec("StatefulSet Basic StatefulSet functionality Should recreate evicted statefulset")
def test_a_refused_pod_of_a_stateful_set_is_made_again(cluster):
    service(cluster)
    node = sorted(cluster.names("Node"))[0]
    port = [{"name": "conflict", "containerPort": 21017, "hostPort": 21017}]
    cluster.create(pod("blocker", ports=port, nodeName=node))
    cluster.until_running("blocker")
    since = cluster.listing("Pod")["metadata"]["resourceVersion"]
    cluster.create(workload("StatefulSet", "ss", 1, serviceName="test", of={"ports": port, "nodeName": node}))

    def twice(seen):
        uids = {obj["metadata"]["uid"] for _, obj in seen if obj["metadata"]["name"] == "ss-0"}
        return len(uids) >= 2

    events = cluster.watch("Pod", twice, resourceVersion=since)
    assert "Failed" in [obj["status"].get("phase") for _, obj in events]
    cluster.delete("Pod", "blocker")
    cluster.until_gone("Pod", "blocker")
    eventually(lambda: [each for each in cluster.list("Pod", labelSelector="app=ss") if is_running(each)])


# --- daemon sets ----------------------------------------------------------------------------------------------------


@spec("Daemon set should run and stop simple daemon", "Daemon set should retry creating failed daemon pods")
def test_a_daemon_on_each_node(cluster):
    cluster.create(workload("DaemonSet", "ds"))
    pods = running(cluster, 3)
    assert {each["spec"]["nodeName"] for each in pods} == set(cluster.names("Node"))
    first, second = (each["metadata"]["name"] for each in pods[:2])
    cluster.delete("Pod", first)
    cluster.until_gone("Pod", first)
    running(cluster, 3)
    failed = cluster.read("Pod", second)
    failed["status"]["phase"] = "Failed"
    failed["metadata"]["resourceVersion"] = ""
    cluster.update(failed, "status")
    cluster.until_gone("Pod", second)
    running(cluster, 3)


@spec(
    "Daemon set should run and stop complex daemon", "Daemon set should run and stop complex daemon with node affinity"
)
@pytest.mark.parametrize("affine", [False, True])
def test_a_daemon_on_nodes_with_a_label(cluster, affine):
    key = f"daemonset-color-{cluster.namespace}"
    node = sorted(cluster.names("Node"))[0]
    if affine:
        terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": ["blue"]}]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        of = {"affinity": {"nodeAffinity": required}}
    else:
        of = {"nodeSelector": {key: "blue"}}
    cluster.create(workload("DaemonSet", "ds", of=of))
    cluster.until("DaemonSet", "ds", lambda obj: obj["status"].get("observedGeneration") == 1)
    assert cluster.list("Pod") == []
    try:
        cluster.patch("Node", node, {"metadata": {"labels": {key: "blue"}}})
        (one,) = running(cluster, 1)
        assert one["spec"]["nodeName"] == node
        cluster.patch("Node", node, {"metadata": {"labels": {key: "green"}}})
        cluster.until_count("Pod", 0)
        if not affine:
            patch = {"spec": {"template": {"spec": {"nodeSelector": {key: "green"}}}}}
            patch["spec"]["updateStrategy"] = {"type": "RollingUpdate"}
            cluster.patch("DaemonSet", "ds", patch)
            running(cluster, 1)
    finally:
        cluster.patch("Node", node, {"metadata": {"labels": {key: None}}})


@spec("Daemon set should update pod when spec was updated and update strategy is RollingUpdate")
def test_a_daemon_is_updated(cluster):
    cluster.create(workload("DaemonSet", "ds", updateStrategy={"type": "RollingUpdate"}))
    before = {each["metadata"]["labels"]["controller-revision-hash"] for each in running(cluster, 3)}
    set_image(cluster, "DaemonSet", "ds", "agnhost:2")
    eventually(lambda: set(images(cluster).values()) == {"agnhost:2"} and len(running(cluster, 3)) == 3)
    after = {each["metadata"]["labels"]["controller-revision-hash"] for each in cluster.list("Pod")}
    assert len(before) == len(after) == 1 and before != after
    assert len(cluster.list("ControllerRevision")) == 2


@spec("Daemon set should rollback without unnecessary restarts")
def test_a_daemon_goes_back_without_restarts(cluster):
    cluster.create(workload("DaemonSet", "ds", updateStrategy={"type": "RollingUpdate"}))
    before = {each["metadata"]["name"] for each in running(cluster, 3)}
    set_image(cluster, "DaemonSet", "ds", "foo:non-existent")
    eventually(lambda: "foo:non-existent" in images(cluster).values())
    kept = {name for name, image in images(cluster).items() if image != "foo:non-existent"} & before
    assert len(kept) == 2
    set_image(cluster, "DaemonSet", "ds", "registry.k8s.io/pause:3.10")
    eventually(
        lambda: set(images(cluster).values()) == {"registry.k8s.io/pause:3.10"} and len(running(cluster, 3)) == 3
    )
    assert kept <= set(images(cluster))


@spec("ControllerRevision should manage the lifecycle of a ControllerRevision")
def test_the_life_of_a_revision(cluster):
    cluster.create(workload("DaemonSet", "ds"))
    running(cluster, 3)
    selector = {"labelSelector": "app=ds"}
    (first,) = cluster.list("ControllerRevision", everywhere=True, **selector)
    name = first["metadata"]["name"]
    patch = {"metadata": {"labels": {name: "patched"}}}
    cluster.patch("ControllerRevision", name, patch, how="strategic")
    metadata = {
        "name": "ds-new",
        "labels": first["metadata"]["labels"],
        "ownerReferences": first["metadata"]["ownerReferences"],
    }
    made = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata}
    cluster.create(made | {"data": first["data"], "revision": first["revision"] + 1})
    cluster.until_count("ControllerRevision", 2, **selector)
    cluster.delete("ControllerRevision", name)
    cluster.until_count("ControllerRevision", 1, **selector)
    last = cluster.read("ControllerRevision", "ds-new")
    last["metadata"]["labels"]["ds-new"] = "updated"
    del last["metadata"]["resourceVersion"]
    assert cluster.update(last)["metadata"]["labels"]["ds-new"] == "updated"
    patch = {
        "spec": {
            "template": {"spec": {"terminationGracePeriodSeconds": 1}},
            "updateStrategy": {"type": "RollingUpdate"},
        }
    }
    cluster.patch("DaemonSet", "ds", patch, how="strategic")
    cluster.until_count("ControllerRevision", 2, **selector)
    cluster.delete_all("ControllerRevision", labelSelector="ds-new=updated")
    (left,) = cluster.until_count("ControllerRevision", 1, **selector)
    assert left["revision"] == 3
