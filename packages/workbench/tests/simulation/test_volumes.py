"""Claims get their class and, where none waits for a pod, their volume when they are created."""

import msgspec
import pytest

from berth.api.codec import decode
from berth.core.builders import make_node, make_pod
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.volumes import smallest_for, with_default_class

ZONE = "topology.kubernetes.io/zone"


def claim(name="data", size="1Gi", modes=("ReadWriteOnce",), **spec):
    return decode(
        "PersistentVolumeClaim",
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"claim/{name}"},
            "spec": {"accessModes": list(modes), "resources": {"requests": {"storage": size}}, **spec},
        },
    )


def volume(name, size="1Gi", modes=("ReadWriteOnce",), labels=None, **spec):
    return decode(
        "PersistentVolume",
        {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"accessModes": list(modes), "capacity": {"storage": size}, **spec},
        },
    )


def storage_class(name, default=False, created=None, **more):
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    metadata = {"name": name, "annotations": annotations, "creationTimestamp": created}
    return decode("StorageClass", {"metadata": metadata, "provisioner": "disks.test", **more})


def test_the_newest_default_class_is_taken_where_none_is_named():
    classes = [
        storage_class("plain"),
        storage_class("old", default=True, created="2025-01-01T00:00:00Z"),
        storage_class("new", default=True, created="2026-01-01T00:00:00Z"),
    ]
    assert with_default_class(claim(), classes).spec.storage_class_name == "new"
    assert with_default_class(claim(storageClassName="plain"), classes).spec.storage_class_name == "plain"
    assert with_default_class(claim(storageClassName=""), classes).spec.storage_class_name == ""
    assert with_default_class(claim(), classes[:1]).spec.storage_class_name is None


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (claim(), "small"),
        (claim(size="2Gi"), "shared"),
        (claim(size="4Gi"), "large"),
        (claim(size="9Gi"), None),
        (claim(modes=("ReadWriteMany",)), "shared"),
        (claim(selector={"matchLabels": {"tier": "gold"}}), "large"),
        (claim(storageClassName="fast"), "classy"),
        (claim("mine"), "promised"),
    ],
)
def test_the_smallest_volume_that_may_hold_a_claim_is_taken(wanted, expected):
    promised = {"namespace": "default", "name": "mine", "uid": ""}
    volumes = [
        volume("large", "5Gi", labels={"tier": "gold"}),
        volume("taken", claimRef={"namespace": "x", "name": "y"}),
        volume("shared", "3Gi", modes=("ReadWriteOnce", "ReadWriteMany")),
        volume("small"),
        volume("classy", storageClassName="fast"),
        volume("promised", "8Gi", claimRef=promised),
    ]
    found = smallest_for(wanted, volumes)
    assert (found and found.metadata.name) == expected


def test_a_class_that_does_not_wait_makes_the_volume_at_once_where_its_topologies_allow():
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]
    nodes = [make_node(zone).capacity(cpu="4", pods="9").label(ZONE, zone).build() for zone in "ab"]
    cluster = SimulatedCluster([*nodes, storage_class("now", default=True, allowedTopologies=allowed)])
    cluster.create([claim(), make_pod("db").claim("data").build()])
    cluster.settle()
    assert cluster.placements == {"default/db": "b"}


def test_a_static_volume_is_bound_to_the_claim_and_to_no_other():
    node = make_node("n").capacity(cpu="4", pods="9").build()
    cluster = SimulatedCluster([node, volume("only", storageClassName="")])
    cluster.create([claim("one", storageClassName=""), claim("two", storageClassName="")])
    cluster.create([make_pod(name).claim(name).build() for name in ("one", "two")])
    cluster.settle()
    assert cluster.placements == {"default/one": "n", "default/two": ""}


@pytest.mark.parametrize("version", ["", "17"])
def test_a_claim_of_a_snapshot_gets_its_volume_when_its_pod_gets_a_node(version):
    """The scheduler goes on once it sees what it has written to the claim, which is another version than before."""
    node = make_node("n").capacity(cpu="4", pods="9").build()
    waits = storage_class("later", volumeBindingMode="WaitForFirstConsumer")
    known = claim(storageClassName="later")
    known = msgspec.structs.replace(known, metadata=msgspec.structs.replace(known.metadata, resource_version=version))
    cluster = SimulatedCluster([node, waits, known, make_pod("db").claim("data").build()])
    cluster.settle()
    assert cluster.placements == {"default/db": "n"}
