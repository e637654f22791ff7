"""Whatever comes in, an answer goes out that says so: never a 500, never a long one, and never a long wait."""

import asyncio
import json
import struct
from urllib.parse import urlencode

import pytest
from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as some

from berth_cluster.apimachinery import protobuf
from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.releases import release
from berth_cluster.serving.access import ClusterAuthenticator
from berth_cluster.serving.app import Application
from packages.cluster.tests.apimachinery.test_patch_limits import VALUES, made
from packages.cluster.tests.objects import make_store
from tests.effort import calls, examples

EXPECTED_5XX = (501, 504)  # what a hollow node has not got, and a version that is not there yet
CALLS, CALLS_A_BYTE = 60_000, 10  # that one request may cost: three times what was seen

FUZZ = settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module")
def served():
    with asyncio.Runner() as runner:
        yield runner, Application(made(make_store()), ClusterAuthenticator("t"), release(), lambda _: True)


def ask(served, method, path, *, body=b"", headers=None):
    """One request without sockets; the status, and the answer unless it was sent in pieces."""
    runner, app = served

    async def answered():
        loop = asyncio.get_running_loop()
        payload = StreamReader(BaseProtocol(loop), 2**20, loop=loop)
        payload.feed_data(body)
        payload.feed_eof()
        sent = {"Authorization": "Bearer t", "Content-Length": str(len(body)), **(headers or {})}
        response = await app(make_mocked_request(method, path, headers=sent, payload=payload))
        return response.status, getattr(response, "body", b"") or b""

    status, answer = 0, b""

    def run():
        nonlocal status, answer
        status, answer = runner.run(answered())

    made, size = calls(run), len(path) + len(body) + sum(map(len, (headers or {}).values()))
    assert made < CALLS + CALLS_A_BYTE * size, (method, path[:500], headers, body[:500])
    assert status < 500 or status in EXPECTED_5XX, (method, path, headers, body[:500], answer[:500])
    return status, answer


TEXT = some.one_of(
    some.text(max_size=20),
    some.text(alphabet="abAB,=!()<>.-_/ \t\u0000%09inotexists", max_size=40),
    some.sampled_from(["a in (b,c)", "a notin ()", "!a", "a==b", "a>1", "metadata.name=web", "spec.nodeName!=", "="]),
)
KIND = some.sampled_from(
    ["pods", "nodes", "configmaps", "events", "services", "persistentvolumeclaims", "bindings", "nothing"]
)
PATHS = some.one_of(
    some.builds(lambda kind: f"/api/v1/{kind}", KIND),
    some.builds(lambda kind: f"/api/v1/namespaces/default/{kind}", KIND),
    some.builds(
        lambda kind, sub: f"/api/v1/namespaces/default/{kind}/web{sub}",
        KIND,
        some.sampled_from(["", "/status", "/binding", "/eviction", "/resize", "/log", "/nothing", "/a/b"]),
    ),
    some.sampled_from(
        ["/apis/apps/v1/namespaces/default/deployments/web/scale", "/apis/resource.k8s.io/v1/resourceslices",
         "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/web", "/apis/events.k8s.io/v1/events",
         "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups", "/apis/policy/v1/poddisruptionbudgets",
         "/apis/authorization.k8s.io/v1/subjectaccessreviews", "/apis/authentication.k8s.io/v1/tokenreviews",
         "/apis", "/api", "/openapi/v3/x", "/", "/version", "/healthz/x", "/api/v1/namespaces/web/finalize"]
    ),
)  # fmt: skip
QUERIES = some.dictionaries(
    some.sampled_from(
        ["labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "resourceVersionMatch", "dryRun",
         "sendInitialEvents", "fieldValidation", "gracePeriodSeconds", "propagationPolicy", "includeObject", "pretty"]
    ),
    some.one_of(TEXT, some.integers(-(2**70), 2**70).map(str), some.sampled_from(["All", "Strict", "Exact", "0"])),
    max_size=4,
)  # fmt: skip
BODIES = some.one_of(VALUES.map(lambda value: json.dumps(value).encode()), some.binary(max_size=60))
CONTENT_TYPES = some.sampled_from(
    ["", "application/json", "application/yaml", "application/json-patch+json", "application/merge-patch+json",
     "application/strategic-merge-patch+json", "application/apply-patch+yaml", "application/vnd.kubernetes.protobuf",
     "text/html", "application/json; charset=x"]
)  # fmt: skip
ACCEPTS = some.one_of(
    some.sampled_from(
        ["", "*/*", "application/json", "application/json;as=Table;v=v1;g=meta.k8s.io",
         "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "application/json;as=;v="]
    ),
    some.text(alphabet="abc/*;=, .q0", max_size=30),
)  # fmt: skip


@FUZZ
@given(path=PATHS, query=QUERIES, accept=ACCEPTS)
@example(path="/api/v1/pods", query={"labelSelector": "a" * 100_000}, accept="")
@example(path="/api/v1/pods", query={"labelSelector": "a in (" + "b," * 50_000 + "b)"}, accept="")
@example(path="/api/v1/pods", query={"labelSelector": "(" * 50_000}, accept="")
@example(path="/api/v1/pods", query={"labelSelector": ",".join(["a=b"] * 20_000)}, accept="")
@example(path="/api/v1/pods", query={"fieldSelector": ",".join(["metadata.name=b"] * 20_000)}, accept="")
@example(path="/api/v1/pods", query={"continue": "W10="}, accept="")
@example(path="/api/v1/pods", query={"continue": "WzEsImEiLCJiIl0="}, accept="")
@example(path="/api/v1/pods", query={"continue": "Wy01LCJhIiwiYiJd"}, accept="")
@example(path="/api/v1/pods", query={"continue": "WzFlOTk5LCJhIiwiYiJd"}, accept="")
@example(path="/api/v1/pods", query={"continue": "é" * 1000}, accept="")
@example(path="/api/v1/pods", query={"limit": "9" * 5000}, accept="")
@example(path="/api/v1/pods", query={}, accept=",".join(["application/json;as=x"] * 5000))
def test_reading(served, path, query, accept):
    status, answer = ask(served, "GET", f"{path}?{urlencode(query)}", headers={"Accept": accept})
    assert status == 200 or len(answer) < 300_000


@FUZZ
@given(
    method=some.sampled_from(["POST", "PUT", "PATCH", "DELETE"]),
    path=PATHS,
    query=QUERIES,
    body=BODIES,
    content_type=CONTENT_TYPES,
)
@example("POST", "/api/v1/namespaces/default/pods", {}, b'{"metadata":{"name":"a","labels":{"a":{}}}}', "")
@example("POST", "/api/v1/namespaces/default/pods", {}, b'{"metadata":{"generateName":5},"spec":[]}', "")
@example("POST", "/api/v1/namespaces/default/events", {}, b'{"metadata":{"name":[]}}', "")
@example("POST", "/api/v1/namespaces/default/configmaps", {}, b'{"metadata":null}', "")
@example("PUT", "/api/v1/namespaces/default/pods/web", {}, b'{"metadata":{"resourceVersion":5}}', "")
@example("DELETE", "/api/v1/namespaces/default/pods/web", {}, b'{"preconditions":{"uid":5}}', "")
@example(
    "PATCH",
    "/api/v1/nodes/web",
    {},
    b'{"status":{"capacity":{"cpu":"' + b"9" * 5000 + b'"}}}',
    "application/merge-patch+json",
)
def test_writing(served, method, path, query, body, content_type):
    status, answer = ask(
        served, method, f"{path}?{urlencode(query)}", body=body, headers={"Content-Type": content_type}
    )
    assert status < 300 or len(answer) < 300_000


# --- protobuf --------------------------------------------------------------------------------------------------------


def varint(number):
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value % 2**64)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    return varint(number << 3 | 2) + varint(len(value)) + value


FIELDS = some.recursive(
    some.one_of(some.integers(0, 2**64), some.floats(), some.binary(max_size=8), some.just(b"web")),
    lambda inner: some.lists(some.tuples(some.integers(1, 20), inner), max_size=6).map(
        lambda fields: b"".join(field(*one) for one in fields)
    ),
    max_leaves=20,
)


def wrapped(version, kind, raw):
    return protobuf.MAGIC + field(1, field(1, version) + field(2, kind)) + field(2, raw)


@FUZZ
@given(
    kind=some.sampled_from([(b"v1", b"Pod"), (b"v1", b"Node"), (b"apps/v1", b"Deployment"), (b"v1", b"Event"),
                            (b"coordination.k8s.io/v1", b"Lease"), (b"v1", b"DeleteOptions"), (b"", b"")]),
    raw=FIELDS,
    cut=some.integers(0, 400),
)  # fmt: skip
@example(kind=(b"coordination.k8s.io/v1", b"Lease"), raw=field(2, field(3, field(1, 2**62))), cut=400)
@example(kind=(b"v1", b"Pod"), raw=field(1, 5), cut=400)
@example(kind=(b"v1", b"Pod"), raw=field(2, field(2, field(1, 5))), cut=400)
def test_protobuf(kind, raw, cut):
    raw = raw if isinstance(raw, bytes) else field(1, raw)
    try:
        json.dumps(protobuf.decode(wrapped(*kind, raw)[: cut + 10]), allow_nan=False)
    except StoreError as error:
        refusal = error
    else:
        return
    assert 400 <= refusal.status_code < 500


def test_a_million_empty_messages_are_not_all_read():
    def decode(count):
        raw = field(2, field(2, b"") * count)  # empty containers of a pod
        with pytest.raises(StoreError, match="too many values") as caught:
            protobuf.decode(wrapped(b"v1", b"Pod", raw))
        assert caught.value.status_code == 413

    decode(700_000)
    assert calls(lambda: decode(1_400_000)) < 2 * calls(lambda: decode(700_000))
