"""An anonymized cluster is decided as the cluster was, and says nothing of what things were called."""

import json
import re
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from berth.api.codec import KINDS
from berth.plugins.registry import full_registry
from berth_workbench.cases.cases import documents
from berth_workbench.cases.decide import replay
from berth_workbench.snapshot.anonymizer import anonymized
from berth_workbench.snapshot.documents import NOT_READ, Document
from berth_workbench.snapshot.roles import INSIDE, PLAIN, ROLES, Role
from berth_workbench.snapshot.shapes import OPAQUE, TAKEN, Each, Leaf, Values, shape_of
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
