"""The HTTP face of the store: verbs, options, errors, access."""

import io
import stat

import pytest

from packages.cluster.tests.objects import CONFIG_MAPS, PODS, config_map, pod

PODS_PATH = "/api/v1/namespaces/default/pods"
MAPS_PATH = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health_is_for_everybody(client, path):
    async with client.session.get(client.url + path, headers={"Authorization": ""}) as response:
        assert (response.status, await response.text()) == (200, "ok")


@pytest.mark.parametrize("authorization", ["", "Bearer wrong", "Basic YWRtaW46"])
async def test_everything_else_needs_the_token(client, authorization):
    for path in ("/api", "/version", PODS_PATH, "/debug/bindings"):
        status, body = await client.get(path, headers={"Authorization": authorization})
        assert status == 401
        assert (body["kind"], body["reason"], body["code"]) == ("Status", "Unauthorized", 401)


async def test_requests_are_counted_by_verb_and_resource(client):
    for name in ("a", "b"):
        await client.post(PODS_PATH, pod(name))
    await client.post("/api/v1/namespaces/default/pods/a/binding", {"target": {"name": "node-1"}})
    await client.get(PODS_PATH)
    await client.get("/api/v1/namespaces/default/nothings")
    async with client.session.get(f"{client.url}/metrics") as response:
        told = [line for line in (await response.text()).splitlines() if line.startswith("apiserver_request_total")]
    labels = 'verb="{}",version="v1"'
    assert sorted(told) == sorted(
        f'apiserver_request_total{{group="",resource="pods",subresource="{sub}",{labels.format(verb)}}} {count}'
        for verb, sub, count in [("POST", "", 2.0), ("POST", "binding", 1.0), ("LIST", "", 1.0)]
    )


def test_the_kubeconfig_is_its_owners_alone(server):
    assert stat.S_IMODE(server.kubeconfig.stat().st_mode) == 0o600


async def test_an_objects_life(client):
    status, made = await client.post(MAPS_PATH, config_map(color="red"))
    assert (status, made["kind"]) == (201, "ConfigMap")
    status, _ = await client.send("PUT", f"{MAPS_PATH}/settings", {**made, "data": {"color": "blue"}})
    assert status == 200
    status, body = await client.send("PUT", f"{MAPS_PATH}/settings", {**made, "data": {"color": "green"}})
    assert (status, body["reason"]) == (409, "Conflict")
    status, patched = await client.patch(f"{MAPS_PATH}/settings", {"data": {"size": "xl"}})
    assert (status, patched["data"]) == (200, {"color": "blue", "size": "xl"})
    status, listed = await client.get(MAPS_PATH)
    assert (listed["kind"], len(listed["items"])) == ("ConfigMapList", 1)
    status, gone = await client.send("DELETE", f"{MAPS_PATH}/settings")
    assert (status, gone["kind"], gone["status"]) == (200, "Status", "Success")
    assert gone["details"] == {"name": "settings", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    status, body = await client.get(f"{MAPS_PATH}/settings")
    assert (status, body["message"]) == (404, 'configmaps "settings" not found')


async def test_binding_and_its_record(client, store):
    await client.post(PODS_PATH, pod())
    status, body = await client.post(f"{PODS_PATH}/web/binding", {"target": {"name": "node-1"}})
    assert (status, body["status"]) == (201, "Success")
    again = {"metadata": {"name": "web"}, "target": {"name": "node-2"}}
    status, body = await client.post("/api/v1/namespaces/default/bindings", again)
    assert (status, body["reason"]) == (409, "Conflict")
    _, record = await client.get("/debug/bindings")
    assert [(item["node"], item["accepted"]) for item in record["items"]] == [("node-1", True), ("node-2", False)]
    assert record["items"][0]["podUid"] == store.get(PODS, "default", "web")["metadata"]["uid"]


async def test_a_pod_is_answered_with_itself_when_deleted(client):
    await client.post(PODS_PATH, pod())
    await client.post(f"{PODS_PATH}/web/binding", {"target": {"name": "node-1"}})
    status, body = await client.send("DELETE", f"{PODS_PATH}/web?gracePeriodSeconds=5")
    assert (status, body["kind"], body["metadata"]["deletionGracePeriodSeconds"]) == (200, "Pod", 5)
    status, body = await client.send("DELETE", f"{PODS_PATH}/web", {"gracePeriodSeconds": 0})
    assert status == 200
    assert (await client.get(f"{PODS_PATH}/web"))[0] == 404


async def test_a_refused_eviction(client, store):
    obj = pod()
    obj["metadata"]["labels"] = {"app": "web"}
    made = store.create(PODS, "default", obj)
    store.bind("default", "web", {"target": {"name": "n"}})
    made["metadata"]["resourceVersion"] = ""
    store.update(PODS, "default", "web", {**made, "status": {"phase": "Running"}}, "status")
    budget = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "web"}}}}
    await client.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"}}
    async with client.session.post(f"{client.url}{PODS_PATH}/web/eviction", json=eviction) as response:
        body = await response.json()
        assert (response.status, body["reason"]) == (429, "TooManyRequests")
        assert response.headers["Retry-After"] == "10"


async def test_lists_in_pages_and_by_selector(client, store):
    for name in ("a", "b", "c", "d"):
        obj = config_map(name)
        obj["metadata"]["labels"] = {"half": "first" if name in "ab" else "second"}
        store.create(CONFIG_MAPS, "default", obj)
    _, page = await client.get(f"{MAPS_PATH}?limit=3")
    assert page["metadata"]["remainingItemCount"] == 1
    token = page["metadata"]["continue"]
    store.delete(CONFIG_MAPS, "default", "d")
    _, rest = await client.get(f"{MAPS_PATH}?limit=3&continue={token}")
    assert [item["metadata"]["name"] for item in rest["items"]] == ["d"]
    _, half = await client.get("/api/v1/configmaps?labelSelector=half%3Dsecond")
    assert [item["metadata"]["name"] for item in half["items"]] == ["c"]


@pytest.mark.parametrize(
    ("query", "expected", "more"),
    [
        ("limit=2", ["a", "b"], True),
        ("limit=2&resourceVersion=0", ["a", "b", "d"], False),
        ("resourceVersion=0", ["a", "b", "d"], False),
        ("resourceVersion={then}", ["a", "b", "d"], False),
        ("resourceVersion={then}&resourceVersionMatch=NotOlderThan", ["a", "b", "d"], False),
        ("resourceVersion={then}&resourceVersionMatch=Exact", ["a", "b", "c"], False),
        ("resourceVersion={then}&limit=2", ["a", "b"], True),
        ("resourceVersion={then}&limit=3", ["a", "b", "c"], False),
    ],
)
async def test_the_version_that_a_list_shows(client, store, query, expected, more):
    for name in ("a", "b", "c"):
        store.create(CONFIG_MAPS, "default", config_map(name))
    then = store.revision
    store.delete(CONFIG_MAPS, "default", "c")
    store.create(CONFIG_MAPS, "default", config_map("d"))
    _, listed = await client.get(f"{MAPS_PATH}?{query.format(then=then)}")
    assert [item["metadata"]["name"] for item in listed["items"]] == expected
    assert ("continue" in listed["metadata"]) is more
    shows_the_past = "Exact" in query or ("{then}" in query and "limit" in query)
    assert listed["metadata"]["resourceVersion"] == str(then if shows_the_past else store.revision)


@pytest.mark.parametrize(
    ("query", "status", "reason"),
    [
        ("continue=nonsense", 400, "BadRequest"),
        ("limit=many", 400, "BadRequest"),
        ("resourceVersion=abc", 400, "BadRequest"),
        ("resourceVersion=999999", 504, "Timeout"),
        ("fieldSelector=spec.color%3Dred", 400, "BadRequest"),
        ("labelSelector=a%3D%3D%3Db", 400, "BadRequest"),
        ("resourceVersionMatch=Exact", 422, "Invalid"),
        ("resourceVersionMatch=Exact&resourceVersion=0", 422, "Invalid"),
        ("resourceVersionMatch=Sometimes&resourceVersion=1", 422, "Invalid"),
        ("sendInitialEvents=true", 422, "Invalid"),
        ("watch=1&sendInitialEvents=true", 422, "Invalid"),
        ("watch=1&sendInitialEvents=true&resourceVersionMatch=Exact", 422, "Invalid"),
        ("watch=1&resourceVersionMatch=NotOlderThan", 422, "Invalid"),
    ],
)
async def test_lists_that_are_refused(client, query, status, reason):
    seen, body = await client.get(f"{PODS_PATH}?{query}")
    assert (seen, body["reason"]) == (status, reason), body["message"]


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "why"),
    [
        ("POST", PODS_PATH, {"data": b"{broken"}, 400, "cannot be read as"),
        ("POST", PODS_PATH, {"data": b""}, 400, "has no body"),
        ("POST", PODS_PATH, {"data": b"[1]"}, 400, "expected a JSON object"),
        ("POST", PODS_PATH, {"json": {"kind": "Node"}}, 400, "must be of type Pod"),
        ("POST", PODS_PATH, {"json": {"apiVersion": "v2"}}, 400, "does not match the expected API version"),
        ("POST", f"{PODS_PATH}?dryRun=Some", {"json": pod()}, 400, "dryRun: Unsupported value"),
        ("POST", PODS_PATH, {"data": io.BytesIO(b"x" * (3 * 1024 * 1024 + 1))}, 413, "limit is 3145728"),
        ("POST", "/api/v1/pods", {"json": pod()}, 405, "does not allow this method"),
        ("POST", f"{PODS_PATH}/web", {"json": pod()}, 405, "does not allow this method"),
        ("PATCH", f"{PODS_PATH}/web", {"data": b"{}"}, 415, "accepted media types include"),
        ("GET", f"{PODS_PATH}/web/nonsense", {}, 404, "could not find the requested resource"),
        ("GET", f"{PODS_PATH}/web/log?container=other", {}, 400, "container other is not valid for pod web"),
        ("POST", f"{PODS_PATH}/web/exec", {}, 501, "hollow nodes run no containers"),
        ("GET", f"{PODS_PATH}/nobody/log", {}, 404, 'pods "nobody" not found'),
        ("GET", "/apis/apps/v1/gadgets", {}, 404, "could not find the requested resource"),
        ("GET", "/nonsense", {}, 404, "could not find the requested resource"),
        ("GET", PODS_PATH, {"headers": {"Accept": "text/html"}}, 406, "application/json"),
    ],
)
async def test_requests_that_make_no_sense(client, store, method, path, options, status, why):
    store.create(PODS, "default", pod())
    seen, body = await client.send(method, path, **options)
    assert seen == status and why in body["message"], body
    assert (body["kind"], body["status"], body["code"]) == ("Status", "Failure", status)
    assert status not in (404, 405) or "details" in body, "which kubectl takes for granted"


@pytest.mark.parametrize(
    ("validation", "status", "warnings"),
    [
        ("", 201, ['299 - "unknown field \\"spec.oops\\""']),
        ("?fieldValidation=Warn", 201, ['299 - "unknown field \\"spec.oops\\""']),
        ("?fieldValidation=Ignore", 201, []),
        ("?fieldValidation=Strict", 400, []),
        ("?fieldValidation=Never", 400, []),
    ],
)
async def test_unknown_fields(client, validation, status, warnings):
    async with client.session.post(f"{client.url}{PODS_PATH}{validation}", json=pod(oops=1)) as response:
        body = await response.json()
        assert response.status == status
        assert response.headers.getall("Warning", []) == warnings
    assert "oops" not in body.get("spec", {})
    if validation.endswith("Strict"):
        assert body["message"] == (
            'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.oops"'
        )


async def test_a_field_that_comes_twice(client):
    twice = b'{"metadata":{"name":"a"},"data":{"x":"1"},"data":{"x":"2"}}'
    status, body = await client.send("POST", f"{MAPS_PATH}?fieldValidation=Strict", data=twice)
    assert status == 400 and 'duplicate field "data"' in body["message"]


async def test_a_dry_run_changes_nothing(client, store):
    status, made = await client.post(f"{MAPS_PATH}?dryRun=All", config_map())
    assert (status, made["kind"]) == (201, "ConfigMap")
    assert store.list(CONFIG_MAPS, "default")[0] == []


async def test_yaml_is_read_too(client):
    headers = {"Content-Type": "application/yaml"}
    status, made = await client.send("POST", MAPS_PATH, data=b"metadata: {name: a}\ndata: {x: y}\n", headers=headers)
    assert (status, made["data"]) == (201, {"x": "y"})


async def test_applying_creates_and_merges(client):
    for manager, data in (("me", {"a": "1"}), ("you", {"b": "2"}), ("me", {"c": "3"})):
        path = f"{MAPS_PATH}/settings?fieldManager={manager}"
        status, body = await client.patch(path, {"data": data}, "apply-patch+yaml")
        assert status in (200, 201)
    assert body["data"] == {"b": "2", "c": "3"}
    status, body = await client.patch(f"{MAPS_PATH}/settings", {"data": {}}, "apply-patch+yaml")
    assert status == 422 and "fieldManager: Required value: is required for apply patch" in body["message"]


@pytest.mark.parametrize(
    ("applied", "why"),
    [
        ({"metadata": "x"}, "(/; apps/v1, Kind=Deployment): .metadata: expected map, got &{x}"),
        ({"metadata": {"name": "web", "namespace": "default"}, "spec": {"mood": "good"}},
         "(default/web; apps/v1, Kind=Deployment): .spec.mood: field not declared in schema"),
        ({"spec": {"template": {"spec": {"containers": [{"name": "a", "size": 1}], "x": 1}}}},
         ("(/; apps/v1, Kind=Deployment): errors:\n"
         '  .spec.template.spec.containers[name="a"].size: field not declared in schema\n'
         "  .spec.template.spec.x: field not declared in schema")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("validation", ["", "&fieldValidation=Strict"])
async def test_what_is_applied_has_the_type_of_its_kind(client, applied, why, validation):
    """As upstream's typed.ParseableType says it (sigs.k8s.io/structured-merge-diff), whatever the validation."""
    path = f"/apis/apps/v1/namespaces/default/deployments/web?fieldManager=me{validation}"
    status, body = await client.patch(path, applied, "apply-patch+yaml")
    assert (status, body["message"]) == (500, f"failed to create typed patch object {why}")


async def test_a_collection_is_deleted(client, store):
    for name in ("a", "b"):
        store.create(CONFIG_MAPS, "default", config_map(name))
    status, body = await client.send("DELETE", f"{MAPS_PATH}?fieldSelector=metadata.name%3Da")
    assert (status, [item["metadata"]["name"] for item in body["items"]]) == (200, ["a"])
    assert [obj["metadata"]["name"] for obj in store.list(CONFIG_MAPS, "default")[0]] == ["b"]


async def test_tables_and_metadata(client, store):
    store.create(PODS, "default", pod())
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    _, body = await client.get(PODS_PATH, headers=table)
    assert (body["kind"], body["rows"][0]["cells"][:3]) == ("Table", ["web", "0/1", "Pending"])
    _, body = await client.get(f"{PODS_PATH}/web", headers=table)
    assert body["kind"] == "Table"
    partial = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
    _, body = await client.get(PODS_PATH, headers=partial)
    assert body["kind"] == "PartialObjectMetadataList" and "spec" not in body["items"][0]


async def test_events_in_both_groups(client):
    event = {"metadata": {"name": "web.1"}, "regarding": {"kind": "Pod", "name": "web"}, "note": "hi", "reason": "R"}
    await client.post("/apis/events.k8s.io/v1/namespaces/default/events", event)
    _, old = await client.get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dweb")
    assert (old["apiVersion"], [item["message"] for item in old["items"]]) == ("v1", ["hi"])
    _, new = await client.get("/apis/events.k8s.io/v1/events?fieldSelector=regarding.kind%3DPod,reason%3DR")
    assert (new["apiVersion"], [item["note"] for item in new["items"]]) == ("events.k8s.io/v1", ["hi"])


async def test_reviews(client, server):
    attributes = {"spec": {"resourceAttributes": {"verb": "create", "resource": "pods"}}}
    status, body = await client.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", attributes)
    assert (status, body["status"]["allowed"]) == (201, True)
    for token, expected in ((server.token, True), ("wrong", None)):
        review = {"spec": {"token": token}}
        _, body = await client.post("/apis/authentication.k8s.io/v1/tokenreviews", review)
        assert body["status"].get("authenticated") is expected


async def test_a_bug_is_a_status_and_is_logged(client, store, caplog, monkeypatch):
    def broken(*args, **options):
        raise ZeroDivisionError

    monkeypatch.setattr(type(store), "create", broken)
    status, body = await client.post(MAPS_PATH, config_map())
    assert (status, body["reason"]) == (500, "InternalError")
    assert "because of a bug" in caplog.text


async def test_what_nothing_acts_on_is_stored_with_a_warning(client):
    path = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
    policy = {"metadata": {"name": "deny"}, "spec": {"podSelector": {}}}
    async with client.session.post(client.url + path, json=policy) as response:
        assert response.status == 201
        assert response.headers["Warning"] == (
            '299 - "NetworkPolicy is stored, and nothing in this cluster acts on it"'
        )
    assert (await client.get(f"{path}/deny"))[1]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"]}


async def test_a_review_has_no_table(client):
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    review = {"spec": {"nonResourceAttributes": {"verb": "get", "path": "/"}}}
    headers = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    status, body = await client.post(path, review, headers=headers)
    assert (status, body["reason"]) == (406, "NotAcceptable")


REPEATED_JSON = '{"metadata":{"name":"x","labels":{"a":"1","a":"2"}},"data":{"b":"1","b":"2","b":"3"}}'
REPEATED_YAML = "metadata: {name: x}\ndata:\n  b: '1'\n  b: '2'\nlost: 1\n"


@pytest.mark.parametrize(
    ("kind", "text", "strict", "warnings"),
    [
        (
            "json",
            REPEATED_JSON,
            'duplicate field "metadata.labels.a", duplicate field "data.b"',
            ['duplicate field \\"metadata.labels.a\\"', 'duplicate field \\"data.b\\"'],
        ),
        (
            "yaml",
            REPEATED_YAML,
            'yaml: unmarshal errors:\n  line 4: key "b" already set in map, unknown field "lost"',
            ['line 4: key \\"b\\" already set in map', 'unknown field \\"lost\\"'],
        ),
    ],
)
async def test_fields_that_are_said_twice(client, kind, text, strict, warnings):
    """What a stock API server 1.36 says of such bodies."""
    headers = {"Content-Type": f"application/{kind}"}
    path = f"{client.url}{MAPS_PATH}?fieldValidation="
    async with client.session.post(f"{path}Strict", data=text, headers=headers) as response:
        assert (response.status, (await response.json())["message"].partition("error: ")[2]) == (400, strict)
    async with client.session.post(f"{path}Warn", data=text, headers=headers) as response:
        said = [each.removeprefix('299 - "').removesuffix('"') for each in response.headers.getall("Warning")]
        assert (response.status, said) == (201, warnings)
