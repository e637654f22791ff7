"""`berth up --watch`: a saved file is put in force, and what that changes for pending pods is told.

Expectations are those of docs/plugins.md and docs/commands.md.
"""

import logging
import sys

import pytest

from berth.framework.loader import plugins_named
from berth.framework.plugin_code import PluginCode
from berth.plugins.registry import in_tree_registry
from berth.runtime import reconfiguration
from berth.runtime.reload import ConfigFile, SetupReader
from berth_cluster.cli.watching import FileWatch, Prospect, differences, prospects
from tests.runtime.world import World, configuration, scheduling
from tests.waiting import until

PLUGIN = """
from berth.plugin import unschedulable
class Racks:
    name = "Racks"
    def __init__(self, args, handle):
        pass
    def filter(self, state, pod, node):
        {body}
"""
CONFIG = configuration(
    profiles=[
        {"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": [{"name": "Racks"}]}}},
    ]
)


@pytest.fixture
def directory(tmp_path):
    before = set(sys.modules)
    (tmp_path / "racks.py").write_text(PLUGIN.format(body="return unschedulable('no rack')"))
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    sys.path[:] = [each for each in sys.path if each != str(tmp_path)]


class Author:
    """Somebody who saves the plugin's file, and reads what is told."""

    def __init__(self, directory, scheduler):
        registry = self.registry(directory)
        reader = SetupReader(
            lambda: CONFIG,
            PluginCode(registry, lambda: self.registry(directory)),
            scheduler.reconfigure,
            lambda: scheduler.config,
        )
        self.said, self.plugin = [], directory / "racks.py"
        file = ConfigFile(None, reader.load, reader.apply, has_more=reader.has_new_code, more=reader.files)
        self.watch = FileWatch(file, scheduler, self.said.append)

    @staticmethod
    def registry(directory):
        return in_tree_registry().merge(plugins_named([f"{directory}/racks.py:Racks"]))

    async def saves(self, body, *, text="", looks=2):
        """Save the file; what is said about it until it has been looked at so often."""
        self.said.clear()
        self.plugin.write_text(text or PLUGIN.format(body=body))
        for _ in range(looks):
            await self.watch.look()
        return self.said


def starting(directory, world):
    return scheduling(world, CONFIG, registry=Author.registry(directory))


async def test_what_is_saved_is_in_force_and_what_changes_is_told(directory):
    world = World(nodes=2, cpu="8")
    async with starting(directory, world) as scheduler:
        author = Author(directory, scheduler)
        for name in ("web-1", "web-2"):
            world.add_pod(name)
        await until(lambda: world.condition("web-1") and world.condition("web-2"))
        assert await author.saves("return unschedulable('another reason')") == [
            "2 of 2 pending pods would fare otherwise, each by itself:",
            "  default/web-1, default/web-2: 2 no rack → 2 another reason",
        ]
        assert await author.saves("return unschedulable('another reason')  # and a comment") == [
            "nothing changes for 2 pending pods"
        ]
        said = await author.saves("return None if node.name == 'node-1' else unschedulable('not here')")
        assert said == [
            "2 of 2 pending pods would fare otherwise, each by itself:",
            "  default/web-1, default/web-2: 2 another reason → node-1",
        ]
        await until(lambda: world.node_of("web-1") == world.node_of("web-2") == "node-1")


async def test_a_file_that_an_editor_is_at_is_left_alone(directory):
    world = World(nodes=1)
    async with starting(directory, world) as scheduler:
        author, core = Author(directory, scheduler), scheduler.core
        assert await author.saves("return None", looks=1) == []
        assert await author.saves("return  None", looks=1) == []
        assert scheduler.core is core
        author.plugin.unlink()
        await author.watch.look()
        await author.watch.look()
        assert scheduler.core is core
        assert await author.saves("return None") == ["no pod is pending"]
        assert scheduler.core is not core


async def test_broken_code_is_one_message_and_the_old_stays_at_work(directory, caplog):
    world = World(nodes=1, cpu="8")
    async with starting(directory, world) as scheduler:
        author, core = Author(directory, scheduler), scheduler.core
        assert await author.saves("", text="class Racks\n", looks=5) == []
        (told,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        assert told == (
            "the changed code of the plugins is refused, and the old one stays in force: "
            f"{author.plugin}:1: SyntaxError: expected ':'"
        )
        assert scheduler.core is core


async def test_a_module_that_broken_code_imports_is_looked_at_too(directory):
    world = World(nodes=1, cpu="8")
    async with starting(directory, world) as scheduler:
        author, core = Author(directory, scheduler), scheduler.core
        helper = directory / "rack_helper.py"
        helper.write_text("1 / 0\n")
        await author.saves("", text="import rack_helper\n" + PLUGIN.format(body="return None"))
        assert scheduler.core is core
        await author.watch.look()
        helper.write_text("")
        await author.watch.look()
        await author.watch.look()
        assert author.said == ["no pod is pending"]
        assert scheduler.core is not core


async def test_a_pod_that_is_held_back_has_no_node_and_one_that_waits_for_permit_has(directory, monkeypatch):
    monkeypatch.setattr(reconfiguration, "RELOAD_WAIT_S", 0.02)
    monkeypatch.setattr(reconfiguration, "RELOAD_POLL_S", 0.001)
    gate = PLUGIN.format(body="return None") + (
        "    def pre_enqueue(self, pod):\n        return unschedulable('later')\n"
    )
    permit = PLUGIN.replace("unschedulable\n", "Code, Status\n").format(body="return None") + (
        "    def permit(self, state, pod, node_name):\n        return Status(Code.WAIT), 600.0\n"
    )
    world = World(nodes=1, cpu="8")
    async with starting(directory, world) as scheduler:
        author = Author(directory, scheduler)
        world.add_pod("web")
        await until(lambda: world.condition("web"))
        (_, line) = await author.saves("", text=gate)
        assert line == "  default/web: 1 no rack → held back by Racks: later"
        (_, line) = await author.saves("", text=permit)
        assert line == "  default/web: held back by Racks: later → node-0"
        await until(lambda: len(scheduler.core.waiting))
        assert [each.node for each in prospects(scheduler.core).values()] == ["node-0"]
        assert await author.saves("", text=permit + "# the same\n") == ["nothing changes for 1 pending pod"]


async def test_what_cannot_be_put_in_force_yet_is_tried_again(directory, monkeypatch):
    monkeypatch.setattr(reconfiguration, "RELOAD_WAIT_S", 0.02)
    monkeypatch.setattr(reconfiguration, "RELOAD_POLL_S", 0.001)
    (directory / "racks.py").write_text(PLUGIN.format(body="return None"))
    world = World(nodes=1, cpu="8")
    gate = world.transport.hold("bind")
    async with starting(directory, world) as scheduler:
        author, core = Author(directory, scheduler), scheduler.core
        world.add_pod("web")
        await until(lambda: world.transport.count("bind"))
        assert await author.saves("return  None") == []
        assert scheduler.core is core
        gate.set()
        await author.watch.look()
        assert author.said == ["no pod is pending"]
        assert scheduler.core is not core


def test_many_changes_are_summed_up():
    before = {str(n): Prospect(f"default/p{n}", "", f"reason {n % 12}") for n in range(60)}
    after = {uid: Prospect(each.pod, f"node-{int(uid) % 5}", "") for uid, each in before.items()}
    lines = differences(before, after)
    assert lines[0] == "60 of 60 pending pods would fare otherwise, each by itself:"
    assert lines[1] == (
        "  default/p0, default/p12, default/p24 and 2 more: reason 0 → node-0, node-1, node-2 and 2 more"
    )
    assert (len(lines), lines[-1]) == (12, "  … and 2 more changes")
