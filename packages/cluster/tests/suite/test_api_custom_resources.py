"""[sig-api-machinery] CustomResourceDefinitions: their lives, defaults, published schemas, and strictness."""

import json

import pytest

from packages.cluster.tests.suite.client import condition, refused, spec
from packages.cluster.tests.suite.conftest import CRD
from tests.e2e.kubectl import Kubectl
from tests.waiting import eventually

BARS = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "description": "What Foos are told",
            "properties": {
                "bars": {
                    "type": "array",
                    "description": "All the Bars",
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {
                            "name": {"type": "string", "description": "The name of a Bar"},
                            "age": {"type": "string", "description": "The age of a Bar"},
                            "bazs": {"type": "array", "items": {"type": "string"}},
                        },
                    },
                }
            },
        },
        "status": {"type": "object", "properties": {"bars": {"type": "array", "items": {"type": "string"}}}},
    },
}
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}


@pytest.fixture
def kubectl(cluster, tmp_path):
    return Kubectl(cluster.kubeconfig, tmp_path / "cache").in_namespace(cluster.namespace)


def foo(definitions, name="one", kind="Foo", version="v1", **fields):
    return {"apiVersion": f"{definitions.group}/{version}", "kind": kind, "metadata": {"name": name}, **fields}


@spec(
    "CustomResourceDefinition resources Simple CustomResourceDefinition creating/deleting "
    "custom resource definition objects works"
)
def test_definitions_come_and_go(cluster, definitions):
    made = definitions.create()
    cluster.delete(CRD, made["metadata"]["name"])
    cluster.until_gone(CRD, made["metadata"]["name"])


@spec(
    "CustomResourceDefinition resources Simple CustomResourceDefinition listing custom "
    "resource definition objects works"
)
def test_definitions_are_listed_and_deleted_together(cluster, definitions):
    for number in range(10):
        definitions.create(f"Foo{number}")
    other = definitions.create("Other")["metadata"]["name"]
    cluster.patch(CRD, other, {"metadata": {"labels": {"of": "another"}}})
    selector = f"of={cluster.namespace}"
    assert len(cluster.list(CRD, labelSelector=selector)) == 10
    cluster.delete_all(CRD, labelSelector=selector)
    cluster.until_count(CRD, 0, labelSelector=selector)
    assert cluster.exists(CRD, other)


@spec(
    "CustomResourceDefinition resources Simple CustomResourceDefinition "
    "getting/updating/patching custom resource definition status sub-resource works"
)
def test_the_status_of_a_definition(cluster, definitions):
    name = definitions.create()["metadata"]["name"]
    current = cluster.read(CRD, name, "status")
    said = {"type": "StatusUpdate", "status": "True", "reason": "Spec", "message": "updated"}
    current["status"]["conditions"].append(said)
    updated = cluster.update(current, "status")
    assert said.items() <= {**updated["status"]["conditions"][-1]}.items()
    patch = {"metadata": {"annotations": {"patched": "yes"}}, "status": {"conditions": [said | {"type": "Patched"}]}}
    patched = cluster.patch(CRD, name, patch, "status")
    assert condition(patched, "Patched") == "True"
    assert condition(cluster.read(CRD, name), "Patched") == "True"


@spec("CustomResourceDefinition resources should include custom resource definition resources in discovery documents")
def test_definitions_in_discovery(cluster):
    groups = {group["name"]: group for group in cluster.call("GET", "/apis")["groups"]}
    group = cluster.call("GET", "/apis/apiextensions.k8s.io")
    for one in (group, groups["apiextensions.k8s.io"]):
        assert "apiextensions.k8s.io/v1" in [version["groupVersion"] for version in one["versions"]]
    resources = cluster.call("GET", "/apis/apiextensions.k8s.io/v1")["resources"]
    assert "customresourcedefinitions" in [one["name"] for one in resources]


@spec("CustomResourceDefinition resources custom resource defaulting for requests and from storage works")
def test_defaults_of_requests_and_of_what_is_stored(cluster, definitions):
    fields = {name: {"type": "string"} for name in ("a", "b")}
    name = definitions.create(schema={"type": "object", "properties": fields})["metadata"]["name"]
    kind = f"{definitions.group}/v1/Foo"
    cluster.create(foo(definitions, "one", b="B"))
    where = "/spec/versions/0/schema/openAPIV3Schema/properties/a/default"
    cluster.patch(CRD, name, [{"op": "add", "path": where, "value": "A"}], how="json")
    cluster.until(kind, "one", lambda obj: obj.get("a") == "A")
    assert cluster.create(foo(definitions, "two", b="B"))["a"] == "A"
    patch = [
        {"op": "remove", "path": where},
        {"op": "add", "path": where.replace("/a/", "/b/"), "value": "B"},
    ]
    cluster.patch(CRD, name, patch, how="json")
    cluster.patch(kind, "one", {"b": None})
    read = cluster.until(kind, "one", lambda obj: obj.get("b") == "B")
    assert "a" not in read or read["a"] == "A"
    assert cluster.read(kind, "two")["a"] == "A"


@spec("CustomResourceDefinition Watch CustomResourceDefinition Watch watch on custom resource definition objects")
def test_watching_custom_objects(cluster, definitions):
    definitions.create(scope="Cluster")
    kind = f"{definitions.group}/v1/Foo"
    since = cluster.listing(kind)["metadata"]["resourceVersion"]
    for name in ("a", "b"):
        cluster.create(foo(definitions, name))
        cluster.patch(kind, name, {"metadata": {"labels": {"touched": "yes"}}})
        cluster.delete(kind, name)
    events = cluster.watch(kind, lambda seen: len(seen) == 6, resourceVersion=since)
    assert [(event, obj["metadata"]["name"]) for event, obj in events] == [
        (event, name) for name in ("a", "b") for event in ("ADDED", "MODIFIED", "DELETED")
    ]


# --- published schemas ----------------------------------------------------------------------------------------------


def published(cluster, definitions, version="v1", kind="Foo", group=None):
    """The schema in /openapi/v2, or None; its name is the group's, turned round."""
    group = ".".join(reversed((group or definitions.group).split(".")))
    return cluster.call("GET", "/openapi/v2")["definitions"].get(f"{group}.{version}.{kind}")


def until_published(cluster, definitions, *arguments, **named):
    return eventually(lambda: published(cluster, definitions, *arguments, **named))


@spec("CustomResourcePublishOpenAPI works for CRD with validation schema")
def test_kubectl_holds_to_a_schema(cluster, definitions, kubectl):
    definitions.create(schema=BARS)
    found = until_published(cluster, definitions)
    assert found["properties"]["spec"]["description"] == "What Foos are told"
    assert found["x-kubernetes-group-version-kind"] == [{"group": definitions.group, "kind": "Foo", "version": "v1"}]
    good = foo(definitions, spec={"bars": [{"name": "test-bar"}]})
    for verb in ("create", "apply"):
        kubectl(verb, "-f", "-", text=json.dumps(good))
        kubectl("delete", "foos", "one")
        wrong = foo(definitions, spec={"extraProperty": "arbitrary", "bars": [{"name": "test-bar"}]})
        assert 'unknown field "spec.extraProperty"' in kubectl.refused(verb, "-f", "-", text=json.dumps(wrong))
        lacking = foo(definitions, spec={"bars": [{"age": "10"}]})
        assert "spec.bars[0].name: Required value" in kubectl.refused(verb, "-f", "-", text=json.dumps(lacking))
    assert "What Foos are told" in kubectl("explain", "foos")
    assert "All the Bars" in kubectl("explain", "foos.spec")
    assert "The name of a Bar" in kubectl("explain", "foos.spec.bars")
    assert "does not exist" in kubectl.refused("explain", "foos.spec.bars2")


@spec(
    "CustomResourcePublishOpenAPI works for CRD without validation schema",
    "CustomResourcePublishOpenAPI works for CRD preserving unknown fields at the schema root",
    "CustomResourcePublishOpenAPI works for CRD preserving unknown fields in an embedded object",
)
@pytest.mark.parametrize("where", ["nowhere", "root", "embedded"])
def test_kubectl_lets_unknown_fields_pass(cluster, definitions, kubectl, where):
    open_ended = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    embedded = {"type": "object", "properties": {"spec": {**open_ended, "description": "Anything"}}}
    schema = {
        "nowhere": open_ended,
        "root": {**open_ended, "properties": {"spec": {"type": "object"}}},
        "embedded": embedded,
    }
    definitions.create(schema=schema[where])
    until_published(cluster, definitions)
    fields = {"spec": {"a": None, "b": [{"c": "d"}]}} if where == "embedded" else {"a": {"b": [{"c": "d"}]}}
    for verb in ("create", "apply"):
        kubectl(verb, "-f", "-", text=json.dumps(foo(definitions, **fields)))
        kubectl("delete", "foos", "one")
    explained = kubectl("explain", "foos")
    assert "KIND:" in explained and "Foo" in explained and "DESCRIPTION" in explained
    if where == "embedded":
        assert "Anything" in kubectl("explain", "foos.spec")


@spec(
    "CustomResourcePublishOpenAPI works for multiple CRDs of different groups",
    "CustomResourcePublishOpenAPI works for multiple CRDs of same group and version but different kinds",
    "CustomResourcePublishOpenAPI works for multiple CRDs of same group but different versions",
)
def test_schemas_of_several_definitions(cluster, definitions):
    other = f"other.{definitions.group}"
    definitions.create("Foo", schema=BARS)
    definitions.create("Foo", schema=BARS, group=other)
    definitions.create("Waldo", schema=BARS, versions=("v2", "v3"))
    until_published(cluster, definitions)
    until_published(cluster, definitions, group=other)
    for version in ("v2", "v3"):
        until_published(cluster, definitions, version, "Waldo")


@spec("CustomResourcePublishOpenAPI updates the published spec when one version gets renamed")
def test_a_renamed_version(cluster, definitions):
    name = definitions.create(schema=BARS, versions=("v2", "v3"))["metadata"]["name"]
    before = until_published(cluster, definitions, "v3")
    cluster.patch(CRD, name, [{"op": "replace", "path": "/spec/versions/1/name", "value": "v4"}], how="json")
    after = until_published(cluster, definitions, "v4")
    assert published(cluster, definitions, "v3") is None and published(cluster, definitions, "v2")
    assert after["properties"]["spec"] == before["properties"]["spec"]


@spec("CustomResourcePublishOpenAPI removes definition from spec when one version gets changed to not be served")
def test_a_version_that_is_served_no_more(cluster, definitions):
    name = definitions.create(schema=BARS, versions=("v5", "v6alpha1"))["metadata"]["name"]
    before = until_published(cluster, definitions, "v5")
    until_published(cluster, definitions, "v6alpha1")
    cluster.patch(CRD, name, [{"op": "replace", "path": "/spec/versions/1/served", "value": False}], how="json")
    eventually(lambda: published(cluster, definitions, "v6alpha1") is None)
    assert published(cluster, definitions, "v5") == before


# --- strictness -----------------------------------------------------------------------------------------------------

STRICT = {"fieldValidation": "Strict", "fieldManager": "suite"}


def apply(cluster, kind, name, text):
    return cluster.patch(kind, name, text, how="apply", **STRICT)


@spec("FieldValidation should detect unknown and duplicate fields of a typed object")
def test_a_deployment_with_unknown_and_repeated_fields(cluster):
    text = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: one, labels: {app: nginx}}
spec:
  unknown1: val1
  unknownDupe: valDupe
  unknownDupe: valDupe2
  paused: true
  paused: false
  selector: {matchLabels: {app: nginx}}
  template:
    metadata: {labels: {app: nginx}}
    spec:
      containers:
      - {name: nginx, image: "nginx:latest"}
"""
    message = refused(
        cluster.open, "POST", cluster.path_of("Deployment"), text, STRICT, Content_Type="application/yaml"
    )
    assert message.code == 400
    for words in ('"unknownDupe" already set', '"paused" already set', 'unknown field "spec.unknown1"'):
        assert words in message.message, message.message
    twice = (
        '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"one"},"spec":{"paused":true,"paused":false}}'
    )
    message = refused(cluster.open, "POST", cluster.path_of("Deployment"), twice, STRICT)
    assert 'duplicate field "spec.paused"' in message.message


@spec("FieldValidation should detect unknown metadata fields of a typed object")
def test_a_deployment_with_unknown_metadata(cluster):
    made = {
        "metadata": {"labels": {"app": "n"}, "unknownMeta": 1},
        "spec": {"containers": [{"name": "n", "image": "n"}]},
    }
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "one", "unknownMeta": "unknownVal"},
        "spec": {"selector": {"matchLabels": {"app": "n"}}, "template": made},
    }
    message = refused(cluster.create, body, **STRICT).message
    assert 'unknown field "metadata.unknownMeta"' in message
    assert 'unknown field "spec.template.metadata.unknownMeta"' in message


FIELDS = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "foo": {"type": "string"},
                "ports": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"hostPort": {"type": "integer"}}},
                },
                "template": EMBEDDED,
            },
        }
    },
}


@spec("FieldValidation should create/apply a CR with unknown fields for CRD with no validation schema")
def test_no_schema_no_unknown_fields(cluster, definitions):
    definitions.create()
    kind = f"{definitions.group}/v1/Foo"
    cluster.create(foo(definitions, "created", spec={"unknown": "x"}), **STRICT)
    applied = apply(cluster, kind, "applied", json.dumps(foo(definitions, "applied", spec={"unknown": "x"})))
    assert applied["spec"] == {"unknown": "x"}


@spec(
    "FieldValidation should create/apply a valid CR for CRD with validation schema",
    "FieldValidation should create/apply an invalid CR with extra properties for CRD with validation schema",
)
def test_a_schema_knows_its_fields(cluster, definitions):
    definitions.create(schema=FIELDS)
    kind = f"{definitions.group}/v1/Foo"
    good = {"foo": "foo1", "ports": [{"hostPort": 80}]}
    cluster.create(foo(definitions, "created", spec=good), **STRICT)
    assert apply(cluster, kind, "applied", json.dumps(foo(definitions, "applied", spec=good)))["spec"] == good
    bad = {"foo": "foo1", "unknown": 1, "ports": [{"hostPort": 80, "unknownNested": "x"}]}
    message = refused(cluster.create, foo(definitions, "bad", spec=bad), **STRICT).message
    assert 'unknown field "spec.unknown"' in message
    assert 'unknown field "spec.ports[0].unknownNested"' in message
    message = refused(cluster.patch, kind, "created", {"spec": {"unknown": 1}}, **STRICT).message
    assert 'unknown field "spec.unknown"' in message
    message = refused(apply, cluster, kind, "bad", json.dumps(foo(definitions, "bad", spec=bad))).message
    assert ".spec.unknown: field not declared in schema" in message
    assert ".spec.ports[0].unknownNested: field not declared in schema" in message


@spec("FieldValidation should detect unknown metadata fields in both the root and embedded object of a CR")
def test_unknown_metadata_of_custom_objects(cluster, definitions):
    definitions.create(schema=FIELDS)
    embedded = {"apiVersion": "foo/v1", "kind": "Sub", "metadata": {"name": "sub", "unknownSubMeta": "x"}}
    body = foo(definitions, "one", spec={"template": embedded})
    body["metadata"]["unknownMeta"] = "x"
    message = refused(cluster.create, body, **STRICT).message
    assert 'unknown field "metadata.unknownMeta"' in message
    assert 'unknown field "spec.template.metadata.unknownSubMeta"' in message
    message = refused(apply, cluster, f"{definitions.group}/v1/Foo", "one", json.dumps(body)).message
    assert ".metadata.unknownMeta: field not declared in schema" in message


@spec("FieldValidation should detect duplicates in a CR when preserving unknown fields")
def test_repeated_fields_of_custom_objects(cluster, definitions):
    definitions.create()
    text = f"""
apiVersion: {definitions.group}/v1
kind: Foo
metadata: {{name: one}}
spec:
  foo: foo1
  unknownDupe: a
  unknownDupe: b
"""
    message = refused(apply, cluster, f"{definitions.group}/v1/Foo", "one", text).message
    assert 'key "unknownDupe" already set in map' in message
    path = cluster.path_of(f"{definitions.group}/v1/Foo")
    message = refused(cluster.call, "POST", path, text, STRICT, Content_Type="application/yaml").message
    assert "yaml: unmarshal errors:\n  line 8" in message
