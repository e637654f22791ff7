"""What is wrong with CustomResourceDefinitions, in the words of Kubernetes 1.36."""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.resource_types import DEFINITIONS
from packages.cluster.tests.objects import make_store

OBJECT = {"type": "object"}
PRESERVE = "x-kubernetes-preserve-unknown-fields"
SCALE = {"specReplicasPath": ".status.a", "statusReplicasPath": ".status.b"}
PLACE = "spec.validation.openAPIV3Schema"


def version(name="v1", schema=None, **fields):
    return {"name": name, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema or OBJECT}, **fields}


def definition(*versions, name="widgets.example.com", **spec):
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, **spec}
    return {"metadata": {"name": name}, "spec": {**spec, "versions": list(versions or [version()])}}


def refused(obj):
    with pytest.raises(StoreError) as told:
        make_store().create(DEFINITIONS, "", obj)
    assert told.value.status_code == 422
    return [f"{cause['field']}: {cause['message']}" for cause in told.value.details["causes"]]


def test_what_is_filled_in():
    made = make_store().create(DEFINITIONS, "", definition())
    assert made["spec"]["names"] == {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
    }
    assert made["spec"]["conversion"] == {"strategy": "None"}
    assert made["status"]["storedVersions"] == ["v1"]


@pytest.mark.parametrize(
    ("obj", "found"),
    [
        (definition(name="foo.example.com"),
         'metadata.name: Invalid value: "foo.example.com": must be spec.names.plural+"."+spec.group'),
        (definition(scope="Foo"), 'spec.scope: Unsupported value: "Foo": supported values: "Cluster", "Namespaced"'),
        (definition(scope=""), "spec.scope: Required value"),
        (definition(group="foo", name="widgets.foo"),
         'spec.group: Invalid value: "foo": should be a domain with at least one dot'),
        (definition(group="a.k8s.io", name="widgets.a.k8s.io"),
         ("metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval "
         'annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111')),
        (definition({"name": "v1", "served": True, "storage": True}),
         "spec.versions[0].schema.openAPIV3Schema: Required value"),
        (definition(names={"plural": "widgets", "kind": "Widget", "listKind": "Widget"}),
         'spec.names.listKind: Invalid value: "Widget": kind and listKind may not be the same'),
        (definition(preserveUnknownFields=True),
         ("spec.preserveUnknownFields: Invalid value: true: cannot set to true, set "
         "x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead")),
        (definition(conversion={"strategy": "Foo"}),
         'spec.conversion.strategy: Unsupported value: "Foo": supported values: "None", "Webhook"'),
        (definition(version(subresources={"scale": SCALE})),
         'spec.subresources.scale.specReplicasPath: Invalid value: ".status.a": should be a json path under .spec'),
        (definition(version(additionalPrinterColumns=[{"name": "A", "type": "foo", "jsonPath": ".spec.a"}])),
         ('spec.additionalPrinterColumns[0].type: Invalid value: "foo": must be one of '
         "boolean,date,integer,number,string")),
    ],
)  # fmt: skip
def test_the_commonest_mistakes(obj, found):
    assert refused(obj) == [found]


@pytest.mark.parametrize("stored", [0, 2])
def test_exactly_one_version_is_stored(stored):
    versions = [version(name, storage=number < stored) for number, name in enumerate(("v1", "v2"))]
    assert "must have exactly one version marked as storage version" in refused(definition(*versions))[0]


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({"properties": {"spec": OBJECT}}, f"{PLACE}.type: Required value: must not be empty at the root"),
        ({"type": "string"}, f'{PLACE}.type: Invalid value: "string": must be object at the root'),
        ({"x": {}}, f"{PLACE}.properties[x].type: Required value: must not be empty for specified object fields"),
        ({"x": {"type": "array"}}, f"{PLACE}.properties[x].items: Required value: must be specified"),
        ({"x": {"type": "foo"}}, (f'{PLACE}.properties[x].type: Unsupported value: "foo": supported values: "array", '
         '"boolean", "integer", "number", "object", "string"')),
        ({"x": {"type": "string", "allOf": [{"type": "string"}]}},
         f"{PLACE}.properties[x].allOf[0].type: Forbidden: must be empty to be structural"),
        ({"x": {"type": "object", "properties": {"y": OBJECT}, "additionalProperties": OBJECT}},
         (f"{PLACE}.properties[x].additionalProperties: Forbidden: additionalProperties and properties are mutual "
         "exclusive")),
        ({"metadata": {"type": "object", "properties": {"labels": OBJECT}}},
         (f"{PLACE}.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
         "metadata is implicitly specified")),
        ({"x": {"type": "integer", "default": "x"}},
         f'{PLACE}.properties[x].default: Invalid value: "string":  in body must be of type integer: "string"'),
        ({"x": {"type": "object", "default": {"q": 1}}},
         f'{PLACE}.properties[x].default: Invalid value: {{"q":1}}: must not have unknown fields'),
        ({"x": {"type": "object", PRESERVE: False}},
         f"{PLACE}.properties[x].{PRESERVE}: Invalid value: false: must be true or undefined"),
        ({"x": {"type": "object", "x-kubernetes-validations": [{"rule": ""}]}},
         f"{PLACE}.properties[x].x-kubernetes-validations[0].rule: Required value: rule is not specified"),
        ({"x": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}},
         (f"{PLACE}.properties[x].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime "
         "complexity becomes quadratic")),
    ],
)  # fmt: skip
def test_schemas_are_structural(schema, found):
    whole = schema if {"type", "properties"} & schema.keys() else {"type": "object", "properties": schema}
    assert refused(definition(version(schema=whole))) == [found]


def test_a_rule_that_cannot_be_compiled_is_refused_with_the_compilers_words():
    ruled = {"type": "object", "x-kubernetes-validations": [{"rule": "1 +"}]}
    [told] = refused(definition(version(schema={"type": "object", "properties": {"x": ruled}})))
    assert told.startswith(f"{PLACE}.properties[x].x-kubernetes-validations[0].rule: Invalid value: ")
    assert "compilation failed: " in told and "Syntax error" in told


def test_conversion_by_webhook_says_how_the_webhook_is_called():
    # pkg/apis/apiextensions/validation: the internal type has the client's configuration one level up.
    client = {"url": "https://x", "service": {"name": "a", "namespace": "b"}}
    for webhook, found in (
        ({}, ["spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
              "spec.conversion.conversionReviewVersions: Required value"]),
        ({"conversionReviewVersions": ["v1"], "clientConfig": client},
         ["spec.conversion.webhookClientConfig: Required value: exactly one of url or service is required"]),
        ({"conversionReviewVersions": ["v2"], "clientConfig": {"url": "https://x"}},
         ['spec.conversion.conversionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1']),
    ):  # fmt: skip
        assert refused(definition(conversion={"strategy": "Webhook", "webhook": webhook})) == found
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://x"}}
    assert refused(definition(conversion={"strategy": "None", "webhook": webhook})) == [
        "spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook",
        "spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook",
    ]


def test_what_is_served_stays_what_it_is():
    store = make_store()
    store.create(DEFINITIONS, "", definition())
    live = store.get(DEFINITIONS, "", "widgets.example.com")
    for field, value in (("scope", "Cluster"), ("group", "other.com")):
        with pytest.raises(StoreError, match=f'spec.{field}: Invalid value: "{value}": field is immutable'):
            store.update(DEFINITIONS, "", "widgets.example.com", {**live, "spec": {**live["spec"], field: value}})
    versions = [version("v2")]
    with pytest.raises(
        StoreError, match=r'status.storedVersions\[0\]: Invalid value: "v1": missing from spec.versions'
    ):
        store.update(DEFINITIONS, "", "widgets.example.com", {**live, "spec": {**live["spec"], "versions": versions}})


@pytest.mark.parametrize("items", [{"type": 5}, {"properties": "x"}, {"x-kubernetes-validations": [1]}])
def test_schemas_in_lists_and_maps_are_read_as_schemas(items):
    for holder in ({"type": "array", "items": items}, {"type": "object", "additionalProperties": items}):
        schema = {"type": "object", "properties": {"x": holder}}
        with pytest.raises(StoreError, match="cannot be handled as a CustomResourceDefinition: json: cannot unmarshal"):
            make_store().create(DEFINITIONS, "", definition(version(schema=schema)))


@pytest.mark.parametrize("plural", ["podgroups", "gangs"])
def test_a_definition_cannot_take_the_place_of_a_built_in_kind(plural):
    store = make_store()
    names = {"plural": plural, "kind": "PodGroup"}
    obj = definition(name=f"{plural}.scheduling.k8s.io", group="scheduling.k8s.io", names=names)
    obj["metadata"]["annotations"] = {"api-approved.kubernetes.io": "https://example.com/1"}
    store.create(DEFINITIONS, "", obj)
    conditions = store.get(DEFINITIONS, "", f"{plural}.scheduling.k8s.io")["status"]["conditions"]
    assert [one["status"] for one in conditions] == ["False", "False"]
    assert store.custom.served == ()


def test_a_schema_may_not_divide_by_nothing():
    store = make_store()
    schema = {"type": "object", "properties": {"x": {"type": "number", "multipleOf": 0}}}
    store.create(DEFINITIONS, "", definition(version(schema=schema)))
    [kind] = store.custom.stored()
    assert store.create(kind, "default", {"metadata": {"name": "a"}, "x": 1})["x"] == 1
