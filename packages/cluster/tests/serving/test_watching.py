"""Watches over HTTP: one JSON line an event."""

import asyncio

import msgspec
import pytest

from berth_cluster.serving import watching
from berth_cluster.storage.watch import WatchLimits
from packages.cluster.tests.objects import CONFIG_MAPS, PODS, config_map, make_store, pod
from tests.waiting import WAIT_S, until

MAPS_PATH = "/api/v1/namespaces/default/configmaps"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


class Events:
    """Reads the lines of one watch."""

    def __init__(self, response):
        self.response = response

    async def next(self):
        async with asyncio.timeout(WAIT_S):
            return msgspec.json.decode(await self.response.content.readline())

    async def rest(self):
        async with asyncio.timeout(WAIT_S):
            return [msgspec.json.decode(line) async for line in self.response.content]


def watching_maps(client, query="", path=MAPS_PATH, **options):
    return client.session.get(f"{client.url}{path}?watch=true&{query}", **options)


async def test_the_present_and_then_the_changes(client, store):
    store.create(CONFIG_MAPS, "default", config_map("a"))
    async with watching_maps(client) as response:
        events = Events(response)
        first = await events.next()
        store.create(CONFIG_MAPS, "default", config_map("b"))
        store.delete(CONFIG_MAPS, "default", "a")
        seen = [first, await events.next(), await events.next()]
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in seen] == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("DELETED", "a"),
    ]


async def test_resuming_from_a_list(client, store):
    store.create(CONFIG_MAPS, "default", config_map("a"))
    _, listed = await client.get(MAPS_PATH)
    store.create(CONFIG_MAPS, "default", config_map("b"))
    version = listed["metadata"]["resourceVersion"]
    async with watching_maps(client, f"resourceVersion={version}") as response:
        assert (await Events(response).next())["object"]["metadata"]["name"] == "b"


async def test_the_timeout_ends_a_watch_with_a_bookmark(client, store):
    query = f"resourceVersion={store.revision}&timeoutSeconds=1&allowWatchBookmarks=true"
    async with watching_maps(client, query) as response:
        store.create(PODS, "default", pod())
        (bookmark,) = await Events(response).rest()
    assert bookmark["type"] == "BOOKMARK"
    # Also what happened to other kinds counts: nothing was missed up to there.
    assert bookmark["object"]["metadata"]["resourceVersion"] == str(store.revision)
    assert (bookmark["object"]["kind"], bookmark["object"]["apiVersion"]) == ("ConfigMap", "v1")


async def test_bookmarks_come_in_between(client, store, monkeypatch):
    monkeypatch.setattr(watching, "BOOKMARK_PERIOD_S", 0.01)
    query = f"resourceVersion={store.revision}&allowWatchBookmarks=true"
    async with watching_maps(client, query) as response:
        assert (await Events(response).next())["type"] == "BOOKMARK"


async def test_initial_events_end_with_a_marked_bookmark(client, store):
    store.create(CONFIG_MAPS, "default", config_map("a"))
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0&allowWatchBookmarks=true"
    async with watching_maps(client, query) as response:
        events = Events(response)
        first, marker = await events.next(), await events.next()
    assert (first["type"], marker["type"]) == ("ADDED", "BOOKMARK")
    assert marker["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_streaming_list_shows_one_moment_and_then_what_follows(client, store, monkeypatch):
    monkeypatch.setattr(watching, "SLICE", 1)
    for name in ("a", "b", "c"):
        store.create(CONFIG_MAPS, "default", config_map(name))
    then = store.revision
    # Taken when the request comes, whatever is written while the objects are being sent.
    open_watch = store.watch

    def watch(*arguments):
        opened = open_watch(*arguments)
        store.delete(CONFIG_MAPS, "default", "c")
        store.create(CONFIG_MAPS, "default", config_map("d"))
        return opened

    monkeypatch.setattr(type(store), "watch", lambda _, *arguments: watch(*arguments))
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion="
    async with watching_maps(client, query) as response:
        events = Events(response)
        seen = [await events.next() for _ in range(6)]
    assert [(event["type"], event["object"]["metadata"].get("name", "")) for event in seen] == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("ADDED", "c"),
        ("BOOKMARK", ""),
        ("DELETED", "c"),
        ("ADDED", "d"),
    ]
    meta = seen[3]["object"]["metadata"]
    assert (meta["resourceVersion"], meta["annotations"]) == (str(then), {"k8s.io/initial-events-end": "true"})


async def test_a_streaming_list_of_what_matches_nothing(client, store):
    store.create(CONFIG_MAPS, "default", config_map("a"))
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=x%3Dy"
    async with watching_maps(client, query) as response:
        assert (await Events(response).next())["type"] == "BOOKMARK"


@pytest.mark.parametrize("version", ["", "0"])
async def test_without_initial_events_only_changes_come(client, store, version):
    store.create(CONFIG_MAPS, "default", config_map("a"))
    query = f"sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion={version}"
    async with watching_maps(client, query) as response:
        store.create(CONFIG_MAPS, "default", config_map("b"))
        assert (await Events(response).next())["object"]["metadata"]["name"] == "b"


async def test_a_watch_of_metadata(client, store):
    store.create(CONFIG_MAPS, "default", config_map("a", color="red"))
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    headers = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
    async with watching_maps(client, query, headers=headers) as response:
        events = Events(response)
        first, marker = (await events.next())["object"], (await events.next())["object"]
    for obj in (first, marker):
        assert (obj["kind"], obj["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert first["metadata"]["name"] == "a" and "data" not in first
    assert marker["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_the_timeout_is_kept_while_changes_keep_coming(client, store):
    async def write():
        number = 0
        while True:
            number += 1
            store.create(CONFIG_MAPS, "default", config_map(f"a{number}"))
            await asyncio.sleep(0)

    writing = asyncio.ensure_future(write())
    async with watching_maps(client, f"resourceVersion={store.revision}&timeoutSeconds=1") as response:
        assert await Events(response).rest()
    writing.cancel()


async def test_one_object_can_be_watched_by_name(client, store):
    store.create(CONFIG_MAPS, "default", config_map("a"))
    store.create(CONFIG_MAPS, "default", config_map("b"))
    async with watching_maps(client, "fieldSelector=metadata.name%3Db") as response:
        assert (await Events(response).next())["object"]["metadata"]["name"] == "b"


async def test_a_watch_of_tables(client, store):
    store.create(CONFIG_MAPS, "default", config_map("a"))
    store.create(CONFIG_MAPS, "default", config_map("b"))
    async with watching_maps(client, headers=TABLE) as response:
        events = Events(response)
        first, second = (await events.next())["object"], (await events.next())["object"]
    assert first["kind"] == "Table" and first["columnDefinitions"][0]["name"] == "Name"
    # Only the first event says what the columns are.
    assert second["columnDefinitions"] is None and second["rows"][0]["cells"][0] == "b"


class TestSlowReaders:
    """A reader that falls behind is given what is queued, and its watch ends; it resumes from there."""

    @pytest.fixture
    def store(self):
        return make_store(watch_limits=WatchLimits(events=3))

    async def test_it_is_ended_and_resumes(self, client, store):
        async with watching_maps(client, f"resourceVersion={store.revision}&allowWatchBookmarks=true") as response:
            for number in range(5):
                store.create(CONFIG_MAPS, "default", config_map(f"a{number}"))
            events = await Events(response).rest()
        # No bookmark, which would say that nothing was missed.
        assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
            ("ADDED", "a0"),
            ("ADDED", "a1"),
            ("ADDED", "a2"),
        ]
        last = events[-1]["object"]["metadata"]["resourceVersion"]
        async with watching_maps(client, f"resourceVersion={last}&timeoutSeconds=1") as response:
            events = Events(response)
            rest = [(await events.next())["object"]["metadata"]["name"] for _ in range(2)]
        assert rest == ["a3", "a4"]


async def test_a_client_that_leaves_is_forgotten(client, store):
    async with watching_maps(client, f"resourceVersion={store.revision}") as response:
        assert len(store.collection(CONFIG_MAPS).watches) == 1
        response.close()
    await until(lambda: not store.collection(CONFIG_MAPS).watches)


async def test_a_stopping_server_ends_its_watches(client, store, server):
    async with watching_maps(client, f"resourceVersion={store.revision}") as response:
        stopping = asyncio.ensure_future(server.stop())
        assert await Events(response).rest() == []
        await stopping
    assert store.collection(CONFIG_MAPS).watches == {}


class TestForgottenVersions:
    """A version older than the history is 410 before the watch begins."""

    @pytest.fixture
    def store(self):
        return make_store(history=2)

    async def test_gone(self, client, store):
        for name in ("a", "b", "c"):
            store.create(CONFIG_MAPS, "default", config_map(name))
        status, body = await client.get(f"{MAPS_PATH}?watch=true&resourceVersion=1")
        assert (status, body["reason"]) == (410, "Expired")
        assert body["message"].startswith("too old resource version: 1 (")

    async def test_an_old_page(self, client, store):
        for name in ("a", "b", "c"):
            store.create(CONFIG_MAPS, "default", config_map(name))
        _, page = await client.get(f"{MAPS_PATH}?limit=1")
        for name in ("d", "e", "f"):
            store.create(CONFIG_MAPS, "default", config_map(name))
        status, body = await client.get(f"{MAPS_PATH}?limit=1&continue={page['metadata']['continue']}")
        assert (status, body["reason"]) == (410, "Expired")
