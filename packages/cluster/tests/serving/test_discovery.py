"""What the server says about itself: discovery in both forms, OpenAPI, version."""

import json

import pytest

from berth_cluster.apimachinery.releases import release
from berth_cluster.apimachinery.resource_types import RESOURCE_TYPES
from berth_cluster.serving.openapi_protobuf import ASKED_TYPE, MEDIA_TYPE

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
GROUP_VERSIONS = sorted({(kind.group, kind.version) for kind in release().types})


def root(group, version):
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


async def test_the_version(client):
    _, body = await client.get("/version")
    assert (body["major"], body["minor"], body["gitVersion"]) == ("1", "36", "v1.36.0")


async def test_groups_in_the_old_form(client):
    _, core = await client.get("/api")
    assert (core["kind"], core["versions"]) == ("APIVersions", ["v1"])
    _, groups = await client.get("/apis")
    named = {group["name"]: group for group in groups["groups"]}
    assert {"apps", "batch", "policy", "events.k8s.io", "authorization.k8s.io"} <= set(named)
    scheduling = named["scheduling.k8s.io"]
    assert scheduling["preferredVersion"]["groupVersion"] == "scheduling.k8s.io/v1"
    assert [one["version"] for one in scheduling["versions"]] == ["v1", "v1alpha2"]


@pytest.mark.parametrize(("group", "version"), GROUP_VERSIONS)
async def test_resources_in_the_old_form(client, group, version):
    _, body = await client.get(root(group, version))
    listed = {entry["name"]: entry for entry in body["resources"]}
    for kind in RESOURCE_TYPES:
        if (kind.group, kind.version) == (group, version):
            assert listed[kind.plural]["kind"] == kind.kind
            assert all(f"{kind.plural}/{name}" in listed for name in kind.subresources)


async def test_the_aggregated_form(client):
    async with client.session.get(f"{client.url}/apis", headers={"Accept": AGGREGATED}) as response:
        assert response.headers["Content-Type"] == AGGREGATED
        groups = {item["metadata"]["name"]: item for item in (await response.json(content_type=None))["items"]}
    deployments = next(
        entry for entry in groups["apps"]["versions"][0]["resources"] if entry["resource"] == "deployments"
    )
    assert deployments["responseKind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert (deployments["scope"], deployments["shortNames"]) == ("Namespaced", ["deploy"])
    assert [one["subresource"] for one in deployments["subresources"]] == ["scale", "status"]
    async with client.session.get(f"{client.url}/api", headers={"Accept": AGGREGATED}) as response:
        (core,) = (await response.json(content_type=None))["items"]
    assert "pods" in [entry["resource"] for entry in core["versions"][0]["resources"]]


async def test_openapi_v3(client):
    _, index = await client.get("/openapi/v3")
    assert set(index["paths"]) == {root(*place)[1:] for place in GROUP_VERSIONS}
    _, document = await client.get(index["paths"]["apis/apps/v1"]["serverRelativeURL"])
    schemas = document["components"]["schemas"]
    deployment = schemas["io.k8s.api.apps.v1.Deployment"]
    assert deployment["x-kubernetes-group-version-kind"] == [{"group": "apps", "version": "v1", "kind": "Deployment"}]
    assert "io.k8s.api.core.v1.PodSpec" in schemas
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]


@pytest.mark.parametrize(("group", "version"), GROUP_VERSIONS)
async def test_every_reference_in_a_document_leads_somewhere(client, group, version):
    _, document = await client.get(f"/openapi/v3{root(group, version)}")
    prefix = '"$ref":"#/components/schemas/'
    used = {part.partition('"')[0] for part in json.dumps(document, separators=(",", ":")).split(prefix)[1:]}
    assert used <= set(document["components"]["schemas"])


async def test_openapi_v2(client):
    _, document = await client.get("/openapi/v2")
    containers = document["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    # A default may be anything: kubectl, where it checks fields itself, holds it to what stands here.
    schemas = document["definitions"]["io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"]
    assert {"type", "$ref"}.isdisjoint(schemas["properties"]["default"])


async def test_openapi_v2_as_protobuf(client):
    async with client.session.get(f"{client.url}/openapi/v2", headers={"Accept": ASKED_TYPE}) as response:
        assert (response.status, response.headers["Content-Type"]) == (200, MEDIA_TYPE)
        body = await response.read()
    # Field 1 is the text "2.0"; the names of definitions and extensions stand in it as they are.
    assert body.startswith(b"\x0a\x032.0")
    assert b"io.k8s.api.core.v1.PodSpec" in body and b"x-kubernetes-group-version-kind" in body


async def test_groups_and_documents_that_are_not_there(client):
    for path in ("/apis/example.com", "/apis/example.com/v1", "/api/v2", "/openapi/v3/apis/example.com/v1"):
        status, body = await client.get(path)
        assert (status, body["reason"]) == (404, "NotFound"), path
