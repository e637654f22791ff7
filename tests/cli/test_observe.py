"""`berth observe` with a stream: what programs read, the lines that people read, candidates, and bad input."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from berth.cli import main

STREAM = Path(__file__).parents[1] / "conformance/observed/calm.jsonl.gz"
PACKING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""


def run(*arguments: object) -> str:
    result = CliRunner().invoke(main, ["observe", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_programs_get_a_decision_for_each_pod_that_was_bound() -> None:
    found = json.loads(run("--events", STREAM, "-o", "json"))
    assert list(found) == ["pods", "agrees", "couldHaveSeen", "sampled", "otherwise", "decisions"]
    assert found["pods"] == found["agrees"] == len(found["decisions"]) == 314
    for decision in found["decisions"]:
        assert list(decision) == ["pod", "node", "result", "best", "totals", "lagMs"]
        assert decision["node"] in decision["best"] and decision["lagMs"] == 0
        assert decision["totals"][decision["node"]] == max(decision["totals"].values())


def test_people_get_the_story_in_a_few_lines() -> None:
    lines = run("--events", STREAM).splitlines()
    assert lines[0] == "100 % of 314 pods went where they would have gone here."
    assert len(lines) <= 10
    assert any("4 of 4 failures" in line for line in lines)


def test_a_candidate_decides_about_the_same_pods(tmp_path: Path) -> None:
    (tmp_path / "packing.yaml").write_text(PACKING)
    report = json.loads(run("--events", STREAM, "--report", "--candidate", tmp_path / "packing.yaml", "-o", "json"))
    (candidate,) = report["candidates"]
    assert candidate["shadow"] == "packing" and candidate["of"] == "default-scheduler"
    assert candidate["kinds"]["elsewhere"] > 200
    assert {cause["plugin"] for cause in candidate["causes"]} == {"NodeResourcesFit"}
    assert report["results"]["agrees"] == 314, "what the other scheduler is held to stays the same"


def test_pods_of_other_schedulers_are_left_out() -> None:
    assert json.loads(run("--events", STREAM, "--scheduler-name", "mine", "-o", "json"))["pods"] == 0


@pytest.mark.parametrize(
    ("text", "says"), [("{", "does not end"), ('{"kind": "Pod", "metadata": {}}\n', "--output-watch-events")]
)
def test_what_cannot_be_read_is_told_in_words(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "events").write_text(text)
    result = CliRunner().invoke(main, ["observe", "--events", str(tmp_path / "events")])
    assert result.exit_code == 1 and says in result.output
    assert "Traceback" not in result.output


def test_the_file_of_a_wrong_configuration_is_named(tmp_path: Path) -> None:
    config = tmp_path / "theirs.yaml"
    config.write_text(PACKING.replace("NodeResourcesFit", "NodeResourcesFat"))
    result = CliRunner().invoke(main, ["observe", "--events", str(STREAM), "--config", str(config)])
    assert result.exit_code == 2
    assert str(config) in result.output and 'plugin "NodeResourcesFat" does not exist' in result.output
