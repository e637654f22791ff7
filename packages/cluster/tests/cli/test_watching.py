"""`berth up --watch`: a scheduler's process, which is started again when a file is saved.

Expectations are those of docs/plugins.md.
"""

import asyncio
import contextlib
import sys

import pytest

from berth.cli.setup import read_setup
from berth_cluster.cli import watching
from berth_cluster.cli.watching import keep_restarting, sources_of
from tests.waiting import until

PROCESS = """
import pathlib, signal, sys
print(pathlib.Path(sys.argv[1]).read_text(), file=sys.stderr, flush=True)
"""
STAYS = PROCESS + "signal.pause()"
IS_STUBBORN = PROCESS.replace("print", "signal.signal(signal.SIGTERM, signal.SIG_IGN); print") + "signal.pause()"
PLUGIN = """
class Racks:
    name = "Racks"
    def __init__(self, args, handle):
        pass
    def filter(self, state, pod, node):
        pass
"""
AGAIN = "a plugin's file has changed; the scheduler is started again"


@contextlib.asynccontextmanager
async def at_work(directory, program):
    """A process that says what it finds in a file; what it has said."""
    said = []
    command = [sys.executable, "-c", program, str(directory / "racks.py")]
    ready = asyncio.Event()
    running = asyncio.create_task(keep_restarting(command, [(directory, "*.py")], said.append, ready))
    yield said
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "LOOK_EVERY_S", 0.005)
    (tmp_path / "racks.py").write_text("one")
    return tmp_path / "racks.py"


async def test_a_scheduler_is_ready_once_it_has_seen_the_cluster(file):
    ready = asyncio.Event()
    file.write_text("I1129 16:52:40.882270 5613 scheduler.py:319] caches are synced: 1 nodes, 0 pending pods")
    command = [sys.executable, "-c", STAYS, str(file)]
    running = asyncio.create_task(keep_restarting(command, [(file.parent, "*.py")], str, ready))
    await until(ready.is_set)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("program", [STAYS, PROCESS], ids=["that stays", "that has ended by itself"])
async def test_a_process_is_started_again_when_a_file_is_saved(file, program):
    async with at_work(file.parent, program) as said:
        await until(lambda: said == ["one"])
        file.write_text("two")
        await until(lambda: said == ["one", AGAIN, "two"])
        (file.parent / "beside.py").write_text("")
        await until(lambda: said == ["one", AGAIN, "two", AGAIN, "two"])


async def test_one_that_does_not_end_is_ended(file, monkeypatch):
    monkeypatch.setattr(watching, "STOP_WITHIN_S", 0.01)
    async with at_work(file.parent, IS_STUBBORN) as said:
        await until(lambda: said == ["one"])
        file.write_text("two")
        await until(lambda: said == ["one", AGAIN, "two"])


async def test_a_file_that_an_editor_is_at_is_left_alone(file, monkeypatch):
    contents = [{"a": n} for n in (1, 2, 3, 4)]
    looked = []

    def look(_sources):
        looked.append(contents[min(len(looked), 3)])
        return looked[-1]

    monkeypatch.setattr(watching, "_contents", look)
    async with at_work(file.parent, STAYS) as said:
        await until(lambda: AGAIN in said)
    assert [each["a"] for each in looked[:5]] == [1, 2, 3, 4, 4], "it was seen twice, and no other was"
    assert said.count(AGAIN) == 1


@pytest.mark.parametrize("is_package", [False, True])
def test_a_plugins_own_files_are_watched(tmp_path, monkeypatch, is_package):
    monkeypatch.syspath_prepend(str(tmp_path))
    place = tmp_path / "racking" if is_package else tmp_path
    (place / "rules").mkdir(parents=True)
    (place / "rules" / "plugin.py" if is_package else place / "racking_alone.py").write_text(PLUGIN)
    module = "racking.rules.plugin" if is_package else "racking_alone"
    assert sources_of(read_setup(plugins=[f"{module}:Racks"])) == [(place, "**/*.py" if is_package else "*.py")]
    for name in [each for each in sys.modules if each.startswith("racking")]:
        del sys.modules[name]
