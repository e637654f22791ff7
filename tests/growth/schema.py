"""Lives made from the schema: for each list and each map in any kind of object, objects with many entries there.

`FIELDS` finds the lists and maps by walking the structs into which API objects are decoded, so that a new field has a
life as soon as there is one. `life` lets an object with many new entries in one field come, lets the core make of it
what it does, with pods beside it that look at such objects, and takes everything away again.

Most values are names of their own. What a field holds that is more than a name, `SPECIAL` says by the field's name in
JSON; a type or a value for which there is nothing here ends in an error that says so.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from berth.api.codec import KINDS, ObjectError, decode
from berth.api.meta import Struct
from berth.core.virtual_cluster import VirtualCluster
from berth.state.objects import key_of

NAME = re.compile(r"-l(\d+)n(\d+)-")
"""What is in each name that `Names` gives: the number of the life, and that of the name within it."""

QUANTITIES = ("requests", "limits", "overhead", "allocatable", "capacity", "allocatedResources", "consumedCapacity")
"""Maps of names to quantities, and fields that hold a quantity."""


class Field(NamedTuple):
    """A list or a map in a kind of object: the way to it by names in JSON, lists on the way marked by `[]`."""

    kind: str
    path: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind}.{'.'.join(self.path)}"


class Names:
    """Gives names that nothing had before; `number` tells apart the lives, in which they are the same each time."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._given = 0

    def new(self, what: str) -> str:
        """Return another name."""
        self._given += 1
        return f"{what.lower()[:20]}-l{self._number}n{self._given}-{'x' * 20}"


Maker = Callable[[Names], Any]


def _always(value: Any) -> Maker:
    return lambda names: value


SPECIAL: Mapping[str, Maker] = {
    "operator": _always("In"),
    "Toleration.operator": _always("Equal"),
    "DeviceToleration.operator": _always("Equal"),
    "effect": _always("NoSchedule"),
    "whenUnsatisfiable": _always("ScheduleAnyway"),
    "nodeAffinityPolicy": _always("Honor"),
    "nodeTaintsPolicy": _always("Honor"),
    "protocol": _always("TCP"),
    "weight": _always(3),
    "hostIP": _always("10.0.0.1"),
    "expression": lambda names: f"device.driver != '{names.new('driver')}'",
    "allocationMode": _always("ExactCount"),
    "restartPolicy": _always(""),
    "volumeMode": _always("Filesystem"),
    "deletionTimestamp": _always(None),
    "creationTimestamp": _always("2026-01-01T00:00:00Z"),
    "status": _always("True"),
    "value": lambda names: names.new("value"),
    "DeviceCapacity.value": _always("1"),
    "schedulerName": _always("default-scheduler"),
    "matchAttribute": lambda names: f"example.com/{names.new('attribute')}",
    "distinctAttribute": _always(None),
    "requestPolicy": _always(None),
    "maximumVolumeSize": _always("1Gi"),
    "ResourceClaimUse.name": _always("r"),
    "matchFields": lambda names: {"key": "metadata.name", "operator": "In", "values": [names.new("node")]},
    "DeviceRequest.firstAvailable": _always(None),
    "basic": _always(None),
    "bool": _always(None),
    "string": _always(None),
    "version": _always(None),
}
"""What is more than a name, by the field's name in JSON, or by its struct's and its own; None leaves a field out."""

ALTERNATIVES: Mapping[str, str] = {"firstAvailable": "exactly"}
"""What must not be there beside a field."""


def _fields_of(struct: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for field in struct.fields:
        yield from _lists_and_maps(field.type, (*path, field.encode_name))


def _lists_and_maps(type_: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    type_ = _wanted(type_)
    if isinstance(type_, inspect.StructType):
        yield from _fields_of(type_, path)
    elif isinstance(type_, inspect.DictType):
        yield path
        yield from _lists_and_maps(type_.value_type, (*path, "[]"))
    elif isinstance(type_, inspect.VarTupleType | inspect.ListType):
        yield path
        yield from _lists_and_maps(type_.item_type, (*path, "[]"))


def _wanted(type_: Any) -> Any:
    """Return what an optional field holds where it holds something, and the text of what may be text or a number."""
    if isinstance(type_, inspect.UnionType):
        return max(
            type_.types, key=lambda each: (isinstance(each, inspect.StructType), isinstance(each, inspect.StrType))
        )
    return type_


FIELDS = tuple(Field(kind, path) for kind, struct in KINDS.items() for path in _fields_of(inspect.type_info(struct)))


def value_of(type_: Any, name: str, names: Names, owner: str = "") -> Any:
    """Return what a field may hold, with one entry in each list and map of it."""
    type_ = _wanted(type_)
    special = SPECIAL.get(f"{owner}.{name}") or SPECIAL.get(name)
    if special is not None:
        return _in_list(special(names), type_)
    if isinstance(type_, inspect.StructType):
        values = ((f.encode_name, value_of(f.type, f.encode_name, names, type_.cls.__name__)) for f in type_.fields)
        return {key: value for key, value in values if value is not None}
    if isinstance(type_, inspect.DictType):
        return dict([_entry(type_, name, names)])
    if isinstance(type_, inspect.VarTupleType | inspect.ListType):
        return [value_of(type_.item_type, name, names)]
    if isinstance(type_, inspect.StrType):
        return "1" if name in QUANTITIES else names.new(name)
    if isinstance(type_, inspect.BoolType):
        return False
    if isinstance(type_, inspect.IntType | inspect.FloatType):
        return 1
    if isinstance(type_, inspect.AnyType):
        return {"opaque": names.new(name)}
    raise NotImplementedError(
        f"{owner}.{name}: tests/growth/schema.py makes no value of {type_}; say in `value_of` how"
    )


def _in_list(value: Any, type_: Any) -> Any:
    """Return what a special field holds: of a list, `SPECIAL` says what an entry is."""
    return [value] if value is not None and isinstance(type_, inspect.VarTupleType | inspect.ListType) else value


def _entry(type_: Any, name: str, names: Names) -> tuple[str, Any]:
    if name in QUANTITIES and not isinstance(_wanted(type_.value_type), inspect.StructType):
        return f"example.com/{names.new('res')}", "1"
    return names.new("key"), value_of(type_.value_type, "text", names)


def grown(document: dict[str, Any], field: Field, entries: int, names: Names) -> dict[str, Any]:
    """Return a document with so many more entries in a field; what is missing on the way there is made."""
    _grow(document, inspect.type_info(KINDS[field.kind]), field.path, entries, names)
    return document


def _grow(inside: Any, struct: Any, path: tuple[str, ...], entries: int, names: Names) -> None:
    """Go one step down the path, from a struct's document or from the entries of a list or map."""
    name, *rest = path
    field = next(each for each in struct.fields if each.encode_name == name)
    type_ = _wanted(field.type)
    if isinstance(type_, inspect.StructType):
        _grow(inside.setdefault(name, {}), type_, tuple(rest), entries, names)
        return
    inside.pop(ALTERNATIVES.get(name), None)
    is_map = isinstance(type_, inspect.DictType)
    there = inside.setdefault(name, {} if is_map else [])
    item = type_.value_type if is_map else type_.item_type
    if not rest:
        for _ in range(entries):
            if is_map:
                there.update([_entry(type_, name, names)])
            else:
                there.append(value_of(item, name, names))
        return
    if not there:
        made = value_of(item, name, names)
        there.update({names.new("key"): made}) if is_map else there.append(made)
    first = next(iter(there.values())) if is_map else there[0]
    _grow(first, _wanted(item), tuple(rest[1:]), entries, names)


def read(field: Field, document: Mapping[str, Any]) -> Struct:
    """Return the object; says which field needs a value of its own kind where it cannot be read."""
    try:
        found: Struct = decode(field.kind, msgspec.json.encode(document))
    except ObjectError as error:
        raise AssertionError(
            f"{field}: give the field a value in SPECIAL of tests/growth/schema.py: {error}"
        ) from error
    return found


# -- what stands beside the object, by its kind --------------------------------------------------------------------


def _meta(name: str, namespace: str = "default", **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}", **more}


def _pod(number: int, name: str = "pod", cpu: str = "10m", **spec: Any) -> dict[str, Any]:
    """Return a pod that has one of nearly everything, all of it such that the pod fits wherever its CPU does."""
    zone, labels = "topology.kubernetes.io/zone", {"app": "beside"}
    term = {"topologyKey": zone, "labelSelector": {"matchLabels": {"app": "resident"}}}
    preferred = {"weight": 3, "podAffinityTerm": term}
    spread = {"maxSkew": 5, "topologyKey": zone, "whenUnsatisfiable": "ScheduleAnyway",
              "labelSelector": {"matchLabels": {"app": "resident"}}, "nodeTaintsPolicy": "Honor"}  # fmt: skip
    expression = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["nowhere"]}
    container = {"name": "c", "image": "image:1", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": _meta(f"{name}-{number}", labels=labels),
        "spec": {
            "containers": [container],
            "priority": 5,
            "affinity": {
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 3, "preference": {"matchExpressions": [expression]}}
                    ]
                },
                "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]},
            },
            "topologySpreadConstraints": [spread],
            "tolerations": [{"key": "k", "operator": "Exists"}],
            **spec,
        },
    }


def _node(number: int) -> dict[str, Any]:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": f"guest-{number}", "topology.kubernetes.io/zone": "zone-0"}
    return {
        "metadata": _meta(f"guest-{number}", "", labels=labels),
        "status": {"allocatable": dict(amounts), "capacity": dict(amounts)},
    }


def _volume(number: int) -> dict[str, Any]:
    reference = {"name": f"claim-{number}", "namespace": "default", "uid": f"default/claim-{number}"}
    expression = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["nowhere"]}
    spec = {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "claimRef": reference,
        "csi": {"driver": "driver.example.com", "volumeHandle": f"volume-{number}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
    }  # fmt: skip
    return {"metadata": _meta(f"volume-{number}", ""), "spec": spec, "status": {"phase": "Bound"}}


def _claim(number: int, **spec: Any) -> dict[str, Any]:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}} if "volumeName" in spec else {}
    status = {"phase": "Bound" if bound else "Pending"}
    return {"metadata": _meta(f"claim-{number}", **bound), "spec": wanted, "status": status}


def _class(number: int) -> dict[str, Any]:
    return {
        "metadata": _meta(f"class-{number}", ""),
        "provisioner": "driver.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _pool(number: int) -> dict[str, Any]:
    return {"name": f"pool-{number}", "generation": 1, "resourceSliceCount": 1}


def _slice(number: int) -> dict[str, Any]:
    spec = {"driver": "d.example.com", "nodeName": "node-0", "pool": _pool(number), "devices": [{"name": "dev"}]}
    return {"metadata": _meta(f"slice-{number}", ""), "spec": spec}


def _device_class(number: int) -> dict[str, Any]:
    return {"metadata": _meta(f"class-{number}", ""), "spec": {}}


def _device_claim(number: int) -> dict[str, Any]:
    exactly = {"deviceClassName": f"class-{number}", "allocationMode": "ExactCount", "count": 1}
    return {
        "metadata": _meta(f"claim-{number}"),
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }


def _device_pod(number: int, **more: Any) -> dict[str, Any]:
    return _pod(number, resourceClaims=[{"name": "r", "resourceClaimName": f"claim-{number}"}], **more)


def _volume_pod(number: int, **more: Any) -> dict[str, Any]:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": f"claim-{number}"}}
    return _pod(number, volumes=[volume], **more)


def _group(number: int) -> dict[str, Any]:
    return {"metadata": _meta(f"group-{number}"), "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}}


def _group_pod(number: int, **more: Any) -> dict[str, Any]:
    return _pod(number, schedulingGroup={"podGroupName": f"group-{number}"}, **more)


def _selecting(number: int) -> dict[str, Any]:
    return {"metadata": _meta(f"owner-{number}"), "spec": {"selector": {"matchLabels": {"app": "beside"}}}}


def _plainly_selecting(number: int) -> dict[str, Any]:
    return {"metadata": _meta(f"owner-{number}"), "spec": {"selector": {"app": "beside"}}}


def _plain(number: int) -> dict[str, Any]:
    return {"metadata": _meta(f"object-{number}")}


def _plain_without_namespace(number: int) -> dict[str, Any]:
    return {"metadata": _meta(f"object-{number}", "")}


def _capacity(number: int) -> dict[str, Any]:
    return {"metadata": _meta(f"capacity-{number}"), "storageClassName": f"class-{number}", "capacity": "9Gi"}


def _csi_node(number: int) -> dict[str, Any]:
    driver = {"name": "driver.example.com", "nodeID": "n", "allocatable": {"count": 3}}
    return {"metadata": _meta("node-0", ""), "spec": {"drivers": [driver]}}


Document = Callable[[int], dict[str, Any]]
BESIDE_CLAIM = (("StorageClass", _class), ("PersistentVolume", _volume))


class Scene(NamedTuple):
    """An object of a kind, the objects that come before it, and a pod that looks at it."""

    document: Document
    before: tuple[tuple[str, Document], ...] = ()
    pod: Callable[..., dict[str, Any]] = _pod


SCENES: Mapping[str, Scene] = {
    "Pod": Scene(_pod),
    "Node": Scene(_node),
    "Namespace": Scene(_plain_without_namespace),
    "Service": Scene(_plainly_selecting),
    "ReplicationController": Scene(_plainly_selecting),
    "ReplicaSet": Scene(_selecting),
    "StatefulSet": Scene(_selecting),
    "PodDisruptionBudget": Scene(_selecting),
    "PersistentVolume": Scene(
        _volume, (("PersistentVolumeClaim", lambda number: _claim(number, volumeName=f"volume-{number}")),), _volume_pod
    ),
    "PersistentVolumeClaim": Scene(
        lambda number: _claim(number, storageClassName=f"class-{number}"), (("StorageClass", _class),), _volume_pod
    ),
    "StorageClass": Scene(
        _class,
        (("PersistentVolumeClaim", lambda number: _claim(number, storageClassName=f"class-{number}")),),
        _volume_pod,
    ),
    "CSINode": Scene(
        _csi_node,
        (
            ("PersistentVolume", _volume),
            ("PersistentVolumeClaim", lambda number: _claim(number, volumeName=f"volume-{number}")),
        ),
        _volume_pod,
    ),
    "CSIStorageCapacity": Scene(
        _capacity,
        (
            (
                "CSIDriver",
                lambda number: {"metadata": _meta("driver.example.com", ""), "spec": {"storageCapacity": True}},
            ),
            ("StorageClass", _class),
            ("PersistentVolumeClaim", lambda number: _claim(number, storageClassName=f"class-{number}")),
        ),
        _volume_pod,
    ),
    "ResourceClaim": Scene(_device_claim, (("DeviceClass", _device_class), ("ResourceSlice", _slice)), _device_pod),
    "ResourceSlice": Scene(_slice, (("DeviceClass", _device_class), ("ResourceClaim", _device_claim)), _device_pod),
    "DeviceClass": Scene(_device_class, (("ResourceSlice", _slice), ("ResourceClaim", _device_claim)), _device_pod),
    "PodGroup": Scene(_group, (), _group_pod),
    "Workload": Scene(_plain, (("PodGroup", _group),), _group_pod),
}
"""What stands beside an object; one of any other kind comes alone, beside a pod that knows nothing of it."""


# -- coming and going ----------------------------------------------------------------------------------------------


class Cluster(NamedTuple):
    """A cluster, and what shares the parts of its objects as informers do."""

    found: VirtualCluster
    share: Mapping[str, Callable[[Any], None]]

    def put(self, field: Field, document: Mapping[str, Any]) -> str:
        """Let an object come; return its key."""
        obj = read(field, document)
        self.share[field.kind](obj)
        self.found.put(obj)
        return key_of(obj)

    def delete(self, kind: str, key: str) -> None:
        """Let an object go that is still there: preempted pods have gone already."""
        if (kind, key) in self.found.objects:
            self.found.delete(kind, key)


def life(cluster: Cluster, field: Field, number: int, entries: int) -> None:
    """Let an object with many new entries in a field come and go."""
    if field.kind == "Pod":
        _pod_lives(cluster, field, number, entries)
    else:
        _object_life(cluster, field, number, entries)


def _pod_lives(cluster: Cluster, field: Field, number: int, entries: int) -> None:
    """Let pods with the same many entries come and go: that fit, that do not, and that are preempted."""

    def one(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
        return grown(_pod(number, name, cpu, **spec), field, entries, Names(number))

    for document in (one("first", "10m"), one("second", "10m"), one("large", "99")):
        _visit(cluster, field, document)
    victim = cluster.put(field, one("victim", "4", nodeName="node-0", priority=-1))
    _visit(cluster, field, _preemptor(number))
    cluster.delete("Pod", victim)


def _object_life(cluster: Cluster, field: Field, number: int, entries: int) -> None:
    scene = SCENES.get(field.kind, Scene(_plain))
    there = [(kind, cluster.put(Field(kind, field.path), document(number))) for kind, document in scene.before]
    document = grown(scene.document(number), field, entries, Names(number))
    there.append((field.kind, cluster.put(field, document)))
    pod = Field("Pod", field.path)
    for name, cpu in (("first", "10m"), ("large", "99")):
        _visit(cluster, pod, scene.pod(number, name=name, cpu=cpu))
    victim = cluster.put(pod, _pod(number, "victim", "4", nodeName="node-0", priority=-1))
    _visit(cluster, pod, _preemptor(number))
    for kind, key in (("Pod", victim), *reversed(there)):
        cluster.delete(kind, key)


def _preemptor(number: int) -> dict[str, Any]:
    return _pod(number, "preemptor", "7", priority=100, nodeSelector={"kubernetes.io/hostname": "node-0"})


def _visit(cluster: Cluster, field: Field, pod: Mapping[str, Any]) -> None:
    key = cluster.put(field, pod)
    cluster.found.run()
    cluster.delete("Pod", key)
    cluster.found.run()
    cluster.found.effects.clear()
    cluster.found.requests.clear()
