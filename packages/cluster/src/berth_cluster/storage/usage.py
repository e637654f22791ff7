"""What pods and nodes use, as their annotations say: hollow nodes run nothing, so that without one it is nothing.

`metrics.k8s.io` shows it, and the autoscaler acts on it. A pod's usage is shared equally by its containers; a node
uses what its pods do, and what its own annotations add.
"""

from fractions import Fraction

from berth.api.quantity import QuantityError
from berth_cluster.apimachinery.meta import Object, annotations_of, labels_of
from berth_cluster.apimachinery.resource_types import METRICS_GROUP, NODES, PODS, ResourceType
from berth_cluster.storage.store import Store
from berth_cluster.strategies.quota_usage import written
from berth_workloads.amounts import Amount, amount, total

CPU_USAGE, MEMORY_USAGE = "berth.dev/cpu-usage", "berth.dev/memory-usage"
_ANNOTATIONS = (("cpu", CPU_USAGE), ("memory", MEMORY_USAGE))


def usage_said(obj: Object) -> dict[str, Amount]:
    """What an object's own annotations say; what cannot be read is nothing."""
    said = {}
    for name, annotation in _ANNOTATIONS:
        try:
            said[name] = amount(annotations_of(obj).get(annotation, "0"))
        except QuantityError:
            said[name] = Amount(Fraction(0))
    return said


def runs(pod: Object) -> bool:
    """Whether a pod uses anything."""
    return (pod.get("status") or {}).get("phase") == "Running"


def metrics_of(store: Store, kind: ResourceType, obj: Object) -> Object:
    """The PodMetrics or NodeMetrics of a pod or a node."""
    meta, now = obj["metadata"], store.now()
    kept = {key: meta[key] for key in ("name", "namespace") if key in meta}
    shown: Object = {
        "kind": f"{kind.kind}Metrics",
        "apiVersion": f"{METRICS_GROUP}/v1beta1",
        "metadata": {**kept, "creationTimestamp": now, **({"labels": labels_of(obj)} if labels_of(obj) else {})},
        "timestamp": now,
        "window": "15s",
    }
    if kind is PODS:
        containers = obj["spec"]["containers"]
        each = {key: Amount(part.value / len(containers), part.is_binary) for key, part in usage_said(obj).items()}
        return {**shown, "containers": [{"name": one["name"], "usage": written(each)} for one in containers]}
    pods = (pod for pod in store.objects(PODS) if pod["spec"].get("nodeName") == meta["name"] and runs(pod))
    return {**shown, "usage": written(total([usage_said(obj), *map(usage_said, pods)]))}


def measured(store: Store, plural: str, namespace: str, label_selector: str) -> list[Object]:
    """The metrics of all nodes, or of all pods that run, in order of their names."""
    kind = NODES if plural == "nodes" else PODS
    found, _ = store.list(kind, namespace, label_selector)
    return [metrics_of(store, kind, obj) for obj in found if kind is NODES or runs(obj)]
