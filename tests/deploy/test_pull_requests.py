"""What docs/pull-requests.md shows of pipelines, done: the action's steps, GitLab's script, two hooks.

Each runs in a clone in which `k8s/` asks for more than before. What the services would do is done here: expressions of
the action are filled in, variables are set, and the hook's container is a process with its service account's token.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

from berth_workbench.cli.cluster_input import reader_role
from packages.workbench.tests import pages
from packages.workbench.tests.planning.test_check import deployment
from packages.workbench.tests.planning.test_survival import node
from tests.paths import ROOT
from tests.waiting import WAIT_S

PAGE = (ROOT / "docs/pull-requests.md").read_text()
FILES = {name: yaml.safe_load(text) for name, text in pages.files(PAGE).items() if name != "reader.yaml"}
READER = yaml.safe_load(pages.files(PAGE)["reader.yaml"])
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
TOO_MUCH = "shop/web 4 → 10: 8 have a place; 2 lack 1 CPU. 1 more node like n0 takes them."


@pytest.fixture
def berth(tmp_path):
    """A directory with the command."""
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "berth").write_text(f"#!{sys.executable}\nfrom berth.__main__ import main\nmain()\n")
    (directory / "berth").chmod(0o755)
    return directory


def git(directory, *words):
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=directory, check=True)


@pytest.fixture
def clone(tmp_path):
    """A shallow clone of a pull request that scales a Deployment to more than fits."""
    origin = tmp_path / "origin"
    (origin / "k8s").mkdir(parents=True)
    (origin / "clusters").mkdir()
    nodes = {"apiVersion": "v1", "kind": "List", "items": [node(f"n{at}", cpu="4").document for at in range(2)]}
    for file in ("clusters/eu.snapshot.gz", "clusters/us.snapshot.gz", "now.snapshot.gz"):
        (origin / file).write_text(json.dumps(nodes))
    (origin / "k8s/web.yaml").write_text(deployment("web", 4))
    git(origin, "init", "-q", "-b", "main")
    git(origin, "add", ".")
    git(origin, "commit", "-q", "-m", "before")
    git(origin, "checkout", "-q", "-b", "more")
    (origin / "k8s/web.yaml").write_text(deployment("web", 10))
    git(origin, "commit", "-q", "-a", "-m", "after")
    git(tmp_path, "clone", "-q", "--depth=1", "--branch=more", f"file://{origin}", "clone")
    return tmp_path / "clone"


def typed(script, directory, code, **environment):
    """Run a script as runners do, and return what it has printed."""
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=directory, env={**os.environ, **environment}, capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == code, f"{script}\n{done.stdout}{done.stderr}"
    return done.stdout


# -- GitHub -----------------------------------------------------------------------------------------------------------


class Runner:
    """Does the steps of the action as GitHub's runner does."""

    def __init__(self, clone, berth, **given):
        self.temporary = clone.parent / "runner"
        self.temporary.mkdir()
        self.clone = clone
        defaults = {name: each.get("default", "") for name, each in ACTION["inputs"].items()}
        assert given.keys() <= ACTION["inputs"].keys()
        self.inputs = {**defaults, "base": "main", "berth": str(berth / "berth"), **given}
        self.files = {"GITHUB_OUTPUT": self.temporary / "output", "GITHUB_STEP_SUMMARY": self.temporary / "summary"}

    def run(self, code):
        said = ""
        for step in ACTION["runs"]["steps"]:
            if step.get("if") == "inputs.berth == ''" and self.inputs["berth"]:
                continue
            is_last = step is ACTION["runs"]["steps"][-1]
            environment = {name: self.filled(text) for name, text in step.get("env", {}).items()}
            files = {name: str(path) for name, path in self.files.items()}
            said = typed(step["run"], self.clone, code if is_last else 0, RUNNER_TEMP=str(self.temporary),
                         **environment, **files)  # fmt: skip
        return said

    def filled(self, text):
        found = re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: self.inputs[match[1]], text)
        assert "${{" not in found
        return found

    @property
    def outputs(self):
        return dict(line.split("=", 1) for line in self.files["GITHUB_OUTPUT"].read_text().splitlines())


def given_on_the_page():
    (job,) = FILES["check.yml"]["jobs"].values()
    return job["steps"][-1]["with"]


def test_the_action_annotates_summarizes_and_fails(clone, berth):
    runner = Runner(clone, berth, **given_on_the_page() | {"cluster": "now.snapshot.gz"})
    said = runner.run(code=1)
    assert f"::error file=k8s/web.yaml,line=2,title=berth check shop/web::{TOO_MUCH}" in said
    assert f"❌ {TOO_MUCH}" in runner.files["GITHUB_STEP_SUMMARY"].read_text()
    assert runner.outputs["verdict"] == "error"
    assert TOO_MUCH in Path(runner.outputs["report"]).read_text()


def test_the_action_of_the_page_asks_several_clusters(clone, berth):
    runner = Runner(clone, berth, **given_on_the_page())
    said = runner.run(code=1)
    assert said.count("::error") == 2 and "in eu::" in said and "in us::" in said
    assert "❌ eu: does not fit" in runner.files["GITHUB_STEP_SUMMARY"].read_text()


def test_the_action_renders_both_sides_and_may_let_a_run_go_on(clone, berth):
    given = {"render": "cat k8s/*.yaml", "cluster": "now.snapshot.gz", "fail-on": "never"}
    runner = Runner(clone, berth, **given)
    runner.run(code=0)
    assert runner.outputs["verdict"] == "error"


def test_what_cannot_be_read_fails_the_action_without_outputs(clone, berth):
    (clone / "k8s/web.yaml").write_text("kind: Deploymint\napiVersion: apps/v1\nmetadata: {name: x}\n")
    runner = Runner(clone, berth, manifests="k8s", cluster="now.snapshot.gz")
    runner.run(code=1)
    assert not runner.files["GITHUB_OUTPUT"].exists()


def test_what_the_action_installs_is_there_and_no_input_is_part_of_a_script():
    install, *_ = steps = ACTION["runs"]["steps"]
    houses = re.search(r"packages/\{(.+)\}", install["run"])[1].split(",")
    assert all((ROOT / "packages" / house / "pyproject.toml").exists() for house in houses)
    assert all(step["shell"] == "bash" and "${{" not in step["run"] for step in steps)
    assert not [step for step in steps if "uses" in step]


# -- GitLab, pre-commit -----------------------------------------------------------------------------------------------


def test_gitlabs_script_fails_and_leaves_its_reports(clone, berth):
    job = FILES["gitlab_ci.yml"]["fits"]
    path = f"{berth}:{os.environ['PATH']}"
    typed("\n".join(job["script"]), clone, 1, PATH=path, CI_MERGE_REQUEST_TARGET_BRANCH_NAME="main")
    (failure,) = ET.parse(clone / job["artifacts"]["reports"]["junit"]).getroot().iter("failure")
    assert failure.get("message") == TOO_MUCH
    assert TOO_MUCH in (clone / job["artifacts"]["paths"][0]).read_text()


def test_pre_commits_hook_compares_with_what_is_committed(clone, berth):
    (hook,) = FILES["pre_commit_config.yaml"]["repos"][0]["hooks"]
    environment = {**os.environ, "PATH": f"{berth}:{os.environ['PATH']}"}

    def commit():
        return subprocess.run(
            shlex.split(hook["entry"]), cwd=clone, env=environment, capture_output=True, text=True, check=False
        )

    assert commit().returncode == 0  # nothing is changed yet
    (clone / "k8s/web.yaml").write_text(deployment("web", 12))
    said = commit()
    assert (said.returncode, "shop/web 10 → 12: 8 have a place" in said.stdout) == (1, True)


def test_a_kustomization_is_typed_as_on_the_page(clone, berth):
    overlay = clone / "overlays/production"
    overlay.mkdir(parents=True)
    overlay.joinpath("kustomization.yaml").write_text("resources: [web.yaml]\nreplicas: [{name: web, count: 20}]\n")
    overlay.joinpath("web.yaml").write_text(deployment("web", 10))
    (line,) = [each for each in pages.commands(PAGE) if each.startswith("kubectl kustomize")]
    said = typed(f"{line} -o markdown", clone, 0, PATH=f"{berth}:{os.environ['PATH']}")
    assert said.startswith("❌ shop/web 0 → 20: 8 have a place; 12 lack 1 CPU")


# -- Argo CD ----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_argo_cds_hook_asks_the_cluster_with_the_role_of_the_page(
    unscheduled_cluster, namespace_name, clone, berth, tmp_path
):
    """The hook is created as Argo CD would, and its container's command runs here with its service account's token."""
    from tests.e2e.kubectl import Kubectl

    kubectl = Kubectl(unscheduled_cluster, tmp_path / "cache")
    hook, account = FILES["presync.yaml"], FILES["presync.yaml"]["spec"]["template"]["spec"]["serviceAccountName"]
    kubectl("create", "namespace", namespace_name)
    kubectl("-n", namespace_name, "create", "serviceaccount", account)
    kubectl("-n", namespace_name, "create", "--dry-run=server", "-f", "-", text=yaml.safe_dump(hook))
    document = yaml.safe_load(unscheduled_cluster.read_text())
    token = kubectl("-n", namespace_name, "create", "token", account).strip()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump({**document, "users": [{**document["users"][0], "user": {"token": token}}]}))
    (container,) = hook["spec"]["template"]["spec"]["containers"]
    command = [part.replace("/source", str(clone)) for part in container["command"]]
    (clone / "k8s/web.yaml").write_text(deployment("web", 2).replace("namespace: shop", f"namespace: {namespace_name}"))
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": f"{berth}:{os.environ['PATH']}"}

    def synced():
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WAIT_S, check=False)

    assert "cannot list resource" in synced().stderr
    binding = ("clusterrolebinding", f"reader-{namespace_name}")
    kubectl("apply", "-f", "-", text=yaml.safe_dump(READER))
    name = READER["metadata"]["name"]
    kubectl("create", *binding, f"--clusterrole={name}", f"--serviceaccount={namespace_name}:{account}")
    try:
        done = synced()
        assert (done.returncode, "1 workload: 2 pods, all placed" in done.stdout) == (0, True), (
            done.stdout + done.stderr
        )
        assert "may not be listed" not in done.stderr
        too_much = deployment("web", 200).replace("namespace: shop", f"namespace: {namespace_name}")
        (clone / "k8s/web.yaml").write_text(too_much)
        assert synced().returncode == 1
    finally:
        kubectl("delete", *binding)
        kubectl("delete", "clusterrole", name)


def test_the_role_of_the_page_is_the_one_that_is_printed():
    printed = json.loads(re.search(r"echo '(.+)' \|", reader_role())[1])
    assert printed == READER
