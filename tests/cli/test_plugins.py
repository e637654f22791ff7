"""`berth plugins`, `berth new-plugin`, and the flags `--plugin` and `--config` of the commands that schedule."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from click.testing import CliRunner

from berth.cli import main
from berth.cli.new_plugin import names_of
from tests import guests

QUIET = """
from berth.plugin import Dependency, Promises


class Quiet:
    name = "Quiet"

    def __init__(self, args, handle): ...

    def score(self, state, pod, node):
        return 100 if node.name == "n2" else 0


class Kept(Quiet):
    name = "Kept"
    promises = Promises(score_depends_on=frozenset({Dependency.NODE}))

    def signature(self, pod):
        return ()


class Broken:
    name = "Broken"

    def __init__(self, args, handle):
        raise KeyError("no such key")

    def filter(self, state, pod, node): ...


class Wrong:
    name = "Wrong"

    def __init__(self, args, handle): ...

    def filter(self, state, pod): ...


class LastFirst:
    name = "LastFirst"

    def __init__(self, args, handle): ...

    def less(self, a, b):
        return a.pod.name > b.pod.name
"""


@pytest.fixture
def directory(tmp_path, monkeypatch):
    (tmp_path / "quiet_thing.py").write_text(QUIET)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "quiet_thing", raising=False)
    yield tmp_path
    sys.modules.pop("quiet_thing", None)


def invoke(*arguments):
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result


def listed(*arguments):
    result = invoke("plugins", "-o", "json", *arguments)
    return result.exit_code, {each["name"]: each for each in json.loads(result.stdout)}


def test_the_plugins_of_berth_itself_are_listed_with_points_and_profiles():
    code, found = listed()
    assert code == 0
    assert found["NodeName"] == {
        "name": "NodeName",
        "points": ["preFilter", "filter"],
        "origin": "in-tree",
        "profiles": ["default-scheduler"],
        "healthy": True,
        "problems": [],
        "advice": [],
    }
    assert found["GangScheduling"]["profiles"] == []
    assert listed("--feature-gates", "GenericWorkload=true,GangScheduling=true")[1]["GangScheduling"]["profiles"]


def test_a_plugin_that_is_named_is_enabled_in_the_default_profile_and_comes_first(directory):
    code, found = listed("--plugin", "quiet_thing.py:Quiet")
    assert (code, next(iter(found))) == (0, "Quiet")
    assert found["Quiet"]["origin"] == "the file quiet_thing.py (Quiet)"
    assert found["Quiet"]["profiles"] == ["default-scheduler"]


def test_an_order_of_the_queue_that_is_named_takes_the_place_of_the_default_one(directory):
    code, found = listed("--plugin", "quiet_thing.py:LastFirst")
    assert code == 0
    assert found["LastFirst"]["profiles"] == ["default-scheduler"] and found["PrioritySort"]["profiles"] == []
    told = "only one queue sort plugin can be enabled"
    (directory / "two.py").write_text(QUIET + "Quiet.less = LastFirst.less")
    assert told in invoke("plugins", "--plugin", "quiet_thing.py:LastFirst", "--plugin", "two.py:Quiet").output


def test_a_plugin_that_promises_nothing_is_told_what_that_costs_and_what_to_promise(directory):
    told = (
        "Quiet: score is asked about each node for each pod, with 5,000 nodes 5,000 calls a pod; promise "
        "score_depends_on and signature, and only nodes that have changed are asked about"
    )
    assert told in " ".join(invoke("plugins", "--plugin", "quiet_thing.py:Quiet").stdout.split())
    assert listed("--plugin", "quiet_thing.py:Quiet")[1]["Quiet"]["advice"] == [told]
    assert listed("--plugin", "quiet_thing.py:Kept")[1]["Kept"]["advice"] == []


def test_a_plugin_that_breaks_while_it_is_made_is_listed_with_the_reason(directory):
    code, found = listed("--plugin", "quiet_thing:Broken")
    assert (code, found["Broken"]["healthy"]) == (2, False)
    (problem,) = found["Broken"]["problems"]
    assert "could not be made: KeyError: 'no such key' (quiet_thing.py:26)" in problem
    table = invoke("plugins", "--plugin", "quiet_thing:Broken").stdout
    assert "broken" in table and problem in table


def test_a_plugin_that_no_profile_of_a_configuration_enables_is_told(directory):
    (directory / "config.yaml").write_text(
        yaml.safe_dump({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"})
    )
    result = invoke("plugins", "--config", "config.yaml", "--plugin", "quiet_thing:Quiet")
    assert result.exit_code == 0
    assert "warning: --plugin: no profile of the configuration enables Quiet; add it to its" in result.stderr


@pytest.mark.parametrize("command", ["run", "up", "bench", "decide", "plugins", "demo", "extender"])
def test_every_command_that_schedules_takes_plugins_and_refuses_wrong_ones_in_words(directory, command):
    result = invoke(command, "--plugin", "quiet_thing:Wrong")
    assert result.exit_code == 2
    assert "plugin Wrong of the module quiet_thing has the method filter(self, state, pod), but it" in result.output
    assert invoke(command, "--plugin", "no_such:Thing").exit_code == 2


@pytest.mark.parametrize("command", ["run", "up", "bench", "plugins", "extender"])
def test_a_configuration_that_is_not_there_is_told(directory, command):
    result = invoke(command, "--config", "nothing.yaml")
    assert result.exit_code == 2
    assert "nothing.yaml: cannot read the configuration file: No such file or directory" in result.output


def test_up_and_bench_tell_of_a_plugin_that_breaks_while_it_is_made(directory):
    (directory / "empty.jsonl").write_text("")
    for command in (["up", "--nodes", "0"], ["bench", "empty.jsonl"]):
        result = invoke(*command, "--plugin", "quiet_thing:Broken")
        assert result.exit_code == 2
        assert "could not be made: KeyError: 'no such key' (quiet_thing.py:26)" in result.output


def test_nobody_obeys_a_configuration_without_a_scheduler():
    assert invoke("up", "--no-scheduler", "--config", "x").exit_code == 2


CASE = {
    "name": "two nodes",
    "objects": [
        {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}
        for name in ("n1", "n2")
    ],
    "pods": [{"kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}],
}


def test_decide_enables_a_named_plugin_where_the_case_says_nothing_of_profiles(directory):
    (directory / "case.jsonl").write_text(json.dumps(CASE))
    chosen = {}
    for options in ((), ("--plugin", "quiet_thing.py:Quiet")):
        decided = json.loads(invoke("decide", "case.jsonl", *options).stdout)
        chosen[bool(options)] = decided["steps"][0]["chosen"], "Quiet" in decided["steps"][0]["scores"]
    assert chosen == {False: ("n1", False), True: ("n2", True)}


# --- berth new-plugin -------------------------------------------------------------------------------------------------


def test_a_new_plugin_passes_its_own_test_and_is_healthy(directory):
    said = invoke("new-plugin", "quiet-rack").stdout
    assert "berth up --config quiet-rack/config.yaml" in said
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio"],
        cwd=directory / "quiet-rack", env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert tested.returncode == 0, tested.stdout
    code, found = listed("--plugin", "quiet-rack/quiet_rack.py:QuietRack", "--config", "quiet-rack/config.yaml")
    assert (code, found["QuietRack"]["healthy"], found["QuietRack"]["points"]) == (0, True, ["filter", "score"])
    sys.modules.pop("quiet_rack", None)


@pytest.fixture
def own_one():
    yield
    sys.modules.pop("own_one", None)


LACKING = {"ModelScore": "path", "PoolsInOrder": "pools", "WorkloadLimit": "limits"}
"""Guests whose args nobody can make up."""


@pytest.mark.parametrize("like", sorted(set(guests.entry_points()) - set(LACKING)))
def test_a_new_plugin_like_a_guest_schedules_under_its_new_name(directory, own_one, monkeypatch, like):
    said = invoke("new-plugin", "own-one", "--like", guests.entry_points()[like]).output
    assert "OwnOne is written into own-one/" in said
    monkeypatch.syspath_prepend(directory / "own-one")
    runpy.run_path(str(directory / "own-one/tests/test_own_one.py"))["test_pods_are_scheduled"]()
    assert like not in (directory / "own-one/config.yaml").read_text()


@pytest.mark.parametrize("like", LACKING)
def test_what_a_new_plugin_needs_is_told_in_its_test(directory, like):
    invoke("new-plugin", "own-one", "--like", guests.entry_points()[like])
    assert f'LACKING = "{LACKING[like]}' in (directory / "own-one/tests/test_own_one.py").read_text()


def test_a_new_plugin_like_an_installed_one_depends_on_its_distribution(directory, monkeypatch):
    class Installed(NamedTuple):
        name: str

    class Entry(NamedTuple):
        name: str
        value: str
        dist: Installed

    entry = Entry("QOSSort", guests.entry_points()["QOSSort"], Installed("berth-scheduler-plugins"))
    monkeypatch.setattr("berth.cli.new_plugin.entry_points", lambda group: [entry])
    invoke("new-plugin", "own-one", "--like", "QOSSort")
    assert 'dependencies = ["berth-scheduler", "berth-scheduler-plugins"]' in Path("own-one/pyproject.toml").read_text()
    refused = invoke("new-plugin", "own-two", "--like", "Nothing")
    assert refused.exit_code == 2
    assert "--like Nothing: there is no such plugin; installed are QOSSort" in refused.output


def test_a_new_plugin_overwrites_nothing(directory):
    Path("quiet-rack").mkdir()
    result = invoke("new-plugin", "quiet-rack")
    assert result.exit_code == 1
    assert "quiet-rack is there already; nothing was written" in result.output
    assert list(Path("quiet-rack").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("quiet-rack", ("quiet-rack", "quiet_rack", "QuietRack")),
        ("QuietRack", ("quiet-rack", "quiet_rack", "QuietRack")),
        ("quiet_rack2", ("quiet-rack2", "quiet_rack2", "QuietRack2")),
        ("GPUShare", ("gpu-share", "gpu_share", "GpuShare")),
    ],
)
def test_the_names_of_a_new_plugin(name, names):
    assert names_of(name) == names


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("x y", "is no name for a package"),
        ("-x", "No such option"),
        ("../x", "is no name for a package"),
        ("class", "is a word of Python's own"),
        ("json", "there is a module json already"),
        ("node-ports", "NodePorts is a plugin of Berth itself"),
    ],
)
def test_names_that_no_plugin_can_have(directory, name, why):
    result = invoke("new-plugin", name)
    assert result.exit_code == 2
    assert why in result.output
    assert [path.name for path in directory.iterdir()] == ["quiet_thing.py"]


def test_python_m_berth_is_the_command():
    shown = subprocess.run([sys.executable, "-m", "berth", "--help"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("Usage: berth ")


# --- distributions that are broken ------------------------------------------------------------------------------------


@pytest.fixture
def broken_distribution(directory, monkeypatch):
    """An installed distribution whose plugin cannot be imported."""
    info = directory / "old_tools-0.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: old-tools\nVersion: 0.3\n")
    (info / "entry_points.txt").write_text("[berth.plugins]\nOldTools = old_tools_module:OldTools\n")
    (directory / "old_tools_module.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(directory)
    return f"{directory}/old_tools_module.py:1"


WHY = "cannot be imported: ModuleNotFoundError: No module named 'no_such_library'"


def test_a_broken_distribution_stops_nothing_and_is_told_in_one_line(broken_distribution):
    result = invoke("plugins")
    assert result.exit_code == 0
    (warning,) = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert warning == (
        f"warning: plugin 'OldTools' of the distribution old-tools 0.3 (old_tools_module:OldTools) {WHY} "
        f"({broken_distribution}); repair or upgrade old-tools, or uninstall it; no profile enables it"
    )
    assert WHY in result.stdout
    code, found = listed()
    assert (code, found["OldTools"]["healthy"], found["OldTools"]["profiles"]) == (0, False, [])


@pytest.mark.parametrize("command", [["plugins"], ["bench", "/dev/null"], ["up", "--nodes", "0"]])
def test_a_broken_distribution_that_a_profile_enables_is_an_error_with_its_reason(
    broken_distribution, directory, command
):
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "OldTools"}]}}}],
    }
    (directory / "config.yaml").write_text(yaml.safe_dump(document))
    result = invoke(*command, "--config", "config.yaml")
    assert result.exit_code != 0
    assert f"plugin 'OldTools' of the distribution old-tools 0.3 (old_tools_module:OldTools) {WHY}" in result.output
    assert "warning" not in result.output
