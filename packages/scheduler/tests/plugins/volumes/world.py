"""Claims, volumes and classes in few words, and a small cluster of them for one plugin."""

from berth.api.codec import decode
from berth.framework.cycle_state import CycleState
from berth.framework.status import Code
from packages.scheduler.tests.plugins.support import handle_of

BOUND = "pv.kubernetes.io/bind-completed"
SELECTED = "volume.kubernetes.io/selected-node"
ZONE = "topology.kubernetes.io/zone"


def meta(name, namespace="", **fields):
    found = {"name": name, "uid": f"uid-{name}", **fields}
    return found | ({"namespace": namespace} if namespace else {})


def claim(
    name, storage="1Gi", *, klass="wait", volume="", bound=None, modes=("ReadWriteOnce",), namespace="default", **more
):
    """A claim; `bound` follows from `volume` unless it is given; `more` is `annotations`, `spec` and the like."""
    annotations = dict(more.get("annotations", {}))
    if bound if bound is not None else bool(volume):
        annotations[BOUND] = "yes"
    metadata = meta(name, namespace, annotations=annotations, ownerReferences=more.get("owners", []))
    metadata["resourceVersion"] = more.get("version", "")
    if "deleted" in more:
        metadata["deletionTimestamp"] = more["deleted"]
    spec = {"accessModes": list(modes), "storageClassName": klass, "volumeName": volume, **more.get("spec", {})}
    if storage:
        spec["resources"] = {"requests": {"storage": storage}}
    document = {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    return decode("PersistentVolumeClaim", document | {"status": more.get("status", {})})


def on(key, *values):
    """A node affinity of a volume."""
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}]
    return {"required": {"nodeSelectorTerms": terms}}


def volume(name, storage="1Gi", *, klass="wait", affinity=None, phase="Available", modes=("ReadWriteOnce",), **more):
    """A volume; `labels`, `ref` (a claim's name), `version`, `deleted`, and fields of `spec`."""
    metadata = meta(name, labels=more.pop("labels", {}), resourceVersion=more.pop("version", ""))
    if "deleted" in more:
        metadata["deletionTimestamp"] = more.pop("deleted")
    spec = {"capacity": {"storage": storage}, "accessModes": list(modes), "storageClassName": klass}
    if affinity is not None:
        spec["nodeAffinity"] = affinity
    if "ref" in more:
        ref = more.pop("ref")
        spec["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": ref, "uid": f"uid-{ref}"}
    document = {"kind": "PersistentVolume", "metadata": metadata, "spec": spec | more, "status": {"phase": phase}}
    return decode("PersistentVolume", document)


def storage_class(name, provisioner="csi.example.com", mode="WaitForFirstConsumer", topologies=()):
    allowed = [
        {"matchLabelExpressions": [{"key": k, "values": list(v)} for k, v in term.items()]} for term in topologies
    ]
    document = {"metadata": meta(name), "provisioner": provisioner, "allowedTopologies": allowed}
    return decode("StorageClass", document | ({"volumeBindingMode": mode} if mode else {}))


def csi_node(name, migrated="", **limits):
    drivers = [
        {"name": driver.replace("_", "."), "nodeID": name}
        | ({"allocatable": {"count": count}} if count is not None else {})
        for driver, count in limits.items()
    ]
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": migrated} if migrated else {}
    return decode("CSINode", {"metadata": meta(name, annotations=annotations), "spec": {"drivers": drivers}})


def driver(name, *, capacity=True):
    return decode("CSIDriver", {"metadata": meta(name), "spec": {"storageCapacity": capacity}})


def capacity(name, amount, *, klass="wait", zone="a", largest=None):
    document = {"metadata": meta(name, "kube-system"), "storageClassName": klass, "capacity": amount}
    if zone:
        document["nodeTopology"] = {"matchLabels": {ZONE: zone}}
    return decode("CSIStorageCapacity", document | ({"maximumVolumeSize": largest} if largest else {}))


def attachment(name, node, pv, attacher="d"):
    spec = {"attacher": attacher, "nodeName": node, "source": {"persistentVolumeName": pv}}
    return decode("VolumeAttachment", {"metadata": meta(name), "spec": spec})


def world(*objects, gates=None):
    """A handle over nodes, running pods and storage objects."""
    counted = [obj for obj in objects if kind_of(obj) in ("Node", "Pod")]
    handle = handle_of(*counted, gates=gates)
    for obj in objects:
        if obj not in counted:
            handle.objects.put(kind_of(obj), obj)
    return handle


def kind_of(obj):
    return type(obj).__name__


def decided(plugin, pod, handle):
    """The message PreFilter refuses the pod with; else the message for each node, None where it passes."""
    state = CycleState()
    status = plugin.pre_filter(state, pod)
    if status is not None and status.code is not Code.SKIP:
        return status.message
    return {
        table_row.name: None if answer is None else answer.message
        for table_row, answer in (
            (view, None if status is not None else plugin.filter(state, pod, view)) for view in views(handle)
        )
    }


def views(handle):
    table = handle.cache.table
    return [table.view(row) for row in table.rows().tolist()]
