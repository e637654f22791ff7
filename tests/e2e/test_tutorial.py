"""The tutorial in docs/plugins.md and the cookbook beside it: their files written, tested, installed, run, removed."""

import json
import os
import re
import subprocess
import sys
import sysconfig

import pytest

from berth.api.resources import RESOURCES
from berth.framework.loader import misfits
from tests.e2e.processes import Api
from tests.paths import PYTHONPATH, ROOT
from tests.waiting import WAIT_S, eventually

TUTORIAL = "\n".join((ROOT / "docs" / page).read_text() for page in ("plugins.md", "plugins-cookbook.md"))
NODES, PODS = RESOURCES["Node"], RESOURCES["Pod"]
PLUGINS = {"QuietRack", "AppLimit", "Seats", "Together", "CoolRack"}


def blocks():
    """The tutorial's files: those that begin with their name in a comment, and what is said to go on."""
    files = {}
    for _, text in re.findall(r"```(python|toml|yaml)\n(.*?)```", TUTORIAL, re.DOTALL):
        name, goes_on = re.fullmatch(r"# ([\w./]+)(,(?: the class)? goes on)?", text.partition("\n")[0]).groups()
        files[name] = files[name] + text if goes_on else text
    return files


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """An empty directory with the tutorial's files, and a virtual environment in which Berth is installed."""
    made = tmp_path_factory.mktemp("tutorial")
    for name, text in blocks().items():
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_text(text)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", made / "venv"], check=True)
    (site,) = (made / "venv/lib").glob("python*/site-packages")
    (site / "outer.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    return made


def run(directory, *arguments, code=0):
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": PYTHONPATH}
    done = subprocess.run(
        [directory / "venv/bin/python", "-m", *arguments],
        cwd=directory, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def listed(directory, *arguments, code=0):
    return {
        each["name"]: each
        for each in json.loads(run(directory, "berth", "plugins", "-o", "json", *arguments, code=code))
    }


def test_every_block_of_the_tutorial_is_a_file_or_a_command():
    assert set(blocks()) == {
        "quiet_rack.py", "app_limit.py", "by_quota.py", "seats.py", "together.py", "gentle.py",
        "cool_rack.py", "stamp.py", "tests/test_quiet_rack.py", "tests/test_plugins.py", "pyproject.toml",
        "config.yaml",
    }  # fmt: skip
    languages = set(re.findall(r"^```(\w+)$", TUTORIAL, re.MULTILINE))
    assert languages == {"python", "toml", "yaml", "console"}


def test_the_tutorials_tests_pass(directory):
    assert "12 passed" in run(directory, "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio")


@pytest.mark.long
def test_the_tutorials_plugins_are_installed_run_and_removed(directory):
    assert not PLUGINS & set(listed(directory))
    run(directory, "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", ".")
    try:
        found = listed(directory, "--config", "config.yaml")
        assert {name for name in PLUGINS if found[name]["healthy"] and found[name]["profiles"]} == PLUGINS
        assert found["Together"]["points"] == ["reserve", "permit"]
        assert found["CoolRack"]["origin"] == "the distribution rack-plugins 1.0 (cool_rack:CoolRack)"
        schedule(directory)
    finally:
        run(directory, "pip", "uninstall", "--quiet", "--yes", "rack-plugins")
    assert not PLUGINS & set(listed(directory))
    # what the configuration enables is not there any more
    said = subprocess.run(
        [directory / "venv/bin/python", "-m", "berth", "up", "--config", "config.yaml"],
        cwd=directory, capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
    )  # fmt: skip
    assert said.returncode == 2
    assert 'plugin "QuietRack" does not exist' in said.stderr


@pytest.mark.long
def test_where_nobody_serves_a_plugins_resource_it_is_empty(directory):
    said = up_and_down(directory, "--plugin", "by_quota.py:ByQuota")
    assert "teamquotas" not in said, "which is no news, since it is followed as soon as it is defined"


def up_and_down(directory, *options):
    """Bring a cluster up, end it, and return what it has said."""
    up = subprocess.Popen(
        [directory / "venv/bin/python", "-m", "berth", "up", "--scheduler-port", "0", *options],
        cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
    )  # fmt: skip
    said = []
    for line in up.stdout:
        said.append(line)
        if "Ctrl-C" in line:
            break
    up.terminate()
    rest, _ = up.communicate(timeout=WAIT_S)
    assert (up.returncode, "Traceback" in rest) == (0, False), "".join(said) + rest
    return "".join(said)


def schedule(directory):
    """Bring a cluster up with the configuration, and see the plugins decide."""
    up = subprocess.Popen(
        [directory / "venv/bin/python", "-m", "berth", "up", "--config", "config.yaml", "--nodes", "3",
         "--scheduler-port", "0"],
        cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
    )  # fmt: skip
    try:
        said = []
        for line in up.stdout:
            said.append(line)
            if "Ctrl-C" in line:
                break
        assert said and "Ctrl-C" in said[-1], "".join(said)
        api = Api(directory / ".berth/kubeconfig")
        loud, *quiet = sorted(node["metadata"]["name"] for node in api.list(NODES))
        for name in quiet:
            api.patch(NODES, "", name, {"metadata": {"labels": {"rack.example.com/mode": "quiet"}}})
        for name in ("web-1", "web-2", "web-3"):
            api.create(PODS, pod(name, app="web"))
        gang = {"gang.example.com/name": "g", "gang.example.com/size": "2"}
        api.create(PODS, pod("g-1", **gang))
        api.create(PODS, pod("last"))
        eventually(lambda: nodes_of(api)["last"])
        # two of an application fit on the one loud node, and half a gang waits, though it came before the last pod
        assert sorted(nodes_of(api).items()) == [
            ("g-1", ""),
            ("last", loud),
            ("web-1", loud),
            ("web-2", loud),
            ("web-3", ""),
        ]
        api.create(PODS, pod("g-2", **gang))
        eventually(lambda: nodes_of(api)["g-1"] and nodes_of(api)["g-2"])
    finally:
        up.terminate()
        rest, _ = up.communicate(timeout=WAIT_S)
    assert (up.returncode, "Traceback" in rest) == (0, False), rest


def nodes_of(api):
    return {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in api.list(PODS)}


def pod(name, **labels):
    container = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [container]},
    }


def test_the_tutorials_plugins_have_no_faults(directory, monkeypatch):
    monkeypatch.syspath_prepend(directory)
    from berth.framework.loader import plugins_named

    names = re.findall(r'^(\w+) = "(\w+:\w+)"$', blocks()["pyproject.toml"], re.MULTILINE)
    registry = plugins_named([value for _, value in names])
    assert set(registry.names) == {name for name, _ in names} == PLUGINS
    assert [misfits(registry.factory(name), name) for name in registry.names] == [[]] * len(PLUGINS)
