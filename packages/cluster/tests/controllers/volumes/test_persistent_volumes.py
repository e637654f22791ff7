"""The volume controller: which volume a claim gets, what both say then, and what happens when one of them goes.

Rules and sentences: pkg/controller/volume/persistentvolume (pv_controller.go, index.go), v1.36; KEP-2644 for the
default class given to claims afterwards.
"""

import pytest

from packages.cluster.tests.controllers.world import World, claim, pod, storage_class, volume

COMPLETED = "pv.kubernetes.io/bind-completed"
BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED = "volume.kubernetes.io/selected-node"
DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}


def the_claim(world, name="data"):
    return world.get("PersistentVolumeClaim", name)


def the_volume(world, name):
    return world.get("PersistentVolume", name, "")


def phase(obj):
    return obj["status"]["phase"]


def annotations(obj):
    return obj["metadata"].get("annotations", {})


def world_with(*objects):
    world = World(nodes=0)
    for obj in objects:
        world.create(obj)
        world.run()
    return world


def test_a_claim_gets_the_smallest_volume_that_fits():
    volumes = [volume("large", "10Gi"), volume("small", "1Gi"), volume("middle", "3Gi"), volume("twin", "3Gi")]
    world = world_with(*volumes, claim("data", "2Gi", storageClassName=""))
    bound = the_claim(world)
    assert (phase(bound), bound["spec"]["volumeName"]) == ("Bound", "middle")
    assert bound["status"]["capacity"] == {"storage": "3Gi"}
    assert bound["status"]["accessModes"] == ["ReadWriteOnce"]
    assert annotations(bound) == {COMPLETED: "yes", BY_CONTROLLER: "yes"}
    taken = the_volume(world, "middle")
    assert phase(taken) == "Bound"
    assert taken["spec"]["claimRef"]["uid"] == bound["metadata"]["uid"]
    assert annotations(taken)[BY_CONTROLLER] == "yes"
    assert [phase(the_volume(world, name)) for name in ("large", "small", "twin")] == ["Available"] * 3


@pytest.mark.parametrize(
    ("offered", "asked"),
    [
        (volume("v", "1Gi"), claim("data", "2Gi", storageClassName="")),
        (volume("v", storageClassName="slow"), claim("data", storageClassName="")),
        (volume("v", volumeMode="Block"), claim("data", storageClassName="")),
        (volume("v"), claim("data", storageClassName="", accessModes=["ReadWriteMany"])),
        (volume("v"), claim("data", storageClassName="", selector={"matchLabels": {"tier": "fast"}})),
        (
            volume("v", claimRef={"namespace": "default", "name": "other"}),
            claim("data", storageClassName=""),
        ),
    ],
    ids=["size", "class", "mode", "access", "selector", "prebound"],
)
def test_a_volume_that_does_not_fit_is_left_alone(offered, asked):
    world = world_with(offered, asked)
    assert (phase(the_claim(world)), phase(the_volume(world, "v"))) == ("Pending", "Available")


def test_a_claim_waits_for_a_volume_that_fits():
    world = world_with(claim("data", "2Gi", storageClassName=""), volume("small", "1Gi"), volume("right", "2Gi"))
    assert the_claim(world)["spec"]["volumeName"] == "right"


def test_a_claim_without_class_and_volume_is_told_so():
    world = world_with(claim("data", storageClassName=""))
    said = "no persistent volumes available for this claim and no storage class is set"
    assert world.events("PersistentVolumeClaim", "FailedBinding") == [said]
    world.create(volume("other", storageClassName="slow"))
    world.run()
    assert len(world.events("PersistentVolumeClaim", "FailedBinding")) == 1


def test_a_claim_with_a_selector_gets_what_it_selects():
    labelled = volume("far", "9Gi")
    labelled["metadata"]["labels"] = {"tier": "fast"}
    selector = {"matchLabels": {"tier": "fast"}}
    world = world_with(volume("near"), labelled, claim("data", storageClassName="", selector=selector))
    assert the_claim(world)["spec"]["volumeName"] == "far"


def test_a_volume_prebound_by_name_waits_for_its_claim_and_comes_before_better_ones():
    prebound = volume("mine", "50Gi", claimRef={"namespace": "default", "name": "data"})
    world = world_with(prebound, volume("small"))
    assert phase(the_volume(world, "mine")) == "Available"
    world.create(claim("data", storageClassName=""))
    world.run()
    assert the_claim(world)["spec"]["volumeName"] == "mine"
    # Somebody else pre-bound it: the volume does not say that the controller did.
    assert BY_CONTROLLER not in annotations(the_volume(world, "mine"))
    assert the_volume(world, "mine")["spec"]["claimRef"]["uid"] == the_claim(world)["metadata"]["uid"]


def test_a_claim_that_names_its_volume_gets_this_one():
    world = world_with(volume("a"), volume("b", "7Gi"), claim("data", storageClassName="", volumeName="b"))
    assert phase(the_claim(world)) == "Bound"
    assert annotations(the_claim(world)) == {COMPLETED: "yes"}
    assert phase(the_volume(world, "a")) == "Available"


@pytest.mark.parametrize(
    ("asked", "reason", "message"),
    [
        (
            claim("second", "5Gi", storageClassName="", volumeName="free"),
            "VolumeMismatch",
            'Cannot bind to requested volume "free": requested PV is too small',
        ),
        (
            claim("second", storageClassName="slow", volumeName="free"),
            "VolumeMismatch",
            'Cannot bind to requested volume "free": storageClassName does not match',
        ),
        (
            claim("second", storageClassName="", volumeName="taken"),
            "FailedBinding",
            'volume "taken" already bound to a different claim.',
        ),
    ],
)
def test_a_named_volume_that_cannot_be_had(asked, reason, message):
    world = world_with(volume("taken"), claim("first", storageClassName="", volumeName="taken"), volume("free"), asked)
    assert phase(the_claim(world, "second")) == "Pending"
    assert world.events("PersistentVolumeClaim", reason) == [message]


def test_a_claim_that_waits_for_its_consumer_is_bound_to_what_the_scheduler_chose():
    slow = storage_class("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
    wanted = claim("data", storageClassName="local")
    world = world_with(slow, volume("v", storageClassName="local"), wanted)
    assert phase(the_claim(world)) == "Pending"
    said = "waiting for first consumer to be created before binding"
    assert world.events("PersistentVolumeClaim", "WaitForFirstConsumer") == [said]
    reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"}
    reference["uid"] = the_claim(world)["metadata"]["uid"]
    prebind = {"metadata": {"annotations": {BY_CONTROLLER: "yes"}}, "spec": {"claimRef": reference}}
    world.patch("PersistentVolume", "v", prebind, namespace="")
    world.run()
    assert (phase(the_claim(world)), phase(the_volume(world, "v"))) == ("Bound", "Bound")


@pytest.mark.parametrize(
    ("class_name", "message"),
    [
        ("absent", 'storageclass.storage.k8s.io "absent" not found'),
        ("static", "no volume plugin matched name: kubernetes.io/no-provisioner"),
    ],
)
def test_a_claim_for_which_nobody_makes_a_volume(class_name, message):
    world = world_with(storage_class("static", "kubernetes.io/no-provisioner"), claim("d", storageClassName=class_name))
    assert world.events("PersistentVolumeClaim", "ProvisioningFailed") == [message]


def test_a_claim_waits_for_its_class():
    world = world_with(claim("data", storageClassName="late"), storage_class("late"))
    assert phase(the_claim(world)) == "Bound"


def test_a_claim_without_a_class_gets_the_default_one_even_afterwards():
    world = world_with(claim("early"), storage_class("old", annotations=DEFAULT))
    world.now_s += 5
    world.create(storage_class("young", annotations=DEFAULT))
    world.create(claim("late"))
    world.create(claim("none", storageClassName=""))
    world.run()
    named = [the_claim(world, name)["spec"].get("storageClassName") for name in ("early", "late", "none")]
    assert named == ["old", "young", ""]


def test_a_released_volume_is_kept_or_fails_for_want_of_somebody_to_delete_it():
    world = world_with(
        volume("kept"),
        claim("a", storageClassName="", volumeName="kept"),
        volume("doomed", persistentVolumeReclaimPolicy="Delete"),
        claim("b", storageClassName="", volumeName="doomed"),
    )
    for name in ("a", "b"):
        world.delete("PersistentVolumeClaim", name)
    world.run()
    assert phase(the_volume(world, "kept")) == "Released"
    assert phase(the_volume(world, "doomed")) == "Failed"
    message = 'error getting deleter volume plugin for volume "doomed": no deletable volume plugin matched'
    assert world.events("PersistentVolume", "VolumeFailedDelete") == [message]
    world.create(claim("c", storageClassName=""))
    world.run()
    assert phase(the_claim(world, "c")) == "Pending"  # what was released is not given to others
    world.patch("PersistentVolume", "kept", {"spec": {"claimRef": None}}, namespace="")
    world.run()
    assert the_claim(world, "c")["spec"]["volumeName"] == "kept"


def test_a_claim_whose_volume_is_gone_has_lost_it():
    world = world_with(volume("v"), claim("data", storageClassName=""))
    world.delete("PersistentVolume", "v", namespace="")
    world.run()
    assert phase(the_volume(world, "v")) == "Bound"  # protected while it is bound
    world.patch("PersistentVolume", "v", {"metadata": {"finalizers": None}}, namespace="")
    world.run()
    assert (the_volume(world, "v"), phase(the_claim(world))) == (None, "Lost")
    said = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
    assert world.events("PersistentVolumeClaim", "ClaimLost") == [said]


@pytest.mark.parametrize("by_controller", [True, False])
def test_a_volume_prebound_to_a_claim_that_took_another_is_freed(by_controller):
    world = world_with(volume("one"), claim("data", storageClassName="", volumeName="one"))
    uid = the_claim(world)["metadata"]["uid"]
    other = volume("two", claimRef={"namespace": "default", "name": "data", "uid": uid})
    other["metadata"]["annotations"] = {BY_CONTROLLER: "yes"} if by_controller else {}
    world.create(other)
    world.run()
    left = {} if by_controller else {"claimRef": {"namespace": "default", "name": "data"}}
    freed = the_volume(world, "two")
    assert phase(freed) == "Available"
    assert {name: freed["spec"][name] for name in ("claimRef",) if name in freed["spec"]} == left


def test_a_claim_stays_while_a_pod_on_a_node_uses_it():
    world = World(nodes=1, binds=False)
    for obj in (volume("v"), claim("data", storageClassName="")):
        world.create(obj)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    world.bind(world.create(pod("user", volumes=volumes)), "node-0")
    world.create(pod("waiting", volumes=volumes))
    world.run()
    world.delete("PersistentVolumeClaim", "data")
    world.run()
    assert "deletionTimestamp" in the_claim(world)["metadata"]
    world.delete("Pod", "user")
    world.run(2)
    assert the_claim(world) is None
    assert phase(the_volume(world, "v")) == "Released"
