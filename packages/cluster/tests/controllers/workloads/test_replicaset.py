"""ReplicaSets in virtual time: how many pods, which ones go, whose they are, what the status says."""

import pytest

from packages.cluster.tests.controllers.world import World, condition, meta, pod, replica_set


def names(pods):
    return {one["metadata"]["name"] for one in pods}


def test_creates_the_pods_asked_for_with_owner_and_labels():
    world = World()
    world.create(replica_set("web", 3))
    world.run()
    pods = world.pods("app=web")
    assert len(pods) == 3
    owner = pods[0]["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("ReplicaSet", "web", True)
    assert owner["uid"] == world.get("ReplicaSet", "web")["metadata"]["uid"]
    assert all(name.startswith("web-") for name in names(pods))


def test_status_counts_ready_pods():
    world = World(binds=False)
    world.create(replica_set("web", 3))
    world.run()
    status = world.status("ReplicaSet", "web")
    assert (status["replicas"], status.get("readyReplicas", 0), status["fullyLabeledReplicas"]) == (3, 0, 3)
    world.binds = True
    world.run()
    status = world.status("ReplicaSet", "web")
    assert (status["readyReplicas"], status["availableReplicas"], status["observedGeneration"]) == (3, 3, 1)


def test_a_pod_that_goes_is_replaced():
    world = World()
    world.create(replica_set("web", 2))
    world.run()
    gone = world.pods()[0]["metadata"]["name"]
    world.delete("Pod", gone)
    world.run(5)
    assert len(world.pods()) == 2
    assert gone not in names(world.pods())


def test_a_failed_pod_is_replaced_and_kept():
    world = World()
    world.create(replica_set("web", 1))
    world.run()
    failed = world.pods()[0]["metadata"]["name"]
    world.patch("Pod", failed, {"status": {"phase": "Failed"}}, subresource="status")
    world.run()
    assert failed in names(world.pods())
    assert len(world.pods()) == 2
    assert world.status("ReplicaSet", "web")["replicas"] == 1


def test_scaling_to_nothing_removes_all():
    world = World()
    world.create(replica_set("web", 4))
    world.run()
    world.scale("ReplicaSet", "web", 0)
    world.run(5)
    assert world.pods() == []
    assert world.status("ReplicaSet", "web")["replicas"] == 0


def test_min_ready_seconds_delays_availability():
    world = World()
    world.create(replica_set("web", 2, minReadySeconds=10))
    world.run(5)
    assert world.status("ReplicaSet", "web").get("availableReplicas", 0) == 0
    world.run(6)
    assert world.status("ReplicaSet", "web")["availableReplicas"] == 2


def test_a_loose_pod_that_matches_is_adopted_and_a_stranger_is_not():
    world = World()
    for name, app in (("mine", "web"), ("other", "db")):
        loose = pod(name)
        loose["metadata"]["labels"] = {"app": app}
        world.create(loose)
    world.create(replica_set("web", 2))
    world.run()
    assert len(world.pods("app=web")) == 2
    assert "mine" in names(world.pods("app=web"))
    assert "ownerReferences" not in world.get("Pod", "other")["metadata"]


def test_a_pod_whose_labels_change_is_released():
    world = World()
    world.create(replica_set("web", 1))
    world.run()
    name = world.pods()[0]["metadata"]["name"]
    world.patch("Pod", name, {"metadata": {"labels": {"app": "debug"}}})
    world.run()
    assert not world.get("Pod", name)["metadata"].get("ownerReferences")
    assert len(world.pods("app=web")) == 1


def test_pods_that_cannot_be_created_are_reported_and_tried_again():
    world = World()
    broken = replica_set("web", 2)
    broken["spec"]["template"]["spec"]["priorityClassName"] = "urgent"
    world.create(broken)
    world.run()
    status, reason, message = condition(world.get("ReplicaSet", "web"), "ReplicaFailure")
    assert (status, reason) == ("True", "FailedCreate")
    assert "urgent" in message
    assert world.events("ReplicaSet", "FailedCreate")
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
    world.create({**priority, "value": 1000})
    world.run(60)
    assert len(world.pods()) == 2
    assert condition(world.get("ReplicaSet", "web"), "ReplicaFailure") is None


@pytest.mark.parametrize(
    ("label", "patches", "victim"),
    [
        ("unassigned before assigned", {}, "c"),
        ("not ready before ready", {"b": {"conditions": [{"type": "Ready", "status": "False"}]}}, "b"),
    ],
)
def test_which_pod_goes_first(label, patches, victim):
    world = World(binds=False)
    for name in ("a", "b", "c"):
        one = pod(name)
        one["metadata"]["labels"] = {"app": "web"}
        world.create(one)
    bound = ("a", "b", "c") if victim != "c" else ("a", "b")
    for index, name in enumerate(bound):
        world.bind(world.get("Pod", name), f"node-{index}")
    world.run()
    for name, status in patches.items():
        world.patch("Pod", name, {"status": status}, subresource="status")
    world.create(replica_set("web", 3))
    world.run()
    world.scale("ReplicaSet", "web", 2)
    world.run(5)
    assert victim not in names(world.pods()), label
    assert len(world.pods()) == 2


def test_deletion_cost_decides_between_equals():
    world = World(nodes=4)
    world.create(replica_set("web", 3))
    world.run()
    cheap = sorted(names(world.pods()))[1]
    cost = {"controller.kubernetes.io/pod-deletion-cost": "-5"}
    world.patch("Pod", cheap, {"metadata": {"annotations": cost}})
    world.scale("ReplicaSet", "web", 2)
    world.run(5)
    assert cheap not in names(world.pods())


def test_pods_doubled_up_on_a_node_go_before_single_ones():
    world = World(nodes=3, binds=False)
    world.create(replica_set("web", 3))
    world.run()
    for one, node in zip(world.pods(), ("node-0", "node-0", "node-1"), strict=True):
        world.bind(one, node)
    world.run()
    world.scale("ReplicaSet", "web", 2)
    world.run(5)
    assert {one["spec"]["nodeName"] for one in world.pods()} == {"node-0", "node-1"}


def test_a_thousand_replicas_take_few_steps():
    world = World(binds=False)
    world.create(replica_set("web", 1000))
    steps = world.manager.run_until_quiet(world.now_s)
    assert len(world.pods()) == 1000
    assert steps < 20


def test_other_namespaces_are_left_alone():
    world = World(binds=False)
    world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    loose = pod("loose")
    loose["metadata"] = {"name": "loose", "namespace": "other", "labels": {"app": "web"}}
    world.create(loose)
    world.create({**replica_set("web", 1), "metadata": meta("web")})
    world.run()
    assert not world.get("Pod", "loose", "other")["metadata"].get("ownerReferences")


def test_pods_that_are_being_ended_are_counted_apart():
    """KEP-3973: terminatingReplicas, also in the Deployment's status."""
    world = World()
    world.create({**replica_set("web", 2), "kind": "Deployment"})
    world.run()
    world.delete("Pod", world.pods()[0]["metadata"]["name"])
    world.run()
    [found] = world.all("ReplicaSet")
    for status in (found["status"], world.status("Deployment", "web")):
        assert (status["replicas"], status["terminatingReplicas"]) == (2, 1)
    world.run(5)
    assert world.status("Deployment", "web")["terminatingReplicas"] == 0


def test_nothing_is_adopted_by_one_that_is_being_deleted():
    """Upstream: ControllerRefManager, canAdopt."""
    world = World()
    held = replica_set("web", 1)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    world.create(held)
    world.run()
    world.delete("ReplicaSet", "web")
    loose = pod("loose")
    loose["metadata"]["labels"] = {"app": "web"}
    world.create(loose)
    world.run(5)
    assert "ownerReferences" not in world.get("Pod", "loose")["metadata"]
