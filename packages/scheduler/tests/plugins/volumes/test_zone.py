"""VolumeZone: nodes must be where the labels of bound volumes say; expectations from upstream's tests."""

import pytest

from berth.core.builders import make_node, make_pod
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, QueueingHint
from berth.framework.status import SKIP
from berth.plugins.volumes.zone import VolumeZone
from packages.scheduler.tests.plugins.support import hint, registered
from packages.scheduler.tests.plugins.volumes.world import ZONE, claim, decided, storage_class, volume, world

REASON = "node(s) had no available volume zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
POD = make_pod("p", "default").volume("v", persistentVolumeClaim={"claimName": "c"}).info()


def verdict(node_labels, volume_labels):
    handle = world(
        make_node("n").labels(node_labels).build(), claim("c", volume="v"), volume("v", labels=volume_labels)
    )
    return decided(VolumeZone(None, handle), POD, handle)["n"]


@pytest.mark.parametrize(
    ("node", "there", "fits"),
    [
        ({ZONE: "a"}, {ZONE: "a"}, True),
        ({ZONE: "b"}, {ZONE: "a"}, False),
        ({ZONE: "b"}, {ZONE: "a__b__c"}, True),
        ({ZONE: "b"}, {ZONE: "a__ b "}, True),
        ({ZONE: "b"}, {ZONE: "a__"}, True),
        ({}, {ZONE: "a"}, True),
        ({"x": "y"}, {ZONE: "a"}, True),
        ({REGION: "r"}, {ZONE: "a"}, False),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False),
        ({ZONE: "a"}, {BETA_ZONE: "a"}, True),
        ({ZONE: "b"}, {BETA_ZONE: "a"}, False),
        ({BETA_ZONE: "a"}, {ZONE: "a"}, False),
        ({BETA_ZONE: "b", ZONE: "a"}, {BETA_ZONE: "a"}, False),
        ({REGION: "r"}, {BETA_REGION: "r"}, True),
    ],
)
def test_labels(node, there, fits):
    assert verdict(node, there) == (None if fits else REASON)


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ((), 'persistentvolumeclaim "c" not found'),
        ((claim("c", volume="v"),), 'persistentvolume "v" not found'),
        ((claim("c", klass=""),), "PersistentVolumeClaim had no pv name and storageClass name"),
        ((claim("c", klass="k"),), 'storageclass.storage.k8s.io "k" not found'),
        ((claim("c", klass="k"), storage_class("k", mode="")), 'VolumeBindingMode not set for StorageClass "k"'),
        ((claim("c", klass="k"), storage_class("k", mode="Immediate")), "PersistentVolume had no name"),
    ],
)
def test_claims_that_say_nothing_of_a_zone(objects, message):
    handle = world(make_node("n").build(), *objects)
    assert decided(VolumeZone(None, handle), POD, handle) == message


@pytest.mark.parametrize(
    ("pod", "objects"),
    [
        (make_pod("p", "default").info(), ()),
        (make_pod("p", "default").volume("v", emptyDir={}).info(), ()),
        (make_pod("p", "default").volume("v", ephemeral={"volumeClaimTemplate": {"spec": {}}}).info(), ()),
        (POD, (claim("c"), storage_class("wait"))),
        (POD, (claim("c", volume="v"), volume("v"))),
    ],
)
def test_skips_pods_whose_volumes_demand_nothing(pod, objects):
    assert VolumeZone(None, world(make_node("n").build(), *objects)).pre_filter(CycleState(), pod) is SKIP


QUEUE, SKIPPED = QueueingHint.QUEUE, QueueingHint.SKIP
THERE = claim("c", volume="v"), volume("v", labels={ZONE: "a"})


@pytest.mark.parametrize(
    ("kind", "old", "new", "expected"),
    [
        ("Node", None, make_node("n").label(ZONE, "a").build(), QUEUE),
        ("Node", None, make_node("n").label(ZONE, "b").build(), SKIPPED),
        ("PersistentVolumeClaim", None, claim("c"), QUEUE),
        ("PersistentVolumeClaim", None, claim("d"), SKIPPED),
        ("PersistentVolumeClaim", None, claim("c", namespace="other"), SKIPPED),
        ("PersistentVolume", None, volume("v"), QUEUE),
        ("PersistentVolume", None, volume("w"), SKIPPED),
        ("PersistentVolume", volume("v", labels={ZONE: "a"}), volume("v", labels={ZONE: "b"}), QUEUE),
        ("PersistentVolume", volume("v", labels={ZONE: "a"}), volume("v", labels={ZONE: "a", "x": "y"}), SKIPPED),
        ("StorageClass", None, storage_class("wait"), QUEUE),
        ("StorageClass", None, storage_class("other"), SKIPPED),
        ("StorageClass", None, storage_class("wait", mode="Immediate"), SKIPPED),
    ],
)
def test_hints(kind, old, new, expected):
    assert hint(VolumeZone(None, world(*THERE)), kind)(POD, old, new) is expected


def test_events_are_upstreams():
    assert registered(VolumeZone(None, world())) == {
        ("StorageClass", Action.ADD),
        ("Node", Action.ADD | Action.UPDATE_NODE_LABEL),
        ("PersistentVolumeClaim", Action.ADD | Action.UPDATE),
        ("PersistentVolume", Action.ADD | Action.UPDATE),
    }
