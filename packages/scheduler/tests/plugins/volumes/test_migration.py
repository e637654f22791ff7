"""In-tree volumes as their CSI drivers know them; expectations from k8s.io/csi-translation-lib."""

import pytest

from berth.plugins.volumes.migration import (
    AWS,
    AZURE,
    GCE,
    is_migrated_on,
    migrated_affinity,
    plugin_named,
    plugin_of,
    volume_handle,
)
from packages.scheduler.tests.plugins.volumes.world import ZONE, csi_node, on, volume

BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
REGION = "topology.kubernetes.io/region"
GKE = "topology.gke.io/zone"
DISK = {"gcePersistentDisk": {"pdName": "d"}}


def expressions(selector):
    if selector is None:
        return None
    return [[(r.key, r.operator, r.values) for r in term.match_expressions] for term in selector.node_selector_terms]


@pytest.mark.parametrize(
    ("labels", "affinity", "expected"),
    [
        ({}, None, None),
        ({}, on(ZONE, "a"), [[(GKE, "In", ("a",))]]),
        ({ZONE: "b"}, on(ZONE, "a"), [[(GKE, "In", ("a",))]]),
        ({ZONE: "b__a"}, None, [[(GKE, "In", ("a", "b"))]]),
        ({BETA_ZONE: "a"}, None, [[(GKE, "In", ("a",))]]),
        ({}, on(BETA_ZONE, "a"), [[(GKE, "In", ("a",))]]),
        ({ZONE: "a"}, on("disk", "ssd"), [[("disk", "In", ("ssd",)), (GKE, "In", ("a",))]]),
        ({BETA_ZONE: "a"}, on(BETA_REGION, "r"), [[(REGION, "In", ("r",)), (GKE, "In", ("a",))]]),
        ({}, on("disk", "ssd"), [[("disk", "In", ("ssd",))]]),
    ],
)
def test_node_affinity_in_the_drivers_terms(labels, affinity, expected):
    assert expressions(migrated_affinity(volume("v", labels=labels, affinity=affinity, **DISK), GCE)) == expected


@pytest.mark.parametrize(
    ("labels", "handle"),
    [
        ({}, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        ({ZONE: "us-a1-b"}, "projects/UNSPECIFIED/zones/us-a1-b/disks/d"),
        ({BETA_ZONE: "us-a1-b"}, "projects/UNSPECIFIED/zones/us-a1-b/disks/d"),
        ({ZONE: "us-a1-b__us-a1-c"}, "projects/UNSPECIFIED/regions/us-a1/disks/d"),
    ],
)
def test_gce_handles(labels, handle):
    assert volume_handle(volume("v", labels=labels, **DISK)) == ("pd.csi.storage.gke.io", handle)


def test_azure_disks_keep_their_affinity():
    disk = volume("v", azureDisk={"diskName": "d", "diskURI": "u"}, affinity=on(ZONE, "a"))
    assert expressions(migrated_affinity(disk, AZURE)) == [[(ZONE, "In", ("a",))]]


def test_a_node_says_which_plugins_are_migrated():
    assert is_migrated_on(AWS, csi_node("n", "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"))
    assert not is_migrated_on(AWS, csi_node("n", "kubernetes.io/gce-pd"))
    assert not is_migrated_on(AWS, csi_node("n"))
    assert not is_migrated_on(AWS, None)


def test_plugins_by_source_and_name():
    assert plugin_of(volume("v", **DISK)) is GCE
    assert plugin_of(volume("v", csi={"driver": "d", "volumeHandle": "h"})) is None
    assert plugin_named("kubernetes.io/aws-ebs") is AWS
    assert plugin_named("kubernetes.io/no-provisioner") is None
    assert volume_handle(volume("v")) is None
