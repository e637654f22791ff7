"""The live benchmark: a whole scheduler against an API server of its own process, and other people's workload files."""

import json
import subprocess
import sys

import pytest
import yaml
from benchmarks.live import percentile_ms
from benchmarks.scheduler_perf import PerfError, read_case

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


POD = """apiVersion: v1
kind: Pod
metadata:
  generateName: pod-
  labels: {index: "{{.Index}}"}
spec:
  containers: [{name: pause, image: pause}]
"""

TESTS = [
    {
        "name": "Basic",
        "defaultPodTemplatePath": "pod.yaml",
        "workloadTemplate": [
            {"opcode": "createNodes", "countParam": "$nodes",
             "labelNodePrepareStrategy": {"labelKey": "zone", "labelValues": ["a", "b"]}},
            {"opcode": "createNamespaces", "prefix": "sched", "count": 2},
            {"opcode": "createPods", "countParam": "$init", "namespace": "sched-0"},
            {"opcode": "createPods", "count": 3, "namespace": "sched-1", "skipWaitToCompletion": True},
            {"opcode": "barrier", "namespaces": ["sched-1"], "labelSelector": {"index": "2"}},
            {"opcode": "churn", "mode": "create", "number": 2, "intervalMilliseconds": 100,
             "templatePaths": ["pod.yaml"]},
            {"opcode": "sleep", "duration": "1m500ms"},
            {"opcode": "startCollectingMetrics", "name": "x"},
            {"opcode": "createPods", "count": 4, "collectMetrics": True},
            {"opcode": "stopCollectingMetrics"},
        ],
        "workloads": [{"name": "small", "params": {"nodes": 3, "init": 2}}, {"name": "odd", "params": {"nodes": 1}}],
    },
    {"name": "Unknown", "workloadTemplate": [{"opcode": "levitate"}], "workloads": [{"name": "any"}]},
]  # fmt: skip


@pytest.fixture
def file(tmp_path):
    (tmp_path / "pod.yaml").write_text(POD)
    path = tmp_path / "performance-config.yaml"
    path.write_text(yaml.safe_dump(TESTS))
    return path


def test_a_workload_in_scheduler_perfs_words(file):
    steps = read_case(file, "Basic", "small")
    made = [list(step.documents) for step in steps]
    nodes = made[0]
    assert [node["metadata"]["labels"]["zone"] for node in nodes] == ["a", "b", "a"]
    assert len({node["metadata"]["name"] for node in nodes}) == 3
    assert steps[0].is_before_start
    namespaces = [one["metadata"]["name"] for found in made for one in found if one["kind"] == "Namespace"]
    assert {"sched-0", "sched-1"} <= set(namespaces)
    pods = [found for found in made if found and found[0]["kind"] == "Pod"]
    assert [len(found) for found in pods] == [2, 3, 1, 1, 4]
    assert pods[0][1]["metadata"]["labels"] == {"index": "1"}
    awaited = [len(step.awaited) for step in steps if step.awaited]
    assert awaited == [2, 1, 4], "pods of createPods unless it skips that, and those that a barrier names"
    assert sum(step.pause_s for step in steps) == pytest.approx(60.5 + 0.1)
    assert [len(list(step.documents)) for step in steps if step.is_measured] == [4]


@pytest.mark.parametrize(
    ("test", "case", "why"),
    [
        ("Basic", "huge", "workload 'huge' is not there; there are small, odd"),
        ("Basic", "odd", "the workload has no parameter $init"),
        ("Nobody", "", "test 'Nobody' is not there; there are Basic, Unknown"),
        ("Unknown", "any", "operation 0: opcode 'levitate' is not understood"),
    ],
)
def test_what_cannot_be_used_is_told_with_its_place(file, test, case, why):
    with pytest.raises(PerfError, match=r"performance-config\.yaml") as refused:
        read_case(file, test, case)
    assert why in str(refused.value)
