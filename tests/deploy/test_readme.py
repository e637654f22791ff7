"""What the README and the page about commands show is so: commands are run, and outputs are what was printed.

A command needs what a test cannot have where that is named here. kubectl's are run, flags of `berth` are read
(`test_operations.py`), and what asks a snapshot is asked of a small one. The README's own questions are typed as they
stand there, and their output is compared line by line.
"""

import re
import shlex
import subprocess

import pytest
from click.testing import CliRunner

from berth.cli import main
from tests.deploy.chart import ROOT
from tests.deploy.test_operations import commands, kubectl

__all__ = ["kubectl"]

README, COMMANDS, OPERATIONS = (
    (ROOT / name).read_text() for name in ("README.md", "docs/commands.md", "docs/operations.md")
)
CUT = "…"
"""Stands for what an output has beyond what is shown: lines where it is alone on one, else the rest of a line."""
ASSUMED = "Assumed: the default configuration; --config names another."
NEEDS = {
    "git": "the network",
    "export": "a shell that goes on",
    "docker": "Docker: the recipe is read by test_image.py, and its steps are followed by tests/soak/test_shipping.py",
    "helm": "Helm, by which tests/soak/test_shipping.py renders the chart",
    "pip": "an index: test_release.py installs the wheel in an empty environment, without one",
}
SERVES = {"up", "run", "ui"}
"""Commands that go on until they are ended: tests/e2e and packages/workbench/tests run them."""

CLUSTER = """
kind: List
apiVersion: v1
items:
- {apiVersion: v1, kind: Node, metadata: {name: a, labels: {topology.kubernetes.io/zone: zone-a}}, status: &status {
    capacity: {cpu: "4", memory: 8Gi, pods: "10"}, allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}}
- {apiVersion: v1, kind: Node, metadata: {name: b, labels: {topology.kubernetes.io/zone: zone-b}}, status: *status}
- {apiVersion: v1, kind: Pod, metadata: {name: old, namespace: default}, spec: {nodeName: a, containers: [
    {name: c, image: i, resources: {requests: {cpu: "1"}}}]}, status: {phase: Running}}
"""
POD = (
    "{apiVersion: v1, kind: Pod, metadata: {name: %s}, "
    "spec: {containers: [{name: c, image: i, resources: {requests: {cpu: '%s'}}}]}}"
)
PACKED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""


def shown():
    """The words of every command of both pages, and in the table of ways to install."""
    lines = re.findall(r"^\$ (.*)$", README + COMMANDS, re.MULTILINE)
    install = OPERATIONS.partition("| as | do | needs |")[2].partition("\n\n")[0]
    codes = [code for row in re.findall(r"^\| .*$", install, re.MULTILINE) for code in re.findall(r"`([^`]+)`", row)]
    lines += [code for code in codes if not code.startswith("/")]
    lines = [part for line in lines for part in line.split("&&")]
    return [words for words in (shlex.split(line, comments=True) for line in lines) if words]


def questions():
    """The README's questions: the words of each, and the lines that are shown below it."""
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        *_, (command, said) = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
        if said:
            yield shlex.split(command), said.splitlines()


def is_shortened(shown, printed):
    """Whether the lines shown are the lines printed, in order and without a gap but where it says so."""
    parts = [
        re.escape(line).replace(re.escape(CUT), "[^\n]*") + "\n" if line != CUT else "(?:.*\n)+?" for line in shown
    ]
    return re.fullmatch("".join(parts), "".join(f"{line.rstrip()}\n" for line in printed)) is not None


def test_every_command_is_run_by_a_test_or_needs_something_that_is_named():
    makefile = (ROOT / "Makefile").read_text()
    programs = set()
    for first, *words in shown():
        programs.add(first)
        if first == "make":
            assert re.search(rf"^{words[0]}:", makefile, re.MULTILINE)
        elif first.endswith("berth"):
            assert words[0] in main.list_commands(None)
        else:
            assert first in (*NEEDS, "kubectl", "cd"), first
    assert {*NEEDS} <= programs


def test_the_demo_installs_what_ships_and_nothing_where_the_tests_packages_are(tmp_path):
    def locks():
        words = ["make", "--dry-run", "--no-print-directory", "demo", f"VENV={tmp_path}"]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
        assert f"{tmp_path}/bin/berth demo" in done.stdout
        return set(re.findall(r"--requirement (\S+)", done.stdout))

    assert locks() == {"requirements.lock"}
    (tmp_path / ".installed").touch()
    assert locks() == set()


def test_every_kubectl_command_works(kubectl, monkeypatch):
    monkeypatch.chdir(ROOT)
    found = [words for first, *words in shown() if first == "kubectl"]
    assert len(found) >= 3
    for words in found:
        kubectl(*words)
    kubectl("delete", "deployment", "web")


def asking():
    """What is asked of a snapshot."""
    return [
        words
        for words in commands("docs/commands.md", "berth")
        if "now.snapshot.gz" in words and words[0] not in (*SERVES, "snapshot")
    ]


@pytest.mark.parametrize("words", asking(), ids=lambda words: words[0])
def test_what_is_asked_of_a_snapshot_is_answered(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (
        ("cluster.yaml", CLUSTER),
        ("model.yaml", POD % ("model", 9)),
        ("web.yaml", POD % ("web", 1)),
        ("packed.yaml", PACKED),
    ):
        (tmp_path / name).write_text(text)
    taken = CliRunner().invoke(main, ["snapshot", "cluster.yaml", "-o", "now.snapshot.gz"])
    assert taken.exit_code == 0, taken.output
    answer = CliRunner().invoke(main, words)
    assert answer.exit_code in (0, 1) and answer.output.strip(), answer.output
    assert not isinstance(answer.exception, Exception), answer.exception


def test_there_are_five_questions():
    assert len([*questions()]) == 5


@pytest.mark.parametrize(("words", "said"), [*questions()], ids=lambda value: value[1] if value[0] == "berth" else "")
def test_a_question_of_the_readme_is_answered_as_it_says(words, said, monkeypatch):
    monkeypatch.chdir(ROOT)
    answer = CliRunner().invoke(main, words[1:])
    first, *printed = answer.stdout.splitlines()
    assert first == ASSUMED
    assert is_shortened(said, printed), answer.output


def test_lines_that_are_left_out_without_a_word_are_noticed():
    assert is_shortened(["a", CUT, "d"], ["a", "b", "c", "d"])
    assert is_shortened(["a b …"], ["a b (c)"])
    assert not is_shortened(["a", "d"], ["a", "b", "d"])
    assert not is_shortened(["a"], ["a", "b"])
    assert not is_shortened(["b"], ["a", "b"])
    assert not is_shortened(["a", CUT, "b"], ["a", "b"])
