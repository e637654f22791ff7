"""`kubectl berth` with the kubectl that is installed: its flags, its namespace, its completion, and missing rights."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib

import pytest
import yaml

from packages.workbench.tests import pages
from tests.clusters import kubeconfig_of
from tests.e2e.kubectl import KUBECTL, Kubectl, eventually
from tests.paths import ROOT
from tests.waiting import WAIT_S

LARGE = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: large}
spec:
  replicas: 2
  selector: {matchLabels: {app: large}}
  template:
    metadata: {labels: {app: large}}
    spec: {containers: [{name: main, image: large, resources: {requests: {cpu: "100"}}}]}
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A directory with the programs that an installation of the scheduler has."""
    directory = tmp_path_factory.mktemp("bin")
    scripts = tomllib.loads((ROOT / "packages/scheduler/pyproject.toml").read_text())["project"]["scripts"]
    for name, target in scripts.items():
        module, function = target.split(":")
        (directory / name).write_text(f"#!{sys.executable}\nimport {module}\n{module}.{function}()\n")
        (directory / name).chmod(0o755)
    return directory


class Shell:
    """Types lines where `kubectl berth` is installed."""

    def __init__(self, kubeconfig, programs, home):
        self.kubectl = Kubectl(kubeconfig, home / "cache")
        self.environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "KUBECONFIG": str(kubeconfig),
            "COLUMNS": "200",
        }

    def __call__(self, line, code=0):
        done = subprocess.run(
            ["bash", "-c", line], env=self.environment, capture_output=True, text=True, timeout=WAIT_S, check=False
        )
        assert done.returncode == code, f"$ {line}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture
def shell(unscheduled_cluster, programs, tmp_path):
    """Nobody schedules there."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(unscheduled_cluster.read_text())
    return Shell(kubeconfig, programs, tmp_path)


def pending(kubectl, namespace):
    """Make two pods that are too large for every node, and return the name of one."""
    kubectl("create", "namespace", namespace)
    kubectl("-n", namespace, "apply", "-f", "-", text=LARGE)
    eventually(lambda: len(kubectl("-n", namespace, "get", "pods", "-o", "name").split()), 2)
    return kubectl("-n", namespace, "get", "pods", "-o", "name").split()[0].removeprefix("pod/")


def test_explain_reads_the_cluster_and_says_what_would_help_where_no_scheduler_of_ours_is_at_work(
    shell, namespace_name
):
    pod = pending(shell.kubectl, namespace_name)
    said = shell(f"kubectl berth explain {pod} -n {namespace_name}")
    assert "Assumed: the default configuration, since the cluster's scheduler does not tell its own" in said
    assert "0/3 nodes are available: 3 Insufficient cpu" in said
    assert "Request at most 8 CPU instead of 100 CPU." in said
    found = json.loads(shell(f"kubectl berth -n {namespace_name} explain pod/{pod} -o json 2>/dev/null"))
    assert (found["pod"], found["state"]) == (f"{namespace_name}/{pod}", "pending")


def test_the_namespace_is_the_contexts_and_context_and_kubeconfig_go_before_and_behind(shell, namespace_name, tmp_path):
    pod = pending(shell.kubectl, namespace_name)
    document = yaml.safe_load(shell.kubectl.kubeconfig.read_text())
    (only,) = document["contexts"]
    other = {"name": "own", "context": {**only["context"], "namespace": namespace_name}}
    file = tmp_path / "other"
    file.write_text(yaml.safe_dump({**document, "contexts": [only, other]}))
    for typed in (
        f"--kubeconfig {file} --context own explain {pod}",
        f"explain {pod} --context=own --kubeconfig {file}",
    ):
        assert f"{namespace_name}/{pod}" in shell(f"kubectl berth {typed}")
    said = shell(f"kubectl berth --kubeconfig {file} explain {pod}", code=1)
    assert f"there is no pod default/{pod} in the cluster" in said


@pytest.fixture(scope="module")
def served(tmp_path_factory, default_port):
    """The kubeconfig of a cluster whose scheduler serves at its own port."""
    yield from kubeconfig_of(tmp_path_factory.mktemp("served"), "up", "--nodes", 3)


def test_a_scheduler_of_ours_tells_its_story_and_what_would_help_follows(served, programs, tmp_path, namespace_name):
    shell = Shell(served, programs, tmp_path)
    pod = pending(shell.kubectl, namespace_name)
    eventually(lambda: "Insufficient cpu" in shell(f"kubectl berth explain {pod} -n {namespace_name}; true"), True)
    said = shell(f"kubectl berth explain {pod} -n {namespace_name}")
    assert "Story (UTC)" in said
    assert "Request at most 8 CPU instead of 100 CPU." in said


def test_the_commands_of_the_page_are_typed(served, programs, tmp_path):
    """In its namespace and with its names; only the made-up part of the pod's name is another."""
    shell = Shell(served, programs, tmp_path)
    shell.kubectl("create", "namespace", "shop")
    shell.kubectl("-n", "shop", "apply", "-f", "-", text=LARGE.replace("large", "web"))
    eventually(lambda: len(shell.kubectl("-n", "shop", "get", "pods", "-o", "name").split()), 2)
    pod = shell.kubectl("-n", "shop", "get", "pods", "-o", "name").split()[0].removeprefix("pod/")
    lines = pages.commands((ROOT / "docs/kubectl.md").read_text())
    assert len(lines) == 4
    explained, workload, everything, drained = (shell(line.replace("web-7957885594-2c76k", pod)) for line in lines)
    assert "Request at most 8 CPU instead of 100 CPU." in explained
    assert f"shop/{pod}" in workload
    assert "Deployment shop/web: 2 pods pending" in everything
    assert "node-1" in drained or "every pod" in drained


def test_who_may_not_read_is_told_the_right_and_the_role_that_grants_it(shell, namespace_name, tmp_path):
    """The role is pasted as it is printed, with the name of who asks, and then the cluster is read."""
    pod = pending(shell.kubectl, namespace_name)
    shell.kubectl("-n", namespace_name, "create", "serviceaccount", "reader")
    token = shell.kubectl("-n", namespace_name, "create", "token", "reader").strip()
    document = yaml.safe_load(shell.kubectl.kubeconfig.read_text())
    file = tmp_path / "reader"
    file.write_text(yaml.safe_dump({**document, "users": [{**document["users"][0], "user": {"token": token}}]}))
    ask = f"kubectl berth explain {pod} -n {namespace_name} --kubeconfig {file}"
    said = shell(ask, code=1)
    assert re.search(r'cannot list resource "(nodes|pods)" in API group ""', said)
    grant = said.partition("all that is read: ")[2].strip()
    who = f"system:serviceaccount:{namespace_name}:reader"
    try:
        shell(grant.replace("--user=WHO", f"--user={shlex.quote(who)}"))
        said = shell(ask)
        assert "Request at most 8 CPU instead of 100 CPU." in said
        assert "may not be listed" not in said
    finally:
        shell.kubectl("delete", "clusterrolebinding,clusterrole", "berth-reader", "--ignore-not-found")


BASH = """
_get_comp_words_by_ref() {{
  cword=$COMP_CWORD cur=${{COMP_WORDS[cword]}} prev=${{COMP_WORDS[cword-1]}} words=("${{COMP_WORDS[@]}}")
}}
__ltrim_colon_completions() {{ :; }}
compopt() {{ :; }}
source <({kubectl} completion bash)
COMP_WORDS=({words}) COMP_CWORD={at} COMP_TYPE=9 COMP_LINE="{words}"
COMP_POINT=${{#COMP_LINE}}
__start_kubectl
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
"""What bash does at the Tab key; the functions are those of the package bash-completion, which need not be there."""


def completed(shell, *words):
    script = BASH.format(kubectl=KUBECTL, words=" ".join(words), at=len(words) - 1)
    return {each.strip() for each in shell(script).splitlines()}


def test_bash_completes_commands_options_and_pods(shell, namespace_name):
    pod = pending(shell.kubectl, namespace_name)
    assert completed(shell, "kubectl", "berth", "upg") == {"upgrade-plan"}
    assert completed(shell, "kubectl", "berth", "whatif", "--dra") == {"--drain"}
    found = completed(shell, "kubectl", "berth", "-n", namespace_name, "explain", "lar")
    assert pod in found and len(found) == 2
    assert "node-1" in completed(shell, "kubectl", "berth", "whatif", "--drain", "node-1")
