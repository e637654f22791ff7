"""The cluster behind `berth mcp` while it changes: followed by watches, never written to, and refused when stale."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from berth.api.errors import ApiError, ConnectionLost
from berth.kube.read_only import WriteRefusedError
from berth_cluster.apimachinery.resource_types import NODES, PODS, resource_of
from berth_cluster.serving.transport import StoreTransport
from berth_cluster.storage.store import Store
from berth_workbench.comparison.configurations import ConfigurationSource, WhoDecides
from berth_workbench.mcp import followed
from berth_workbench.mcp.followed import FollowedCluster
from berth_workbench.mcp.refusals import CallRefused
from berth_workbench.mcp.server import McpServer
from berth_workbench.snapshot.kept_fields import TAKEN
from berth_workbench.snapshot.writer import taken_from_cluster
from packages.workbench.tests.mcp.asking import answer, asking, refusal
from packages.workbench.tests.questions.every import crowded

DEFAULT = ConfigurationSource("default")
DECIDES = WhoDecides(DEFAULT, DEFAULT.load(), "the default configuration")
WRITES = ("create", "update", "patch", "delete", "bind")


class Server(StoreTransport):
    """An API server of which each watch can be broken, each kind refused, and that counts what is asked."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.is_down = asyncio.Event()
        self.refused: set[str] = set()
        self.written: list[str] = []
        for verb in WRITES:
            setattr(self, verb, lambda *_, verb=verb, **__: self.written.append(verb))

    async def list(self, resource, **options: Any) -> bytes:  # type: ignore[override]
        self._check(resource)
        return await super().list(resource, **options)

    async def watch(self, resource, **options: Any):  # type: ignore[override]
        self._check(resource)
        lines = super().watch(resource, **options)
        down = asyncio.ensure_future(self.is_down.wait())
        try:
            while True:
                line = asyncio.ensure_future(anext(lines))
                await asyncio.wait({line, down}, return_when=asyncio.FIRST_COMPLETED)
                self._check(resource)
                yield line.result()
        finally:
            down.cancel()
            line.cancel()
            await asyncio.wait({line, down})
            await lines.aclose()

    def _check(self, resource) -> None:
        if resource.kind in self.refused:
            raise ApiError(403, "Forbidden", f"{resource.plural} may not be listed")
        if self.is_down.is_set():
            raise ConnectionLost("the server is down")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store():
    made = Store(clock=lambda: datetime(2030, 1, 1, tzinfo=UTC))
    for document in crowded().documents:
        manifest = document.manifest
        for container in manifest.get("spec", {}).get("containers", ()):
            container["image"] = "app:1"
        for owner in manifest["metadata"].get("ownerReferences", ()):
            owner |= {"uid": owner["name"], "apiVersion": "apps/v1"}
        made.create(resource_of(document.kind), manifest["metadata"].get("namespace", ""), manifest)
    return made


@pytest.fixture
async def behind(store):
    clock, server = Clock(), Server(store)
    found = FollowedCluster(server, "https://cluster.test", DECIDES, lambda: DECIDES, clock=clock)
    yield found, server, clock
    await found.close()
    assert server.written == []


def listed(snapshot):
    return {kind: [(each.namespace, each.name) for each in snapshot.of(kind)] for kind in TAKEN}


async def test_the_state_is_what_a_snapshot_would_have(store, behind):
    cluster, *_ = behind
    state = await cluster.state()
    taken = await taken_from_cluster(StoreTransport(store), "https://cluster.test")
    assert listed(state.snapshot) == listed(taken)
    assert state.is_live and state.missing == ()
    assert len(listed(taken)["Pod"]) == 28


async def test_what_changes_is_in_the_next_answer_and_what_does_not_is_the_same_state(store, behind):
    cluster, *_ = behind
    first = (await cluster.state()).snapshot
    assert (await cluster.state()).snapshot is first, "so that the loaded cluster is kept"
    store.delete(PODS, "default", "wait-3")
    store.patch(NODES, "", "n1", {"spec": {"unschedulable": True}}, "application/merge-patch+json")
    while (await cluster.state()).snapshot is first:
        await asyncio.sleep(0)
    async with asking(McpServer(cluster.state)) as client:
        found = (await answer(client, "wait")).structured_content
        assert [each["pod"] for each in found["pods"]] == ["default/wait-0", "default/wait-1", "default/wait-2"]
        moved = (await answer(client, "whatif", changes=["drain n0"])).structured_content
        assert moved["pods"] and all(each["node"] != "n1" for each in moved["pods"])
        assert found["state"]["isLive"] and found["state"]["source"] == "the cluster at https://cluster.test"


async def test_a_watch_that_does_not_work_is_an_error_and_its_age_is_told_before(behind):
    cluster, server, clock = behind
    async with asking(McpServer(cluster.state)) as client:
        await answer(client, "wait")
        server.is_down.set()
        clock.now += 60
        found = (await answer(client, "wait")).structured_content
        assert 60 <= found["state"]["ageSeconds"] < 62
        clock.now += 61
        error = await refusal(client, "wait")
        assert error["code"] == "stale" and "nothing heard for 121 s: " in error["message"]
        assert "the server is down" in error["message"] and error["message"].endswith("other kinds")
        with pytest.raises(Exception, match="nothing heard for 121 s"):
            await client.read_resource("berth://pending")


async def test_a_silent_watch_is_an_error_as_well(behind):
    cluster, _, clock = behind
    await cluster.state()
    clock.now += 901
    with pytest.raises(CallRefused) as raised:
        await cluster.state()
    assert raised.value.code == "stale"


async def test_a_cluster_that_cannot_be_read_is_an_error_and_a_kind_that_may_not_be_listed_is_told(store, monkeypatch):
    monkeypatch.setattr(followed, "START_S", 0.3)
    server = Server(store)
    server.refused = {"StorageClass"}
    cluster = FollowedCluster(server, "https://cluster.test", DECIDES, lambda: DECIDES)
    state = await cluster.state()
    assert state.missing == ("StorageClass",)
    assert "May not be listed, and count as none: StorageClass." in state.in_words(datetime.now(UTC))
    await cluster.close()
    server.refused = {"Pod"}
    cluster = FollowedCluster(server, "https://cluster.test", DECIDES, lambda: DECIDES)
    with pytest.raises(CallRefused) as raised:
        await cluster.state()
    assert raised.value.code == "unreadable" and "pods may not be listed" in str(raised.value)
    await cluster.close()


async def test_usage_is_asked_of_a_live_cluster(behind):
    cluster, *_ = behind
    (container,) = next(crowded().of("Pod")).struct().spec.containers
    pods = [{"metadata": {"namespace": "default", "name": "app1-0"}, "containers": [
        {"name": container.name, "usage": {"cpu": "10m", "memory": "1Mi"}}]}]  # fmt: skip

    async def metrics(resource, **options):
        assert resource.group == "metrics.k8s.io"
        return msgspec.json.encode({"kind": "PodMetricsList", "items": pods})

    async with asking(McpServer(cluster.state)) as client:
        await answer(client, "wait")
        cluster._transport.list = metrics
        found = (await answer(client, "shrink")).structured_content
    assert found["workloads"][0]["measured"] == 1


async def test_the_transport_refuses_to_write(behind):
    cluster, *_ = behind
    for verb in WRITES:
        with pytest.raises(WriteRefusedError):
            await getattr(cluster._transport, verb)("anything")
