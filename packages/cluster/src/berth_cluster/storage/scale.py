"""The `scale` subresource: how many replicas a workload has and wants, in one shape for every kind."""

from berth_cluster.apimachinery.errors import FieldErrors, bad_request, not_found
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import ResourceType
from berth_cluster.apimachinery.selection import selector_text
from berth_cluster.custom.version import CustomType

SCALE = ResourceType("autoscaling", "v1", "scales", "Scale")


def scale_of(kind: ResourceType, obj: Object) -> Object:
    """The autoscaling/v1 Scale of a workload."""
    _check_scalable(kind, obj)
    meta = obj["metadata"]
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    scale: Object = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in shown if key in meta},
        "spec": {"replicas": spec["replicas"]} if spec.get("replicas") else {},
        "status": {"replicas": status.get("replicas", 0)},
    }
    if isinstance(kind, CustomType):
        return {**scale, **kind.custom.scale_of(obj)}
    selector = selector_text(spec.get("selector") or {})
    if selector:
        scale["status"]["selector"] = selector
    return scale


def with_scale(kind: ResourceType, obj: Object, scale: Object) -> Object:
    """The workload with the replicas that a Scale asks for, under the uid and resourceVersion that the Scale names."""
    _check_scalable(kind, obj)
    name = obj["metadata"]["name"]
    spec, asked = scale.get("spec") or {}, scale.get("metadata") or {}
    if not isinstance(spec, dict) or not isinstance(asked, dict):
        raise bad_request(f'Scale "{name}": spec and metadata must be objects')
    replicas = spec.get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas >= 2**31:
        raise bad_request(f'Scale "{name}": spec.replicas must be a whole number of 32 bits, not {replicas!r}')
    if isinstance(kind, CustomType):
        obj = kind.custom.with_replicas(obj, replicas)
    errors = FieldErrors()
    if replicas < 0:
        errors.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
    errors.raise_for("Scale", "autoscaling", name)
    meta = {**obj["metadata"], "resourceVersion": asked.get("resourceVersion") or obj["metadata"]["resourceVersion"]}
    if asked.get("uid"):
        meta["uid"] = asked["uid"]
    changed = {**obj, "metadata": meta}
    return changed if kind.is_custom else {**changed, "spec": {**obj["spec"], "replicas": replicas}}


def _check_scalable(kind: ResourceType, obj: Object) -> None:
    if "scale" not in kind.subresources:
        raise not_found(f"{kind.plural}/scale", kind.group, obj["metadata"]["name"])
