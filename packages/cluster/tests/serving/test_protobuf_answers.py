"""Answers in protobuf, for clients that prefer it: what the same request gets in JSON, in the other encoding.

Pods, lists and events are read by the scheduler's own reader, whose numbers come from recorded answers. Framing and
content types: k8s.io/apimachinery/pkg/runtime/serializer/protobuf, and "Kubernetes Protobuf encoding" in the
documentation of the API.
"""

import struct

import pytest

from berth.api import protobuf_pods
from berth_cluster.apimachinery import protobuf, protobuf_writing
from packages.cluster.tests.objects import config_map, deployment, pod
from packages.cluster.tests.serving.test_custom_resources import DEFINITIONS, WIDGETS, define, definition, widget

PROTOBUF = "application/vnd.kubernetes.protobuf"
PREFERRED = {"Accept": f"{PROTOBUF}, application/json"}
METADATA = {"Accept": f"{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{PROTOBUF}"}
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


async def asked(client, method, path, body=None, headers=PREFERRED):
    """Status, content type and bytes of an answer; the body goes as protobuf."""
    sent = {} if body is None else {"data": protobuf_writing.encode(body), "headers": {"Content-Type": PROTOBUF}}
    sent["headers"] = {**sent.get("headers", {}), **headers}
    async with client.session.request(method, client.url + path, **sent) as response:
        return response.status, response.headers["Content-Type"], await response.read()


async def answered(client, method, path, body=None, headers=PREFERRED):
    """Status and object of an answer in protobuf."""
    status, media_type, found = await asked(client, method, path, body, headers)
    assert media_type == PROTOBUF, found
    return status, protobuf.decode(found)


def typed(api_version, kind, obj):
    return {"apiVersion": api_version, "kind": kind, **obj}


async def test_what_is_written_and_read_in_protobuf_is_what_json_shows(client):
    status, made = await answered(client, "POST", DEPLOYMENTS, typed("apps/v1", "Deployment", deployment(replicas=0)))
    assert status == 201 and made["spec"]["replicas"] == 0
    _, in_json = await client.get(f"{DEPLOYMENTS}/web")
    status, read = await answered(client, "GET", f"{DEPLOYMENTS}/web")
    assert (status, read["spec"], read["metadata"]) == (200, in_json["spec"], in_json["metadata"])
    _, scale = await answered(client, "GET", f"{DEPLOYMENTS}/web/scale")
    assert (scale["kind"], scale["status"]["selector"]) == ("Scale", "app=web")
    scaled = {**scale, "spec": {"replicas": 3}}
    assert (await answered(client, "PUT", f"{DEPLOYMENTS}/web/scale", scaled))[1]["spec"] == {"replicas": 3}


async def test_a_definition_comes_and_goes_in_protobuf_and_its_objects_in_json(client):
    made = definition()
    status, answer = await answered(client, "POST", DEFINITIONS, made)
    assert status == 201 and answer["spec"]["versions"][0]["schema"] == made["spec"]["versions"][0]["schema"]
    assert (await client.post(WIDGETS, widget()))[0] == 201
    assert (await asked(client, "GET", f"{WIDGETS}/a"))[:2] == (200, "application/json")
    only = {"Accept": PROTOBUF}
    assert (await asked(client, "GET", f"{WIDGETS}/a", headers=only))[0] == 406
    _, media_type, body = await asked(client, "GET", WIDGETS, headers=METADATA)
    assert media_type == PROTOBUF and b"PartialObjectMetadataList" in body and b"widgets" not in body


async def test_a_list_of_pods_is_read_by_the_scheduler(client):
    for name in ("a", "b"):
        await client.post(PODS, pod(name))
    _, media_type, body = await asked(client, "GET", PODS)
    version, _, raw = protobuf_pods.read_page(body)
    pods = [protobuf_pods.PodReader().read(one) for one in raw]
    assert media_type == PROTOBUF and version == (await client.get(PODS))[1]["metadata"]["resourceVersion"]
    assert [one.metadata.name for one in pods] == ["a", "b"]
    assert pods[0].spec.containers[0].image == "nginx:1.27"


async def test_a_watch_sends_messages_after_their_lengths(client):
    await client.post(PODS, pod("a"))
    query = "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    query += "&timeoutSeconds=1"
    _, media_type, body = await asked(client, "GET", f"{PODS}?{query}")
    assert media_type == f"{PROTOBUF};stream=watch"
    events = []
    while body:
        (length,) = struct.unpack(">I", body[:4])
        events.append(protobuf_pods.read_event(body[4 : 4 + length]))
        body = body[4 + length :]
    assert [kind for kind, _ in events] == ["ADDED", "BOOKMARK", "BOOKMARK"]
    first, bookmark = (protobuf_pods.identity_of(raw) for _, raw in events[:2])
    assert first["name"] == "a"
    assert bookmark["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_metadata_alone(client):
    await client.post(MAPS, config_map("a", secret="x"))
    one = {"Accept": f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
    _, _, body = await asked(client, "GET", f"{MAPS}/a", headers=one)
    assert b"PartialObjectMetadata" in body and b"secret" not in body


async def test_refusals_reviews_and_deletions(client):
    status, refusal = await answered(client, "GET", f"{MAPS}/none")
    assert (status, refusal["reason"], refusal["code"]) == (404, "NotFound", 404)
    assert refusal["details"] == {"name": "none", "kind": "configmaps"}
    review = {"spec": {"nonResourceAttributes": {"verb": "get", "path": "/"}}}
    review = typed("authorization.k8s.io/v1", "SelfSubjectAccessReview", review)
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    status, answer = await answered(client, "POST", path, review)
    assert (status, answer["status"]["allowed"]) == (201, True)
    await client.post(MAPS, config_map("a"))
    status, gone = await answered(
        client, "DELETE", f"{MAPS}/a", typed("v1", "DeleteOptions", {"gracePeriodSeconds": 0})
    )
    assert (status, gone["status"]) == (200, "Success")


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        (f"application/json, {PROTOBUF}", "application/json"),
        (f"{PROTOBUF}, */*", PROTOBUF),
        (PROTOBUF, PROTOBUF),
        (f"application/json;as=Table;v=v1;g=meta.k8s.io,{PROTOBUF}", "application/json"),
        (f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io,application/json", "application/json"),
    ],
)
async def test_the_first_that_can_be_given_is(client, accept, media_type):
    assert (await asked(client, "GET", MAPS, headers={"Accept": accept}))[1] == media_type


async def test_custom_resources_are_not_taken_in_protobuf(client):
    await define(client)
    headers = {"Content-Type": PROTOBUF, "Accept": "application/json"}
    body = protobuf_writing.in_envelope("example.com/v1", "Widget", b"")
    status, answer = await client.send("POST", WIDGETS, data=body, headers=headers)
    assert (status, answer["reason"]) == (415, "UnsupportedMediaType")
