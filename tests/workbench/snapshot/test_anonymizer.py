"""An anonymized cluster is decided as the cluster was, and says nothing of what things were called."""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from berth.api.codec import KINDS
from berth.api.strict import _table
from berth.plugins.registry import full_registry
from berth_cluster.apimachinery.schema import SCALARS, message, type_name
from berth_workbench.cases.cases import documents
from berth_workbench.cases.decide import replay
from berth_workbench.snapshot.anonymizer import anonymized
from berth_workbench.snapshot.documents import NOT_READ, Document
from berth_workbench.snapshot.kept_fields import OPAQUE, TAKEN, Each, Leaf, Values, shape_of
from berth_workbench.snapshot.roles import INSIDE, PLAIN, ROLES, Role
from berth_workbench.snapshot.snapshot import Snapshot
from berth_workbench.snapshot.well_known import ANNOTATIONS
from tests.conformance.records import cases

REGISTRY = full_registry()
RECORDS = (
    *(f"v1.36/{name}" for name in (
        "attachments", "default-spread", "devices", "dra", "images", "mixed", "node-affinity", "pod-affinity", "ports",
        "preemption", "resources", "spread", "taints", "volumes")),
    *(f"v1.20/{name}" for name in ("avoid", "cloud-limits", "default-spread", "provider", "selector-spread")),
)  # fmt: skip
CASES_EACH = 3


def snapshot_of(*manifests: dict[str, Any]) -> Snapshot:
    return Snapshot([Document(each["kind"], each, "here", each.get("apiVersion", "")) for each in manifests])


def anonymous(*manifests: dict[str, Any]) -> list[dict[str, Any]]:
    return [each.manifest for each in anonymized(snapshot_of(*manifests))[0].documents]


def original(decisions: object, names: dict[str, str]) -> object:
    """Return decisions with every pseudonym replaced by the name that it stands for."""
    before = {after: name for name, after in names.items()}
    assert len(before) == len(names), "two names became one"
    pattern = re.compile("|".join(re.escape(each) for each in sorted(before, key=len, reverse=True)) or "(?!)")
    return json.loads(pattern.sub(lambda found: json.dumps(before[found[0]])[1:-1], json.dumps(decisions)))


def without_order(value: object) -> object:
    if isinstance(value, dict):
        return {key: without_order(each) for key, each in value.items()}
    return sorted(map(without_order, value), key=str) if isinstance(value, list) else value


@pytest.mark.parametrize("record", RECORDS)
def test_decisions_about_an_anonymized_cluster_are_the_same_up_to_names(record: str) -> None:
    # A configuration names labels and resources too, and is nothing that a snapshot holds.
    found = [case for case in cases(record) if not case.get("config") and not case.get("policy")]
    for case in found[:: max(1, len(found) // CASES_EACH)]:
        objects, pods = list(documents(case, "objects")), [{**each, "kind": "Pod"} for each in documents(case, "pods")]
        made, names = anonymized(snapshot_of(*objects, *pods))
        renamed = [each.manifest for each in made.documents]
        theirs = replay({**case, "objects": renamed[: len(objects)], "pods": renamed[len(objects) :]}, REGISTRY)
        ours = replay(case, REGISTRY)
        for one, other in zip(json.loads(json.dumps(ours)), original(theirs, dict(names)), strict=True):  # type: ignore[call-overload]
            assert without_order(other) == without_order(one), case["name"]


# -- nothing is left of the names --------------------------------------------------------------------------------------


def filled(shape: Any, number: list[int]) -> Any:
    """A value with everything that a shape has, each text saying `zebra`."""
    number[0] += 1
    if isinstance(shape, Each):
        return [filled(shape.shape, number)]
    if isinstance(shape, Values):
        key = "kept" if shape.role is Role.KEPT else f"zebra{number[0]}"
        return {key: filled(shape.shape, number)}
    if isinstance(shape, Leaf):
        return FILLED.get(shape.role.name, lambda text: text)(f"zebra{number[0]}")
    return {key: filled(each, number) for key, each in shape.items()} | {"unknown": f"zebra{number[0]}"}


FILLED: dict[str, Any] = {
    "KEPT": lambda _: "kept",
    "CEL": lambda _: "kept",
    "NAMES": lambda text: [text],
    "LABELS": lambda text: {text: text, f"{text}.example.com/zebra": "x" + text, "kubernetes.io/hostname": text},
    "LABEL_KEYS": lambda text: [text],
    "REQUIREMENTS": lambda text: [{"key": text, "operator": "In", "values": [text], text: text}],
    "TAINTS": lambda text: [{"key": text, "value": text, "effect": "NoSchedule", text: text}],
    "TAINT": lambda text: {"key": text, "value": text, "effect": "NoSchedule"},
    "TOLERATIONS": lambda text: [{"key": text, "value": text, "operator": "Equal"}],
    "ANNOTATIONS": lambda text: {f"{text}.kubernetes.io/zebra": text, text: text,
                                 **{key: "kept" if role.name == "KEPT" else text for key, role in ANNOTATIONS.items()},
                                 "scheduler.alpha.kubernetes.io/preferAvoidPods": json.dumps({"preferAvoidPods": [
                                     {"podSignature": {"podController": {"kind": text, "uid": text}}, "reason": text},
                                     ]}).replace(f'"kind": "{text}"', '"kind": "ReplicaSet"')},
    "FINALIZERS": lambda text: [f"example.com/{text}"],
    "IMAGE": lambda text: f"{text}.example.com/{text}:{text}",
    "IMAGES": lambda text: [f"{text}@sha256:{text}", text],
    "RESOURCE": lambda text: f"{text}.com/{text}",
    "RESOURCE_AMOUNTS": lambda text: {f"{text}.com/{text}": "1", f"deviceclass.resource.kubernetes.io/{text}": "1"},
    "REQUEST": lambda text: f"{text}/{text}",
    "REQUESTS": lambda text: [f"{text}/{text}"],
    "ATTRIBUTES": lambda text: {"model": {"string": text, text: text}},
    "CONDITION": lambda text: f"{text}.com/{text}",
    "CONDITIONS": lambda text: [f"{text}.com/{text}"],
    "API_VERSION": lambda text: f"{text}.com/v1",
}  # fmt: skip


@pytest.mark.parametrize("kind", TAKEN)
def test_no_name_is_left_in_any_field(kind: str) -> None:
    manifest = filled(shape_of(kind), [0]) | {"kind": kind, "apiVersion": TAKEN[kind].api_version}
    (found,) = anonymous(manifest)
    if kind == "CSIDriver":
        del found["metadata"]["name"]  # that of a driver
    assert re.findall(r"[^{,]*zebra[^,}]*", json.dumps(found)) == []
    assert "kept" in json.dumps(found)


def test_every_text_field_of_every_struct_has_a_role_or_is_kept_on_purpose() -> None:
    fields = {field for kind, struct in KINDS.items() if kind not in NOT_READ for field in text_fields(struct)}
    assert fields - set(ROLES) - PLAIN - OPAQUE == set()
    known = {(struct, name.partition(".")[0]) for struct, name in (*ROLES, *PLAIN)}
    assert {(struct, name) for struct, name in known if name not in struct.__struct_fields__} == set()


def text_fields(struct: type[msgspec.Struct]) -> set[tuple[type, str]]:
    found = set()
    for field in msgspec.structs.fields(struct):
        if (struct, field.name) not in ROLES:
            for kind in parts(inspect.type_info(field.type)):
                if isinstance(kind, inspect.StructType):
                    found |= text_fields(kind.cls) if kind.cls not in INSIDE else {(struct, field.name)}
                elif isinstance(kind, inspect.StrType | inspect.AnyType | inspect.DictType):
                    found.add((struct, field.name))
    return found


def parts(kind: inspect.Type) -> list[inspect.Type]:
    if isinstance(kind, inspect.UnionType):
        return [part for each in kind.types for part in parts(each)]
    if isinstance(kind, inspect.VarTupleType | inspect.ListType):
        return parts(kind.item_type)
    return [kind, *parts(kind.value_type)] if isinstance(kind, inspect.DictType) else [kind]


# -- what is made of names, and what stays -----------------------------------------------------------------------------


def meta(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": "shop", "uid": f"uid of {name}", **more}


def test_names_that_are_made_of_others_are_made_of_their_pseudonyms() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "uid of db", "controller": True}
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-3"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
    ]
    pod = {"kind": "Pod", "metadata": meta("db-3", ownerReferences=[owner]), "spec": {"volumes": volumes}}
    claims = [{"kind": "PersistentVolumeClaim", "metadata": meta(name)} for name in ("data-db-3", "db-3-scratch")]
    made = {
        "kind": "StatefulSet",
        "metadata": meta("db"),
        "spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]},
    }
    found = anonymous(*claims, pod, made)
    bound, ephemeral, member, workload = (each["metadata"]["name"] for each in found)
    (template,) = found[3]["spec"]["volumeClaimTemplates"]
    data, scratch = (volume["name"] for volume in found[2]["spec"]["volumes"])
    assert member == f"{workload}-3"
    assert template["metadata"]["name"] == data
    assert (bound, ephemeral) == (f"{data}-{member}", f"{member}-{scratch}")
    assert found[2]["metadata"]["ownerReferences"][0]["uid"] == found[3]["metadata"]["uid"]


def test_numbers_that_are_compared_stay_numbers_and_others_do_not() -> None:
    node = {
        "kind": "Node",
        "metadata": {"name": "n", "labels": {"cores": "16", "rack": "16", "kubernetes.io/os": "linux"}},
    }
    term = {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["8"]}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod = {"kind": "Pod", "metadata": meta("p"), "spec": {"affinity": {"nodeAffinity": affinity}}}
    (found, _) = anonymous(node, pod)
    labels = found["metadata"]["labels"]
    assert labels.pop("kubernetes.io/os") == "linux"
    assert sorted(value == "16" for value in labels.values()) == [False, True]
    assert "cores" not in labels and "rack" not in labels


def test_an_image_without_a_tag_is_found_on_the_nodes_that_have_it() -> None:
    status = {"images": [{"names": ["acme/web:latest", "acme/web:v2"]}]}
    containers = [{"image": "acme/web"}, {"image": "acme/web:v2"}]
    node, pod = anonymous(
        {"kind": "Node", "metadata": {"name": "n"}, "status": status},
        {"kind": "Pod", "metadata": meta("p"), "spec": {"containers": containers}},
    )
    assert [each["image"] for each in pod["spec"]["containers"]] == node["status"]["images"][0]["names"]


def test_an_attribute_that_an_expression_mentions_keeps_its_value() -> None:
    attributes = {"model": {"string": "A100"}, "serial": {"string": "S-1"}, "slots": {"int": 4}}
    resource_slice = {
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {"driver": "gpu.example.com", "devices": [{"name": "gpu-0", "attributes": attributes}]},
    }
    selector = {"cel": {"expression": 'device.attributes["gpu.example.com"].model == "A100"'}}
    device_class = {"kind": "DeviceClass", "metadata": {"name": "big"}, "spec": {"selectors": [selector]}}
    found, _ = anonymous(resource_slice, device_class)
    renamed = found["spec"]["devices"][0]["attributes"]
    assert renamed["model"] == {"string": "A100"} and renamed["slots"] == {"int": 4}
    assert renamed["serial"]["string"] != "S-1"
    assert found["spec"]["driver"] == "gpu.example.com"


def test_anonymizing_twice_gives_the_same_as_once() -> None:
    node = {"kind": "Node", "metadata": {"name": "n", "labels": {"pool": "x"}}, "status": {"capacity": {"a.b/c": "1"}}}
    once, _ = anonymized(snapshot_of(node))
    again, _ = anonymized(once)
    assert [each.body for each in again.documents] == [each.body for each in once.documents]
    assert once.header is not None and once.header.anonymized


# -- nothing that the API lets people choose ---------------------------------------------------------------------------

MARK = re.compile(r"mark\d+")
OF_DRIVERS = frozenset({"driver", "provisioner", "attacher", "matchAttribute", "distinctAttribute", "expression"})
"""Fields that stay, as docs/snapshots.md says: names of drivers and of what they name of their devices, and CEL."""
NAMED_BY_DRIVERS = ("attributes", "capacity", "consumedCapacity", "counters", "requests")
WORDS_OF = {
    # Words of the API that validation does not let anybody choose, as its reference has them.
    "phase": "Running", "status": "True", "qosClass": "Burstable", "resize": "Deferred", "operatingSystem": "linux",
    "architecture": "amd64", "allocationMode": "All", "disruptionMode": "Pod", "completedIndexes": "1-3",
    "failedIndexes": "4", "resource": "pods", "accessModes": "ReadWriteOnce", "version": "1.2.3",
    "operations": "CREATE", "scope": "Namespaced", "validationActions": "Deny",
}  # fmt: skip


class Marker:
    """Makes an object with everything that a type has; each text that somebody may choose is another mark."""

    def __init__(self) -> None:
        self.count = 0

    def mark(self) -> str:
        self.count += 1
        return f"mark{self.count}"

    def object(self, type_name: str, inside: tuple[str, ...] = ()) -> dict[str, Any]:
        table, short = _table().types, type_name.rpartition(".")[2]
        made: dict[str, Any] = {}
        for name, field in message(type_name).fields.items():
            if inside.count(field.type) > 1:
                continue
            words = table[short][name].words if short in table and name in table[short] else ()
            one = self.value(name, field.type, words, (*inside, field.type))
            key = "attribute" if name in NAMED_BY_DRIVERS and "resource.v1" in type_name else self.mark()
            made[name] = [one] if field.is_list else {key: one} if field.is_map else one
        return made

    def value(self, name: str, of: str, words: tuple[str, ...], inside: tuple[str, ...]) -> Any:
        if of not in SCALARS:
            return self.object(of, inside)
        if of == "any":
            return {self.mark(): self.mark()}
        if of != "string":
            return {"bool": True, "Quantity": "1", "IntOrString": "25%", "bytes": ""}.get(
                of, "2026-01-01T00:00:00Z" if "Time" in of else 1
            )
        return words[0] if words else WORDS_OF.get(name, "drivers.example" if name in OF_DRIVERS else self.mark())


@pytest.mark.parametrize("kind", TAKEN)
def test_no_text_that_somebody_may_choose_comes_through(kind: str) -> None:
    marker, resource = Marker(), TAKEN[kind]
    made = marker.object(type_name(resource.group, resource.version, kind))
    manifest = {**made, "kind": kind, "apiVersion": resource.api_version}
    if kind == "CSINode":
        manifest["spec"]["drivers"][0]["name"] = "drivers.example"
    for spec in specs_of(manifest):
        spec["volumes"] = [{"name": marker.mark(), source: value} for source, value in spec["volumes"][0].items()]
    assert marker.count > 5
    (found,) = anonymous(manifest)
    if kind == "CSIDriver":
        del found["metadata"]["name"]
    assert MARK.findall(json.dumps(found)) == []


def specs_of(value: Any) -> Iterator[dict[str, Any]]:
    """The specs of pods in an object."""
    if isinstance(value, list):
        for each in value:
            yield from specs_of(each)
    elif isinstance(value, dict):
        if "volumes" in value and "containers" in value:
            yield value
        for each in value.values():
            yield from specs_of(each)


CHOSEN = {
    "finalizers": ["mark1.kubernetes.io/protection", "kubernetes.io/mark2", "mark3"],
    "annotations": {key: "mark4" for key, role in ANNOTATIONS.items() if role is not Role.KEPT},
    "labels": {"kubernetes.io/arch": "mark5", "apps.kubernetes.io/pod-index": "mark6", "kubernetes.io/os": "mark7"},
    "ownerReferences": [{"apiVersion": "mark8/v1", "kind": "Mark9", "name": "mark10", "uid": "mark11"}],
}


def test_well_known_places_keep_well_known_texts_only() -> None:
    (found,) = anonymous({"kind": "Pod", "metadata": meta("mark12", **CHOSEN)})
    assert re.findall("mark", json.dumps(found), re.IGNORECASE) == []
    kept = {
        "finalizers": ["kubernetes.io/pvc-protection"],
        "annotations": {"kubernetes.io/config.source": "file", "deployment.kubernetes.io/revision": "3",
                        "controller.kubernetes.io/pod-deletion-cost": "-5", "pv.kubernetes.io/bind-completed": "yes"},
        "labels": {"kubernetes.io/arch": "arm64", "apps.kubernetes.io/pod-index": "7", "kubernetes.io/os": "linux"},
    }  # fmt: skip
    (found,) = anonymous({"kind": "Pod", "metadata": meta("p", **kept)})
    assert {name: found["metadata"][name] for name in kept} == kept


def test_known_reasons_and_conditions_stay_and_others_do_not() -> None:
    conditions = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "mark"},
        {"type": "MarkReady", "status": "True", "reason": "MarkSaidSo"},
        {"type": "mark.com/Warm", "status": "True", "reason": "PreemptionByScheduler"},
    ]
    pod = {"kind": "Pod", "metadata": meta("p"), "status": {"reason": "MarkLost", "conditions": conditions}}
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": meta("c"),
        "status": {"conditions": [{"type": "MarkResizing", "status": "True", "reason": "mark"}]},
    }
    found, _ = both = anonymous(pod, claim)
    assert re.findall("mark", json.dumps(both), re.IGNORECASE) == []
    first, _, third = found["status"]["conditions"]
    assert first == {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    assert third["reason"] == "PreemptionByScheduler"


def test_what_a_quota_names_is_named_as_elsewhere() -> None:
    resource, group = "acme.com/gpu", ".storageclass.storage.k8s.io/"
    hard = {
        "requests.acme.com/gpu": "3", "limits.acme.com/gpu": "3", "requests.cpu": "4", "pods": "9",
        f"gold{group}requests.storage": "10Gi", f"gold{group}persistentvolumeclaims": "4",
        "a100.deviceclass.resource.k8s.io/devices": "2", "requests.deviceclass.resource.kubernetes.io/a100": "2",
        "gold.volumeattributesclass.storage.k8s.io/requests.storage": "1", "count/widgets.acme.com": "1",
        "count/deployments.apps": "5", "requests.hugepages-2Mi": "1Gi", "services.nodeports": "1",
    }  # fmt: skip
    node, storage, device, quota = anonymous(
        {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {resource: "4", "cpu": "8"}}},
        {"kind": "StorageClass", "metadata": {"name": "gold"}, "provisioner": "p"},
        {"kind": "DeviceClass", "metadata": {"name": "a100"}},
        {"kind": "ResourceQuota", "metadata": meta("q"), "spec": {"hard": hard}},
    )
    (gpu,) = set(node["status"]["allocatable"]) - {"cpu"}
    gold, a100 = storage["metadata"]["name"], device["metadata"]["name"]
    (widgets,) = (key for key in quota["spec"]["hard"] if key.startswith("count/") and key != "count/deployments.apps")
    assert "widgets" not in widgets and "acme" not in widgets
    assert set(quota["spec"]["hard"]) == {
        f"requests.{gpu}", f"limits.{gpu}", "requests.cpu", "pods", f"{gold}{group}requests.storage",
        f"{gold}{group}persistentvolumeclaims", f"{a100}.deviceclass.resource.k8s.io/devices",
        f"requests.deviceclass.resource.kubernetes.io/{a100}",
        f"{gold}.volumeattributesclass.storage.k8s.io/requests.storage", widgets, "count/deployments.apps",
        "requests.hugepages-2Mi", "services.nodeports",
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["Node", "Pod", "PersistentVolumeClaim", "StatefulSet"])
def test_names_of_a_kind_keep_their_order_and_their_ordinals(kind: str) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "controller": True}
    names = ["cache", "db", "db-0", "db-1", "db-10", "db-11", "db-2", "db-a", "dba", "default", "kube-x", "web-7d9f-x2"]
    pods = [{"kind": kind, "metadata": meta(name, ownerReferences=[owner])} for name in names]
    found = [each["metadata"]["name"] for each in anonymous(*pods)]
    assert found == sorted(found) and len(set(found)) == len(names)
    assert [name.removeprefix(f"{found[1]}-") for name in found[2:7]] == ["0", "1", "10", "11", "2"]
