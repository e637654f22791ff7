"""`berth observe` with a stream: what programs read, the lines that people read, candidates, and bad input."""

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from berth.cli import main
from berth.cli.scheduler_in_use import SchedulerInUse

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


def test_the_report_of_a_running_observer_is_read_as_it_was_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stream = tmp_path / "events"
    stream.write_bytes(
        b"\n".join(gzip.decompress(STREAM.with_name("sampled.jsonl.gz").read_bytes()).splitlines()[:1200])
    )
    written = json.loads(run("--events", stream, "--report", "-o", "json"))
    assert written["lostPoints"] and written["lagsMs"]
    monkeypatch.setattr(SchedulerInUse, "ask", lambda *_: written)
    assert json.loads(run("--report", "-o", "json")) == written
    assert any("a better node was not looked at" in line for line in run("--report").splitlines())


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


def test_the_measures_under_a_candidate_are_those_of_compare(tmp_path: Path) -> None:
    """The beginning of a stream, so that it takes a second: 90 nodes, and the first pods."""
    header, *lines = gzip.decompress(STREAM.read_bytes()).splitlines()[:200]
    stream, packing, theirs = (tmp_path / name for name in ("events", "packing.yaml", "theirs.yaml"))
    stream.write_bytes(b"\n".join([header, *lines]))
    packing.write_text(PACKING)
    theirs.write_text(json.dumps(json.loads(header)["configuration"]))
    told = ("--events", stream, "--candidate", packing, "--measures")
    (measures,) = json.loads(run(*told, "--report", "-o", "json"))["measures"].values()
    compared = CliRunner().invoke(
        main, ["compare", str(theirs), str(packing), "--events", str(stream), "-o", "json"], catch_exceptions=False
    )
    assert measures == json.loads(compared.stdout)["measures"]
    used = next(each for each in measures if each["name"] == "nodesUsed")
    assert used["b"] < used["a"] and used["better"] == "b"
    assert {"utilisation.cpu", "utilisation.example.com/gpu", "fragmentation.memory", "pendingMean"} <= {
        each["name"] for each in measures
    }
    lines_told = run(*told).splitlines()
    assert any(line.startswith("packing would have decided otherwise") for line in lines_told)
    (simulated,) = [line for line in lines_told if line.startswith("If packing had decided about all of them")]
    assert f"better: nodesUsed {used['a']:.3g} → {used['b']:.3g}" in simulated


@pytest.mark.parametrize(
    "beside", [(), ("--candidate", "packing.yaml"), ("--events", "-", "--candidate", "packing.yaml")]
)
def test_measures_need_a_candidate_and_events_that_can_be_read_twice(beside: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, ["observe", "--measures", *beside])
    assert result.exit_code == 2 and "--measures goes with --candidate" in result.output


def test_measures_are_refused_where_nothing_would_tell_them() -> None:
    words = ["observe", "--measures", "--events", __file__, "--candidate", "packing.yaml", "-o", "json"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2 and "add --report" in result.output
