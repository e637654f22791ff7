"""Deployments in virtual time: rollouts, strategies, scaling in mid-rollout, history, conditions."""

import pytest

from berth_cluster.controllers.workloads.rollout import oldest_first
from packages.cluster.tests.controllers.world import World, condition, deployment, replica_set

REVISION = "deployment.kubernetes.io/revision"


def sizes(world):
    """Wanted pods of each ReplicaSet, by the image of its template."""
    return {
        one["spec"]["template"]["spec"]["containers"][0]["image"]: one["spec"]["replicas"]
        for one in world.all("ReplicaSet")
    }


def set_image(world, name, image):
    containers = [{"name": "main", "image": image}]
    world.patch("Deployment", name, {"spec": {"template": {"spec": {"containers": containers}}}})


def up(replicas=4, **spec):
    world = World()
    world.create(deployment("web", replicas, **spec))
    world.run()
    return world


def test_makes_a_replica_set_with_the_template_hash():
    world = up(3)
    (made,) = world.all("ReplicaSet")
    digest = made["metadata"]["labels"]["pod-template-hash"]
    assert made["metadata"]["name"] == f"web-{digest}"
    assert made["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": digest}
    assert made["metadata"]["annotations"]["deployment.kubernetes.io/desired-replicas"] == "3"
    assert made["metadata"]["annotations"]["deployment.kubernetes.io/max-replicas"] == "4"
    assert {one["metadata"]["labels"]["pod-template-hash"] for one in world.pods()} == {digest}


def test_status_after_a_rollout_is_what_kubectl_waits_for():
    world = up(3)
    found = world.get("Deployment", "web")
    status = found["status"]
    assert status["observedGeneration"] == found["metadata"]["generation"]
    counts = [status[name] for name in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")]
    assert counts == [3, 3, 3, 3]
    assert "unavailableReplicas" not in status
    assert condition(found, "Available") == (
        "True",
        "MinimumReplicasAvailable",
        "Deployment has minimum availability.",
    )
    name = world.all("ReplicaSet")[0]["metadata"]["name"]
    progressed = f'ReplicaSet "{name}" has successfully progressed.'
    assert condition(found, "Progressing") == ("True", "NewReplicaSetAvailable", progressed)
    assert found["metadata"]["annotations"][REVISION] == "1"


def test_before_any_pod_is_ready_the_minimum_is_missing():
    world = World(binds=False)
    world.create(deployment("web", 3))
    world.run()
    found = world.get("Deployment", "web")
    assert found["status"]["unavailableReplicas"] == 3
    assert condition(found, "Available") == (
        "False",
        "MinimumReplicasUnavailable",
        "Deployment does not have minimum availability.",
    )
    name = world.all("ReplicaSet")[0]["metadata"]["name"]
    progressing = ("True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
    assert condition(found, "Progressing") == progressing


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "first_step"),
    [
        # new ones as far as the surge allows; old ones as far as may be missing
        (10, "25%", "25%", {"old": 8, "new": 5}),
        (4, 1, 0, {"old": 4, "new": 1}),
        (4, 0, 1, {"old": 3, "new": 1}),
        (4, "100%", 0, {"old": 4, "new": 4}),
        (3, "0%", "0%", {"old": 2, "new": 1}),
    ],
)
def test_rolling_update_respects_surge_and_unavailable(replicas, surge, unavailable, first_step):
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    world = up(replicas, strategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    world.binds = False  # the new pods stay pending: the rollout must stop where it is
    set_image(world, "web", "new")
    world.run(5)
    assert sizes(world) == {"nginx": first_step["old"], "new": first_step["new"]}
    world.binds = True
    world.run(5)
    assert sizes(world) == {"nginx": 0, "new": replicas}
    assert len(world.pods()) == replicas


def test_never_fewer_available_than_allowed_while_rolling():
    world = up(8, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 2}})
    lowest = [8]
    most = [8]

    def look(_type, resource, _obj, _old):
        if resource.kind == "Pod":
            ready = [one for one in world.pods() if one.get("status", {}).get("phase") == "Running"]
            alive = [one for one in ready if "deletionTimestamp" not in one["metadata"]]
            lowest[0] = min(lowest[0], len(alive))
            pods = [one for one in world.pods() if "deletionTimestamp" not in one["metadata"]]
            most[0] = max(most[0], len(pods))

    world.store.subscribe(look)
    set_image(world, "web", "new")
    world.run(10)
    assert sizes(world) == {"nginx": 0, "new": 8}
    assert (lowest[0], most[0]) == (6, 9)


def test_recreate_ends_all_old_pods_before_the_first_new_one():
    world = up(3, strategy={"type": "Recreate"})
    set_image(world, "web", "new")
    world.run()
    assert sizes(world) == {"nginx": 0}
    assert all("deletionTimestamp" in one["metadata"] for one in world.pods())
    world.run(5)
    assert sizes(world) == {"nginx": 0, "new": 3}
    assert {one["spec"]["containers"][0]["image"] for one in world.pods()} == {"new"}


def test_going_back_reuses_the_old_replica_set_under_a_new_revision():
    world = up(2)
    first = world.all("ReplicaSet")[0]["metadata"]["name"]
    set_image(world, "web", "new")
    world.run(5)
    assert world.get("Deployment", "web")["metadata"]["annotations"][REVISION] == "2"
    original = [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}]
    world.patch("Deployment", "web", {"spec": {"template": {"spec": {"containers": original}}}})
    world.run(5)
    assert len(world.all("ReplicaSet")) == 2
    annotations = world.get("ReplicaSet", first)["metadata"]["annotations"]
    assert annotations[REVISION] == "3"
    assert annotations["deployment.kubernetes.io/revision-history"] == "1"
    assert world.get("Deployment", "web")["metadata"]["annotations"][REVISION] == "3"


def test_history_is_cut_to_its_limit():
    world = up(1, revisionHistoryLimit=2)
    for number in range(5):
        set_image(world, "web", f"v{number}")
        world.run(5)
    assert set(sizes(world)) == {"v2", "v3", "v4"}


def test_scaling_makes_no_new_replica_set():
    world = up(2)
    world.scale("Deployment", "web", 5)
    world.run(5)
    assert sizes(world) == {"nginx": 5}
    assert len(world.pods()) == 5
    assert world.events("Deployment", "ScalingReplicaSet")[-1].endswith("from 2 to 5")


def test_scaling_in_mid_rollout_is_shared_in_proportion():
    # The documented example: 10 replicas, maxSurge 3, maxUnavailable 2, an image that never comes up, then 15.
    world = up(10, strategy={"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}})
    world.binds = False
    set_image(world, "web", "broken")
    world.run(5)
    assert sizes(world) == {"nginx": 8, "broken": 5}
    world.scale("Deployment", "web", 15)
    world.run(5)
    assert sizes(world) == {"nginx": 11, "broken": 7}


def test_a_paused_deployment_scales_but_does_not_roll():
    world = up(2)
    world.patch("Deployment", "web", {"spec": {"paused": True}})
    set_image(world, "web", "new")
    world.scale("Deployment", "web", 3)
    world.run(5)
    assert sizes(world) == {"nginx": 3}
    paused = condition(world.get("Deployment", "web"), "Progressing")
    assert paused == ("Unknown", "DeploymentPaused", "Deployment is paused")
    world.patch("Deployment", "web", {"spec": {"paused": False}})
    world.run(5)
    assert sizes(world) == {"nginx": 0, "new": 3}


def test_a_rollout_without_progress_times_out():
    world = World(binds=False)
    world.create(deployment("web", 1, progressDeadlineSeconds=60))
    world.run(59)
    assert condition(world.get("Deployment", "web"), "Progressing")[0] == "True"
    world.run(2)
    name = world.all("ReplicaSet")[0]["metadata"]["name"]
    timed_out = ("False", "ProgressDeadlineExceeded", f'ReplicaSet "{name}" has timed out progressing.')
    assert condition(world.get("Deployment", "web"), "Progressing") == timed_out


def test_annotations_reach_the_replica_set_but_kubectls_own_do_not():
    world = World()
    wanted = deployment("web", 1)
    wanted["metadata"]["annotations"] = {
        "kubernetes.io/change-cause": "why",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }
    world.create(wanted)
    world.run()
    annotations = world.all("ReplicaSet")[0]["metadata"]["annotations"]
    assert annotations["kubernetes.io/change-cause"] == "why"
    assert "kubectl.kubernetes.io/last-applied-configuration" not in annotations


def test_a_taken_name_is_avoided():
    world = World(binds=False)
    world.create(deployment("web", 1))
    world.run()
    taken = world.all("ReplicaSet")[0]
    world.delete("Deployment", "web", propagationPolicy="Orphan")
    world.run()
    squatter = replica_set(taken["metadata"]["name"], 0)
    world.delete("ReplicaSet", taken["metadata"]["name"])
    world.run()
    world.create(squatter)
    world.create(deployment("web", 1))
    world.run()
    made = [one for one in world.all("ReplicaSet") if one["metadata"].get("ownerReferences")]
    assert len(made) == 1
    assert made[0]["metadata"]["name"] != taken["metadata"]["name"]


def test_deployment_test_deployment_replicaset_orphaning_and_adoption_regarding_controllerref():
    """[sig-apps] Deployment test Deployment ReplicaSet orphaning and adoption regarding controllerRef"""
    world = World()
    world.create(deployment("web", 2))
    world.run()
    [before] = world.all("ReplicaSet")
    world.delete("Deployment", "web", propagationPolicy="Orphan")
    world.run()
    [orphan] = world.all("ReplicaSet")
    assert "ownerReferences" not in orphan["metadata"]
    world.create(deployment("web", 2))
    world.run()
    [adopted] = world.all("ReplicaSet")
    assert adopted["metadata"]["uid"] == before["metadata"]["uid"]
    assert adopted["metadata"]["ownerReferences"][0]["uid"] == world.get("Deployment", "web")["metadata"]["uid"]
    world.patch("ReplicaSet", adopted["metadata"]["name"], {"metadata": {"labels": {"app": "other"}}})
    world.run()
    released, made = sorted(world.all("ReplicaSet"), key=lambda one: "ownerReferences" in one["metadata"])
    assert "ownerReferences" not in released["metadata"]
    assert made["metadata"]["ownerReferences"][0]["name"] == "web"


def test_of_replica_sets_of_one_size_the_newest_grows_most():
    """Recorded of kube-controller-manager v1.36: 4 pods with maxSurge 50 %, paused in mid-rollout, scaled to 11."""
    world = up(strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 1}})
    world.run(1)
    annotations = {"berth.dev/ready-seconds": "inf"}
    world.patch("Deployment", "web", {"spec": {"template": {"metadata": {"annotations": annotations}}}})
    set_image(world, "web", "nginx:2")
    world.run(5)
    assert sizes(world) == {"nginx": 3, "nginx:2": 3}
    world.patch("Deployment", "web", {"spec": {"paused": True}})
    world.scale("Deployment", "web", 11)
    world.run()
    assert sizes(world) == {"nginx": 8, "nginx:2": 9}


def test_age_is_the_time_of_creation_and_then_the_name():
    """pkg/controller, ReplicaSetsByCreationTimestamp."""
    created = {"b": "2027-01-15T08:00:00Z", "c": "2027-01-15T08:00:01Z", "a": "2027-01-15T08:00:01Z"}
    found = [{"metadata": {"name": name, "creationTimestamp": time}} for name, time in created.items()]
    assert [one["metadata"]["name"] for one in oldest_first(reversed(found))] == ["b", "a", "c"]
