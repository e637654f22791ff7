"""Plugins that come with a changed configuration: what they want followed, their first minute, and their code.

Expectations are those of docs/living-with-plugins.md.
"""

import asyncio
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
from berth.runtime import probation, reconfiguration
from berth.runtime.probation import FAILURES, PROBATION_S
from berth.runtime.reload import ConfigFile, ReloadPostponed, SetupReader
from berth.testing.invariants import check
from tests.framework.test_custom_resources import QUOTAS, ByQuota, Serving, manifest
from tests.runtime.world import POD, World, configuration, scheduling
from tests.waiting import pass_time, until, virtually


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


# --- their first minute -----------------------------------------------------------------------------------------------


def failing(every=1, at="filter"):
    """A plugin that fails in one attempt of so many."""

    class Fails:
        name = "Fails"
        count = 0

        def __init__(self, args, handle):
            pass

        def _fail(self):
            type(self).count += 1
            if self.count % every == 0:
                raise ValueError("boom")

    def method(self, *_arguments):
        self._fail()

    setattr(Fails, at, method)
    if at == "reserve":
        Fails.unreserve = lambda self, *_arguments: None
    return Fails


def in_virtual_time(options):
    return {"clock": asyncio.get_running_loop().time, **options}


def messages(caplog):
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("at", ["pre_filter", "filter", "score", "reserve", "permit", "pre_enqueue"])
@virtually
async def test_a_plugin_that_breaks_is_taken_back_within_its_first_minute(caplog, at):
    undone, world = [], World(nodes=3, cpu="8")
    options = in_virtual_time({"registry": registry_of(failing(at=at))})
    async with scheduling(world, **options) as scheduler:
        before = scheduler.config
        await scheduler.reconfigure(configuration(profiles=[profile("Fails")]), on_undone=undone.append)
        for number in range(FAILURES + 1):
            world.add_pod(f"p{number}")
        await until(lambda: undone)
        assert asyncio.get_running_loop().time() < PROBATION_S
        assert scheduler.config == before
        await until(lambda: len(world.accepted()) == FAILURES + 1)
        check(scheduler.core)
        assert undone == ["Fails"]
        (told,) = [each for each in messages(caplog) if "is undone" in each]
        assert "plugin Fails failed in" in told
        assert "ValueError: boom" in told
        await until(lambda: world.events("ConfigurationUndone"))
        (event,) = world.events("ConfigurationUndone")
        assert event["involvedObject"]["kind"] == "Lease"
        assert "plugin Fails failed in" in event["message"]
    assert len({record.name for record in world.accepted()}) == len(world.accepted()), "each is bound once"


@virtually
async def test_rare_failures_and_late_ones_are_no_reason():
    undone, world = [], World(nodes=3, cpu="64")
    plugin = failing(every=30)
    async with scheduling(world, **in_virtual_time({"registry": registry_of(plugin)})) as scheduler:
        await scheduler.reconfigure(configuration(profiles=[profile("Fails")]), on_undone=undone.append)
        core = scheduler.core
        for number in range(100):
            world.add_pod(f"p{number}", cpu="10m")
        await until(lambda: len(world.accepted()) == 100)
        await pass_time(PROBATION_S + 5)
        plugin._fail = failing()._fail
        for number in range(20):
            world.add_pod(f"q{number}", cpu="10m")
        await pass_time(30)
        assert not undone
        assert scheduler.core is core


@virtually
async def test_a_plugin_that_was_as_bad_before_is_no_reason_to_go_back():
    undone, world = [], World(nodes=3, cpu="8")
    config = configuration(profiles=[profile("Fails")])
    async with scheduling(world, config, **in_virtual_time({"registry": registry_of(failing())})) as scheduler:
        await scheduler.reconfigure(
            configuration(profiles=[profile("Fails")], podMaxBackoffSeconds=5), on_undone=undone.append
        )
        for number in range(10):
            world.add_pod(f"p{number}")
        await pass_time(PROBATION_S)
        assert not undone
        assert scheduler.config.pod_max_backoff_s == 5


@virtually
async def test_only_new_plugins_are_on_probation():
    class Fine:
        name = "Fine"

        def __init__(self, args, handle):
            pass

        def filter(self, state, pod, node):
            return None

    undone, world = [], World(nodes=3, cpu="8")
    config, registry = configuration(profiles=[profile("Fails")]), registry_of(failing(), Fine)
    async with scheduling(world, config, **in_virtual_time({"registry": registry})) as scheduler:
        await scheduler.reconfigure(configuration(profiles=[profile("Fails", "Fine")]), on_undone=undone.append)
        for number in range(10):
            world.add_pod(f"p{number}")
        await pass_time(PROBATION_S)
        assert not undone


@virtually
async def test_going_back_waits_for_bindings_under_way_however_long(monkeypatch):
    monkeypatch.setattr(reconfiguration, "RELOAD_POLL_S", 1.0)
    monkeypatch.setattr(probation, "PROBATION_S", 5.0)
    undone, world = [], World(nodes=3, cpu="8")
    options = in_virtual_time({"registry": registry_of(failing())})
    async with scheduling(world, **options) as scheduler:
        second = {"schedulerName": "second"}
        both = configuration(profiles=[profile("Fails"), second])
        await scheduler.reconfigure(both, on_undone=undone.append)
        gate = world.transport.hold("bind")
        world.add_pod("bound", schedulerName="second")
        await until(lambda: world.transport.count("bind"))
        for number in range(FAILURES):
            world.add_pod(f"p{number}")
        await pass_time(150)  # it is condemned by then, and long past its first minute
        assert not undone
        gate.set()
        await until(lambda: undone)
        await until(lambda: len(world.accepted()) == FAILURES + 1)
        assert [record.name for record in world.accepted()].count("bound") == 1


@virtually
async def test_what_replaces_a_broken_set_in_time_is_not_undone_for_its_sake():
    undone, world = [], World(nodes=3, cpu="8")
    async with scheduling(world, **in_virtual_time({"registry": registry_of(failing())})) as scheduler:
        await scheduler.reconfigure(configuration(profiles=[profile("Fails")]), on_undone=undone.append)
        await scheduler.reconfigure(configuration(podMaxBackoffSeconds=30), on_undone=undone.append)
        for number in range(10):
            world.add_pod(f"p{number}")
        await pass_time(PROBATION_S)
        assert not undone
        assert scheduler.config.pod_max_backoff_s == 30
        assert len(world.accepted()) == 10


@virtually
async def test_what_replaces_a_broken_set_while_it_waits_to_go_is_not_undone_either():
    undone, world = [], World(nodes=3, cpu="8")
    async with scheduling(world, **in_virtual_time({"registry": registry_of(failing())})) as scheduler:
        second = {"schedulerName": "second"}
        await scheduler.reconfigure(configuration(profiles=[profile("Fails"), second]), on_undone=undone.append)
        gate = world.transport.hold("bind")
        world.add_pod("bound", schedulerName="second")
        await until(lambda: world.transport.count("bind"))
        replacing = asyncio.create_task(scheduler.reconfigure(configuration(podMaxBackoffSeconds=30)))
        for number in range(2 * FAILURES):
            world.add_pod(f"p{number}")
        await pass_time(0.01)
        scheduler.core.health.rounds.number += 1
        (health,) = [each for each in scheduler.core.health if each.name == "Fails"]
        for _ in range(FAILURES):  # what cycles that are still under way may add
            scheduler.core.health.rounds.number += 1
            health.called("attempts")
            health.failed("attempts", "boom")
        await pass_time(2)
        gate.set()
        await replacing
        await pass_time(PROBATION_S)
        assert not undone
        assert scheduler.config.pod_max_backoff_s == 30


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
        return {result: self.file.reloads.value((result,)) for result in ("applied", "refused", "undone")}


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
        assert files.results() == {"applied": 1, "refused": 0, "undone": 0}
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
        assert files.results() == {"applied": 0, "refused": 3, "undone": 0}
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


async def test_code_that_breaks_at_work_is_taken_back(directory, monkeypatch):
    monkeypatch.setattr(reconfiguration, "LOOK_EVERY_S", 0.01)
    world = World(nodes=1, cpu="8")
    async with scheduling(
        world, configuration(profiles=[profile("Racks")]), registry=Files.registry(directory)
    ) as scheduler:
        files, module = Files(directory, scheduler), sys.modules["racks"]
        files.plugin.write_text(PLUGIN.format(body="return node.rack"))
        await files.file.look(at_once=True)
        assert sys.modules["racks"] is not module
        for number in range(FAILURES):
            world.add_pod(f"p{number}")
        await until(lambda: files.results()["undone"])
        assert sys.modules["racks"] is module
        assert files.file.undone.value(("Racks",)) == 1
        await until(lambda: all("the first says no" in world.condition(f"p{n}")["message"] for n in range(FAILURES)))
        for _ in range(3):
            await files.file.look()
        assert files.results() == {"applied": 1, "refused": 0, "undone": 1}, "it does not come back by itself"


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
        assert files.results() == {"applied": 1, "refused": 1, "undone": 0}


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
            await reader.apply(new, lambda _plugin: None)
        assert sys.modules["racks"] is module
        assert scheduler.config == config
