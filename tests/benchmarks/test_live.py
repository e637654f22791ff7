"""The live benchmark: a whole scheduler against an API server of its own process."""

import json
import subprocess
import sys

from benchmarks.live import percentile_ms
from tests.paths import ROOT


def test_a_run_measures_the_whole_process_and_its_requests():
    command = [sys.executable, ROOT / "benchmarks/live.py", "--workload", "basic/5/20"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = json.loads(done.stdout)
    assert (found["pods"], found["bound"]) == (20, 20)
    assert found["requests_per_pod"]["POST pods/binding"] == 1.0
    assert found["cpu_s"] > 0.1 < found["first_binding_s"]
    assert found["peak_mb"] > 30
    assert found["api_server_cpu_ms_per_pod"] > 0
    assert found["machine"]["cores"] >= 1
    assert "median of 1" in done.stderr


def test_a_command_that_ends_is_told_and_not_waited_for():
    command = [sys.executable, ROOT / "benchmarks/live.py", "--workload", "basic/1/1", "--", "false"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (1, "the command ended with 1 while 1 pods were waiting\n")


def test_percentiles_are_waits_that_were_measured():
    waits = [number / 1000 for number in range(1, 101)]
    assert [percentile_ms(waits, percent) for percent in (1, 50, 99, 100)] == [1.0, 50.0, 99.0, 100.0]
    assert percentile_ms([], 50) is None
