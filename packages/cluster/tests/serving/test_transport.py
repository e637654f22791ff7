"""The transport over the store behaves as HTTP to an API server would."""

import asyncio

import msgspec
import pytest

from berth.api.errors import ApiError
from berth.api.resources import RESOURCES, Resource
from berth.kube.transport import Transport
from berth_cluster.serving.transport import StoreTransport
from packages.cluster.tests.objects import PODS, make_store, pod

POD = RESOURCES["Pod"]
EVENT = RESOURCES["Event"]


def encode(obj):
    return msgspec.json.encode(obj)


def decode(body):
    return msgspec.json.decode(body)


@pytest.fixture
def store():
    return make_store()


@pytest.fixture
def transport(store):
    made: Transport = StoreTransport(store)
    return made


async def test_a_pods_life(transport):
    made = decode(await transport.create(POD, "default", encode(pod())))
    assert made["status"]["phase"] == "Pending"
    await transport.bind("default", "web", encode({"target": {"kind": "Node", "name": "node-1"}}))
    patch = encode({"status": {"message": "hello"}})
    content_type = "application/strategic-merge-patch+json"
    await transport.patch(POD, "default", "web", patch, content_type, subresource="status")
    seen = decode(await transport.get(POD, "default", "web"))
    assert (seen["spec"]["nodeName"], seen["status"]["message"]) == ("node-1", "hello")
    await transport.delete(POD, "default", "web", encode({"gracePeriodSeconds": 0}))
    with pytest.raises(ApiError) as caught:
        await transport.get(POD, "default", "web")
    assert (caught.value.status, caught.value.reason) == (404, "NotFound")


async def test_a_list_comes_in_pages(store, transport):
    for name in ("c", "a", "b"):
        store.create(PODS, "default", pod(name))
    first = decode(await transport.list(POD, limit=2))
    store.create(PODS, "default", pod("aa"))
    rest = decode(await transport.list(POD, limit=2, continue_token=first["metadata"]["continue"]))
    names = [[item["metadata"]["name"] for item in page["items"]] for page in (first, rest)]
    # Both pages show the moment of the first.
    assert names == [["a", "b"], ["c"]]
    assert first["metadata"]["resourceVersion"] == rest["metadata"]["resourceVersion"]
    assert (first["kind"], first["apiVersion"]) == ("PodList", "v1")
    assert "continue" not in rest["metadata"]


# An API server answers every request for a resource that it does not have with this Status (errors.NewNotFound in
# staging/src/k8s.io/apimachinery, as apiserver's NotFoundHandler and the generic router use it).
@pytest.mark.parametrize(
    "ask",
    [
        lambda at, what: at.list(what),
        lambda at, what: anext(at.watch(what, resource_version="0", timeout_s=0.05)),
        lambda at, what: at.get(what, "default", "x"),
        lambda at, what: at.create(what, "default", b"{}"),
        lambda at, what: at.create(what, "default", b"{}", name="x", subresource="binding"),
        lambda at, what: at.update(what, "default", "x", b"{}"),
        lambda at, what: at.patch(what, "default", "x", b"{}", "application/merge-patch+json"),
        lambda at, what: at.delete(what, "default", "x"),
    ],
)
async def test_a_resource_that_is_not_served_is_not_found(transport, ask):
    with pytest.raises(ApiError) as caught:
        await ask(transport, Resource("example.com", "v1", "teamquotas", "TeamQuota", True))
    assert (caught.value.status, caught.value.reason) == (404, "NotFound")
    assert "the server could not find the requested resource" in str(caught.value)


async def test_a_watch_follows_and_ends_with_a_bookmark(store, transport):
    version = str(store.revision)
    watch = transport.watch(POD, field_selector="spec.nodeName=", resource_version=version, timeout_s=0.05)
    store.create(PODS, "default", pod())
    first = decode(await anext(watch))
    store.bind("default", "web", {"target": {"name": "n"}})
    rest = [decode(line) async for line in watch]
    assert [first["type"], *(event["type"] for event in rest)] == ["ADDED", "DELETED", "BOOKMARK"]
    assert rest[-1]["object"]["metadata"]["resourceVersion"] == str(store.revision)


async def test_a_waiting_watch_wakes(store, transport):
    watch = transport.watch(POD, resource_version=str(store.revision), timeout_s=10)
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    store.create(PODS, "default", pod())
    assert decode(await waiting)["object"]["metadata"]["name"] == "web"
    await watch.aclose()
    assert store.collection(PODS).watches == {}


async def test_a_watch_from_too_long_ago_is_gone():
    store = make_store(history=1)
    for name in ("a", "b", "c"):
        store.create(PODS, "default", pod(name))
    watch = StoreTransport(store).watch(POD, resource_version="1", timeout_s=1)
    with pytest.raises(ApiError) as caught:
        await anext(watch)
    assert caught.value.is_expired


async def test_refusals_are_api_errors(store, transport):
    store.create(PODS, "default", pod())
    store.bind("default", "web", {"target": {"name": "n"}})
    with pytest.raises(ApiError) as caught:
        await transport.bind("default", "web", encode({"target": {"name": "m"}}))
    assert caught.value.is_conflict and "already assigned" in caught.value.message
    with pytest.raises(ApiError) as caught:
        await transport.create(POD, "default", b"{broken")
    assert caught.value.status == 400


async def test_evictions_are_posted_to_the_pod(store, transport):
    store.create(PODS, "default", pod())
    await transport.create(POD, "default", encode({"metadata": {"name": "web"}}), name="web", subresource="eviction")
    assert store.find(PODS, "default", "web") is None


async def test_events_keep_their_new_shape(transport):
    event = {"metadata": {"name": "web.1"}, "note": "hello", "regarding": {"kind": "Pod", "name": "web"}}
    made = decode(await transport.create(EVENT, "default", encode(event)))
    assert (made["apiVersion"], made["note"]) == ("events.k8s.io/v1", "hello")
    patch = encode({"series": {"count": 2}})
    patched = decode(await transport.patch(EVENT, "default", "web.1", patch, "application/merge-patch+json"))
    assert (patched["series"]["count"], patched["note"]) == (2, "hello")
