"""ReplicationControllers, after upstream's conformance specs "[sig-apps] ReplicationController should …"."""

from packages.cluster.tests.controllers.world import World, condition, meta, pod, pod_template


def replication_controller(name, replicas):
    spec = {"replicas": replicas, "selector": {"app": name}, "template": pod_template({"app": name})}
    return {"kind": "ReplicationController", "metadata": meta(name), "spec": spec}


def test_should_serve_a_basic_image_on_each_replica():
    world = World()
    made = world.create(replication_controller("web", 3))
    world.run(5)
    assert world.status("ReplicationController", "web")["availableReplicas"] == 3
    (owner,) = world.pods()[0]["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["uid"]) == (
        "v1",
        "ReplicationController",
        made["metadata"]["uid"],
    )
    world.scale("ReplicationController", "web", 1)
    world.run(5)
    assert len(world.pods()) == 1


def test_should_adopt_matching_pods_on_creation_and_release_no_longer_matching_pods():
    world = World()
    one = pod("one")
    one["metadata"]["labels"] = {"app": "web"}
    world.create(one)
    world.create(replication_controller("web", 1))
    world.run(5)
    (adopted,) = world.pods()
    assert adopted["metadata"]["ownerReferences"][0]["kind"] == "ReplicationController"
    world.patch("Pod", "one", {"metadata": {"labels": {"app": "other"}}})
    world.run(5)
    assert "ownerReferences" not in world.get("Pod", "one")["metadata"]
    assert len(world.pods("app=web")) == 1


def test_should_surface_a_failure_condition_on_a_common_issue_like_exceeded_quota():
    world = World()
    made = replication_controller("web", 1)
    made["spec"]["template"]["spec"]["serviceAccountName"] = "missing"
    world.create(made)
    world.run(5)
    status, reason, _ = condition(world.get("ReplicationController", "web"), "ReplicaFailure")
    assert (status, reason) == ("True", "FailedCreate")
