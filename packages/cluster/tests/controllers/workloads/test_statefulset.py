"""The StatefulSet controller: order, names, claims, updates and what the status says.

Rules: Kubernetes' documentation of StatefulSets (deployment and scaling guarantees, update strategies, claim
retention) and pkg/controller/statefulset, v1.36.
"""

import json

import pytest

from berth_cluster.hollow.kubelet import KubeletSettings
from packages.cluster.tests.controllers.world import World, pod, pod_template, stateful_set

SLOW = KubeletSettings(start_delay_s=10)


def names(world):
    return sorted(one["metadata"]["name"] for one in world.pods())


def claims(world):
    return [one["metadata"]["name"] for one in world.all("PersistentVolumeClaim")]


def revisions(world):
    return {one["metadata"]["name"]: one["metadata"]["labels"]["controller-revision-hash"] for one in world.pods()}


def images(world):
    return {one["metadata"]["name"]: one["spec"]["containers"][0]["image"] for one in world.pods()}


def new_image(world, image="nginx:2"):
    template = pod_template({"app": "db"}, image)
    world.patch("StatefulSet", "db", {"spec": {"template": template}})


def started(replicas=3, **fields):
    world = World()
    world.create(stateful_set("db", replicas, **fields))
    world.run()
    return world


def test_pods_come_one_after_the_other():
    world = World(kubelet=SLOW)
    world.create(stateful_set("db", 3))
    world.run()
    assert names(world) == ["db-0"]
    world.run(9)
    assert names(world) == ["db-0"]
    world.run(2)
    assert names(world) == ["db-0", "db-1"]
    world.run(30)
    assert names(world) == ["db-0", "db-1", "db-2"]
    assert world.events("StatefulSet", "SuccessfulCreate") == [
        f"Create Pod db-{ordinal} in StatefulSet db successful" for ordinal in range(3)
    ]


def test_parallel_pods_come_at_once():
    world = World(kubelet=SLOW)
    world.create(stateful_set("db", 3, podManagementPolicy="Parallel"))
    world.run()
    assert names(world) == ["db-0", "db-1", "db-2"]


def test_a_pod_has_its_name_everywhere_and_its_claim():
    world = started(2, claims=["data"])
    second = world.get("Pod", "db-1")
    labels = second["metadata"]["labels"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "db-1"
    assert labels["apps.kubernetes.io/pod-index"] == "1"
    assert labels["controller-revision-hash"] == world.status("StatefulSet", "db")["updateRevision"]
    assert (second["spec"]["hostname"], second["spec"]["subdomain"]) == ("db-1", "db")
    assert second["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}]
    claim = world.get("PersistentVolumeClaim", "data-db-1")
    assert claim["metadata"]["labels"] == {"app": "db"}
    assert "ownerReferences" not in claim["metadata"]
    said = "Create Claim data-db-0 Pod db-0 in StatefulSet db success"
    assert said in world.events("StatefulSet", "SuccessfulCreate")


def test_numbers_may_start_elsewhere():
    assert names(started(2, ordinals={"start": 5})) == ["db-5", "db-6"]


def test_scaling_down_takes_the_highest_first_and_leaves_claims():
    world = started(3, claims=["data"])
    world.scale("StatefulSet", "db", 1)
    world.run()
    going = [one["metadata"]["name"] for one in world.pods() if "deletionTimestamp" in one["metadata"]]
    assert (going, names(world)) == (["db-2"], ["db-0", "db-1", "db-2"])
    world.run(1)
    assert names(world) == ["db-0", "db-1"]
    world.run(5)
    assert names(world) == ["db-0"]
    assert claims(world) == ["data-db-0", "data-db-1", "data-db-2"]
    uids = {one["metadata"]["uid"] for one in world.all("PersistentVolumeClaim")}
    world.scale("StatefulSet", "db", 3)
    world.run(5)
    assert names(world) == ["db-0", "db-1", "db-2"]
    assert {one["metadata"]["uid"] for one in world.all("PersistentVolumeClaim")} == uids


def test_a_parallel_set_loses_its_surplus_at_once():
    world = started(3, podManagementPolicy="Parallel")
    world.scale("StatefulSet", "db", 1)
    world.run(1)
    assert names(world) == ["db-0"]


def test_a_pod_that_is_not_ready_holds_the_ones_after_it_up():
    world = started(2)
    world.patch("Pod", "db-1", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, subresource="status")
    world.scale("StatefulSet", "db", 4)
    world.run(5)
    assert names(world) == ["db-0", "db-1"]


def test_a_pod_that_goes_comes_again_under_its_name_with_its_claim():
    world = started(2, claims=["data"])
    before = {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.pods()}
    world.delete("Pod", "db-0")
    world.run(3)
    after = {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.pods()}
    assert after.keys() == before.keys()
    assert (after["db-1"] == before["db-1"], after["db-0"] == before["db-0"]) == (True, False)
    assert claims(world) == ["data-db-0", "data-db-1"]


def test_a_pod_that_failed_is_made_anew():
    world = started(1)
    uid = world.get("Pod", "db-0")["metadata"]["uid"]
    world.patch("Pod", "db-0", {"status": {"phase": "Failed"}}, subresource="status")
    world.run(3)
    assert world.get("Pod", "db-0")["metadata"]["uid"] != uid
    said = "StatefulSet default/db is recreating failed Pod db-0"
    assert world.events("StatefulSet", "RecreatingFailedPod") == [said]


def test_the_status_counts():
    world = started(3)
    status = world.status("StatefulSet", "db")
    assert {name: status[name] for name in status if name.endswith("Replicas") or name == "replicas"} == dict.fromkeys(
        ("replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas"), 3
    )
    assert (
        status["currentRevision"] == status["updateRevision"] == world.all("ControllerRevision")[0]["metadata"]["name"]
    )
    assert status["observedGeneration"] == world.get("StatefulSet", "db")["metadata"]["generation"]


def test_available_only_after_the_time_asked_for():
    world = started(2, minReadySeconds=60)
    status = world.status("StatefulSet", "db")
    assert (names(world), status["readyReplicas"], status["availableReplicas"]) == (["db-0"], 1, 0)
    world.run(61)
    assert names(world) == ["db-0", "db-1"]
    world.run(61)
    assert world.status("StatefulSet", "db")["availableReplicas"] == 2


def test_an_update_replaces_the_highest_first():
    world = started(3)
    old = world.status("StatefulSet", "db")["currentRevision"]
    new_image(world)
    world.run(1)
    assert images(world) == {"db-0": "nginx", "db-1": "nginx", "db-2": "nginx:2"}
    status = world.status("StatefulSet", "db")
    assert (status["currentRevision"], status["updatedReplicas"], status["currentReplicas"]) == (old, 1, 1)
    world.run(10)
    assert set(images(world).values()) == {"nginx:2"}
    status = world.status("StatefulSet", "db")
    assert status["currentRevision"] == status["updateRevision"] != old
    assert set(revisions(world).values()) == {status["updateRevision"]}


def test_pods_below_the_partition_keep_the_old_revision_even_when_made_anew():
    world = started(3)
    world.patch("StatefulSet", "db", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 2}}}})
    new_image(world)
    world.run(10)
    assert images(world) == {"db-0": "nginx", "db-1": "nginx", "db-2": "nginx:2"}
    world.delete("Pod", "db-0")
    world.run(5)
    assert images(world)["db-0"] == "nginx"


def test_on_delete_waits_for_somebody_to_delete():
    world = started(2, updateStrategy={"type": "OnDelete"})
    new_image(world)
    world.run(10)
    assert set(images(world).values()) == {"nginx"}
    world.delete("Pod", "db-0")
    world.run(5)
    assert images(world) == {"db-0": "nginx:2", "db-1": "nginx"}


def test_going_back_uses_the_old_revision_again():
    world = started(1)
    first = world.status("StatefulSet", "db")["updateRevision"]
    new_image(world)
    world.run(5)
    new_image(world, "nginx")
    world.run(5)
    assert world.status("StatefulSet", "db")["updateRevision"] == first
    assert sorted(one["revision"] for one in world.all("ControllerRevision")) == [2, 3]


def test_revisions_hold_the_template_as_upstream_writes_it():
    # pkg/controller/history compares bytes, in which Go has put the names of fields in order.
    world = World()
    world.create(stateful_set("db", 1))
    world.run()
    (revision,) = world.all("ControllerRevision")
    assert json.dumps(revision["data"]) == json.dumps(revision["data"], sort_keys=True)


def test_old_revisions_are_forgotten():
    world = started(1, revisionHistoryLimit=1)
    for number in range(4):
        new_image(world, f"nginx:{number}")
        world.run(5)
    assert len(world.all("ControllerRevision")) == 2  # the present one and one more


@pytest.mark.parametrize(
    ("policy", "after_scaling", "after_deletion"),
    [
        ({}, ["data-db-0", "data-db-1"], ["data-db-0", "data-db-1"]),
        ({"whenScaled": "Delete"}, ["data-db-0"], ["data-db-0"]),
        ({"whenDeleted": "Delete"}, ["data-db-0", "data-db-1"], []),
        ({"whenScaled": "Delete", "whenDeleted": "Delete"}, ["data-db-0"], []),
    ],
)
def test_what_becomes_of_claims(policy, after_scaling, after_deletion):  # KEP-1847
    world = started(2, claims=["data"], persistentVolumeClaimRetentionPolicy=policy)
    world.scale("StatefulSet", "db", 1)
    world.run(5)
    assert claims(world) == after_scaling
    world.delete("StatefulSet", "db")
    world.run(5)
    assert (names(world), claims(world)) == ([], after_deletion)


def test_pods_left_behind_are_taken_on_again():
    world = started(2)
    uids = {one["metadata"]["uid"] for one in world.pods()}
    world.delete("StatefulSet", "db", propagationPolicy="Orphan")
    world.run(5)
    stranger = pod("db-x")
    stranger["metadata"]["labels"] = {"app": "db"}
    world.create(stranger)
    world.create(stateful_set("db", 2))
    world.run(5)
    owner = world.get("StatefulSet", "db")["metadata"]["uid"]
    owners = {
        one["metadata"]["name"]: [ref["uid"] for ref in one["metadata"].get("ownerReferences", [])]
        for one in world.pods()
    }
    assert owners == {"db-0": [owner], "db-1": [owner], "db-x": []}
    assert uids <= {one["metadata"]["uid"] for one in world.pods()}


@pytest.mark.parametrize(
    ("given", "policy", "at_once"),
    [
        (None, "OrderedReady", ["db-4"]),
        (2, "OrderedReady", ["db-3", "db-4"]),
        ("50%", "Parallel", ["db-3", "db-4"]),
        ("10%", "Parallel", ["db-4"]),
        (9, "Parallel", ["db-1", "db-2", "db-3", "db-4"]),
    ],
)
def test_so_many_pods_of_an_update_may_be_unavailable(given, policy, at_once):
    """KEP-961, and the partition goes before: the pod below it keeps its revision."""
    rolling = {"partition": 1} | ({} if given is None else {"maxUnavailable": given})
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    world = started(5, updateStrategy=strategy, podManagementPolicy=policy)
    world.run(5)
    new_image(world)
    world.run()
    assert [one["metadata"]["name"] for one in world.pods() if "deletionTimestamp" in one["metadata"]] == at_once
    world.run(30)
    assert images(world) == {"db-0": "nginx"} | {f"db-{number}": "nginx:2" for number in range(1, 5)}


def test_pods_that_are_not_available_count_against_an_update_that_names_a_bound():
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
    world = started(4, updateStrategy=strategy, podManagementPolicy="Parallel")
    world.patch("Pod", "db-1", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, subresource="status")
    new_image(world)
    world.run()
    assert [one["metadata"]["name"] for one in world.pods() if "deletionTimestamp" in one["metadata"]] == ["db-3"]


def test_a_pod_whose_labels_change_is_released_and_made_anew():
    """[sig-apps] StatefulSet Basic StatefulSet functionality should adopt matching orphans and release non-matching…"""
    world = started(1)
    world.patch("Pod", "db-0", {"metadata": {"ownerReferences": None}})
    world.run()
    assert [one["name"] for one in world.get("Pod", "db-0")["metadata"]["ownerReferences"]] == ["db"]
    world.patch("Pod", "db-0", {"metadata": {"labels": {"app": "other"}}})
    world.run()
    assert "ownerReferences" not in world.get("Pod", "db-0")["metadata"]


def test_a_pod_that_is_going_anyway_counts_once_against_an_update():
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
    world = started(4, updateStrategy=strategy, podManagementPolicy="Parallel")
    world.delete("Pod", "db-3")
    new_image(world)
    world.run()
    assert [one["metadata"]["name"] for one in world.pods() if "deletionTimestamp" in one["metadata"]] == [
        "db-2",
        "db-3",
    ]


def test_a_pod_that_is_being_deleted_is_not_adopted():
    """Upstream: ControllerRefManager, canAdopt."""
    world = World()
    loose = pod("db-0")
    loose["metadata"] |= {"labels": {"app": "db"}, "finalizers": ["example.com/hold"]}
    world.create(loose)
    world.delete("Pod", "db-0")
    world.create(stateful_set("db", 1))
    world.run(5)
    assert "ownerReferences" not in world.get("Pod", "db-0")["metadata"]
