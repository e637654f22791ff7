"""What shells ask for completion: commands without importing them, options, and names that a scheduler knows."""

import os
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from berth.cli import main
from berth.cli.local_record import ServedLocally, record_directory, recorded
from packages.scheduler.tests.cli.test_connection import kubeconfig, listening, own_directory
from tests.cli.test_chosen_pods import Cluster

__all__ = ["own_directory"]

NODES = {"names": ["node-1", "node-2", "other"], "zones": {"names": ["", "zone-a"], "of": [0, 1, 1]}}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_asks_berth(shell):
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0, result.output
    assert f"_BERTH_COMPLETE={shell}_complete" in result.output


def test_a_shell_reads_its_script():
    script = CliRunner().invoke(main, ["completion", "bash"]).output
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def completed(*words):
    *before, begun = words
    return [each.value for each in ShellComplete(main, {}, "berth", "_BERTH_COMPLETE").get_completions(before, begun)]


def test_commands_options_and_outputs():
    assert completed("wha") == ["whatif"]
    assert completed("whatif", "--dr") == ["--drain"]
    assert completed("explain", "-o", "j") == ["json", "jsonpath="]
    assert completed("completion", "") == ["bash", "zsh", "fish"]


def test_behind_a_command_that_there_is_not_nothing_is_completed():
    assert completed("nope", "x") == []


def test_commands_are_completed_without_importing_any():
    script = (
        "import sys\nfrom berth.cli import main\n"
        "from click.shell_completion import ShellComplete\n"
        "ShellComplete(main, {}, 'berth', '_BERTH_COMPLETE').get_completions([], '')\n"
        "found = [name for name in sys.modules if name in ('numpy', 'aiohttp', 'berth.cli.run')]\n"
        "sys.exit(f'imported: {found}' if found else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
async def server():
    from aiohttp import web

    async def nodes(_request):
        return web.json_response(NODES)

    async with listening([web.get("/debug/nodes", nodes), *Cluster().routes()]) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("explain", "--server", "SERVER", "web-2"), ["web-2-a"]),
        (("explain", "-n", "far", "--server", "SERVER", "fa"), ["far"]),
        (("explain", "--server", "SERVER", "far/"), ["far/far"]),
        (("explain", "--server", "SERVER", "--node", "no"), ["node-1", "node-2"]),
        (("whatif", "--drain", "no"), ["node-1", "node-2"]),
        (("whatif", "--lose-zone", "z"), ["zone-a"]),
        (("whatif", "--cluster", "file", "--drain", "no"), []),
    ],
)
async def test_names_are_those_that_the_scheduler_knows(server, words, names, monkeypatch):
    import asyncio

    monkeypatch.setattr("berth.cli.scheduler_in_use.PLAIN_SERVER", server)
    typed = [server if word == "SERVER" else word for word in words]
    assert await asyncio.to_thread(completed, *typed) == names


async def test_names_are_those_of_the_cluster_that_is_asked_about(server, tmp_path):
    import asyncio

    found = []
    with recorded(ServedLocally(server, "", "http://127.0.0.1:1", os.getpid()), record_directory()):
        for cluster in ("http://127.0.0.1:1", "http://127.0.0.1:2"):
            config = kubeconfig(tmp_path, cluster)
            found.append(await asyncio.to_thread(completed, "explain", "--kubeconfig", str(config), "--node", "no"))
    assert found == [["node-1", "node-2"], []]


def test_where_nobody_answers_no_name_is_known():
    assert completed("whatif", "--drain", "") == []
