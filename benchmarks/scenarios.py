"""Every workload that is measured: those of gen_workload.py, and those whose pods come with other objects.

    python benchmarks/scenarios.py SCENARIO NODES PODS > workload.jsonl

gen_workload.py stays as it was published; its scenarios are written by it. Here are, on nodes like its own:

    devices       every node has eight devices in a ResourceSlice; every pod has a ResourceClaim for one of them
    volumes       every pod has a claim of a class that waits for its first consumer; the driver makes volumes
    localvolumes  the same with volumes on the disks of nodes, five on each, and nobody who makes any
    gangs         pods come in groups of 50 that are bound together or not at all; needs FEATURE_GATES

Each line is an object. Nodes come first, then what pods refer to, then pods. `berth bench FILE` plays the controllers
that such pods wait for, and `write` is what run.py, live.py and growth.py call.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

Json = dict[str, Any]

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
PUBLISHED = ("basic", "unique", "anti", "affinity", "prefanti", "spread", "prefspread", "mixed", "preempt")
"""The scenarios of gen_workload.py that are measured."""
GANG_SIZE = 50
FEATURE_GATES: Mapping[str, str] = {"gangs": "GenericWorkload=true,GangScheduling=true"}
"""What must be switched on, by scenario."""

DEVICES_PER_NODE, VOLUMES_PER_NODE, LOCAL_VOLUMES_PER_NODE = 8, 25, 5
DEVICE_DRIVER, VOLUME_DRIVER = "gpu.example.com", "disk.example.com"


def document(kind: str, api_version: str, name: str, *, namespace: str = "", **fields: Any) -> Json:
    """An object of this kind; its uid is made of its kind and name."""
    metadata: Json = {"name": name, "uid": f"{kind.lower()}-{name}"}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def node(number: int) -> Json:
    """A node as gen_workload.py has it: 4 CPU, 32Gi, 110 pods, in one of three zones."""
    name = f"node-{number:05d}"
    room = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
    made = document("Node", "v1", name, status=status)
    labels = {HOSTNAME: name, ZONE: f"zone-{number % 3}", "topology.kubernetes.io/region": "r1"}
    made["metadata"]["labels"] = labels
    return made


def pod(number: int, **spec: Any) -> Json:
    """A pending pod as gen_workload.py has it: 100m CPU, 500Mi."""
    asked = {"cpu": "100m", "memory": "500Mi"}
    container = {"name": "pause", "image": "registry.k8s.io/pause:3.10",
                 "resources": {"requests": asked, "limits": asked}}  # fmt: skip
    spec = {"schedulerName": "default-scheduler", "containers": [container], **spec}
    return document("Pod", "v1", f"p-{number:06d}", namespace="default", spec=spec, status={"phase": "Pending"})


def devices(nodes: int, pods: int) -> Iterator[Json]:
    """Pods that each have a claim for one device of their node."""
    selector = {"cel": {"expression": f'device.driver == "{DEVICE_DRIVER}"'}}
    yield document("DeviceClass", "resource.k8s.io/v1", "gpu", spec={"selectors": [selector]})
    for number in range(nodes):
        name = f"node-{number:05d}"
        found = [
            {"name": f"gpu-{index}",
             "attributes": {"model": {"string": "a100" if index % 2 else "h100"}, "index": {"int": index}},
             "capacity": {"memory": {"value": "80Gi"}}}
            for index in range(DEVICES_PER_NODE)
        ]  # fmt: skip
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DEVICE_DRIVER, "nodeName": name, "pool": pool, "devices": found}
        yield document("ResourceSlice", "resource.k8s.io/v1", f"{name}-gpus", spec=spec)
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    for number in range(pods):
        spec = {"devices": {"requests": [request]}}
        yield document("ResourceClaim", "resource.k8s.io/v1", f"gpu-{number:06d}", namespace="default", spec=spec)
    for number in range(pods):
        yield pod(number, resourceClaims=[{"name": "gpu", "resourceClaimName": f"gpu-{number:06d}"}])


def volumes(nodes: int, pods: int) -> Iterator[Json]:
    """Pods that each have a claim for which a volume is made where they go, in the zone of their node."""
    yield document("CSIDriver", "storage.k8s.io/v1", VOLUME_DRIVER, spec={"attachRequired": True})
    yield _waiting_class(VOLUME_DRIVER)
    for number in range(nodes):
        name = f"node-{number:05d}"
        driver = {"name": VOLUME_DRIVER, "nodeID": name, "topologyKeys": [ZONE],
                  "allocatable": {"count": VOLUMES_PER_NODE}}  # fmt: skip
        yield document("CSINode", "storage.k8s.io/v1", name, spec={"drivers": [driver]})
    yield from _pods_with_volumes(pods)


def local_volumes(nodes: int, pods: int) -> Iterator[Json]:
    """Pods that each have a claim for a volume on a node's own disk."""
    yield _waiting_class("kubernetes.io/no-provisioner")
    for number in range(nodes * LOCAL_VOLUMES_PER_NODE):
        name = f"node-{number // LOCAL_VOLUMES_PER_NODE:05d}"
        here = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [name]}]}
        spec = {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "late",
            "local": {"path": f"/mnt/disk-{number % LOCAL_VOLUMES_PER_NODE}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
        }
        yield document("PersistentVolume", "v1", f"disk-{number:06d}", spec=spec, status={"phase": "Available"})
    yield from _pods_with_volumes(pods)


def _waiting_class(provisioner: str) -> Json:
    waits = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    return document("StorageClass", "storage.k8s.io/v1", "late", **waits)


def _pods_with_volumes(pods: int) -> Iterator[Json]:
    for number in range(pods):
        spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "late",
                "resources": {"requests": {"storage": "10Gi"}}}  # fmt: skip
        name = f"data-{number:06d}"
        yield document("PersistentVolumeClaim", "v1", name, namespace="default", spec=spec, status={"phase": "Pending"})
    for number in range(pods):
        claim = {"claimName": f"data-{number:06d}"}
        yield pod(number, volumes=[{"name": "data", "persistentVolumeClaim": claim}])


def gangs(_nodes: int, pods: int) -> Iterator[Json]:
    """Pods in groups, the last of which may be smaller."""
    for first in range(0, pods, GANG_SIZE):
        policy = {"gang": {"minCount": min(GANG_SIZE, pods - first)}}
        name = f"gang-{first // GANG_SIZE:04d}"
        spec = {"schedulingPolicy": policy}
        yield document("PodGroup", "scheduling.k8s.io/v1alpha2", name, namespace="default", spec=spec)
    for number in range(pods):
        yield pod(number, schedulingGroup={"podGroupName": f"gang-{number // GANG_SIZE:04d}"})


WITH_OBJECTS: Mapping[str, Callable[[int, int], Iterator[Json]]] = {
    "devices": devices,
    "volumes": volumes,
    "localvolumes": local_volumes,
    "gangs": gangs,
}
SCENARIOS = (*PUBLISHED, *WITH_OBJECTS)


def write(scenario: str, nodes: int, pods: int, out: TextIO) -> None:
    """Write a workload; raises `CalledProcessError` where there is no such scenario."""
    made = WITH_OBJECTS.get(scenario)
    if made is None:
        generator = Path(__file__).with_name("gen_workload.py")
        out.flush()
        subprocess.run([sys.executable, generator, scenario, str(nodes), str(pods)], check=True, stdout=out)
        return
    for number in range(nodes):
        out.write(json.dumps(node(number)) + "\n")
    for each in made(nodes, pods):
        out.write(json.dumps(each) + "\n")


def main() -> None:
    """Write the workload that the command line names."""
    if len(sys.argv) != 4 or not all(text.isdecimal() for text in sys.argv[2:]):
        raise SystemExit(__doc__)
    try:
        write(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.stdout)
    except subprocess.CalledProcessError as failed:
        raise SystemExit(failed.returncode) from None


if __name__ == "__main__":
    main()
