"""`--for` and `--jobs` of the commands: an end in time that says so, and a number of processes that changes nothing."""

import json

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from berth.cli import main
from berth_workbench import questions
from berth_workbench.questions.question import Question
from packages.workbench.tests.planning.test_survival import node, pod
from packages.workbench.tests.questions.every import QUESTIONS

ASKED = {
    "survive": ("survive",),
    "capacity": ("capacity", "-f", "{pod}"),
    "whatif": ("whatif", "--drain", "n1"),
    "wait": ("wait",),
    "autoscale": ("autoscale", "--groups", "{groups}"),
    "upgrade-plan": ("upgrade-plan",),
    "rebalance": ("rebalance", "--goal", "empty-nodes"),
    "compare": ("compare", "default", "default", "--replace-all"),
    "shrink": ("shrink", "--usage", "{usage}"),
    "explain": ("explain", "--what-would-help"),
}

OF_ITSELF = {"whatif": (questions.whatif.WhatIfRun, "run"), "survive": (questions.survive, "survival")}
"""What makes the answers of some questions."""


@pytest.fixture
def run(tmp_path):
    """Run a command about a small cluster in a file."""
    objects = [node("n1"), node("n2"), pod("a", "n1", "2"), pod("b", "n2", "2"), pod("c", cpu="3"), pod("d", cpu="9")]
    files = {
        "pod": yaml.safe_dump(pod("new").document),
        "groups": yaml.safe_dump({"groups": [{"name": "std"}]}),
        "usage": "name,cpu,memory\ndefault/a,1,1Gi\n",
    }
    paths = {name: str(tmp_path / f"{name}.{'csv' if name == 'usage' else 'yaml'}") for name in files}
    for name, text in files.items():
        (tmp_path / paths[name]).write_text(text)
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([each.document for each in objects]))

    def invoke(name, *more):
        words = [word.format(**paths) for word in ASKED[name]]
        return CliRunner().invoke(main, [*words, "--cluster", str(tmp_path / "cluster.yaml"), *more])

    return invoke


@pytest.mark.parametrize("name", ASKED)
def test_time_that_is_up_before_there_is_anything_is_said(name, run):
    found = run(name, "--for", "1ns", "-o", "json")
    assert (found.exit_code, found.stdout) == (3, ""), "neither Yes nor No"
    assert "the time of --for was up before the end, and before there was anything to tell" in found.stderr


@pytest.mark.parametrize(("flag", "name"), [("--fail-on-broken", "whatif"), ("--fail-on-loss", "survive")])
@pytest.mark.parametrize("output", ["table", "json"])
def test_a_script_learns_neither_yes_nor_no_from_an_answer_that_was_cut_short(name, flag, output, run, monkeypatch):
    """As if the time were up just before the end."""
    assert run(name, flag).exit_code == 0, "nothing breaks"
    whole = getattr(*OF_ITSELF[name])

    def cut_short(*given, **more):
        return msgspec.structs.replace(whole(*given, **more), is_complete=False)

    monkeypatch.setattr(*OF_ITSELF[name], cut_short)
    found = run(name, flag, "-o", output)
    assert found.exit_code == 3
    if output == "json":
        assert json.loads(found.stdout)["isComplete"] is False
    else:
        assert "\nNot known: stopped while " in found.stdout and "Yes" not in found.stdout


@pytest.mark.parametrize("how", [(), ("--commands",), ("-o", "json")])
def test_a_plan_without_moves_that_was_cut_short_is_none(how, run, monkeypatch):
    """One with moves is a plan, however short."""
    whole = questions.rebalance.rebalance

    def cut_short(*given):
        return msgspec.structs.replace(whole(*given), is_complete=False)

    monkeypatch.setattr(questions.rebalance, "rebalance", cut_short)
    found = run("rebalance", "--goal", "repair-spread", *how)
    last = found.stderr.splitlines()[-1]
    assert (found.exit_code, last) == (3, "Error: stopped before the end; this is what was found by then")
    assert "No moves" not in found.stdout


@pytest.mark.parametrize("name", ASKED)
def test_time_that_is_enough_changes_nothing(name, run):
    plain, timed = run(name, "-o", "json"), run(name, "-o", "json", "--for", "10m")
    assert timed.exit_code == plain.exit_code == 0, timed.output
    assert json.loads(timed.stdout) == json.loads(plain.stdout)


@pytest.mark.parametrize(
    ("text", "said"), [("soon", "is not a duration"), ("0s", "no time to do anything in"), ("-5s", "no time to do")]
)
def test_what_is_no_time_is_refused(text, said, run):
    found = run("survive", "--for", text)
    assert found.exit_code == 2 and said in found.stderr


def test_jobs_are_offered_where_they_are_of_use():
    def has_jobs(question: Question):
        command = main.get_command(None, question.name)
        return any(each.name == "jobs" for each in command.params)

    assert {name for name, each in QUESTIONS.items() if has_jobs(each)} == {
        name for name, each in QUESTIONS.items() if each.is_parallel
    }
