"""Kinds that CustomResourceDefinitions declare, over HTTP.

The tests with the names of upstream's specs make the same promises as `[sig-api-machinery] CustomResourceDefinition
resources`, `CustomResourcePublishOpenAPI`, `CustomResourceFieldSelectors`, `CustomResourceValidationRules` and
`FieldValidation` under test/e2e/apimachinery.
"""

import asyncio
import json

import pytest

from tests.waiting import WAIT_S, until

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
NAME = "widgets.example.com"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
PRESERVING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
SPEC = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "description": "How large."},
        "color": {"type": "string", "default": "red"},
        "replicas": {"type": "integer"},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"],
                      "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}},
        },
    },
}  # fmt: skip
STATUS = {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}}
SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


def version(name="v1", spec=None, **fields):
    schema = {"type": "object", "description": "A widget.", "properties": {"spec": spec or SPEC, "status": STATUS}}
    known = {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}}
    return {**known, "subresources": {"status": {}, "scale": SCALE}, **fields}


def definition(*versions, plural="widgets", kind="Widget", **names):
    spec = {"group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind, **names}}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {
        **head,
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {**spec, "versions": list(versions or [version()])},
    }


def widget(name="a", version="v1", **spec):
    return {"apiVersion": f"example.com/{version}", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


async def define(client, *versions, **names):
    status, body = await client.post(DEFINITIONS, definition(*versions, **names))
    assert status == 201, body


def conditions(body):
    return {one["type"]: (one["status"], one["reason"]) for one in body["status"]["conditions"]}


async def test_creating_and_deleting_custom_resource_definition_objects_works(client):
    await define(client, shortNames=["wd"], categories=["all"])
    _, body = await client.get(f"{DEFINITIONS}/{NAME}")
    assert conditions(body) == {
        "NamesAccepted": ("True", "NoConflicts"), "Established": ("True", "InitialNamesAccepted"),
    }  # fmt: skip
    assert body["status"]["acceptedNames"] == {
        "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": ["wd"],
        "categories": ["all"],
    }  # fmt: skip
    status, _ = await client.send("DELETE", f"{DEFINITIONS}/{NAME}")
    assert status == 200
    assert [(await client.get(path))[0] for path in (f"{DEFINITIONS}/{NAME}", WIDGETS, "/apis/example.com")] == [
        404
    ] * 3


async def test_listing_custom_resource_definition_objects_works(client):
    for plural in ("widgets", "gadgets"):
        await define(client, plural=plural, kind=plural.title())
    _, body = await client.get(DEFINITIONS)
    assert [item["metadata"]["name"] for item in body["items"]] == ["gadgets.example.com", NAME]
    await client.send("DELETE", DEFINITIONS)
    assert (await client.get(DEFINITIONS))[1]["items"] == []


async def test_getting_updating_patching_custom_resource_definition_status_sub_resource_works(client):
    await define(client)
    mine = {
        "type": "Mine",
        "status": "True",
        "reason": "R",
        "message": "m",
        "lastTransitionTime": "2025-03-01T12:00:00Z",
    }
    _, body = await client.get(f"{DEFINITIONS}/{NAME}/status")
    listed = [*body["status"]["conditions"], mine]
    status, body = await client.patch(f"{DEFINITIONS}/{NAME}/status", {"status": {"conditions": listed}})
    assert (status, conditions(body)["Mine"]) == (200, ("True", "R"))


async def test_should_include_custom_resource_definition_resources_in_discovery_documents(client):
    await define(client, version("v1alpha1", served=False), version("v2beta1"), version(), shortNames=["wd"])
    _, group = await client.get("/apis/example.com")
    assert [one["version"] for one in group["versions"]] == ["v1", "v2beta1"]
    _, body = await client.get("/apis/example.com/v1")
    listed = {entry["name"]: entry for entry in body["resources"]}
    assert (listed["widgets"]["kind"], listed["widgets"]["shortNames"]) == ("Widget", ["wd"])
    assert (listed["widgets/scale"]["kind"], listed["widgets/status"]["kind"]) == ("Scale", "Widget")
    aggregated = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
    _, body = await client.get("/apis", headers=aggregated)
    [found] = [item for item in body["items"] if item["metadata"]["name"] == "example.com"]
    assert [entry["resource"] for entry in found["versions"][0]["resources"]] == ["widgets"]
    assert (await client.get("/apis/example.com/v1alpha1/widgets"))[0] == 404


async def test_custom_resource_defaulting_for_requests_and_from_storage_works(client):
    plain = {"type": "object", "properties": {"size": {"type": "integer"}, "color": {"type": "string"}}}
    await define(client, version(spec=plain))
    _, body = await client.post(WIDGETS, widget())
    assert body["spec"] == {}
    _, body = await client.get(f"{DEFINITIONS}/{NAME}")
    changed = {"spec": {"versions": [version()]}}
    assert (await client.patch(f"{DEFINITIONS}/{NAME}", changed))[0] == 200
    assert (await client.get(f"{WIDGETS}/a"))[1]["spec"] == {"color": "red"}
    assert (await client.post(WIDGETS, widget("b")))[1]["spec"] == {"color": "red"}
    _, body = await client.get(WIDGETS)
    assert (body["kind"], [item["spec"] for item in body["items"]]) == ("WidgetList", [{"color": "red"}] * 2)


async def test_watch_on_custom_resource_definition_objects(client):
    await define(client)
    async with client.session.get(f"{client.url}{WIDGETS}?watch=true") as response:
        await client.post(WIDGETS, widget())
        await client.patch(f"{WIDGETS}/a", {"spec": {"size": 2}})
        await client.send("DELETE", f"{WIDGETS}/a")
        seen = [json.loads(await response.content.readline()) for _ in range(3)]
    assert [event["type"] for event in seen] == ["ADDED", "MODIFIED", "DELETED"]
    assert [event["object"]["kind"] for event in seen] == ["Widget"] * 3


async def test_deleting_a_definition_deletes_its_objects_and_ends_their_watches(client):
    await define(client)
    await client.post(WIDGETS, widget())
    async with client.session.get(f"{client.url}{WIDGETS}?watch=true") as response:
        await client.send("DELETE", f"{DEFINITIONS}/{NAME}")
        async with asyncio.timeout(WAIT_S):
            seen = [json.loads(line)["type"] async for line in response.content]
    assert seen == ["ADDED", "DELETED"]


async def test_a_definition_waits_for_objects_with_finalizers(client):
    await define(client)
    await client.post(WIDGETS, {**widget(), "metadata": {"name": "a", "finalizers": ["example.com/wait"]}})
    _, body = await client.send("DELETE", f"{DEFINITIONS}/{NAME}")
    assert body["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    _, body = await client.get(f"{DEFINITIONS}/{NAME}")
    assert conditions(body)["Terminating"] == ("True", "InstanceDeletionInProgress")
    status, body = await client.post(WIDGETS, widget("b"))
    assert (status, body["message"]) == (
        403, f'{NAME} "b" is forbidden: create not allowed while custom resource definition is terminating',
    )  # fmt: skip
    assert (await client.patch(f"{WIDGETS}/a", {"metadata": {"finalizers": None}}))[0] == 200
    assert (await client.get(f"{DEFINITIONS}/{NAME}"))[0] == 404


async def test_names_that_others_have_are_not_accepted_until_they_are_free(client):
    await define(client)
    await define(client, plural="widgetz")
    _, body = await client.get(f"{DEFINITIONS}/widgetz.example.com")
    assert conditions(body) == {"NamesAccepted": ("False", "ListKindConflict"), "Established": ("False", "NotAccepted")}
    assert (await client.get("/apis/example.com/v1/widgetz"))[0] == 404
    await client.send("DELETE", f"{DEFINITIONS}/{NAME}")
    _, body = await client.get(f"{DEFINITIONS}/widgetz.example.com")
    assert conditions(body)["Established"] == ("True", "InitialNamesAccepted")
    assert (await client.get("/apis/example.com/v1/widgetz"))[0] == 200


async def test_versions_differ_in_what_their_schemas_prune(client):
    old = {"type": "object", "properties": {"size": {"type": "integer"}}}
    await define(client, version(), version("v1beta1", spec=old, deprecated=True))
    await client.post(WIDGETS, widget(size=1, color="green"))
    beta = f"{client.url}{WIDGETS.replace('/v1/', '/v1beta1/')}"
    async with client.session.get(f"{beta}/a") as response:
        body, warning = await response.json(), response.headers["Warning"]
    assert (body["apiVersion"], body["spec"]) == ("example.com/v1beta1", {"size": 1})
    assert warning == '299 - "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget"'
    async with client.session.post(beta, json=widget("b", "v1beta1", size=2)) as response:
        assert response.status == 201
    assert (await client.get(f"{WIDGETS}/b"))[1]["apiVersion"] == "example.com/v1"


async def test_a_storage_version_may_change_and_old_objects_are_still_there(client):
    await define(client)
    await client.post(WIDGETS, widget(size=1))
    versions = [version(storage=False), version("v2", storage=True)]
    _, body = await client.patch(f"{DEFINITIONS}/{NAME}", {"spec": {"versions": versions}})
    assert body["status"]["storedVersions"] == ["v1", "v2"]
    for each in ("v1", "v2"):
        _, body = await client.get(f"{WIDGETS.replace('/v1/', f'/{each}/')}/a")
        assert (body["apiVersion"], body["spec"]["size"]) == (f"example.com/{each}", 1)


async def test_patches_are_of_three_kinds_and_never_strategic(client):
    await define(client)
    await client.post(WIDGETS, widget(size=1))
    status, body = await client.patch(f"{WIDGETS}/a", {"spec": {"size": 2}}, "strategic-merge-patch+json")
    assert (status, body["message"]) == (
        415, ("the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"),
    )  # fmt: skip
    assert (await client.patch(f"{WIDGETS}/a", {"spec": {"size": 2}}))[1]["spec"]["size"] == 2
    replaced = [{"op": "replace", "path": "/spec/size", "value": 3}]
    assert (await client.patch(f"{WIDGETS}/a", replaced, "json-patch+json"))[1]["metadata"]["generation"] == 3
    status, body = await client.patch(f"{WIDGETS}/a", {"spec": {"size": "x"}})
    assert (status, body["message"]) == (
        422, ('Widget.example.com "a" is invalid: spec.size: Invalid value: "string": spec.size in body must be of '
        'type integer: "string"'),
    )  # fmt: skip


async def test_should_detect_unknown_and_duplicate_fields(client):
    await define(client)
    wrong = {**widget(foo=1), "zap": 2}
    status, body = await client.post(f"{WIDGETS}?fieldValidation=Strict", wrong)
    assert (status, body["message"]) == (
        400, ('Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.foo", '
        'unknown field "zap"'),
    )  # fmt: skip
    async with client.session.post(f"{client.url}{WIDGETS}", json=wrong) as response:
        assert response.headers.getall("Warning") == [
            f'299 - "unknown field \\"{name}\\""' for name in ("spec.foo", "zap")
        ]
        assert (await response.json())["spec"] == {"color": "red"}
    name = wrong["metadata"]["name"]  # what a patch makes is invalid, and not the request
    status, body = await client.patch(f"{WIDGETS}/{name}?fieldValidation=Strict", {"spec": {"foo": 2}})
    assert (status, body["reason"]) == (422, "Invalid")
    assert 'strict decoding error: unknown field "spec.foo"' in body["message"]
    async with client.session.post(
        f"{client.url}{WIDGETS}?fieldValidation=Ignore", json={**wrong, "metadata": {"name": "b"}}
    ) as response:
        assert (response.status, "Warning" in response.headers) == (201, False)


async def test_the_status_is_written_apart(client):
    await define(client)
    await client.post(WIDGETS, {**widget(size=1), "status": {"replicas": 1}})
    assert "status" not in (await client.get(f"{WIDGETS}/a"))[1]
    _, body = await client.patch(f"{WIDGETS}/a/status", {"status": {"replicas": 2}, "spec": {"size": 9}})
    assert (body["status"], body["spec"]["size"], body["metadata"]["generation"]) == ({"replicas": 2}, 1, 1)
    status, body = await client.patch(f"{WIDGETS}/a/status", {"status": {"replicas": "x"}})
    assert (status, body["details"]["causes"][0]["field"]) == (422, "status.replicas")


async def test_the_scale_subresource_finds_its_values_by_path(client):
    await define(client)
    await client.post(WIDGETS, widget())
    assert (await client.get(f"{WIDGETS}/a/scale"))[1]["spec"] == {}
    assert (await client.patch(f"{WIDGETS}/a/scale", {"spec": {"replicas": 6}}))[0] == 200
    await client.patch(f"{WIDGETS}/a/status", {"status": {"replicas": 2, "selector": "app=x"}})
    _, body = await client.get(f"{WIDGETS}/a/scale")
    assert (body["kind"], body["spec"], body["status"]) == (
        "Scale",
        {"replicas": 6},
        {"replicas": 2, "selector": "app=x"},
    )
    assert (await client.get(f"{WIDGETS}/a"))[1]["spec"]["replicas"] == 6
    status, body = await client.patch(f"{WIDGETS}/a/scale", {"spec": {"replicas": -2}})
    assert (status, body["details"]["causes"][0]["message"]) == (
        422, "Invalid value: -2: should be a non-negative integer",
    )  # fmt: skip


async def test_server_side_apply_merges_lists_by_their_keys_and_finds_conflicts(client):
    await define(client)

    async def apply(manager, **spec):
        return await client.patch(f"{WIDGETS}/a?fieldManager={manager}", widget(**spec), "apply-patch+yaml")

    assert (await apply("me", size=1, parts=[{"name": "p", "n": 1}]))[0] == 201
    status, body = await apply("you", parts=[{"name": "q"}])
    assert (status, body["spec"]["parts"]) == (200, [{"name": "p", "n": 1}, {"name": "q"}])
    status, body = await apply("you", size=2)
    assert (status, body["message"]) == (
        409, 'Apply failed with 1 conflict: conflict with "me": .spec.size',
    )  # fmt: skip


async def test_custom_resource_field_selectors(client):
    await define(client, version(selectableFields=[{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}]))
    await client.post(WIDGETS, widget("a", size=1))
    await client.post(WIDGETS, widget("b", size=2, color="blue"))
    for selector, names in (("spec.color=red", ["a"]), ("spec.size=2", ["b"]), ("spec.color=blue,spec.size=1", [])):
        _, body = await client.get(f"{WIDGETS}?fieldSelector={selector}")
        assert [item["metadata"]["name"] for item in body["items"]] == names
    status, body = await client.get(f"{WIDGETS}?fieldSelector=spec.foo=1")
    assert (status, body["message"]) == (400, "field label not supported: spec.foo")
    async with client.session.get(f"{client.url}{WIDGETS}?watch=true&fieldSelector=spec.color=blue") as response:
        assert json.loads(await response.content.readline())["object"]["metadata"]["name"] == "b"


async def test_tables_have_the_columns_of_the_definition(client):
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "How large"},
        {"name": "First", "type": "string", "jsonPath": ".spec.parts[*].name"},
        {"name": "Parts", "type": "string", "jsonPath": ".spec.parts[0]", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    await define(client, version(additionalPrinterColumns=columns), version("v1beta1"))
    await client.post(WIDGETS, widget(size=1, parts=[{"name": "p"}]))
    await client.post(WIDGETS, widget("b"))
    _, body = await client.get(WIDGETS, headers=TABLE)
    assert [(one["name"], one["priority"]) for one in body["columnDefinitions"]] == [
        ("Name", 0), ("Size", 0), ("First", 0), ("Parts", 1), ("Age", 0),
    ]  # fmt: skip
    assert [row["cells"] for row in body["rows"]] == [
        ["a", 1, "p", '{"name":"p"}', "0s"],
        ["b", None, None, None, "0s"],
    ]
    _, body = await client.get(WIDGETS.replace("/v1/", "/v1beta1/"), headers=TABLE)
    assert [one["name"] for one in body["columnDefinitions"]] == ["Name", "Age"]


@pytest.mark.parametrize("preserving", [False, True])
async def test_works_for_crd_with_validation_schema_or_preserving_unknown_fields(client, preserving):
    before = (await client.get("/openapi/v3"))[1]["paths"]
    whole = {"schema": {"openAPIV3Schema": PRESERVING}} if preserving else {}
    await define(client, version(**whole))
    after = (await client.get("/openapi/v3"))[1]["paths"]
    assert after.keys() - before.keys() == {"apis/example.com/v1"}
    _, body = await client.get("/openapi/v3/apis/example.com/v1")
    found = body["components"]["schemas"]["com.example.v1.Widget"]
    assert found["x-kubernetes-group-version-kind"] == [{"group": "example.com", "kind": "Widget", "version": "v1"}]
    assert {"apiVersion", "kind", "metadata"} <= found["properties"].keys()
    in_v2 = (await client.get("/openapi/v2"))[1]["definitions"]["com.example.v1.Widget"]
    if preserving:
        assert "properties" not in in_v2
    else:
        assert found["properties"]["spec"]["properties"]["size"] == {"type": "integer", "description": "How large."}
        assert "default" not in in_v2["properties"]["spec"]["properties"]["color"]
    await client.send("DELETE", f"{DEFINITIONS}/{NAME}")
    assert (await client.get("/openapi/v3"))[1]["paths"].keys() == before.keys()


async def test_must_fail_validation_for_a_transition_rule(client):
    fixed = {
        "type": "object",
        "properties": {"size": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}},
    }
    await define(client, version(spec=fixed))
    await client.post(WIDGETS, widget(size=5))
    status, body = await client.patch(f"{WIDGETS}/a", {"spec": {"size": 4}})
    assert (status, body["message"]) == (
        422, 'Widget.example.com "a" is invalid: spec.size: Invalid value: 4: failed rule: self >= oldSelf',
    )  # fmt: skip


async def test_an_update_names_the_version_that_it_replaces(client):
    await define(client)
    await client.post(WIDGETS, widget())
    status, body = await client.send("PUT", f"{WIDGETS}/a", widget(size=1))
    assert (status, body["details"]["causes"][0]["message"]) == (
        422,
        "Invalid value: 0: must be specified for an update",
    )
    _, live = await client.get(f"{WIDGETS}/a")
    assert (await client.send("PUT", f"{WIDGETS}/a", {**live, "spec": {"size": 1}}))[0] == 200
    assert (await client.send("PUT", f"{WIDGETS}/a", {**live, "spec": {"size": 2}}))[0] == 409


async def test_a_group_that_begins_like_a_built_in_one_is_another(client):
    spec = {
        "group": "apps.example.com",
        "scope": "Namespaced",
        "names": {"plural": "deployments", "kind": "Deployment"},
    }
    schema = {"schema": {"openAPIV3Schema": PRESERVING}}
    body = {
        **definition(),
        "metadata": {"name": "deployments.apps.example.com"},
        "spec": {**spec, "versions": [version(**schema)]},
    }
    assert (await client.post(DEFINITIONS, body))[0] == 201
    path = "/apis/apps.example.com/v1/namespaces/default/deployments"
    mine = {"apiVersion": "apps.example.com/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"mine": 1}}
    assert (await client.post(path, mine))[1]["spec"] == {"mine": 1}
    assert (await client.patch(f"{path}/d", {"spec": {"mine": 2}}))[1]["spec"] == {"mine": 2}


async def test_watches_begin_again_where_a_definition_changes(client):
    await define(client)
    async with client.session.get(f"{client.url}{WIDGETS}?watch=true") as response:
        await client.patch(f"{DEFINITIONS}/{NAME}", {"spec": {"versions": [version(), version("v2")]}})
        await until(response.content.at_eof)


async def test_a_version_that_a_webhook_would_convert_is_refused_and_the_stored_one_is_served(client):
    # As upstream where the webhook cannot be reached: apiextensions-apiserver/pkg/apiserver/conversion.
    made = definition(version(), version("v2"))
    service = {"name": "hooks", "namespace": "default", "path": "/convert"}
    webhook = {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]}
    made["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    status, body = await client.post(DEFINITIONS, made)
    assert status == 201 and body["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"] == 443
    assert (await client.post(WIDGETS, widget()))[0] == 201
    assert (await client.get(f"{WIDGETS}/a"))[1]["spec"]["color"] == "red"
    for path in (f"{WIDGETS}/a", WIDGETS):
        status, body = await client.get(path.replace("/v1/", "/v2/"))
        assert status == 500
        assert body["message"] == (
            "conversion webhook for example.com/v1, Kind=Widget failed: this API server calls no webhooks"
        )


async def test_what_is_applied_has_the_fields_of_the_schema(client):
    # As a kube-apiserver 1.36 answers, whatever fieldValidation says; keyed lists name their elements by the keys.
    issuer = {"type": "object", "properties": {"kind": {"type": "string"}}}
    open_ = {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}}
    spec = {**SPEC, "properties": {**SPEC["properties"], "issuer": issuer, "open": open_, "free": PRESERVING}}
    await define(client, version(spec=spec))
    path, kind = f"{WIDGETS}/a?fieldManager=me&fieldValidation=Ignore", "apply-patch+yaml"
    good = widget(
        issuer={"kind": "Issuer"}, free={"x": {"y": 1}}, open={"k": {"a": "b"}}, parts=[{"name": "p", "n": 1}]
    )
    assert (await client.patch(path, good, kind))[0] == 201
    bad = widget(parts=[{"name": "p", "m": 1}], issuer={"kid": 1}, open={"k": {"b": "c"}}) | {"mood": "x"}
    status, body = await client.patch(path, bad, kind)
    assert status == 500
    assert body["message"].splitlines() == [
        "failed to create typed patch object (/a; example.com/v1, Kind=Widget): errors:",
        '  .spec.parts[name="p"].m: field not declared in schema',
        "  .spec.issuer.kid: field not declared in schema",
        "  .spec.open.k.b: field not declared in schema",
        "  .mood: field not declared in schema",
    ]
