"""Requests by somebody who means harm, or by a broken client: an answer in words, no traceback, no harm done."""

import io
import json

import pytest
import yaml

from berth.api import yaml_census
from berth.api.yaml_census import UnreasonableYAML
from berth_cluster.apimachinery.errors import MAX_CAUSES
from berth_cluster.apimachinery.field_checks import FieldCheck
from berth_cluster.apimachinery.patches import MAX_COPIED_BYTES
from berth_cluster.serving.negotiation import load_yaml
from packages.cluster.tests.objects import CONFIG_MAPS, DEPLOYMENTS, PODS, config_map, deployment, pod

PODS_PATH = "/api/v1/namespaces/default/pods"
MAPS_PATH = "/api/v1/namespaces/default/configmaps"
REVIEW_PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
SCALE_PATH = "/apis/apps/v1/namespaces/default/deployments/web/scale"

YAML = {"Content-Type": "application/yaml"}
PROTOBUF = {"Content-Type": "application/vnd.kubernetes.protobuf"}
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
JSON_PATCH = {"Content-Type": "application/json-patch+json"}

DEEP_JSON = b'{"data":' * 100_000 + b"1" + b"}" * 100_000
DEEP_YAML = b"a: " + b"[" * 100_000
ALIASES = b"".join(b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 10))
BOMB = b"a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + ALIASES


async def test_a_token_that_is_no_text_is_a_wrong_token(client, caplog):
    status, body = await client.get(PODS_PATH, headers={"Authorization": "Bearer \udcff\udcfe"})
    assert (status, body["reason"]) == (401, "Unauthorized")
    assert caplog.records == []


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "why"),
    [
        ("POST", MAPS_PATH, {"data": DEEP_JSON}, 400, "nested too deeply"),
        ("PATCH", f"{PODS_PATH}/web", {"data": DEEP_JSON, "headers": MERGE_PATCH}, 400, "nested too deeply"),
        ("POST", MAPS_PATH, {"data": DEEP_YAML, "headers": YAML}, 400, "levels deep"),
        ("POST", MAPS_PATH, {"data": BOMB, "headers": YAML}, 400, "values"),
        ("POST", MAPS_PATH, {"data": b"a: " + b"9" * 5000, "headers": YAML}, 400, "cannot be read"),
        ("POST", MAPS_PATH, {"data": b"a: !!int b", "headers": YAML}, 400, "cannot be read"),
        ("PATCH", f"{PODS_PATH}/web", {"data": b'[{"op":"add","path":"/spec/containers/\xc2\xb2","value":1}]',
                                       "headers": JSON_PATCH}, 422, "error in our request"),
        ("GET", f"{PODS_PATH}?resourceVersion={'9' * 6000}", {}, 400, "resourceVersion: Invalid value"),
        ("GET", f"{PODS_PATH}?watch=1&timeoutSeconds=1{'0' * 400}", {}, 400, "64 bits"),
        ("GET", f"{PODS_PATH}?watch=1&resourceVersion={'9' * 6000}", {}, 400, "resourceVersion: Invalid value"),
        ("POST", MAPS_PATH, {"data": b"k8s\0\n" + b"\xff" * 1_000_000, "headers": PROTOBUF}, 400, "is broken"),
        ("POST", f"{PODS_PATH}/web/binding", {"json": {"target": {"name": ["node-1"]}}}, 400, "target.name"),
        ("POST", "/api/v1/namespaces/default/bindings", {"json": {"metadata": []}}, 400, "Binding.metadata"),
        ("POST", f"{PODS_PATH}/web/eviction", {"json": {"deleteOptions": 5}}, 400, "deleteOptions"),
        ("DELETE", f"{PODS_PATH}/web", {"json": {"preconditions": [1]}}, 400, "preconditions"),
        ("DELETE", f"{PODS_PATH}/web", {"json": {"gracePeriodSeconds": "soon"}}, 400, "gracePeriodSeconds"),
        ("DELETE", f"{PODS_PATH}/web?gracePeriodSeconds=--5", {}, 400, "not a whole number"),
        ("POST", REVIEW_PATH, {"json": {"spec": 5}}, 400, "spec must be an object"),
        ("PUT", SCALE_PATH, {"json": {"spec": 5}}, 400, "must be objects"),
        ("PUT", SCALE_PATH, {"json": {"spec": {"replicas": 99_999_999_999}}}, 400, "whole number"),
    ],
)  # fmt: skip
async def test_what_is_malformed_is_the_clients_fault(client, store, caplog, method, path, options, status, why):
    store.create(PODS, "default", pod())
    store.create(DEPLOYMENTS, "default", deployment())
    before = store.revision
    seen, body = await client.send(method, path, **options)
    assert seen == status and why in body["message"], body
    assert store.revision == before
    assert caplog.records == []


MILLION = {
    "containers": b'{"metadata":{"name":"a"},"spec":{"containers":[' + b"{}," * 899_999 + b"{}]}}",
    "keys": b'{"metadata":{"name":"a"},"data":{' + b",".join(b'"%d":""' % n for n in range(200_000)) + b"}}",
    "numbers": b'{"metadata":{"name":"a"},"data":[' + b"1," * 1_000_000 + b"1]}",
}


@pytest.mark.parametrize("what", MILLION)
async def test_a_million_values_are_refused_before_anybody_looks_at_them(client, store, what, monkeypatch):
    """A pod with 900,000 containers took 10 s and was answered with 260 MB."""
    looked_at = []
    monkeypatch.setattr(FieldCheck, "run", lambda *_: looked_at.append(1))
    path = PODS_PATH if what == "containers" else MAPS_PATH
    for method, target, headers in (("POST", path, {}), ("PATCH", f"{path}/a", MERGE_PATCH)):
        async with client.session.request(
            method, client.url + target, data=io.BytesIO(MILLION[what]), headers=headers
        ) as response:
            body = await response.read()
        assert response.status == 413 and len(body) < 1000, body[:200]
    assert looked_at == []


async def test_ten_thousand_mistakes_are_told_in_a_few_words(client):
    containers = [{"name": f"Not A Name {number}", "image": " "} for number in range(9_000)]
    spec = {"containers": containers, "restartPolicy": "x" * 100_000}
    async with client.session.post(client.url + PODS_PATH, json={"metadata": {"name": "a"}, "spec": spec}) as response:
        raw = await response.read()
    body = json.loads(raw)
    assert response.status == 422 and len(raw) < 250_000
    assert len(body["details"]["causes"]) == MAX_CAUSES
    assert len(body["message"]) < 20_000
    assert str(18_001 - MAX_CAUSES) in body["message"] or "more characters" in body["message"]


async def test_a_few_mistakes_in_huge_values(client):
    for spec in (
        {"containers": [{"name": "x" * 1_000_000, "image": "a"}]},
        {"nodeSelector": {"k" * 1_000_000: "v"}, "containers": []},
        {"containers": [], "restartPolicy": "x" * 1_000_000},
        {"tolerations": [{"operator": "x" * 1_000_000, "key": "a"}], "containers": []},
    ):
        async with client.session.post(
            client.url + PODS_PATH, json={"metadata": {"name": "a"}, "spec": spec}
        ) as response:
            assert response.status == 422 and len(await response.read()) < 20_000


async def test_a_long_key_is_not_repeated_for_all_that_it_holds(client):
    """Each path was made of all keys above: a megabyte of key times fifty thousand fields."""
    path = "/apis/resource.k8s.io/v1/resourceslices"
    attributes = {"k" * 1_000_000: {f"x{number}": 1 for number in range(30_000)}}
    device = {"name": "a", "attributes": attributes}
    sent = io.BytesIO(json.dumps({"metadata": {"name": "a"}, "spec": {"devices": [device]}}).encode())
    status, body = await client.send("POST", f"{path}?fieldValidation=Strict", data=sent)
    assert status == 400 and len(body["message"]) < 20_000 and "unknown field" in body["message"]


async def test_an_object_does_not_grow_without_end(client, store):
    await client.post(MAPS_PATH, config_map())
    grown = [
        (await client.patch(f"{MAPS_PATH}/settings", {"data": {f"k{number}": "x" * 500_000}}))[0] for number in range(5)
    ]
    assert grown == [200, 200, 200, 413, 413]
    assert store.get(CONFIG_MAPS, "default", "settings")["data"].keys() == {"k0", "k1", "k2"}
    # One that is too large already may still become smaller.
    status, _ = await client.patch(f"{MAPS_PATH}/settings", {"data": {"k0": None}})
    assert status == 200


async def test_a_negative_limit_is_none(client):
    await client.post(MAPS_PATH, config_map())
    status, body = await client.get(f"{MAPS_PATH}?limit=-1")
    assert (status, len(body["items"]), body["metadata"].get("continue")) == (200, 1, None)


async def test_a_grace_period_beyond_the_calendar(client, store):
    store.create(PODS, "default", pod(nodeName="node-1", terminationGracePeriodSeconds=2**63 - 1))
    status, gone = await client.send("DELETE", f"{PODS_PATH}/web")
    assert status == 200 and gone["metadata"]["deletionTimestamp"]


async def test_copies_of_copies_are_refused_before_they_are_made(client):
    await client.post(MAPS_PATH, config_map(text="x" * 1000))
    doubling = [{"op": "copy", "from": "/data", "path": f"/data/{number}"} for number in range(64)]
    status, body = await client.patch(f"{MAPS_PATH}/settings", doubling, kind="json-patch+json")
    assert status == 413 and str(MAX_COPIED_BYTES) in body["message"]


async def test_warnings_fit_into_headers(client):
    unknown = {f"field-{number}": 1 for number in range(5000)}
    options = {"data": json.dumps({**config_map(), **unknown})}
    async with client.session.post(client.url + MAPS_PATH, **options) as response:
        assert response.status == 201
        assert 0 < sum(map(len, response.headers.getall("Warning"))) < 8000


async def test_a_warning_cannot_bring_a_header_of_its_own(client):
    body = json.dumps({**config_map(), "x\r\nSet-Cookie: a": 1})
    async with client.session.post(client.url + MAPS_PATH, data=body) as response:
        assert response.status == 201
        assert response.headers.getall("Warning") == ['299 - "unknown field \\"x\ufffd\ufffdSet-Cookie: a\\""']
        assert "Set-Cookie" not in response.headers


async def test_one_field_twice_among_very_many(client):
    fields = ",".join(f'"k{number}":"v"' for number in range(40_000))
    body = f'{{"metadata":{{"name":"a"}},"data":{{"k1":"v",{fields}}}}}'
    data = io.BytesIO(body.encode())
    status, answer = await client.send("POST", f"{MAPS_PATH}?fieldValidation=Strict", data=data)
    assert status == 400 and 'duplicate field "data.k1"' in answer["message"]


def test_yaml_with_aliases_is_read():
    assert load_yaml(b"a: &x {b: [1, 2]}\nc: *x\nd: &y e\nf: *y") == {
        "a": {"b": [1, 2]}, "c": {"b": [1, 2]}, "d": "e", "f": "e",
    }  # fmt: skip


@pytest.mark.parametrize("depth", [yaml_census.MAX_DEPTH, yaml_census.MAX_DEPTH + 1])
def test_yaml_may_be_nested_so_deeply(depth):
    body = b"[" * depth + b"]" * depth
    if depth <= yaml_census.MAX_DEPTH:
        assert load_yaml(body) is not None
    else:
        with pytest.raises(UnreasonableYAML, match="levels deep"):
            load_yaml(body)


def test_yaml_that_contains_itself():
    with pytest.raises(UnreasonableYAML, match=r"\*a stands inside"):
        load_yaml(b"&a [1, *a]")


def test_yaml_with_an_alias_of_nothing():
    with pytest.raises(yaml.YAMLError, match="undefined alias"):
        load_yaml(b"a: *nothing")


def test_yaml_has_the_values_that_json_has():
    """As sigs.k8s.io/yaml reads it: no dates, no numbers in base 60."""
    text = b"a: 2001-99-99\nb: 2026-01-01T00:00:00Z\nc: 12:30:45\nd: 1:30.5\ne: 10\nf: 1.5\ng: !!int '7'"
    assert load_yaml(text) == {
        "a": "2001-99-99", "b": "2026-01-01T00:00:00Z", "c": "12:30:45", "d": "1:30.5", "e": 10, "f": 1.5, "g": 7,
    }  # fmt: skip
