"""Hollow nodes from a template: names, sizes, labels, zones, taints and images of any number of nodes.

`node_object` makes the Node of a number as JSON: Ready, and with everything that `kubectl get nodes -o wide` shows.
Used by the embedded cluster when it starts, and by simulations.
"""

import ipaddress
from typing import Any

import msgspec

from berth_cluster.apimachinery.meta import Object, annotations_of, format_time
from berth_workloads.node_lifecycle import DOWN_SINCE, HOLLOW

FIRST_HOST_IP = ipaddress.IPv4Address("172.16.0.1")
POD_NETWORK = ipaddress.IPv4Address("10.0.0.0")
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


class NodeTemplate(msgspec.Struct, frozen=True):
    """What hollow nodes look like; nodes are assigned to the zones in turn."""

    name_prefix: str = "node-"
    cpu: str = "8"
    memory: str = "32Gi"
    pods: int = 110
    ephemeral_storage: str = "100Gi"
    extra_resources: dict[str, str] = {}
    labels: dict[str, str] = {}
    zones: tuple[str, ...] = ("zone-a", "zone-b", "zone-c")
    region: str = "region-1"
    os: str = "linux"
    arch: str = "amd64"
    taints: tuple[dict[str, str], ...] = ()
    images: tuple[dict[str, Any], ...] = ()
    kubelet_version: str = "v1.36.0"
    first_address: int = 0  # how many nodes of other templates come before these, which have the addresses before
    pod_network_bits: int = 0  # that the ranges of all nodes' pods have at least, so that none overlap


def is_hollow(node: Object) -> bool:
    """Whether the hollow kubelet and its companions look after the node."""
    return annotations_of(node).get(HOLLOW) == "true"


def is_down(node: Object) -> bool:
    """Whether a hollow node plays dead."""
    return is_hollow(node) and DOWN_SINCE in annotations_of(node)


def node_object(template: NodeTemplate, index: int, now_s: float) -> Object:
    """The node of that number (from 0) as JSON."""
    name = f"{template.name_prefix}{index}"
    network = pod_network(template.pods, template.first_address + index, template.pod_network_bits)
    spec: Object = {"podCIDR": network, "providerID": f"hollow://{name}"}
    spec["podCIDRs"] = [spec["podCIDR"]]
    if template.taints:
        spec["taints"] = [dict(taint) for taint in template.taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": _labels(template, name, index),
            "annotations": {HOLLOW: "true"},
        },
        "spec": spec,
        "status": _status(template, name, index, now_s),
    }


def network_bits(pods: int) -> int:
    """How many bits tell apart the addresses of a node's pods."""
    return max(8, (pods + 2).bit_length())


def pod_network(pods: int, index: int, least_bits: int = 0) -> str:
    """The range of pod addresses of a node: a slice of 10.0.0.0/8 with room for its pods."""
    host_bits = max(network_bits(pods), least_bits)
    offset = (index << host_bits) % (1 << 24)
    return f"{POD_NETWORK + offset}/{32 - host_bits}"


def host_ip(index: int) -> str:
    """The address of the node of that number."""
    return str(FIRST_HOST_IP + index)


def _labels(template: NodeTemplate, name: str, index: int) -> dict[str, str]:
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": template.os,
        "kubernetes.io/arch": template.arch,
    }
    if template.zones:
        labels["topology.kubernetes.io/region"] = template.region
        labels["topology.kubernetes.io/zone"] = template.zones[index % len(template.zones)]
    return labels | template.labels


def _status(template: NodeTemplate, name: str, index: int, now_s: float) -> Object:
    capacity = {
        "cpu": template.cpu,
        "memory": template.memory,
        "pods": str(template.pods),
        "ephemeral-storage": template.ephemeral_storage,
    } | template.extra_resources
    number = template.first_address + index
    return {
        "capacity": capacity,
        "allocatable": dict(capacity),
        "conditions": ready_conditions(now_s),
        "addresses": [{"type": "InternalIP", "address": host_ip(number)}, {"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": f"{number:032x}",
            "systemUUID": f"{number:032x}",
            "bootID": f"{number:032x}",
            "kernelVersion": "0.0.0-hollow",
            "osImage": "Hollow Linux",
            "containerRuntimeVersion": "hollow://1.0.0",
            "kubeletVersion": template.kubelet_version,
            "kubeProxyVersion": template.kubelet_version,
            "operatingSystem": template.os,
            "architecture": template.arch,
        },
        "images": [dict(image) for image in template.images],
    }


def ready_conditions(now_s: float) -> list[Object]:
    """The conditions of a healthy node."""
    now = format_time(now_s)
    return [
        {
            "type": condition_type,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        for condition_type, status, reason, message in _CONDITIONS
    ]
