"""VolumeBinding: what may cure its rejections and what cannot."""

import pytest

from berth.core.builders import make_node, make_pod
from berth.framework.events import Action, QueueingHint
from berth.plugins.volumes.volume_binding import VolumeBinding, VolumeBindingArgs
from packages.scheduler.tests.plugins.support import hint, registered
from packages.scheduler.tests.plugins.volumes.world import (
    ZONE,
    capacity,
    claim,
    csi_node,
    driver,
    on,
    storage_class,
    volume,
    world,
)

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP

ZONAL = storage_class("wait", topologies=[{ZONE: ["a"]}])
HERE = (
    claim("c"),
    ZONAL,
    claim("d", volume="pv-d"),
    volume("pv-d", klass="x", phase="Bound"),
    claim("done", volume="pv-d"),
    claim("open"),
)


def pod(*claims, name="p", namespace="default"):
    found = make_pod(name, namespace)
    for one in claims:
        found.volume(one, persistentVolumeClaim={"claimName": one})
    return found.info()


def plugin():
    return VolumeBinding(VolumeBindingArgs(), world(*HERE))


@pytest.mark.parametrize(
    ("kind", "old", "new", "expected"),
    [
        ("StorageClass", None, storage_class("wait"), QUEUE),
        ("StorageClass", None, storage_class("other"), SKIP),
        ("StorageClass", storage_class("wait"), ZONAL, QUEUE),
        ("StorageClass", ZONAL, ZONAL, SKIP),
        ("StorageClass", storage_class("other"), storage_class("other", topologies=[{ZONE: ["a"]}]), SKIP),
        ("PersistentVolumeClaim", None, claim("c"), QUEUE),
        ("PersistentVolumeClaim", claim("c"), claim("c", volume="v"), QUEUE),
        ("PersistentVolumeClaim", None, claim("x"), SKIP),
        ("PersistentVolumeClaim", None, claim("c", namespace="other"), SKIP),
        ("PersistentVolume", None, volume("new"), QUEUE),
        ("PersistentVolume", volume("v", ref="x"), volume("v"), QUEUE),
        ("PersistentVolume", None, volume("pv-d", klass="x"), QUEUE),
        ("PersistentVolume", None, volume("new", klass="x"), SKIP),
        ("Node", None, make_node("n").label(ZONE, "a").build(), QUEUE),
        ("Node", None, make_node("n").label(ZONE, "b").build(), SKIP),
        ("CSINode", None, csi_node("n"), QUEUE),
        ("CSINode", csi_node("n"), csi_node("n", "kubernetes.io/gce-pd"), QUEUE),
        ("CSINode", csi_node("n"), csi_node("n", d=5), SKIP),
        ("CSIDriver", driver("csi.example.com"), driver("csi.example.com", capacity=False), QUEUE),
        ("CSIDriver", driver("csi.example.com"), None, QUEUE),
        ("CSIDriver", driver("csi.example.com", capacity=False), driver("csi.example.com"), SKIP),
        ("CSIDriver", driver("another"), driver("another", capacity=False), SKIP),
        ("CSIStorageCapacity", None, capacity("k", "1Gi"), QUEUE),
        ("CSIStorageCapacity", None, capacity("k", "1Gi", klass="x"), SKIP),
        ("CSIStorageCapacity", capacity("k", "1Gi"), capacity("k", "2Gi"), QUEUE),
        ("CSIStorageCapacity", capacity("k", "2Gi"), capacity("k", "1Gi"), SKIP),
        ("CSIStorageCapacity", capacity("k", "1Gi"), capacity("k", "1Gi", largest="2Gi"), QUEUE),
        ("CSIStorageCapacity", capacity("k", "1Gi", largest="1Gi"), capacity("k", "9Gi", largest="1Gi"), SKIP),
        ("Pod", pod("open", name="q"), None, QUEUE),
        ("Pod", pod("done", name="q"), None, SKIP),
        ("Pod", pod(name="q"), None, SKIP),
    ],
)
def test_hints(kind, old, new, expected):
    assert hint(plugin(), kind)(pod("c", "d"), old, new) is expected


@pytest.mark.parametrize(
    "objects",
    [
        (),
        (claim("c", klass="now"), storage_class("now", mode="Immediate")),
        (claim("c", volume="v"), volume("v", affinity=on(ZONE, "b"))),
    ],
)
def test_a_node_does_not_help_while_claims_are_unusable_there(objects):
    found = VolumeBinding(VolumeBindingArgs(), world(*objects))
    node = make_node("n").label(ZONE, "a").build()
    assert hint(found, "Node")(pod("c"), None, node) is SKIP


def test_events_are_upstreams_and_more():
    upstreams = {
        "StorageClass": Action.ADD | Action.UPDATE,
        "PersistentVolumeClaim": Action.ADD | Action.UPDATE,
        "PersistentVolume": Action.ADD | Action.UPDATE,
        "Node": Action.ADD | Action.UPDATE_NODE_LABEL,
        "CSINode": Action.ADD | Action.UPDATE,
        "CSIDriver": Action.UPDATE,
        "CSIStorageCapacity": Action.ADD | Action.UPDATE,
    }
    events = dict(registered(plugin()))
    assert all(events[kind] & actions == actions for kind, actions in upstreams.items())
    assert events.keys() - upstreams.keys() == {"Pod"}
