"""Generic ephemeral volumes: claims that pods bring along (KEP-1698; pkg/controller/volume/ephemeral)."""

from packages.cluster.tests.controllers.world import World, claim, pod

TEMPLATE = {
    "metadata": {"labels": {"type": "scratch"}, "annotations": {"a": "b"}},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
VOLUMES = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": TEMPLATE}}]


def test_a_pod_has_the_claim_that_it_brings_along_and_takes_it_with_it():
    world = World(drivers=True)
    made = world.create(pod("db", volumes=VOLUMES))
    world.run(60)
    held = world.get("PersistentVolumeClaim", "db-scratch")
    assert held["metadata"]["labels"] == {"type": "scratch"} and held["metadata"]["annotations"]["a"] == "b"
    assert held["spec"]["resources"] == TEMPLATE["spec"]["resources"]
    assert held["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "db",
            "uid": made["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    world.delete("Pod", "db")
    world.run(120)
    assert world.all("PersistentVolumeClaim") == []


def test_a_claim_that_is_lost_is_made_again():
    world = World(binds=False)
    world.create(pod("db", volumes=VOLUMES))
    world.run()
    before = world.get("PersistentVolumeClaim", "db-scratch")["metadata"]["uid"]
    world.delete("PersistentVolumeClaim", "db-scratch")
    world.run()
    assert world.get("PersistentVolumeClaim", "db-scratch")["metadata"]["uid"] != before


def test_a_claim_of_that_name_that_is_not_the_pods_is_left_alone():
    world = World(binds=False)
    world.create(claim("db-scratch"))
    world.create(pod("db", volumes=VOLUMES))
    world.run()
    assert world.events("Pod", "FailedBinding")[0] == (
        "ephemeral volume scratch: PVC default/db-scratch was not created for pod default/db (pod is not owner)"
    )
    world.delete("PersistentVolumeClaim", "db-scratch")
    world.run(10)
    assert "ownerReferences" in world.get("PersistentVolumeClaim", "db-scratch")["metadata"]
