"""What labels say of a node: its pool of machines, by clouds and autoscalers, and what its kubelet says of it."""

from collections.abc import Mapping
from typing import Final

POOL_LABELS: Final = (
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "kubernetes.azure.com/agentpool",
    "doks.digitalocean.com/node-pool",
    "agentpool",
    "node-pool",
    "pool",
)
"""The labels that name a pool; the first one that a node has counts."""
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
HOSTNAME: Final = "kubernetes.io/hostname"
OS: Final = "kubernetes.io/os"
ARCH: Final = "kubernetes.io/arch"


def pool_of(labels: Mapping[str, str], label: str = "") -> str:
    """Return a node's pool: the value of `label` where one is given, else of the usual ones.

    A node that is in no pool counts with those of its instance type; the empty string where it has none.
    """
    for key in (label,) if label else (*POOL_LABELS, INSTANCE_TYPE):
        if key in labels:
            return labels[key]
    return ""


def kubelet_labels(name: str, labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of a node that is to be made, with those that its kubelet adds where nobody gives them."""
    return {HOSTNAME: name, OS: "linux", ARCH: "amd64", **labels}
