"""What draws costs and what measures days: that they measure what they say, on workloads that take no time."""

import io
import json
import subprocess
import sys
from collections import Counter

import pytest

from benchmarks import growth
from benchmarks.scenarios import write
from tests.paths import ROOT


def test_running_pods_are_taken_from_those_of_the_workload_and_lie_evenly():
    out = io.StringIO()
    write("devices", 4, 10, out)
    given = out.getvalue().splitlines(keepends=True)
    found = [json.loads(line) for line in growth.with_running(given, 8)]
    assert len(found) == len(given)
    nodes = [one["spec"].get("nodeName", "") for one in found if one["kind"] == "Pod"]
    assert Counter(nodes) == {"node-00000": 2, "node-00001": 2, "node-00002": 2, "node-00003": 2, "": 2}
    assert list(growth.with_running(given, 0)) == given


def test_a_cost_is_that_of_the_pods_that_do_not_run_yet():
    assert growth.cost_ms("affinity", nodes=3, pods=5, running=6, runs=1) > 0


def test_pods_that_find_no_place_are_no_cost():
    with pytest.raises(SystemExit, match=r"'failed': 1"):
        growth.cost_ms("anti", nodes=2, pods=3, running=0, runs=1)


def test_a_picture_and_a_table_are_made_of_the_costs(monkeypatch, tmp_path, capsys):
    costs = {"basic": 1.0, "mixed": 2.0, "unique": 3.0, "affinity": 4.0}
    monkeypatch.setattr(growth, "cost_ms", lambda scenario, nodes, **_: costs[scenario] + nodes / 100_000)
    monkeypatch.setattr(sys, "argv", ["growth.py", "--to", str(tmp_path / "growth.svg")])
    growth.main()
    assert "| 50,000 | 1.500 | 2.500 | 3.500 | 4.500 |" in capsys.readouterr().out
    drawn = (tmp_path / "growth.svg").read_text()
    assert all(told in drawn for told in ("What a pod costs the engine", "ms of CPU a pod", *costs))


@pytest.mark.long
def test_days_are_lived_in_turn_and_told_as_a_table():
    command = [sys.executable, ROOT / "benchmarks/days.py", "--pods", "300", "--nodes", "4", "0.9", "1.5"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:1] == "|"]
    assert [row[0] for row in rows[2:]] == ["0.9", "1.5"]
    assert rows[2][3] == "1.00"
    assert float(rows[3][5].split()[0]) > float(rows[2][5].split()[0]), "with more load pods wait for longer"
