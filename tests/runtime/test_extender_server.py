"""`ExtenderServer` over loopback, called with the requests that kube-scheduler sends, and by our own scheduler."""

import asyncio
from contextlib import asynccontextmanager

import aiohttp
import pytest

from berth.api.resources import RESOURCES
from berth.core.builders import make_node
from berth.decisions.explanation import explain
from berth.framework.registry import Registry
from berth.framework.status import unschedulable
from berth.plugins.registry import in_tree_registry
from berth.runtime.serving.extender_server import NOT_SYNCED, ExtenderServer
from berth.runtime.serving.options import PortTaken
from tests.runtime.world import NODE, POD, World, configuration, scheduling
from tests.waiting import until

CLASS = RESOURCES["PriorityClass"]


class Licences:
    """Allows nodes with an even number, and prefers node-2."""

    name = "Licences"

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, node):
        number = int(node.name.rpartition("-")[2])
        return unschedulable("no licence") if number % 2 else None

    def score(self, state, pod, node):
        return 100 if node.name == "node-2" else 0


ONLY = {
    "multiPoint": {"enabled": [{"name": "Licences"}], "disabled": [{"name": "*"}]},
    "queueSort": {"enabled": [{"name": "PrioritySort"}]},
    "bind": {"enabled": [{"name": "DefaultBinder"}]},
}


def profile():
    return configuration(profiles=[{"schedulerName": "default-scheduler", "plugins": ONLY}])


@asynccontextmanager
async def serving(transport, config=None):
    """A server that has synced, and its URL."""
    registry = in_tree_registry().merge(Registry({"Licences": Licences}, "the test"))
    server, stop = ExtenderServer(config or profile(), registry, transport), asyncio.Event()
    await server.start()
    task = asyncio.create_task(server.run(stop))
    try:
        await until(lambda: server.is_ready or task.done())
        yield server
    finally:
        stop.set()
        await task
        await server.stop()


async def post(server, verb, document, **options):
    """Status and answer, as JSON where it is such."""
    as_is = {"data": document} if isinstance(document, bytes) else {"json": document}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{server.address}/{verb}", **as_is, **options) as found,
    ):
        is_json = found.content_type == "application/json"
        return found.status, await (found.json() if is_json else found.text())


def pod_of(world, name="web"):
    world.add_pod(name)
    return world.pod(name)


def asked(pod, *names):
    """What kube-scheduler sends to filter and prioritize where nodeCacheCapable is set."""
    return {"Pod": pod, "Nodes": None, "NodeNames": list(names)}


NODES = ("node-0", "node-1", "node-2")


async def test_filter_and_prioritize_by_name():
    world = World(nodes=3)
    pod = pod_of(world)
    async with serving(world.transport) as server:
        assert await post(server, "filter", asked(pod, *NODES)) == (200, {
            "Nodes": None, "NodeNames": ["node-0", "node-2"], "FailedNodes": {"node-1": "no licence"},
            "FailedAndUnresolvableNodes": {}, "Error": "",
        })  # fmt: skip
        assert await post(server, "prioritize", asked(pod, "node-0", "node-2")) == (
            200, [{"Host": "node-0", "Score": 0}, {"Host": "node-2", "Score": 10}],
        )  # fmt: skip


async def test_whole_nodes_come_back_whole():
    world = World(nodes=2)
    nodes = world.store.objects(NODE)
    async with serving(world.transport) as server:
        body = {"Pod": pod_of(world), "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None}
        _, answer = await post(server, "filter", body)
    assert answer["Nodes"]["items"] == [nodes[0]] and answer["NodeNames"] is None


async def test_the_cluster_is_followed():
    world = World(nodes=1)
    pod = pod_of(world)
    async with serving(world.transport) as server:
        _, answer = await post(server, "filter", asked(pod, "node-2"))
        assert answer["FailedNodes"] == {"node-2": "node is not known to this extender yet"}
        world.add_nodes(1, first=2)
        await until(lambda: len(server.core.cache.table) == 2)
        assert (await post(server, "filter", asked(pod, "node-2")))[1]["NodeNames"] == ["node-2"]


async def test_preempt_by_uid():
    world = World(nodes=3)
    uid = pod_of(world, "low")["metadata"]["uid"]
    victims = {name: {"Pods": [{"UID": uid}], "NumPDBViolations": 0} for name in NODES}
    body = {"Pod": pod_of(world), "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
    async with serving(world.transport) as server:
        status, answer = await post(server, "preempt", body)
    assert (status, sorted(answer["NodeNameToMetaVictims"])) == (200, ["node-0", "node-2"])
    assert answer["NodeNameToMetaVictims"]["node-0"] == victims["node-0"]


async def test_bind_binds_and_counts_the_pod_at_once():
    world = World(nodes=1)
    meta = pod_of(world)["metadata"]
    args = {"PodName": "web", "PodNamespace": "default", "PodUID": meta["uid"], "Node": "node-0"}
    async with serving(world.transport) as server:
        assert await post(server, "bind", args) == (200, {"Error": ""})
        assert world.node_of("web") == "node-0"
        assert server.core.cache.state_of(meta["uid"]) is not None
        _, again = await post(server, "bind", {**args, "PodUID": "another"})
        assert "is not the one that was meant" in again["Error"]
        _, nobody = await post(server, "bind", {**args, "PodName": "nobody"})
        assert "not found" in nobody["Error"]


async def test_errors_go_where_the_protocol_has_a_place_for_them():
    world = World(nodes=1)
    async with serving(world.transport) as server:
        status, answer = await post(server, "filter", b"{")
        assert status == 200 and "cannot be read" in answer["Error"]
        status, answer = await post(server, "bind", b"[]")
        assert status == 200 and "cannot be read" in answer["Error"]
        for verb in ("prioritize", "preempt"):
            status, answer = await post(server, verb, b"{")
            assert status == 500 and "cannot be read" in answer
        assert (await post(server, "dance", {}))[0] == 404
        assert (await post(server, "filter", {}, headers={"Host": "evil.example"}))[0] == 403


async def test_a_web_page_cannot_have_a_pod_bound():
    """A form on any page may post text/plain to 127.0.0.1 without asking first, but the browser adds Origin (Fetch)."""
    world = World(nodes=1)
    meta = pod_of(world)["metadata"]
    args = {"PodName": "web", "PodNamespace": "default", "PodUID": meta["uid"], "Node": "node-0"}
    async with serving(world.transport) as server:
        for header, value in (("Origin", "null"), ("Origin", server.address), ("Sec-Fetch-Site", "cross-site")):
            assert (await post(server, "bind", args, headers={header: value}))[0] == 403
        assert "nodeName" not in world.pod("web")["spec"]


async def test_a_request_that_is_too_long_is_the_clients_fault(monkeypatch, caplog):
    monkeypatch.setattr("berth.runtime.serving.extender_server.MAX_REQUEST_BYTES", 1000)
    async with serving(None) as server:
        for verb in ("filter", "bind"):
            assert (await post(server, verb, b" " * 2000))[0] == 413
    assert caplog.records == []


async def test_a_plugins_bug_is_an_error_and_the_server_goes_on():
    world = World(nodes=1)
    world.add_nodes(1, first=7)
    pod = pod_of(world)
    async with serving(world.transport) as server:
        body = asked(pod, "node-0")
        broken, Licences.filter = Licences.filter, lambda *_: 1 / 0
        try:
            status, answer = await post(server, "filter", body)
        finally:
            Licences.filter = broken
        assert status == 200 and "plugin 'Licences' failed on node 'node-0': ZeroDivisionError" in answer["Error"]
        assert (await post(server, "filter", body))[1]["NodeNames"] == ["node-0"]


async def test_before_the_first_sync_nothing_is_said():
    world = World(nodes=1)
    server = ExtenderServer(profile(), in_tree_registry().merge(Registry({"Licences": Licences}, "t")), world.transport)
    await server.start()
    try:
        assert (await post(server, "filter", asked(pod_of(world), "node-0")))[1]["Error"] == NOT_SYNCED
        async with aiohttp.ClientSession() as session, session.get(f"{server.address}/healthz") as health:
            assert health.status == 503
    finally:
        await server.stop()


async def test_a_port_that_is_taken():
    async with serving(None) as server:
        port = int(server.address.rpartition(":")[2])
        registry = in_tree_registry().merge(Registry({"Licences": Licences}, "t"))
        with pytest.raises(PortTaken, match="choose another --port"):
            await ExtenderServer(profile(), registry, None, port=port).start()


# -- without a cluster --


async def test_without_a_cluster_the_nodes_that_come_are_judged():
    pod = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": {"containers": []}}
    nodes = [make_node(name).document for name in NODES]
    async with serving(None) as server:
        body = {"Pod": pod, "Nodes": {"items": nodes}, "NodeNames": None}
        _, answer = await post(server, "filter", body)
        assert [node["metadata"]["name"] for node in answer["Nodes"]["items"]] == ["node-0", "node-2"]
        assert (await post(server, "prioritize", body))[1][2] == {"Host": "node-2", "Score": 10}
        _, by_name = await post(server, "filter", asked(pod, *NODES))
        assert "needs whole nodes" in by_name["Error"]
        assert (await post(server, "preempt", {"Pod": pod, "NodeNameToMetaVictims": {}}))[0] == 500
        assert "follows no cluster" in (await post(server, "bind", {"PodName": "p"}))[1]["Error"]


# -- our own scheduler with it as its extender --


@pytest.mark.parametrize("by_name", [True, False])
async def test_a_berth_scheduler_with_a_berth_extender(by_name):
    world = World(nodes=4)
    async with serving(world.transport) as server:
        entry = {
            "urlPrefix": server.address, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 10,
            "preemptVerb": "preempt", "bindVerb": "bind", "nodeCacheCapable": by_name,
        }  # fmt: skip
        async with scheduling(world, configuration(extenders=[entry])) as scheduler:
            for number in range(3):
                world.add_pod(f"web-{number}", cpu="400m")
            await until(lambda: all(world.node_of(f"web-{number}") for number in range(3)))
            decision = explain(scheduler.core.trace["default/web-0"], nodes=["node-1"])
        calls = [(call.verb, call.problem) for call in decision.extenders]
    assert calls == [("filter", ""), ("prioritize", ""), ("bind", "")]
    assert {world.node_of(f"web-{number}") for number in range(3)} <= {"node-0", "node-2"}
    assert world.node_of("web-0") == "node-2"
    assert decision.nodes[0].rejections[0].reasons == ("no licence",)
    assert len(world.accepted()) == 3


async def test_a_berth_extender_has_a_say_in_preemption():
    world = World(nodes=4)
    important = {"apiVersion": CLASS.api_version, "kind": CLASS.kind, "metadata": {"name": "important"}, "value": 1000}
    world.store.create(CLASS, "", important)
    async with serving(world.transport) as server:
        entry = {
            "urlPrefix": server.address,
            "filterVerb": "filter",
            "preemptVerb": "preempt",
            "nodeCacheCapable": True,
        }
        async with scheduling(world, configuration(extenders=[entry])) as scheduler:
            for number in range(4):
                world.add_pod(f"low-{number}", cpu="800m", nodeName=f"node-{number}", terminationGracePeriodSeconds=0)
            await until(lambda: len(server.core.cache) == 4 and len(scheduler.core.cache) == 4)
            world.add_pod("vip", cpu="800m", priorityClassName="important")
            await until(lambda: world.node_of("vip"))
            last = explain(scheduler.core.trace["default/vip"]).extenders
    assert world.node_of("vip") in ("node-0", "node-2")
    assert [call.verb for call in last] == ["filter"]  # of the promised node alone
    gone = {f"low-{number}" for number in range(4)} - {pod["metadata"]["name"] for pod in world.store.objects(POD)}
    assert gone == {f"low-{world.node_of('vip')[-1]}"}
