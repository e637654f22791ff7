"""Plugins that come with a changed configuration: what they want followed, and their code.

Expectations are those of docs/living-with-plugins.md.
"""

import logging
import sys
from importlib.metadata import EntryPoint

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from berth.config.errors import ConfigError
from berth.framework.loader import installed_plugins, plugins_named
from berth.framework.plugin_code import PluginCode
from berth.framework.registry import Registry
from berth.plugin import (
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    CustomResource,
    ObjectMeta,
    WebResource,
    unschedulable,
)
from berth.plugins.registry import in_tree_registry
from berth.runtime import reconfiguration
from berth.runtime.reload import ConfigFile, ReloadPostponed, SetupReader
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


def reading(url):
    class Reads:
        name = "Reads"

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
    async with scheduling(
        world, configuration(profiles=[profile("Reads")]), registry=registry_of(reading(elsewhere.url("a")))
    ) as scheduler:
        await until(lambda: list(scheduler.core.objects.list("load.example.com")))
        await scheduler.reconfigure(
            configuration(profiles=[profile("Reads")]), registry_of(reading(elsewhere.url("b")))
        )
        (document,) = scheduler.core.objects.list("load.example.com")
        assert document.content["path"] == "/b"
        before = elsewhere.count["/a"]
        elsewhere.load = 2
        world.add_pod("web")
        await until(lambda: world.node_of("web"))
        assert elsewhere.count["/a"] <= before + 1, "but for a request that was on its way"


async def test_a_struct_that_was_loaded_afresh_is_what_objects_are_read_into():
    def following(number):
        struct = msgspec.defstruct("Quota", [("metadata", ObjectMeta), ("spec", dict)], frozen=True)

        class Follows:
            name = "Follows"

            def __init__(self, args, handle):
                self.found = handle.follow(CustomResource("example.com", "v1", "quotas", "Quota", struct=struct))

            def filter(self, state, pod, node):
                return None

        return Follows, struct

    world = World()
    world.transport = Serving(world.transport)
    (first, was), (second, now) = following(1), following(2)
    config = configuration(profiles=[profile("Follows")])
    async with scheduling(world, config, registry=registry_of(first)) as scheduler:
        await until(lambda: list(scheduler.core.objects.list(QUOTAS.name)))
        assert type(next(scheduler.core.objects.list(QUOTAS.name))) is was
        await scheduler.reconfigure(config, registry_of(second))
        assert [type(each) for each in scheduler.core.objects.list(QUOTAS.name)] == [now]


# --- their code -------------------------------------------------------------------------------------------------------

PLUGIN = """
from berth.plugin import unschedulable
class Racks:
    name = "Racks"
    def __init__(self, args, handle):
        pass
    def filter(self, state, pod, node):
        {body}
"""


def messages(caplog):
    return [record.getMessage() for record in caplog.records]


class Files:
    """A configuration file and a plugin's file, as `berth run` follows them."""

    def __init__(self, directory, scheduler):
        self.config, self.plugin = directory / "config", directory / "racks.py"
        code = PluginCode(scheduler._reconfiguration.in_force.registry, lambda: self.registry(directory))
        reader = SetupReader(self.read, code, scheduler.reconfigure, lambda: scheduler.config)
        self.file = ConfigFile(self.config, reader.load, reader.apply, has_more=reader.has_new_code)

    def read(self):
        return configuration(profiles=[profile(*self.config.read_text().split())])

    @staticmethod
    def registry(directory):
        return in_tree_registry().merge(plugins_named([f"{directory}/racks.py:Racks"]))

    def results(self):
        return {result: self.file.reloads.value((result,)) for result in ("applied", "refused")}


@pytest.fixture
def directory(tmp_path):
    before = set(sys.modules)
    (tmp_path / "racks.py").write_text(PLUGIN.format(body="return unschedulable('the first says no')"))
    (tmp_path / "config").write_text("Racks")
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    sys.path[:] = [each for each in sys.path if each != str(tmp_path)]


async def test_changed_code_is_put_in_force_when_told_to_look(directory, caplog):
    caplog.set_level(logging.INFO)
    world = World(nodes=1, cpu="8")
    async with scheduling(
        world, configuration(profiles=[profile("Racks")]), registry=Files.registry(directory)
    ) as scheduler:
        files = Files(directory, scheduler)
        world.add_pod("web")
        await until(lambda: world.condition("web"))
        assert "the first says no" in world.condition("web")["message"]
        files.plugin.write_text(PLUGIN.format(body="return None"))
        for _ in range(3):
            await files.file.look()
        assert files.results()["applied"] == 0, "code alone is looked at when somebody says so"
        await files.file.look(at_once=True)
        await until(lambda: world.node_of("web"))
        assert files.results() == {"applied": 1, "refused": 0}
        assert "plugin code was loaded afresh: racks" in messages(caplog)
        await files.file.look(at_once=True)
        assert messages(caplog)[-1].endswith("has not changed")


async def test_code_that_does_not_load_leaves_the_old_one_in_force(directory, caplog):
    world = World(nodes=1, cpu="8")
    async with scheduling(
        world, configuration(profiles=[profile("Racks")]), registry=Files.registry(directory)
    ) as scheduler:
        files, core, module = Files(directory, scheduler), scheduler.core, sys.modules["racks"]
        for text, complaint in (
            ("def broken(:", f"{directory}/racks.py:1: SyntaxError: "),
            (
                PLUGIN.format(body="return None").replace("__init__(self, args, handle)", "__init__(self)"),
                "cannot be made",
            ),
            (PLUGIN.format(body="return None").replace("        pass\n", "        raise RuntimeError('no')\n"), "no ("),
        ):
            files.plugin.write_text(text)
            await files.file.look(at_once=True)
            assert scheduler.core is core
            assert sys.modules["racks"] is module
            assert complaint in messages(caplog)[-1]
            assert "the old one stays in force" in messages(caplog)[-1]
        assert files.results() == {"applied": 0, "refused": 3}
        files.plugin.write_text(PLUGIN.format(body="return None"))
        await files.file.look(at_once=True)
        world.add_pod("web")
        await until(lambda: world.node_of("web"))


async def test_an_installed_plugin_that_does_not_load_is_one_complaint(directory, caplog, monkeypatch):
    """Not a second one about points that it may take part in, of which nothing is known."""
    monkeypatch.syspath_prepend(str(directory))

    def installed():
        return in_tree_registry().beside(installed_plugins([EntryPoint("Racks", "racks:Racks", "berth.plugins")]))

    registry, config = installed(), configuration(profiles=[profile("Racks")])
    async with scheduling(World(nodes=1), config, registry=registry) as scheduler:
        reader = SetupReader(
            lambda: config, PluginCode(registry, installed), scheduler.reconfigure, lambda: scheduler.config
        )
        file, module = ConfigFile(None, reader.load, reader.apply, has_more=reader.has_new_code), sys.modules["racks"]
        (directory / "racks.py").write_text("import there_is_no_such_module\n")
        await file.look(at_once=True)
        assert sys.modules["racks"] is module
        assert "No module named 'there_is_no_such_module'" in messages(caplog)[-1]
        assert f"({directory}/racks.py:1)" in messages(caplog)[-1]
        assert "queueSort" not in messages(caplog)[-1]


async def test_both_change_together_or_not_at_all(directory, caplog):
    world = World(nodes=1, cpu="8")
    async with scheduling(world, configuration(profiles=[profile()]), registry=Files.registry(directory)) as scheduler:
        files, module = Files(directory, scheduler), sys.modules["racks"]
        files.plugin.write_text(PLUGIN.format(body="return None"))
        files.config.write_text("Racks Nowhere")
        await files.file.look(at_once=True)
        assert "Nowhere" in messages(caplog)[-1]
        assert sys.modules["racks"] is module
        files.config.write_text("Racks")
        await files.file.look(at_once=True)
        assert sys.modules["racks"] is not module
        assert files.results() == {"applied": 1, "refused": 1}


async def test_a_refusal_at_the_switch_puts_the_code_back_too(directory):
    world = World(nodes=1, cpu="8")
    config, registry = configuration(profiles=[profile("Racks")]), Files.registry(directory)
    async with scheduling(world, config, registry=registry) as scheduler:
        code = PluginCode(registry, lambda: Files.registry(directory))
        nowhere = configuration(profiles=[profile("Racks", "Nowhere")])
        reader, module = (
            SetupReader(lambda: nowhere, code, scheduler.reconfigure, lambda: scheduler.config),
            sys.modules["racks"],
        )
        (directory / "racks.py").write_text(PLUGIN.format(body="return None"))
        new = reader.load()
        assert sys.modules["racks"] is not module
        with pytest.raises(ConfigError, match="Nowhere"):
            await reader.apply(new)
        assert sys.modules["racks"] is module
        assert scheduler.config == config
