"""Things that come to a cluster and leave it again, one after the other, each under a name of its own.

`LIVES` has a function for each kind of name that the scheduler may intern or remember something under. Such a function
lets one thing come, lets the core make of it what it does, and takes it away: `life(cluster, number)`. After any number
of lives the cluster is as it was, so whatever has grown in the meantime has been forgotten to be given back.
"""

from typing import Any

from berth.api.codec import decode
from berth.core.builders import (
    expression,
    make_namespace,
    make_node,
    make_pod,
    make_pod_group,
    make_replica_set,
    make_service,
)
from berth.core.virtual_cluster import VirtualCluster


def cluster() -> VirtualCluster:
    """Return a cluster of four nodes with some pods, which stay."""
    found = VirtualCluster(gates={"GenericWorkload": True, "GangScheduling": True})
    for number in range(4):
        found.put(make_node(f"node-{number}").capacity(cpu="8", memory="32Gi", pods=110).zone(f"zone-{number % 2}"))
        found.put(make_pod(f"resident-{number}").label("app", "resident").request(cpu="100m"))
    found.run()
    return found


def _pod_life(found: VirtualCluster, pod: Any) -> None:
    built = pod.build()
    found.put(built)
    found.run()
    found.delete("Pod", f"{built.metadata.namespace}/{built.metadata.name}")


def _object_life(found: VirtualCluster, obj: Any, *, watched_by: Any = None) -> None:
    found.put(obj)
    if watched_by is not None:
        _pod_life(found, watched_by)
    found.run()
    meta = obj.metadata
    found.delete(type(obj).__name__, f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name)


def _small(name: str = "pod", namespace: str = "default") -> Any:
    return make_pod(name, namespace).request(cpu="10m")


def _node(number: int, name: str = "guest") -> Any:
    return make_node(name).capacity(cpu="4", memory="8Gi", pods=110)


def _node_life(found: VirtualCluster, node: Any, pod: Any = None) -> None:
    found.put(node)
    if pod is not None:
        _pod_life(found, pod)
    found.run()
    found.delete("Node", node.document["metadata"]["name"])


def pods(found: VirtualCluster, number: int) -> None:
    """Pods of the same kind under many names."""
    _pod_life(found, _small(f"pod-{number}"))


def pod_labels(found: VirtualCluster, number: int) -> None:
    """Labels of pods."""
    _pod_life(found, _small().label("app", f"app-{number}").label(f"key-{number}", "x"))


def namespaces(found: VirtualCluster, number: int) -> None:
    """Namespaces, with labels, and a pod in each."""
    _object_life(
        found, make_namespace(f"ns-{number}", {f"key-{number}": "x"}), watched_by=_small("pod", f"ns-{number}")
    )


def schedulers(found: VirtualCluster, number: int) -> None:
    """Names of other schedulers."""
    _pod_life(found, _small().scheduler(f"scheduler-{number}"))


def named_nodes(found: VirtualCluster, number: int) -> None:
    """Pods on nodes that nobody has heard of."""
    _pod_life(found, _small().node(f"ghost-{number}"))


def nominated_nodes(found: VirtualCluster, number: int) -> None:
    """Pods that are nominated to nodes that nobody has heard of."""
    _pod_life(found, make_pod().request(cpu="99").nominated(f"ghost-{number}"))


def selected_label_keys(found: VirtualCluster, number: int) -> None:
    """Label keys in the node selectors of pods."""
    _pod_life(found, _small().node_selector({f"key-{number}": "x"}))


def preferred_label_keys(found: VirtualCluster, number: int) -> None:
    """Label keys that pods prefer."""
    _pod_life(found, _small().prefer_node(3, expression(f"key-{number}", "Exists")))


def required_label_values(found: VirtualCluster, number: int) -> None:
    """Values that pods demand of a label."""
    _pod_life(found, _small().require_node(expression("topology.kubernetes.io/zone", "In", f"zone-{number}")))


def node_label_values(found: VirtualCluster, number: int) -> None:
    """Values that a node has of a label that pods ask for."""
    _node_life(found, _node(number).label("rack", f"rack-{number}"), _small().node_selector({"rack": "none"}))


def node_label_keys(found: VirtualCluster, number: int) -> None:
    """Keys of node labels, each asked for by a pod."""
    _node_life(found, _node(number).label(f"key-{number}", "x"), _small().node_selector({f"key-{number}": "x"}))


def nodes(found: VirtualCluster, number: int) -> None:
    """Nodes under many names, each with a pod that runs there."""
    _node_life(found, _node(number, f"guest-{number}"), _small().node(f"guest-{number}"))


def zones(found: VirtualCluster, number: int) -> None:
    """Zones, with a pod that is spread over them."""
    pod = _small().label("app", "spread").spread("topology.kubernetes.io/zone", labels={"app": "spread"})
    _node_life(found, _node(number).zone(f"zone-{number}", f"region-{number}"), pod)


def taints(found: VirtualCluster, number: int) -> None:
    """Taints of a node."""
    _node_life(found, _node(number).taint(f"key-{number}", "x"), _small())


def tolerations(found: VirtualCluster, number: int) -> None:
    """Taints that pods tolerate."""
    _pod_life(found, _small().tolerate(f"key-{number}", "x"))


def node_resources(found: VirtualCluster, number: int) -> None:
    """Resources that a node has."""
    name = f"example.com/res-{number}"
    _node_life(found, make_node("guest").capacity({name: "3"}, cpu="4", pods=9), make_pod().request({name: "1"}))


def requested_resources(found: VirtualCluster, number: int) -> None:
    """Resources that pending pods ask for and no node has."""
    _pod_life(found, make_pod().request({f"example.com/res-{number}": "1"}))


def running_resources(found: VirtualCluster, number: int) -> None:
    """Resources that a running pod has taken, though no node has them."""
    _pod_life(found, make_pod().request({f"example.com/res-{number}": "1"}).node("node-0"))


def images(found: VirtualCluster, number: int) -> None:
    """Images of a node and of a pod."""
    node = _node(number).image(f"image-{number}:1", size_bytes=1 << 28)
    _node_life(found, node, make_pod().container(image=f"image-{number}:1"))


def topology_keys(found: VirtualCluster, number: int) -> None:
    """Topology keys of spread constraints and of affinity terms."""
    pod = _small().label("app", "x").spread(f"key-{number}", labels={"app": "x"}, when="ScheduleAnyway")
    _pod_life(found, pod.prefer_pod_affinity(5, f"other-{number}", {"app": "x"}))


def affinity_terms(found: VirtualCluster, number: int) -> None:
    """Affinity terms of pods that run."""
    pod = _small().label("app", f"a-{number}").pod_affinity("topology.kubernetes.io/zone", {"app": f"a-{number}"})
    _pod_life(found, pod.pod_anti_affinity("kubernetes.io/hostname", {"app": f"b-{number}"}))


def spread_selectors(found: VirtualCluster, number: int) -> None:
    """Selectors of spread constraints."""
    pod = _small().label("app", f"a-{number}")
    _pod_life(found, pod.spread("topology.kubernetes.io/zone", labels={"app": f"a-{number}"}))


def owners(found: VirtualCluster, number: int) -> None:
    """ReplicaSets and Services with a pod each, which default constraints spread."""
    labels = {"app": f"app-{number}"}
    found.put(make_service(f"service-{number}", labels))
    pod = _small().labels(labels).owned_by("ReplicaSet", f"set-{number}", uid=f"set-{number}")
    _object_life(found, make_replica_set(f"set-{number}", labels), watched_by=pod)
    found.delete("Service", f"default/service-{number}")


def host_ports(found: VirtualCluster, number: int) -> None:
    """Ports and addresses of nodes that pods take."""
    _pod_life(
        found, _small().host_port(1 + number % 60000, host_ip=f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    )


def priorities(found: VirtualCluster, number: int) -> None:
    """Priorities of pods."""
    _pod_life(found, _small().priority(number))


def gates(found: VirtualCluster, number: int) -> None:
    """Scheduling gates."""
    _pod_life(found, _small().gate(f"example.com/gate-{number}"))


def preemptors(found: VirtualCluster, number: int) -> None:
    """Pods that preempt one that runs."""
    found.put(make_pod(f"victim-{number}").request(cpu="7").node("node-0"))
    _pod_life(
        found,
        make_pod(f"preemptor-{number}")
        .request(cpu="7")
        .priority(100)
        .node_selector({"kubernetes.io/hostname": "node-0"}),
    )
    if ("Pod", f"default/victim-{number}") in found.objects:
        found.delete("Pod", f"default/victim-{number}")


def groups(found: VirtualCluster, number: int) -> None:
    """Pod groups of one pod."""
    _object_life(
        found, make_pod_group(f"group-{number}", 1), watched_by=_small(f"member-{number}").group(f"group-{number}")
    )


def missing_groups(found: VirtualCluster, number: int) -> None:
    """Pod groups that do not exist."""
    _pod_life(found, _small().group(f"group-{number}"))


def budgets(found: VirtualCluster, number: int) -> None:
    """Disruption budgets."""
    spec = {"selector": {"matchLabels": {"app": f"app-{number}"}}, "minAvailable": 1}
    _object_life(found, _decoded("PodDisruptionBudget", f"pdb-{number}", "default", spec=spec))


def volumes(found: VirtualCluster, number: int) -> None:
    """Volumes with a claim that is bound to them, and a pod that uses it."""
    claim, volume = f"claim-{number}", f"volume-{number}"
    source = {"driver": f"driver-{number}.example.com", "volumeHandle": volume}
    terms = [{"matchExpressions": [expression(f"key-{number}", "NotIn", "x")]}]
    spec = {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": source,
        "claimRef": {"name": claim, "namespace": "default", "uid": claim},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }  # fmt: skip
    found.put(_decoded("PersistentVolume", volume, "", spec=spec, status={"phase": "Bound"}))
    wanted = {
        "accessModes": ["ReadWriteOnce"], "volumeName": volume, "resources": {"requests": {"storage": "1Gi"}},
    }  # fmt: skip
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    made = _decoded(
        "PersistentVolumeClaim", claim, "default", annotations=bound, spec=wanted, status={"phase": "Bound"}
    )
    _object_life(found, made, watched_by=_small().claim(claim))
    found.delete("PersistentVolume", volume)


def storage_classes(found: VirtualCluster, number: int) -> None:
    """Storage classes, with a claim that waits and a pod."""
    name = f"class-{number}"
    fields = {"provisioner": f"driver-{number}.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    found.put(_decoded("StorageClass", name, "", **fields))
    spec = {
        "accessModes": ["ReadWriteOnce"], "storageClassName": name, "resources": {"requests": {"storage": "1Gi"}},
    }  # fmt: skip
    claim = _decoded("PersistentVolumeClaim", f"claim-{number}", "default", spec=spec, status={"phase": "Pending"})
    _object_life(found, claim, watched_by=make_pod().request(cpu="99").claim(f"claim-{number}"))
    found.delete("StorageClass", name)


def csi_nodes(found: VirtualCluster, number: int) -> None:
    """Drivers of a node, with their limits, and a pod with a volume of one."""
    driver = {"name": f"driver-{number}.example.com", "nodeID": "n", "topologyKeys": [], "allocatable": {"count": 3}}
    found.put(_decoded("CSINode", "node-0", "", spec={"drivers": [driver]}))
    volumes(found, number)
    found.delete("CSINode", "node-0")


def attachments(found: VirtualCluster, number: int) -> None:
    """Attachments of volumes to nodes that nobody has heard of."""
    spec = {"attacher": "d", "nodeName": f"ghost-{number}", "source": {"persistentVolumeName": f"volume-{number}"}}
    attachment = _decoded("VolumeAttachment", f"attachment-{number}", "", spec=spec, status={"attached": True})
    found.put(attachment)
    volumes(found, number)
    found.delete("VolumeAttachment", f"attachment-{number}")


def device_selectors(found: VirtualCluster, number: int) -> None:
    """Expressions in claims that ask for a device which stays."""
    if ("ResourceSlice", "lasting") not in found.objects:
        found.put(_decoded("DeviceClass", "lasting", "", spec={}))
        device = {"name": "dev", "attributes": {"x/a": {"int": -1}}, "capacity": {}}
        pool = {"name": "lasting", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d.example.com", "nodeName": "node-0", "pool": pool, "devices": [device]}
        found.put(_decoded("ResourceSlice", "lasting", "", spec=spec))
    selector = {"cel": {"expression": f"device.attributes['x'].a == {number}"}}
    exactly = {"deviceClassName": "lasting", "allocationMode": "ExactCount", "count": 1, "selectors": [selector]}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    claim = _decoded("ResourceClaim", f"claim-{number}", "default", spec=spec)
    _object_life(found, claim, watched_by=_small().resource_claim("r", f"claim-{number}"))


def large_pods(found: VirtualCluster, number: int) -> None:
    """Pods with specs that are large, and all different."""
    pod = _small(f"large-{number}").label("app", "large")
    for tag in range(400):
        pod.tolerate(f"key-{number}-{tag}-{'x' * 100}", "x", effect="NoSchedule")
    _pod_life(found, pod)


def devices(found: VirtualCluster, number: int) -> None:
    """Device classes with an expression, slices with devices and attributes, and a claim for them, with a pod."""
    name = f"class-{number}"
    expression_text = f"device.driver == 'driver-{number}.example.com' && device.attributes['x'].a{number} == {number}"
    found.put(_decoded("DeviceClass", name, "", spec={"selectors": [{"cel": {"expression": expression_text}}]}))
    device = {"name": "dev", "attributes": {f"x/a{number}": {"int": number}}, "capacity": {}}
    pool = {"name": f"pool-{number}", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": f"driver-{number}.example.com", "nodeName": "node-0", "pool": pool, "devices": [device]}
    found.put(_decoded("ResourceSlice", f"slice-{number}", "", spec=spec))
    request = {"name": "r", "exactly": {"deviceClassName": name, "allocationMode": "ExactCount", "count": 1}}
    claim = _decoded("ResourceClaim", f"claim-{number}", "default", spec={"devices": {"requests": [request]}})
    _object_life(found, claim, watched_by=make_pod().request(cpu="99").resource_claim("r", f"claim-{number}"))
    found.delete("ResourceSlice", f"slice-{number}")
    found.delete("DeviceClass", name)


LIVES = (
    pods, pod_labels, namespaces, schedulers, named_nodes, nominated_nodes, selected_label_keys, preferred_label_keys,
    required_label_values, node_label_values, node_label_keys, nodes, zones, taints, tolerations, node_resources,
    requested_resources, running_resources, images, topology_keys, affinity_terms, spread_selectors, owners, host_ports,
    priorities, gates, preemptors, groups, missing_groups, budgets, volumes, storage_classes, csi_nodes, attachments,
    devices, device_selectors,
)  # fmt: skip


def _decoded(kind: str, name: str, namespace: str, annotations: Any = None, **fields: Any) -> Any:
    metadata = {"name": name, "uid": f"{kind}/{name}", "annotations": annotations or {}}
    if namespace:
        metadata["namespace"] = namespace
    return decode(kind, {"metadata": metadata, **fields})
