"""The scheduler installed alone: without the files of its siblings and without what only they need.

The installation is a directory with the package `berth` and its metadata, in front of the installed dependencies.
Python is started without `site`, so that no editable installation puts the siblings back.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import distribution

import pytest

from berth.api.resources import RESOURCES
from tests.e2e.processes import CONFIG, Api, free_port
from tests.paths import SCHEDULER
from tests.waiting import eventually

NOT_NEEDED = ("nicegui", "textual", "ortools", "matplotlib", "distributed", "pyarrow")
START = (
    "import sys\n"
    f"sys.modules.update(dict.fromkeys({NOT_NEEDED!r}))  # importing one of them fails\n"
    "from berth.cli import main\n"
    "main(prog_name='berth')\n"
)
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "64"}}}]},
}


@pytest.fixture
def alone(tmp_path):
    """An installation that has the scheduler only: how its command line begins, and its environment."""
    site = tmp_path / "site"
    shutil.copytree(SCHEDULER, site / "berth", ignore=shutil.ignore_patterns("__pycache__"))
    installed = distribution("berth-scheduler")
    metadata = site / "berth_scheduler-0.dist-info"
    metadata.mkdir()
    for name in ("METADATA", "entry_points.txt"):
        (metadata / name).write_text(installed.read_text(name))
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    path = os.pathsep.join([str(site), sysconfig.get_path("platlib"), sysconfig.get_path("purelib")])
    environment = os.environ | {"PYTHONPATH": path, "XDG_RUNTIME_DIR": str(runtime), "COLUMNS": "100"}
    return [sys.executable, "-S", "-c", START], environment


def said(alone, *arguments, code=0):
    command, environment = alone
    done = subprocess.run(
        [*command, *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_help_lists_what_is_there(alone):
    listed = re.findall(r"^  ([\w-]+)  +\S", said(alone, "--help"), re.MULTILINE)
    assert [name for name in listed if not name.startswith("-")] == [
        "run",
        "explain",
        "observe",
        "extender",
        "plugins",
        "new-plugin",
        "version",
        "completion",
    ]
    told = said(alone, "up", code=2)
    assert "there is no command 'up'" in told
    assert "others come with berth-scheduler[workbench,cluster,kueue]" in " ".join(told.split())
    assert "--what-would-help" not in said(alone, "explain", "--help")


def test_plugins_are_listed(alone):
    assert "NodeResourcesFit" in said(alone, "plugins")


def test_it_schedules_and_explains(alone, unscheduled_cluster, namespace_name, tmp_path):
    config, port = tmp_path / "config.yaml", free_port()
    config.write_text(CONFIG % "false")
    command, environment = alone
    log = tmp_path / "run.log"
    with log.open("wb") as output:
        run = subprocess.Popen(
            [*command, "run", "--config", config, "--kubeconfig", unscheduled_cluster, "--secure-port", str(port)],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        cluster = Api(unscheduled_cluster)
        cluster.create(RESOURCES["Namespace"], {"metadata": {"name": namespace_name}}, "")
        cluster.create(RESOURCES["Pod"], POD, namespace_name)
        eventually(lambda: conditions(cluster, namespace_name) or run.poll() is not None)
        assert run.poll() is None, log.read_text()
        where = ("--namespace", namespace_name, "--kubeconfig", unscheduled_cluster)
        assert "3 Insufficient cpu" in said(alone, "explain", "web", *where)
    finally:
        run.terminate()
        run.wait(30)
    assert "Traceback" not in log.read_text()


def conditions(cluster, namespace):
    (pod,) = (pod for pod in cluster.list(RESOURCES["Pod"]) if pod["metadata"]["namespace"] == namespace)
    return pod.get("status", {}).get("conditions")
