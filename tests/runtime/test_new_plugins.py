"""Plugins that come with a changed configuration, and what they want followed.

Expectations are those of docs/living-with-plugins.md.
"""

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from berth.framework.registry import Registry
from berth.plugin import (
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    WebResource,
    unschedulable,
)
from berth.plugins.registry import in_tree_registry
from berth.runtime import reconfiguration
from berth.runtime.reload import ReloadPostponed
from berth.testing.invariants import check
from tests.framework.test_custom_resources import QUOTAS, ByQuota, Serving, manifest
from tests.runtime.world import POD, World, configuration, scheduling
from tests.waiting import until


def profile(*enabled, args=None, **more):
    plugins = {"multiPoint": {"enabled": [{"name": each} for each in enabled]}}
    given = [{"name": name, "args": value} for name, value in (args or {}).items()]
    return {"schedulerName": "default-scheduler", "plugins": plugins, "pluginConfig": given, **more}


def registry_of(*plugins):
    return in_tree_registry().merge(Registry({each.name: each for each in plugins}, "the test"))


# --- what they want followed ------------------------------------------------------------------------------------------


async def test_a_custom_resource_is_followed_as_long_as_a_plugin_wants_it():
    world = World()
    world.transport = Serving(world.transport)
    async with scheduling(world, registry=registry_of(ByQuota)) as scheduler:
        following = scheduler.following
        assert QUOTAS.name not in {each.resource.kind for each in following.reflectors()}
        await scheduler.reconfigure(configuration(profiles=[profile("ByQuota")]))
        assert [each.metadata.name for each in scheduler.core.objects.list(QUOTAS.name)] == ["q"], "there at once"
        world.store.create(*pod("web", team="red"))
        await until(lambda: world.condition("web"))
        assert "quota q is frozen" in world.condition("web")["message"]
        world.transport.send("MODIFIED", frozen(False))
        await until(lambda: world.node_of("web"))
        await scheduler.reconfigure(configuration())
        assert QUOTAS.name not in {each.resource.kind for each in following.reflectors()}
        assert not list(scheduler.core.objects.list(QUOTAS.name))
        await scheduler.reconfigure(configuration(profiles=[profile("ByQuota")]))
        assert list(scheduler.core.objects.list(QUOTAS.name)), "and it may come again"
        check(scheduler.core)


def pod(name, **labels):
    spec = {"containers": [{"name": "c", "image": "x"}]}
    return POD, "default", {"metadata": {"name": name, "labels": labels}, "spec": spec}


def frozen(is_frozen):
    return manifest(frozen=is_frozen, version="9")


async def test_what_was_followed_for_nothing_is_given_up(monkeypatch):
    monkeypatch.setattr(reconfiguration, "RELOAD_WAIT_S", 0.02)
    monkeypatch.setattr(reconfiguration, "RELOAD_POLL_S", 0.001)
    world = World(nodes=2, cpu="4")
    gate = world.transport.hold("bind")
    inner, world.transport = world.transport, Serving(world.transport)
    async with scheduling(world, registry=registry_of(ByQuota)) as scheduler:
        world.add_pod("web")
        await until(lambda: inner.count("bind"))
        with pytest.raises(ReloadPostponed):
            await scheduler.reconfigure(configuration(profiles=[profile("ByQuota")]))
        assert "quotas" not in {each.resource.plural for each in scheduler.following.reflectors()}
        gate.set()
        await scheduler.reconfigure(configuration(profiles=[profile("ByQuota")]))
        assert [each.metadata.name for each in scheduler.core.objects.list(QUOTAS.name)] == ["q"]


class Asked:
    """A server of documents that counts who asks."""

    def __init__(self):
        self.load, self.count = 1, {}

    async def answer(self, request):
        self.count[request.path] = self.count.get(request.path, 0) + 1
        return web.json_response({"load": self.load, "path": request.path})


@pytest.fixture
async def elsewhere():
    asked = Asked()
    app = web.Application()
    app.router.add_get("/{name}", asked.answer)
    async with TestServer(app) as server:
        asked.url = lambda name: str(server.make_url(f"/{name}"))
        yield asked


def reading(url, called="Reads"):
    class Reads:
        name = called

        def __init__(self, args, handle):
            self.document = handle.poll(WebResource("load.example.com", url, every_s=0.01))

        def filter(self, state, pod, node):
            content = self.document.content
            return (
                None if content and content["load"] > 1 else unschedulable(f"the load is {content and content['load']}")
            )

        def events_to_register(self):
            return [ClusterEventWithHint(ClusterEvent("load.example.com", Action.ALL))]

    return Reads


async def test_documents_are_polled_as_long_as_a_plugin_wants_them(elsewhere):
    world = World()
    async with scheduling(world, registry=registry_of(reading(elsewhere.url("a")))) as scheduler:
        assert not elsewhere.count
        await scheduler.reconfigure(configuration(profiles=[profile("Reads")]))
        world.add_pod("web")
        await until(lambda: world.condition("web"))
        assert "the load is 1" in world.condition("web")["message"], "it was there before the first pod was tried"
        elsewhere.load = 2
        await until(lambda: world.node_of("web"))
        await scheduler.reconfigure(configuration())
        before = elsewhere.count["/a"]
        await scheduler.reconfigure(configuration(podMaxBackoffSeconds=20))
        assert elsewhere.count["/a"] <= before + 1, "nobody wants it any more; a request may have been on its way"


async def test_a_document_from_another_place_takes_the_place_of_the_first(elsewhere):
    world = World()
    registry = registry_of(reading(elsewhere.url("a")), reading(elsewhere.url("b"), "ReadsAnother"))
    async with scheduling(world, configuration(profiles=[profile("Reads")]), registry=registry) as scheduler:
        await until(lambda: list(scheduler.core.objects.list("load.example.com")))
        await scheduler.reconfigure(configuration(profiles=[profile("ReadsAnother")]))
        (document,) = scheduler.core.objects.list("load.example.com")
        assert document.content["path"] == "/b"
        before = elsewhere.count["/a"]
        elsewhere.load = 2
        world.add_pod("web")
        await until(lambda: world.node_of("web"))
        assert elsewhere.count["/a"] <= before + 1, "but for a request that was on its way"
