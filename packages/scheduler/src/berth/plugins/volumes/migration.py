"""What in-tree volumes have become: the CSI driver and handle of a disk, and its node affinity in the driver's terms.

Facts of k8s.io/csi-translation-lib, v1.36. Portworx, vSphere and Azure File volumes are not read by this release.
"""

from typing import NamedTuple

from berth.api.node_selector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from berth.api.pod import Volume
from berth.api.storage import CSINode, PersistentVolume

MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
ZONE_DELIMITER = "__"
UNSPECIFIED = "UNSPECIFIED"


class InTreePlugin(NamedTuple):
    """A volume plugin that used to be part of Kubernetes, and the CSI driver that has taken its place."""

    name: str
    driver: str
    topology_key: str
    """The label that the driver gives nodes; empty where the affinity of volumes is left as it is."""


AWS = InTreePlugin("kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone")
GCE = InTreePlugin("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone")
AZURE = InTreePlugin("kubernetes.io/azure-disk", "disk.csi.azure.com", "")
CINDER = InTreePlugin("kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone")

PLUGINS = (AWS, GCE, AZURE, CINDER)


class VolumeHandle(NamedTuple):
    """A volume as its CSI driver knows it."""

    driver: str
    volume: str


def plugin_named(name: str) -> InTreePlugin | None:
    """Return the in-tree plugin of this name, or None."""
    return next((plugin for plugin in PLUGINS if plugin.name == name), None)


def plugin_of(source: Volume | PersistentVolume) -> InTreePlugin | None:
    """Return the in-tree plugin of a pod's inline volume or of a persistent volume, or None."""
    disks = source.spec if isinstance(source, PersistentVolume) else source
    if disks.aws_elastic_block_store is not None:
        return AWS
    if disks.gce_persistent_disk is not None:
        return GCE
    if disks.azure_disk is not None:
        return AZURE
    return CINDER if disks.cinder is not None else None


def is_migrated_on(plugin: InTreePlugin, csi_node: CSINode | None) -> bool:
    """Say whether the node says of itself that the driver has taken over."""
    if csi_node is None:
        return False
    return plugin.name in csi_node.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")


def inline_handle(volume: Volume) -> VolumeHandle | None:
    """Return how its driver knows an inline disk, or None for another kind of volume."""
    if volume.aws_elastic_block_store is not None:
        return VolumeHandle(AWS.driver, _aws_id(volume.aws_elastic_block_store.volume_id))
    if volume.gce_persistent_disk is not None:
        return VolumeHandle(
            GCE.driver, f"projects/{UNSPECIFIED}/zones/{UNSPECIFIED}/disks/{volume.gce_persistent_disk.pd_name}"
        )
    if volume.azure_disk is not None:
        return VolumeHandle(AZURE.driver, volume.azure_disk.disk_uri)
    return VolumeHandle(CINDER.driver, volume.cinder.volume_id) if volume.cinder is not None else None


def volume_handle(volume: PersistentVolume) -> VolumeHandle | None:
    """Return how its driver knows a persistent volume, be it a CSI one or one of a migrated plugin."""
    spec = volume.spec
    if spec.csi is not None:
        return VolumeHandle(spec.csi.driver, spec.csi.volume_handle)
    if spec.aws_elastic_block_store is not None:
        return VolumeHandle(AWS.driver, _aws_id(spec.aws_elastic_block_store.volume_id))
    if spec.gce_persistent_disk is not None:
        return VolumeHandle(GCE.driver, _gce_id(volume, spec.gce_persistent_disk.pd_name))
    if spec.azure_disk is not None:
        return VolumeHandle(AZURE.driver, spec.azure_disk.disk_uri)
    return VolumeHandle(CINDER.driver, spec.cinder.volume_id) if spec.cinder is not None else None


def migrated_affinity(volume: PersistentVolume, plugin: InTreePlugin) -> NodeSelector | None:
    """Return the node affinity of an in-tree volume in the terms of its driver."""
    required = volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None
    if not plugin.topology_key:
        return required
    terms = required.node_selector_terms if required is not None else ()
    zone, region = _topology_labels(volume, terms)
    if _values(terms, zone):
        terms = _renamed(terms, zone, plugin.topology_key)
    elif zones := zones_of(volume.metadata.labels.get(zone, "")):
        here = NodeSelectorRequirement(plugin.topology_key, "In", zones)
        terms = tuple(
            NodeSelectorTerm((*term.match_expressions, here), term.match_fields)
            for term in terms or (NodeSelectorTerm(),)
        )
    if region == BETA_REGION and _values(terms, region):
        terms = _renamed(terms, region, REGION)
    return NodeSelector(terms) if terms or required is not None else None


def zones_of(label: str) -> tuple[str, ...]:
    """Return the zones that a label of a volume names, sorted, without empty ones."""
    return tuple(sorted({zone.strip() for zone in label.split(ZONE_DELIMITER)} - {""}))


def _aws_id(volume_id: str) -> str:
    return volume_id.rsplit("/", 1)[-1] if volume_id.startswith("aws://") else volume_id


def _gce_id(volume: PersistentVolume, disk: str) -> str:
    labels = volume.metadata.labels
    zones = zones_of(labels.get(ZONE, "") or labels.get(BETA_ZONE, ""))
    if len(zones) > 1:
        return f"projects/{UNSPECIFIED}/regions/{zones[0].rsplit('-', 1)[0]}/disks/{disk}"
    return f"projects/{UNSPECIFIED}/zones/{zones[0] if zones else UNSPECIFIED}/disks/{disk}"


def _topology_labels(volume: PersistentVolume, terms: tuple[NodeSelectorTerm, ...]) -> tuple[str, str]:
    """Return the zone and region labels that a volume uses: its affinity decides, then its labels."""
    keys = {requirement.key for term in terms for requirement in term.match_expressions}
    for names in (keys, volume.metadata.labels.keys()):
        if ZONE in names:
            return ZONE, REGION
        if BETA_ZONE in names:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _values(terms: tuple[NodeSelectorTerm, ...], key: str) -> bool:
    return any(r.values for term in terms for r in term.match_expressions if r.key == key)


def _renamed(terms: tuple[NodeSelectorTerm, ...], old: str, new: str) -> tuple[NodeSelectorTerm, ...]:
    return tuple(
        NodeSelectorTerm(
            tuple(
                NodeSelectorRequirement(new if r.key == old else r.key, r.operator, r.values)
                for r in term.match_expressions
            ),
            term.match_fields,
        )
        for term in terms
    )
